-- A change holds its JSON alone, with its time in a column of its own. Where
-- "at" is null the data is a whole record, as the first schema wrote it.
ALTER TABLE changes ADD COLUMN at INTEGER;

-- The last change that a commit adds says what the commit was; first_seq is
-- not null there. The table of commits is for those that add none.
ALTER TABLE changes ADD COLUMN first_seq INTEGER;
ALTER TABLE changes ADD COLUMN commit_id TEXT;
ALTER TABLE changes ADD COLUMN action TEXT;
ALTER TABLE changes ADD COLUMN actor TEXT;
ALTER TABLE changes ADD COLUMN sealed_at INTEGER;

-- Heads stay as they are written, so none has to be told from the others.
ALTER TABLE sessions DROP COLUMN kept;

-- A session is open while its tail has changes in force or its execution
-- runs. Appending to an open tail leaves the index alone.
DROP INDEX sessions_open;
ALTER TABLE sessions RENAME COLUMN running TO open;
UPDATE sessions SET open = 1 WHERE tail_live > 0;
CREATE INDEX sessions_open ON sessions (tenant, id) WHERE open > 0;

-- Empty as long as all is well. The form of a header is looked at and not its
-- content, because every save asks.
DROP INDEX sessions_unreadable;
CREATE INDEX sessions_unreadable ON sessions (tenant, id)
	WHERE header NOT GLOB '{"format":"holdfast.session","formatVersion":1,"header":{*}}';

-- For listings of the few among many. No save writes to them, so the order of
-- updates is not part of them.
CREATE INDEX sessions_by_status ON sessions (tenant, status);
CREATE INDEX sessions_by_kind ON sessions (tenant, kind);
CREATE INDEX sessions_by_agent ON sessions (tenant, agent_name);
CREATE INDEX sessions_by_user ON sessions (tenant, user_id) WHERE user_id <> '';

-- Hashes of the metadata that filters ask for. They narrow a search, the
-- metadata decides. Sessions that are not tagged are always looked at. Opening
-- the database tags those of earlier programs.
ALTER TABLE sessions ADD COLUMN tagged INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_untagged ON sessions (tenant) WHERE tagged = 0;

CREATE TABLE tags (
	tenant TEXT    NOT NULL,
	tag    INTEGER NOT NULL,
	log    INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
	PRIMARY KEY (tenant, tag, log)
) WITHOUT ROWID;
CREATE INDEX tags_by_log ON tags (log, tag);

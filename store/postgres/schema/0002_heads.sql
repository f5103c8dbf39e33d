-- Heads leave the rows of their sessions: a save writes what it changes and
-- not everything the session has come to be. The last version is folded from
-- the newest snapshot and the few changes since.

INSERT INTO snapshots (sid, version, seq, head)
    SELECT sid, version, seq, head FROM sessions ON CONFLICT (sid, version) DO NOTHING;

DROP INDEX sessions_by_update, sessions_at_work, sessions_unreadable;

-- An update that alters no indexed column stays within its page and touches
-- no index. So what is indexed changes seldom: at_work in the place of live
-- and running, unreadable in that of the header it is about, updated_slot in
-- that of updated_at.
ALTER TABLE sessions
    DROP COLUMN head,
    DROP COLUMN head_sum,
    ADD COLUMN snap_version bigint NOT NULL DEFAULT 0,      -- of the newest snapshot
    ADD COLUMN snap_bytes   bigint NOT NULL DEFAULT 0,      -- length of its head
    ADD COLUMN unfolded     bigint NOT NULL DEFAULT 0,      -- bytes of the changes since, the open tail's included
    ADD COLUMN tail_rows    bytea,                          -- the open tail's task and workflow rows, where it has any
    ADD COLUMN at_work      boolean NOT NULL DEFAULT false, -- live > 0 OR running
    ADD COLUMN updated_slot bigint NOT NULL DEFAULT 0,      -- updated_at in microseconds, shifted right by 18: quarters of a second
    ADD COLUMN unreadable   boolean NOT NULL GENERATED ALWAYS AS (format <> 1 OR header_sum <> sha256(header)) STORED;

UPDATE sessions s SET
    snap_version = s.version,
    snap_bytes   = (SELECT octet_length(n.head) FROM snapshots n WHERE n.sid = s.sid AND n.version = s.version),
    unfolded     = (SELECT coalesce(sum(octet_length(c.body)), 0) FROM changes c WHERE c.log = s.sid AND c.seq > s.seq),
    at_work      = s.live > 0 OR s.running,
    updated_slot = floor(extract(epoch FROM s.updated_at) * 1000000)::bigint >> 18;

-- Rows of one slot are sorted when they are read.
CREATE INDEX sessions_by_update ON sessions (tenant, updated_slot DESC);
CREATE INDEX sessions_by_agent ON sessions (tenant, agent_name, updated_slot DESC);
CREATE INDEX sessions_by_user ON sessions (tenant, user_id, updated_slot DESC) WHERE user_id IS NOT NULL;
CREATE INDEX sessions_by_name ON sessions (tenant, name, updated_slot DESC) WHERE name IS NOT NULL;
-- What most sessions are is found in the order of updates quickly enough.
CREATE INDEX sessions_by_kind ON sessions (tenant, kind, updated_slot DESC) WHERE kind <> 'chat';
CREATE INDEX sessions_by_status ON sessions (tenant, status, updated_slot DESC) WHERE status <> 'active';
CREATE INDEX sessions_at_work ON sessions (tenant, id) WHERE at_work;
-- What cannot be read is named on every page of every listing.
CREATE INDEX sessions_unreadable ON sessions (tenant, id) WHERE unreadable;

-- An item is marked when it is taken, and unmarked when it is given back, so
-- that a save has nothing to do with the inbox.
UPDATE inbox i SET taken = true FROM takings t WHERE t.sid = i.sid AND t.item_id = i.item_id AND NOT i.taken;
COMMENT ON COLUMN inbox.taken IS 'a change in force took it';

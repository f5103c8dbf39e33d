-- A save writes what it changes and not everything the session has come to be.
-- Heads leave the rows of their sessions: the last version is folded from the
-- newest snapshot and the few changes since.

INSERT INTO snapshots (sid, version, seq, head)
    SELECT sid, version, seq, head FROM sessions ON CONFLICT (sid, version) DO NOTHING;

-- What listings search and order by, apart from the rows that every write
-- moves on: it changes seldom, and all its indexes only when it does.
CREATE TABLE listing (
    sid          bigint PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    tenant       text COLLATE "C" NOT NULL,
    updated_slot bigint NOT NULL, -- sessions.updated_at in microseconds, shifted right by 18: quarters of a second
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,

    -- Copies of the header. NULL is a text that cannot be a text here, or none
    -- at all.
    kind         text COLLATE "C",
    status       text COLLATE "C",
    origin       text COLLATE "C",
    name         text COLLATE "C",
    user_id      text COLLATE "C",
    parent_id    text COLLATE "C",
    agent_name   text COLLATE "C",
    task_status  text COLLATE "C",
    flow_status  text COLLATE "C"
) WITH (fillfactor = 80);

INSERT INTO listing (sid, tenant, updated_slot, created_at, expires_at,
        kind, status, origin, name, user_id, parent_id, agent_name, task_status, flow_status)
    SELECT sid, tenant, floor(extract(epoch FROM updated_at) * 1000000)::bigint >> 18, created_at, expires_at,
        kind, status, origin, name, user_id, parent_id, agent_name, task_status, flow_status FROM sessions;

-- Rows of one slot are sorted when they are read.
CREATE INDEX listing_by_update ON listing (tenant, updated_slot DESC);
CREATE INDEX listing_by_creation ON listing (tenant, created_at DESC);
CREATE INDEX listing_by_agent ON listing (tenant, agent_name, updated_slot DESC);
CREATE INDEX listing_by_user ON listing (tenant, user_id, updated_slot DESC) WHERE user_id IS NOT NULL;
CREATE INDEX listing_by_name ON listing (tenant, name, updated_slot DESC) WHERE name IS NOT NULL;
CREATE INDEX listing_by_parent ON listing (tenant, parent_id, updated_slot DESC) WHERE parent_id IS NOT NULL;
-- What most sessions are is found in the order of updates quickly enough.
CREATE INDEX listing_by_kind ON listing (tenant, kind, updated_slot DESC) WHERE kind <> 'chat';
CREATE INDEX listing_by_status ON listing (tenant, status, updated_slot DESC) WHERE status <> 'active';

DROP INDEX sessions_by_update, sessions_at_work, sessions_unreadable;
ALTER TABLE sessions
    DROP COLUMN head,
    DROP COLUMN head_sum,
    DROP COLUMN kind,
    DROP COLUMN status,
    DROP COLUMN origin,
    DROP COLUMN name,
    DROP COLUMN user_id,
    DROP COLUMN parent_id,
    DROP COLUMN agent_name,
    DROP COLUMN task_status,
    DROP COLUMN flow_status,
    DROP COLUMN created_at,
    DROP COLUMN expires_at,
    ADD COLUMN snap_version bigint NOT NULL DEFAULT 0,      -- of the newest snapshot
    ADD COLUMN snap_bytes   bigint NOT NULL DEFAULT 0,      -- length of its head
    ADD COLUMN unfolded     bigint NOT NULL DEFAULT 0,      -- bytes of the changes since, the open tail's included
    ADD COLUMN messages     bigint,                         -- the header's messageCount where it is not NULL
    ADD COLUMN tail_rows    bytea,                          -- the open tail's task and workflow rows, where it has any
    ADD COLUMN at_work      boolean NOT NULL DEFAULT false, -- live > 0 OR running
    -- An update that alters no indexed column stays within its page and touches
    -- no index: this one does not change when the header does.
    ADD COLUMN unreadable   boolean NOT NULL GENERATED ALWAYS AS (format <> 1 OR header_sum <> sha256(header)) STORED;
COMMENT ON COLUMN sessions.header IS 'but for version, seq, updatedAt and messageCount, which have columns';

UPDATE sessions s SET
    snap_version = s.version,
    snap_bytes   = (SELECT octet_length(n.head) FROM snapshots n WHERE n.sid = s.sid AND n.version = s.version),
    unfolded     = (SELECT coalesce(sum(octet_length(c.body)), 0) FROM changes c WHERE c.log = s.sid AND c.seq > s.seq),
    at_work      = s.live > 0 OR s.running;

CREATE INDEX sessions_at_work ON sessions (tenant, id) WHERE at_work;
-- What cannot be read is named on every page of every listing.
CREATE INDEX sessions_unreadable ON sessions (tenant, id) WHERE unreadable;

-- An item is marked when it is taken, and unmarked when it is given back, so
-- that a save has nothing to do with the inbox.
UPDATE inbox i SET taken = true FROM takings t WHERE t.sid = i.sid AND t.item_id = i.item_id AND NOT i.taken;
COMMENT ON COLUMN inbox.taken IS 'a change in force took it';

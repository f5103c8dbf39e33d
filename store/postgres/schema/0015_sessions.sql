-- Every save moves the row of its session on, and pays for what the row is made
-- of: for each computed column, whether or not it is computed again, and for each
-- column of earlier schemas, which the server keeps as a gap. This table has
-- neither.
ALTER TABLE snapshots DROP CONSTRAINT snapshots_sid_fkey;
ALTER TABLE lineage DROP CONSTRAINT lineage_sid_fkey;
ALTER TABLE inbox DROP CONSTRAINT inbox_sid_fkey;
ALTER TABLE keys DROP CONSTRAINT keys_sid_fkey;
ALTER TABLE listing DROP CONSTRAINT listing_sid_fkey;
ALTER TABLE tags DROP CONSTRAINT tags_sid_fkey;

ALTER TABLE sessions RENAME TO earlier_sessions;
ALTER SEQUENCE sessions_sid_seq RENAME TO earlier_sessions_sid_seq;
ALTER TABLE earlier_sessions RENAME CONSTRAINT sessions_pkey TO earlier_sessions_pkey;
ALTER TABLE earlier_sessions RENAME CONSTRAINT sessions_tenant_id_key TO earlier_sessions_tenant_id_key;
DROP INDEX sessions_at_work, sessions_unreadable, sessions_pending, sessions_due;

-- One row per session: what every write compares and moves on, and the lease.
-- Every write to a session locks this row first. An update that alters no
-- indexed column stays within its page and touches no index.
CREATE TABLE sessions (
    sid            bigint GENERATED ALWAYS AS IDENTITY,
    tenant         text COLLATE "C" NOT NULL,
    id             text COLLATE "C" NOT NULL,
    agent_id       text COLLATE "C" NOT NULL,

    version        bigint NOT NULL,
    seq            bigint NOT NULL, -- last change of the version
    last_seq       bigint NOT NULL, -- last change of all, the open tail included
    last_sum       bigint NOT NULL, -- of record last_seq
    row_sum        bigint NOT NULL, -- of what the row says of the last version
    write_id       uuid NOT NULL,   -- of the last save or append
    posts          bigint NOT NULL DEFAULT 0,
    messages       bigint,          -- the header's messageCount where it is not NULL
    updated_at     timestamptz NOT NULL,

    live           bigint NOT NULL,  -- changes of the tail that are in force
    running        boolean NOT NULL, -- an execution is open, tail included
    at_work        boolean NOT NULL, -- live > 0 OR running
    due            timestamptz,      -- when somebody should work on it; -infinity: an earlier program left that open
    snap_version   bigint NOT NULL,  -- of the newest snapshot
    snapshot_bytes bigint NOT NULL,  -- length of its head
    unfolded       bigint NOT NULL DEFAULT 0, -- bytes of the changes since, the open tail's included
    tail_rows      bytea,            -- the open tail's task and workflow rows, where it has any

    -- The newest lease. Its token stays when it ends: late writers are
    -- measured by it.
    lease_token    bigint NOT NULL DEFAULT 0,
    lease_holder   bytea NOT NULL DEFAULT '',
    lease_until    timestamptz NOT NULL DEFAULT 'epoch',
    lease_ended    boolean NOT NULL DEFAULT true,
    lease_id       uuid, -- of the call that took it

    -- What hardly ever changes comes last: the server's log of an update leaves
    -- it out, because old and new row end alike.
    format         integer NOT NULL,
    unreadable     boolean NOT NULL DEFAULT false, -- format or header_sum are wrong; set by a trigger
    pending        boolean NOT NULL,               -- calls wait for a response
    header         bytea NOT NULL, -- but for version, seq, updatedAt and messageCount, which have columns
    header_sum     bytea NOT NULL, -- sha256
    shown_from     bigint[] NOT NULL, -- stretches of the log that hold the
    shown_to       bigint[] NOT NULL  -- window's messages, in order
) WITH (fillfactor = 70);

INSERT INTO sessions (sid, tenant, id, agent_id, version, seq, last_seq, last_sum, row_sum, write_id, posts, messages, updated_at,
        live, running, at_work, due, snap_version, snapshot_bytes, unfolded, tail_rows,
        lease_token, lease_holder, lease_until, lease_ended, lease_id, format, unreadable, pending, header, header_sum, shown_from, shown_to)
    OVERRIDING SYSTEM VALUE
    SELECT sid, tenant, id, agent_id, version, seq, last_seq, last_sum, row_sum, write_id, posts, messages, updated_at,
        live, running, at_work, due, snap_version, head_bytes, unfolded, tail_rows,
        lease_token, lease_holder, lease_until, lease_ended, lease_id, format, unreadable, pending, header, header_sum, shown_from, shown_to
    FROM earlier_sessions ORDER BY sid;

-- Numbers of sessions that are gone may still name logs that forks share.
SELECT setval(pg_get_serial_sequence('sessions', 'sid'), last_value, is_called) FROM earlier_sessions_sid_seq;
DROP TABLE earlier_sessions;

ALTER TABLE sessions ADD PRIMARY KEY (sid), ADD UNIQUE (tenant, id);
CREATE INDEX sessions_at_work ON sessions (tenant, id) WHERE at_work;
-- What cannot be read is named on every page of every listing.
CREATE INDEX sessions_unreadable ON sessions (tenant, id) WHERE unreadable;
CREATE INDEX sessions_pending ON sessions (tenant, id) WHERE pending;
CREATE INDEX sessions_due ON sessions (tenant, due) WHERE due IS NOT NULL;

ALTER TABLE snapshots ADD FOREIGN KEY (sid) REFERENCES sessions ON DELETE CASCADE;
ALTER TABLE lineage ADD FOREIGN KEY (sid) REFERENCES sessions ON DELETE CASCADE;
ALTER TABLE inbox ADD FOREIGN KEY (sid) REFERENCES sessions ON DELETE CASCADE;
ALTER TABLE keys ADD FOREIGN KEY (sid) REFERENCES sessions ON DELETE CASCADE;
ALTER TABLE listing ADD FOREIGN KEY (sid) REFERENCES sessions ON DELETE CASCADE;
ALTER TABLE tags ADD FOREIGN KEY (sid) REFERENCES sessions ON DELETE CASCADE;

-- It runs only where a statement sets one of these columns, and so not with most
-- saves.
CREATE FUNCTION mark_unreadable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('UPDATE %s SET unreadable = NOT unreadable WHERE sid = $1', TG_RELID::regclass) USING NEW.sid;
    RETURN NULL;
END
$$;
CREATE TRIGGER mark_unreadable AFTER INSERT OR UPDATE OF format, header, header_sum ON sessions FOR EACH ROW
    WHEN (NEW.unreadable <> (NEW.format <> 1 OR NEW.header_sum <> sha256(NEW.header)))
    EXECUTE FUNCTION mark_unreadable();

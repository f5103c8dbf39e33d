-- Text is compared by its bytes, whatever the database's locale. JSON is kept
-- as bytea, because it must come back byte by byte and may hold \u0000.

CREATE SEQUENCE lease_tokens CACHE 1;

-- One row per session: the last version without its messages, and the lease.
-- Every write to a session locks this row first.
CREATE TABLE sessions (
    sid          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant       text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    agent_id     text COLLATE "C" NOT NULL,

    version      bigint NOT NULL,
    seq          bigint NOT NULL, -- last change of the version
    last_seq     bigint NOT NULL, -- last change of all, the open tail included
    write_id     uuid NOT NULL,   -- of the last save or append
    posts        bigint NOT NULL DEFAULT 0,

    format       integer NOT NULL,
    head         bytea NOT NULL,
    head_sum     bytea NOT NULL, -- sha256
    header       bytea NOT NULL, -- with the open tail's task and workflow rows
    header_sum   bytea NOT NULL,
    shown_from   bigint[] NOT NULL, -- stretches of the log that hold the
    shown_to     bigint[] NOT NULL, -- window's messages, in order

    live         bigint NOT NULL,  -- changes of the tail that are in force
    running      boolean NOT NULL, -- an execution is open, tail included

    -- Copies of the header to find and order by. NULL is a text that cannot
    -- be a text here, or none at all.
    kind         text COLLATE "C",
    status       text COLLATE "C",
    origin       text COLLATE "C",
    name         text COLLATE "C",
    user_id      text COLLATE "C",
    parent_id    text COLLATE "C",
    agent_name   text COLLATE "C",
    task_status  text COLLATE "C",
    flow_status  text COLLATE "C",
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    expires_at   timestamptz,

    -- The newest lease. Its token stays when it ends: late writers are
    -- measured by it.
    lease_token  bigint NOT NULL DEFAULT 0,
    lease_holder bytea NOT NULL DEFAULT '',
    lease_until  timestamptz NOT NULL DEFAULT 'epoch',
    lease_ended  boolean NOT NULL DEFAULT true,
    lease_id     uuid, -- of the call that took it

    UNIQUE (tenant, id)
) WITH (fillfactor = 70);

CREATE INDEX sessions_by_update ON sessions (tenant, updated_at DESC, id);
CREATE INDEX sessions_by_creation ON sessions (tenant, created_at DESC, id);
CREATE INDEX sessions_by_parent ON sessions (tenant, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sessions_at_work ON sessions (tenant, id) WHERE live > 0 OR running;
-- What cannot be read is named on every page of every listing.
CREATE INDEX sessions_unreadable ON sessions (tenant, id) WHERE format <> 1 OR header_sum <> sha256(header);

-- The log, append-only. A heap keeps rows in the order they came. A log is
-- named by the session that writes it and may outlive it: forks share it.
CREATE TABLE changes (
    log     bigint NOT NULL,
    seq     bigint NOT NULL,
    version bigint NOT NULL, -- that holds it, or will when the tail is sealed
    kind    text COLLATE "C" NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (log, seq)
);

-- Stretches of the log that were refused.
CREATE TABLE discards (
    log      bigint NOT NULL,
    from_seq bigint NOT NULL,
    to_seq   bigint NOT NULL
);
CREATE INDEX discards_by_log ON discards (log, from_seq);

CREATE TABLE commits (
    log       bigint NOT NULL,
    version   bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq  bigint NOT NULL,
    write_id  uuid NOT NULL,
    id        bytea NOT NULL,
    action    bytea NOT NULL,
    actor     bytea NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (log, version)
);

-- Heads of earlier versions, to fold the ones in between from.
CREATE TABLE snapshots (
    sid     bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
    version bigint NOT NULL,
    seq     bigint NOT NULL,
    head    bytea NOT NULL,
    PRIMARY KEY (sid, version)
);

-- The logs a session's history lies in, flattened: of each the changes after
-- one number and up to another. The last one is its own.
CREATE TABLE lineage (
    sid       bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
    log       bigint NOT NULL,
    after_seq bigint NOT NULL,
    upto_seq  bigint NOT NULL,
    PRIMARY KEY (sid, log)
);
CREATE INDEX lineage_by_log ON lineage (log, upto_seq);

-- Items stay when they are taken: an id counts once for ever.
CREATE TABLE inbox (
    sid     bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
    arrival bigint GENERATED ALWAYS AS IDENTITY,
    item_id text COLLATE "C" NOT NULL,
    body    bytea NOT NULL,
    taken   boolean NOT NULL DEFAULT false, -- for good: a version holds the taking
    PRIMARY KEY (sid, item_id)
);
CREATE INDEX inbox_waiting ON inbox (sid, arrival) WHERE NOT taken;

-- Which change took an item. Its constraints are what makes a taking happen
-- once and only to what is there.
CREATE TABLE takings (
    sid     bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    seq     bigint NOT NULL,
    CONSTRAINT taken_once PRIMARY KEY (sid, item_id),
    CONSTRAINT taken_of_inbox FOREIGN KEY (sid, item_id) REFERENCES inbox ON DELETE CASCADE
);

CREATE TABLE keys (
    sid         bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
    name        text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    version     bigint NOT NULL, -- that holds it, or will when the tail is sealed
    seq         bigint NOT NULL,
    used_at     timestamptz NOT NULL,
    PRIMARY KEY (sid, name)
);
CREATE INDEX keys_by_age ON keys (sid, used_at);

-- What users and agents remember: one row for each key that was ever written
-- since its owner was last forgotten. Versions go on after a key is forgotten,
-- so its row stays.
CREATE TABLE memories (
    mid        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,      -- the last one written
    present    boolean NOT NULL,     -- false: it is forgotten
    created_at timestamptz NOT NULL, -- of the first version since it was forgotten
    words      bigint[] NOT NULL,    -- of the newest version, hashed; none when forgotten
    write_id   uuid NOT NULL,        -- of the last write
    UNIQUE (tenant, scope, owner, key)
);

CREATE TABLE memory_versions (
    mid        bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    version    bigint NOT NULL,
    value      bytea NOT NULL,
    updated_at timestamptz NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    write_id   uuid NOT NULL,
    PRIMARY KEY (mid, version)
);

-- Which tool call wrote a key. A call counts once, also when what it wrote is
-- forgotten.
CREATE TABLE memory_calls (
    mid        bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    session_id text COLLATE "C" NOT NULL,
    call_id    text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    CONSTRAINT called_once PRIMARY KEY (mid, session_id, call_id)
);

-- The index of words: a row for each message, filled after the message was
-- written and never by its writer. Each word is a number made of its log and
-- its hash, so that a search meets no word of any other log, and what is
-- added to one log lies together. Two words may have one number: what is found
-- here is looked up in the log before it is believed. Rows come in batches and
-- searches would read a list of pending ones once for each word: there is none.
CREATE TABLE passages (
    log   bigint NOT NULL,
    seq   bigint NOT NULL,
    at    timestamptz NOT NULL, -- of the message, to rank by
    trace boolean NOT NULL,
    words bigint[] NOT NULL,
    PRIMARY KEY (log, seq)
);
CREATE INDEX passages_by_word ON passages USING gin (words) WITH (fastupdate = off);

-- Up to which change each log is indexed. What lies behind is read from the
-- log itself.
CREATE TABLE indexed (
    log  bigint PRIMARY KEY,
    upto bigint NOT NULL
);

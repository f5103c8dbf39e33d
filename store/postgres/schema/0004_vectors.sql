-- Who makes vectors.
CREATE TABLE embedders (
    eid  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

-- What embedders made of messages, with what a search needs of a message
-- without reading it. Whoever writes a message writes nothing here.
CREATE TABLE message_vectors (
    log    bigint NOT NULL,
    seq    bigint NOT NULL,
    eid    bigint NOT NULL REFERENCES embedders,
    at     timestamptz NOT NULL,
    trace  boolean NOT NULL,
    vector bytea, -- packed; NULL: the message cannot be embedded
    PRIMARY KEY (log, seq, eid)
);
-- Vectors do not get smaller.
ALTER TABLE message_vectors ALTER COLUMN vector SET STORAGE EXTERNAL;

-- Up to which change of a log nothing waits for an embedder. Changes of many
-- logs appear in any order, so there is no mark over all of them.
CREATE TABLE embedded (
    eid  bigint NOT NULL REFERENCES embedders,
    log  bigint NOT NULL,
    upto bigint NOT NULL,
    PRIMARY KEY (eid, log)
);

-- What embedders made of entries, of whatever version was there. Only that of
-- the newest counts.
CREATE TABLE entry_vectors (
    mid     bigint NOT NULL,
    eid     bigint NOT NULL REFERENCES embedders,
    version bigint NOT NULL,
    vector  bytea,
    PRIMARY KEY (mid, eid),
    FOREIGN KEY (mid, version) REFERENCES memory_versions ON DELETE CASCADE
);
ALTER TABLE entry_vectors ALTER COLUMN vector SET STORAGE EXTERNAL;

-- Logs that others than their own session need.
CREATE INDEX lineage_shared ON lineage (log, upto_seq) WHERE log <> sid;

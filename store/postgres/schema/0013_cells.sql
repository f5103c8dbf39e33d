-- The index of vectors. A place is the messages of one user, or of a log without
-- a user, as far as one embedder made vectors of one dimension; it has a row once
-- it was worth an index. Changed counts the changes of its cells. While it is not
-- ready, some of its vectors are in no cell yet. Whoever puts vectors into cells
-- holds the lock of the place.
CREATE TABLE vector_places (
    pid        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    eid        bigint NOT NULL REFERENCES embedders,
    tenant     text COLLATE "C" NOT NULL,
    user_id    text COLLATE "C" NOT NULL,
    log        bigint NOT NULL, -- 0 for the place of a user
    dimensions integer NOT NULL,
    ready      boolean NOT NULL DEFAULT false,
    changed    bigint NOT NULL DEFAULT 0,
    UNIQUE (eid, tenant, user_id, log, dimensions)
);

-- A cell holds the vectors that are nearer to its centre than to others. It keeps
-- its number when it is split. One that has lost all its vectors has no direction.
CREATE TABLE vector_cells (
    cell    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pid     bigint NOT NULL REFERENCES vector_places ON DELETE CASCADE,
    changed bigint NOT NULL, -- the count of its place when it last changed
    centre  bytea NOT NULL   -- packed
);
CREATE INDEX vector_cells_changed ON vector_cells (pid, changed);

-- The vectors of a cell, one for each part of a passage.
CREATE TABLE vector_members (
    log    bigint NOT NULL,
    seq    bigint NOT NULL,
    eid    bigint NOT NULL,
    part   integer NOT NULL,
    cell   bigint NOT NULL,
    at     timestamptz NOT NULL,
    trace  boolean NOT NULL,
    vector bytea NOT NULL,
    PRIMARY KEY (log, seq, eid, part),
    FOREIGN KEY (log, seq, eid) REFERENCES message_vectors ON DELETE CASCADE
);
ALTER TABLE vector_members ALTER COLUMN vector SET STORAGE EXTERNAL;
CREATE INDEX vector_members_of_cell ON vector_members (cell);

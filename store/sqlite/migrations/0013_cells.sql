-- The index of vectors. A place is the messages of one user, or of a log without
-- a user, as far as one embedder made vectors of one dimension; it has a row once
-- it was worth an index. Changed counts the changes of its cells. While it is not
-- ready, some of its vectors are in no cell yet.
CREATE TABLE vector_places (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	embedder   INTEGER NOT NULL REFERENCES embedders,
	tenant     TEXT    NOT NULL,
	user_id    TEXT    NOT NULL,
	log        INTEGER NOT NULL, -- 0 for the place of a user
	dimensions INTEGER NOT NULL,
	ready      INTEGER NOT NULL DEFAULT 0,
	changed    INTEGER NOT NULL DEFAULT 0,
	UNIQUE (embedder, tenant, user_id, log, dimensions)
) STRICT;

-- A cell holds the vectors that are nearer to its centre than to others. It keeps
-- its number when it is split. One that has lost all its vectors has no direction.
CREATE TABLE vector_cells (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	place   INTEGER NOT NULL REFERENCES vector_places ON DELETE CASCADE,
	changed INTEGER NOT NULL, -- the count of its place when it last changed
	centre  BLOB    NOT NULL  -- packed
) STRICT;
CREATE INDEX vector_cells_changed ON vector_cells (place, changed);

-- The vectors of a cell, one for each part of a passage. The high bits of the id
-- are the cell, so that those of one cell lie together.
CREATE TABLE vector_members (
	id       INTEGER PRIMARY KEY,
	log      INTEGER NOT NULL,
	seq      INTEGER NOT NULL,
	embedder INTEGER NOT NULL,
	part     INTEGER NOT NULL,
	at       INTEGER NOT NULL,
	trace    INTEGER NOT NULL,
	vector   BLOB    NOT NULL,
	FOREIGN KEY (log, seq, embedder) REFERENCES message_vectors ON DELETE CASCADE
) STRICT;
CREATE INDEX vector_members_of ON vector_members (log, seq, embedder);

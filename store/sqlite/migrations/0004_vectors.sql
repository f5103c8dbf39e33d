-- Every version of an entry gets a number, in the order they are written, that
-- is never given again.
CREATE TABLE numbered_entries (
	n          INTEGER PRIMARY KEY AUTOINCREMENT,
	key        INTEGER NOT NULL REFERENCES memory_keys ON DELETE CASCADE,
	version    INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	updated_at INTEGER NOT NULL,
	session_id TEXT    NOT NULL,
	value      BLOB    NOT NULL,
	UNIQUE (key, version)
) STRICT;
INSERT INTO numbered_entries (key, version, created_at, updated_at, session_id, value)
	SELECT key, version, created_at, updated_at, session_id, value FROM memory_entries ORDER BY updated_at, key, version;
DROP TABLE memory_entries;
ALTER TABLE numbered_entries RENAME TO memory_entries;

-- Who makes vectors, and how far each has come: neither a change nor an entry
-- up to these numbers waits for a vector. Behind them some may have theirs.
CREATE TABLE embedders (
	id      INTEGER PRIMARY KEY,
	name    TEXT    NOT NULL UNIQUE,
	changes INTEGER NOT NULL DEFAULT 0,
	entries INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What embedders made of messages, with what a search needs of a message
-- without reading it. No save writes here. Vectors go with their messages, when
-- these are removed or discarded; those of one log lie together.
CREATE TABLE message_vectors (
	log      INTEGER NOT NULL,
	seq      INTEGER NOT NULL,
	embedder INTEGER NOT NULL REFERENCES embedders,
	at       INTEGER NOT NULL,
	trace    INTEGER NOT NULL,
	vector   BLOB, -- packed; null: the message cannot be embedded
	PRIMARY KEY (log, seq, embedder),
	FOREIGN KEY (log, seq) REFERENCES changes (log, seq) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- What embedders made of entries, of whatever version was there. Only that of
-- the newest counts.
CREATE TABLE entry_vectors (
	key      INTEGER NOT NULL,
	embedder INTEGER NOT NULL REFERENCES embedders,
	version  INTEGER NOT NULL,
	vector   BLOB,
	PRIMARY KEY (key, embedder),
	FOREIGN KEY (key, version) REFERENCES memory_entries (key, version) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

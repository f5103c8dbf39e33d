-- What users and agents remember. A key stays when its entry is forgotten, so
-- that its versions go on; it goes when its owner is forgotten.
CREATE TABLE memory_keys (
	id      INTEGER PRIMARY KEY,
	tenant  TEXT    NOT NULL,
	scope   TEXT    NOT NULL,
	owner   TEXT    NOT NULL,
	name    TEXT    NOT NULL,
	version INTEGER NOT NULL, -- the last one ever given
	UNIQUE (tenant, scope, owner, name)
) STRICT;

CREATE TABLE memory_entries (
	key        INTEGER NOT NULL REFERENCES memory_keys ON DELETE CASCADE,
	version    INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	updated_at INTEGER NOT NULL,
	session_id TEXT    NOT NULL,
	value      BLOB    NOT NULL,
	UNIQUE (key, version)
) STRICT;

-- Which version a tool call has written. It outlives the entry, so that a call
-- that is run again does not bring back what was forgotten.
CREATE TABLE memory_calls (
	key        INTEGER NOT NULL REFERENCES memory_keys ON DELETE CASCADE,
	session_id TEXT    NOT NULL,
	call_id    TEXT    NOT NULL,
	version    INTEGER NOT NULL,
	PRIMARY KEY (key, session_id, call_id)
) STRICT, WITHOUT ROWID;

-- The index of words. A row stands for a message, by the number of its change,
-- or for the newest entry of a key. Words come as tokens of our own making, of
-- bytes that the tokenizer leaves alone.
CREATE VIRTUAL TABLE message_words USING fts5 (tokens, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
CREATE VIRTUAL TABLE entry_words USING fts5 (tokens, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
CREATE VIRTUAL TABLE message_terms USING fts5vocab (message_words, instance);
CREATE VIRTUAL TABLE entry_terms USING fts5vocab (entry_words, instance);

-- What a search needs of an indexed message without reading it.
CREATE TABLE passages (
	n     INTEGER PRIMARY KEY, -- the change
	log   INTEGER NOT NULL,
	seq   INTEGER NOT NULL,
	at    INTEGER NOT NULL,
	trace INTEGER NOT NULL
) STRICT;

-- Up to which change messages are in the index; those behind it are read.
INSERT INTO counters VALUES ('indexed', 0);

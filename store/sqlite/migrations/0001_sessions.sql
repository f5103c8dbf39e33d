-- One row per session: what listings, leases and the checks of a write need.
-- Times are microseconds since 1970.
CREATE TABLE sessions (
	log             INTEGER PRIMARY KEY AUTOINCREMENT, -- the session's log; never given twice
	tenant          TEXT    NOT NULL,
	id              TEXT    NOT NULL,
	agent_id        TEXT    NOT NULL,
	version         INTEGER NOT NULL,
	seq             INTEGER NOT NULL,           -- last change of that version
	last_seq        INTEGER NOT NULL,           -- last change of all, that of the open tail
	forked_at       INTEGER NOT NULL,           -- last change that an ancestor's log holds; 0: there is none
	tail_live       INTEGER NOT NULL DEFAULT 0, -- changes of the open tail that are in force
	running         INTEGER NOT NULL,           -- an execution is open, the tail included
	kept            INTEGER NOT NULL DEFAULT 1, -- version of the newest head that stays as it is
	unfolded        INTEGER NOT NULL DEFAULT 0, -- bytes of sealed changes that the newest head lacks
	lease_token     INTEGER NOT NULL DEFAULT 0, -- of the newest lease, alive or not
	lease_holder    TEXT    NOT NULL DEFAULT '',
	lease_until     INTEGER NOT NULL DEFAULT 0,
	lease_open      INTEGER NOT NULL DEFAULT 0, -- 0: released, or there never was one
	kind            TEXT    NOT NULL,
	status          TEXT    NOT NULL,
	name            TEXT    NOT NULL,
	user_id         TEXT    NOT NULL,
	parent_id       TEXT    NOT NULL,
	origin          TEXT    NOT NULL,
	agent_name      TEXT    NOT NULL,
	task_status     TEXT,
	workflow_status TEXT,
	created_at      INTEGER NOT NULL,
	updated_at      INTEGER NOT NULL,
	header          TEXT    NOT NULL, -- beginning of a session document, with the tail's task and workflow rows
	UNIQUE (tenant, id)
) STRICT;
CREATE INDEX sessions_by_update ON sessions (tenant, updated_at DESC, id);
CREATE INDEX sessions_by_creation ON sessions (tenant, created_at DESC, id);
CREATE INDEX sessions_by_parent ON sessions (tenant, parent_id) WHERE parent_id <> '';
CREATE INDEX sessions_by_name ON sessions (tenant, name) WHERE name <> '';
CREATE INDEX sessions_open ON sessions (tenant, id) WHERE tail_live > 0 OR running > 0;
-- Empty as long as all is well: a listing names the unreadable without reading the rest.
CREATE INDEX sessions_unreadable ON sessions (tenant, id)
	WHERE CASE WHEN json_valid(header) THEN json_extract(header, '$.formatVersion') IS NOT 1 ELSE 1 END;

-- Every change of every session, in the order they came. A change is written
-- once and stays; only the mark of a discarded one is set later. It outlives
-- its session as long as a fork needs it.
CREATE TABLE changes (
	n         INTEGER PRIMARY KEY,
	log       INTEGER NOT NULL,
	seq       INTEGER NOT NULL,
	version   INTEGER NOT NULL, -- that it is sealed into; in the open tail: that it will be
	kind      TEXT    NOT NULL,
	discarded INTEGER NOT NULL DEFAULT 0,
	data      BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX changes_by_seq ON changes (log, seq);

-- The folded state of versions. The newest head of a session moves on with
-- it, unless it is one of those kept to fold earlier versions from.
CREATE TABLE heads (
	n       INTEGER PRIMARY KEY,
	log     INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
	base    INTEGER NOT NULL, -- version the row was made at
	version INTEGER NOT NULL, -- version it holds
	seq     INTEGER NOT NULL,
	sum     INTEGER NOT NULL, -- CRC-32 of data
	data    BLOB    NOT NULL,
	UNIQUE (log, base)
) STRICT;

CREATE TABLE commits (
	log       INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
	version   INTEGER NOT NULL,
	id        TEXT    NOT NULL,
	first_seq INTEGER NOT NULL,
	last_seq  INTEGER NOT NULL,
	action    TEXT    NOT NULL,
	actor     TEXT    NOT NULL,
	at        INTEGER NOT NULL,
	PRIMARY KEY (log, version)
) STRICT, WITHOUT ROWID;

-- The ancestors of a fork, all of them: which stretch of which log comes
-- before its own.
CREATE TABLE lineage (
	log       INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
	after_seq INTEGER NOT NULL,
	upto_seq  INTEGER NOT NULL,
	ancestor  INTEGER NOT NULL,
	PRIMARY KEY (log, after_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX lineage_by_ancestor ON lineage (ancestor, upto_seq);

CREATE TABLE inbox (
	n     INTEGER PRIMARY KEY,
	log   INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
	id    TEXT    NOT NULL,
	data  BLOB    NOT NULL,
	taken INTEGER NOT NULL DEFAULT 0, -- number of the change that took it; 0: unread
	UNIQUE (log, id)
) STRICT;
CREATE INDEX inbox_unread ON inbox (log) WHERE taken = 0;

CREATE TABLE keys (
	log         INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
	name        TEXT    NOT NULL,
	fingerprint TEXT    NOT NULL,
	version     INTEGER NOT NULL, -- as in changes
	seq         INTEGER NOT NULL, -- last change when it was used
	at          INTEGER NOT NULL,
	PRIMARY KEY (log, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_by_age ON keys (log, at);

CREATE TABLE counters (
	name  TEXT    PRIMARY KEY,
	value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('lease', 0), ('settled', 0);

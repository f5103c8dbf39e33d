-- Every record has a checksum that is chained to the one before it, and what is
-- stored beside the log has one too. The store fills them in for rows that are
-- there already. Package store says what a sum covers.
ALTER TABLE changes ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE changes ADD COLUMN commit_sum INTEGER; -- null where first_seq is
ALTER TABLE commits ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE heads ADD COLUMN log_sum INTEGER NOT NULL DEFAULT 0; -- of the last record it holds; its own covers this too
ALTER TABLE sessions ADD COLUMN last_sum INTEGER NOT NULL DEFAULT 0; -- of record last_seq
ALTER TABLE sessions ADD COLUMN header_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN row_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inbox ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memory_entries ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;

-- Tells this database from another one in the same place.
INSERT INTO counters VALUES ('store', random());

-- A program of before would write records without sums. It does not find this
-- column any more, and so writes nothing.
ALTER TABLE sessions RENAME COLUMN unfolded TO since_head;

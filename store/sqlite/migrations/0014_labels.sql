-- What an entry is found by besides its words, and until when it is kept. The
-- moment is among the labels, too; its column is for whoever removes what has
-- expired.
ALTER TABLE memory_entries ADD COLUMN labels BLOB; -- JSON, NULL for none
ALTER TABLE memory_entries ADD COLUMN expires_at INTEGER; -- NULL: never
CREATE INDEX memory_entries_expiring ON memory_entries (expires_at) WHERE expires_at IS NOT NULL;

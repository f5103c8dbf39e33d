-- What an entry is found by besides its words, and until when it is kept. The
-- moment is among the labels, too; its column is for whoever removes what has
-- expired.
ALTER TABLE memory_versions
    ADD COLUMN labels     bytea,       -- JSON after its checksum, NULL for none
    ADD COLUMN expires_at timestamptz; -- NULL: never
CREATE INDEX memory_versions_expiring ON memory_versions (expires_at) WHERE expires_at IS NOT NULL;

-- Every record is chained to the one before it by a checksum. It stands before
-- the record in body, as sixteen hexadecimal digits, so that whoever reads the one has
-- the other; likewise before a head, an item of an inbox, the rows of the open
-- tail, the id of a commit and the value of an entry. The store computes sums,
-- also those of rows that are there already. Package store says what they cover.

-- What hardly ever changes stays last in the row, behind the new columns.
ALTER TABLE sessions
    DROP COLUMN unreadable, -- with its index
    DROP COLUMN pending,
    ADD COLUMN last_sum        bigint NOT NULL DEFAULT 0, -- of record last_seq
    ADD COLUMN row_sum         bigint NOT NULL DEFAULT 0, -- of what the row says of the last version
    ADD COLUMN last_header     bytea,
    ADD COLUMN last_header_sum bytea,
    ADD COLUMN last_from       bigint[],
    ADD COLUMN last_to         bigint[];

UPDATE sessions SET last_header = header, last_header_sum = header_sum, last_from = shown_from, last_to = shown_to;

ALTER TABLE sessions
    DROP COLUMN header,
    DROP COLUMN header_sum,
    DROP COLUMN shown_from,
    DROP COLUMN shown_to;
ALTER TABLE sessions RENAME COLUMN last_header TO header;
ALTER TABLE sessions RENAME COLUMN last_header_sum TO header_sum;
ALTER TABLE sessions RENAME COLUMN last_from TO shown_from;
ALTER TABLE sessions RENAME COLUMN last_to TO shown_to;
ALTER TABLE sessions
    ALTER COLUMN header SET NOT NULL,
    ALTER COLUMN header_sum SET NOT NULL,
    ALTER COLUMN shown_from SET NOT NULL,
    ALTER COLUMN shown_to SET NOT NULL,
    ADD COLUMN unreadable boolean NOT NULL GENERATED ALWAYS AS (format <> 1 OR header_sum <> sha256(header)) STORED,
    ADD COLUMN pending    boolean NOT NULL GENERATED ALWAYS AS (position('"pending":'::bytea IN header) > 0) STORED;
CREATE INDEX sessions_unreadable ON sessions (tenant, id) WHERE unreadable;
CREATE INDEX sessions_pending ON sessions (tenant, id) WHERE pending;
COMMENT ON COLUMN sessions.header IS 'but for version, seq, updatedAt and messageCount, which have columns';

-- A program of before would write records without sums. It does not find this
-- column any more, and so writes nothing.
ALTER TABLE sessions RENAME COLUMN snap_bytes TO head_bytes;

-- What hardly ever changes comes last in the row: the server's log of an
-- update then leaves it out, because old and new row end alike.

ALTER TABLE sessions
    DROP COLUMN unreadable, -- with its index
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
    ADD COLUMN unreadable boolean NOT NULL GENERATED ALWAYS AS (format <> 1 OR header_sum <> sha256(header)) STORED;
CREATE INDEX sessions_unreadable ON sessions (tenant, id) WHERE unreadable;
COMMENT ON COLUMN sessions.header IS 'but for version, seq, updatedAt and messageCount, which have columns';

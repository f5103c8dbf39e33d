-- Finds the sessions with calls that wait for a response. A header names the
-- count only where there are some; text that a user wrote has its quotes
-- escaped. A column of its own, so that only its own change moves an index entry.
ALTER TABLE sessions
    ADD COLUMN pending boolean NOT NULL GENERATED ALWAYS AS (position('"pending":'::bytea IN header) > 0) STORED;
CREATE INDEX sessions_pending ON sessions (tenant, id) WHERE pending;

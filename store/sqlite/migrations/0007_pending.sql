-- Finds the sessions with calls that wait for a response. A header names the
-- count only where there are some; text that a user wrote has its quotes escaped.
CREATE INDEX sessions_pending ON sessions (tenant, id) WHERE instr(header, '"pending":') > 0;

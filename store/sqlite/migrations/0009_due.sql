-- When somebody should work on a session that nobody holds; null: there is
-- nothing to do. -1: an earlier program wrote the session, and whoever looks for
-- work must look at it. Within a tenant the longest waiting come first.
ALTER TABLE sessions ADD COLUMN due INTEGER;
UPDATE sessions SET due = -1 WHERE open > 0 OR instr(header, '"pending":') > 0
	OR task_status IN ('pending', 'queued', 'planning', 'executing', 'interrupted') OR workflow_status = 'running';
CREATE INDEX sessions_due ON sessions (tenant, due) WHERE due IS NOT NULL;

-- The same for what waits in inboxes.
ALTER TABLE inbox ADD COLUMN tenant TEXT;
ALTER TABLE inbox ADD COLUMN at INTEGER;
UPDATE inbox SET tenant = (SELECT s.tenant FROM sessions s WHERE s.log = inbox.log), at = -1 WHERE taken = 0;
CREATE INDEX inbox_waiting ON inbox (tenant, at) WHERE taken = 0;

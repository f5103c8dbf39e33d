-- When somebody should work on a session that nobody holds; null: there is
-- nothing to do. -infinity: an earlier program wrote the session, and whoever
-- looks for work must look at it. Within a tenant the longest waiting come first.
ALTER TABLE sessions ADD COLUMN due timestamptz;
UPDATE sessions s SET due = '-infinity' FROM listing l WHERE l.sid = s.sid
    AND (s.at_work OR s.pending OR l.task_status IN ('pending', 'queued', 'planning', 'executing', 'interrupted') OR l.flow_status = 'running');
CREATE INDEX sessions_due ON sessions (tenant, due) WHERE due IS NOT NULL;

-- The same for what waits in inboxes.
ALTER TABLE inbox
    ADD COLUMN tenant text COLLATE "C",
    ADD COLUMN posted_at timestamptz;
UPDATE inbox i SET tenant = s.tenant, posted_at = '-infinity' FROM sessions s WHERE s.sid = i.sid AND NOT i.taken;
CREATE INDEX inbox_due ON inbox (tenant, posted_at) WHERE NOT taken;

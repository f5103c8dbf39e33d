-- A title that a model wrote is an answer that was paid for, too.
DROP INDEX changes_expenses;
CREATE INDEX changes_expenses ON changes (log) WHERE kind IN ('inference_answered', 'unit_advanced', 'window_moved', 'session_titled', 'llm_usage');

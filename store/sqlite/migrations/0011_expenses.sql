-- The answers of models, to add up what they used.
CREATE INDEX changes_expenses ON changes (log) WHERE kind IN ('inference_answered', 'unit_advanced', 'window_moved', 'llm_usage');

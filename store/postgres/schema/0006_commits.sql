-- A commit stands in the row of its last change, which is written anyway: one
-- row and one index entry less for each save. Only a version that has no
-- change of its own, because all of it was in the open tail, has a row here;
-- and so have those of before.
ALTER TABLE commits RENAME TO seals;
ALTER INDEX commits_pkey RENAME TO seals_pkey;

ALTER TABLE changes
    ADD COLUMN first_seq bigint, -- of the version whose commit stands here
    ADD COLUMN write_id  uuid,
    ADD COLUMN commit_id bytea,
    ADD COLUMN action    bytea,
    ADD COLUMN actor     bytea,
    ADD COLUMN sealed_at timestamptz; -- NULL: no commit does

-- By version there is no index: whoever looks for one knows a stretch of the
-- log that it lies in.
CREATE VIEW commits AS
    SELECT log, version, first_seq, seq AS last_seq, write_id, commit_id AS id, action, actor, sealed_at AS at FROM changes WHERE sealed_at IS NOT NULL
    UNION ALL SELECT log, version, first_seq, last_seq, write_id, id, action, actor, at FROM seals;

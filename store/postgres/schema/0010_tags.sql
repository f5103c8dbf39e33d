-- Hashes of the metadata that filters ask for. They narrow a search, the
-- metadata decides. Sessions that are not tagged are always looked at. Opening
-- the store tags those of earlier programs.
ALTER TABLE listing ADD COLUMN tagged boolean NOT NULL DEFAULT false;
CREATE INDEX listing_untagged ON listing (tenant) WHERE NOT tagged;

-- A table of its own: a listing's row moves with most saves, and with it its
-- place in every index.
CREATE TABLE tags (
    tenant text COLLATE "C" NOT NULL,
    tag    bigint NOT NULL,
    sid    bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
    PRIMARY KEY (tenant, tag, sid)
);
CREATE INDEX tags_by_session ON tags (sid, tag);

-- Data does not say again what its row says. Of a message that is its number
-- and its time: data that begins with an id is a message without the two. Rows
-- that are there already stay as they are.

-- The id of a commit where it is a UUID, in 16 bytes; commit_id is null then.
ALTER TABLE changes ADD COLUMN commit_uuid BLOB;

-- Up to which change the messages of a log were taken out of search for good. No
-- index of words or vectors has them, and none gets them again.
CREATE TABLE forgotten (
	log  INTEGER PRIMARY KEY,
	upto INTEGER NOT NULL
) STRICT;

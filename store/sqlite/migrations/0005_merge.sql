-- Merging parts of the index early leaves as many pages behind as it fills:
-- with eight parts on a level, rather than four, what is left behind is used
-- again before it adds up.
INSERT INTO message_words (message_words, rank) VALUES ('automerge', 8);
INSERT INTO entry_words (entry_words, rank) VALUES ('automerge', 8);

-- Words are folded and stemmed since this schema. What the index has of earlier
-- rules is no longer found, so the index begins anew: that of entries is built at
-- once, that of messages is filled later, and a search reads what it lacks.
TRUNCATE passages, indexed;

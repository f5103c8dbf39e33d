package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Rewrite executes a statement as the writer, behind the store's back. What is
// rewritten is read anew, as by a process that begins.
func (s *Store) Rewrite(ctx context.Context, statement string, args ...any) error {
	defer s.warm.Clear()
	return s.write(ctx, &request{do: func(ctx context.Context, c *conn) error {
		_, err := c.exec(ctx, statement, args...)
		return err
	}})
}

// Resum gives all rows their sums anew, as the migration does.
func (s *Store) Resum(ctx context.Context) error {
	return s.write(ctx, &request{do: func(ctx context.Context, c *conn) error { return c.addMissingSums(ctx) }})
}

// Count is the number a query finds.
func (s *Store) Count(ctx context.Context, query string) (n int64, err error) {
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		_, err := c.one(ctx, query, nil, &n)
		return err
	})
	return n, err
}

// Setting is the value of a pragma on the connection that writes.
func (s *Store) Setting(ctx context.Context, pragma string) (value string, err error) {
	err = s.write(ctx, &request{do: func(ctx context.Context, c *conn) error {
		var text sql.NullString
		_, err := c.one(ctx, "PRAGMA "+pragma, nil, &text)
		value = text.String
		return err
	}})
	return value, err
}

// Blocked reports whether the writer waits for another process.
func (s *Store) Blocked() bool { return s.writer.locked.Load() }

// Checkpoint moves everything from the write-ahead log to the database.
func (s *Store) Checkpoint(ctx context.Context) error {
	c, err := s.conns.connect(ctx)
	if err != nil {
		return err
	}
	return errors.Join(c.run(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"), c.close())
}

// RestIndex ends what fills the index in the background.
func (s *Store) RestIndex() {
	s.indexer.stop()
	<-s.indexer.stopped
}

// SetCloseFor changes how long Close may take to fill the index.
func (s *Store) SetCloseFor(d time.Duration) { s.indexer.closeFor = d }

// Queued is how many writes wait for their turn.
func (s *Store) Queued() int {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return len(s.writer.queue)
}

// FailCommits makes the next commits report an error, one for each entry:
// after they were done where it is true, and without being done where it is
// false. No write may be under way.
func (s *Store) FailCommits(err error, done ...bool) {
	commit := s.writer.commit
	s.writer.commit = func(ctx context.Context) error {
		if len(done) == 0 {
			return commit(ctx)
		}
		do := done[0]
		done = done[1:]
		if do {
			return errors.Join(commit(ctx), err)
		}
		return err
	}
}

package sqlite

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// addKeys stores the first use of each key, with the last change of the write
// that used it, and drops old keys that belong to a version.
func (c *conn) addKeys(ctx context.Context, w row, keys []store.Key, seq int64, now time.Time) error {
	if len(keys) == 0 {
		return nil
	}
	if _, err := c.exec(ctx, "DELETE FROM keys WHERE log = ? AND at < ? AND version <= ?", w.log, micros(now.Add(-store.KeepKeys)), w.version); err != nil {
		return err
	}
	for _, k := range keys {
		if _, err := c.exec(ctx, "INSERT INTO keys (log, name, fingerprint, version, seq, at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			w.log, k.Name, k.Fingerprint, w.version+1, seq, micros(now)); err != nil {
			return err
		}
	}
	return nil
}

// forgetKeys forgets the keys of the tail that came with discarded changes.
func (c *conn) forgetKeys(ctx context.Context, w row, discarded session.Span) error {
	_, err := c.exec(ctx, "DELETE FROM keys WHERE log = ? AND version > ? AND seq BETWEEN ? AND ?", w.log, w.version, discarded.From, discarded.To)
	return err
}

// Key reports the first use of a key.
func (s *Store) Key(ctx context.Context, r store.Ref, name string) (store.KeyUse, bool, error) {
	var use store.KeyUse
	var known bool
	err := s.readMark(ctx, r, func(ctx context.Context, c *conn, w row) (err error) {
		known, err = c.one(ctx, "SELECT fingerprint, CASE WHEN version <= ? THEN version ELSE 0 END FROM keys WHERE log = ? AND name = ?",
			[]any{w.version, w.log, name}, &use.Fingerprint, &use.Version)
		return err
	})
	return use, known, err
}

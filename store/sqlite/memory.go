package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// Remember writes the next version of an entry.
func (s *Store) Remember(ctx context.Context, o store.Owner, m store.Memo) (store.Entry, error) {
	if err := s.usable(ctx, o.Check()); err != nil {
		return store.Entry{}, err
	}
	m, err := m.Check()
	if err != nil {
		return store.Entry{}, err
	}
	var written store.Entry
	err = s.write(ctx, &request{
		do: func(ctx context.Context, c *conn) (err error) {
			written, err = c.remember(ctx, o, m)
			return err
		},
		saved: func(ctx context.Context, c *conn) (bool, error) {
			found, ok, err := c.entry(ctx, o, m.Key, written.Version)
			return ok && string(found.Value) == string(written.Value), err
		},
	})
	if err != nil {
		return store.Entry{}, err
	}
	return written, nil
}

func (c *conn) remember(ctx context.Context, o store.Owner, m store.Memo) (store.Entry, error) {
	id, last, err := c.memoryKey(ctx, o, m.Key)
	if err != nil {
		return store.Entry{}, err
	}
	have, live, err := c.entry(ctx, o, m.Key, 0)
	if err != nil {
		return store.Entry{}, err
	}
	if m.CallID != "" && last > 0 {
		if then, done, err := c.wroteBefore(ctx, id, o, m); err != nil || done {
			return then, err
		}
	}
	if err := admission.CheckEntryVersion(m.Key, m.IfVersion, have.Version); err != nil {
		return store.Entry{}, err
	}
	next := store.Entry{Key: m.Key, Value: m.Value, Labels: m.Labels, Version: last + 1, CreatedAt: m.At, UpdatedAt: m.At, SessionID: m.SessionID}
	if live {
		next.CreatedAt = have.CreatedAt
	}
	return next, c.addEntry(ctx, id, o, next, m.CallID)
}

// wroteBefore returns what a tool call gets that has written a key before.
func (c *conn) wroteBefore(ctx context.Context, id int64, o store.Owner, m store.Memo) (store.Entry, bool, error) {
	var version int64
	done, err := c.one(ctx, "SELECT version FROM memory_calls WHERE key = ? AND session_id = ? AND call_id = ?",
		[]any{id, m.SessionID, m.CallID}, &version)
	if err != nil || !done {
		return store.Entry{}, false, err
	}
	e, err := admission.RepeatedEntry(m.Key, version, func(version int64) (store.Entry, bool, error) { return c.entry(ctx, o, m.Key, version) })
	return e, true, err
}

// memoryKey finds a key and the last version it was given, 0 for a new one,
// which is made.
func (c *conn) memoryKey(ctx context.Context, o store.Owner, name string) (id, last int64, err error) {
	found, err := c.one(ctx, "SELECT id, version FROM memory_keys WHERE tenant = ? AND scope = ? AND owner = ? AND name = ?",
		[]any{o.Tenant, string(o.Scope), o.Name, name}, &id, &last)
	if err != nil || found {
		return id, last, err
	}
	_, err = c.one(ctx, "INSERT INTO memory_keys (tenant, scope, owner, name, version) VALUES (?, ?, ?, ?, 0) RETURNING id",
		[]any{o.Tenant, string(o.Scope), o.Name, name}, &id)
	return id, 0, err
}

// addEntry writes a version of a key and indexes it in place of the last one.
func (c *conn) addEntry(ctx context.Context, id int64, o store.Owner, e store.Entry, callID string) error {
	labels, expires, err := labelColumns(e.Labels)
	if err != nil {
		return err
	}
	if _, err := c.exec(ctx, `INSERT INTO memory_entries (key, version, created_at, updated_at, session_id, value, labels, expires_at, sum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, id, e.Version, micros(e.CreatedAt), micros(e.UpdatedAt), e.SessionID, []byte(e.Value), labels, expires, entrySum(e, labels)); err != nil {
		return err
	}
	if _, err := c.exec(ctx, "UPDATE memory_keys SET version = ? WHERE id = ?", e.Version, id); err != nil {
		return err
	}
	if callID != "" {
		if _, err := c.exec(ctx, "INSERT INTO memory_calls (key, session_id, call_id, version) VALUES (?, ?, ?, ?)", id, e.SessionID, callID, e.Version); err != nil {
			return err
		}
	}
	c.onWrite("after entry")
	if _, err := c.exec(ctx, "DELETE FROM entry_words WHERE rowid = ?", id); err != nil {
		return err
	}
	return c.indexEntry(ctx, id, entryTokens(o, e))
}

// labelColumns are labels as they are stored.
func labelColumns(l *session.Labels) (raw []byte, expires *int64, err error) {
	if l == nil {
		return nil, nil, nil
	}
	if l.ExpiresAt != nil {
		at := micros(*l.ExpiresAt)
		expires = &at
	}
	raw, err = json.Marshal(l)
	return raw, expires, err
}

const entryColumns = `e.sum, e.labels, k.name, e.version, e.created_at, e.updated_at, e.session_id, e.value`

const selectEntry = `SELECT ` + entryColumns + `
FROM memory_keys k JOIN memory_entries e ON e.key = k.id `

// entry reads a version of an entry, 0 for the newest.
func (c *conn) entry(ctx context.Context, o store.Owner, key string, version int64) (e store.Entry, found bool, err error) {
	err = c.each(ctx, selectEntry+`AND e.version = CASE WHEN ?1 = 0 THEN k.version ELSE ?1 END
WHERE k.tenant = ?2 AND k.scope = ?3 AND k.owner = ?4 AND k.name = ?5`,
		[]any{version, o.Tenant, string(o.Scope), o.Name, key}, func(rows *rows) (err error) {
			found = true
			e, err = readEntry(rows)
			return err
		})
	return e, found, err
}

// readEntry scans a row that ends with entryColumns and checks it.
func readEntry(rows *rows, before ...any) (store.Entry, error) {
	var sum int64
	var labels []byte
	e, err := scanEntry(rows, append(before, &sum, &labels)...)
	if err != nil {
		return e, fmt.Errorf("memory is %w: a column cannot be read: %w", session.ErrCorrupt, err)
	}
	if entrySum(e, labels) != sum {
		return e, fmt.Errorf("memory is %w: entry %s, version %d, does not match its checksum", session.ErrCorrupt, e.Key, e.Version)
	}
	if len(labels) > 0 {
		if err := json.Unmarshal(labels, &e.Labels); err != nil {
			return e, fmt.Errorf("memory is %w: labels of entry %s, version %d: %w", session.ErrCorrupt, e.Key, e.Version, err)
		}
	}
	return e, nil
}

// scanEntry scans a row that ends with the columns of an entry.
func scanEntry(rows *rows, before ...any) (store.Entry, error) {
	var e store.Entry
	var created, updated int64
	var value []byte
	err := rows.Scan(append(before, &e.Key, &e.Version, &created, &updated, &e.SessionID, &value)...)
	e.CreatedAt, e.UpdatedAt, e.Value = instant(created), instant(updated), json.RawMessage(value)
	return e, err
}

// Entry reads an entry.
func (s *Store) Entry(ctx context.Context, o store.Owner, key string, version int64) (e store.Entry, found bool, err error) {
	if err := s.usable(ctx, o.Check(), store.CheckEntryKey(key)); err != nil {
		return store.Entry{}, false, err
	}
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		e, found, err = c.entry(ctx, o, key, version)
		return err
	})
	return e, found, err
}

// Entries reads the newest version of each key.
func (s *Store) Entries(ctx context.Context, o store.Owner, prefix, after string, limit int) ([]store.Entry, error) {
	if err := s.usable(ctx, o.Check()); err != nil {
		return nil, err
	}
	if prefix != "" {
		if err := store.CheckEntryKey(prefix); err != nil {
			return nil, err
		}
	}
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	// What a prefix covers lies before prefix + '0', the byte after the slash.
	query, args := selectEntry+`AND e.version = k.version
WHERE k.tenant = ? AND k.scope = ? AND k.owner = ? AND k.name > ?`, []any{o.Tenant, string(o.Scope), o.Name, after}
	if prefix != "" {
		query += " AND k.name >= ? AND k.name < ? AND (k.name = ? OR k.name > ?)"
		args = append(args, prefix, prefix+"0", prefix, prefix+"/")
	}
	var entries []store.Entry
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		return c.each(ctx, query+" ORDER BY k.name LIMIT +?", append(args, limit), func(rows *rows) error {
			e, err := readEntry(rows)
			entries = append(entries, e)
			return err
		})
	})
	return entries, err
}

// Expired lists the newest entries that have expired.
func (s *Store) Expired(ctx context.Context, tenant string, at time.Time, limit int) ([]store.OwnedEntry, error) {
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	var expired []store.OwnedEntry
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		return c.each(ctx, "SELECT k.scope, k.owner, "+entryColumns+` FROM memory_entries e JOIN memory_keys k ON k.id = e.key AND k.version = e.version
WHERE k.tenant = ? AND e.expires_at <= ? ORDER BY e.expires_at, k.owner, k.name LIMIT +?`,
			[]any{tenant, micros(at), limit}, func(rows *rows) (err error) {
				o := store.OwnedEntry{Owner: store.Owner{Tenant: tenant}}
				if o.Entry, err = readEntry(rows, &o.Owner.Scope, &o.Owner.Name); err == nil && o.Labels.Expired(at) {
					expired = append(expired, o)
				}
				return err
			})
	})
	return expired, err
}

// Forget removes every version of an entry.
func (s *Store) Forget(ctx context.Context, o store.Owner, key string, ifVersion *int64) (bool, error) {
	if err := s.usable(ctx, o.Check(), store.CheckEntryKey(key)); err != nil {
		return false, err
	}
	var was bool
	err := s.write(ctx, &request{do: func(ctx context.Context, c *conn) error {
		have, found, err := c.entry(ctx, o, key, 0)
		if err != nil {
			return err
		}
		if err := admission.CheckEntryVersion(key, ifVersion, have.Version); err != nil {
			return err
		}
		if was = found; !found {
			return nil
		}
		id, _, err := c.memoryKey(ctx, o, key)
		if err != nil {
			return err
		}
		if _, err := c.exec(ctx, "DELETE FROM entry_words WHERE rowid = ?", id); err != nil {
			return err
		}
		_, err = c.exec(ctx, "DELETE FROM memory_entries WHERE key = ?", id)
		return err
	}})
	if err != nil {
		return false, err
	}
	return was, nil
}

// ForgetAll removes all that an owner remembers, or counts it.
func (s *Store) ForgetAll(ctx context.Context, o store.Owner, dry bool) (int, error) {
	if err := s.usable(ctx, o.Check()); err != nil {
		return 0, err
	}
	var n int
	owner := []any{o.Tenant, string(o.Scope), o.Name}
	count := func(ctx context.Context, c *conn) error {
		_, err := c.one(ctx, `SELECT count(*) FROM memory_keys k JOIN memory_entries e ON e.key = k.id AND e.version = k.version
WHERE k.tenant = ? AND k.scope = ? AND k.owner = ?`, owner, &n)
		return err
	}
	if dry {
		err := s.read(ctx, count)
		return n, err
	}
	err := s.write(ctx, &request{do: func(ctx context.Context, c *conn) error {
		if err := count(ctx, c); err != nil {
			return err
		}
		for _, statement := range []string{
			"DELETE FROM entry_words WHERE rowid IN (SELECT id FROM memory_keys WHERE tenant = ? AND scope = ? AND owner = ?)",
			"DELETE FROM memory_keys WHERE tenant = ? AND scope = ? AND owner = ?",
		} {
			if _, err := c.exec(ctx, statement, owner...); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		return 0, err
	}
	return n, nil
}

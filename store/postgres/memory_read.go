package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const entryColumns = `SELECT m.scope, m.owner, m.key, v.value, v.labels, v.version, m.created_at, v.updated_at, v.session_id
	FROM memories m JOIN memory_versions v ON v.mid = m.mid`

func entryOf(row pgx.CollectableRow) (store.Entry, error) {
	o, err := ownedEntryOf(row)
	return o.Entry, err
}

// ownedEntryOf reads a row of entryColumns. The owner's tenant is not among them.
func ownedEntryOf(row pgx.CollectableRow) (store.OwnedEntry, error) {
	var e store.OwnedEntry
	var value, labels []byte
	var created, updated time.Time
	if err := row.Scan(&e.Owner.Scope, &e.Owner.Name, &e.Key, &value, &labels, &e.Version, &created, &updated, &e.SessionID); err != nil {
		return e, err
	}
	e.CreatedAt, e.UpdatedAt = session.Instant(created), session.Instant(updated)
	var err error
	if e.Value, err = checked(value, e.Key); err == nil && labels != nil {
		e.Labels, err = readLabels(labels, e.Key)
	}
	if err != nil {
		return e, fmt.Errorf("memory is %w: entry %s, version %d: %w", session.ErrCorrupt, e.Key, e.Version, err)
	}
	return e, nil
}

// readLabels reads the labels of a key as labelColumns stored them.
func readLabels(stored []byte, key string) (*session.Labels, error) {
	raw, err := checked(stored, key)
	if err != nil {
		return nil, err
	}
	var l session.Labels
	err = json.Unmarshal(raw, &l)
	return &l, err
}

// Entry reads an entry.
func (s *Store) Entry(ctx context.Context, o store.Owner, key string, version int64) (store.Entry, bool, error) {
	if err := s.usable(ctx, o.Check(), store.CheckEntryKey(key)); err != nil {
		return store.Entry{}, false, err
	}
	args := keyArgs(o, key)
	args["version"] = version
	entries, err := s.entries(ctx, entryColumns+` AND v.version = CASE WHEN @version::bigint = 0 THEN m.version ELSE @version::bigint END
		WHERE m.present AND `+ofKey, args)
	if err != nil || len(entries) == 0 {
		return store.Entry{}, false, err
	}
	return entries[0], true, nil
}

func (s *Store) entries(ctx context.Context, sql string, args pgx.NamedArgs) (entries []store.Entry, err error) {
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, sql, args)
		if err == nil {
			entries, err = pgx.CollectRows(rows, entryOf)
		}
		return err
	})
	return entries, err
}

// Expired lists the newest entries that have expired.
func (s *Store) Expired(ctx context.Context, tenant string, at time.Time, limit int) (expired []store.OwnedEntry, err error) {
	if limit, err = store.PageLimit(limit); err != nil {
		return nil, err
	}
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, entryColumns+` AND v.version = m.version WHERE m.present AND m.tenant = @tenant AND v.expires_at <= @at
			ORDER BY v.expires_at, m.owner, m.key LIMIT @limit`, pgx.NamedArgs{"tenant": tenant, "at": at, "limit": limit})
		if err == nil {
			expired, err = pgx.CollectRows(rows, ownedEntryOf)
		}
		return err
	})
	expired = slices.DeleteFunc(expired, func(e store.OwnedEntry) bool { return !e.Labels.Expired(at) })
	for i := range expired {
		expired[i].Owner.Tenant = tenant
	}
	return expired, err
}

// Entries reads the newest version of each key in the order of their bytes.
func (s *Store) Entries(ctx context.Context, o store.Owner, prefix, after string, limit int) ([]store.Entry, error) {
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	if err := s.usable(ctx, o.Check()); err != nil {
		return nil, err
	}
	if prefix != "" {
		if err := store.CheckEntryKey(prefix); err != nil {
			return nil, err
		}
	}
	// Keys are in the order of their bytes, and '0' is the byte after '/'.
	args := ownerArgs(o)
	args["prefix"], args["after"], args["from"], args["limit"] = prefix, []byte(after), max(prefix, textBefore(after)), limit
	return s.entries(ctx, entryColumns+` AND v.version = m.version
		WHERE m.present AND `+ofOwner+` AND m.key >= @from::text AND convert_to(m.key, 'UTF8') > @after::bytea
			AND (@prefix::text = '' OR m.key < @prefix::text || '0' AND (m.key = @prefix::text OR m.key >= @prefix::text || '/'))
		ORDER BY m.key LIMIT @limit`, args)
}

// textBefore is the longest beginning of s that PostgreSQL accepts as text. It
// sorts before everything that sorts after s.
func textBefore(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) {
			return s[:i]
		}
	}
	return s
}

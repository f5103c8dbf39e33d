package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// OpenAt opens a store that goes by another clock than the database's.
func OpenAt(ctx context.Context, url string, c Config, now func() time.Time) (*Store, error) {
	s, err := newStore(url, c)
	if err != nil {
		return nil, err
	}
	s.now = now
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenMeasured is OpenAt for a store that does nothing in the background which
// would be measured with a call.
func OpenMeasured(ctx context.Context, url string, c Config, now func() time.Time) (*Store, error) {
	s, err := newStore(url, c)
	if err != nil {
		return nil, err
	}
	s.now = now
	s.index.quiet, s.index.late, s.index.soon = time.Hour, time.Hour, time.Hour
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// RowSum is the checksum of a session's row.
func RowSum(r store.Ref, version, seq int64, messages *int64, updatedAt time.Time) int64 {
	return rowSum(r.Tenant, r.ID, version, seq, messages, updatedAt)
}

// SetRetryFor sets how long calls go on trying while the database is away.
func (s *Store) SetRetryFor(d time.Duration) { s.retryFor = d }

// SetCountsFor sets how long a request counts as one in flight.
func (s *Store) SetCountsFor(d time.Duration) { s.countsFor = d }

// ForgetSnapshotsDue makes a store forget which sessions should have a snapshot.
func (s *Store) ForgetSnapshotsDue() {
	s.snapshotsDue.mu.Lock()
	defer s.snapshotsDue.mu.Unlock()
	clear(s.snapshotsDue.refs)
}

// MaxInFlight is how many requests that write run at the same time.
const MaxInFlight = maxInFlight

// Queued is how many writes wait to be sent.
func (s *Store) Queued() int {
	s.batcher.mu.Lock()
	defer s.batcher.mu.Unlock()
	return len(s.batcher.queue)
}

// Translated is an error of the driver as a caller gets it.
func Translated(err error) error { return translate(context.Background(), err) }

// StoredBody is a record as a log row holds it that follows a session.
func StoredBody(t testing.TB, s session.Session, r session.Record) []byte {
	t.Helper()
	last, _ := session.BaseSum(s)
	body, _, err := encodeBody(store.Sum(last), r, s.Version()+1)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// StoredValue is the value of an entry as a row holds it.
func StoredValue(key, value string) []byte { return withSum([]byte(value), key) }

// MigrationLock is the lock under which the schema is migrated.
const MigrationLock = migrationLock

// FindSnapshot reads the commit of a version and the snapshot before it.
var FindSnapshot = findSnapshot

// ListStatement reads the rows of a listing's first page.
func ListStatement(t testing.TB, tenant string, q store.Query) (string, pgx.NamedArgs) {
	t.Helper()
	q, _, err := q.Check()
	if err != nil {
		t.Fatal(err)
	}
	l := listing{tenant: tenant, query: q}
	return l.statement()
}

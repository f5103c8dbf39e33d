package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Full is a store with every ability that a runtime asks for.
type Full interface {
	store.Store
	store.Tails
	store.Leases
	store.Starts
	store.Logs
	store.Forks
	store.Inboxes
	store.Wakes
	store.Work
	store.Spends
	store.Keys
	store.Sweeps
	store.Memories
	store.Vectors
}

// FaultyStore is a Full store that fails at chosen calls.
type FaultyStore struct {
	store Full
	fail  func(call string, n int) error

	mu    sync.Mutex
	calls map[string]int // guarded by mu
}

var _ Full = (*FaultyStore)(nil)

// Faulty wraps a store. Fail is asked before each call, with the name of the
// method and how often it was called, this time included. When it returns an
// error, the call returns that error and does not reach the store, unless the
// error comes from After. Fail may also wait or panic; it must be safe for
// concurrent use where the store is used so. Subscribe and Close never fail.
func Faulty(s Full, fail func(call string, n int) error) *FaultyStore {
	return &FaultyStore{store: s, fail: fail, calls: map[string]int{}}
}

// After is an error for a call that is carried out first: what it wrote is
// there, and the caller does not learn it, as when a connection breaks at the
// moment of a commit.
func After(err error) error { return &afterError{err} }

// ErrHang is an error for a call that is not answered: it waits until its context
// ends.
var ErrHang = errors.New("the store does not answer")

type afterError struct{ err error }

func (e *afterError) Error() string { return e.err.Error() }
func (e *afterError) Unwrap() error { return e.err }

// Calls is how often a method was called so far.
func (f *FaultyStore) Calls(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

// faulty makes a call or fails in its place.
func faulty[T any](ctx context.Context, f *FaultyStore, call string, do func() (T, error)) (T, error) {
	f.mu.Lock()
	f.calls[call]++
	n := f.calls[call]
	f.mu.Unlock()
	err := f.fail(call, n)
	if errors.Is(err, ErrHang) {
		<-ctx.Done()
		err = ctx.Err()
	}
	var late *afterError
	if err != nil && !errors.As(err, &late) {
		var zero T
		return zero, err
	}
	v, done := do()
	if late != nil {
		var zero T
		return zero, late.err
	}
	return v, done
}

// nothing is the result of a call that returns only an error.
type nothing struct{}

func (f *FaultyStore) only(ctx context.Context, call string, do func() error) error {
	_, err := faulty(ctx, f, call, func() (nothing, error) { return nothing{}, do() })
	return err
}

// Create may fail as "Create".
func (f *FaultyStore) Create(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	return faulty(ctx, f, "Create", func() (session.Session, error) { return f.store.Create(ctx, s, c) })
}

// Save may fail as "Save".
func (f *FaultyStore) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	return faulty(ctx, f, "Save", func() (session.Session, error) { return f.store.Save(ctx, s, c) })
}

// Load may fail as "Load".
func (f *FaultyStore) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	return faulty(ctx, f, "Load", func() (session.Session, error) { return f.store.Load(ctx, r, tail) })
}

// Info may fail as "Info".
func (f *FaultyStore) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	return faulty(ctx, f, "Info", func() (session.Info, error) { return f.store.Info(ctx, r) })
}

// List may fail as "List".
func (f *FaultyStore) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	return faulty(ctx, f, "List", func() (store.Page, error) { return f.store.List(ctx, tenant, q) })
}

// Delete may fail as "Delete".
func (f *FaultyStore) Delete(ctx context.Context, r store.Ref, fence int64) error {
	return f.only(ctx, "Delete", func() error { return f.store.Delete(ctx, r, fence) })
}

// Close closes the wrapped store.
func (f *FaultyStore) Close() error { return f.store.Close() }

// Append may fail as "Append".
func (f *FaultyStore) Append(ctx context.Context, s session.Session, a store.Append) (session.Session, error) {
	return faulty(ctx, f, "Append", func() (session.Session, error) { return f.store.Append(ctx, s, a) })
}

// Interrupted may fail as "Interrupted".
func (f *FaultyStore) Interrupted(ctx context.Context, tenant string) ([]store.Ref, error) {
	return faulty(ctx, f, "Interrupted", func() ([]store.Ref, error) { return f.store.Interrupted(ctx, tenant) })
}

// Acquire may fail as "Acquire".
func (f *FaultyStore) Acquire(ctx context.Context, r store.Ref, holder string, length time.Duration) (store.Lease, error) {
	return faulty(ctx, f, "Acquire", func() (store.Lease, error) { return f.store.Acquire(ctx, r, holder, length) })
}

// Renew may fail as "Renew".
func (f *FaultyStore) Renew(ctx context.Context, r store.Ref, l store.Lease, length time.Duration) (store.Lease, error) {
	return faulty(ctx, f, "Renew", func() (store.Lease, error) { return f.store.Renew(ctx, r, l, length) })
}

// Release may fail as "Release".
func (f *FaultyStore) Release(ctx context.Context, r store.Ref, l store.Lease) error {
	return f.only(ctx, "Release", func() error { return f.store.Release(ctx, r, l) })
}

// Holding may fail as "Holding".
func (f *FaultyStore) Holding(ctx context.Context, r store.Ref) (l store.Lease, live bool, err error) {
	l, err = faulty(ctx, f, "Holding", func() (l store.Lease, err error) {
		l, live, err = f.store.Holding(ctx, r)
		return l, err
	})
	return l, live && err == nil, err
}

// Start may fail as "Start".
func (f *FaultyStore) Start(ctx context.Context, s session.Session, b store.Beginning) (begun session.Session, l store.Lease, err error) {
	l, err = faulty(ctx, f, "Start", func() (l store.Lease, err error) {
		begun, l, err = f.store.Start(ctx, s, b)
		return l, err
	})
	if err != nil {
		begun = session.Session{}
	}
	return begun, l, err
}

// Log may fail as "Log".
func (f *FaultyStore) Log(ctx context.Context, r store.Ref, after int64, limit int) ([]session.LogEntry, error) {
	return faulty(ctx, f, "Log", func() ([]session.LogEntry, error) { return f.store.Log(ctx, r, after, limit) })
}

// Commits may fail as "Commits".
func (f *FaultyStore) Commits(ctx context.Context, r store.Ref, after int64, limit int) ([]store.CommitInfo, error) {
	return faulty(ctx, f, "Commits", func() ([]store.CommitInfo, error) { return f.store.Commits(ctx, r, after, limit) })
}

// LoadAt may fail as "LoadAt".
func (f *FaultyStore) LoadAt(ctx context.Context, r store.Ref, version int64) (session.Session, error) {
	return faulty(ctx, f, "LoadAt", func() (session.Session, error) { return f.store.LoadAt(ctx, r, version) })
}

// LoadWhole may fail as "LoadWhole".
func (f *FaultyStore) LoadWhole(ctx context.Context, r store.Ref, version int64) (session.Session, error) {
	return faulty(ctx, f, "LoadWhole", func() (session.Session, error) { return f.store.LoadWhole(ctx, r, version) })
}

// Fork may fail as "Fork".
func (f *FaultyStore) Fork(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	return faulty(ctx, f, "Fork", func() (session.Session, error) { return f.store.Fork(ctx, s, c) })
}

// Post may fail as "Post".
func (f *FaultyStore) Post(ctx context.Context, r store.Ref, item store.Item) error {
	return f.only(ctx, "Post", func() error { return f.store.Post(ctx, r, item) })
}

// Unread may fail as "Unread".
func (f *FaultyStore) Unread(ctx context.Context, tenant string) ([]store.Ref, error) {
	return faulty(ctx, f, "Unread", func() ([]store.Ref, error) { return f.store.Unread(ctx, tenant) })
}

// Waiting may fail as "Waiting".
func (f *FaultyStore) Waiting(ctx context.Context, after string, limit int) ([]store.Waiting, error) {
	return faulty(ctx, f, "Waiting", func() ([]store.Waiting, error) { return f.store.Waiting(ctx, after, limit) })
}

// Spending may fail as "Spending".
func (f *FaultyStore) Spending(ctx context.Context, tenant string, q store.SpendingQuery) (store.Spending, error) {
	return faulty(ctx, f, "Spending", func() (store.Spending, error) { return f.store.Spending(ctx, tenant, q) })
}

// Inbox may fail as "Inbox".
func (f *FaultyStore) Inbox(ctx context.Context, r store.Ref) ([]store.Item, error) {
	return faulty(ctx, f, "Inbox", func() ([]store.Item, error) { return f.store.Inbox(ctx, r) })
}

// Subscribe is the wrapped store's.
func (f *FaultyStore) Subscribe(r store.Ref) (<-chan struct{}, func()) { return f.store.Subscribe(r) }

// Key may fail as "Key".
func (f *FaultyStore) Key(ctx context.Context, r store.Ref, name string) (use store.KeyUse, known bool, err error) {
	use, err = faulty(ctx, f, "Key", func() (use store.KeyUse, err error) {
		use, known, err = f.store.Key(ctx, r, name)
		return use, err
	})
	return use, known && err == nil, err
}

// Sweepable may fail as "Sweepable".
func (f *FaultyStore) Sweepable(ctx context.Context, tenant string, r store.Retention, now time.Time) ([]session.Info, error) {
	return faulty(ctx, f, "Sweepable", func() ([]session.Info, error) { return f.store.Sweepable(ctx, tenant, r, now) })
}

// Remember may fail as "Remember".
func (f *FaultyStore) Remember(ctx context.Context, o store.Owner, m store.Memo) (store.Entry, error) {
	return faulty(ctx, f, "Remember", func() (store.Entry, error) { return f.store.Remember(ctx, o, m) })
}

// Entry may fail as "Entry".
func (f *FaultyStore) Entry(ctx context.Context, o store.Owner, key string, version int64) (e store.Entry, found bool, err error) {
	e, err = faulty(ctx, f, "Entry", func() (e store.Entry, err error) {
		e, found, err = f.store.Entry(ctx, o, key, version)
		return e, err
	})
	return e, found && err == nil, err
}

// Entries may fail as "Entries".
func (f *FaultyStore) Entries(ctx context.Context, o store.Owner, prefix, after string, limit int) ([]store.Entry, error) {
	return faulty(ctx, f, "Entries", func() ([]store.Entry, error) { return f.store.Entries(ctx, o, prefix, after, limit) })
}

// Expired may fail as "Expired".
func (f *FaultyStore) Expired(ctx context.Context, tenant string, at time.Time, limit int) ([]store.OwnedEntry, error) {
	return faulty(ctx, f, "Expired", func() ([]store.OwnedEntry, error) { return f.store.Expired(ctx, tenant, at, limit) })
}

// Forget may fail as "Forget".
func (f *FaultyStore) Forget(ctx context.Context, o store.Owner, key string, ifVersion *int64) (bool, error) {
	return faulty(ctx, f, "Forget", func() (bool, error) { return f.store.Forget(ctx, o, key, ifVersion) })
}

// ForgetTranscripts may fail as "ForgetTranscripts".
func (f *FaultyStore) ForgetTranscripts(ctx context.Context, tenant, user string, dry bool) (int, error) {
	return faulty(ctx, f, "ForgetTranscripts", func() (int, error) { return f.store.ForgetTranscripts(ctx, tenant, user, dry) })
}

// ForgetAll may fail as "ForgetAll".
func (f *FaultyStore) ForgetAll(ctx context.Context, o store.Owner, dry bool) (int, error) {
	return faulty(ctx, f, "ForgetAll", func() (int, error) { return f.store.ForgetAll(ctx, o, dry) })
}

// Search may fail as "Search".
func (f *FaultyStore) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	return faulty(ctx, f, "Search", func() ([]store.Passage, error) { return f.store.Search(ctx, tenant, q) })
}

// Unembedded may fail as "Unembedded".
func (f *FaultyStore) Unembedded(ctx context.Context, embedder string, limit int) ([]store.Unembedded, error) {
	return faulty(ctx, f, "Unembedded", func() ([]store.Unembedded, error) { return f.store.Unembedded(ctx, embedder, limit) })
}

// UnembeddedOf may fail as "UnembeddedOf".
func (f *FaultyStore) UnembeddedOf(ctx context.Context, r store.Ref, embedder string, limit int) ([]store.Unembedded, error) {
	return faulty(ctx, f, "UnembeddedOf", func() ([]store.Unembedded, error) { return f.store.UnembeddedOf(ctx, r, embedder, limit) })
}

// Embedded may fail as "Embedded".
func (f *FaultyStore) Embedded(ctx context.Context, embedder string, vectors []store.Embedding) error {
	return f.only(ctx, "Embedded", func() error { return f.store.Embedded(ctx, embedder, vectors) })
}

// Nearest may fail as "Nearest".
func (f *FaultyStore) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	return faulty(ctx, f, "Nearest", func() ([]store.Passage, error) { return f.store.Nearest(ctx, tenant, q) })
}

package holdfast_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

var errAway = errors.New("the database is away")

// faultyStore is an in-memory store whose calls are counted. Fault decides what
// becomes of each; the clock of its leases is the test's.
type faultyStore struct {
	*inmem.Store

	mu    sync.Mutex // guards the rest
	calls int
	fault func(n int, ref store.Ref) fault
	now   time.Time
}

// fault is what becomes of a call to the store.
type fault int

const (
	works fault = iota
	fails       // nothing happens
	lost        // it happens, and the caller is not told
)

func newFaultyStore() *faultyStore {
	st := &faultyStore{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	st.Store = inmem.New(inmem.Config{Now: func() time.Time {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.now
	}})
	return st
}

// inject counts calls from one on.
func (st *faultyStore) inject(decide func(n int, ref store.Ref) fault) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.calls, st.fault = 0, decide
}

// counted returns how many calls there were since inject.
func (st *faultyStore) counted() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.calls
}

// pass moves the clock past the end of every lease.
func (st *faultyStore) pass() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.now = st.now.Add(time.Hour)
}

// takeOver takes the session's lease from whoever holds it and gives it back.
func (st *faultyStore) takeOver(ref store.Ref) {
	st.pass()
	if lease, err := st.Store.Acquire(context.Background(), ref, "somebody else", time.Second); err == nil {
		_ = st.Store.Release(context.Background(), ref, lease)
	}
}

func (st *faultyStore) decide(ref store.Ref) fault {
	st.mu.Lock()
	st.calls++
	n, decide := st.calls, st.fault
	st.mu.Unlock()
	if decide == nil {
		return works
	}
	return decide(n, ref)
}

// through passes a call on, or not.
func through[T any](st *faultyStore, ref store.Ref, call func() (T, error)) (T, error) {
	var none T
	f := st.decide(ref)
	if f == fails {
		return none, errAway
	}
	v, err := call()
	if f == lost && err == nil {
		return none, errAway
	}
	return v, err
}

func (st *faultyStore) Create(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	return through(st, store.RefOf(s), func() (session.Session, error) { return st.Store.Create(ctx, s, c) })
}

func (st *faultyStore) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	return through(st, store.RefOf(s), func() (session.Session, error) { return st.Store.Save(ctx, s, c) })
}

func (st *faultyStore) Append(ctx context.Context, s session.Session, a store.Append) (session.Session, error) {
	return through(st, store.RefOf(s), func() (session.Session, error) { return st.Store.Append(ctx, s, a) })
}

func (st *faultyStore) Start(ctx context.Context, s session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	var lease store.Lease
	next, err := through(st, store.RefOf(s), func() (next session.Session, err error) {
		next, lease, err = st.Store.Start(ctx, s, b)
		return next, err
	})
	return next, lease, err
}

func (st *faultyStore) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	return through(st, r, func() (session.Session, error) { return st.Store.Load(ctx, r, tail) })
}

func (st *faultyStore) LoadAt(ctx context.Context, r store.Ref, version int64) (session.Session, error) {
	return through(st, r, func() (session.Session, error) { return st.Store.LoadAt(ctx, r, version) })
}

func (st *faultyStore) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	return through(st, r, func() (session.Info, error) { return st.Store.Info(ctx, r) })
}

func (st *faultyStore) Inbox(ctx context.Context, r store.Ref) ([]store.Item, error) {
	return through(st, r, func() ([]store.Item, error) { return st.Store.Inbox(ctx, r) })
}

func (st *faultyStore) Acquire(ctx context.Context, r store.Ref, holder string, length time.Duration) (store.Lease, error) {
	return through(st, r, func() (store.Lease, error) { return st.Store.Acquire(ctx, r, holder, length) })
}

func (st *faultyStore) Release(ctx context.Context, r store.Ref, l store.Lease) error {
	_, err := through(st, r, func() (struct{}, error) { return struct{}{}, st.Store.Release(ctx, r, l) })
	return err
}

func (st *faultyStore) Holding(ctx context.Context, r store.Ref) (store.Lease, bool, error) {
	var live bool
	lease, err := through(st, r, func() (lease store.Lease, err error) {
		lease, live, err = st.Store.Holding(ctx, r)
		return lease, err
	})
	return lease, live, err
}

func (st *faultyStore) Key(ctx context.Context, r store.Ref, name string) (store.KeyUse, bool, error) {
	var found bool
	use, err := through(st, r, func() (use store.KeyUse, err error) {
		use, found, err = st.Store.Key(ctx, r, name)
		return use, err
	})
	return use, found, err
}

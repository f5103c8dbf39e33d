package server

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	feedPoll  = time.Second            // how often to look for changes of other processes
	feedPause = 100 * time.Millisecond // between two looks, so that a burst is one
	feedBack  = 5 * time.Second        // how far clocks of nodes may be apart
)

// feeds tells readers which sessions of their tenant changed. All readers of a
// tenant share one look at the store.
type feeds struct {
	rt     *holdfast.Runtime
	closed <-chan struct{}

	mu      sync.Mutex
	tenants map[string]*feed // guarded by mu
}

func newFeeds(rt *holdfast.Runtime, closed <-chan struct{}) *feeds {
	return &feeds{rt: rt, closed: closed, tenants: map[string]*feed{}}
}

// feed is the changes of one tenant.
type feed struct {
	rt      *holdfast.Runtime
	woken   chan struct{}
	end     context.CancelFunc
	readers map[*feedReader]bool // guarded by feeds.mu
	sent    map[string]int64     // version by id, of the last seconds; used by run alone
}

// feedReader collects what one reader has not taken yet: of each session the
// newest header, so that a slow reader costs no more than a list of sessions.
type feedReader struct {
	ready chan struct{} // has a value while there is something to take

	mu      sync.Mutex
	waiting map[string]session.Info // guarded by mu
}

// wake looks for changes of a tenant at once.
func (f *feeds) wake(tenant string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tenants[tenant]; t != nil {
		select {
		case t.woken <- struct{}{}:
		default:
		}
	}
}

// join adds a reader. The caller calls leave when it has gone.
func (f *feeds) join(ctx context.Context, tenant string) (r *feedReader, leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tenants[tenant]
	if t == nil {
		ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // it outlives its first reader
		t = &feed{
			rt: f.rt.For(holdfast.Identity{Tenant: tenant}), woken: make(chan struct{}, 1), end: end,
			readers: map[*feedReader]bool{}, sent: map[string]int64{},
		}
		f.tenants[tenant] = t
		go f.run(ctx, t)
	}
	r = &feedReader{ready: make(chan struct{}, 1), waiting: map[string]session.Info{}}
	t.readers[r] = true
	return r, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(t.readers, r)
		if len(t.readers) == 0 {
			delete(f.tenants, tenant)
			t.end()
		}
	}
}

// run looks for changes until the last reader has gone.
func (f *feeds) run(ctx context.Context, t *feed) {
	poll := time.NewTicker(feedPoll)
	defer poll.Stop()
	since := time.Now().Add(-feedBack)
	for {
		began := time.Now()
		changed, err := t.changes(ctx, since)
		if err == nil { // else the next look begins where this one did
			since = began.Add(-feedBack)
			f.hand(t, changed)
		}
		select {
		case <-ctx.Done():
			return
		case <-f.closed:
			return
		case <-time.After(feedPause):
		}
		select {
		case <-ctx.Done():
			return
		case <-f.closed:
			return
		case <-poll.C:
		case <-t.woken:
		}
	}
}

// changes returns the headers that changed since and were not handed out.
func (t *feed) changes(ctx context.Context, since time.Time) ([]session.Info, error) {
	var changed []session.Info
	recent := map[string]int64{}
	for i, err := range t.rt.Sessions(ctx, store.Query{UpdatedAfter: since, IncludeDeleted: true}) {
		if err != nil {
			return nil, err
		}
		if recent[i.ID] = i.Version; t.sent[i.ID] != i.Version {
			changed = append(changed, i)
		}
	}
	t.sent = recent
	return changed, nil
}

// hand gives changes to all readers of a tenant.
func (f *feeds) hand(t *feed, changed []session.Info) {
	if len(changed) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range t.readers {
		r.add(changed)
	}
}

func (r *feedReader) add(changed []session.Info) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range changed {
		r.waiting[i.ID] = i
	}
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// take returns what came since the last call.
func (r *feedReader) take() map[string]session.Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.waiting
	r.waiting = map[string]session.Info{}
	return taken
}

// Package worker works on what waits: interrupted turns, messages and responses
// in inboxes, tasks, workflow runs, schedules and facts to extract, of all tenants.
//
// The store is the queue. A worker asks it what waits and takes the lease of
// what it works on, so any number of workers can share a store, and work whose
// process ended is taken up by another.
package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Config says what a worker works on. Runtime, Store and Kinds are required.
type Config struct {
	Runtime *holdfast.Runtime
	Store   store.Store           // of that runtime
	Kinds   map[session.Kind]Kind // kinds that are not here are left alone

	// TenantLimit bounds how many sessions of one tenant are worked on at once.
	// 0: there is no bound but the slots.
	TenantLimit int

	// Poll is how often to look without being woken, more or less; 0: 600 ms. What a
	// dead process has left is found that long after its lease: nobody is woken by it.
	Poll time.Duration
	// Grace is how long tasks and runs are left to whoever created them; 0: 3 s.
	Grace time.Duration
	// Drain is how long work may go on after Run's context has ended, before it is
	// interrupted. Nothing is lost by that: others continue it.
	Drain time.Duration

	// Fire sends what schedules have due and returns when the next is, as
	// Schedules.Fire does. Nil: there are none.
	Fire func(context.Context) (next time.Time, err error)

	// Paused reports that nothing new is to be taken; what is at work goes on. Nil:
	// never.
	Paused func() bool

	Logger *slog.Logger // nil: silent
	Now    func() time.Time
}

// Kind is how sessions of a kind are worked on.
type Kind struct {
	Slots int // how many at once
	// Do works on one session until it rests, with the runtime as the session's
	// tenant sees it. It reports whether there was something to do.
	Do func(ctx context.Context, rt *holdfast.Runtime, id string) (did bool, err error)
}

const (
	firstWait = time.Second      // before work that failed is tried again
	lastWait  = 10 * time.Minute // the longest such wait
	minPause  = 50 * time.Millisecond
	fireEvery = 5 * time.Second // at least, to see new schedules
	mostTries = 1000            // failures that are remembered

	factsEvery = time.Minute // facts that others have left are looked for
)

// Worker works on sessions. Make one with New.
type Worker struct {
	c    Config
	work store.Work
	log  *slog.Logger

	freed chan struct{} // holds a value when a slot became free

	mu       sync.Mutex
	running  map[store.Ref]session.Kind // guarded by mu
	failures map[store.Ref]failure      // guarded by mu
	after    string                     // the tenant that had its turn last; used by Run alone
	wg       sync.WaitGroup
}

// failure is work that did not succeed.
type failure struct {
	next time.Time
	wait time.Duration
}

// New checks the configuration.
func New(c Config) (*Worker, error) {
	invalid := func(field, reason string) (*Worker, error) {
		return nil, &session.InvalidError{Field: field, Reason: reason}
	}
	work, ok := c.Store.(store.Work)
	switch {
	case c.Runtime == nil:
		return invalid("Runtime", "is missing")
	case !ok:
		return invalid("Store", "cannot say what waits; SQLite and PostgreSQL can")
	case len(c.Kinds) == 0:
		return invalid("Kinds", "is empty")
	}
	for kind, k := range c.Kinds {
		if k.Slots < 1 || k.Do == nil {
			return invalid("Kinds", string(kind)+" has no slot or nothing to do")
		}
	}
	c.Poll, c.Grace = cmp.Or(c.Poll, 600*time.Millisecond), cmp.Or(c.Grace, 3*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Paused == nil {
		c.Paused = func() bool { return false }
	}
	return &Worker{
		c: c, work: work, log: cmp.Or(c.Logger, slog.New(slog.DiscardHandler)), freed: make(chan struct{}, 1),
		running: map[store.Ref]session.Kind{}, failures: map[store.Ref]failure{},
	}, nil
}

// Run works until the context ends. It returns when nothing is at work any more.
func (w *Worker) Run(ctx context.Context) {
	working, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	var news <-chan struct{}
	if wakes, ok := w.c.Store.(store.Wakes); ok {
		all, stop := wakes.Subscribe(store.Ref{})
		defer stop()
		news = all
	}
	var beside sync.WaitGroup
	if w.c.Fire != nil {
		beside.Go(func() { w.fire(ctx) })
	}
	beside.Go(func() { w.extractFacts(ctx) })
	defer beside.Wait()
	for ctx.Err() == nil {
		if err := w.look(ctx, working); err != nil && ctx.Err() == nil {
			w.log.Warn("what waits could not be read", "error", err)
		}
		w.pause(ctx, news)
	}
	ended := make(chan struct{})
	go func() { w.wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(w.c.Drain):
		interrupt()
		<-ended
	}
}

// fire fires schedules until the context ends.
func (w *Worker) fire(ctx context.Context) {
	for {
		wait := fireEvery
		var next time.Time
		var err error
		if !w.c.Paused() {
			next, err = w.c.Fire(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.log.Warn("schedules could not be fired", "error", err)
		case !next.IsZero():
			wait = max(min(wait, next.Sub(w.c.Now())), minPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// extractFacts extracts the facts of turns whose processes ended before they did,
// until the context ends.
func (w *Worker) extractFacts(ctx context.Context) {
	for {
		if !w.c.Paused() {
			if n, err := w.c.Runtime.ExtractOwedFacts(ctx); err != nil && ctx.Err() == nil {
				w.log.Warn("facts that others have left were not extracted", "error", err)
			} else if n > 0 {
				w.log.Info("extracted the facts of turns that others have left", "turns", n)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(factsEvery):
		}
	}
}

// pause waits until there may be something to do.
func (w *Worker) pause(ctx context.Context, news <-chan struct{}) {
	// Nodes that are woken together do not all look at the same moment.
	least := time.NewTimer(minPause/2 + rand.N(minPause))
	defer least.Stop()
	most := time.NewTimer(w.c.Poll/2 + rand.N(w.c.Poll))
	defer most.Stop()
	select {
	case <-ctx.Done():
		return
	case <-news:
	case <-w.freed:
	case <-most.C:
	}
	select {
	case <-ctx.Done():
	case <-least.C:
	}
}

// look takes as much of what waits as there are free slots for.
func (w *Worker) look(ctx, working context.Context) error {
	free, known := w.free()
	if free == 0 || w.c.Paused() {
		return nil
	}
	found, err := w.work.Waiting(ctx, w.after, 2*free+known)
	if err != nil {
		return err
	}
	for _, f := range found {
		if w.take(f) {
			w.after = f.Ref.Tenant
			w.wg.Go(func() { w.do(working, f) })
		}
	}
	return nil
}

// free counts the free slots, and the sessions that are passed over for now.
func (w *Worker) free() (slots, known int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.c.Kinds {
		slots += k.Slots
	}
	return slots - len(w.running), len(w.failures)
}

// take reserves a slot. It is false if there is none, or the session is not to
// be worked on yet.
func (w *Worker) take(f store.Waiting) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.c.Now()
	kind, ours := w.c.Kinds[f.Kind]
	if _, atWork := w.running[f.Ref]; !ours || atWork || now.Before(w.failures[f.Ref].next) {
		return false
	}
	if f.Kind != session.KindChat && now.Sub(f.Since) < w.c.Grace {
		return false
	}
	sameKind, sameTenant := 0, 0
	for ref, k := range w.running {
		if k == f.Kind {
			sameKind++
		}
		if ref.Tenant == f.Ref.Tenant {
			sameTenant++
		}
	}
	if sameKind >= kind.Slots || w.c.TenantLimit > 0 && sameTenant >= w.c.TenantLimit {
		return false
	}
	w.running[f.Ref] = f.Kind
	return true
}

// do works on a session.
func (w *Worker) do(ctx context.Context, f store.Waiting) {
	rt := w.c.Runtime.For(holdfast.Identity{Tenant: f.Ref.Tenant, Actor: "worker"})
	did, err := w.c.Kinds[f.Kind].Do(ctx, rt, f.Ref.ID)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, f.Ref)
	switch busy := errors.Is(err, session.ErrBusy); {
	case did && err == nil, busy: // the one that has it goes on with it
		delete(w.failures, f.Ref)
	default:
		w.putOff(f, err)
	}
	select {
	case w.freed <- struct{}{}:
	default:
	}
}

// putOff has a session wait before it is tried again.
func (w *Worker) putOff(f store.Waiting, err error) {
	wait := min(max(2*w.failures[f.Ref].wait, firstWait), lastWait)
	if err != nil && !errors.Is(err, context.Canceled) {
		w.log.Warn("work failed", "tenant", f.Ref.Tenant, "session", f.Ref.ID, "kind", f.Kind, "retry_in", wait, "error", err)
	}
	if len(w.failures) >= mostTries { // those that wait longest are looked at again before the others
		for ref, known := range w.failures {
			if known.next.Before(w.c.Now()) || len(w.failures) >= mostTries {
				delete(w.failures, ref)
			}
		}
	}
	w.failures[f.Ref] = failure{next: w.c.Now().Add(wait), wait: wait}
}

// Load is how busy a worker is, by kind.
type Load struct {
	Kind    session.Kind `json:"kind"`
	Slots   int          `json:"slots"`
	Running int          `json:"running"`
}

// Loads returns how busy the worker is.
func (w *Worker) Loads() []Load {
	w.mu.Lock()
	defer w.mu.Unlock()
	var loads []Load
	for _, kind := range []session.Kind{session.KindChat, session.KindTask, session.KindWorkflow} {
		if k, ok := w.c.Kinds[kind]; ok {
			l := Load{Kind: kind, Slots: k.Slots}
			for _, running := range w.running {
				if running == kind {
					l.Running++
				}
			}
			loads = append(loads, l)
		}
	}
	return loads
}

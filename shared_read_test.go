package holdfast

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

// Callers that ask while a read is running share the next one; nobody gets a
// read that began before it asked.
func TestSharedReads_joinTheNextRead(t *testing.T) {
	t.Parallel()
	var (
		s       sharedReads
		written atomic.Int64 // the last change that is in the log
		count   atomic.Int64
		first   = make(chan struct{})
		pass    = make(chan struct{})
	)
	read := func(hold bool) ([]session.LogEntry, error) {
		return s.read(context.Background(), 0, func(context.Context) ([]session.LogEntry, error) {
			count.Add(1)
			seen := written.Load()
			if hold {
				close(first)
				<-pass
			}
			return []session.LogEntry{{Record: session.Record{Seq: seen}}}, nil
		})
	}
	written.Store(1)
	var all sync.WaitGroup
	all.Go(func() { _, _ = read(true) })
	<-first
	written.Store(2) // after the first read has looked
	asked := make(chan struct{}, 100)
	for range 100 {
		all.Go(func() {
			asked <- struct{}{}
			entries, err := read(false)
			if err != nil || len(entries) != 1 || entries[0].Seq != 2 {
				t.Errorf("%+v %v: a read that began too early", entries, err)
			}
		})
	}
	for range 100 {
		<-asked
	}
	close(pass)
	all.Wait()
	if n := count.Load(); n > 101 || n < 2 {
		t.Errorf("%d reads", n)
	}
	if len(s.waiting)+len(s.running) != 0 {
		t.Errorf("%d reads are left", len(s.waiting)+len(s.running))
	}
}

// A caller that goes away in the middle of a shared read fails nobody else.
func TestSharedReads_oneWhoLeavesFailsNobody(t *testing.T) {
	t.Parallel()
	var s sharedReads
	first, pass := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, _ = s.read(context.Background(), 0, func(context.Context) ([]session.LogEntry, error) { close(first); <-pass; return nil, nil })
	})
	<-first
	ctx, leave := context.WithCancel(context.Background())
	all.Go(func() {
		_, err := s.read(ctx, 0, func(ctx context.Context) ([]session.LogEntry, error) { return nil, ctx.Err() })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
	})
	for waits := false; !waits; { // it is to read next, and others may join it
		runtime.Gosched()
		s.mu.Lock()
		waits = s.waiting[0] != nil
		s.mu.Unlock()
	}
	for range 20 {
		all.Go(func() {
			entries, err := s.read(context.Background(), 0, func(context.Context) ([]session.LogEntry, error) { return []session.LogEntry{{}}, nil })
			if err != nil || len(entries) != 1 {
				t.Errorf("who stayed got %v %v", entries, err)
			}
		})
	}
	leave()
	close(pass)
	all.Wait()
}

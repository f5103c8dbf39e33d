package file_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
)

// endsWhenWaitedFor is a context that ends when somebody waits for its end.
type endsWhenWaitedFor struct {
	context.Context
	end context.CancelFunc
}

func (c endsWhenWaitedFor) Done() <-chan struct{} {
	c.end()
	return c.Context.Done()
}

func TestLock_waitingEndsWithTheContextAsBusy(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	inside, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := open(t, dir, file.Config{OnWrite: func(point string) {
		if point == "before document rename" {
			once.Do(func() { close(inside); <-goOn })
		}
	}})
	quick := open(t, dir, file.Config{})
	done := make(chan error)
	s := create(t, quick, "a")
	go func() {
		_, err := slow.Save(context.WithoutCancel(t.Context()), said(t, s, "slow"), store.Commit{At: noon()})
		done <- err
	}()
	<-inside
	for name, st := range map[string]*file.Store{"the same store": slow, "another store": quick} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := st.Save(endsWhenWaitedFor{ctx, cancel}, said(t, s, "late"), store.Commit{})
		if !errors.Is(err, session.ErrBusy) || !errors.Is(err, context.Canceled) {
			t.Errorf("save through %s: %v, want BusyError because the context ended", name, err)
		}
		if got := load(t, st, "a").Version(); got != 1 {
			t.Errorf("loaded version %d while a save is under way, want 1", got)
		}
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Fatalf("the slow save: %v", err)
	}
	if got := texts(load(t, quick, "a")); !slices.Equal(got, []string{"slow"}) {
		t.Errorf("said %q", got)
	}
}

func TestLoad_neverMixesAVersionWithAnothersTail(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	s := create(t, st, "a")
	reader := open(t, dir, file.Config{})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		last := 0
		for {
			select {
			case <-stop:
				return
			default:
			}
			got, err := reader.Load(context.Background(), ref("a"), true)
			if err != nil {
				t.Errorf("load: %v", err)
				return
			}
			if got.Len() < last {
				t.Errorf("%d messages after %d", got.Len(), last)
			}
			last = got.Len()
		}
	}()
	for range 60 {
		s = appendTail(t, st, said(t, s, "x"))
		s = save(t, st, appendTail(t, st, said(t, s, "x")), store.Commit{At: noon()})
	}
	close(stop)
	<-done
}

package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
)

// An execution whose caller goes away is interrupted, and what it wrote is the
// tail that WithTail reads.
func TestExecute_theEndOfTheContextInterrupts(t *testing.T) {
	t.Parallel()
	c := newNode(t, llm.Map{offline.Name: offline.Model{Pace: time.Hour}}).client(t)
	made := create(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Execute(ctx, made.ID, holdfast.SendMessage{Text: "hello"})
		failed <- err
	}()
	limit, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for u, err := range c.Follow(limit, made.ID, made.Seq) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Delta != nil {
			break
		}
	}
	if _, held, err := c.Holder(limit, made.ID); err != nil || !held {
		t.Errorf("held is %t, %v", held, err)
	}
	cancel()
	var interrupted *session.InterruptedError
	if err := <-failed; !errors.As(err, &interrupted) || interrupted.ID != made.ID {
		t.Fatalf("%T %v", err, err)
	}
	s, err := c.Get(limit, made.ID, holdfast.WithTail())
	if err != nil || !s.HasTail() || !s.Running() || s.Version() != 1 || s.Seq() != interrupted.Seq {
		t.Fatalf("%+v at change %d, %v", s.Info(), s.Seq(), err)
	}
	if s, err := c.Get(limit, made.ID); err != nil || s.HasTail() || s.Seq() != made.Seq {
		t.Errorf("%+v, %v", s.Info(), err)
	}
	open := 0
	for entry, err := range c.Log(limit, made.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if entry.Version == 0 {
			open++
		}
	}
	if want := s.Seq() - made.Seq; int64(open) != want {
		t.Errorf("%d changes of the log are open, want %d", open, want)
	}
}

func TestPurge_cascades(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := newNode(t, llm.Map{offline.Name: offline.Model{}}).client(t)
	made := create(t, c)
	child, err := c.Fork(ctx, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Purge(ctx, made.ID, holdfast.Cascade()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Info(ctx, child.ID()); !errors.Is(err, session.ErrNotFound) {
		t.Error(err)
	}
}

// What a server cannot do for an option is refused here, by its name.
func TestOptions_thatAServerDoesNotTake(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := newNode(t, nil).client(t)
	made := create(t, c)
	for name, call := range map[string]func() error{
		"Stream": func() error {
			_, err := c.Execute(ctx, made.ID, holdfast.ClearSession{}, holdfast.Stream(nil))
			return err
		},
		"WithKind":    func() error { _, err := c.Create(ctx, echo, holdfast.WithKind(session.KindTask)); return err },
		"tail and at": func() error { _, err := c.Get(ctx, made.ID, holdfast.WithTail(), holdfast.At(1)); return err },
		"version 0":   func() error { _, err := c.Get(ctx, made.ID, holdfast.At(0)); return err },
		"fork at 0":   func() error { _, err := c.Fork(ctx, made.ID, holdfast.At(0)); return err },
		"no id":       func() error { _, err := c.Resolve(ctx, ""); return err },
		"nothing":     func() error { _, err := c.Execute(ctx, made.ID, holdfast.ContinueExecution{}); return err },
	} {
		if err := call(); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var nothing *session.NothingToDoError
	if _, err := c.Execute(ctx, made.ID, holdfast.ContinueExecution{}); !errors.As(err, &nothing) || nothing.What != "continue" {
		t.Errorf("%T %v", err, err)
	}
}

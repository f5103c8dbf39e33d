package task_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/linear"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/task"
)

// deed is one call of a recorded history.
type deed struct {
	op     string // get, resume, cancel, allow_once, deny_once
	client int
}

// abstract is a task with one approval, as simple as it can be told: who
// answered it first and how, whether it was asked to be cancelled, and where
// it stands.
type abstract struct {
	status string // denying: at work, to write that the call was denied
	answer string // "": none
	cancel bool   // somebody asked whoever works on it
}

// later are the states that a state may come to by itself: answers take
// effect, work comes to its end, a cancel is seen or comes too late.
func later(from []abstract) []abstract {
	all := slices.Clone(from)
	add := func(s abstract) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for i := 0; i < len(all); i++ {
		s := all[i]
		next := func(status string) { s := s; s.status = status; add(s) }
		switch {
		case s.status == "blocked" && s.answer == "allow_once":
			next("executing")
		case s.status == "blocked" && s.answer == "deny_once":
			next("denying")
		case s.status == "denying":
			next("paused")
			if s.cancel {
				next("cancelled")
			}
		case s.status == "paused" && s.cancel:
			next("cancelled")
		case s.status == "executing":
			next("completed")
			if s.cancel {
				next("cancelled")
			}
		}
	}
	return all
}

// courses are the states after a call that returned what it did.
func courses(from abstract, d deed, got string) (after []abstract) {
	for _, s := range later([]abstract{from}) {
		ended := s.status == "completed" || s.status == "cancelled"
		if next, ok := course(s, ended, d, got); ok {
			after = append(after, next...)
		}
	}
	return after
}

func course(s abstract, ended bool, d deed, got string) ([]abstract, bool) {
	same := []abstract{s}
	switch d.op {
	case "get":
		return same, got == s.status || got == "executing" && s.status == "denying"
	case "resume":
		switch {
		case got == "conflict":
			return same, true
		case ended:
			return same, got == "terminal"
		case s.status == "blocked" && s.answer == "":
			return same, got == "not resumable"
		case s.status == "executing", s.status == "denying":
			return same, got == "already"
		}
		moved := s
		if moved.status = "executing"; s.status == "blocked" && s.answer == "deny_once" {
			moved.status = "denying" // the denial takes effect first, and pauses it
		}
		return []abstract{moved}, got == "moved" || got == "interrupted"
	case "cancel":
		if ended {
			return same, got == "ok"
		}
		asked, over := s, s
		asked.cancel, over.status = true, "cancelled"
		if s.status == "executing" || s.status == "denying" {
			return []abstract{asked, over}, got == "ok"
		}
		return []abstract{over, asked}, got == "ok"
	}
	switch {
	case ended:
		return same, got == "terminal"
	case s.answer == "":
		s.answer = d.op
		return []abstract{s}, got == "ok"
	case s.answer == d.op:
		return same, got == "ok"
	}
	return same, got == "resolved"
}

func taskModel() linear.Model[abstract, deed, string] {
	return linear.Model[abstract, deed, string]{Start: abstract{status: "blocked"}, Step: courses}
}

// act does a deed and names how it ended.
func act(x *task.Executor, approval string, d deed) string {
	ctx := context.Background()
	named := func(err error) string {
		var resolved *session.RespondedError
		switch {
		case errors.Is(err, session.ErrTaskTerminal):
			return "terminal"
		case errors.Is(err, session.ErrNotResumable):
			return "not resumable"
		case errors.Is(err, session.ErrConflict):
			return "conflict"
		case errors.As(err, &resolved):
			return "resolved"
		}
		return err.Error()
	}
	switch d.op {
	case "get":
		row, err := x.Get(ctx, "t1")
		if err != nil {
			return named(err)
		}
		return task.Canonical(row.TaskRow)
	case "resume":
		result, err := x.Resume(ctx, "t1")
		switch {
		case err != nil:
			return named(err)
		case result.Already:
			return "already"
		}
		return "moved"
	case "cancel":
		if _, err := x.Cancel(ctx, "t1"); err != nil {
			return named(err)
		}
		return "ok"
	}
	if _, err := x.Respond(ctx, "t1", responseOf(approval, d.op, fmt.Sprint(d.client)), task.RespondOptions{}); err != nil {
		return named(err)
	}
	return "ok"
}

func TestTasks_answersResumesAndEndsAreLinearizable(t *testing.T) {
	t.Parallel()
	const rounds, clients, deeds = 25, 4, 3
	model := taskModel()
	for round := range rounds {
		st := inmem.New(inmem.Config{})
		c, write := writer()
		finish := func(context.Context, int, llm.Request) (llm.Response, error) { return says("done"), nil }
		one := houseOn(t, st, script("call:c1:write:{}"), with(write))
		one.start(job())
		approval := one.open().ID
		one.answer = finish
		other := houseOn(t, st, finish, with(write))
		var ticks atomic.Int64
		var mu sync.Mutex
		var history []linear.Call[deed, string]
		var wg sync.WaitGroup
		for client := range clients {
			random := rand.New(rand.NewPCG(uint64(round), uint64(client)))
			x := []*task.Executor{one.x, other.x}[client%2]
			wg.Go(func() {
				for range deeds {
					op := []string{"get", "resume", "resume", "allow_once", "allow_once", "deny_once", "cancel"}[random.IntN(7)]
					d := deed{op: op, client: client}
					began := ticks.Add(1)
					got := act(x, approval, d)
					ended := ticks.Add(1)
					mu.Lock()
					history = append(history, linear.Call[deed, string]{Client: client, Began: began, Ended: ended, In: d, Out: got})
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if err := linear.Check(model, history); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if c.ran() > 1 {
			t.Errorf("round %d: the tool ran %d times", round, c.ran())
		}
		if n := one.count("task_completed") + one.count("task_cancelled"); n > 1 {
			t.Errorf("round %d: the task ended %d times", round, n)
		}
		row := one.row()
		if task.Ended(row.TaskRow) != (row.CompletedAt != 0) {
			t.Errorf("round %d: the row is %+v", round, row)
		}
	}
}

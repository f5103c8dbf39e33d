package task_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

var errOdd = errors.New("broken")

// loops answers with a call of the checklist for ever.
func loops() llm.Model {
	return modelFunc(func(context.Context, llm.Request) (llm.Response, error) {
		return callsTool("", "task_list_list", "{}"), nil
	})
}

func empties() llm.Model {
	return modelFunc(func(context.Context, llm.Request) (llm.Response, error) { return llm.Response{}, nil })
}

func TestRunStep_everyEndHasItsReason(t *testing.T) {
	t.Parallel()
	long := &llm.ProviderError{Status: 413, Message: "too long"}
	for name, c := range map[string]struct {
		caps   task.Caps
		model  llm.Model
		talk   int // exchanges before the step
		want   task.StopReason
		loop   task.StopReason
		cause  error
		passes int
		asked  int
	}{
		"the answer ends it":       {model: scripted.New(reply("done")), want: task.StopCompleted, passes: 1, asked: 1},
		"no iterations":            {caps: task.Caps{MaxIterations: task.None}, model: loops(), want: task.StopIterations, loop: task.StopIterations},
		"no calls":                 {caps: task.Caps{MaxLLMCalls: task.None}, model: loops(), want: task.StopLLMCalls, loop: task.StopLLMCalls},
		"iterations come first":    {caps: task.Caps{MaxLLMCalls: task.None, MaxIterations: task.None}, model: loops(), want: task.StopIterations, loop: task.StopIterations},
		"iterations by default":    {model: loops(), want: task.StopIterations, loop: task.StopIterations, passes: 32, asked: 32},
		"calls by default":         {caps: task.Caps{MaxIterations: 100}, model: loops(), want: task.StopLLMCalls, loop: task.StopLLMCalls, passes: 40, asked: 40},
		"no empty answers":         {caps: task.Caps{MaxEmptyResponses: task.None}, model: empties(), want: task.StopEmpty},
		"empty answers by default": {model: empties(), want: task.StopEmpty, passes: 3, asked: 3},
		"the provider fails":       {model: scripted.New(scripted.Reply{Err: errOdd}), want: task.StopProvider, cause: errOdd, asked: 1},
		"no recovery": {
			caps: task.Caps{MaxRecoveredResponses: task.None}, model: scripted.New(scripted.Reply{Err: long}), talk: 3,
			want: task.StopRecovered, loop: task.StopRecovered, asked: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, task.Config{}, c.model)
			id := s.working(spec())
			s.talk(id, c.talk, 10)
			s.with(id, func(r *task.Run) {
				out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1", Caps: c.caps})
				if out.StopReason != c.want || out.LoopBudgetStop != c.loop || !errors.Is(err, c.cause) || (err == nil) != (c.cause == nil) {
					t.Errorf("ended with %q (%q), %v; want %q (%q), %v", out.StopReason, out.LoopBudgetStop, err, c.want, c.loop, c.cause)
				}
				if out.Iterations != c.passes || out.LLMCalls != c.asked {
					t.Errorf("%d iterations and %d calls, want %d and %d", out.Iterations, out.LLMCalls, c.passes, c.asked)
				}
			})
		})
	}
}

// Work that cannot begin leaves no reason, and nothing behind.
func TestRunStep_withoutAContextNothingIsDone(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	fenced, lose := context.WithCancelCause(context.Background())
	lose(session.ErrFenced)
	for want, ctx := range map[error]context.Context{context.Canceled: gone, session.ErrFenced: fenced} {
		s := newSite(t, task.Config{}, scripted.New())
		id := s.working(spec())
		before := len(s.events(id))
		s.with(id, func(r *task.Run) {
			if out, err := r.RunStep(ctx, task.StepInput{StepID: "s1"}); !errors.Is(err, want) || out.StopReason != "" {
				t.Errorf("%q, %v; want %v", out.StopReason, err, want)
			}
		})
		if after := len(s.events(id)); after != before {
			t.Errorf("%d changes were written", after-before)
		}
	}
}

func TestRunStep_capsBelowNoneAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.create(spec())
	before := len(s.events(id))
	s.with(id, func(r *task.Run) {
		for _, caps := range []task.Caps{{MaxIterations: -2}, {MaxLLMCalls: -2}, {MaxEmptyResponses: -2}, {MaxRecoveredResponses: -2}} {
			if out, err := r.RunStep(context.Background(), task.StepInput{Caps: caps}); !errors.Is(err, session.ErrInvalid) || out.StopReason != "" {
				t.Errorf("%+v: %v, %+v; want it refused", caps, err, out)
			}
		}
	})
	if after := len(s.events(id)); after != before {
		t.Errorf("a refused call wrote %d changes", after-before)
	}
}

// What a step has used of its caps is in the log: a step that continues after a
// crash does not begin anew.
func TestRunStep_resumedStepGoesOnFromItsCounters(t *testing.T) {
	t.Parallel()
	asked := 0
	ctx, kill := context.WithCancel(context.Background())
	model := modelFunc(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
		if asked++; asked == 6 {
			kill()
			<-ctx.Done()
			return llm.Response{}, ctx.Err()
		}
		return callsTool("", "task_list_list", "{}"), nil
	})
	s := newSite(t, task.Config{}, model)
	id := s.working(spec())
	in := task.StepInput{StepID: "s1", Messages: []session.Message{{Role: session.RoleUser, Content: session.Text("begin")}}}
	_ = s.x.Open(context.Background(), id, func(r *task.Run) error {
		if _, err := r.RunStep(ctx, in); !errors.Is(err, session.ErrInterrupted) {
			t.Errorf("ended with %v", err)
		}
		return nil
	})
	s.open(task.Config{}) // another process
	s.with(id, func(r *task.Run) {
		out, _ := r.RunStep(context.Background(), in)
		if out.StopReason != task.StopIterations || out.LLMCalls != 32 || asked != 33 {
			t.Errorf("ended with %s after %d calls, %d in all; want max_iterations after 32 and the one that was cut off", out.StopReason, asked, out.LLMCalls)
		}
		if out, _ := r.RunStep(context.Background(), task.StepInput{StepID: "s2", Caps: task.Caps{MaxIterations: 1}}); out.LLMCalls != 1 {
			t.Errorf("another step begins with %d calls, want 1 after its first", out.LLMCalls)
		}
	})
	n := 0
	for _, m := range s.messages(id) {
		if m.Content.Text() == "begin" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the step was begun %d times in words, want once", n)
	}
}

func TestRunStep_endedTaskIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New(reply("done"), reply("done")))
	row, err := s.x.Start(context.Background(), spec())
	if err != nil || row.Status != task.Completed {
		t.Fatalf("%s, %v; want it completed", row.Status, err)
	}
	before := len(s.events(row.ID))
	s.with(row.ID, func(r *task.Run) {
		out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s3"})
		if out.StopReason != task.StopEndedElsewhere || err != nil {
			t.Errorf("%s, %v; want nothing done", out.StopReason, err)
		}
	})
	if after := len(s.events(row.ID)); after != before {
		t.Errorf("%d changes were written to a task that has ended", after-before)
	}
}

// Turns count whether or not a provider tells what they used, and nothing that
// cannot be is added to the totals.
func TestTurns_countWithoutUsage(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New(
		scripted.Reply{Text: "first done"},
		scripted.Reply{Text: "second done", Usage: session.Usage{Input: -5, Output: 7}, Cost: -3},
	))
	row, err := s.x.Start(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	state := s.state(row.ID)
	if l := state.Loop; l.Turns != 2 || l.LifetimeTurns != 2 || l.Iterations != 2 {
		t.Errorf("turns %d, %d, %d; want 2 of each", l.Turns, l.LifetimeTurns, l.Iterations)
	}
	if u := state.Usage; u.Input != 0 || u.Output != 7 || u.Cost != 0 {
		t.Errorf("usage %+v, want 7 tokens of output alone", u)
	}
	told := s.only(row.ID, "llm_usage").Data
	want := map[string]any{
		"providerType": "test", "modelId": "model",
		"delta":  map[string]any{"inputTokens": 0.0, "outputTokens": 7.0, "cachedTokens": 0.0, "cost": 0.0},
		"totals": map[string]any{"inputTokens": 0.0, "outputTokens": 7.0, "cost": 0.0},
	}
	if !reflect.DeepEqual(told, want) {
		t.Errorf("llm_usage %v, want %v", told, want)
	}
	if got := row.Projection; got == nil || got.BudgetUsage.Turns != 2 || got.LifetimeTurnsUsed != 2 {
		t.Errorf("the row shows %+v, want 2 turns", got)
	}
}

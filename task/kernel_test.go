package task_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// fake is a policy that does as it is told and writes down what it was asked.
type fake struct {
	calls []string
	asked int

	stopBefore func() (bool, task.StopReason)
	drain      func() error
	before     func() error
	request    func(n int) (task.Response, error)
	handle     func(n int, it *task.Iteration) (task.Decision, error)
	after      func() error
}

func (f *fake) StopBefore(*task.Iteration) (bool, task.StopReason) {
	f.calls = append(f.calls, "StopBefore")
	if f.stopBefore != nil {
		return f.stopBefore()
	}
	return false, ""
}

func (f *fake) step(name string, do func() error) error {
	f.calls = append(f.calls, name)
	if do != nil {
		return do()
	}
	return nil
}

func (f *fake) Drain(context.Context, *task.Iteration) error  { return f.step("Drain", f.drain) }
func (f *fake) Before(context.Context, *task.Iteration) error { return f.step("Before", f.before) }
func (f *fake) After(context.Context, *task.Iteration) error  { return f.step("After", f.after) }

func (f *fake) Request(context.Context, *task.Iteration) (task.Response, error) {
	f.calls = append(f.calls, "Request")
	f.asked++
	if f.request != nil {
		return f.request(f.asked)
	}
	return task.Answer{}, nil
}

func (f *fake) Handle(_ context.Context, _ task.Response, it *task.Iteration) (task.Decision, error) {
	f.calls = append(f.calls, "Handle")
	if f.handle != nil {
		return f.handle(f.asked, it)
	}
	return task.Decision{Stop: true}, nil
}

var errOdd = errors.New("broken")

func recovered(int) (task.Response, error) {
	return task.Recovered{Messages: []session.Message{{ID: "r", Role: session.RoleUser}}}, nil
}

func goOn(int, *task.Iteration) (task.Decision, error)   { return task.Decision{}, nil }
func repeat(int, *task.Iteration) (task.Decision, error) { return task.Decision{Repeat: true}, nil }

func empties(_ int, it *task.Iteration) (task.Decision, error) {
	n := it.Counters.Empty + 1
	return task.Decision{Empty: &n}, nil
}

func TestRunStep_everyEndHasItsReason(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	fenced, lose := context.WithCancelCause(context.Background())
	lose(session.ErrFenced)
	const pass = "StopBefore Drain Before Request"
	for name, c := range map[string]struct {
		in     task.KernelInput
		p      *fake
		ctx    context.Context
		want   task.StopReason
		loop   task.StopReason
		cause  error
		calls  string // all of them
		passes int
		asked  int
	}{
		"the answer ends it": {p: &fake{}, want: task.StopCompleted, calls: pass + " Handle After", passes: 1, asked: 1},
		"a reason of its own": {p: &fake{handle: func(int, *task.Iteration) (task.Decision, error) {
			return task.Decision{Stop: true, Reason: task.StopUserInput}, nil
		}}, want: task.StopUserInput, calls: pass + " Handle After", passes: 1, asked: 1},
		"the context is over":   {p: &fake{}, ctx: gone, want: task.StopCancelled, cause: context.Canceled, calls: ""},
		"the lease is lost":     {p: &fake{}, ctx: fenced, want: task.StopLeaseLost, cause: session.ErrFenced, calls: ""},
		"no iterations":         {in: task.KernelInput{MaxIterations: task.None}, p: &fake{}, want: task.StopIterations, loop: task.StopIterations, calls: ""},
		"no calls":              {in: task.KernelInput{MaxLLMCalls: task.None}, p: &fake{}, want: task.StopLLMCalls, loop: task.StopLLMCalls, calls: ""},
		"iterations come first": {in: task.KernelInput{MaxLLMCalls: task.None, MaxIterations: task.None}, p: &fake{}, want: task.StopIterations, loop: task.StopIterations, calls: ""},
		"iterations by default": {p: &fake{handle: goOn}, want: task.StopIterations, loop: task.StopIterations, passes: 32, asked: 32},
		"calls by default":      {in: task.KernelInput{MaxIterations: 100}, p: &fake{handle: goOn}, want: task.StopLLMCalls, loop: task.StopLLMCalls, passes: 40, asked: 40},
		"stopped before":        {p: &fake{stopBefore: func() (bool, task.StopReason) { return true, "" }}, want: task.StopPolicy, calls: "StopBefore"},
		"stopped before for a reason": {
			p: &fake{stopBefore: func() (bool, task.StopReason) { return true, task.StopWrapUp }}, want: task.StopWrapUp, calls: "StopBefore",
		},
		"draining fails": {p: &fake{drain: func() error { return errOdd }}, want: task.StopError, cause: errOdd, calls: "StopBefore Drain"},
		"draining ends it": {
			p: &fake{drain: func() error { return task.Stop(task.StopFeedbackSkip, nil) }}, want: task.StopFeedbackSkip, calls: "StopBefore Drain",
		},
		"no empty answers":         {in: task.KernelInput{MaxEmptyResponses: task.None}, p: &fake{}, want: task.StopEmpty, calls: "StopBefore Drain"},
		"empty answers by default": {p: &fake{handle: empties}, want: task.StopEmpty, passes: 3, asked: 3},
		"preparing fails":          {p: &fake{before: func() error { return errOdd }}, want: task.StopError, cause: errOdd, calls: "StopBefore Drain Before"},
		"asking fails": {
			p: &fake{request: func(int) (task.Response, error) { return nil, errOdd }}, want: task.StopError, cause: errOdd, calls: pass, passes: 1, asked: 1,
		},
		"the provider fails": {p: &fake{request: func(int) (task.Response, error) { return nil, task.Stop(task.StopProvider, errOdd) }},
			want: task.StopProvider, cause: errOdd, calls: pass, passes: 1, asked: 1},
		"the request is not made": {p: &fake{request: func(int) (task.Response, error) { return task.Stopped{}, nil }},
			want: task.StopPolicy, calls: pass, passes: 1, asked: 1},
		"the request is not made for a reason": {p: &fake{request: func(int) (task.Response, error) { return task.Stopped{Reason: task.StopApproval}, nil }},
			want: task.StopApproval, calls: pass, passes: 1, asked: 1},
		"recoveries by default": {p: &fake{request: recovered}, want: task.StopRecovered, loop: task.StopRecovered, calls: strings.Repeat(pass+" ", 3), asked: 3},
		"no recovery":           {in: task.KernelInput{MaxRecoveredResponses: task.None}, p: &fake{request: recovered}, want: task.StopRecovered, loop: task.StopRecovered, calls: pass, asked: 1},
		"the last recovery may still ask": {p: &fake{request: func(n int) (task.Response, error) {
			if n <= 2 {
				return recovered(n)
			}
			return task.Answer{}, nil
		}}, want: task.StopCompleted, passes: 1, asked: 3},
		"handling fails": {p: &fake{handle: func(int, *task.Iteration) (task.Decision, error) { return task.Decision{}, errOdd }},
			want: task.StopError, cause: errOdd, calls: pass + " Handle", passes: 1, asked: 1},
		"repeats by default": {p: &fake{handle: repeat}, want: task.StopRepeated, loop: task.StopRepeated, asked: 7,
			calls: strings.Repeat(pass+" Handle After ", 6) + pass + " Handle"},
		"no repeat":                   {in: task.KernelInput{MaxRepeatedIterations: task.None}, p: &fake{handle: repeat}, want: task.StopRepeated, loop: task.StopRepeated, calls: pass + " Handle", asked: 1},
		"one budget of calls for all": {in: task.KernelInput{MaxLLMCalls: 3, MaxRepeatedIterations: 9}, p: &fake{handle: repeat}, want: task.StopLLMCalls, loop: task.StopLLMCalls, asked: 3},
		"ending a pass fails":         {p: &fake{after: func() error { return errOdd }}, want: task.StopError, cause: errOdd, calls: pass + " Handle After", passes: 1, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, task.Config{}, scripted.New())
			id := s.create(spec())
			s.with(id, func(r *task.Run) {
				ctx := c.ctx
				if ctx == nil {
					ctx = context.Background()
				}
				c.in.StepID = "s1"
				out, err := r.RunStep(ctx, c.in, c.p)
				if out.StopReason != c.want || out.LoopBudgetStop != c.loop || !errors.Is(err, c.cause) || (err == nil) != (c.cause == nil) {
					t.Errorf("ended with %q (%q), %v; want %q (%q), %v", out.StopReason, out.LoopBudgetStop, err, c.want, c.loop, c.cause)
				}
				if got := strings.Join(c.p.calls, " "); c.calls != "" && got != strings.TrimSpace(c.calls) {
					t.Errorf("the policy was asked\n%s, want\n%s", got, c.calls)
				}
				if c.calls == "" && c.asked == 0 && len(c.p.calls) > 0 {
					t.Errorf("the policy was asked %v", c.p.calls)
				}
				if out.Iterations != c.passes || out.LLMCalls != c.asked {
					t.Errorf("%d iterations and %d calls, want %d and %d", out.Iterations, out.LLMCalls, c.passes, c.asked)
				}
			})
		})
	}
}

func TestRunStep_capsBelowNoneAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.create(spec())
	before := len(s.events(id))
	s.with(id, func(r *task.Run) {
		for _, in := range []task.KernelInput{
			{MaxIterations: -2}, {MaxLLMCalls: -2}, {MaxEmptyResponses: -2}, {MaxRecoveredResponses: -2}, {MaxRepeatedIterations: -2},
		} {
			p := &fake{}
			if out, err := r.RunStep(context.Background(), in, p); !errors.Is(err, session.ErrInvalid) || out.StopReason != "" || len(p.calls) > 0 {
				t.Errorf("%+v: %v, %+v, asked %v; want it refused", in, err, out, p.calls)
			}
		}
	})
	if after := len(s.events(id)); after != before {
		t.Errorf("a refused call wrote %d changes", after-before)
	}
}

func TestRunStep_recoveryReplacesTheMessages(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.create(spec())
	s.with(id, func(r *task.Run) {
		out, err := r.RunStep(context.Background(), task.KernelInput{StepID: "s1"}, &fake{request: func(n int) (task.Response, error) {
			if n == 1 {
				return recovered(n)
			}
			return task.Answer{}, nil
		}})
		if err != nil || len(out.Messages) != 1 || out.Messages[0].ID != "r" {
			t.Errorf("messages %+v, %v; want those of the recovery", out.Messages, err)
		}
	})
}

// What a step has used of its caps is in the log: a step that goes on after a
// crash does not begin anew.
func TestRunStep_resumedStepGoesOnFromItsCounters(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.create(spec())
	opening := []session.Message{{Role: session.RoleUser, Content: session.Text("begin")}}
	s.with(id, func(r *task.Run) {
		p := &fake{handle: func(n int, _ *task.Iteration) (task.Decision, error) {
			if n == 5 {
				return task.Decision{}, task.Stop(task.StopCancelled, nil)
			}
			return task.Decision{}, nil
		}}
		if out, _ := r.RunStep(context.Background(), task.KernelInput{StepID: "s1", Messages: opening}, p); out.LLMCalls != 5 {
			t.Fatalf("%d calls, want 5", out.LLMCalls)
		}
	})
	s.open(task.Config{}) // another process
	s.with(id, func(r *task.Run) {
		p := &fake{handle: goOn}
		out, _ := r.RunStep(context.Background(), task.KernelInput{StepID: "s1", Messages: opening}, p)
		if out.StopReason != task.StopIterations || out.LLMCalls != 32 || p.asked != 27 {
			t.Errorf("ended with %s after %d more calls, %d in all; want max_iterations after 27, 32 in all", out.StopReason, p.asked, out.LLMCalls)
		}
		if out, _ := r.RunStep(context.Background(), task.KernelInput{StepID: "s2"}, &fake{}); out.LLMCalls != 1 {
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
		p := &fake{}
		out, err := r.RunStep(context.Background(), task.KernelInput{StepID: "s3"}, p)
		if out.StopReason != task.StopEndedElsewhere || err != nil || len(p.calls) > 0 {
			t.Errorf("%s, %v, asked %v; want nothing done", out.StopReason, err, p.calls)
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

func ExampleStop() {
	fmt.Println(task.Stop(task.StopProvider, errors.New("no answer")))
	// Output: provider_error: no answer
}

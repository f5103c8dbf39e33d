package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// cancellable gives a rig a way to be cancelled while a call is under way.
func (r *rig) cancellable() (cancel func()) {
	asked := make(chan struct{})
	r.config.Cancel = func(ctx context.Context, executionID string) error {
		if executionID != "e" {
			r.t.Errorf("asked about execution %q", executionID)
		}
		select {
		case <-asked:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inbox = append(r.inbox, agent.Incoming{ID: "stop", Kind: "cancel", Cancel: true, ExecutionID: "e"})
		close(asked)
	}
}

// sealed is the session after what a save does.
func (r *rig) sealed(s session.Session) session.Session {
	r.t.Helper()
	s, err := r.Append(r.t.Context(), s)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func wantCancelled(t *testing.T, s session.Session, steps int) {
	t.Helper()
	if e := s.Execution(); e.Status != session.ExecutionStopped || e.Stop.Reason != session.StopUserRequested || len(e.Steps) != steps || len(e.Errors) != 0 {
		t.Errorf("execution %+v, stop %+v", e, e.Stop)
	}
}

func TestRun_cancelBreaksOffTheModel(t *testing.T) {
	t.Parallel()
	var cancel func()
	r := newRig(t, streamFunc(func(ctx context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
		emit(llm.Delta{Text: "half an"})
		cancel()
		<-ctx.Done()
		return llm.Response{}, &llm.TransientError{Err: ctx.Err()}
	}))
	r.config.Retries = 3
	var failed []agent.Notice
	r.config.Notify = func(n agent.Notice) {
		if n.Kind == agent.AttemptFailed {
			failed = append(failed, n)
		}
	}
	r.config.Stream = func(llm.Delta) {}
	cancel = r.cancellable()
	s := r.sealed(r.run(r.begin(nil)))
	wantCancelled(t, s, 0)
	if s.Len() != 1 || len(r.inbox) != 0 || !slices.Equal(r.taken, []string{"stop"}) {
		t.Errorf("messages %v, inbox %v, taken %v", transcript(s), r.inbox, r.taken)
	}
	if len(failed) != 1 || failed[0].Retry || failed[0].StepID == "" || failed[0].ExecutionID != "e" {
		t.Errorf("told %+v", failed)
	}
}

func TestRun_cancelEndsThePauseBetweenAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, modelFunc(func(context.Context, llm.Request) (llm.Response, error) {
			return llm.Response{}, &llm.TransientError{After: time.Minute, Err: errors.New("busy")}
		}))
		r.config.Retries = 3
		time.AfterFunc(time.Second, r.cancellable())
		began := time.Now()
		wantCancelled(t, r.sealed(r.run(r.begin(nil))), 0)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestRun_answerThatArrivesWithTheCancelIsKept(t *testing.T) {
	t.Parallel()
	var cancel func()
	r := newRig(t, modelFunc(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
		cancel()
		<-ctx.Done()
		return llm.Response{Content: session.Text("paid for"), FinishReason: "stop"}, nil
	}))
	cancel = r.cancellable()
	s := r.sealed(r.run(r.begin(nil)))
	wantCancelled(t, s, 1)
	if s.Len() != 2 || s.Message(1).Content.Text() != "paid for" {
		t.Errorf("messages %v", transcript(s))
	}
}

// Of three calls one hears of the cancel, one does not listen and one has not
// begun: all have their results, and the model is not asked again.
func TestRun_cancelSettlesTools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cancel func()
		free := make(chan struct{})
		tools := []tool.Tool{
			funcTool{spec: tool.Spec{Name: "listens", Parallel: true}, do: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				cancel()
				<-ctx.Done()
				if !agent.Cancelled(ctx) {
					t.Error("the tool cannot tell a cancel from an interruption")
				}
				return tool.Result{}, ctx.Err()
			}},
			funcTool{spec: tool.Spec{Name: "deaf", Parallel: true}, do: func(context.Context, tool.Call) (tool.Result, error) {
				<-free
				return tool.Result{Content: "too late"}, nil
			}},
			funcTool{spec: tool.Spec{Name: "later"}, do: func(context.Context, tool.Call) (tool.Result, error) {
				t.Error("a tool began after the cancel")
				return tool.Result{}, nil
			}},
		}
		model := asking(call("1", "listens"), call("2", "deaf"), call("3", "later"))
		r := newRig(t, model, tools...)
		r.config.Grace = 2 * time.Second
		cancel = r.cancellable()
		began := time.Now()
		s := r.sealed(r.run(r.begin(nil)))
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %v, want the grace", took)
		}
		wantCancelled(t, s, 1)
		got := answers(s)
		for _, want := range []string{"stopped: the execution was cancelled", "given up: ", "not run: the execution was cancelled"} {
			if !slices.ContainsFunc(got, func(a string) bool { return strings.HasPrefix(a, want) }) {
				t.Errorf("no result %q in %q", want, got)
			}
		}
		if err := session.ValidTranscript(s.Messages()); err != nil || len(got) != 3 || len(model.Requests()) != 1 {
			t.Errorf("%d results, %d requests, %v", len(got), len(model.Requests()), err)
		}
		close(free)
	})
}

func TestRun_callThatWasCutOffIsNeverSaidNotToHaveRun(t *testing.T) {
	t.Parallel()
	work := &counter{name: "work", nature: tool.Idempotent}
	r := newRig(t, asking(call("a", "work")), work)
	ctx, interrupt := context.WithCancel(t.Context())
	work.do = func(ctx context.Context) (tool.Result, error) {
		interrupt()
		return tool.Result{}, ctx.Err()
	}
	deadline := start.Add(time.Hour)
	if _, err := (agent.Loop{}).Run(ctx, r.config, r.begin(&session.Budget{Deadline: &deadline})); !errors.Is(err, session.ErrInterrupted) {
		t.Fatal(err)
	}
	r.now = deadline
	if got := answers(r.run(r.reload())); !slices.Equal(got, []string{session.UnknownOutcome}) || work.runs["a"] != 1 {
		t.Errorf("results %q after %d runs", got, work.runs["a"])
	}
}

func TestRun_failedAttemptsAreTold(t *testing.T) {
	t.Parallel()
	var heard []string
	model := streamFunc(func(_ context.Context, q llm.Request, emit func(llm.Delta)) (llm.Response, error) {
		switch q.Attempt {
		case 0:
			return llm.Response{}, &llm.TransientError{Err: errors.New("nothing was said")}
		case 1:
			emit(llm.Delta{Text: "Hel"})
			return llm.Response{}, &llm.TransientError{Err: errors.New("cut off")}
		}
		emit(llm.Delta{Text: "Hello"})
		return llm.Response{Content: session.Text("Hello"), FinishReason: "stop"}, nil
	})
	for retries, want := range map[int][]string{
		2: {"0 failed, asked again", "Hel", "1 failed, asked again", "Hello"},
		1: {"0 failed, asked again", "Hel", "1 failed"},
	} {
		r := newRig(t, model)
		heard = nil
		r.config.Retries = retries
		r.config.Stream = func(d llm.Delta) { heard = append(heard, d.Text) }
		r.config.Notify = func(n agent.Notice) {
			switch {
			case n.Kind != agent.AttemptFailed:
			case n.Retry:
				heard = append(heard, fmt.Sprint(n.Attempt, " failed, asked again"))
			default:
				heard = append(heard, fmt.Sprint(n.Attempt, " failed"))
			}
		}
		if _, err := (agent.Loop{}).Run(t.Context(), r.config, r.begin(nil)); errors.Is(err, session.ErrExecutionFailed) != (retries == 1) {
			t.Errorf("%d retries: %v", retries, err)
		}
		if !slices.Equal(heard, want) {
			t.Errorf("%d retries: heard %q, want %q", retries, heard, want)
		}
	}
}

// streamFunc is a model made of a function that streams.
type streamFunc func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error)

func (f streamFunc) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	return f(ctx, r, emit)
}

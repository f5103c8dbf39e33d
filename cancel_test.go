package holdfast_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// hanging is a model that says half of its first answer and then waits for the
// end of the call; later ones it answers with "after".
func hanging(reached chan<- struct{}) llm.Model {
	return streaming(func(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
		if len(r.Messages) > 1 {
			return llm.Response{Content: session.Text("after"), FinishReason: "stop"}, nil
		}
		emit(llm.Delta{Text: "half an"})
		reached <- struct{}{}
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	})
}

// streaming is a model made of a function that streams.
type streaming func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error)

func (f streaming) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	return f(ctx, r, emit)
}

// sending sends a message in the background.
func (h *house) sending(id, text string) <-chan session.Session {
	done := make(chan session.Session, 1)
	go func() {
		s, err := h.Execute(h.t.Context(), id, holdfast.SendMessage{Text: text})
		if err != nil {
			h.t.Error(err)
		}
		done <- s
	}()
	return done
}

// soon waits for a turn that has to end without any help. The time is there to
// end a test that fails, not to measure.
func soon(t *testing.T, done <-chan session.Session) session.Session {
	t.Helper()
	select {
	case s := <-done:
		return s
	case <-time.After(20 * time.Second):
		t.Fatal("the turn does not end")
	}
	return session.Session{}
}

func wantStopped(t *testing.T, s session.Session) {
	t.Helper()
	if e := s.Execution(); e == nil || e.Status != session.ExecutionStopped || e.Stop.Reason != session.StopUserRequested {
		t.Errorf("ended as %+v", e)
	}
}

func TestCancel_breaksOffTheModel(t *testing.T) {
	reached := make(chan struct{}, 1)
	h := open(t, func(c *holdfast.Config) { c.Models, c.Poll = llm.Map{"demo": hanging(reached)}, time.Hour })
	s := h.create()
	done := h.sending(s.ID(), "first")
	<-reached
	if err := h.Cancel(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	if err := h.Cancel(t.Context(), s.ID()); err != nil && !errors.Is(err, session.ErrInvalid) { // it may be over by now
		t.Fatal(err)
	}
	got := soon(t, done)
	wantStopped(t, got)
	if got.Version() != 2 || !slices.Equal(texts(got), []string{"first"}) {
		t.Errorf("version %d, messages %q", got.Version(), texts(got))
	}
	if items, err := h.store.(store.Inboxes).Inbox(t.Context(), store.RefOf(s)); err != nil || len(items) != 0 {
		t.Errorf("the inbox still holds %v, %v", items, err)
	}
	if next := h.do(s.ID(), holdfast.SendMessage{Text: "second"}); next.Reply() != "after" {
		t.Errorf("the next turn answers %q", next.Reply())
	}
}

// Whoever sent the message that was cancelled learns that, also where its
// process answers the message that waited behind it.
func TestCancel_isToldToItsCallerThoughAMessageWaits(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 1)
	h := open(t, func(c *holdfast.Config) { c.Models = llm.Map{"demo": hanging(reached)} })
	s := h.create()
	done := h.sending(s.ID(), "first")
	<-reached
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "second"}, holdfast.OnBusy(holdfast.Enqueue)); !errors.Is(err, session.ErrQueued) {
		t.Fatal(err)
	}
	if err := h.Cancel(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	wantStopped(t, soon(t, done))
	got, err := h.Get(t.Context(), s.ID())
	if want := []string{"first", "second", "after"}; err != nil || !slices.Equal(texts(got), want) {
		t.Errorf("transcript %q, want %q (%v)", texts(got), want, err)
	}
}

// apart are two runtimes that share nothing but a database, as those of two
// processes do.
func apart(t *testing.T, name string, m llm.Model) (near, far *house) {
	t.Helper()
	at := filepath.Join(t.TempDir(), "sessions.db")
	if name == "postgres" {
		at = crashtest.Postgres(t)
	}
	return openAt(t, name, at, m), openAt(t, name, at, m)
}

func openAt(t *testing.T, name, at string, m llm.Model) *house {
	t.Helper()
	st, err := crashtest.Open(t.Context(), name, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, func(c *holdfast.Config) { c.Store, c.Models = st, llm.Map{"demo": m} })
}

func TestCancel_reachesAnotherProcess(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reached := make(chan struct{}, 1)
			near, far := apart(t, name, hanging(reached))
			s := near.create()
			done := near.sending(s.ID(), "first")
			<-reached
			if err := far.Cancel(t.Context(), s.ID()); err != nil {
				t.Fatal(err)
			}
			wantStopped(t, soon(t, done))
		})
	}
}

func TestOnBusy_interruptReachesAnotherProcess(t *testing.T) {
	reached := make(chan struct{}, 1)
	near, far := apart(t, "sqlite", hanging(reached))
	s := near.create()
	done := near.sending(s.ID(), "first")
	<-reached
	got := far.do(s.ID(), holdfast.SendMessage{Text: "second"}, holdfast.OnBusy(holdfast.Interrupt))
	wantStopped(t, soon(t, done))
	if !slices.Equal(texts(got), []string{"first", "second", "after"}) || got.Execution().Status != session.ExecutionCompleted {
		t.Errorf("messages %q, execution %+v", texts(got), got.Execution())
	}
}

func TestCancel_endsToolsAndKeepsTheirResults(t *testing.T) {
	reached := make(chan struct{}, 1)
	work := toolFunc{spec: tool.Spec{Name: "work"}, call: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		reached <- struct{}{}
		<-ctx.Done()
		return tool.Result{Content: "half of it"}, nil
	}}
	h := open(t, func(c *holdfast.Config) {
		c.Tools = toolSet(t, work)
		script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "work"), callOf("2", "work")}}, scripted.Reply{Text: "never"})
	})
	s := h.create()
	done := h.sending(s.ID(), "go")
	<-reached
	if err := h.Cancel(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	got := soon(t, done)
	wantStopped(t, got)
	if got.Len() != 4 || got.Message(2).ToolResult.Content != "half of it" || !got.Message(3).ToolResult.Synthetic {
		t.Errorf("messages %+v", got.Messages())
	}
}

// A subagent in the middle of its answer is cancelled with its parent: both
// come to their own end and are saved.
func TestCancel_subagentInTheMiddleOfItsAnswerIsSealed(t *testing.T) {
	reached := make(chan struct{}, 1)
	h := open(t, func(c *holdfast.Config) {
		c.Models = llm.Map{"demo": scripted.New(scripted.Reply{ToolCalls: []session.ToolCall{spawning("cook", "soup")}}, scripted.Reply{Text: "served"}), "slow": hanging(reached)}
		c.Definitions = staff{"cook": {Name: "cook", Model: "slow"}}
	})
	s, err := h.Create(t.Context(), boss())
	if err != nil {
		t.Fatal(err)
	}
	done := h.sending(s.ID(), "hungry")
	<-reached
	if err := h.Cancel(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	got := soon(t, done)
	wantStopped(t, got)
	if len(got.Messages()) != 3 || got.Message(2).ToolResult == nil {
		t.Errorf("the call of the subagent has no result: %+v", got.Messages())
	}
	child := children(t, h, s.ID())[0]
	wantStopped(t, h.stored(child.ID))
	if items, err := h.store.(store.Inboxes).Inbox(t.Context(), store.Ref{Tenant: session.DefaultTenant, ID: child.ID}); err != nil || len(items) != 0 {
		t.Errorf("the child's inbox still holds %v, %v", items, err)
	}
}

// forgetful is a store that never tells of a write. It tells when an inbox was read.
type forgetful struct {
	*inmem.Store
	looked chan struct{}
}

func (forgetful) Subscribe(store.Ref) (<-chan struct{}, func()) { return nil, func() {} }

func (f forgetful) Inbox(ctx context.Context, r store.Ref) ([]store.Item, error) {
	items, err := f.Store.Inbox(ctx, r)
	select {
	case f.looked <- struct{}{}:
	default:
	}
	return items, err
}

func TestCancel_isNoticedWhereNewsWereMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time passes when everybody waits: no lease runs out on a slow machine
		reached := make(chan struct{}, 1)
		st := forgetful{inmem.New(inmem.Config{}), make(chan struct{}, 2)}
		h := open(t, func(c *holdfast.Config) { c.Store, c.Models = st, llm.Map{"demo": hanging(reached)} })
		s := h.create()
		done := h.sending(s.ID(), "first")
		<-reached
		<-st.looked // before the model was asked
		<-st.looked // beside the call: nothing is there yet
		if err := h.Cancel(t.Context(), s.ID()); err != nil {
			t.Fatal(err)
		}
		wantStopped(t, soon(t, done))
	})
}

// The end of a caller's context is an interruption also when somebody listens
// for a cancel: the execution can be continued.
func TestCancel_isNotTheEndOfAContext(t *testing.T) {
	reached := make(chan struct{}, 1)
	h := open(t, func(c *holdfast.Config) { c.Models = llm.Map{"demo": hanging(reached)} })
	s := h.create()
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := h.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "first"})
		done <- err
	}()
	<-reached
	end()
	if err := <-done; err == nil {
		t.Error("the turn was not interrupted")
	}
	if now, err := h.Get(t.Context(), s.ID(), holdfast.WithTail()); err != nil || !now.Running() {
		t.Errorf("it cannot be continued: %v", err)
	}
}

package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// The tests of this file are the table of what happens when a step fails: for
// each row the events in order, whether a version was stored, and what the
// caller gets.

var errBoom = errors.New("boom")

// refuseAt is a hook that refuses at one stage.
func refuseAt(stage session.Stage) holdfast.Hook {
	return holdfast.HookStack{}.With(holdfast.HookFunc(func(_ context.Context, at session.Stage, s session.Session) (session.Session, error) {
		if at == stage {
			return s, errBoom
		}
		return s, nil
	}), 0, "refuser")
}

// breaking is an in-memory store whose next save, create or load fails. It
// hides nothing else.
type breaking struct {
	*inmem.Store
	create, save, load error
	saved              bool // the save happens, and only its answer is lost
}

func (b *breaking) Create(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	if b.create != nil {
		return session.Session{}, b.create
	}
	return b.Store.Create(ctx, s, c)
}

func (b *breaking) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	if b.save != nil && !b.saved {
		return session.Session{}, b.save
	}
	next, err := b.Store.Save(ctx, s, c)
	if b.saved && err == nil {
		return session.Session{}, b.save
	}
	return next, err
}

func (b *breaking) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	if b.load != nil {
		return session.Session{}, b.load
	}
	return b.Store.Load(ctx, r, tail)
}

func openBreaking(t *testing.T) (*house, *breaking) {
	t.Helper()
	b := &breaking{Store: inmem.New(inmem.Config{})}
	return open(t, func(c *holdfast.Config) { c.Store = b }), b
}

func count(t *testing.T, h *house) int {
	t.Helper()
	page, err := h.List(t.Context(), store.Query{IncludeDeleted: true})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Items)
}

func TestCreate_invalidDefinitionStoresNothing(t *testing.T) {
	h := open(t, nil)
	s, err := h.Create(t.Context(), session.Definition{Name: "Bad Name", Tools: []string{"nope"}, Model: "unknown"})
	var def *session.DefinitionError
	if !errors.As(err, &def) || len(def.Problems) < 3 || !s.IsZero() {
		t.Fatalf("got %v, %v; want all problems at once", s, err)
	}
	wantEvents(t, h, "SessionActionFailed")
	if e := h.heard.all()[0].(holdfast.SessionActionFailed); e.Action != "create" || e.ErrorType != "DefinitionError" {
		t.Errorf("event %+v", e)
	}
	if n := count(t, h); n != 0 {
		t.Errorf("%d sessions were stored", n)
	}
}

func TestCreate_refusedByHookStoresNothing(t *testing.T) {
	for _, stage := range []session.Stage{session.BeforeCreate, session.BeforeSave} {
		t.Run(string(stage), func(t *testing.T) {
			h := open(t, func(c *holdfast.Config) { c.Hooks = refuseAt(stage) })
			s, err := h.Create(t.Context(), agentDef)
			var hook *session.HookError
			if !errors.As(err, &hook) || hook.Stage != stage || hook.Hook != "refuser" || !errors.Is(err, errBoom) || !s.IsZero() {
				t.Fatalf("got %v, %v", s, err)
			}
			wantEvents(t, h, "SessionActionFailed")
			if n := count(t, h); n != 0 {
				t.Errorf("%d sessions were stored", n)
			}
		})
	}
}

func TestCreate_storeFailureSaysSo(t *testing.T) {
	h, b := openBreaking(t)
	b.create = errBoom
	s, err := h.Create(t.Context(), agentDef)
	if !errors.Is(err, errBoom) || !s.IsZero() {
		t.Fatalf("got %v, %v", s, err)
	}
	wantEvents(t, h, "SessionSaveFailed")
}

func TestCreate_existingIDConflicts(t *testing.T) {
	h := open(t, nil)
	h.create(holdfast.WithID("one"))
	_, err := h.Create(t.Context(), agentDef, holdfast.WithID("one"))
	var conflict *session.ConflictError
	if !errors.As(err, &conflict) || conflict.Reason != session.ReasonExists {
		t.Fatalf("got %v", err)
	}
	wantEvents(t, h, "SessionSaveFailed")
}

func TestCreate_hookFailingAfterSaveLeavesItSaved(t *testing.T) {
	for _, stage := range []session.Stage{session.AfterSave, session.AfterCreate} {
		t.Run(string(stage), func(t *testing.T) {
			h := open(t, func(c *holdfast.Config) { c.Hooks = refuseAt(stage) })
			s, err := h.Create(t.Context(), agentDef, holdfast.WithID("kept"))
			wantAfterSave(t, err, stage, 1)
			if s.IsZero() || s.Version() != 1 {
				t.Fatal("the saved session did not come with the error")
			}
			wantEvents(t, h, "SessionSaved", "SessionAfterSaveFailed")
			if got := h.stored("kept").Version(); got != 1 {
				t.Errorf("stored version %d", got)
			}
		})
	}
}

func wantAfterSave(t *testing.T, err error, stage session.Stage, version int64) {
	t.Helper()
	var after *session.AfterSaveError
	if !errors.As(err, &after) || after.Stage != stage || after.Version != version || after.Hook != "refuser" || !errors.Is(err, errBoom) {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "was saved as version") {
		t.Errorf("the text does not say that it was saved: %v", err)
	}
}

func TestExecute_whatCannotBeLoaded(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		h := open(t, nil)
		s, err := h.Execute(t.Context(), "nobody", holdfast.ClearSession{})
		if !errors.Is(err, session.ErrNotFound) || !s.IsZero() {
			t.Fatalf("got %v, %v", s, err)
		}
		wantEvents(t, h, "SessionLoadFailed")
		if e := h.heard.all()[0].(holdfast.SessionLoadFailed); e.SessionID != "nobody" {
			t.Errorf("the event names %q", e.SessionID)
		}
	})
	t.Run("bad id", func(t *testing.T) {
		h := open(t, nil)
		_, err := h.Execute(t.Context(), "../x", holdfast.ClearSession{})
		if !errors.Is(err, session.ErrInvalid) {
			t.Fatal(err)
		}
		wantEvents(t, h, "SessionLoadFailed")
	})
	t.Run("corrupt", func(t *testing.T) {
		h, b := openBreaking(t)
		s := h.create()
		b.load = &session.CorruptError{ID: s.ID(), Reason: "torn"}
		_, err := h.Execute(t.Context(), s.ID(), holdfast.ClearSession{})
		if !errors.Is(err, session.ErrCorrupt) {
			t.Fatal(err)
		}
		wantEvents(t, h, "SessionLoadFailed")
	})
	t.Run("refused by a hook", func(t *testing.T) {
		stage := session.Stage("")
		h := open(t, func(c *holdfast.Config) {
			c.Hooks = holdfast.HookFunc(func(_ context.Context, at session.Stage, s session.Session) (session.Session, error) {
				if at == stage {
					return s, errBoom
				}
				return s, nil
			})
		})
		s := h.create()
		stage = session.AfterLoad
		got, err := h.Execute(t.Context(), s.ID(), holdfast.RenameSession{To: "x"})
		if !errors.Is(err, session.ErrHook) || !got.IsZero() {
			t.Fatalf("got %v, %v", got, err)
		}
		wantEvents(t, h, "SessionLoadFailed")
		h.unchanged(s)
	})
	t.Run("held by another", func(t *testing.T) {
		h := open(t, nil)
		s := h.create()
		if _, err := h.store.(store.Leases).Acquire(t.Context(), store.RefOf(s), "somebody", time.Minute); err != nil {
			t.Fatal(err)
		}
		_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}, holdfast.OnBusy(holdfast.Reject))
		var busy *session.BusyError
		if !errors.As(err, &busy) || busy.Holder != "somebody" || busy.Until.IsZero() {
			t.Fatalf("got %v", err)
		}
		wantEvents(t, h, "SessionLoadFailed")
	})
}

func TestExecute_refusedByStatusOrVersion(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	s = h.do(s.ID(), holdfast.SuspendSession{})
	for name, call := range map[string]struct {
		action holdfast.Action
		opts   []holdfast.Option
		want   error
	}{
		"status":  {action: holdfast.SendMessage{Text: "hi"}, want: session.ErrStatus},
		"version": {action: holdfast.RenameSession{To: "x"}, opts: []holdfast.Option{holdfast.IfVersion(1)}, want: session.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			h.heard.forget()
			got, err := h.Execute(t.Context(), s.ID(), call.action, call.opts...)
			if !errors.Is(err, call.want) || got.IsZero() || got.Version() != 2 {
				t.Fatalf("got %v, %v", got, err)
			}
			wantEvents(t, h, "SessionLoaded", "SessionActionFailed")
			h.unchanged(s)
		})
	}
}

func TestExecute_failingActionChangesNothing(t *testing.T) {
	for name, run := range map[string]func(context.Context, session.Session) (session.Session, error){
		"error": func(_ context.Context, s session.Session) (session.Session, error) { return s, errBoom },
		"panic": func(context.Context, session.Session) (session.Session, error) { panic(errBoom) },
		"error after writing": func(ctx context.Context, s session.Session) (session.Session, error) {
			env := holdfast.Env(ctx)
			s, err := s.WithName("half", env.Now())
			if err != nil {
				return s, err
			}
			if s, err = env.Append(ctx, s); err != nil {
				return s, err
			}
			return s, errBoom
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, nil)
			s := h.create()
			got, err := h.Execute(t.Context(), s.ID(), custom{name: "Try", run: run, leased: true})
			if !errors.Is(err, errBoom) || got.Version() != 1 {
				t.Fatalf("got %v, %v", got, err)
			}
			if name == "panic" && !errors.Is(err, session.ErrPanic) {
				t.Errorf("a panic is reported as %v", err)
			}
			wantEvents(t, h, "SessionLoaded", "SessionActionFailed")
			h.unchanged(s)
			if name == "error after writing" {
				wantDiscarded(t, h, s.ID())
			}
			if again := h.do(s.ID(), holdfast.RenameSession{To: "whole"}); again.Version() != 2 || again.Info().Name != "whole" {
				t.Errorf("the session cannot be used after: %+v", again.Info())
			}
		})
	}
}

// wantDiscarded fails unless the log shows a discarded change.
func wantDiscarded(t *testing.T, h *house, id string) {
	t.Helper()
	discarded := 0
	for e, err := range h.Log(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Discarded {
			discarded++
		}
	}
	if discarded == 0 {
		t.Error("what was refused is not marked in the log")
	}
}

func TestExecute_failingModelIsSaved(t *testing.T) {
	h := open(t, func(c *holdfast.Config) { script(c, scripted.Reply{Err: errBoom}) })
	s := h.create()
	got, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"})
	var failed *session.ExecutionError
	if !errors.As(err, &failed) || failed.Version != 2 || !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "was saved as version 2") {
		t.Fatalf("got %v", err)
	}
	if got.Version() != 2 || got.Execution().Status != session.ExecutionFailed || got.Status() != session.Active {
		t.Errorf("got version %d, execution %+v, status %s", got.Version(), got.Execution(), got.Status())
	}
	wantEvents(t, h, "SessionLoaded", "SessionActionExecuted", "SessionSaved")
	if stored := h.stored(s.ID()); stored.Version() != 2 || stored.Len() != 1 || len(stored.Execution().Errors) == 0 {
		t.Errorf("stored version %d with %d messages and errors %v", stored.Version(), stored.Len(), stored.Execution().Errors)
	}
}

func TestExecute_endOfContextLeavesTheTailOpen(t *testing.T) {
	g := newGate()
	h := open(t, func(c *holdfast.Config) {
		c.Models = llm.Map{"demo": modelFunc(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
			return llm.Response{}, g.pass(ctx)
		})}
	})
	s := h.create()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-g.reached
		cancel()
	}()
	got, err := h.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "hi"})
	var interrupted *session.InterruptedError
	if !errors.As(err, &interrupted) || interrupted.Seq == 0 || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if got.Version() != 1 {
		t.Errorf("got version %d", got.Version())
	}
	wantEvents(t, h, "SessionLoaded", "SessionActionFailed")
	all := h.heard.all()
	if e := all[len(all)-1].(holdfast.SessionActionFailed); e.TailSeq != interrupted.Seq {
		t.Errorf("the event says the tail ends at %d, the error %d", e.TailSeq, interrupted.Seq)
	}
	tailed, err := h.Get(t.Context(), s.ID(), holdfast.WithTail())
	if err != nil || !tailed.HasTail() || !tailed.Running() || tailed.Len() != 1 {
		t.Errorf("the tail is not there: %v", err)
	}
}

func TestExecute_endOfContextInACustomActionLeavesTheTailOpen(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := h.Execute(ctx, s.ID(), custom{name: "Long", leased: true, run: func(ctx context.Context, s session.Session) (session.Session, error) {
		s, err := s.WithName("half", holdfast.Env(ctx).Now())
		if err == nil {
			s, err = holdfast.Env(ctx).Append(ctx, s)
		}
		if err != nil {
			return s, err
		}
		cancel()
		return s, ctx.Err()
	}})
	var interrupted *session.InterruptedError
	if !errors.As(err, &interrupted) || interrupted.Seq != s.Seq()+1 {
		t.Fatalf("got %v", err)
	}
	if tailed, err := h.Get(t.Context(), s.ID(), holdfast.WithTail()); err != nil || tailed.Info().Name != "half" {
		t.Errorf("what was written is gone: %v", err)
	}
}

func TestExecute_lostLeaseWritesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inmem.New(inmem.Config{})
		var ref store.Ref
		h := open(t, func(c *holdfast.Config) {
			c.Store = st
			c.Models = llm.Map{"demo": modelFunc(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
				held, live, err := st.Holding(ctx, ref)
				if err == nil && live {
					err = st.Release(ctx, ref, held) // as if it had expired …
				}
				if err == nil {
					_, err = st.Acquire(ctx, ref, "thief", time.Minute) // … and another took it
				}
				if err != nil || !live {
					t.Errorf("the lease cannot be taken: held %t, %v", live, err)
				}
				<-ctx.Done()
				return llm.Response{}, ctx.Err()
			})}
		})
		s := h.create()
		ref = store.RefOf(s)
		_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"})
		if !errors.Is(err, session.ErrFenced) {
			t.Fatalf("got %v", err)
		}
		wantEvents(t, h, "SessionLoaded", "SessionActionFailed")
		if v := h.stored(s.ID()).Version(); v != 1 {
			t.Errorf("version %d was stored", v)
		}
	})
}

func TestExecute_refusedByHookDiscardsTheTurn(t *testing.T) {
	for _, stage := range []session.Stage{session.AfterAction, session.BeforeSave} {
		t.Run(string(stage), func(t *testing.T) {
			refuse := false
			h := open(t, func(c *holdfast.Config) {
				c.Hooks = holdfast.HookStack{}.With(holdfast.HookFunc(func(_ context.Context, at session.Stage, s session.Session) (session.Session, error) {
					if refuse && at == stage {
						return s, errBoom
					}
					return s, nil
				}), 0, "refuser")
			})
			s := h.create()
			refuse = true
			got, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"})
			var hook *session.HookError
			if !errors.As(err, &hook) || hook.Stage != stage || got.Version() != 1 {
				t.Fatalf("got %v, %v", got, err)
			}
			wantEvents(t, h, "SessionLoaded", "SessionActionFailed")
			h.unchanged(s)
			wantDiscarded(t, h, s.ID())
		})
	}
}

func TestExecute_failingPruneSavesAllTheSame(t *testing.T) {
	limit := 1
	def := agentDef
	def.Memory = &session.MemoryPolicy{Strategy: session.PruneSummary, Limit: &limit, SummaryPrompt: "Sum up.", SummaryModel: "broken", Slack: new(int)}
	h := open(t, func(c *holdfast.Config) {
		c.Models = llm.Map{"demo": scripted.New(), "broken": scripted.New(scripted.Reply{Err: errBoom})}
	})
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	h.heard.forget()
	got := h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	wantEvents(t, h, "SessionLoaded", "MemoryPruneFailed", "SessionActionExecuted", "SessionSaved")
	if got.Version() != 2 || got.Window().FromSeq != 0 {
		t.Errorf("version %d, window %+v", got.Version(), got.Window())
	}
}

func TestExecute_failingSaveSaysSo(t *testing.T) {
	for name, row := range map[string]struct {
		save    error
		stored  bool
		version int64
	}{
		"store error":     {save: errBoom, version: 1},
		"fenced":          {save: &session.FencedError{ID: "x"}, version: 1},
		"gone":            {save: session.NotFound("x"), version: 1},
		"unknown outcome": {save: &session.UnknownOutcomeError{ID: "x", CommitID: "c", Err: errBoom}, stored: true, version: 2},
	} {
		t.Run(name, func(t *testing.T) {
			h, b := openBreaking(t)
			s := h.create()
			b.save, b.saved = row.save, row.stored
			got, err := h.Execute(t.Context(), s.ID(), holdfast.RenameSession{To: "x"})
			if !errors.Is(err, row.save) || got.Version() != 1 {
				t.Fatalf("got %v, %v", got, err)
			}
			wantEvents(t, h, "SessionLoaded", "SessionActionExecuted", "SessionSaveFailed")
			if v := h.stored(s.ID()).Version(); v != row.version {
				t.Errorf("stored version %d", v)
			}
		})
	}
	t.Run("conflict", func(t *testing.T) {
		h := open(t, nil)
		s := h.create()
		_, err := h.Execute(t.Context(), s.ID(), custom{name: "Race", run: func(ctx context.Context, own session.Session) (session.Session, error) {
			other, err := h.store.Load(ctx, store.RefOf(own), false)
			if err != nil {
				return own, err
			}
			if _, err := h.store.Save(ctx, other, store.Commit{ID: "other", Action: "x", At: holdfast.Env(ctx).Now()}); err != nil {
				return own, err
			}
			return own.WithName("mine", holdfast.Env(ctx).Now())
		}})
		var conflict *session.ConflictError
		if !errors.As(err, &conflict) || conflict.Reason != session.ReasonStale || conflict.Want != 1 || conflict.Have != 2 {
			t.Fatalf("got %v", err)
		}
		wantEvents(t, h, "SessionLoaded", "SessionActionExecuted", "SessionSaveFailed")
		if name := h.stored(s.ID()).Info().Name; name != "" {
			t.Errorf("the loser's name %q was stored", name)
		}
	})
	t.Run("a turn's tail stays open", func(t *testing.T) {
		h, b := openBreaking(t)
		s := h.create()
		b.save = errBoom
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}); !errors.Is(err, errBoom) {
			t.Fatal(err)
		}
		b.save = nil
		got := h.do(s.ID(), holdfast.ContinueExecution{})
		if got.Version() != 2 || got.Reply() != "hello" || len(h.model.Requests()) != 1 {
			t.Errorf("after the disk is back: version %d, reply %q, %d model calls", got.Version(), got.Reply(), len(h.model.Requests()))
		}
	})
}

func TestExecute_hookFailingAfterSaveLeavesItSaved(t *testing.T) {
	refuse := false
	h := open(t, func(c *holdfast.Config) {
		c.Hooks = holdfast.HookStack{}.With(holdfast.HookFunc(func(_ context.Context, at session.Stage, s session.Session) (session.Session, error) {
			if refuse && at == session.AfterSave {
				return s, errBoom
			}
			return s, nil
		}), 0, "refuser")
	})
	s := h.create()
	refuse = true
	got, err := h.Execute(t.Context(), s.ID(), holdfast.RenameSession{To: "x"})
	wantAfterSave(t, err, session.AfterSave, 2)
	if got.Version() != 2 || h.stored(s.ID()).Info().Name != "x" {
		t.Errorf("got version %d", got.Version())
	}
	wantEvents(t, h, "SessionLoaded", "SessionActionExecuted", "SessionSaved", "SessionAfterSaveFailed")
}

func TestGet_failureIsReported(t *testing.T) {
	h := open(t, nil)
	if s, err := h.Get(t.Context(), "nobody"); !errors.Is(err, session.ErrNotFound) || !s.IsZero() {
		t.Fatalf("got %v, %v", s, err)
	}
	wantEvents(t, h, "SessionLoadFailed")
	h2 := open(t, func(c *holdfast.Config) { c.Hooks = refuseAt(session.AfterLoad) })
	s := h2.create()
	if got, err := h2.Get(t.Context(), s.ID()); !errors.Is(err, session.ErrHook) || !got.IsZero() {
		t.Fatalf("got %v, %v", got, err)
	}
	wantEvents(t, h2, "SessionLoadFailed")
}

func TestExecute_toolFailuresAreNotTheExecutions(t *testing.T) {
	panics := toolFunc{spec: tool.Spec{Name: "boom"}, call: func(context.Context, tool.Call) (tool.Result, error) { panic("no") }}
	h := open(t, func(c *holdfast.Config) {
		c.Tools = toolSet(t, panics)
		script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "boom"), callOf("2", "missing")}}, scripted.Reply{Text: "done"})
	})
	s := h.create()
	got := h.do(s.ID(), holdfast.SendMessage{Text: "go"})
	if got.Reply() != "done" || got.Execution().Status != session.ExecutionCompleted {
		t.Errorf("reply %q, execution %s", got.Reply(), got.Execution().Status)
	}
	for _, m := range got.Messages() {
		if m.ToolResult != nil && !m.ToolResult.IsError {
			t.Errorf("result %+v is no error", m.ToolResult)
		}
	}
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// noting is a hook that notes where it was called, under a name.
func noting(notes *[]string, name string) holdfast.Hook {
	return holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
		*notes = append(*notes, name+" "+string(stage))
		return s, nil
	})
}

func TestHooks_stagesInOrder(t *testing.T) {
	var notes []string
	h := open(t, func(c *holdfast.Config) { c.Hooks = noting(&notes, "h") })
	s := h.create()
	if want := []string{"h before_create", "h before_save", "h after_save", "h after_create"}; !slices.Equal(notes, want) {
		t.Errorf("create: %v", notes)
	}
	notes = nil
	h.do(s.ID(), holdfast.ClearSession{})
	if want := []string{"h after_load", "h after_action", "h before_save", "h after_save"}; !slices.Equal(notes, want) {
		t.Errorf("execute: %v", notes)
	}
	notes = nil
	if _, err := h.Get(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"h after_load"}; !slices.Equal(notes, want) {
		t.Errorf("get: %v", notes)
	}
	notes = nil
	if _, err := h.Info(t.Context(), s.ID()); err != nil || len(notes) != 0 {
		t.Errorf("info ran hooks: %v, %v", notes, err)
	}
	if _, err := h.Fork(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"h after_load", "h before_create", "h before_save", "h after_save", "h after_create"}; !slices.Equal(notes, want) {
		t.Errorf("fork: %v", notes)
	}
}

func TestHookStack_priorityThenRegistration(t *testing.T) {
	var notes []string
	stack := holdfast.HookStack{}
	for i, priority := range []int{0, 10, -5, 10, 0} {
		stack = stack.With(noting(&notes, fmt.Sprint(i)), priority, fmt.Sprint(i))
	}
	before := stack
	_ = stack.With(noting(&notes, "late"), 100, "late") // a value: the old stack does not see it
	h := open(t, func(c *holdfast.Config) { c.Hooks = before })
	s := h.create()
	notes = nil
	if _, err := h.Get(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1 after_load", "3 after_load", "0 after_load", "4 after_load", "2 after_load"}; !slices.Equal(notes, want) {
		t.Errorf("order %v, want %v", notes, want)
	}
}

func TestHooks_firstRefusalEndsTheStage(t *testing.T) {
	var notes []string
	refuse := holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
		if stage == session.BeforeSave {
			panic("not today")
		}
		return s, nil
	})
	h := open(t, func(c *holdfast.Config) {
		inner := holdfast.HookStack{}.With(refuse, 0, "guard")
		c.Hooks = holdfast.HookStack{}.With(inner, 1, "inner").With(noting(&notes, "after"), 0, "after")
	})
	_, err := h.Create(t.Context(), agentDef)
	var hook *session.HookError
	if !errors.As(err, &hook) || hook.Hook != "guard" || !errors.Is(err, session.ErrPanic) {
		t.Errorf("got %v", err)
	}
	if want := []string{"after before_create"}; !slices.Equal(notes, want) {
		t.Errorf("later hooks ran: %v", notes)
	}
}

func TestHooks_whatTheyChangeIsStoredOrNot(t *testing.T) {
	h := open(t, func(c *holdfast.Config) {
		c.Hooks = holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
			return s.WithMetadata(string(stage), []byte("true"), s.Info().CreatedAt)
		})
	})
	created := h.create()
	if _, ok := created.Metadata()["after_create"]; !ok {
		t.Error("what AfterCreate changed is not in the returned value")
	}
	stored := h.stored(created.ID()).Metadata()
	for stage, want := range map[string]bool{"before_create": true, "before_save": true, "after_save": false, "after_create": false} {
		if _, got := stored[stage]; got != want {
			t.Errorf("create, %s: stored %v, want %v", stage, got, want)
		}
	}
	if got, err := h.Get(t.Context(), created.ID()); err != nil || got.Metadata()["after_load"] == nil {
		t.Errorf("Get does not return what AfterLoad changed: %v", err)
	}
	if h.stored(created.ID()).Version() != 1 {
		t.Error("Get stored something")
	}
	h.do(created.ID(), holdfast.RenameSession{To: "x"})
	stored = h.stored(created.ID()).Metadata()
	for stage, want := range map[string]bool{"after_load": true, "after_action": true, "before_save": true, "after_save": false} {
		if _, got := stored[stage]; got != want {
			t.Errorf("execute, %s: stored %v, want %v", stage, got, want)
		}
	}
}

func TestHooks_mustKeepTheIdentity(t *testing.T) {
	var swap *session.Session
	h := open(t, func(c *holdfast.Config) {
		c.Hooks = holdfast.HookStack{}.With(holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
			if swap != nil && stage == session.AfterAction {
				return *swap, nil
			}
			return s, nil
		}), 0, "swapper")
	})
	s, other := h.create(), h.create()
	swap = &other
	_, err := h.Execute(t.Context(), s.ID(), holdfast.ClearSession{})
	var bad *session.InvalidError
	var hook *session.HookError
	if !errors.As(err, &bad) || bad.Field != "id" || !errors.As(err, &hook) || hook.Hook != "swapper" {
		t.Errorf("got %v", err)
	}
	h.unchanged(s)
}

func TestHooks_mayReopenButNotUndelete(t *testing.T) {
	h := open(t, func(c *holdfast.Config) {
		c.Hooks = holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
			if stage == session.AfterLoad && s.Info().Name == "reopen" {
				return s.WithStatus(session.Active, "", s.Info().UpdatedAt)
			}
			return s, nil
		})
	})
	s := h.create(holdfast.WithName("reopen"))
	h.do(s.ID(), holdfast.SuspendSession{})
	if got := h.do(s.ID(), holdfast.SendMessage{Text: "hi"}); got.Status() != session.Active || got.Reply() != "hello" {
		t.Errorf("status %s, reply %q", got.Status(), got.Reply())
	}
	h.do(s.ID(), holdfast.DeleteSession{})
	if _, err := h.Get(t.Context(), s.ID()); !errors.Is(err, session.ErrHook) {
		t.Errorf("a hook undeleted: %v", err)
	}
}

func TestOn_typedListenersByPriorityThenWiretaps(t *testing.T) {
	h := open(t, nil)
	var notes []string
	note := func(name string) func(holdfast.SessionLoaded) {
		return func(holdfast.SessionLoaded) { notes = append(notes, name) }
	}
	h.Wiretap(func(e holdfast.Event) { notes = append(notes, fmt.Sprintf("tap %T", e)) })
	holdfast.On(h.Runtime, note("low"), -1)
	stop := holdfast.On(h.Runtime, note("high"), 5)
	holdfast.On(h.Runtime, note("low too"), -1)
	holdfast.On(h.Runtime, func(holdfast.SessionLoaded) { panic("a listener cannot fail the pipeline") }, 0)
	s := h.create()
	notes = nil
	if _, err := h.Get(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"high", "low", "low too", "tap holdfast.SessionLoaded"}; !slices.Equal(notes, want) {
		t.Errorf("order %v, want %v", notes, want)
	}
	stop()
	stop()
	notes = nil
	if _, err := h.Get(t.Context(), s.ID()); err != nil || slices.Contains(notes, "high") {
		t.Errorf("still listening: %v, %v", notes, err)
	}
}

func TestEvents_ofATurn(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "the words"})
	var kinds []string
	for _, e := range h.heard.all() {
		kinds = append(kinds, fmt.Sprintf("%T", e)[len("holdfast."):])
		if text := fmt.Sprintf("%+v", e); len(text) > 0 && (contains(text, "the words") || contains(text, "hello")) {
			t.Errorf("an event tells what was said: %s", text)
		}
	}
	want := []string{
		"SessionLoaded", "ExecutionStarted", "StepStarted", "StepFinished", "ExecutionFinished", "SessionActionExecuted", "SessionSaved",
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	executed := h.heard.all()[5].(holdfast.SessionActionExecuted)
	if executed.BeforeVersion != 1 || executed.AfterVersion != 1 || executed.Action != "SendMessage" || executed.Tenant != "default" || executed.Time.IsZero() {
		t.Errorf("event %+v", executed)
	}
	if saved := h.heard.all()[6].(holdfast.SessionSaved); saved.Version != 2 || saved.Status != session.Active {
		t.Errorf("event %+v", saved)
	}
}

func TestHooks_haveTheRuntimesClockAndIDs(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var stages []session.Stage
	h := open(t, func(c *holdfast.Config) {
		ids := 0
		c.Now = func() time.Time { return noon }
		c.NewID = func() string { ids++; return fmt.Sprintf("id-%d", ids) }
		c.Hooks = holdfast.HookFunc(func(ctx context.Context, stage session.Stage, s session.Session) (session.Session, error) {
			env := holdfast.Env(ctx)
			if env == nil || !env.Now().Equal(noon) || !strings.HasPrefix(env.NewID(), "id-") || env.Memory().SessionID() != s.ID() {
				return s, fmt.Errorf("no environment at %s", stage)
			}
			if _, err := env.Append(ctx, s); !errors.Is(err, session.ErrInvalid) {
				return s, fmt.Errorf("a hook appended: %w", err)
			}
			if _, err := env.Run(ctx, s); !errors.Is(err, session.ErrInvalid) {
				return s, fmt.Errorf("a hook ran the agent: %w", err)
			}
			if _, err := (holdfast.SendMessage{Text: "hi"}).Execute(ctx, s); !errors.Is(err, session.ErrInvalid) {
				return s, fmt.Errorf("a hook sent a message: %w", err)
			}
			stages = append(stages, stage)
			return s, nil
		})
	})
	s := h.create()
	h.do(s.ID(), holdfast.ClearSession{})
	if len(stages) != 8 {
		t.Errorf("hooks ran at %v", stages)
	}
}

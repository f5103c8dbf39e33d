package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// inStatus makes a session in a status.
func (h *house) inStatus(status session.Status) session.Session {
	h.t.Helper()
	s := h.create()
	switch status {
	case session.Suspended:
		s = h.do(s.ID(), holdfast.SuspendSession{})
	case session.Completed:
		s = h.do(s.ID(), holdfast.CompleteSession{})
	case session.Failed:
		s = h.do(s.ID(), holdfast.FailSession{Reason: "gave up"})
	case session.Deleted:
		s = h.do(s.ID(), holdfast.DeleteSession{})
	}
	return s
}

// interrupt leaves a session with an execution that was broken off.
func (h *house) interrupt(id string) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	stop := holdfast.On(h.Runtime, func(holdfast.StepStarted) { cancel() }, 0)
	defer stop()
	if _, err := h.Execute(ctx, id, holdfast.SendMessage{Text: "first"}); !errors.Is(err, session.ErrInterrupted) {
		h.t.Fatalf("not interrupted: %v", err)
	}
}

func TestExecute_statusTable(t *testing.T) {
	t.Parallel()
	const (
		no   = '-' // refused; v is permitted
		same = '=' // permitted, the status stays
	)
	statuses := []session.Status{session.Active, session.Suspended, session.Completed, session.Failed, session.Deleted}
	table := []struct {
		action holdfast.Action
		row    string
		leads  session.Status // where a permitted action leads; empty: it stays
	}{
		{holdfast.SendMessage{Text: "hi"}, "v----", ""},
		{holdfast.ContinueExecution{}, "v----", ""},
		{holdfast.AbandonExecution{}, "vv---", ""},
		{holdfast.ClearSession{}, "vv---", ""},
		{holdfast.RewindSession{To: 1}, "vv---", ""},
		{holdfast.UpdateTask{}, "vv---", ""},
		{holdfast.ChangeModel{Model: "demo"}, "vv---", ""},
		{holdfast.ChangeSystemPrompt{Text: "x"}, "vv---", ""},
		{holdfast.ChangePermissionMode{Mode: session.PermissionPlan}, "vv---", ""},
		{holdfast.PruneSession{Strategy: session.PruneAll}, "vv---", ""},
		{holdfast.WidenWindow{}, "vv---", ""},
		{holdfast.StoreVariable{Key: "k", Value: 1}, "vv---", ""},
		{holdfast.DeleteVariable{Key: "k"}, "vv---", ""},
		{holdfast.WriteMetadata{Key: "k", Value: 1}, "vvvv-", ""},
		{holdfast.RemoveMetadata{Key: "k"}, "vvvv-", ""},
		{holdfast.RenameSession{To: "x"}, "vvvv-", ""},
		{holdfast.SetExpiry{}, "vvvv-", ""},
		{holdfast.SuspendSession{}, "v=---", session.Suspended},
		{holdfast.ResumeSession{}, "=vvv-", session.Active},
		{holdfast.CompleteSession{}, "vv=--", session.Completed},
		{holdfast.FailSession{}, "vv-=-", session.Failed},
		{holdfast.DeleteSession{}, "vvvv=", session.Deleted},
		{holdfast.RestoreSession{}, "----v", session.Active},
		{custom{name: "Custom", run: func(_ context.Context, s session.Session) (session.Session, error) { return s, nil }}, "v----", ""},
	}
	for _, line := range table {
		for i, status := range statuses {
			t.Run(line.action.Name()+"/"+string(status), func(t *testing.T) {
				t.Parallel()
				h := open(t, nil)
				s := h.inStatus(status)
				if name := line.action.Name(); (name == "ContinueExecution" || name == "AbandonExecution") && line.row[i] != no {
					if status == session.Suspended {
						h.do(s.ID(), holdfast.ResumeSession{})
					}
					h.interrupt(s.ID())
					if status == session.Suspended {
						h.do(s.ID(), holdfast.SuspendSession{})
					}
				}
				before := h.stored(s.ID())
				got, err := h.Execute(t.Context(), s.ID(), line.action)
				if line.row[i] == no {
					var refused *session.StatusError
					if !errors.As(err, &refused) || refused.Status != status || refused.Action != line.action.Name() {
						t.Fatalf("got %v, want a StatusError", err)
					}
					h.unchanged(before)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				want := status
				if line.leads != "" {
					want = line.leads
				}
				if line.row[i] == same {
					want = status
				}
				if got.Status() != want || got.Version() != before.Version()+1 {
					t.Errorf("status %s, version %d; want %s, %d", got.Status(), got.Version(), want, before.Version()+1)
				}
			})
		}
	}
}

func TestRestoreSession_returnsToTheStatusBefore(t *testing.T) {
	for _, status := range []session.Status{session.Active, session.Suspended, session.Completed, session.Failed} {
		h := open(t, nil)
		s := h.inStatus(status)
		h.do(s.ID(), holdfast.DeleteSession{})
		h.do(s.ID(), holdfast.DeleteSession{}) // twice is still once
		if got := h.do(s.ID(), holdfast.RestoreSession{}); got.Status() != status {
			t.Errorf("restored to %s, was %s", got.Status(), status)
		}
	}
}

func TestExecute_kindsThatOwnTheirConversation(t *testing.T) {
	for _, kind := range []session.Kind{session.KindTask, session.KindWorkflow} {
		h := open(t, nil)
		s := h.create(holdfast.WithKind(kind))
		for _, a := range []holdfast.Action{
			holdfast.SendMessage{Text: "hi"}, holdfast.ContinueExecution{}, holdfast.AbandonExecution{}, holdfast.ClearSession{}, holdfast.RewindSession{To: 1},
		} {
			_, err := h.Execute(t.Context(), s.ID(), a)
			var bad *session.InvalidError
			if !errors.As(err, &bad) || bad.Field != "kind" {
				t.Errorf("%s on a %s: %v", a.Name(), kind, err)
			}
		}
		h.unchanged(s)
		h.do(s.ID(), holdfast.RenameSession{To: "fine"})
	}
}

func TestSendMessage_refusesWhatIsNoMessage(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	for name, a := range map[string]holdfast.SendMessage{
		"nothing":    {},
		"both":       {Text: "x", Message: &session.Message{Content: session.Text("y")}},
		"blank":      {Text: " \n\t"},
		"assistant":  {Message: &session.Message{Role: session.RoleAssistant, Content: session.Text("x")}},
		"tool call":  {Message: &session.Message{Content: session.Text("x"), ToolCalls: []session.ToolCall{callOf("1", "t")}}},
		"result":     {Message: &session.Message{Content: session.Text("x"), ToolResult: &session.ToolResult{CallID: "1"}}},
		"no content": {Message: &session.Message{}},
	} {
		if _, err := h.Execute(t.Context(), s.ID(), a); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.unchanged(s)
	if n := len(h.model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestSendMessage_checksTheDefinitionBeforeItWrites(t *testing.T) {
	models := llm.Map{"demo": scripted.New()}
	h := open(t, func(c *holdfast.Config) { c.Models = models })
	def := agentDef
	def.Model = "demo"
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	delete(models, "demo") // registries change
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}); !errors.Is(err, session.ErrDefinition) {
		t.Errorf("got %v", err)
	}
	h.unchanged(s)
}

func TestSendMessage_withoutAnyModel(t *testing.T) {
	h := open(t, func(c *holdfast.Config) { c.DefaultModel = "" })
	s := h.create() // fine: only sending needs a model
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}); !errors.Is(err, session.ErrDefinition) {
		t.Errorf("got %v", err)
	}
	h.unchanged(s)
}

func TestSendMessage_turn(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	got := h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	if got.Reply() != "hello" || got.Version() != 2 || got.Len() != 2 {
		t.Errorf("reply %q, version %d, %d messages", got.Reply(), got.Version(), got.Len())
	}
	if e := got.Execution(); e.Status != session.ExecutionCompleted || e.Number != 1 || e.Stop.Reason != session.StopCompleted || len(e.Steps) != 1 {
		t.Errorf("execution %+v", e)
	}
	r := h.model.Requests()[0]
	if r.System != "Be brief." || len(r.Messages) != 1 || r.Messages[0].Content.Text() != "hi" || r.Agent != "tester" {
		t.Errorf("the model was sent %+v", r)
	}
	if document(t, got) != document(t, h.stored(s.ID())) {
		t.Error("what is returned is not what is stored")
	}
}

func TestClearSession_keepsAllButTheConversation(t *testing.T) {
	h := open(t, nil)
	s := h.create(holdfast.WithName("kept"))
	h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	h.do(s.ID(), holdfast.WriteMetadata{Key: "ticket", Value: "OPS-1"})
	h.do(s.ID(), holdfast.UpdateTask{Tasks: []session.TaskItem{{Content: "one"}}})
	h.do(s.ID(), holdfast.StoreVariable{Key: "v", Value: 7})
	before := h.do(s.ID(), holdfast.ChangeSystemPrompt{Text: "Be kind."})
	after := h.do(s.ID(), holdfast.ClearSession{})
	if after.Len() != 0 || after.Info().MessageCount != 0 || after.Execution() != nil {
		t.Errorf("%d messages, execution %v", after.Len(), after.Execution())
	}
	usage, cost := before.Usage()
	usageAfter, costAfter := after.Usage()
	if after.Info().Name != "kept" || after.Metadata().String("ticket") != "OPS-1" || len(after.Tasks()) != 1 ||
		string(after.Variables()["v"].Value) != "7" || after.SystemPrompt() != "Be kind." || after.AgentID() != before.AgentID() ||
		after.InferenceCount() != before.InferenceCount() || usage != usageAfter || cost != costAfter ||
		after.State().ExecutionCount != before.State().ExecutionCount {
		t.Errorf("something was lost: %s", document(t, after))
	}
	old, err := h.Get(t.Context(), s.ID(), holdfast.At(before.Version()))
	if err != nil || old.Len() != 2 {
		t.Errorf("the version before has %d messages, %v", old.Len(), err)
	}
	h.do(s.ID(), holdfast.SendMessage{Text: "again"})
	if r := h.model.Requests(); len(r[len(r)-1].Messages) != 1 {
		t.Error("the model still sees what was cleared")
	}
}

func TestRewindSession_andBack(t *testing.T) {
	h := open(t, func(c *holdfast.Config) {
		script(c, scripted.Reply{Text: "one"}, scripted.Reply{Text: "two"}, scripted.Reply{Text: "three"})
	})
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "1"})                 // version 2
	h.do(s.ID(), holdfast.SendMessage{Text: "2"})                 // version 3
	h.do(s.ID(), holdfast.WriteMetadata{Key: "k", Value: "late"}) // version 4
	back := h.do(s.ID(), holdfast.RewindSession{To: 2})           // version 5
	if back.Len() != 2 || back.Metadata().String("k") != "" || back.Version() != 5 || back.InferenceCount() != 2 {
		t.Errorf("%d messages, metadata %v, inferences %d", back.Len(), back.Metadata(), back.InferenceCount())
	}
	next := h.do(s.ID(), holdfast.SendMessage{Text: "3"}) // version 6
	var said []string
	for _, m := range next.Messages() {
		said = append(said, m.Content.Text())
	}
	if want := []string{"1", "one", "3", "three"}; !slices.Equal(said, want) {
		t.Errorf("transcript %v, want %v", said, want)
	}
	undone := h.do(s.ID(), holdfast.RewindSession{To: 4})
	if undone.Len() != 4 || undone.Metadata().String("k") != "late" || undone.Message(2).Content.Text() != "2" {
		t.Errorf("undoing gave %s", document(t, undone))
	}
	if reloaded := h.stored(s.ID()); document(t, reloaded) != document(t, undone) {
		t.Errorf("reloaded\n%s\nreturned\n%s", document(t, reloaded), document(t, undone))
	}
	for _, v := range []int64{0, -1, 99} {
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.RewindSession{To: v}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("rewind to %d: %v", v, err)
		}
	}
}

func TestChangePermissionMode_ofChatsToModesThereAre(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	s := h.inStatus(session.Active)
	if got := h.do(s.ID(), holdfast.ChangePermissionMode{Mode: session.PermissionPlan}); got.Permissions().Mode != session.PermissionPlan {
		t.Errorf("the mode is %s", got.Permissions().Mode)
	}
	before := h.stored(s.ID())
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.ChangePermissionMode{Mode: "never"}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a mode there is not: %v", err)
	}
	h.unchanged(before)
	run, err := h.Create(t.Context(), session.Definition{Name: "a"}, holdfast.WithKind(session.KindWorkflow))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Execute(t.Context(), run.ID(), holdfast.ChangePermissionMode{Mode: session.PermissionPlan}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("the mode of a run: %v", err)
	}
}

func TestChangeModel_nextInferenceGoesThere(t *testing.T) {
	a, b := scripted.New(scripted.Reply{Text: "from a"}), scripted.New(scripted.Reply{Text: "from b"})
	h := open(t, func(c *holdfast.Config) { c.Models, c.DefaultModel = llm.Map{"a": a, "b": b}, "a" })
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	h.do(s.ID(), holdfast.ChangeModel{Model: "b"})
	got := h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	if got.Reply() != "from b" || got.Execution().Steps[0].Model != "b" {
		t.Errorf("answered by %+v", got.Execution().Steps)
	}
	if got := h.do(s.ID(), holdfast.ChangeModel{}); got.Model() != "" {
		t.Errorf("the override is still %q", got.Model())
	}
	_, err := h.Execute(t.Context(), s.ID(), holdfast.ChangeModel{Model: "c"})
	var def *session.DefinitionError
	if !errors.As(err, &def) || !strings.Contains(err.Error(), "a, b") {
		t.Errorf("an unknown model: %v", err)
	}
}

func TestChangeSystemPrompt_andReset(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	if got := h.do(s.ID(), holdfast.ChangeSystemPrompt{}); got.SystemPrompt() != "" || got.Definition().SystemPrompt != "Be brief." {
		t.Errorf("prompt %q, definition's %q", got.SystemPrompt(), got.Definition().SystemPrompt)
	}
	if got := h.do(s.ID(), holdfast.ChangeSystemPrompt{Reset: true}); got.SystemPrompt() != "Be brief." {
		t.Errorf("prompt %q", got.SystemPrompt())
	}
}

func TestWriteMetadata_limitsAndNull(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	for _, key := range []string{"", "tasks", "holdfast.x", "a\x00b", strings.Repeat("k", 257), "bad\xff"} {
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.WriteMetadata{Key: key, Value: 1}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	for _, value := range []any{strings.Repeat("x", 64<<10), func() {}, json.RawMessage("{")} {
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.WriteMetadata{Key: "k", Value: value}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("value %T: %v", value, err)
		}
	}
	h.unchanged(s)
	got := h.do(s.ID(), holdfast.WriteMetadata{Key: "k", Value: nil})
	if raw, ok := got.Metadata()["k"]; !ok || string(raw) != "null" {
		t.Errorf("null was kept as %q, %v", raw, ok)
	}
	if got := h.do(s.ID(), holdfast.RemoveMetadata{Key: "k"}); len(got.Metadata()) != 0 {
		t.Errorf("left: %v", got.Metadata())
	}
	h.do(s.ID(), holdfast.RemoveMetadata{Key: "never there"})
}

func TestExecute_everySuccessIsOneVersionAndOneCommit(t *testing.T) {
	h := open(t, func(c *holdfast.Config) {})
	view := h.For(holdfast.Identity{Actor: "ann"})
	s := h.create()
	for range 3 { // also when nothing changes
		if _, err := view.Execute(t.Context(), s.ID(), holdfast.RemoveMetadata{Key: "none"}); err != nil {
			t.Fatal(err)
		}
	}
	wantEvents(t, h,
		"SessionLoaded", "SessionActionExecuted", "SessionSaved", "SessionLoaded", "SessionActionExecuted", "SessionSaved",
		"SessionLoaded", "SessionActionExecuted", "SessionSaved")
	commits, err := h.Commits(t.Context(), s.ID(), 0)
	if err != nil || len(commits) != 4 {
		t.Fatalf("%d commits, %v", len(commits), err)
	}
	if c := commits[3]; c.Version != 4 || c.Action != "RemoveMetadata" || c.Actor != "ann" {
		t.Errorf("commit %+v", c)
	}
}

func TestExecute_customActionsKeepTheIdentity(t *testing.T) {
	h := open(t, nil)
	s, other := h.create(), h.create()
	_, err := h.Execute(t.Context(), s.ID(), custom{name: "Swap", run: func(context.Context, session.Session) (session.Session, error) { return other, nil }})
	var bad *session.InvalidError
	if !errors.As(err, &bad) || bad.Field != "id" {
		t.Errorf("another session: %v", err)
	}
	_, err = h.Execute(t.Context(), s.ID(), custom{name: "None", run: func(context.Context, session.Session) (session.Session, error) { return session.Session{}, nil }})
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("the zero session: %v", err)
	}
	for _, name := range []string{"SendMessage", "", "1x", "a b", strings.Repeat("x", 65)} {
		if _, err := h.Execute(t.Context(), s.ID(), custom{name: name}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := h.Execute(t.Context(), s.ID(), nil); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("no action: %v", err)
	}
	h.unchanged(s)
}

func TestExecute_onlyRestoreLeavesDeleted(t *testing.T) {
	h := open(t, nil)
	s := h.inStatus(session.Deleted)
	_, err := h.Execute(t.Context(), s.ID(), permitted{custom{name: "Raise", run: func(ctx context.Context, s session.Session) (session.Session, error) {
		return s.WithStatus(session.Active, "", holdfast.Env(ctx).Now())
	}}})
	var bad *session.InvalidError
	if !errors.As(err, &bad) || bad.Field != "status" {
		t.Errorf("got %v", err)
	}
	h.unchanged(s)
}

// permitted is a custom action that may run in every status.
type permitted struct{ custom }

func (permitted) Permits(session.Status) bool { return true }

func TestExecute_memoryPolicyMovesTheWindow(t *testing.T) {
	limit := 2
	def := agentDef
	def.Memory = &session.MemoryPolicy{Limit: &limit}
	h := open(t, nil)
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	}
	got := h.stored(s.ID())
	if !got.Partial() || got.Len() != 2 || got.Info().MessageCount != 8 {
		t.Errorf("partial %v, %d of %d messages", got.Partial(), got.Len(), got.Info().MessageCount)
	}
	whole, err := h.Get(t.Context(), s.ID(), holdfast.Whole())
	if err != nil || whole.Len() != 8 || whole.Partial() {
		t.Errorf("the whole transcript has %d messages, %v", whole.Len(), err)
	}
	r := h.model.Requests()
	if n := len(r[len(r)-1].Messages); n != 3 {
		t.Errorf("the model was shown %d messages", n)
	}
	wide := h.do(s.ID(), holdfast.WidenWindow{})
	if wide.Window().FromSeq != 0 || h.stored(s.ID()).Len() != 8 {
		t.Errorf("widened to %+v with %d messages", wide.Window(), h.stored(s.ID()).Len())
	}
}

func TestSetExpiry_andSweep(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	h := open(t, func(c *holdfast.Config) { c.Now = func() time.Time { return now } })
	gone, kept := h.create(), h.create()
	h.do(gone.ID(), holdfast.SetExpiry{At: now.Add(time.Hour)})
	h.do(kept.ID(), holdfast.SetExpiry{At: now.Add(3 * time.Hour)})
	now = now.Add(2 * time.Hour)
	dry, err := h.Sweep(t.Context(), holdfast.Retention{Expired: true, DryRun: true})
	if err != nil || !slices.Equal(dry, []string{gone.ID()}) {
		t.Fatalf("dry run: %v, %v", dry, err)
	}
	if h.stored(gone.ID()).Status() != session.Active {
		t.Error("a dry run changed something")
	}
	if swept, err := h.Sweep(t.Context(), holdfast.Retention{Expired: true}); err != nil || !slices.Equal(swept, dry) {
		t.Fatalf("swept %v, %v", swept, err)
	}
	if h.stored(gone.ID()).Status() != session.Deleted || h.stored(kept.ID()).Status() != session.Active {
		t.Error("the wrong one was swept")
	}
	if _, err := h.Sweep(t.Context(), holdfast.Retention{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a sweep of everything: %v", err)
	}
}

func TestPurge_removesForGood(t *testing.T) {
	h := open(t, nil)
	s := h.create(holdfast.WithID("again"))
	h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	fork, err := h.Fork(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	h.heard.forget()
	if err := h.Purge(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, h, "SessionPurged")
	if err := h.Purge(t.Context(), s.ID()); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("twice: %v", err)
	}
	if got := h.stored(fork.ID()); got.Len() != 2 {
		t.Errorf("the fork has %d messages", got.Len())
	}
	if again := h.create(holdfast.WithID("again")); again.Version() != 1 {
		t.Errorf("made again at version %d", again.Version())
	}
	if err := h.Purge(t.Context(), fork.ID(), holdfast.Cascade()); err != nil {
		t.Fatal(err)
	}
	var query store.Query
	if page, err := h.List(t.Context(), query); err != nil || len(page.Items) != 1 {
		t.Errorf("%d left, %v", len(page.Items), err)
	}
}

// politely is a user's action that embeds one of the package's.
type politely struct{ holdfast.SendMessage }

// A pointer to an action, and a type that embeds one, are treated as the action.
func TestAction_pointersAndEmbeddedOnesAreTheAction(t *testing.T) {
	h := open(t, nil)
	chat := h.create()
	for name, action := range map[string]holdfast.Action{
		"pointer": &holdfast.SendMessage{Text: "hi"}, "embedded": politely{holdfast.SendMessage{Text: "hi"}}, "pointer to embedded": &politely{holdfast.SendMessage{Text: "hi"}},
	} {
		if got, err := h.Execute(t.Context(), chat.ID(), action, holdfast.OnBusy(holdfast.Enqueue)); err != nil || got.Reply() != "hello" {
			t.Errorf("%s: %q, %v", name, got.Reply(), err)
		}
	}
	h.do(chat.ID(), holdfast.DeleteSession{})
	h.do(chat.ID(), &holdfast.RestoreSession{})

	task := h.create(holdfast.WithKind(session.KindTask))
	for _, action := range []holdfast.Action{
		&holdfast.ClearSession{}, &holdfast.RewindSession{To: 1}, &holdfast.SendMessage{Text: "hi"}, politely{holdfast.SendMessage{Text: "hi"}},
		&holdfast.ContinueExecution{}, &holdfast.RetryExecution{}, &holdfast.AbandonExecution{},
	} {
		var invalid *session.InvalidError
		if _, err := h.Execute(t.Context(), task.ID(), action); !errors.As(err, &invalid) || invalid.Field != "kind" {
			t.Errorf("%T on a task: %v", action, err)
		}
	}
	h.unchanged(task)
	if _, err := h.Execute(t.Context(), chat.ID(), (*holdfast.SendMessage)(nil)); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a nil pointer: %v", err)
	}
}

// The failure of another session's execution is an error like any other.
func TestExecute_theFailureOfAnotherSessionIsNotItsOwn(t *testing.T) {
	foreign := &session.ExecutionError{ID: "another", Version: 7, ExecutionID: "e", Err: errors.New("no answer")}
	h := open(t, nil)
	s := h.create()
	for name, result := range map[string]func(session.Session) session.Session{
		"same": func(s session.Session) session.Session { return s },
		"zero": func(session.Session) session.Session { return session.Session{} },
	} {
		_, err := h.Execute(t.Context(), s.ID(), custom{name: "Ask", run: func(_ context.Context, s session.Session) (session.Session, error) {
			return result(s), fmt.Errorf("ask another: %w", foreign)
		}})
		var got *session.ExecutionError
		if !errors.As(err, &got) || got.Version != 7 || got.ID != "another" {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.unchanged(s)
}

// An action that has written nothing leaves nothing that could be continued.
func TestExecute_aShortActionThatIsCutOffSaysThatNothingHappened(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := h.Execute(ctx, s.ID(), custom{name: "Slow", run: func(ctx context.Context, s session.Session) (session.Session, error) {
		cancel()
		<-ctx.Done()
		return s, ctx.Err()
	}})
	if !errors.Is(err, context.Canceled) || errors.Is(err, session.ErrInterrupted) || contains(err.Error(), "continued") {
		t.Errorf("%v", err)
	}
	h.unchanged(s)
}

// One session that cannot be swept does not keep the others.
func TestSweep_goesOnAfterARefusal(t *testing.T) {
	stubborn := map[string]session.Stage{"a": session.BeforeSave, "c": session.AfterSave}
	h := open(t, func(c *holdfast.Config) {
		c.Hooks = holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
			if s.Status() == session.Deleted && stubborn[s.ID()] == stage {
				return s, errors.New("no")
			}
			return s, nil
		})
	})
	for _, id := range []string{"a", "b", "c", "d"} {
		h.create(holdfast.WithID(id), holdfast.WithExpiry(time.Now().Add(-time.Hour)))
	}
	swept, err := h.Sweep(t.Context(), holdfast.Retention{Expired: true})
	slices.Sort(swept)
	if !slices.Equal(swept, []string{"b", "c", "d"}) || !errors.Is(err, session.ErrHook) || !errors.Is(err, session.ErrAfterSave) {
		t.Errorf("swept %v, %v", swept, err)
	}
}

func TestClose_refusesSweepAndRecover(t *testing.T) {
	h := open(t, nil)
	s := h.create(holdfast.WithExpiry(time.Now().Add(-time.Hour)))
	h.interrupt(s.ID())
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if swept, err := h.Sweep(t.Context(), holdfast.Retention{Expired: true, Purge: true}); !errors.Is(err, session.ErrClosed) || len(swept) != 0 {
		t.Errorf("swept %v, %v", swept, err)
	}
	if done, err := h.Recover(t.Context()); !errors.Is(err, session.ErrClosed) || len(done) != 0 {
		t.Errorf("recovered %v, %v", done, err)
	}
}

// Events name types of package session only.
func TestEvents_anErrorOfTheStoreHasNoTypeOfItsOwn(t *testing.T) {
	st := newFaultyStore()
	h := open(t, func(c *holdfast.Config) { c.Store = st })
	s := h.create()
	st.inject(func(n int, _ store.Ref) fault { return when(n > 3, fails) })
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}); err == nil {
		t.Fatal("nothing failed")
	}
	st.inject(nil)
	failures := 0
	for _, e := range h.heard.all() {
		if failed, ok := e.(holdfast.SessionActionFailed); ok {
			failures++
			if failed.ErrorType != "error" {
				t.Errorf("type %q", failed.ErrorType)
			}
		}
	}
	if failures != 1 {
		t.Errorf("%d failures were heard", failures)
	}
}

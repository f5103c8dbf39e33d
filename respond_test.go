package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/tool"
)

// onSQLite puts a runtime on a database file.
func onSQLite(t *testing.T, c *holdfast.Config) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c.Store = st
}

// shell is a tool that has to be approved. It counts its runs.
func shell(t *testing.T, runs *sync.Map) tool.Set {
	t.Helper()
	run, err := tool.Func(tool.Spec{Name: "shell", Description: "runs a command", Effects: tool.Shell}, func(_ context.Context, in struct {
		Command string `json:"command"`
	}) (string, error) {
		n, _ := runs.LoadOrStore(in.Command, 0)
		runs.Store(in.Command, n.(int)+1)
		return "ran " + in.Command, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(run, tool.AskPerson())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// shellPermissions lets the shell be used in an empty workspace.
func shellPermissions(t *testing.T) *holdfast.Permissions {
	t.Helper()
	w := permission.Workspace{ID: "w", Root: t.TempDir(), Capabilities: map[string]bool{"shell": true}}
	return &holdfast.Permissions{Workspace: func(session.Session) permission.Workspace { return w }}
}

func callsShell(id, command string) scripted.Reply {
	raw, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		panic(err) // a text always encodes
	}
	return scripted.Reply{ToolCalls: []session.ToolCall{{ID: id, Name: "shell", Arguments: raw}}}
}

// permittedHouse opens a runtime on SQLite whose shell has to be approved.
func permittedHouse(t *testing.T, runs *sync.Map, replies ...scripted.Reply) *house {
	t.Helper()
	return open(t, func(c *holdfast.Config) {
		onSQLite(t, c)
		script(c, replies...)
		c.Tools, c.Permissions = shell(t, runs), shellPermissions(t)
	})
}

func ran(runs *sync.Map, command string) int {
	n, _ := runs.LoadOrStore(command, 0)
	return n.(int)
}

func TestRespond_anApprovalLetsTheCallRunOnce(t *testing.T) {
	var runs sync.Map
	h := permittedHouse(t, &runs, callsShell("c1", "make"), scripted.Reply{Text: "built"})
	s := h.create()
	waiting := h.do(s.ID(), holdfast.SendMessage{Text: "build it"})
	if !waiting.Waiting() || waiting.Version() != 2 || ran(&runs, "make") != 0 {
		t.Fatalf("waiting %t, version %d, ran %d", waiting.Waiting(), waiting.Version(), ran(&runs, "make"))
	}
	page, err := h.Pending(t.Context(), holdfast.PendingQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].Session.ID != s.ID() || page.Items[0].Tool != "shell" || len(page.Items[0].Choices) == 0 {
		t.Fatalf("pending %+v, %v", page, err)
	}
	if got, err := h.Recover(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("a session that waits was recovered: %v, %v", got, err)
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.ContinueExecution{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("continued without a response: %v", err)
	}
	response := session.Response{PendingID: page.Items[0].ID, Action: session.RespondApprove, By: "ann"}
	for range 2 { // the same again changes nothing
		if err := h.Respond(t.Context(), s.ID(), response); err != nil {
			t.Fatal(err)
		}
	}
	other := response
	other.Action = session.RespondDeny
	if err := h.Respond(t.Context(), s.ID(), other); !errors.Is(err, session.ErrResponded) {
		t.Errorf("another response: %v", err)
	}
	done := h.do(s.ID(), holdfast.ContinueExecution{})
	if done.Reply() != "built" || ran(&runs, "make") != 1 || done.Execution().Number != 1 {
		t.Errorf("reply %q, ran %d times", done.Reply(), ran(&runs, "make"))
	}
	if err := h.Respond(t.Context(), s.ID(), response); err != nil {
		t.Errorf("the same response after the end: %v", err)
	}
	if err := h.Respond(t.Context(), s.ID(), other); !errors.Is(err, session.ErrResponded) {
		t.Errorf("another response after the end: %v", err)
	}
	if page, err := h.Pending(t.Context(), holdfast.PendingQuery{}); err != nil || len(page.Items) != 0 {
		t.Errorf("still pending: %+v, %v", page, err)
	}
}

func TestRespond_ofTwoAtOnceOneCounts(t *testing.T) {
	var runs sync.Map
	h := permittedHouse(t, &runs, callsShell("c1", "make"), scripted.Reply{Text: "built"})
	s := h.create()
	p := h.do(s.ID(), holdfast.SendMessage{Text: "build it"}).PendingCalls()[0]
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i, action := range []session.ResponseAction{session.RespondApprove, session.RespondDeny} {
		wg.Go(func() { errs[i] = h.Respond(t.Context(), s.ID(), session.Response{PendingID: p.ID, Action: action}) })
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("both or none counted: %v", errs)
	}
	done := h.do(s.ID(), holdfast.ContinueExecution{})
	if want := map[bool]int{true: 1, false: 0}[errs[0] == nil]; ran(&runs, "make") != want || done.Reply() != "built" {
		t.Errorf("ran %d times, want %d", ran(&runs, "make"), want)
	}
}

func TestRespond_aKeptRuleIsNotAskedAgain(t *testing.T) {
	var runs sync.Map
	h := permittedHouse(t, &runs, callsShell("c1", "git status"), scripted.Reply{Text: "one"}, callsShell("c2", "git status"), scripted.Reply{Text: "two"})
	s := h.create()
	p := h.do(s.ID(), holdfast.SendMessage{Text: "look"}).PendingCalls()[0]
	choice := ""
	for _, c := range p.Choices {
		if c.Rule != nil && c.Rule.Source == session.SourceSession && c.Rule.Effect == session.EffectAllow {
			choice = c.Value
		}
	}
	if choice == "" {
		t.Fatalf("no choice is kept for the session: %+v", p.Choices)
	}
	if err := h.Respond(t.Context(), s.ID(), session.Response{PendingID: p.ID, Action: session.RespondApprove, Choice: choice}); err != nil {
		t.Fatal(err)
	}
	if got := h.do(s.ID(), holdfast.ContinueExecution{}); len(got.Permissions().SessionRules) != 1 {
		t.Fatalf("rules %+v", got.Permissions())
	}
	if got := h.do(s.ID(), holdfast.SendMessage{Text: "again"}); got.Reply() != "two" || ran(&runs, "git status") != 2 {
		t.Errorf("reply %q, ran %d", got.Reply(), ran(&runs, "git status"))
	}
}

func TestRespond_questionsAndClientTools(t *testing.T) {
	h := open(t, func(c *holdfast.Config) {
		onSQLite(t, c)
		script(c, scripted.Reply{ToolCalls: []session.ToolCall{
			{ID: "q", Name: tool.AskPersonName, Arguments: json.RawMessage(`{"question":"Which?"}`)},
			{ID: "c", Name: "browser", Arguments: json.RawMessage(`{"page":"/"}`)},
		}}, scripted.Reply{Text: "done"}, scripted.Reply{ToolCalls: []session.ToolCall{{ID: "d", Name: "browser"}}}, scripted.Reply{Text: "gone"})
		set, err := tool.NewSet(tool.AskPerson())
		if err != nil {
			t.Fatal(err)
		}
		c.Tools = set
	})
	s := h.create()
	brought := []session.ClientTool{{Name: "browser", Schema: json.RawMessage(`{"type":"object"}`)}}
	waiting := h.do(s.ID(), holdfast.SendMessage{Text: "go", Tools: brought})
	if n := len(waiting.PendingCalls()); n != 2 {
		t.Fatalf("%d calls wait", n)
	}
	for _, r := range []session.Response{
		{PendingID: "q", Action: session.RespondAnswer, Text: "the red one"}, // by the id of the tool call
		{PendingID: "c", Action: session.RespondResult, Text: "seen"},
	} {
		if err := h.Respond(t.Context(), s.ID(), r); err != nil {
			t.Fatal(err)
		}
	}
	done := h.do(s.ID(), holdfast.ContinueExecution{})
	if got := resultsIn(done); got["q"] != "the red one" || got["c"] != "seen" || done.Reply() != "done" {
		t.Errorf("results %v, reply %q", got, done.Reply())
	}
	// The tool existed for that execution only.
	if again := h.do(s.ID(), holdfast.SendMessage{Text: "again"}); !strings.Contains(resultsIn(again)["d"], "unknown tool") {
		t.Errorf("results %v", resultsIn(again))
	}
	for name, tools := range map[string][]session.ClientTool{
		"taken":   {{Name: tool.AskPersonName}},
		"twice":   {{Name: "a"}, {Name: "a"}},
		"no name": {{Name: "a b"}},
	} {
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "x", Tools: tools}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRespond_refusesWhatTheCallDoesNotTake(t *testing.T) {
	var runs sync.Map
	h := permittedHouse(t, &runs, callsShell("c1", "make"), scripted.Reply{Text: "built"})
	s := h.create()
	waiting := h.do(s.ID(), holdfast.SendMessage{Text: "build it"})
	for name, c := range map[string]struct {
		r    session.Response
		want error
	}{
		"unknown call":   {session.Response{PendingID: "nope", Action: session.RespondApprove}, session.ErrNotFound},
		"answer":         {session.Response{PendingID: "c1", Action: session.RespondAnswer, Text: "x"}, session.ErrInvalid},
		"unknown choice": {session.Response{PendingID: "c1", Action: session.RespondApprove, Choice: "x"}, session.ErrInvalid},
		"no action":      {session.Response{PendingID: "c1"}, session.ErrInvalid},
	} {
		if err := h.Respond(t.Context(), s.ID(), c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := h.Respond(t.Context(), "missing", session.Response{PendingID: "c1", Action: session.RespondApprove}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a missing session: %v", err)
	}
	if items, err := h.Inbox(t.Context(), s.ID()); err != nil || len(items) != 0 {
		t.Errorf("something was posted: %v, %v", items, err)
	}
	h.unchanged(waiting)
}

func TestSendMessage_onAWaitingSessionCancelsTheCalls(t *testing.T) {
	var runs sync.Map
	h := permittedHouse(t, &runs, callsShell("c1", "make"), scripted.Reply{Text: "as you like"})
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "build it"})
	got := h.do(s.ID(), holdfast.SendMessage{Text: "no, wait"})
	if got.Reply() != "as you like" || got.Waiting() || !strings.HasPrefix(resultsIn(got)["c1"], "not run") || ran(&runs, "make") != 0 {
		t.Errorf("reply %q, results %v", got.Reply(), resultsIn(got))
	}
	if err := session.ValidTranscript(session.Sendable(got.Messages())); err != nil {
		t.Error(err)
	}
}

func TestCancel_endsAWaitingExecution(t *testing.T) {
	var runs sync.Map
	h := permittedHouse(t, &runs, callsShell("c1", "make"))
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "build it"})
	if err := h.Cancel(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	if got := h.stored(s.ID()); got.Running() || got.Info().Pending != 0 || got.Execution().Stop.Reason != session.StopUserRequested {
		t.Errorf("execution %+v, pending %d", got.Execution().Stop, got.Info().Pending)
	}
}

func TestPending_expiresWhenRecovered(t *testing.T) {
	var runs sync.Map
	var mu sync.Mutex
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	h := open(t, func(c *holdfast.Config) {
		onSQLite(t, c)
		script(c, callsShell("c1", "make"), scripted.Reply{Text: "nobody was there"})
		c.Tools, c.Permissions, c.PendingTimeout = shell(t, &runs), shellPermissions(t), time.Hour
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	s := h.create()
	p := h.do(s.ID(), holdfast.SendMessage{Text: "build it"}).PendingCalls()[0]
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	if err := h.Respond(t.Context(), s.ID(), session.Response{PendingID: p.ID, Action: session.RespondApprove}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a late response: %v", err)
	}
	if got, err := h.Recover(t.Context()); err != nil || len(got) != 1 || got[0].Err != nil {
		t.Fatalf("recovered %v, %v", got, err)
	}
	if got := h.stored(s.ID()); got.Reply() != "nobody was there" || ran(&runs, "make") != 0 {
		t.Errorf("reply %q", got.Reply())
	}
}

func TestFork_doesNotInheritPendingCalls(t *testing.T) {
	var runs sync.Map
	h := permittedHouse(t, &runs, callsShell("c1", "make"), scripted.Reply{Text: "else"})
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "build it"})
	fork, err := h.Fork(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	if fork.Info().Pending != 0 || fork.Running() {
		t.Errorf("the fork has %d pending calls", fork.Info().Pending)
	}
	if got := h.do(fork.ID(), holdfast.SendMessage{Text: "something else"}); got.Reply() != "else" {
		t.Errorf("reply %q", got.Reply())
	}
	if h.stored(s.ID()).Info().Pending != 1 {
		t.Error("the parent no longer waits")
	}
}

// A subagent that waits holds up the call of its parent, which needs no process
// either. The response to the subagent continues both.
func TestSubagent_thatWaitsHoldsUpItsParent(t *testing.T) {
	var runs sync.Map
	h := open(t, func(c *holdfast.Config) {
		onSQLite(t, c)
		parent := scripted.New(scripted.Reply{ToolCalls: []session.ToolCall{
			{ID: "work", Name: "spawn_subagent", Arguments: json.RawMessage(`{"subagent":"builder","prompt":"build"}`)},
		}}, scripted.Reply{Text: "all built"})
		c.Models = llm.Map{"demo": parent, "other": scripted.New(callsShell("c1", "make"), scripted.Reply{Text: "made it"})}
		c.Definitions = staff{"builder": {Name: "builder", Model: "other", Tools: []string{"shell"}}}
		c.Tools, c.Permissions = shell(t, &runs), shellPermissions(t)
	})
	def := agentDef
	def.Subagents = []string{"builder"}
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	waiting := h.do(s.ID(), holdfast.SendMessage{Text: "have it built"})
	if p := waiting.PendingCalls(); !waiting.Waiting() || len(p) != 1 || p[0].ChildID == "" {
		t.Fatalf("pending %+v", p)
	}
	child := waiting.PendingCalls()[0].ChildID
	if err := h.Respond(t.Context(), child, session.Response{PendingID: "c1", Action: session.RespondApprove}); err != nil {
		t.Fatal(err)
	}
	h.do(child, holdfast.ContinueExecution{})
	got := h.stored(s.ID())
	if got.Reply() != "all built" || resultsIn(got)["work"] != "made it" || ran(&runs, "make") != 1 {
		t.Errorf("reply %q, results %v, ran %d", got.Reply(), resultsIn(got), ran(&runs, "make"))
	}
	if e := got.Execution(); e.ChildSteps != 2 {
		t.Errorf("the budget counts %d steps of the subagent", e.ChildSteps)
	}
}

package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/replay"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// shop is a runtime with a player, and tools that count how often they run.
type shop struct {
	*holdfast.Runtime
	player replay.Player
	ran    []string
}

func open(t *testing.T, models llm.Map, adjust func(*holdfast.Config)) *shop {
	t.Helper()
	h := &shop{}
	retries := 0
	counted := func(name string, nature tool.Nature) tool.Tool {
		made, err := tool.Func(tool.Spec{Name: name, Nature: nature}, func(_ context.Context, in struct {
			Order int `json:"order"`
		}) (string, error) {
			h.ran = append(h.ran, name)
			return name + " is done", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	tools, err := tool.NewSet(counted("find", tool.ReadOnly), counted("refund", tool.Once), tool.AskPerson())
	if err != nil {
		t.Fatal(err)
	}
	c := holdfast.Config{Store: inmem.New(inmem.Config{}), Models: models, Tools: tools, Loop: &h.player, ModelRetries: &retries}
	if adjust != nil {
		adjust(&c)
	}
	if h.Runtime, err = holdfast.New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), c.Store.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *shop) talk(t *testing.T, def session.Definition, texts ...string) session.Session {
	t.Helper()
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if s, err = h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (h *shop) replay(t *testing.T, id string, from int64, o replay.Options) *replay.Report {
	t.Helper()
	r, err := replay.Load(t.Context(), h.Runtime, id, from)
	if err != nil {
		t.Fatal(err)
	}
	h.ran = nil
	report, err := h.player.Play(t.Context(), h.Runtime, r, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func calls(pairs ...string) scripted.Reply {
	var r scripted.Reply
	for i := 0; i < len(pairs); i += 2 {
		r.ToolCalls = append(r.ToolCalls, session.ToolCall{ID: pairs[i] + pairs[i+1], Name: pairs[i], Arguments: json.RawMessage(pairs[i+1])})
	}
	return r
}

func says(text string, cost int64) scripted.Reply {
	return scripted.Reply{Text: text, Usage: session.Usage{Input: 10, Output: 5}, Cost: session.Cost(cost)}
}

var clerk = session.Definition{Name: "clerk", Model: "old"}

func TestPlay_sameModelSameReportAndNoToolRunsAgain(t *testing.T) {
	t.Parallel()
	model := scripted.New(calls("find", `{"order":7}`, "refund", `{"order":7}`), says("It is refunded.", 40), says("You are welcome.", 20))
	h := open(t, llm.Map{"old": model}, nil)
	s := h.talk(t, clerk, "Refund order 7.", "Thank you.")
	if !slices.Equal(slices.Sorted(slices.Values(h.ran)), []string{"find", "refund"}) {
		t.Fatalf("the recording ran %q", h.ran)
	}
	report := h.replay(t, s.ID(), 0, replay.Options{Name: "again"})
	if !report.Same() || len(report.Turns) != 2 || report.From != 1 || report.Model != "old" {
		t.Errorf("%+v\n%s", report, report)
	}
	if len(h.ran) > 0 {
		t.Errorf("tools ran again: %q", h.ran)
	}
	if was, is := report.Cost(); was != 60 || is != 60 {
		t.Errorf("cost %s and %s", was, is)
	}
	fork, err := h.Get(t.Context(), report.Replay)
	if err != nil || fork.Info().ParentID != s.ID() || fork.Info().Name != "again" || fork.Len() != s.Len() {
		t.Errorf("the replay is %+v, %v", fork.Info(), err)
	}
	if now, err := h.Info(t.Context(), s.ID()); err != nil || now.Version != s.Version() {
		t.Errorf("the recorded session has version %d, had %d, %v", now.Version, s.Version(), err)
	}
}

func TestPlay_anotherModelIsCompared(t *testing.T) {
	t.Parallel()
	old := scripted.New(calls("find", `{"order":7}`), says("It is on its way.", 40), says("Bye.", 0))
	fresh := scripted.New(calls("find", `{ "order": 7 }`, "find", `{"order":8}`, "refund", `{"order":7}`), says("I have refunded it.", 10), says("Bye.", 0))
	h := open(t, llm.Map{"old": old, "new": fresh}, nil)
	s := h.talk(t, clerk, "Where is order 7?", "Bye.")
	report := h.replay(t, s.ID(), 0, replay.Options{Model: "new"})
	if report.Differs != 1 || !slices.Equal(report.Turns[0].Differs, []string{replay.InAnswer, replay.InCalls}) || len(report.Turns[1].Differs) > 0 {
		t.Fatalf("%s", report)
	}
	if report.Model != "new" || report.Turns[0].Replayed.Model != "new" || report.Turns[0].Recorded.Model != "old" {
		t.Errorf("models: %+v", report)
	}
	var sources []replay.Source
	for _, c := range report.Turns[0].Replayed.Calls {
		sources = append(sources, c.Source)
	}
	if !slices.Equal(sources, []replay.Source{replay.Recorded, replay.Ran, replay.Refused}) || !slices.Equal(h.ran, []string{"find"}) {
		t.Errorf("sources %q, ran %q", sources, h.ran)
	}
	if told := report.Turns[0].Replayed.Calls[2]; !told.IsError || !strings.Contains(told.Result, "replay") {
		t.Errorf("the model was told %+v", told)
	}
	want := `1  Where is order 7?
   - find {"order":7}
   + find {"order":7}
   + find {"order":8}
   + refund {"order":7}
   - It is on its way.
   + I have refunded it.
   other answer and calls · 1 of 3 calls recorded · 1 of 3 calls ran · 1 of 3 calls refused · 15 → 15 tokens · $0.00004 → $0.00001
2  Bye.
   same · 15 → 15 tokens
`
	if report.String() != want {
		t.Errorf("got\n%swant\n%s", report, want)
	}
}

func TestPlay_fromAVersion(t *testing.T) {
	t.Parallel()
	h := open(t, llm.Map{"old": scripted.New(says("one", 0), says("two", 0), says("three", 0))}, nil)
	s := h.talk(t, clerk, "a", "b", "c")
	report := h.replay(t, s.ID(), 2, replay.Options{})
	if len(report.Turns) != 2 || !report.Same() || report.Turns[0].Recorded.Text != "b" || report.From != 2 {
		t.Errorf("%+v\n%s", report, report)
	}
	var invalid *session.InvalidError
	if _, err := replay.Load(t.Context(), h.Runtime, s.ID(), s.Version()); !errors.As(err, &invalid) {
		t.Errorf("nothing to replay: %v", err)
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.RewindSession{To: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "d"}); err != nil {
		t.Fatal(err)
	}
	if _, err := replay.Load(t.Context(), h.Runtime, s.ID(), 3); !errors.As(err, &invalid) || invalid.Field != "from" {
		t.Errorf("a version that was rewound: %v", err)
	}
	if report := h.replay(t, s.ID(), 0, replay.Options{}); len(report.Turns) != 1 || report.Turns[0].Recorded.Text != "d" {
		t.Errorf("after a rewind: %s", report)
	}
}

// A call that waited waits in the replay too, and nothing is left waiting.
func TestPlay_waitingCalls(t *testing.T) {
	t.Parallel()
	model := scripted.New(
		calls(tool.AskPersonName, `{"question":"Which order?"}`), says("Never mind then.", 0),
		calls("refund", `{"order":1}`), says("Done.", 0),
		calls(tool.AskPersonName, `{"question":"Anything else?"}`),
	)
	ask := func(c *holdfast.Config) {
		c.Permissions = &holdfast.Permissions{Engine: permission.Engine{}}
	}
	h := open(t, llm.Map{"old": model}, ask)
	s := h.talk(t, clerk, "Refund it.", "Forget it.")
	s, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "Order 1, then."})
	if err != nil || !s.Waiting() {
		t.Fatalf("the refund does not wait for an approval: %v", err)
	}
	if err := h.Respond(t.Context(), s.ID(), session.Response{PendingID: s.PendingCalls()[0].ID, Action: session.RespondApprove}); err != nil {
		t.Fatal(err)
	}
	if s, err = h.Execute(t.Context(), s.ID(), holdfast.ContinueExecution{}); err != nil || s.Reply() != "Done." {
		t.Fatalf("%q, %v", s.Reply(), err)
	}
	if s, err = h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "Thanks."}); err != nil || !s.Waiting() {
		t.Fatalf("the question does not wait: %v", err)
	}
	report := h.replay(t, s.ID(), 0, replay.Options{})
	if !report.Same() || len(report.Turns) != 4 {
		t.Errorf("%s", report)
	}
	for _, turn := range []int{0, 3} {
		if c := report.Turns[turn].Replayed; len(c.Calls) != 1 || !c.Calls[0].Waiting || c.Answer != "" {
			t.Errorf("turn %d: %+v", turn+1, c)
		}
	}
	if len(h.ran) > 0 {
		t.Errorf("ran %q", h.ran)
	}
	page, err := h.Pending(t.Context(), holdfast.PendingQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].Session.ID != s.ID() {
		t.Errorf("waiting: %+v, %v", page.Items, err)
	}
}

// What would need an approval is refused: nobody can be asked in a replay.
func TestPlay_permissionsHoldForToolsThatRun(t *testing.T) {
	t.Parallel()
	model := scripted.New(calls("refund", `{"order":1}`), says("Done.", 0))
	var mode string
	h := open(t, llm.Map{"old": model}, func(c *holdfast.Config) {
		c.Permissions = &holdfast.Permissions{Engine: permission.Engine{}, Mode: mode}
	})
	s := h.talk(t, clerk, "Refund order 1.")
	if err := h.Respond(t.Context(), s.ID(), session.Response{PendingID: s.PendingCalls()[0].ID, Action: session.RespondApprove}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.ContinueExecution{}); err != nil {
		t.Fatal(err)
	}
	report := h.replay(t, s.ID(), 0, replay.Options{Run: []string{"refund"}})
	if c := report.Turns[0].Replayed.Calls[0]; c.Source != replay.Refused || !strings.Contains(c.Result, "approval") || len(h.ran) > 0 {
		t.Errorf("%+v, ran %q", c, h.ran)
	}
	if !slices.Equal(report.Turns[0].Differs, []string{replay.InResults}) {
		t.Errorf("%s", report)
	}
}

func TestPlay_aFailureComesWithTheReport(t *testing.T) {
	t.Parallel()
	broken := errors.New("the model is out")
	h := open(t, llm.Map{"old": scripted.New(says("one", 0)), "new": scripted.New(says("one", 0), scripted.Reply{Err: broken})}, nil)
	s := h.talk(t, clerk, "a", "b", "c")
	r, err := replay.Load(t.Context(), h.Runtime, s.ID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	report, err := h.player.Play(t.Context(), h.Runtime, r, replay.Options{Model: "new"})
	if !errors.Is(err, session.ErrExecutionFailed) || report == nil {
		t.Fatalf("%v", err)
	}
	if report.Same() || len(report.Turns) != 2 || report.Missing != 1 || report.Differs != 1 {
		t.Errorf("%+v", report)
	}
}

// A subagent is not run again: its recorded answer is the result.
func TestPlay_subagentsAnswerFromTheRecording(t *testing.T) {
	t.Parallel()
	model := scripted.NewConfig(scripted.Config{
		Replies: []scripted.Reply{calls("spawn_subagent", `{"subagent":"helper","prompt":"look"}`), says("The helper looked.", 0)},
		Agents:  map[string][]scripted.Reply{"helper": {says("I looked.", 0)}},
	})
	h := open(t, llm.Map{"old": model}, func(c *holdfast.Config) {
		c.Definitions = definitions{"helper": {Name: "helper", Model: "old"}}
	})
	s := h.talk(t, session.Definition{Name: "lead", Model: "old", Subagents: []string{"helper"}}, "Have it looked at.")
	before, err := h.List(t.Context(), store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	report := h.replay(t, s.ID(), 0, replay.Options{})
	if c := report.Turns[0].Replayed.Calls; !report.Same() || len(c) != 1 || c[0].Result != "I looked." || c[0].Source != replay.Recorded {
		t.Errorf("%s", report)
	}
	after, err := h.List(t.Context(), store.Query{})
	if err != nil || len(after.Items) != len(before.Items)+1 {
		t.Errorf("%d sessions, had %d, %v", len(after.Items), len(before.Items), err)
	}
}

type definitions map[string]session.Definition

func (d definitions) Get(name string) (session.Definition, error) { return d[name], nil }

// Tools of the caller and attachments come with the message again.
func TestPlay_clientToolsAndAttachments(t *testing.T) {
	t.Parallel()
	model := scripted.New(calls("pick_colour", `{}`), says("Blue it is.", 0))
	h := open(t, llm.Map{"old": model}, nil)
	s := h.talk(t, clerk)
	message := session.Message{Content: session.Content{{Type: session.PartText, Text: "Which?"}, {Type: session.PartImage, Data: "aGk=", MediaType: "image/png"}}}
	own := []session.ClientTool{{Name: "pick_colour", Description: "Ask the page.", Schema: json.RawMessage(`{"type":"object"}`)}}
	s, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Message: &message, Tools: own})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Respond(t.Context(), s.ID(), session.Response{PendingID: s.PendingCalls()[0].ID, Action: session.RespondResult, Text: "blue"}); err != nil {
		t.Fatal(err)
	}
	if s, err = h.Execute(t.Context(), s.ID(), holdfast.ContinueExecution{}); err != nil {
		t.Fatal(err)
	}
	asked := len(model.Requests())
	if report := h.replay(t, s.ID(), 0, replay.Options{}); !report.Same() || report.Turns[0].Replayed.Calls[0].Result != "blue" {
		t.Errorf("%s", report)
	}
	request := model.Requests()[asked]
	if content := request.Messages[0].Content; len(content) != 2 || content[1].Data != "aGk=" {
		t.Errorf("the model was sent %+v", content)
	}
	if !slices.ContainsFunc(request.Tools, func(t llm.Tool) bool { return t.Name == "pick_colour" && t.Description == "Ask the page." }) {
		t.Errorf("the model was offered %+v", request.Tools)
	}
}

// A store without a log, an import or a fork has no version before the first
// message: the replay is a session of its own.
func TestPlay_withoutAVersionToFork(t *testing.T) {
	t.Parallel()
	model := scripted.New(calls("refund", `{"order":7}`), says("It is refunded.", 0))
	st, err := file.Open(t.TempDir(), file.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, llm.Map{"old": model}, func(c *holdfast.Config) { c.Store = st })
	s := h.talk(t, clerk, "Refund order 7.")
	if report := h.replay(t, s.ID(), 0, replay.Options{}); !report.Same() || report.From != 0 || len(h.ran) > 0 {
		t.Errorf("%s", report)
	}
	if _, err := replay.Load(t.Context(), h.Runtime, s.ID(), 1); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("a version of a store without a log: %v", err)
	}

	h = open(t, llm.Map{"old": model}, nil)
	s = h.talk(t, clerk, "Refund order 7.")
	fork, err := h.Fork(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	if report := h.replay(t, fork.ID(), 0, replay.Options{}); !report.Same() || report.From != 0 || len(h.ran) > 0 {
		t.Errorf("%s", report)
	}
}

func TestPlay_whatIsRefusedLeavesNoSession(t *testing.T) {
	t.Parallel()
	h := open(t, llm.Map{"old": scripted.New(says("one", 0))}, func(c *holdfast.Config) {
		c.Hooks = holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
			if stage == session.AfterAction && s.Info().Fork != nil {
				return s, errors.New("forks are silent")
			}
			return s, nil
		})
	})
	s := h.talk(t, clerk, "a")
	r, err := replay.Load(t.Context(), h.Runtime, s.ID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"", "nobody"} {
		report, err := h.player.Play(t.Context(), h.Runtime, r, replay.Options{Model: model})
		if err == nil || report != nil {
			t.Errorf("%q: %v, %v", model, report, err)
		}
	}
	page, err := h.List(t.Context(), store.Query{})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("%d sessions, %v", len(page.Items), err)
	}
}

func TestLoad_onlyConversations(t *testing.T) {
	t.Parallel()
	h := open(t, llm.Map{"old": scripted.New()}, nil)
	s, err := h.Create(t.Context(), clerk, holdfast.WithKind(session.KindPolicy))
	if err != nil {
		t.Fatal(err)
	}
	var invalid *session.InvalidError
	if _, err := replay.Load(t.Context(), h.Runtime, s.ID(), 0); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "policy") {
		t.Errorf("%v", err)
	}
	if _, err := replay.Load(t.Context(), h.Runtime, "nobody", 0); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

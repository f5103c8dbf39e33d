package projector_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// history is a session that grows, with all who look at it.
type history struct {
	t        *property.T
	s        session.Session
	log      []session.LogEntry
	versions []session.Session
	live     *projector.Projector
	client   map[string]projector.Item // what somebody who only gets the changes has
	steps    int
}

func newHistory(t *property.T) *history {
	kind := property.SampledFrom([]session.Kind{session.KindChat, session.KindWorkflow, session.KindTask}).Draw(t, "kind")
	s, err := session.New(session.Identity{ID: "s-1", AgentID: "a-1", Kind: kind}, session.Definition{Name: "demo"}, session.Seed{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{t: t, s: s, live: projector.New("s-1"), client: map[string]projector.Item{}}
	h.flush()
	if kind == session.KindWorkflow {
		h.write(session.WorkflowBegun{Spec: json.RawMessage("{}"), Runtime: json.RawMessage("{}")})
	}
	h.seal()
	return h
}

// write tries a change; one that the session refuses is not written.
func (h *history) write(changes ...session.Change) {
	next, err := h.s.With(noon.Add(time.Duration(h.s.Seq())*time.Second), changes...)
	if err == nil {
		h.s = next
		h.flush()
	}
}

func (h *history) flush() {
	for _, r := range session.Unsaved(h.s) {
		e := session.LogEntry{Record: r}
		h.log = append(h.log, e)
		h.apply(holdfast.Update{Record: &e})
	}
	h.s = session.Flush(h.s)
}

func (h *history) seal() {
	h.s = session.Seal(h.s, noon)
	h.versions = append(h.versions, h.s)
}

// apply keeps the client's items by what the changes say, and checks that each
// is possible.
func (h *history) apply(u holdfast.Update) {
	for _, c := range h.live.Apply(u) {
		have, known := h.client[c.Item.ID]
		if known == (c.Op == projector.Added) {
			h.t.Fatalf("%s of %s, which is known: %t", c.Op, c.Item.ID, known)
		}
		switch c.Op {
		case projector.Grew:
			switch {
			case c.Item.Message != nil:
				m := *have.Message
				m.Text += c.Item.Message.Text
				have.Message = &m
			default:
				r := *have.Reasoning
				r.Text += c.Item.Reasoning.Text
				have.Reasoning = &r
			}
			h.client[c.Item.ID] = have
		case projector.Withdrawn:
			delete(h.client, c.Item.ID)
		case projector.Finished:
			if !c.Item.Done {
				h.t.Fatalf("%s is finished and not done", c.Item.ID)
			}
			h.client[c.Item.ID] = c.Item
		default:
			h.client[c.Item.ID] = c.Item
		}
	}
}

func (h *history) unit() string {
	if h.s.Info().Kind != session.KindWorkflow {
		return ""
	}
	return property.SampledFrom([]string{"unit/a", "unit/b"}).Draw(h.t, "unit")
}

func inUnit(unit string, c session.Change) session.Change {
	if unit == "" {
		return c
	}
	return session.UnitAdvanced{Unit: unit, Agent: "x", Change: c}
}

func callID(t *property.T) string {
	return property.SampledFrom([]string{"c1", "c2", "0"}).Draw(t, "call")
}

// answer streams an answer, or what becomes of none, and writes it.
func (h *history) answer(unit string) {
	h.steps++
	step := fmt.Sprint("step", h.steps)
	attempt := holdfast.Attempt{Unit: unit, ExecutionID: "e", StepID: step}
	var content session.Content
	for range h.t.Repeat(0, 4) {
		kind := property.SampledFrom([]string{session.PartText, session.PartReasoning}).Draw(h.t, "part")
		content = append(content, session.Part{Type: kind, Text: property.SampledFrom([]string{"a", "bb", ""}).Draw(h.t, "text")})
	}
	var calls []session.ToolCall
	for range h.t.Repeat(0, 2) {
		if id := callID(h.t); !slices.ContainsFunc(calls, func(c session.ToolCall) bool { return c.ID == id }) {
			calls = append(calls, session.ToolCall{ID: id, Name: "work", Arguments: json.RawMessage("{}")})
		}
	}
	if property.Bool().Draw(h.t, "streamed") {
		for _, part := range content {
			d := holdfast.Delta{Attempt: attempt, Text: part.Text}
			if part.Type == session.PartReasoning {
				d.Text, d.Reasoning = "", part.Text
			}
			h.apply(holdfast.Update{Delta: &d})
		}
		for _, c := range calls {
			h.apply(holdfast.Update{Delta: &holdfast.Delta{Attempt: attempt, ToolCall: &session.ToolCall{ID: c.ID, Name: c.Name}}})
			h.apply(holdfast.Update{Delta: &holdfast.Delta{Attempt: attempt, ToolCall: &c}})
		}
		if property.IntRange(0, 3).Draw(h.t, "dropped") == 0 {
			h.apply(holdfast.Update{Dropped: &holdfast.Dropped{Attempt: attempt}})
			return
		}
	}
	if unit == "" && h.s.Execution() == nil {
		h.write(session.ExecutionStarted{ExecutionID: fmt.Sprint("e", h.steps)})
	}
	if unit == "" && !h.s.Running() {
		h.apply(holdfast.Update{Dropped: &holdfast.Dropped{Attempt: attempt}})
		return
	}
	h.write(inUnit(unit, session.InferenceAnswered{StepID: step, Model: "m", Usage: session.Usage{Input: 1}}), session.MessageAdded{Message: session.Message{
		ID: "m-" + step, Role: session.RoleAssistant, StepID: step, Unit: unit, Content: content, ToolCalls: calls,
	}})
}

func (h *history) step() {
	unit := h.unit()
	step := fmt.Sprint("step", property.IntRange(max(1, h.steps-1), h.steps+1).Draw(h.t, "of"))
	id := property.SampledFrom([]string{"p1", "p2"}).Draw(h.t, "pending")
	switch property.IntRange(0, 17).Draw(h.t, "what") {
	case 0, 1, 2:
		h.answer(unit)
	case 3, 4:
		role := property.SampledFrom([]session.Role{session.RoleUser, session.RoleSystem}).Draw(h.t, "role")
		h.write(session.MessageAdded{Message: session.Message{ID: property.SampledFrom([]string{"", "m1", "m2"}).Draw(h.t, "id"), Role: role, Unit: unit, Content: session.Text("hi")}})
	case 5, 6:
		id := callID(h.t)
		h.write(session.MessageAdded{Message: session.Message{ID: fmt.Sprint("r", h.s.Seq()), Role: session.RoleTool, StepID: step, Unit: unit,
			ToolResult: &session.ToolResult{CallID: id, ToolName: "work", Content: fmt.Sprint("did ", h.s.Seq())}}})
	case 7:
		h.write(inUnit(unit, session.ToolStarted{StepID: step, CallID: callID(h.t), ToolName: "work"}))
	case 8:
		h.write(inUnit(unit, session.ToolFinished{StepID: step, CallID: callID(h.t), ToolName: "work", ChildSessionID: "child"}))
	case 9:
		h.write(session.CallPending{Call: session.PendingCall{ID: id, Kind: session.PendingApproval, CallID: callID(h.t), StepID: step, Unit: unit}})
	case 10:
		h.write(session.CallResponded{Unit: unit, Response: session.Response{PendingID: id, Action: session.RespondApprove}})
	case 11:
		h.write(property.SampledFrom([]session.Change{
			session.ExecutionContinued{}, session.ExecutionWaiting{}, session.ExecutionFinished{Status: session.ExecutionCompleted},
			session.ExecutionStarted{ExecutionID: fmt.Sprint("e", h.s.Seq())}, session.WindowMoved{To: 1},
			session.StatusChanged{Status: session.Suspended}, session.NameChanged{Name: "x"},
		}).Draw(h.t, "execution"))
	case 12:
		h.write(session.UnitStarted{Unit: unit}, session.MessageAdded{Message: session.Message{ID: fmt.Sprint("u", h.s.Seq()), Role: session.RoleUser, Unit: unit, Content: session.Text("do")}})
		h.write(session.UnitFinished{Unit: unit, Result: json.RawMessage("{}")})
		h.write(session.UnitFailed{Unit: unit})
	case 13:
		h.write(session.TranscriptCleared{})
	case 14:
		h.seal()
	case 15:
		back, err := h.s.Rewound(property.SampledFrom(h.versions).Draw(h.t, "to"), noon)
		if err == nil { // a workflow run does not go back
			h.s = back
			h.flush()
		}
	case 16:
		h.discard()
	case 17:
		h.write(session.TaskEvent{Name: "plan_created", Data: json.RawMessage(`{"plan":{"description":"p","steps":[{"id":"1","description":"d","status":"pending"}]}}`)})
		h.write(session.TaskEvent{Name: "step_started", Data: json.RawMessage(`{"step":{"id":"1","description":"d","status":"in_progress"}}`)})
		h.write(session.TaskEvent{Name: "file_created", Data: json.RawMessage(`{"path":"a.txt"}`)})
	}
}

// discard writes some changes and takes them back.
func (h *history) discard() {
	loaded, from := h.s, h.s.Seq()+1
	for range h.t.Repeat(1, 4) {
		h.write(session.MessageAdded{Message: session.Message{Role: session.RoleUser, Content: session.Text("refused")}})
	}
	if h.s.Seq() < from {
		return
	}
	back, err := session.DiscardTail(loaded, from, h.s.Seq(), noon)
	if err != nil {
		h.t.Fatal(err)
	}
	h.s = back
	h.flush()
}

// said is what a transcript says, in the words of messages.
type said struct {
	Seq           int64
	Role          session.Role
	Text          string
	Call, Outcome string
}

// fromMessages takes messages apart.
func fromMessages(messages []session.Message) (all []said) {
	for _, m := range messages {
		if m.ToolResult != nil {
			all = append(all, said{Seq: m.Seq, Call: m.ToolResult.CallID, Outcome: m.ToolResult.Content})
			continue
		}
		text := ""
		for _, p := range m.Content {
			text += p.Text
		}
		if text != "" {
			all = append(all, said{Seq: m.Seq, Role: m.Role, Text: text})
		}
		for _, c := range m.ToolCalls {
			all = append(all, said{Seq: m.Seq, Call: c.ID})
		}
	}
	return all
}

// plainText is a text without what stands between parts.
func plainText(text string) string { return strings.ReplaceAll(text, "\n", "") }

// fromItems puts together what items say of messages.
func fromItems(items []projector.Item) (all []said) {
	for _, i := range items {
		var next said
		switch {
		case i.Message != nil && len(plainText(i.Message.Text)) > 0:
			next = said{Seq: i.Seq, Role: i.Message.Role, Text: plainText(i.Message.Text)}
		case i.Reasoning != nil && i.Reasoning.Text != "":
			next = said{Seq: i.Seq, Role: session.RoleAssistant, Text: i.Reasoning.Text}
		case i.Call != nil:
			if c := i.Call; len(c.Arguments) > 0 {
				all = append(all, said{Seq: i.Seq, Call: c.CallID})
			}
			if r := i.Call.Result; r != nil {
				var seq int64
				_, _ = fmt.Sscanf(r.MessageID, "r%d", &seq)
				all = append(all, said{Seq: seq + 1, Call: i.Call.CallID, Outcome: r.Content})
			}
			continue
		default:
			continue
		}
		if n := len(all); n > 0 && all[n-1].Seq == next.Seq && all[n-1].Call == "" {
			all[n-1].Text += next.Text
			continue
		}
		all = append(all, next)
	}
	slices.SortStableFunc(all, func(a, b said) int { return int(a.Seq - b.Seq) })
	return all
}

func mustJSON(t *property.T, v any) string {
	raw, err := session.JSON(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Whatever happens to a session: the items say what its transcript says, those
// who only get the changes have the same items, and so does a projection of the
// log.
func TestProjector_property(t *testing.T) {
	t.Parallel()
	property.Check(t, func(t *property.T) {
		h := newHistory(t)
		for range t.Repeat(1, 40) {
			h.step()
			have, want := fromItems(h.live.Items()), fromMessages(h.s.Messages())
			if !reflect.DeepEqual(have, want) {
				t.Fatalf("the items say\n%+v, the messages\n%+v", have, want)
			}
			client := map[string]projector.Item{}
			for _, i := range h.live.Items() {
				if _, twice := client[i.ID]; twice {
					t.Fatalf("two items have the id %s", i.ID)
				}
				client[i.ID] = i
			}
			if have, want := mustJSON(t, h.client), mustJSON(t, client); have != want {
				t.Fatalf("the changes lead to\n%s, the items are\n%s", have, want)
			}
		}
		again, err := projector.Replay("s-1", func(yield func(session.LogEntry, error) bool) {
			for _, e := range h.log {
				if !yield(e, nil) {
					return
				}
			}
		}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if have, want := mustJSON(t, again.Items()), mustJSON(t, h.live.Items()); have != want {
			t.Fatalf("replayed\n%s, live\n%s", have, want)
		}
	})
}

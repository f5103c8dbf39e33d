package projector_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
)

// told says in a few words what happened.
func told(changes []projector.Change) string {
	var lines []string
	for _, c := range changes {
		line := fmt.Sprintf("%s %s", c.Op, c.Item.ID)
		switch i := c.Item; {
		case c.Op == projector.Withdrawn:
		case i.Message != nil && i.Message.Text != "":
			line += " " + i.Message.Text
		case i.Reasoning != nil && i.Reasoning.Text != "":
			line += " " + i.Reasoning.Text
		case i.Call != nil:
			line += " " + string(i.Call.State)
		case i.Pending != nil && i.Pending.Response != nil:
			line += " " + string(i.Pending.Response.Action)
		case i.Status != nil:
			line += " " + i.Status.Event
		case i.Work != nil:
			line += " " + string(i.Work.State)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// script applies updates and compares what each leads to.
type script struct {
	t   *testing.T
	p   *projector.Projector
	seq int64
}

func (s *script) apply(u holdfast.Update, want ...string) {
	s.t.Helper()
	if have, want := told(s.p.Apply(u)), strings.Join(want, "\n"); have != want {
		s.t.Errorf("have\n%s\nwant\n%s", have, want)
	}
}

func (s *script) record(c session.Change, want ...string) {
	s.t.Helper()
	s.seq++
	s.apply(holdfast.Update{Record: &session.LogEntry{Record: session.Record{Seq: s.seq, At: noon, Change: c}}}, want...)
}

func (s *script) delta(d holdfast.Delta, want ...string) {
	s.t.Helper()
	s.apply(holdfast.Update{Delta: &d}, want...)
}

func TestProjector_turnWithAToolThatNeedsApproval(t *testing.T) {
	t.Parallel()
	s := &script{t: t, p: projector.New("s-1")}
	s.record(session.ExecutionStarted{ExecutionID: "e"}, "added status/1 execution_started", "finished status/1 execution_started")
	s.record(session.MessageAdded{Message: session.Message{ID: "m", Role: session.RoleUser, Content: session.Text("go")}}, "added m/0 go", "finished m/0 go")

	first := holdfast.Attempt{ExecutionID: "e", StepID: "s"}
	s.delta(holdfast.Delta{Attempt: first, Text: "I w"}, "added s/0", "grew s/0 I w")
	s.apply(holdfast.Update{Dropped: &holdfast.Dropped{Attempt: first}}, "withdrawn s/0")
	again := holdfast.Attempt{ExecutionID: "e", StepID: "s", Number: 1}
	s.delta(holdfast.Delta{Attempt: again, Reasoning: "hm"}, "added s/0", "grew s/0 hm")
	s.delta(holdfast.Delta{Attempt: again, Text: "o"}, "added s/1", "grew s/1 o")
	s.delta(holdfast.Delta{Attempt: again, Text: "k"}, "grew s/1 k")
	call := session.ToolCall{ID: "c", Name: "rm"}
	s.delta(holdfast.Delta{Attempt: again, ToolCall: &call}, "added s/call/c streaming")
	call.Arguments = json.RawMessage(`{"path":"x"}`)
	s.delta(holdfast.Delta{Attempt: again, ToolCall: &call}, "updated s/call/c streaming")

	s.record(session.InferenceAnswered{StepID: "s", Model: "m"}, "added s/usage", "finished s/usage")
	s.record(session.MessageAdded{Message: session.Message{
		ID: "a", Role: session.RoleAssistant, StepID: "s", ToolCalls: []session.ToolCall{call},
		Content: session.Content{{Type: session.PartReasoning, Text: "hm"}, {Type: session.PartText, Text: "ok"}},
	}}, "finished s/0 hm", "finished s/1 ok", "updated s/call/c called")
	s.record(session.CallPending{Call: session.PendingCall{ID: "p", Kind: session.PendingApproval, CallID: "c", StepID: "s"}},
		"updated s/call/c waiting", "added pending/p")
	s.record(session.CallResponded{Response: session.Response{PendingID: "p", Action: session.RespondApprove}},
		"finished pending/p approve", "updated s/call/c called")
	s.record(session.ToolStarted{StepID: "s", CallID: "c", ToolName: "rm"}, "updated s/call/c running")
	s.record(session.MessageAdded{Message: session.Message{
		ID: "r", Role: session.RoleTool, StepID: "s", ToolResult: &session.ToolResult{CallID: "c", ToolName: "rm", Content: "gone"},
	}}, "updated s/call/c running")
	s.record(session.ToolFinished{StepID: "s", CallID: "c", ToolName: "rm"}, "finished s/call/c done")
	s.record(session.TranscriptCleared{}, "withdrawn status/1", "withdrawn m/0", "withdrawn s/usage", "withdrawn s/0", "withdrawn s/1",
		"withdrawn s/call/c", "withdrawn pending/p", "added status/10 transcript_cleared", "finished status/10 transcript_cleared")
}

func TestProjector_unitsThatAnswerAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := &script{t: t, p: projector.New("s-1")}
	a, b := holdfast.Attempt{Unit: "a", ExecutionID: "a", StepID: "sa"}, holdfast.Attempt{Unit: "b", ExecutionID: "b", StepID: "sb"}
	s.record(session.UnitStarted{Unit: "a", Agent: "x"}, "added unit/a running")
	s.record(session.UnitStarted{Unit: "b", Agent: "y"}, "added unit/b running")
	s.delta(holdfast.Delta{Attempt: a, Text: "1"}, "added sa/0", "grew sa/0 1")
	s.delta(holdfast.Delta{Attempt: b, Text: "2"}, "added sb/0", "grew sb/0 2")
	s.delta(holdfast.Delta{Attempt: a, Text: "3"}, "grew sa/0 3")
	s.record(session.UnitAdvanced{Unit: "a", Change: session.InferenceAnswered{StepID: "sa"}}, "updated unit/a running", "added sa/usage", "finished sa/usage")
	s.record(session.MessageAdded{Message: session.Message{ID: "ma", Role: session.RoleAssistant, StepID: "sa", Unit: "a", Content: session.Text("13")}}, "finished sa/0 13")
	s.apply(holdfast.Update{Dropped: &holdfast.Dropped{Attempt: b}}, "withdrawn sb/0")
	s.record(session.UnitFailed{Unit: "b"}, "finished unit/b failed")
	s.record(session.UnitFinished{Unit: "a", Result: json.RawMessage("{}")}, "finished unit/a finished")
}

// A log may hold any change, also as its first: one that shows nothing changes
// nothing.
func TestProjector_takesEveryKindOfChange(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../session/testdata/changes/*.json")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d samples of changes: %v", len(files), err)
	}
	all := projector.New("s-1")
	for i, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			var r session.Record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			projector.New("s-1").Apply(holdfast.Update{Record: &session.LogEntry{Record: r}})
			r.Seq = int64(i + 1)
			all.Apply(holdfast.Update{Record: &session.LogEntry{Record: r}})
		}
	}
	if len(all.Items()) == 0 {
		t.Error("no item of all changes")
	}
	if raw, err := json.Marshal(all.Items()); err != nil || !json.Valid(raw) {
		t.Errorf("items as JSON: %v", err)
	}
	all.Apply(holdfast.Update{})
}

func TestReplay_toAVersion(t *testing.T) {
	t.Parallel()
	entry := func(seq, version int64, text string, discarded bool) session.LogEntry {
		return session.LogEntry{Version: version, Discarded: discarded, Record: session.Record{Seq: seq, At: noon, Change: session.MessageAdded{
			Message: session.Message{ID: text, Seq: seq, Role: session.RoleUser, Content: session.Text(text)},
		}}}
	}
	log := []session.LogEntry{entry(1, 1, "one", false), entry(2, 2, "refused", true), entry(3, 2, "two", false), entry(4, 0, "open", false)}
	for version, want := range map[int64]string{1: "one", 2: "one two", 0: "one two open"} {
		p, err := projector.Replay("s-1", func(yield func(session.LogEntry, error) bool) {
			for _, e := range log {
				if !yield(e, nil) {
					return
				}
			}
		}, version)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, i := range p.Items() {
			texts = append(texts, i.Message.Text)
		}
		if have := strings.Join(texts, " "); have != want {
			t.Errorf("version %d has %q, want %q", version, have, want)
		}
	}
}

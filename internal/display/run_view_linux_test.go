package display

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/ptytest"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// The drawing stays in its place and fits the terminal, whatever happens.
func TestView_drawsInPlace(t *testing.T) {
	t.Parallel()
	s, err := spec.Load("../../examples/workflows/workflow-release-notes.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, columns := range []uint16{100, 34, 12} {
		ours, theirs := ptytest.Open(t, columns)
		shown := make(chan string)
		go func() {
			data, _ := io.ReadAll(ours) // ends with an error when the other end is closed
			shown <- string(data)
		}()
		p := &terminal.Console{Err: terminal.NewScreen(theirs), Getenv: func(string) string { return "" }, Redactor: terminal.NewRedactor()}
		play(NewRunView(p, s, NewRunState(), false), s)
		if err := theirs.Close(); err != nil {
			t.Fatal(err)
		}
		lines := ptytest.Shown(t, <-shown, int(columns))
		const warning = "warning: mind the gap" // it is no part of the drawing, and may be wider
		over := (len(warning) - 1) / int(columns)
		if len(lines) != 8+over || strings.Join(lines[:1+over], "") != warning {
			t.Fatalf("%d columns: the screen has\n%s", columns, strings.Join(lines, "\n"))
		}
		if columns != 100 {
			continue
		}
		for i, want := range []string{"release-notes · workflow · 4711", "    ✓ sort", "  ┌ ✗ features  author  ", "  └ ‖ fixes", "    · join", "  1 of 4 done · 30 tokens"} {
			if !strings.HasPrefix(lines[i+1], want) {
				t.Errorf("line %d is %q, want %q", i+1, lines[i+1], want)
			}
		}
		if !strings.HasSuffix(lines[3], "  it broke") {
			t.Errorf("the failure is not told: %q", lines[3])
		}
	}
}

// play has a run happen.
func play(v *RunView, s *spec.Spec) {
	seq := int64(0)
	write := func(changes ...session.Change) {
		for _, c := range changes {
			seq++
			v.TakeUpdate(holdfast.Update{Record: &session.LogEntry{Record: session.Record{Seq: seq, At: time.Now(), Change: c}}})
		}
	}
	v.TakeEvent(workflow.Event{
		Type: workflow.WorkflowStart, SessionID: "4711", SpecName: s.Name, Pattern: s.Pattern.Type, Data: workflow.StartData{},
	})
	write(session.UnitStarted{Unit: "task/sort", Agent: "sorter"})
	v.TakeUpdate(holdfast.Update{Delta: &holdfast.Delta{Attempt: holdfast.Attempt{Unit: "task/sort", StepID: "s"}, Text: strings.Repeat("long words ", 40)}})
	v.Mu.Lock()
	v.Frame++
	v.Draw()
	v.Mu.Unlock()
	v.Warn("mind the %s", "gap")
	write(session.UnitAdvanced{Unit: "task/sort", Agent: "sorter", Change: session.InferenceAnswered{StepID: "s", Usage: session.Usage{Input: 20, Output: 10}}},
		session.MessageAdded{Message: session.Message{ID: "m", Role: session.RoleAssistant, StepID: "s", Unit: "task/sort", Content: session.Text("x")}},
		session.UnitFinished{Unit: "task/sort", Agent: "sorter", Result: []byte("{}")})
	for _, task := range []string{"features", "fixes"} {
		write(session.UnitStarted{Unit: "task/" + task, Agent: "author"})
	}
	write(session.UnitFailed{Unit: "task/features", Agent: "author", Error: session.Failure{Message: "it broke"}})
	v.End(nil)
}

// A run with more units than a terminal has lines is drawn where it is at work.
func TestView_longRunIsDrawnInPart(t *testing.T) {
	t.Parallel()
	text := "version: 1\nname: long\nruntime: {provider: offline}\nagents: {a: {prompt: p}}\npattern:\n  type: chain\n  config:\n    steps:\n"
	for i := range 60 {
		text += fmt.Sprintf("      - {agent: a, input: step %d}\n", i)
	}
	path := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := spec.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := NewRunState()
	for i := range 40 {
		c.at(fmt.Sprintf("step/%d", i)).mark = markDone
	}
	c.at("step/40").mark = markGoing
	v := &RunView{Console: &terminal.Console{Err: terminal.NewScreen(os.Stderr)}, Canvas: &terminal.Canvas{}, spec: s, state: c, id: "4711"}
	lines := v.lines(80, 24)
	drawn := strings.Join(lines, "\n")
	if len(lines) > 23 || !strings.Contains(drawn, " 41  a") || !strings.Contains(drawn, " 42  a") || strings.Contains(drawn, " 2   a") {
		t.Errorf("%d lines:\n%s", len(lines), drawn)
	}
}

// A unit whose call waits for a response is shown as one that asks.
func TestRunState_aUnitWaits(t *testing.T) {
	t.Parallel()
	c, seq := NewRunState(), int64(0)
	write := func(changes ...session.Change) {
		for _, change := range changes {
			seq++
			c.update(holdfast.Update{Record: &session.LogEntry{Record: session.Record{Seq: seq, At: time.Now(), Change: change}}})
		}
	}
	call := session.PendingCall{ID: "p", Kind: session.PendingApproval, CallID: "c", Unit: "step/0", Tool: "shell", Prompt: "make?"}
	write(session.UnitStarted{Unit: "step/0", Agent: "a"}, session.CallPending{Call: call})
	if p := c.units["step/0"]; p.mark != markAsking || p.note != "shell waits for an approval: make?" {
		t.Errorf("the unit is shown as %+v", p)
	}
	write(session.CallResponded{Unit: "step/0", Response: session.Response{PendingID: "p", Action: session.RespondApprove}})
	if p := c.units["step/0"]; p.mark != markGoing || p.note != "" {
		t.Errorf("after the response the unit is shown as %+v", p)
	}
}

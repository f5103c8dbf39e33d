package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

// flow is a workflow run that has begun, at version 1.
func flow(t failer) session.Session {
	t.Helper()
	s, err := session.New(session.Identity{ID: "run-1", AgentID: "agent-1", Kind: session.KindWorkflow}, session.Definition{Name: "tea"}, session.Seed{}, at(0))
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	s = advanced(t, s,
		session.WorkflowBegun{Spec: json.RawMessage(`{"spec":1}`), Variables: []session.RunVariable{{Name: "topic", Value: "tea"}}, Runtime: json.RawMessage(`{}`)},
		session.WorkflowRowChanged{Workflow: session.WorkflowRow{Name: "tea", SpecHash: "00", Pattern: "chain", Status: "running"}},
	)
	return session.Seal(s, at(1))
}

func advanced(t failer, s session.Session, changes ...session.Change) session.Session {
	t.Helper()
	next, err := s.With(at(2), changes...)
	if err != nil {
		t.Fatalf("with %s: %v", changes[0].Kind(), err)
	}
	return next
}

// unit is all that is written of one unit of work.
func unit(key string) []session.Change {
	return []session.Change{
		session.UnitStarted{Unit: key, Lane: "main", Agent: "writer"},
		session.MessageAdded{Message: session.Message{ID: "in " + key, Role: session.RoleUser, Unit: key, Lane: "main", Content: session.Text("Write.")}},
		session.UnitAdvanced{Unit: key, Agent: "writer", Change: session.InferenceAnswered{StepID: "s " + key, Usage: session.Usage{Input: 3, Output: 2}}},
		session.MessageAdded{Message: session.Message{ID: "out " + key, Role: session.RoleAssistant, Unit: key, Lane: "main", Content: session.Text("Done.")}},
		session.UnitAdvanced{Unit: key, Agent: "writer", Change: session.StepFinished{StepID: "s " + key, Type: session.StepFinal}},
		session.UnitFinished{Unit: key, Agent: "writer", Result: json.RawMessage(`{"response":"Done."}`), Seconds: 1},
	}
}

func TestWorkflow_headSaysWhereTheRunStands(t *testing.T) {
	t.Parallel()
	s := advanced(t, flow(t), unit("step/0")...)
	s = advanced(t, s,
		session.QuestionPut{Question: session.Question{Unit: "step/1", Prompt: "Good?"}, Seconds: 1.5},
		session.QuestionPut{Question: session.Question{Unit: "step/1", Prompt: "Good enough?"}, Seconds: 2},
	)
	w := s.Workflow()
	if w.Units != 1 || w.Steps != 1 || w.Last != "step/0" || w.Seconds != 2 || w.SpecSeq != 2 {
		t.Errorf("the head is %+v", w)
	}
	if use := w.Agents["writer"]; use != (session.AgentUse{Input: 3, Output: 2, Calls: 1}) {
		t.Errorf("the writer has used %+v", use)
	}
	if asked := s.PendingCalls(); len(asked) != 1 || asked[0].Prompt != "Good enough?" || s.Info().Pending != 1 {
		t.Errorf("the questions are %+v, want the one put last", asked)
	}
	if used, _ := s.Usage(); used.Total() != 5 || s.InferenceCount() != 1 || s.Execution() != nil {
		t.Errorf("the session has used %+v in %d inferences, execution %+v", used, s.InferenceCount(), s.Execution())
	}
	s = advanced(t, s, session.QuestionAnswered{Unit: "step/1", Response: ""}, session.ArtifactWritten{Path: "/a"}, session.ArtifactWritten{Path: "/a"})
	if w = s.Workflow(); len(s.PendingCalls()) != 0 || s.Info().Pending != 0 || w.Units != 2 || w.Steps != 1 || len(w.Artifacts) != 1 {
		t.Errorf("after the answer the head is %+v", w)
	}
	var invalid *session.InvalidError
	if _, err := s.With(at(3), session.QuestionAnswered{Unit: "step/1"}); !errors.As(err, &invalid) || invalid.Field != "unit" {
		t.Errorf("a second answer gave %v, want an InvalidError for the unit", err)
	}
}

func TestWorkflow_resetTakesBackWhatUnitsDid(t *testing.T) {
	t.Parallel()
	s := advanced(t, flow(t), append(unit("step/0"), unit("step/1")...)...)
	s = advanced(t, s,
		session.QuestionPut{Question: session.Question{Unit: "step/2", Prompt: "Good?"}},
		session.UnitsReset{Units: []string{"step/1", "step/2"}, Finished: 1},
	)
	if w := s.Workflow(); w.Units != 1 || w.Steps != 2 || w.Agents["writer"].Calls != 2 {
		t.Errorf("the head is %+v, want one unit, and all that was used", w)
	}
	if waiting := s.PendingCalls(); len(waiting) != 0 {
		t.Errorf("%v still waits", waiting)
	}
	var invalid *session.InvalidError
	for _, c := range []session.UnitsReset{{}, {Units: []string{""}}, {Units: []string{"a"}, Finished: 2}, {Units: []string{"a"}, Finished: -1}} {
		if _, err := s.With(at(3), c); !errors.As(err, &invalid) {
			t.Errorf("%+v gave %v, want an InvalidError", c, err)
		}
	}
}

func TestWorkflow_headDoesNotGrowWithFinishedUnits(t *testing.T) {
	t.Parallel()
	size := func(units int) int {
		s := flow(t)
		for i := range units {
			s = advanced(t, s, unit(fmt.Sprintf("step/%03d", i))...)
		}
		head, err := session.EncodeHead(s)
		if err != nil {
			t.Fatal(err)
		}
		return len(head)
	}
	if few, many := size(1), size(200); many > few+40 { // digits of counters
		t.Errorf("the head of 200 units has %d bytes, that of 1 unit %d", many, few)
	}
}

func TestWorkflow_changesAreRefusedElsewhere(t *testing.T) {
	t.Parallel()
	chat, err := session.New(session.Identity{ID: "chat-1", AgentID: "agent-1"}, session.Definition{Name: "tea"}, session.Seed{}, at(0))
	if err != nil {
		t.Fatal(err)
	}
	unbegun, err := session.New(session.Identity{ID: "run-2", AgentID: "agent-1", Kind: session.KindWorkflow}, session.Definition{Name: "tea"}, session.Seed{}, at(0))
	if err != nil {
		t.Fatal(err)
	}
	var invalid *session.InvalidError
	for _, c := range samples() {
		if !session.InLedger(c) {
			continue
		}
		if _, err := chat.With(at(1), c); !errors.As(err, &invalid) || invalid.Field != "kind" {
			t.Errorf("%s on a chat gave %v, want an InvalidError for the kind", c.Kind(), err)
		}
		if _, begins := c.(session.WorkflowBegun); begins {
			continue
		}
		if _, err := unbegun.With(at(1), c); !errors.As(err, &invalid) || invalid.Field != "workflow" {
			t.Errorf("%s before the beginning gave %v, want an InvalidError for the workflow", c.Kind(), err)
		}
	}
	for _, c := range []session.Change{
		session.WorkflowBegun{Spec: json.RawMessage("1"), Runtime: json.RawMessage("1")},
		session.TranscriptCleared{},
		session.UnitStarted{},
		session.UnitAdvanced{Unit: "step/0", Change: session.ExecutionContinued{}},
		session.UnitAdvanced{Unit: "step/0"},
	} {
		if _, err := flow(t).With(at(3), c); !errors.As(err, &invalid) {
			t.Errorf("%s gave %v, want an InvalidError", c.Kind(), err)
		}
	}
}

func TestWorkflow_documentsForksAndCopiesKeepTheLedger(t *testing.T) {
	t.Parallel()
	s := session.Seal(advanced(t, flow(t), append(unit("step/0"), session.QuestionPut{Question: session.Question{Unit: "step/1", Prompt: "Good?", Default: ptr("y")}})...), at(9))
	raw := document(t, s)
	decoded, err := session.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, "the document read and written", document(t, decoded), raw)
	if len(decoded.Ledger()) != s.Workflow().Entries || decoded.Partial() {
		t.Errorf("the document has %d of %d changes, partial %t", len(decoded.Ledger()), s.Workflow().Entries, decoded.Partial())
	}
	fork, err := s.Fork("run-9", "agent-9", at(10))
	if err != nil {
		t.Fatal(err)
	}
	if row := fork.Info().Workflow; row == nil || row.Status != "running" {
		t.Errorf("the fork's row is %+v", row)
	}
	rooted, err := session.Detach(fork)
	if err != nil {
		t.Fatal(err)
	}
	sameLedger(t, rooted, s)
	used, _ := rooted.Usage()
	if w := rooted.Workflow(); w.Agents["writer"] != s.Workflow().Agents["writer"] || used.Total() != 5 || w.Units != 1 || len(rooted.PendingCalls()) != 1 {
		t.Errorf("the copy's head is %+v, used %+v", w, used)
	}
	head, err := session.EncodeHead(s)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := session.DecodeHead(head, s.Messages())
	if err != nil || !bare.Partial() || len(bare.Ledger()) != 0 {
		t.Fatalf("a head has %d changes, partial %t (%v)", len(bare.Ledger()), bare.Partial(), err)
	}
	filled, err := session.AttachLedger(bare, s.Ledger())
	if err != nil || filled.Partial() {
		t.Fatalf("the head with its ledger is partial: %v", err)
	}
	sameBytes(t, "the head with its ledger", document(t, filled), raw)
	var invalid *session.InvalidError
	if _, err := session.AttachLedger(bare, append(s.Ledger(), s.Ledger()...)); !errors.As(err, &invalid) {
		t.Errorf("a ledger twice gave %v, want an InvalidError", err)
	}
}

func sameLedger(t *testing.T, have, want session.Session) {
	t.Helper()
	a, b := have.Ledger(), want.Ledger()
	if len(a) != len(b) {
		t.Fatalf("%d changes, want %d", len(a), len(b))
	}
	for i := range a {
		x, errX := json.Marshal(a[i].Change)
		y, errY := json.Marshal(b[i].Change)
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			t.Errorf("change %d is %s, want %s (%v, %v)", i, x, y, errX, errY)
		}
	}
}

// Any order of a run's changes that is accepted folds to the same session as
// its log, and its document reads back.
func TestWorkflow_logFoldsToTheSameRun(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		s := flow(t)
		start := s
		var records []session.Record
		for range t.Repeat(0, 12) {
			next, err := s.With(moment().Draw(t, "at"), workflowChange(t))
			if err != nil {
				continue
			}
			s = next
		}
		records = session.Unsaved(s)
		folded, err := session.FoldFrom(start, records)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := document(t, s), document(t, folded); !bytes.Equal(a, b) {
			t.Fatalf("the fold differs:\n%s\n%s", a, b)
		}
		sealed := session.Seal(s, at(20))
		again, err := session.Decode(document(t, sealed))
		if err != nil {
			t.Fatal(err)
		}
		if a, b := document(t, sealed), document(t, again); !bytes.Equal(a, b) {
			t.Fatalf("the document differs:\n%s\n%s", a, b)
		}
	})
}

func workflowChange(t *property.T) session.Change {
	key := property.SampledFrom([]string{"step/0", "branch/é/step/1", "bad\xff", ""}).Draw(t, "unit")
	agent := name().Draw(t, "agent")
	seconds := property.Float64Range(0, 1e6).Draw(t, "seconds")
	switch property.IntRange(0, 10).Draw(t, "kind") {
	case 0:
		return session.UnitStarted{Unit: key, Lane: text().Draw(t, "lane"), Agent: agent, System: optional(text()).Draw(t, "system")}
	case 1:
		return session.UnitAdvanced{Unit: key, Agent: agent, Estimated: property.Bool().Draw(t, "estimated"), Change: session.InferenceAnswered{
			StepID: "s", StartedAt: moment().Draw(t, "started"), Usage: usage().Draw(t, "usage"), Cost: cost().Draw(t, "cost"), ActiveSeconds: seconds,
		}}
	case 2:
		return session.UnitAdvanced{Unit: key, Agent: agent, Change: session.ToolFinished{StepID: "s", CallID: text().Draw(t, "call")}}
	case 3:
		return session.UnitFinished{Unit: key, Agent: agent, Result: jsonValue().Draw(t, "result"), Note: text().Draw(t, "note"), Seconds: seconds}
	case 4:
		return session.UnitFailed{Unit: key, Agent: agent, Error: session.Failure{Kind: text().Draw(t, "failure"), Message: text().Draw(t, "message")}}
	case 5:
		return session.QuestionPut{Question: session.Question{
			Unit: key, Prompt: text().Draw(t, "prompt"), Default: optional(text()).Draw(t, "default"), TimeoutAt: optional(moment()).Draw(t, "timeout"),
		}}
	case 6:
		return session.QuestionAnswered{Unit: key, Response: text().Draw(t, "response")}
	case 7:
		return session.ArtifactWritten{Path: text().Draw(t, "path"), SHA256: text().Draw(t, "sum")}
	case 9:
		return session.UnitsReset{Units: []string{key, "step/0"}, Finished: property.IntRange(0, 2).Draw(t, "finished")}
	case 8:
		return session.WorkflowSpecChanged{Spec: jsonValue().Draw(t, "spec"), Runtime: jsonValue().Draw(t, "runtime")}
	}
	return session.MessageAdded{Message: message("m").Draw(t, "message")}
}

// Heads that are older than pending calls hold their open questions themselves.
func TestWorkflow_oldHeadsKeepTheirQuestions(t *testing.T) {
	t.Parallel()
	s := session.Seal(advanced(t, flow(t), unit("step/0")...), at(9))
	old := strings.Replace(string(document(t, s)), `"specSeq":`,
		`"questions":[{"unit":"step/1","prompt":"Good?","context":"A draft.","default":"y","timeoutAt":null}],"specSeq":`, 1)
	read, err := session.Decode([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	asked, waits := read.PendingCall("step/1")
	if !waits || asked.Prompt != "Good?" || asked.Context != "A draft." || *asked.Default != "y" || !asked.BySpec() || read.Info().Pending != 1 {
		t.Errorf("the question is %+v, and %d wait", asked, read.Info().Pending)
	}
	again, err := session.Decode(document(t, read))
	if err != nil || len(again.PendingCalls()) != 1 {
		t.Errorf("written and read again %d wait (%v)", len(again.PendingCalls()), err)
	}
	answered := advanced(t, again, session.CallResponded{Unit: "step/1", Response: session.Response{PendingID: "step/1", Action: session.RespondAnswer}})
	if w := answered.Workflow(); answered.Info().Pending != 0 || w.Units != 2 || w.Last != "step/1" {
		t.Errorf("after the answer the run is %+v", w)
	}
	if _, err := session.Decode([]byte(strings.Replace(old, `"questions"`, `"queries"`, 1))); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("an unknown field of the head gave %v", err)
	}
}

// A key that an inbox would not take has an id that it takes.
func TestQuestionID_fitsAnInbox(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 400)
	for unit, plain := range map[string]bool{"step/1": true, "node/wähle@2": true, long: false, "node/a\u0007b@1": false} {
		id := session.QuestionID(unit)
		if (id == unit) != plain || len(id) > 200 || strings.ContainsFunc(id, unicode.IsControl) {
			t.Errorf("the id at %.20q is %q", unit, id)
		}
	}
	if session.QuestionID(long) == session.QuestionID(long+"x") {
		t.Error("two units have one id")
	}
}

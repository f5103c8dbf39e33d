package workflow_test

import (
	"strings"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/workflow"
)

// past is what was done in a run elsewhere, by unit.
type past struct {
	units   map[string]workflow.UnitRecord
	answers map[string]string
	reached []string
}

func (p *past) Unit(u workflow.Unit) workflow.UnitRecord {
	p.reached = append(p.reached, u.Key)
	return p.units[u.Key]
}

func (p *past) Question(q workflow.HITLState) (workflow.HITLState, bool) {
	p.reached = append(p.reached, q.Unit+" "+q.Prompt)
	answer, ok := p.answers[q.Unit]
	if !ok {
		return workflow.HITLState{}, false
	}
	q.UserResponse = &answer
	return q, true
}

func TestRecorder_resumeRepeatsNothingThatIsRecorded(t *testing.T) {
	t.Parallel()
	s := load(t, `
version: 1
name: recorded
runtime: {provider: scripted, model_id: m}
agents: {a: {prompt: A.}, b: {prompt: B.}}
pattern: {type: chain, config: {steps: [{agent: a, input: x}, {type: hitl, prompt: "after {{ steps[0].response }}?", timeout_seconds: 60},
  {agent: a, input: "{{ hitl_response }}"}, {agent: b, input: "z"}]}}
`, nil)
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	begun, err := workflow.Beginning(s, snap, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2025, 11, 9, 10, 0, 0, 0, time.UTC)
	v, err := session.New(session.Identity{ID: "r", AgentID: "agent", Kind: session.KindWorkflow}, workflow.Definition(s), session.Seed{}, at)
	if err == nil {
		v, err = v.With(at, begun)
	}
	if err != nil {
		t.Fatal(err)
	}
	first, hidden := "first", []session.Message{{Role: session.RoleUser, Content: session.Text("x")}, {Role: session.RoleAssistant, Content: session.Text("first")}}
	p := &past{
		units: map[string]workflow.UnitRecord{
			"step/0": {Done: true, Response: &first, Messages: hidden},
			"step/2": {Messages: []session.Message{{Role: session.RoleUser, Content: session.Text("go, it said"), Unit: "step/2"}}},
		},
		answers: map[string]string{"step/1": "go"},
	}
	w, err := workflow.NewRecorder(v, at)
	if err != nil {
		t.Fatal(err)
	}
	if w.Replay(p) || w.Waits() {
		t.Error("the run has ended, or waits")
	}
	if got := strings.Join(p.reached, ", "); got != "step/0, step/1 after first?, step/2" {
		t.Errorf("the pattern reached %s", got)
	}
	w.AddArtifacts([]string{"/out/a.md", ""})
	w.SetUsage(map[string]workflow.AgentUse{"a": {Input: 5, Output: 6, Calls: 3}})
	if v, err = w.Finish(workflow.StatusRunning, ""); err != nil {
		t.Fatal(err)
	}
	a, rt := &actor{answer: echo}, runtime(t, inmem.New(inmem.Config{}))
	if _, err := rt.Import(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	st := projected(t, rt, "r", holdfast.Whole())
	if st.Agents["a"].Calls != 3 || st.Usage.Input != 5 || len(st.Artifacts) != 1 || !strings.Contains(patternJSON(t, st), `"hitl_timeout_at":"2025-11-09T10:01:00+00:00"`) {
		t.Errorf("the state is %+v", st)
	}
	res, err := workflow.Resume(t.Context(), rt, "r", workflow.ResumeOptions{Host: host(a), Out: t.TempDir()})
	if err != nil || res.LastResponse != "re: z" {
		t.Fatalf("the run ended as %+v (%v)", res, err)
	}
	if got := strings.Join(a.inputs(), "|"); got != "go, it said|z" {
		t.Errorf("the models were asked %s", got)
	}
	if got := a.shown(t, "go, it said"); got != "user:go, it said" {
		t.Errorf("the model was shown %s", got)
	}
}

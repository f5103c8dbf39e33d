package workflow_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

const adoptHead = `
version: 1
name: adopted
runtime: {provider: scripted, model_id: m, failure_policy: {retries: 0, wait_min: 0, wait_max: 0}}
agents: {a: {prompt: A.}, b: {prompt: B.}, r: {prompt: R.}, j: {prompt: J.}}
`

// foreign is a run as another program left it.
func foreign(t *testing.T, text, pattern string, talks ...workflow.Talk) workflow.Foreign {
	t.Helper()
	snap, err := load(t, adoptHead+text, nil).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2025, 11, 9, 10, 0, 0, 0, time.UTC)
	return workflow.Foreign{
		Format: "test", Snapshot: snap, Pattern: json.RawMessage(pattern), Status: workflow.StatusRunning,
		CreatedAt: at, UpdatedAt: at.Add(time.Minute), Talks: talks,
	}
}

func adopted(t *testing.T, rt *holdfast.Runtime, f workflow.Foreign) (id string, notes []string) {
	t.Helper()
	s, notes, err := workflow.Adopted(session.Birth{ID: workflow.NewSessionID(), AgentID: "agent"}, f)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = rt.Import(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s.ID(), notes
}

// spoken is what was said, turn by turn.
func spoken(texts ...string) []session.Message {
	var list []session.Message
	for i, text := range texts {
		m := session.Message{Role: session.RoleUser, Content: session.Text(text)}
		if i%2 == 1 {
			m.Role = session.RoleAssistant
		}
		list = append(list, m)
	}
	return list
}

// clerk routes to y, is content with the second draft, and repeats the rest.
func clerk(r llm.Request) (llm.Response, error) {
	switch {
	case strings.HasPrefix(r.System, "R."):
		return said(`{"route": "y"}`), nil
	case strings.HasPrefix(r.System, "J."):
		return said(`{"score": 90}`), nil
	}
	return echo(r)
}

const loopSpec = `
pattern: {type: graph, config: {nodes: {one: {agent: a, input: one}, two: {agent: b, input: two}, three: {agent: a, input: "{{ nodes.two.response }}"}},
  edges: [{from: one, choose: [{when: "{{ nodes.one.response == 'on' }}", to: two}, {when: else, to: three}]}, {from: two, to: [one]}]}}`

func TestAdopted_goesOnWithoutRepeatingWhatIsRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec, state string
		talks       []workflow.Talk
		answer      string
		asked       string // what the models are asked from then on
		last        string
		note        string
	}{
		"chain": {
			spec:  `pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: b, input: "{{ steps[0].response }}"}]}}`,
			state: `{"current_step": 1, "step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2}]}`,
			asked: "first", last: "re: first",
		},
		"a chain killed while it asked": {
			spec:  `pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: a, input: "y"}, {agent: a, input: "z"}]}}`,
			state: `{"current_step": 1, "step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2}]}`,
			talks: []workflow.Talk{{Agent: "a", Lane: workflow.LaneMain, Messages: spoken("x", "first", "y")}},
			asked: "y|z", last: "re: z",
		},
		"an answer that was not recorded any more": {
			spec:  `pattern: {type: chain, config: {steps: [{agent: a, input: x}]}}`,
			state: `{}`, talks: []workflow.Talk{{Agent: "a", Lane: workflow.LaneMain, Messages: spoken("x", "first")}},
			asked: "", last: "first",
		},
		"workflow": {
			spec: `pattern: {type: workflow, config: {tasks: [{id: one, agent: a, input: x}, {id: two, agent: b, input: y},
  {id: three, agent: b, input: "{{ tasks.one.response }}", deps: [one, two]}]}}`,
			state: `{"task_results": {"one": {"response": "1", "status": "success", "tokens_estimated": 2, "agent": "a"}}, "completed_tasks": ["one"]}`,
			asked: "y|1", last: "re: 1",
		},
		"routing": {
			spec: `pattern: {type: routing, config: {router: {agent: r, input: "?"}, routes: {x: {then: [{agent: a, input: x}]}, y: {then: [{agent: b, input: y}]}}}}`,
			state: `{"router_executed": true, "chosen_route": "x", "router_decision": {"chosen_route": "x", "response": "x it is"},
  "route_state": {"current_step": 0, "step_history": []}}`,
			asked: "x", last: "re: x",
		},
		"a route that was lost": {
			spec: `pattern: {type: routing, config: {router: {agent: r, input: "?"}, routes: {x: {then: [{agent: a, input: x}]},
  y: {then: [{agent: b, input: y}, {agent: a, input: "{{ steps[0].response }}"}]}}}}`,
			state: `{"current_step": 1, "step_history": [{"index": 0, "agent": "b", "response": "done", "tokens_estimated": 2}]}`,
			asked: "?…|done", last: "re: done", note: "the router is asked again",
		},
		"parallel": {
			spec: `pattern: {type: parallel, config: {branches: [{id: p, steps: [{agent: a, input: x}, {type: hitl, prompt: "ok?"}, {agent: a, input: "{{ hitl_response }}"}]},
  {id: q, steps: [{agent: b, input: y}]}], reduce: {agent: b, input: "{{ branches.p.response }}"}}}`,
			state: `{"current_step": 1, "hitl_state": {"active": true, "step_index": 1, "branch_id": "p", "step_type": "branch", "prompt": "really?", "context_display": ""},
  "completed_branches": ["q"], "branch_results": {"q": {"response": "Q", "status": "success", "tokens_estimated": 2,
    "step_history": [{"index": 0, "agent": "b", "response": "Q", "tokens_estimated": 2}]}},
  "branch_states": {"p": {"step_history": [{"index": 0, "agent": "a", "response": "P", "tokens_estimated": 2}], "current_step": 1, "cumulative_tokens": 2}}, "reduce_executed": false}`,
			answer: "go", asked: "go|re: go", last: "re: re: go",
		},
		"a reduction that is done": {
			spec: `pattern: {type: parallel, config: {branches: [{id: p, steps: [{agent: a, input: x}]}, {id: q, steps: [{agent: b, input: y}]}], reduce: {agent: b, input: z}}}`,
			state: `{"completed_branches": ["p", "q"], "branch_results": {"p": {"response": "P"}, "q": {"response": "Q"}}, "reduce_executed": true,
  "final_response": "all", "branch_states": {}}`,
			asked: "", last: "all",
		},
		"a revision that is due": {
			spec: `pattern: {type: evaluator_optimizer, config: {producer: a, evaluator: {agent: j, input: "J {{ draft }}"}, accept: {min_score: 80}, revise_prompt: "again {{ iteration }}"}}`,
			state: `{"current_iteration": 1, "current_draft": "d1", "iteration_history": [{"iteration": 1, "score": 40, "issues": ["i"], "fixes": [], "draft": "d1"}],
  "final_score": 0, "accepted": false}`,
			asked: "again 2|J re: again 2", last: "re: again 2",
		},
		"a draft that was revised": {
			spec: `pattern: {type: evaluator_optimizer, config: {producer: a, evaluator: {agent: j, input: "J {{ draft }}"}, accept: {min_score: 80}}}`,
			state: `{"current_iteration": 1, "current_draft": "d2", "iteration_history": [{"iteration": 1, "score": 40, "issues": ["i"], "fixes": [], "draft": "d1"}],
  "final_score": 0, "accepted": false}`,
			asked: "J d2", last: "d2",
		},
		"orchestrator": {
			spec: `pattern: {type: orchestrator_workers, config: {orchestrator: {agent: r, limits: {}}, worker_template: {agent: a},
  reduce: {agent: b, input: x}, writeup: {agent: b, input: "{{ reduce_response }} of {{ workers[0].response }}"}}}`,
			state: `{"workers_executed": true, "worker_results": [{"response": "W", "status": "success", "tokens": 3, "task": "t"}], "reduce_executed": true,
  "reduce_response": "R", "writeup_executed": false}`,
			asked: "R of W", last: "re: R of W",
		},
		"a graph in circles": {
			spec: loopSpec,
			state: `{"current_node": "one", "node_results": {"one": {"response": "off", "agent": "a", "status": "success", "iteration": 2},
    "two": {"response": "2", "agent": "b", "status": "success", "iteration": 1}}, "iteration_counts": {"one": 2, "two": 1}, "total_steps": 3,
  "execution_path": ["one", "two", "one"]}`,
			asked: "2", last: "re: 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, rt := &actor{answer: clerk}, runtime(t, inmem.New(inmem.Config{}))
			id, notes := adopted(t, rt, foreign(t, c.spec, c.state, c.talks...))
			if got := strings.Join(notes, "; "); (c.note == "") != (got == "") || !strings.Contains(got, c.note) {
				t.Errorf("the notes are %q, want %q", got, c.note)
			}
			o := workflow.ResumeOptions{Host: host(a), Out: t.TempDir()}
			if c.answer != "" {
				o.Answer = &c.answer
			}
			res, err := workflow.Resume(t.Context(), rt, id, o)
			if err != nil || res.Status != workflow.StatusCompleted || res.LastResponse != c.last {
				t.Fatalf("the run ended as %+v (%v), want %q", res, err, c.last)
			}
			var asked []string
			for _, text := range a.inputs() {
				if first, _, long := strings.Cut(text, "\n"); long {
					text = first + "…"
				}
				asked = append(asked, text)
			}
			if got := strings.Join(asked, "|"); got != c.asked {
				t.Errorf("the models were asked %q, want %q", got, c.asked)
			}
		})
	}
}

func TestAdopted_whatWasAskedIsThereOnce(t *testing.T) {
	t.Parallel()
	a, rt := &actor{answer: echo}, runtime(t, inmem.New(inmem.Config{}))
	id, _ := adopted(t, rt, foreign(t,
		`pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: a, input: "y"}]}}`,
		`{"current_step": 1, "step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2}]}`,
		workflow.Talk{Agent: "a", Lane: workflow.LaneMain, Messages: append(spoken("x"), spoken("x", "first", "y")...)}))
	if _, err := workflow.Resume(t.Context(), rt, id, workflow.ResumeOptions{Host: host(a), Out: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if got := a.shown(t, "y"); got != "user:x|assistant:first|user:y" {
		t.Errorf("the model was shown %s", got)
	}
	if !strings.HasPrefix(a.asked[0].System, "A.") {
		t.Errorf("the model was told %q", a.asked[0].System)
	}
}

func TestAdopted_keepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	rt := runtime(t, inmem.New(inmem.Config{}))
	f := foreign(t, `pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: a, input: y}]}}`,
		`{"current_step": 1, "step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2}], "later": {"k": [1]}}`)
	f.Usage = map[string]workflow.AgentUse{"a": {Input: 3, Output: 4, Calls: 2, Estimated: true}, "b": {Input: 1}}
	f.Artifacts, f.Error, f.Status = []string{"/out/a.md"}, "ProviderError: no", workflow.StatusFailed
	f.Variables = spec.Map[string]{{Name: "v", Value: "w"}}
	id, _ := adopted(t, rt, f)
	st := projected(t, rt, id, holdfast.Whole())
	later, _ := st.Pattern.Get("later")
	if raw, ok := later.(json.RawMessage); !ok || string(raw) != `{"k":[1]}` {
		t.Errorf("what nobody knows is %v", later)
	}
	if u := st.Usage; u.Input != 4 || u.Output != 4 || u.ByAgent["a"] != 7 || u.ByAgent["b"] != 1 || st.Agents["a"].Calls != 2 || !st.Agents["a"].Estimated {
		t.Errorf("it has used %+v, %+v", st.Usage, st.Agents)
	}
	m := st.Metadata
	if m.Status != workflow.StatusFailed || m.Error == nil || *m.Error != f.Error || m.CreatedAt != "2025-11-09T10:00:00+00:00" || len(st.Artifacts) != 1 || len(st.Variables) != 1 {
		t.Errorf("the state is %+v", st)
	}
}

func TestAdopt_refusesWhatContradictsTheLog(t *testing.T) {
	t.Parallel()
	const text = `pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: b, input: y}]}}`
	const one = `{"step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2}]}`
	f := foreign(t, text, one)
	s, _, err := workflow.Adopted(session.Birth{ID: "s", AgentID: "agent"}, f)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		state string
		fine  bool
		more  int // units
	}{
		"the same": {one, true, 1},
		"more": {`{"step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2},
  {"index": 1, "agent": "b", "response": "second", "tokens_estimated": 2}]}`, true, 2},
		"another answer": {`{"step_history": [{"index": 0, "agent": "a", "response": "other", "tokens_estimated": 2}]}`, false, 1},
		"less":           {`{"step_history": []}`, false, 1},
	} {
		f.Pattern = json.RawMessage(c.state)
		next, _, err := workflow.Adopt(s, f)
		if c.fine != (err == nil) || err != nil && !errors.Is(err, session.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && next.Workflow().Units != c.more {
			t.Errorf("%s: %d units", name, next.Workflow().Units)
		}
	}
}

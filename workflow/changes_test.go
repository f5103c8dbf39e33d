package workflow_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

// brokenAt is a scene in which the model fails at one input, once.
func brokenAt(t *testing.T, at string, answer func(llm.Request) (llm.Response, error)) *scene {
	t.Helper()
	broken := true
	return newScene(t, func(r llm.Request) (llm.Response, error) {
		if strings.HasPrefix(input(r), at) && broken {
			broken = false
			return llm.Response{}, errors.New("no")
		}
		return answer(r)
	})
}

const changingChain = `
description: one
runtime: {provider: scripted, model_id: m, failure_policy: {wait_min: 0, wait_max: 0}}
version: 1
name: Test run
inputs: {values: {topic: tea}}
agents: {a: {prompt: A}, b: {prompt: B}, c: {prompt: C}}
pattern: {type: chain, config: {steps: [{agent: a, input: "one {{ topic }}"}, {type: hitl, prompt: ask}, {agent: b, input: two}, {agent: b, input: three}]}}
outputs: {artifacts: [{path: o, from: x}]}
`

func TestChanges_ofAChain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, old, new, unit string }{
		{"finished input", `"one {{ topic }}"`, `"ONE {{ topic }}"`, "step/0"},
		{"finished agent", "{prompt: A}", "{prompt: AA}", "step/0"},
		{"tools of a finished agent", "{prompt: A}", "{prompt: A, tools: []}", "step/0"},
		{"model of a finished agent", "{prompt: A}", "{prompt: A, model_id: n}", "step/0"},
		{"inference of all", "model_id: m,", "model_id: m, temperature: 0.5,", "step/0"},
		{"variables of a finished step", `{agent: a, input: "one {{ topic }}"}`, `{agent: a, input: "one {{ topic }}", vars: {x: 1}}`, "step/0"},
		{"an input value", "topic: tea", "topic: coffee", "step/0"},
		{"an answered question", "prompt: ask", "prompt: other", "step/1"},
		{"the order", `{agent: a, input: "one {{ topic }}"}, {type: hitl, prompt: ask}`, `{type: hitl, prompt: ask}, {agent: a, input: "one {{ topic }}"}`, "step/0"},
		{"a step before", `{type: hitl, prompt: ask},`, `{agent: c, input: new}, {type: hitl, prompt: ask},`, "step/1"},

		{"what was begun and not answered", "input: two", "input: TWO", ""},
		{"agent of what was begun", "{prompt: B}", "{prompt: BB}", ""},
		{"what is to come", "input: three", "input: drei", ""},
		{"an agent nobody used", "{prompt: C}", "{prompt: CC}", ""},
		{"the description", "description: one", "description: two", ""},
		{"budgets", "model_id: m,", "model_id: m, budgets: {max_tokens: 1000},", ""},
		{"the policy", "wait_min: 0,", "wait_min: 0, retries: 1,", ""},
		{"outputs", "from: x", "from: y", ""},
		{"a step more", "{agent: b, input: three}", "{agent: b, input: three}, {agent: c, input: four}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := brokenAt(t, "two", echo)
			s.pauses("ask")(s.start(changingChain))
			s.fails(workflow.KindProvider, "step/2")(s.answer("y"))
			changed := strings.Replace(changingChain, c.old, c.new, 1)
			if changed == changingChain {
				t.Fatal("nothing has changed")
			}
			s.rewrite(changed)
			var refused *workflow.ChangedError
			if _, err := s.resume(workflow.ResumeOptions{Strict: true}); !errors.As(err, &refused) || !errors.Is(err, session.ErrConflict) || len(refused.Changes) < 2 {
				t.Fatalf("strictly: %v", err)
			}
			res, err := s.resume(workflow.ResumeOptions{AcceptChanges: true})
			if c.unit != "" {
				if !errors.As(err, &refused) || refused.Unit != c.unit {
					t.Errorf("%v, want %s to be affected", err, c.unit)
				}
				if st := s.state(); st.Metadata.Status != workflow.StatusFailed {
					t.Errorf("the run is %s", st.Metadata.Status)
				}
				// The snapshot is as good as before.
				s.completes("re: three")(s.resume(workflow.ResumeOptions{}))
				return
			}
			if err != nil || res.Status != workflow.StatusCompleted || len(res.Changed) != 0 {
				t.Fatalf("the run ended as %+v (%v)", res, err)
			}
			hash, err := workflow.SpecHash(s.path)
			if st := s.state(); err != nil || st.Metadata.SpecHash != hash {
				t.Errorf("the hash is %s, want %s", st.Metadata.SpecHash, hash)
			}
		})
	}
}

func TestChanges_aUnitThatWasBegunIsAskedWhatTheNewSpecSays(t *testing.T) {
	t.Parallel()
	s := brokenAt(t, "two", echo)
	s.pauses("ask")(s.start(changingChain))
	s.fails(workflow.KindProvider, "step/2")(s.answer("y"))
	s.rewrite(strings.NewReplacer("input: two", "input: TWO", "{prompt: B}", "{prompt: BB}").Replace(changingChain))
	s.completes("re: three")(s.resume(workflow.ResumeOptions{AcceptChanges: true}))
	s.wantInputs("one tea", "two", "TWO", "three")
	if got := s.shown(t, "three"); got != "user:TWO|assistant:re: TWO|user:three" {
		t.Errorf("the last step was shown %s", got)
	}
	if !strings.HasPrefix(s.asked[2].System, "BB\n") {
		t.Errorf("the agent was told %q", s.asked[2].System)
	}
}

func TestChanges_withoutLeaveTheRunGoesOnWithItsSnapshot(t *testing.T) {
	t.Parallel()
	s := brokenAt(t, "two", echo)
	s.pauses("ask")(s.start(changingChain))
	s.rewrite(strings.Replace(changingChain, "input: three", "input: drei", 1))
	s.fails(workflow.KindProvider, "step/2")(s.answer("y"))
	res, err := s.resume(workflow.ResumeOptions{})
	s.completes("re: three")(res, err)
	if strings.Join(res.Changed, " ") != "/pattern/config/steps/3/input "+s.path {
		t.Errorf("changed: %q", res.Changed)
	}
}

func TestChanges_anOpenQuestionIsPutAnew(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("ask")(s.start(changingChain))
	s.rewrite(strings.Replace(changingChain, "prompt: ask", `prompt: "better {{ steps[0].response }}?", default: d`, 1))
	res, err := s.resume(workflow.ResumeOptions{AcceptChanges: true})
	s.pauses("better re: one tea?")(res, err)
	if res.Question.DefaultResponse == nil || *res.Question.DefaultResponse != "d" {
		t.Errorf("the question is %+v", res.Question)
	}
	s.completes("re: three")(s.answer("y"))
}

func TestChanges_aSpecThatCannotBeRunIsNotTaken(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("ask")(s.start(changingChain))
	for _, bad := range []string{
		strings.Replace(changingChain, "{agent: b, input: three}", "{agent: nobody, input: three}", 1), "not: a spec",
		strings.Replace(changingChain, "values: {topic: tea}", "values: {topic: tea}, required: {more: string}", 1),
	} {
		s.rewrite(bad)
		if _, err := s.resume(workflow.ResumeOptions{AcceptChanges: true}); err == nil {
			t.Error("it was taken")
		}
		s.pauses("ask")(s.resume(workflow.ResumeOptions{}))
	}
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	s.completes("re: three")(s.answer("y"))
}

func TestChanges_ofFilesTheSpecRefersTo(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	text := strings.Replace(changingChain, "agents: {a: {prompt: A}", "agents: {a: {$ref: a.yaml}", 1)
	s.path = written(t, text)
	agent := filepath.Join(filepath.Dir(s.path), "a.yaml")
	if err := os.WriteFile(agent, []byte("prompt: A"), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := workflow.Load(s.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := workflow.Start(t.Context(), s.rt, loaded, workflow.RunOptions{Host: s.host, Out: s.out})
	s.pauses("ask")(res, err)
	s.id = res.SessionID
	if err := os.WriteFile(agent, []byte("prompt: AA"), 0o600); err != nil {
		t.Fatal(err)
	}
	var refused *workflow.ChangedError
	if _, err := s.resume(workflow.ResumeOptions{Strict: true}); !errors.As(err, &refused) {
		t.Errorf("strictly: %v", err)
	}
	if _, err := s.resume(workflow.ResumeOptions{AcceptChanges: true}); !errors.As(err, &refused) || refused.Unit != "step/0" {
		t.Errorf("accepted: %v", err)
	}
	if err := os.Remove(agent); err != nil {
		t.Fatal(err)
	}
	s.completes("re: three")(s.answer("y"))
}

// stuck runs a spec up to where it waits for the answer "later".
func stuck(t *testing.T, text string, answer func(llm.Request) (llm.Response, error)) *scene {
	t.Helper()
	s := newScene(t, answer)
	s.pauses("later")(s.start(text))
	return s
}

func TestChanges_ofEveryPattern(t *testing.T) {
	t.Parallel()
	dag := head + `
agents: {a: {prompt: A}, b: {prompt: B}}
pattern: {type: workflow, config: {tasks: [{id: x, agent: a, input: x}, {id: q, type: hitl, prompt: later, deps: [x]}, {id: y, agent: b, input: y, deps: [q]}]}}
`
	par := head + `
agents: {a: {prompt: A}, b: {prompt: B}}
pattern: {type: parallel, config: {branches: [{id: x, steps: [{agent: a, input: x}]}, {id: y, steps: [{type: hitl, prompt: later}, {agent: b, input: y}]}], reduce: {agent: b, input: r}}}
`
	route := head + `
agents: {r: {prompt: R}, a: {prompt: A}, b: {prompt: B}}
pattern: {type: routing, config: {router: {agent: r, input: go}, routes: {one: {then: [{agent: a, input: x}, {type: hitl, prompt: later}, {agent: b, input: y}]}, two: {then: [{agent: b, input: z}]}}}}
`
	eval := head + `
agents: {m: {prompt: M}, j: {prompt: J}}
pattern: {type: evaluator_optimizer, config: {producer: m, evaluator: {agent: j, input: "{{ draft }}"}, accept: {min_score: 50, max_iters: 2}, review_gate: {type: hitl, prompt: later}, revise_prompt: better}}
`
	orch := head + `
agents: {p: {prompt: P}, w: {prompt: W}, b: {prompt: B}}
pattern: {type: orchestrator_workers, config: {orchestrator: {agent: p, limits: {max_workers: 2}}, worker_template: {agent: w}, reduce: {type: hitl, prompt: later}, writeup: {agent: b, input: y}}}
`
	graph := head + `
agents: {a: {prompt: A}, b: {prompt: B}}
pattern: {type: graph, config: {nodes: {s: {agent: a, input: x}, q: {type: hitl, prompt: later}, e: {agent: b, input: y}}, edges: [{from: s, choose: [{when: "nodes.s.response == 'one'", to: q}, {when: else, to: e}]}, {from: q, to: [e]}]}}
`
	play := func() func(llm.Request) (llm.Response, error) {
		return lines(map[string][]string{
			"a": {"one"}, "b": {"end"}, "r": {`{"route": "one"}`}, "m": {"draft", "better"}, "j": {`{"score": 1}`, `{"score": 99}`}, "p": {`[{"task": "t"}]`}, "w": {"worked"},
		})
	}
	for _, c := range []struct{ name, text, old, new, unit string }{
		{"task done", dag, "input: x", "input: X", "task/x"},
		{"task to come", dag, "input: y", "input: Y", ""},
		{"task renamed", dag, "{id: x, agent: a, input: x}, {id: q, type: hitl, prompt: later, deps: [x]}", "{id: z, agent: a, input: x}, {id: q, type: hitl, prompt: later, deps: [z]}", "task/x"},
		{"task in another layer", dag, "deps: [q]}", "deps: [q]}, {id: z, agent: b, input: z}", ""},
		{"branch done", par, "{agent: a, input: x}", "{agent: b, input: x}", "branch/x/step/0"},
		{"branch longer", par, "{agent: a, input: x}", "{agent: a, input: x}, {agent: b, input: z}", ""},
		{"reduce to come", par, "input: r", "input: R", ""},
		{"branch more", par, "{id: x,", "{id: w, steps: [{agent: b, input: w}]}, {id: x,", ""},
		{"router", route, "input: go", "input: GO", "router#0"},
		{"route done", route, "input: x", "input: X", "route/one/step/0"},
		{"route not taken", route, "input: z", "input: Z", ""},
		{"route gone", route, "{one:", "{three:", "route/one/step/0"},
		{"producer", eval, "{prompt: M}", "{prompt: MM}", "draft"},
		{"judge", eval, `"{{ draft }}"`, `"J {{ draft }}"`, "eval/2#0"},
		{"revision to come", eval, "better", "best", ""},
		{"more iterations", eval, "max_iters: 2", "max_iters: 5", ""},
		{"planner", orch, "{prompt: P}", "{prompt: PP}", "plan#0"},
		{"worker", orch, "{prompt: W}", "{prompt: WW}", "worker/0"},
		{"limits", orch, "max_workers: 2", "max_workers: 9", ""},
		{"writeup to come", orch, "input: y", "input: Y", ""},
		{"node done", graph, "input: x", "input: X", "node/s@1"},
		{"node to come", graph, "input: y", "input: Y", ""},
		{"same way by another condition", graph, "== 'one'", "!= 'two'", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := stuck(t, c.text, play())
			calls := s.calls()
			s.rewrite(strings.Replace(c.text, c.old, c.new, 1))
			_, err := s.resume(workflow.ResumeOptions{AcceptChanges: true})
			var refused *workflow.ChangedError
			switch {
			case c.unit == "" && err != nil:
				t.Fatal(err)
			case c.unit != "" && (!errors.As(err, &refused) || refused.Unit != c.unit || s.calls() != calls):
				t.Fatalf("%v, want %s to be affected", err, c.unit)
			}
			res, err := s.answer("go")
			if err != nil || res.Status != workflow.StatusCompleted {
				t.Errorf("the run ended as %+v (%v)", res, err)
			}
		})
	}
}

func TestChanges_aGraphThatWouldHaveGoneAnotherWay(t *testing.T) {
	t.Parallel()
	text := head + `
agents: {a: {prompt: A}}
pattern: {type: graph, config: {nodes: {s: {agent: a, input: s}, l: {agent: a, input: l}, r: {agent: a, input: r}, q: {type: hitl, prompt: later}}, edges: [{from: s, choose: [{when: "'s' in nodes.s.response", to: l}, {when: else, to: r}]}, {from: l, to: [q]}, {from: r, to: [q]}]}}
`
	s := stuck(t, text, echo)
	s.rewrite(strings.Replace(text, "'s' in", "'z' in", 1))
	var refused *workflow.ChangedError
	if _, err := s.resume(workflow.ResumeOptions{AcceptChanges: true}); !errors.As(err, &refused) || refused.Unit != "node/l@1" {
		t.Errorf("accepted: %v", err)
	}
}

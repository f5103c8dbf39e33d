package strands_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

const foreignHead = `
version: 1
name: adopted
runtime: {provider: scripted, model_id: m, failure_policy: {retries: 0, wait_min: 0, wait_max: 0}}
agents: {a: {prompt: A.}, b: {prompt: B.}, r: {prompt: R.}, j: {prompt: J.}}
`

// foreignDir is the directory of a run as the other program left it. Said is what
// agent a heard and answered, in turns.
func foreignDir(t *testing.T, dir, text, pattern string, said ...string) strands.Dir {
	t.Helper()
	d, data := dirOf(dir), []byte(foreignHead+text)
	s := strands.State{
		Metadata: strands.Metadata{SessionID: id, WorkflowName: "adopted", SpecHash: spec.Hash(data), PatternType: "any", Status: workflow.StatusRunning,
			CreatedAt: at(0), UpdatedAt: at(60)},
		RuntimeConfig: strands.RuntimeConfig{Provider: "scripted", ModelID: ptr("m")},
		Pattern:       object(t, pattern),
	}
	if err := d.Save(s, data); err != nil {
		t.Fatal(err)
	}
	if len(said) == 0 {
		return d
	}
	c := strands.Conversation{Place: strands.Place{Agent: "a"}, Agent: strands.NewAgent(false, at(1))}
	for i, text := range said {
		role, text, _ := strings.Cut(text, ":")
		c.Messages = append(c.Messages, message(t, i, role, `{"text":`+quote(text)+`}`))
	}
	if err := d.SaveConversation(id, c, nil); err != nil {
		t.Fatal(err)
	}
	return d
}

// importDir imports a directory and checks that it is left as it was.
func importDir(t *testing.T, d strands.Dir) (b begun, notes []string) {
	t.Helper()
	b = begun{rt: newRuntime(t, nil), out: t.TempDir()}
	before := listing(t, d)
	var err error
	if b.id, notes, err = strands.Import(t.Context(), b.rt, d, strands.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if after := listing(t, d); after != before {
		t.Errorf("the import changed the directory from\n%s\nto\n%s", before, after)
	}
	return b, notes
}

// listing names every file with its mode, time and content.
func listing(t *testing.T, d strands.Dir) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(string(d), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		all.WriteString(path + " " + info.Mode().String() + " " + info.ModTime().String() + "\n")
		if !e.IsDir() {
			all.WriteString(get(t, path) + "\n")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// clerk routes to y, is content with every draft, and repeats the rest.
type clerk struct {
	mu    sync.Mutex
	asked []llm.Request
}

func (c *clerk) Infer(_ context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r)
	text := "re: " + r.Messages[len(r.Messages)-1].Content.Text()
	switch {
	case strings.HasPrefix(r.System, "R."):
		text = `{"route": "y"}`
	case strings.HasPrefix(r.System, "J."):
		text = `{"score": 90}`
	}
	return llm.Response{Content: session.Text(text), FinishReason: "stop"}, nil
}

func (c *clerk) host() workflow.Host {
	h := host(&actor{})
	h.Models = func(spec.Model) (string, llm.Model, error) { return "scripted/m", c, nil }
	return h
}

const loopSpec = `
pattern: {type: graph, config: {nodes: {one: {agent: a, input: one}, two: {agent: b, input: two}, three: {agent: a, input: "{{ nodes.two.response }}"}},
  edges: [{from: one, choose: [{when: "{{ nodes.one.response == 'on' }}", to: two}, {when: else, to: three}]}, {from: two, to: [one]}]}}`

func TestImport_goesOnWithoutRepeatingWhatIsRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec, state string
		said        []string
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
			said:  []string{"user:x", "assistant:first", "user:y"},
			asked: "y|z", last: "re: z",
		},
		"an answer that was not recorded any more": {
			spec:  `pattern: {type: chain, config: {steps: [{agent: a, input: x}]}}`,
			state: `{}`, said: []string{"user:x", "assistant:first"},
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
		"a route that waits for its review": {
			spec: `pattern: {type: routing, config: {router: {agent: r, input: "?", review_router: {type: hitl, prompt: "so?"}},
  routes: {x: {then: [{agent: a, input: x}]}, y: {then: [{agent: b, input: y}]}}}}`,
			state: `{"router_decision": {"chosen_route": "x", "response": "x it is"},
  "hitl_state": {"active": true, "router_review": true, "prompt": "is x right?", "context_display": ""}}`,
			answer: "approved", asked: "x", last: "re: x",
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
			a := &clerk{}
			b, notes := importDir(t, foreignDir(t, t.TempDir(), c.spec, c.state, c.said...))
			if got := strings.Join(notes, "; "); (c.note == "") != (got == "") || !strings.Contains(got, c.note) {
				t.Errorf("the notes are %q, want %q", got, c.note)
			}
			o := workflow.ResumeOptions{Host: a.host(), Out: b.out}
			if c.answer != "" {
				o.Answer = &c.answer
			}
			res, err := workflow.Resume(t.Context(), b.rt, b.id, o)
			if err != nil || res.Status != workflow.StatusCompleted || res.LastResponse != c.last {
				t.Fatalf("the run ended as %+v (%v), want %q", res, err, c.last)
			}
			var asked []string
			for _, r := range a.asked {
				text := r.Messages[len(r.Messages)-1].Content.Text()
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

func TestImport_whatWasAskedIsThereOnce(t *testing.T) {
	t.Parallel()
	a := &clerk{}
	b, _ := importDir(t, foreignDir(t, t.TempDir(),
		`pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: a, input: "y"}]}}`,
		`{"current_step": 1, "step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2}]}`,
		"user:x", "user:x", "assistant:first", "user:y"))
	if _, err := workflow.Resume(t.Context(), b.rt, b.id, workflow.ResumeOptions{Host: a.host(), Out: b.out}); err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, m := range a.asked[0].Messages {
		shown = append(shown, string(m.Role)+":"+m.Content.Text())
	}
	if got := strings.Join(shown, "|"); len(a.asked) != 1 || got != "user:x|assistant:first|user:y" {
		t.Errorf("the model was shown %s", got)
	}
	if !strings.HasPrefix(a.asked[0].System, "A.") {
		t.Errorf("the model was told %q", a.asked[0].System)
	}
}

// What the model is shown goes by units: one is shown whole, summarised or not at
// all, whatever the other program removed.
func TestImport_whatTheModelIsShown(t *testing.T) {
	t.Parallel()
	call := func(id string) string {
		return `{"toolUse":{"toolUseId":"` + id + `","name":"look","input":{"at":"x"}}}`
	}
	for name, c := range map[string]struct {
		removed int
		summary string
		want    string
	}{
		"whole":          {0, "", "user:x assistant: tool:a:look assistant:one user:y assistant: tool:b:look"},
		"a part removed": {2, "", "user:x assistant: tool:a:look assistant:one user:y assistant: tool:b:look"},
		"a unit removed": {4, "", "user:y assistant: tool:b:look"},
		"summarised":     {4, "Before", "user:Summary of what was said before:\nBefore user:y assistant: tool:b:look"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := foreignDir(t, t.TempDir(), `pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: a, input: "y"}]}}`,
				`{"current_step": 1, "step_history": [{"index": 0, "agent": "a", "response": "one", "tokens_estimated": 2}]}`)
			conversation := strands.Conversation{Place: strands.Place{Agent: "a"}, Agent: strands.NewAgent(true, at(9)), Messages: []strands.Message{
				message(t, 0, "user", `{"text":"x"}`),
				message(t, 1, "assistant", call("a")),
				message(t, 2, "user", `{"toolResult":{"toolUseId":"a","status":"success","content":[{"text":"r"}]}}`),
				message(t, 3, "assistant", `{"text":"one"}`),
				message(t, 4, "user", `{"text":"y"}`),
				message(t, 5, "assistant", call("b")), // killed before the tool ran
			}}
			var summary *strands.Body
			if c.summary != "" {
				summary = &strands.Body{Role: "user", Content: objects(t, `{"text":"`+c.summary+`"}`)}
			}
			if err := errors.Join(conversation.Agent.SetRemoved(c.removed, summary), d.SaveConversation(id, conversation, nil)); err != nil {
				t.Fatal(err)
			}
			b, _ := importDir(t, d)
			a := &clerk{}
			if _, err := workflow.Resume(t.Context(), b.rt, b.id, workflow.ResumeOptions{Host: a.host(), Out: b.out}); err != nil {
				t.Fatal(err)
			}
			var words []string
			for _, m := range a.asked[0].Messages {
				word := string(m.Role) + ":" + m.Content.Text()
				if r := m.ToolResult; r != nil {
					word = "tool:" + r.CallID + ":" + r.ToolName
				}
				words = append(words, word)
			}
			if got := strings.Join(words, " "); got != c.want || len(a.asked) != 1 || session.ValidTranscript(a.asked[0].Messages) != nil {
				t.Errorf("the model is shown %s, want %s", got, c.want)
			}
		})
	}
}

func TestImport_keepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	d := foreignDir(t, t.TempDir(), `pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: a, input: y}]}}`,
		`{"current_step": 1, "step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2}], "later": {"k": [1]}}`)
	s, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	s.Holdfast = &strands.Extension{Version: 1, Usage: dictOf(map[string]session.AgentUse{
		"a": {Input: 3, Output: 4, Calls: 2, Estimated: true}, "b": {Input: 1},
	})}
	s.TokenUsage = strands.TokenUsage{TotalInput: 4, TotalOutput: 4, ByAgent: dictOf(map[string]int64{"a": 7, "b": 1})}
	s.ArtifactsWritten, s.Metadata.Error, s.Metadata.Status = []string{"/out/a.md"}, "ProviderError: no", workflow.StatusFailed
	s.Variables.Set("v", "w")
	if err := d.Save(s, nil); err != nil {
		t.Fatal(err)
	}
	b, _ := importDir(t, d)
	st := b.state(t, 0)
	later, _ := st.Pattern.Get("later")
	if raw, ok := later.(json.RawMessage); !ok || string(raw) != `{"k":[1]}` {
		t.Errorf("what nobody knows is %v", later)
	}
	if u := st.Usage; u.Input != 4 || u.Output != 4 || u.ByAgent["a"] != 7 || u.ByAgent["b"] != 1 || st.Agents["a"].Calls != 2 || !st.Agents["a"].Estimated {
		t.Errorf("it has used %+v, %+v", st.Usage, st.Agents)
	}
	m := st.Metadata
	if m.Status != workflow.StatusFailed || m.Error == nil || *m.Error != s.Metadata.Error || m.CreatedAt != "2025-11-09T10:00:00+00:00" || len(st.Artifacts) != 1 || len(st.Variables) != 1 {
		t.Errorf("the state is %+v", st)
	}
}

func TestImport_aTimeLimitThatEndedAtNoTime(t *testing.T) {
	t.Parallel()
	b, _ := importDir(t, foreignDir(t, t.TempDir(),
		`pattern: {type: chain, config: {steps: [{type: hitl, prompt: "ok?", default: fine, timeout_seconds: 60}, {agent: a, input: x}]}}`,
		`{"current_step": 1, "step_history": [{"index": 0, "type": "hitl", "prompt": "ok?", "response": "fine"}],
  "hitl_timeout_occurred": true, "hitl_default_used": "fine"}`))
	history, _ := b.state(t, 0).Pattern.Get("step_history")
	if list, ok := history.([]spec.Map[any]); !ok || len(list) != 1 {
		t.Errorf("the steps are %v", history)
	}
}

func TestImport_unitsWithUnusualNames(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]string{"a number sign": "one#1", "very long": strings.Repeat("long", 200)} {
		raw := quote(task)
		a := &clerk{}
		b, _ := importDir(t, foreignDir(t, t.TempDir(),
			`pattern: {type: workflow, config: {tasks: [{id: `+raw+`, agent: a, input: x}, {id: two, agent: b, input: z, deps: [`+raw+`]}]}}`,
			`{"task_results": {`+raw+`: {"response": "1", "status": "success", "agent": "a"}}, "completed_tasks": [`+raw+`]}`))
		res, err := workflow.Resume(t.Context(), b.rt, b.id, workflow.ResumeOptions{Host: a.host(), Out: b.out})
		if err != nil || res.LastResponse != "re: z" || len(a.asked) != 1 {
			t.Errorf("%s: %+v (%v) after %d calls", name, res, err, len(a.asked))
		}
	}
}

func TestImport_countsWhatAGraphHadCounted(t *testing.T) {
	t.Parallel()
	b, _ := importDir(t, foreignDir(t, t.TempDir(), `
pattern: {type: graph, config: {nodes: {one: {agent: a, input: one}, ask: {type: hitl, prompt: "ok?"}, two: {agent: b, input: two}, again: {type: hitl, prompt: "sure?"}},
  edges: [{from: one, to: [ask]}, {from: ask, to: [two]}, {from: two, to: [again]}]}}`,
		`{"current_node": "ask", "node_results": {"one": {"response": "1", "agent": "a", "status": "success", "iteration": 1},
    "ask": {"response": null, "type": "hitl", "prompt": "ok?", "status": "waiting_for_user", "iteration": 1}}, "iteration_counts": {"one": 1, "ask": 1},
  "total_steps": 1, "execution_path": ["one"], "cumulative_tokens": 7, "hitl_state": {"active": true, "node_id": "ask", "prompt": "ok?", "context_display": ""}}`))
	tokens := func() any {
		count, _ := b.state(t, 0).Pattern.Get("cumulative_tokens")
		return count
	}
	if got := tokens(); got != 7 {
		t.Errorf("the run had counted 7, and now counts %v", got)
	}
	res, err := workflow.Resume(t.Context(), b.rt, b.id, workflow.ResumeOptions{Host: (&clerk{}).host(), Out: b.out, Answer: ptr("yes")})
	if err != nil || res.Question == nil {
		t.Fatalf("the run is %+v (%v)", res, err)
	}
	if got := tokens(); got != 10 { // "two" and "re: two"
		t.Errorf("the run counts %v, want 10", got)
	}
}

// The documented layout names an agent's folder by the agent alone.
func TestStore_goesOnWithTheDocumentedLayout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := foreignDir(t, dir, `pattern: {type: chain, config: {steps: [{agent: a, input: x}, {type: hitl, prompt: "ok?"}, {agent: a, input: y}]}}`,
		`{"current_step": 1, "step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2}],
  "hitl_state": {"active": true, "step_index": 1, "prompt": "ok?", "context_display": ""}}`, "user:x", "assistant:first")
	written := filepath.Join(d.AgentsDir(), strands.FolderName(id, strands.Place{Agent: "a"}, nil))
	documented := filepath.Join(d.AgentsDir(), "a")
	if err := errors.Join(os.Rename(filepath.Join(written, "agents", "agent_default"), documented), os.RemoveAll(written)); err != nil {
		t.Fatal(err)
	}
	b, a := begun{rt: newRuntime(t, openStore(t, dir, strands.StoreConfig{})), out: t.TempDir(), id: id}, &clerk{}
	for range 2 { // to look at it changes nothing
		if res, err := workflow.Resume(t.Context(), b.rt, id, workflow.ResumeOptions{Host: a.host(), Out: b.out}); err != nil || res.Question == nil {
			t.Fatalf("the run is %+v (%v)", res, err)
		}
	}
	res, err := workflow.Resume(t.Context(), b.rt, id, workflow.ResumeOptions{Host: a.host(), Out: b.out, Answer: ptr("yes")})
	if err != nil || res.LastResponse != "re: y" || len(a.asked) != 1 || len(a.asked[0].Messages) != 3 {
		t.Errorf("the run ended as %+v (%v) after %d calls", res, err, len(a.asked))
	}
}

package workflow_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/workflow"
)

const eachSpec = `
version: 1
name: Each
runtime: {provider: scripted, model_id: m, max_parallel: 3, failure_policy: {retries: 0, wait_min: 0, wait_max: 0}}
agents: {a: {prompt: A.}}
inputs: {required: {towns: array}}
pattern:
  type: parallel
  config:
    for_each: {input: towns, steps: [{agent: a, input: "{{ item_index }} {{ item }}"}]}
    reduce: {agent: a, input: "{% for b in branches.values() %}{{ b.item }}={{ b.response }};{% endfor %}"}
`

// list is a JSON list of so many names.
func list(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"t%d"`, i)
	}
	return "[" + strings.Join(names, ", ") + "]"
}

func TestForEach_doesEveryItemAFewAtATimeInOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	working, most := 0, 0
	full := make(chan struct{}) // three work at the same time
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		mu.Lock()
		if working++; working == 3 && most < 3 {
			close(full)
		}
		most = max(most, working)
		mu.Unlock()
		if !strings.Contains(input(r), "=") {
			<-full
		}
		defer func() { mu.Lock(); working--; mu.Unlock() }()
		return said("<" + input(r) + ">"), nil
	})
	var want strings.Builder
	for i := range 12 {
		fmt.Fprintf(&want, "t%d=<%d t%d>;", i, i, i)
	}
	s.completes("<" + want.String() + ">")(s.start(eachSpec, "towns", list(12)))
	if most != 3 {
		t.Errorf("%d units worked at the same time, want 3", most)
	}
	if g := s.graph(); len(g.Nodes) != 13 || g.Nodes[11].Unit != "branch/11/step/0" {
		t.Errorf("the graph has %d nodes", len(g.Nodes))
	}
	if g := workflow.SpecGraph(load(t, eachSpec, nil)); len(g.Nodes) != 2 {
		t.Errorf("the graph of the spec has %d nodes, want one for all items and the reduction", len(g.Nodes))
	}
}

func TestForEach_withoutReduceKeepsTheOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	res, err := s.start(strings.Replace(eachSpec, "    reduce:", "#", 1), "towns", list(11))
	if err != nil || strings.Index(res.LastResponse, "Branch 2:") > strings.Index(res.LastResponse, "Branch 10:") {
		t.Errorf("%v: the response is %s", err, res.LastResponse)
	}
	s = newScene(t, echo)
	s.completes("re: ")(s.start(eachSpec, "towns", "[]"))
	if s.calls() != 1 {
		t.Errorf("%d calls for no items", s.calls())
	}
}

func TestForEach_resumesAndRedoesSingleItems(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	fail := true
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		if input(r) == "2 t2" && fail {
			return llm.Response{}, broken
		}
		return echo(r)
	})
	text := strings.Replace(eachSpec, "max_parallel: 3", "max_parallel: 1", 1)
	if _, err := s.start(text, "towns", list(4)); !errors.Is(err, broken) {
		t.Fatalf("the run ended with %v", err)
	}
	fail = false
	end := "re: t0=re: 0 t0;t1=re: 1 t1;t2=re: 2 t2;t3=re: 3 t3;"
	s.completes(end)(s.resume(workflow.ResumeOptions{}))
	s.completes(end)(s.redo("branch/1/step/0"))
	reduced := strings.TrimPrefix(end, "re: ")
	s.wantInputs("0 t0", "1 t1", "2 t2", "2 t2", "3 t3", reduced, "1 t1", reduced)
}

// The items are those that the file had at the start, unless a change is
// accepted. An item that is done may not change.
func TestForEach_keepsTheItemsOfItsFile(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	dir := t.TempDir()
	items := filepath.Join(dir, "items.csv")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(items, "n\nx\ny\n")
	path := filepath.Join(dir, "spec.yaml")
	write(path, head+`
agents: {a: {prompt: A.}}
pattern: {type: parallel, config: {for_each: {file: items.csv, steps: [{agent: a, input: "{{ item.n }}"}]}, reduce: {type: hitl, prompt: "ok?"}}}`)
	made, err := workflow.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := workflow.Start(t.Context(), s.rt, made, workflow.RunOptions{Host: s.host, Out: s.out})
	s.id = res.SessionID
	s.pauses("ok?")(res, err)
	write(items, "n\nx\nz\n")
	var changed *workflow.ChangedError
	if _, err := s.resume(workflow.ResumeOptions{AcceptChanges: true}); !errors.As(err, &changed) || changed.Unit != "branch/1/step/0" {
		t.Errorf("another item was accepted: %v", err)
	}
	write(items, "n\nx\ny\nz\n")
	s.pauses("ok?")(s.resume(workflow.ResumeOptions{AcceptChanges: true}))
	if asked := s.inputs(); len(asked) != 3 || asked[2] != "z" {
		t.Errorf("the models were asked %q, want z after x and y", asked)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	s.completes("yes")(s.answer("yes"))
}

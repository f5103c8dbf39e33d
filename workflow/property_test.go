package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/workflow"
)

// drawSpec is a small spec of one of four patterns, with a question here and
// there.
func drawSpec(t *property.T) string {
	agent := property.SampledFrom([]string{"a", "b"})
	step := func(label, input string) string {
		if property.IntRange(0, 4).Draw(t, label+" asks") == 0 {
			return `{type: hitl, prompt: "` + label + `?"}`
		}
		return `{agent: ` + agent.Draw(t, label) + `, input: "` + label + " " + input + `"}`
	}
	n := property.IntRange(1, 4).Draw(t, "size")
	var config strings.Builder
	kind := property.SampledFrom([]string{"chain", "workflow", "parallel", "graph"}).Draw(t, "pattern")
	switch kind {
	case "chain":
		config.WriteString("steps: [")
		for i := range n {
			input := ""
			if i > 0 {
				input = fmt.Sprintf("{{ steps[%d].response }}", i-1)
			}
			config.WriteString(step(fmt.Sprintf("s%d", i), input) + ", ")
		}
		config.WriteString("]")
	case "workflow":
		config.WriteString("tasks: [")
		for i := range n {
			deps, input := "", ""
			if i > 0 && property.Bool().Draw(t, fmt.Sprintf("t%d depends", i)) {
				on := property.IntRange(0, i-1).Draw(t, fmt.Sprintf("t%d on", i))
				deps, input = fmt.Sprintf("t%d", on), fmt.Sprintf("{{ tasks.t%d.response }}", on)
			}
			config.WriteString(strings.Replace(step(fmt.Sprintf("t%d", i), input), "{", fmt.Sprintf("{id: t%d, deps: [%s], ", i, deps), 1) + ", ")
		}
		config.WriteString("]")
	case "parallel":
		config.WriteString("branches: [")
		for i := range n + 1 {
			fmt.Fprintf(&config, "{id: b%d, steps: [%s, %s]}, ", i, step(fmt.Sprintf("b%d0", i), ""), step(fmt.Sprintf("b%d1", i), "{{ last_response }}"))
		}
		config.WriteString("], reduce: " + step("reduce", "{{ branches.b0.response }}"))
	case "graph":
		var edges strings.Builder
		config.WriteString("nodes: {")
		for i := range n + 1 {
			fmt.Fprintf(&config, "n%d: %s, ", i, step(fmt.Sprintf("n%d", i), "{{ nodes.n0.iteration }}"))
			if i == n-1 { // one way back
				fmt.Fprintf(&edges, "{from: n%d, choose: [{when: 'nodes.n0.iteration < 2', to: n0}, {when: else, to: n%d}]}, ", i, i+1)
			} else if i < n {
				fmt.Fprintf(&edges, "{from: n%d, to: [n%d]}, ", i, i+1)
			}
		}
		config.WriteString("}, edges: [" + edges.String() + "]")
	}
	return head + "agents: {a: {prompt: A}, b: {prompt: B}}\npattern: {type: " + kind + ", config: {" + config.String() + "}}\n" +
		`outputs: {artifacts: [{path: out, from: "{{ last_response }}"}]}` + "\n"
}

// disturbed is a model that answers the same to the same, and breaks off calls
// by their number.
type disturbed struct {
	mu       sync.Mutex
	calls    int
	answered map[string]int       // by what was shown
	breaks   map[int]func() error // by the number of the call
	stopped  bool                 // what is answered now reaches nobody
}

// Infer answers also when the context has just ended: what counts as answered is
// to be kept.
func (d *disturbed) Infer(ctx context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	if err := ctx.Err(); err != nil {
		return llm.Response{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if d.stopped {
		return llm.Response{}, context.Canceled
	}
	if fail := d.breaks[d.calls]; fail != nil {
		if err := fail(); err != nil {
			return llm.Response{}, err
		}
	}
	var shown strings.Builder
	for _, m := range r.Messages {
		fmt.Fprintf(&shown, "%s:%s|", m.Role, m.Content.Text())
	}
	d.answered[r.Agent+"|"+shown.String()]++
	return said(fmt.Sprintf("<%s>", input(r))), nil
}

// outcome is what is left of a run.
type outcome struct {
	state, artifact string
	answered        map[string]int
	calls           int
}

// finish runs a spec to its end, resuming it as often as it takes.
func finish(t *property.T, text, dir string, breaks map[int]bool) outcome {
	st := inmem.New(inmem.Config{})
	rt, err := holdfast.New(holdfast.Config{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(rt.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(dir, "spec.yaml")
	out, err := os.MkdirTemp(dir, "out")
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := workflow.Load(path, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var stop context.CancelFunc
	d := &disturbed{answered: map[string]int{}, breaks: map[int]func() error{}}
	for call, cancels := range breaks {
		d.breaks[call] = func() error { return errors.New("broken off") }
		if cancels {
			d.breaks[call] = func() error { d.stopped = true; stop(); return context.Canceled }
		}
	}
	attempt := func(run func(context.Context) (workflow.Result, error)) (workflow.Result, error) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		stop, d.stopped = cancel, false
		return run(ctx)
	}
	res, err := attempt(func(ctx context.Context) (workflow.Result, error) {
		return workflow.Start(ctx, rt, loaded, workflow.RunOptions{Host: host(d), Out: out})
	})
	for range 40 {
		if err == nil && res.Status == workflow.StatusCompleted {
			break
		}
		var failed *workflow.RunError
		if err != nil && !errors.As(err, &failed) && !errors.Is(err, session.ErrInterrupted) {
			t.Fatalf("%v\n%s", err, text)
		}
		o := workflow.ResumeOptions{Host: host(d), Out: out}
		if res.Question != nil {
			o.Answer = ptr("answer to " + res.Question.Unit)
		}
		res, err = attempt(func(ctx context.Context) (workflow.Result, error) { return workflow.Resume(ctx, rt, res.SessionID, o) })
	}
	if err != nil || res.Status != workflow.StatusCompleted {
		t.Fatalf("the run ended as %+v (%v)\n%s", res, err, text)
	}
	s, err := rt.Get(context.Background(), res.SessionID, holdfast.Whole())
	if err != nil {
		t.Fatal(err)
	}
	state, err := workflow.Project(s)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := state.Pattern.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(out, "out"))
	if err != nil {
		t.Fatal(err)
	}
	return outcome{string(raw), string(data), d.answered, d.calls}
}

func TestRun_brokenOffAnywhereEndsTheSameAndAsksNothingTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	property.CheckCases(t, 30, func(t *property.T) {
		text := drawSpec(t)
		whole := finish(t, text, dir, nil)
		breaks := property.MapOfN(property.IntRange(1, max(1, whole.calls+2)), property.Bool(), 0, 4).Draw(t, "breaks")
		broken := finish(t, text, dir, breaks)
		if broken.state != whole.state || broken.artifact != whole.artifact {
			t.Fatalf("broken off at %v it ended as\n%s\n%q\nwant\n%s\n%q\n%s", breaks, broken.state, broken.artifact, whole.state, whole.artifact, text)
		}
		for shown, n := range broken.answered {
			if n != whole.answered[shown] {
				t.Fatalf("broken off at %v %d answers were given to %q, want %d\n%s", breaks, n, shown, whole.answered[shown], text)
			}
		}
		if len(broken.answered) != len(whole.answered) {
			t.Fatalf("broken off at %v: %v\nwant %v", breaks, broken.answered, whole.answered)
		}
	})
}

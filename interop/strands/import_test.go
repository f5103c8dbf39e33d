package strands_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// plainly makes a directory what the other program would have written: no key
// of ours anywhere.
func plainly(t testing.TB, d strands.Dir) {
	t.Helper()
	asStrands(t, d, func(*strands.State) {})
	conversations, err := d.Conversations(id, agentNames)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range conversations {
		for i := range c.Messages {
			c.Messages[i].Unit, c.Messages[i].Own = "", strands.Object{}
		}
		if err := d.SaveConversation(id, c, agentNames); err != nil {
			t.Fatal(err)
		}
	}
}

var agentNames = []string{"a", "b", "t", "router", "judge", "maker", "planner"}

// asDocumented moves the conversations to where the manual of the other
// program says they are.
func asDocumented(t testing.TB, d strands.Dir) {
	t.Helper()
	entries, err := os.ReadDir(d.AgentsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, e := range entries {
		from := filepath.Join(d.AgentsDir(), e.Name())
		to := filepath.Join(d.AgentsDir(), strings.TrimPrefix(e.Name(), "session_"+id+"_"))
		err = errors.Join(err, os.Rename(filepath.Join(from, "agents", "agent_default"), to), os.RemoveAll(from))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A directory without any hint of ours goes on too: what its state records is
// not asked again, in either shape.
func TestImport_needsNoHintsOfOurs(t *testing.T) {
	t.Parallel()
	for name, text := range patterns {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &actor{}
			b, _, err := start(t, text, a, nil)
			if err != nil {
				t.Fatal(err)
			}
			b.toTheEnd(t, a)
			end, last := b.state(t, 0), b.session(t, 0).Version()
			for version := int64(2); version <= last; version += 2 { // half of them: each is exported whole in another test
				d, err := strands.Export(t.Context(), b.rt, b.id, t.TempDir(), strands.ExportOptions{At: version})
				if err != nil {
					t.Fatal(err)
				}
				plainly(t, d)
				if version%4 == 0 {
					asDocumented(t, d)
				}
				again := begun{rt: newRuntime(t, nil), out: b.out}
				if again.id, _, err = strands.Import(t.Context(), again.rt, d, strands.ImportOptions{}); err != nil {
					t.Fatalf("import of %d: %v", version, err)
				}
				was := b.state(t, version)
				if got := again.state(t, 0); fmt.Sprint(got.Usage) != fmt.Sprint(was.Usage) {
					t.Errorf("version %d has used %v, want %v", version, got.Usage, was.Usage)
				}
				more := &actor{}
				again.toTheEnd(t, more)
				if got := again.state(t, 0); got.Final != end.Final || !samePattern(t, got, end) {
					t.Errorf("version %d ends as\n%s\nwant\n%s", version, shown(t, got), shown(t, end))
				}
				done := b.session(t, version).Workflow().Steps
				if got, most := len(more.calls()), len(a.calls())-done; got > most {
					t.Errorf("version %d: %d calls to its end, but %d are enough:\n%q", version, got, most, more.calls())
				}
			}
		})
	}
}

func samePattern(t testing.TB, a, b *workflow.State) bool {
	t.Helper()
	one, err := a.Pattern.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.Pattern.MarshalJSON()
	return err == nil && bytes.Equal(one, other)
}

func TestImport_samples(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		calls  int
		answer string
		shown  int // messages of the first request
	}{
		"chain-completed": {}, "chain-killed-step2": {calls: 2, shown: 3}, "parallel-paused-branch": {calls: 2, answer: "approved", shown: 1},
	} {
		dirs, err := filepath.Glob(filepath.Join("..", "..", "..", "shared", "data", "strands-sessions", name, "session_*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs { // where the samples are
			a := &actor{}
			b := begun{rt: newRuntime(t, nil), out: t.TempDir()}
			before, err := strands.Dir(dir).Load()
			if err != nil {
				t.Fatal(err)
			}
			if b.id, _, err = strands.Import(t.Context(), b.rt, strands.Dir(dir), strands.ImportOptions{}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			st := b.state(t, 0)
			if st.Usage.Input != before.TokenUsage.TotalInput || st.Usage.Output != before.TokenUsage.TotalOutput || string(st.Metadata.Status) != string(before.Metadata.Status) {
				t.Errorf("%s: %+v of %+v", name, st, before)
			}
			if st.Metadata.Status == workflow.StatusCompleted {
				continue
			}
			o := workflow.ResumeOptions{Host: host(a), Out: b.out}
			if want.answer != "" {
				o.Answer = &want.answer
			}
			res, err := workflow.Resume(t.Context(), b.rt, b.id, o)
			if err != nil || res.Status != workflow.StatusCompleted || len(a.asked) != want.calls || !strings.Contains(a.asked[0], fmt.Sprintf("|%d|", want.shown)) {
				t.Errorf("%s: %+v (%v) after %q", name, res, err, a.asked)
			}
		}
	}
}

func TestImport_saysWhatIsMissing(t *testing.T) {
	t.Parallel()
	b, dir, _ := asking(t)
	d := dirOf(dir)
	elsewhere := newRuntime(t, nil)
	refused := func(what string, target error) {
		t.Helper()
		if _, _, err := strands.Import(t.Context(), elsewhere, d, strands.ImportOptions{}); !errors.Is(err, target) {
			t.Errorf("%s: %v", what, err)
		}
	}
	write(t, filepath.Join(string(d), "pattern_state.json"), "{")
	refused("a torn pair", session.ErrCorrupt)
	asPattern := func(text string) {
		pattern := object(t, text)
		s := strands.State{Metadata: strands.Metadata{SessionID: id, WorkflowName: "x", SpecHash: "0", PatternType: "chain", Status: workflow.StatusRunning, CreatedAt: at(1), UpdatedAt: at(2)}, Pattern: pattern}
		head, raw := encode(t, s)
		write(t, filepath.Join(string(d), "session.json"), head)
		write(t, filepath.Join(string(d), "pattern_state.json"), raw)
	}
	asPattern(`{"step_history": 3}`)
	refused("a state of another shape", session.ErrCorrupt)
	asPattern(`{}`)
	if err := os.Remove(d.SnapshotPath()); err != nil {
		t.Fatal(err)
	}
	refused("no spec", session.ErrSpec)
	if err := os.RemoveAll(string(d)); err != nil {
		t.Fatal(err)
	}
	refused("no session", session.ErrNotFound)
	if _, err := strands.Export(t.Context(), b.rt, "nobody", t.TempDir(), strands.ExportOptions{}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("export of nobody: %v", err)
	}
}

// What an agent was told at its first unit, and the summary that stands for
// the oldest of what it said, go along.
func TestExport_takesPromptsAndSummariesAlong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 1200)
	dir := t.TempDir()
	text := `context_policy: {compaction: {enabled: true, when_tokens_over: 1000, summary_ratio: 0.9, preserve_recent_messages: 1}, notes: {file: notes.md}}
pattern: {type: chain, config: {steps: [
  {agent: a, input: "` + long + `"}, {agent: a, input: "two"}, {agent: a, input: "three"}, {type: hitl, prompt: "on?"}, {agent: a, input: "four"}]}}`
	a := &actor{dir: dir}
	b, res, err := start(t, text, a, nil)
	if err != nil || res.Question == nil {
		t.Fatalf("%+v (%v)", res, err)
	}
	d, err := strands.Export(t.Context(), b.rt, b.id, t.TempDir(), strands.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conversations, err := d.Conversations(id, agentNames)
	if err != nil || len(conversations) != 1 {
		t.Fatalf("%d conversations (%v)", len(conversations), err)
	}
	if removed, summary, err := conversations[0].Agent.Removed(); err != nil || removed != 2 || summary == nil || len(conversations[0].Messages) != 6 {
		t.Errorf("%d of %d messages are summarised as %v (%v)", removed, len(conversations[0].Messages), summary, err)
	}
	again := begun{rt: newRuntime(t, nil), out: b.out}
	if again.id, _, err = strands.Import(t.Context(), again.rt, d, strands.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "notes.md")); err != nil {
		t.Fatal(err)
	}
	here, there := &actor{dir: dir}, &actor{dir: dir}
	again.toTheEnd(t, there)
	b.toTheEnd(t, here)
	if fmt.Sprint(here.asked) != fmt.Sprint(there.asked) || len(here.asked) != 1 || !strings.Contains(here.asked[0], "|6|four") {
		t.Errorf("the model was asked %q, where it was exported %q", there.asked, here.asked)
	}
	if got, want := again.state(t, 0).Agents, b.state(t, 0).Agents; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("it has used %v, want %v", got, want)
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

var fraction = regexp.MustCompile(`(2025-11-09T10:00:00)\.\d{6}`)

// The files of a run, byte for byte.
func TestExport_golden(t *testing.T) {
	t.Parallel()
	now := time.Date(2025, 11, 9, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	rt, err := holdfast.New(holdfast.Config{Store: inmem.New(inmem.Config{}), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	specs := t.TempDir()
	path := filepath.Join(specs, "tea.yaml")
	write(t, filepath.Join(specs, "writer.yaml"), "prompt: Write.\n")
	write(t, path, `version: 1
name: Grüner Tee
runtime: {provider: scripted, model_id: m, budgets: {max_tokens: 5000}}
context_policy: {compaction: {enabled: true}}
agents: {a: {$ref: writer.yaml}, t: {prompt: Tool.}}
pattern: {type: chain, config: {steps: [{agent: a, input: "Über {{ topic }}"}, {agent: t, input: look}, {type: hitl, prompt: "Gut?"}]}}
`)
	vars := spec.Map[string]{{Name: "topic", Value: "Tee"}}
	s, err := workflow.Load(path, vars)
	if err != nil {
		t.Fatal(err)
	}
	h := host(&actor{})
	h.Now = clock
	if _, err := workflow.Start(t.Context(), rt, s, workflow.RunOptions{Host: h, ID: id, Vars: vars, Out: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	d, err := strands.Export(t.Context(), rt, id, t.TempDir(), strands.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	err = filepath.WalkDir(string(d), func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(file)
		name := strings.TrimPrefix(file, string(d)+string(filepath.Separator))
		// How many changes lie between two messages is not the layout's affair.
		text := fraction.ReplaceAllString(strings.ReplaceAll(string(raw), specs, "/specs"), "$1.000001")
		fmt.Fprintf(&all, "-- %s --\n%s\n", filepath.ToSlash(name), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "chain.golden")
	if *update {
		write(t, golden, all.String())
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != all.String() {
		t.Errorf("the files are\n%s\nwant %s (%v)", all.String(), golden, err)
	}
}

package workflow_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/workflow"
)

// leaving is a chain of one step with artifacts.
func leaving(artifacts string) string {
	return head + `
inputs: {values: {name: "a b/../c"}}
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a, input: x}]}}
outputs: {artifacts: [` + artifacts + `]}
`
}

func TestArtifacts_paths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"report.md": "report.md", "./a/./b//c.md": "a/b/c.md", "a b?c": "a_b_c", "x___y": "x_y", "__x__": "x", "..x..": "x", "a*": "a", "?/x": "unnamed/x",
		"Größe-1.txt": "Größe-1.txt", `a\\b`: "a/b", strings.Repeat("x", 99) + "._y": strings.Repeat("x", 99), strings.Repeat("ä", 150): strings.Repeat("ä", 100),
		"{{ last_response }}": "re_x",
	} {
		s := newScene(t, echo)
		res, err := s.start(leaving(`{path: "` + path + `", from: "{{ last_response }}\n\n"}`))
		s.completes("re: x")(res, err)
		full := filepath.Join(s.out, filepath.FromSlash(want))
		if len(res.Artifacts) != 1 || res.Artifacts[0] != full {
			t.Errorf("%q went to %q, want %q", path, res.Artifacts, full)
			continue
		}
		if got := s.artifact(want); got != "re: x\n" {
			t.Errorf("%q holds %q", want, got)
		}
		if st := s.state(); len(st.Artifacts) != 1 || st.Artifacts[0] != full {
			t.Errorf("the state lists %q", st.Artifacts)
		}
	}
}

func TestArtifacts_pathsThatLeadAwayAreRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/etc/x", "../x", "a/../x", ".", `..\\x`, "./"} {
		s := newScene(t, echo)
		_, err := s.start(leaving(`{path: "` + path + `", from: x}`))
		var failed *workflow.RunError
		if !errors.As(err, &failed) || failed.Kind != workflow.KindArtifact || !strings.Contains(err.Error(), "/outputs/artifacts/0/path") || s.calls() != 0 {
			t.Errorf("%q: %v after %d calls", path, err, s.calls())
		}
	}
	s := newScene(t, echo)
	s.fails(workflow.KindArtifact, "artifacts", "leads out")(s.start(leaving(`{path: fine, from: y}, {path: "{{ name }}", from: x}`)))
	if files, err := os.ReadDir(s.out); err != nil || len(files) != 0 {
		t.Errorf("something was written: %v (%v)", files, err)
	}
}

func TestArtifacts_existingFilesNeedForce(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	if err := os.WriteFile(filepath.Join(s.out, "o"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.start(leaving("{path: o, from: new}")); err == nil || !strings.Contains(err.Error(), "--force") || s.calls() != 0 {
		t.Errorf("%v after %d calls", err, s.calls())
	}
	s.completes("re: x")(s.startWith(workflow.RunOptions{Force: true}, leaving("{path: o, from: new}")))
	if got := s.artifact("o"); got != "new" {
		t.Errorf("it holds %q", got)
	}
}

func TestArtifacts_failureRepeatsThisUnitAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	if err := os.WriteFile(filepath.Join(s.out, "b"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	late := leaving(`{path: a, from: one}, {path: "{{ 'b' }}", from: two}`)
	s.fails(workflow.KindArtifact, "artifacts", "exists")(s.start(late))
	if st := s.state(); !strings.HasPrefix(*st.Metadata.Error, "ArtifactError: artifacts: ") || len(st.Artifacts) != 0 {
		t.Errorf("the state is %+v", st.Metadata)
	}
	s.completes("re: x")(s.resume(workflow.ResumeOptions{Force: true}))
	if s.calls() != 1 || s.artifact("a") != "one" || s.artifact("b") != "two" {
		t.Errorf("%d calls, %q, %q", s.calls(), s.artifact("a"), s.artifact("b"))
	}
}

func TestArtifacts_renderingErrorsWriteNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.fails(workflow.KindArtifact, "artifacts", "/outputs/artifacts/1/from", "nobody")(s.start(leaving(`{path: a, from: one}, {path: b, from: "{{ nobody }}"}`)))
	if files, err := os.ReadDir(s.out); err != nil || len(files) != 0 {
		t.Errorf("something was written: %v (%v)", files, err)
	}
	s.fails(workflow.KindArtifact, "artifacts", "twice")(s.start(leaving(`{path: a, from: one}, {path: "./a", from: two}`)))
}

func TestArtifacts_linksAreRefused(t *testing.T) {
	t.Parallel()
	elsewhere := t.TempDir()
	s := newScene(t, echo)
	for name, to := range map[string]string{"file": filepath.Join(elsewhere, "target"), "dir": elsewhere, "nowhere": filepath.Join(elsewhere, "none")} {
		if err := os.Symlink(to, filepath.Join(s.out, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(elsewhere, "target"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"file", "dir/x", "nowhere", "nowhere/x"} {
		_, err := s.startWith(workflow.RunOptions{Force: true}, leaving("{path: "+path+", from: x}"))
		var failed *workflow.RunError
		if !errors.As(err, &failed) || failed.Kind != workflow.KindArtifact {
			t.Errorf("%s: %v", path, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(elsewhere, "target")); err != nil || string(data) != "x" {
		t.Errorf("the target holds %q (%v)", data, err)
	}
	if files, err := os.ReadDir(elsewhere); err != nil || len(files) != 1 {
		t.Errorf("something was written elsewhere: %v (%v)", files, err)
	}
}

func TestArtifacts_theOutputDirectoryMayBeALink(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.out, link); err != nil {
		t.Fatal(err)
	}
	s.completes("re: x")(s.startWith(workflow.RunOptions{Out: link}, leaving("{path: sub/o, from: y}")))
	if got := s.artifact("sub/o"); got != "y" {
		t.Errorf("it holds %q", got)
	}
}

func TestArtifacts_traceAndTime(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	text := head + `
agents: {a: {prompt: A}}
pattern: {type: graph, config: {nodes: {n: {agent: a, input: x}, m: {agent: a, input: y}}, edges: [{from: n, to: [m]}]}}
outputs: {artifacts: [{path: trace, from: "{{ TRACE }}"}, {path: "time", from: "{{ timestamp }}"}]}
`
	s.completes("re: y")(s.startWith(workflow.RunOptions{Trace: true}, text))
	first, at := s.artifact("trace"), s.artifact("time")
	if !strings.Contains(first, `"unit": "node/m@1"`) || !strings.Contains(first, at) {
		t.Errorf("the trace holds %s\nthe time %s", first, at)
	}
	// A run that is read anew, and finished elsewhere, writes the same.
	fork, err := s.rt.Fork(t.Context(), s.id, holdfast.At(3))
	if err != nil {
		t.Fatal(err)
	}
	s.actor.answer = func(llm.Request) (llm.Response, error) { return llm.Response{}, errors.New("no") }
	id := s.id
	s.id, s.out = fork.ID(), t.TempDir()
	s.completes("re: y")(s.resume(workflow.ResumeOptions{Trace: true}))
	if got := strings.ReplaceAll(s.artifact("trace"), s.id, id); got != first {
		t.Errorf("the trace of the fork is\n%s\nwant\n%s", got, first)
	}
	if s.artifact("time") != at {
		t.Errorf("the time is %s, was %s", s.artifact("time"), at)
	}
}

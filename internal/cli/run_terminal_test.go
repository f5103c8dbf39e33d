package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// specFile is a spec in a file, with a place of its own for what it writes.
func specFile(t *testing.T, text string) (path, out string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "spec.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, filepath.Join(dir, "out")
}

const askingSpec = `
version: 1
name: asking
runtime: {provider: offline}
agents: {clerk: {prompt: You write., tools: []}}
pattern:
  type: chain
  config:
    steps:
      - {agent: clerk, input: "A draft."}
      - {type: hitl, prompt: "Shall it go out?", context_display: "{{ steps[0].response }}", default: "yes"}
      - {agent: clerk, input: "They say {{ hitl_response }}"}
`

func TestRun_asksAtTheTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, heard string }{{"no, shorter\n", "They say no, shorter"}, {"\n", "They say yes"}} {
		d := newDesk(t)
		d.person = true
		path, out := specFile(t, askingSpec)
		if got := d.must(c.typed, "run", path, "--out", out, "-i"); !strings.Contains(got, c.heard) {
			t.Errorf("%q: it ends with %q", c.typed, got)
		}
		if told := d.err.String(); !strings.Contains(told, "? Shall it go out?\n") || !strings.Contains(told, "  You said: A draft.\n") {
			t.Errorf("%q: told\n%s", c.typed, told)
		}
	}
}

// Who goes away from a question finds it again.
func TestRun_leavingAQuestionKeepsIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	path, out := specFile(t, askingSpec)
	if code := d.run(strings.NewReader(""), "run", path, "--out", out, "-i"); code != exitWaiting {
		t.Fatalf("exit code %d:\n%s", code, d.err)
	}
	if told := d.err.String(); !strings.Contains(told, "answer with: holdfast run --resume ") {
		t.Errorf("told\n%s", told)
	}
	if got := d.must("", "run", path, "--out", out, "--auto-resume", "--hitl-response", "later"); !strings.Contains(got, "They say later") {
		t.Errorf("it ends with %q", got)
	}
}

func TestRun_interruptedAtAQuestion(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	path, out := specFile(t, askingSpec)
	in, typing, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = typing.Close(), in.Close() }()
	codes := make(chan int)
	go func() { codes <- d.run(in, "run", path, "--out", out, "-i") }()
	d.err.wait(t, "? Shall it go out?")
	d.signals <- syscall.SIGINT
	if code := <-codes; code != exitInterrupted {
		t.Errorf("exit code %d:\n%s", code, d.err)
	}
	if got := d.must("", "sessions", "list", "--status", "paused"); !strings.Contains(got, "asking") {
		t.Errorf("listed as %q", got)
	}
}

func TestRun_asksForInputsOfTheirType(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	path, out := specFile(t, `
version: 1
name: inputs
runtime: {provider: offline}
inputs:
  required:
    guests: {type: integer, description: How many come.}
    price: number
    loud: boolean
    kind: {type: string, enum: [small, large]}
    given: string
agents: {clerk: {prompt: You write., tools: []}}
pattern: {type: chain, config: {steps: [{agent: clerk, input: "{{ guests }}/{{ price }}/{{ loud }}/{{ kind }}/{{ given }}"}]}}
`)
	got := d.must("many\n4\n3\nperhaps\nyes\nhuge\nlarge\n", "run", path, "--out", out, "--ask", "--var", "given=x")
	if !strings.Contains(got, "You said: 4/3.0/True/large/x\n") {
		t.Errorf("it ends with %q", got)
	}
	told := d.err.String()
	for _, want := range []string{"How many come.", "guests (integer): ", `"many" is not a whole number`, `"perhaps" is not yes or no`, `"huge" is not one of small, large`} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not in\n%s", want, told)
		}
	}
	if code := d.run(strings.NewReader("4\n"), "run", path, "--out", out, "--ask"); code != exitCancelled {
		t.Errorf("leaving ends with %d", code)
	}
}

func TestPythonFloat_isWhatPythonPrints(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{3: "3.0", 0.5: "0.5", -2.25: "-2.25", 1e20: "1e+20", 1e-7: "1e-07", 0: "0.0", 1e15: "1000000000000000.0"} {
		if got := pythonFloat(f); got != want {
			t.Errorf("%v is %q, want %q", f, got, want)
		}
	}
}

// A key that a model repeats is neither in the session nor in what is shown of
// it.
func TestRun_keysStayOutOfTheSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.env["PAYROLL_TOKEN"] = "tok-0123456789"
	path, out := specFile(t, `
version: 1
name: secret
runtime: {provider: offline}
env: {secrets: [{key: PAYROLL_TOKEN, source: env}]}
inputs: {required: {say: string}}
agents: {clerk: {prompt: You write., tools: []}}
pattern: {type: chain, config: {steps: [{agent: clerk, input: "{{ say }}"}]}}
`)
	for _, flag := range []string{"--json", "--verbose"} {
		told := d.must("", "run", path, "--out", out, "--var", "say=it is tok-0123456789", flag)
		if told += d.err.String(); strings.Contains(told, "tok-0123456789") || strings.Count(told, "[secret:PAYROLL_TOKEN]") < 2 {
			t.Errorf("%s: told %s", flag, told)
		}
	}
	list := d.must("", "sessions", "list", "--json")
	_, rest, _ := strings.Cut(list, `"sessionId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	for _, args := range [][]string{{"sessions", "export", id}, {"sessions", "log", id, "--json"}, {"sessions", "show", id}} {
		if got := d.must("", args...); strings.Contains(got, "tok-0123456789") || !strings.Contains(got, "[secret:PAYROLL_TOKEN]") {
			t.Errorf("%q: %s", args, got)
		}
	}
}

func TestRun_saysWhatSeveralBranchesAnswered(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	path, out := specFile(t, `
version: 1
name: branches
runtime: {provider: offline}
agents: {clerk: {prompt: You write., tools: []}}
pattern: {type: parallel, config: {branches: [{id: l, steps: [{agent: clerk, input: left}]}, {id: r, steps: [{agent: clerk, input: right}]}]}}
`)
	got := d.must("", "run", path, "--out", out, "--json")
	if !strings.Contains(got, `"agent":null,"last_response":"Branch l:`) {
		t.Errorf("it ends with %s", got)
	}
}

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const askSpec = `version: 1
name: ask
runtime: {provider: offline, model_id: echo}
inputs: {optional: {who: {type: string, default: world}}}
agents: {greeter: {prompt: You greet., tools: []}}
pattern:
  type: chain
  config:
    steps:
      - {agent: greeter, input: "Hello, {{ who }}!"}
      - {type: hitl, prompt: Is this right?, context_display: "{{ steps[0].response }}"}
      - {agent: greeter, input: "I heard {{ hitl_response }}"}
`

// A run works on the server. Its question is answered from any terminal, and a
// unit is done again there.
func TestServer_worksOnRuns(t *testing.T) {
	t.Parallel()
	d, _ := newServedDesk(t, nil)
	path := filepath.Join(t.TempDir(), "ask.yaml")
	if err := os.WriteFile(path, []byte(askSpec), 0o600); err != nil {
		t.Fatal(err)
	}
	code := d.run(strings.NewReader(""), "run", path, "--var", "who=moon", "--name", "asked")
	for _, want := range []string{"started ask · chain", "✓ step/0 · greeter", "? Is this right?", "You said: Hello, moon!", "--hitl-response"} {
		if code != exitWaiting || !strings.Contains(d.err.String(), want) {
			t.Fatalf("exit code %d, want %d and %q:\n%s", code, exitWaiting, want, d.err)
		}
	}
	if got := d.must("", "run", "--resume", "asked", "--hitl-response", "yes"); !strings.Contains(got, "You said: I heard yes") {
		t.Errorf("the response is %q", got)
	}
	if shown := d.must("", "sessions", "show", "asked"); !strings.Contains(shown, "ask  completed") {
		t.Errorf("shown is %s", shown)
	}
	again := d.must("", "run", "--resume", "asked", "--redo", "step/2", "--json")
	if !regexp.MustCompile(`"status":"completed".*"last_response":"You said: I heard yes.*"exit_code":0`).MatchString(again) {
		t.Errorf("redone: %s", again)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "the server works on the run", []string{"run", path, "--out", "here"}},
		{exitSession, "is completed", []string{"run", "--resume", "asked", "--hitl-response", "no"}},
		{exitSession, "not found", []string{"run", "--resume", "nowhere"}},
		{exitDefinition, "there is no such file", []string{"run", filepath.Join(t.TempDir(), "none.yaml")}},
	} {
		if code := d.run(strings.NewReader(""), c.args...); code != c.code || !strings.Contains(d.err.String(), c.says) {
			t.Errorf("%q: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.says, d.err)
		}
	}
}

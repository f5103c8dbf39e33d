package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// bench is a folder with a store of its own, in which the real program is run
// against servers that speak the protocols of providers.
type bench struct {
	t   *testing.T
	dir string
	env []string

	openai, anthropic, ollama *provtest.Server
}

// newBench starts servers that answer by choose, which is given the last thing
// a user said.
func newBench(t *testing.T, choose func(said string, r provtest.Request) provtest.Reply) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	config := provtest.Config{Key: goodKey, Choose: func(r provtest.Request) provtest.Reply { return choose(lastSaid(r), r) }}
	b.openai, b.anthropic = provtest.OpenAI(config), provtest.Anthropic(config)
	config.Key = ""
	b.ollama = provtest.OpenAI(config)
	for _, server := range []*provtest.Server{b.openai, b.anthropic, b.ollama} {
		t.Cleanup(server.Close)
	}
	b.env = append(os.Environ(), "GORACE="+noSleep, "HOME="+b.dir, "XDG_DATA_HOME=", "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "HOLDFAST_NO_TITLES=1",
		"HOLDFAST_STORE=sqlite:"+filepath.Join(b.dir, "sessions.db"),
		"OPENAI_API_KEY="+goodKey, "OPENAI_BASE_URL="+b.openai.URL,
		"ANTHROPIC_API_KEY="+goodKey, "ANTHROPIC_BASE_URL="+b.anthropic.URL,
		"GEMINI_API_KEY="+goodKey, "HOLDFAST_GEMINI_BASE_URL="+b.openai.URL,
		"OLLAMA_HOST="+strings.TrimSuffix(b.ollama.URL, "/v1"))
	return b
}

// lastSaid is the text of the last message of a user in a request.
func lastSaid(r provtest.Request) string {
	var body struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if json.Unmarshal(r.Body, &body) != nil {
		return ""
	}
	for _, m := range slices.Backward(body.Messages) {
		if m.Role != "user" {
			continue
		}
		var text string
		if json.Unmarshal(m.Content, &text) == nil {
			return text
		}
		return string(m.Content)
	}
	return ""
}

// command is the program with arguments, not yet started.
func (b *bench) command(args ...string) (cmd *exec.Cmd, out, errs *output) {
	out, errs = &output{}, &output{}
	cmd = exec.CommandContext(b.t.Context(), "holdfast", args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = b.dir, b.env, out, errs
	return cmd, out, errs
}

// output is what a program has written so far. It may be read while the program
// writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run runs the program, which must end with a code.
func (b *bench) run(code int, args ...string) (out, errs string) {
	b.t.Helper()
	cmd, stdout, stderr := b.command(args...)
	_ = cmd.Run() // the code is looked at instead
	if got := cmd.ProcessState.ExitCode(); got != code {
		b.t.Fatalf("%q ended with %d, want %d:\n%s\n%s", args, got, code, stdout, stderr)
	}
	return stdout.String(), stderr.String()
}

// answered is how many answers the servers have given, whole.
func (b *bench) answered() int {
	return b.openai.Calls().Answered + b.anthropic.Calls().Answered + b.ollama.Calls().Answered
}

// only is the id of the one session there is.
func (b *bench) only() string {
	b.t.Helper()
	out, _ := b.run(0, "sessions", "list", "--json")
	ids := regexp.MustCompile(`"sessionId":"([^"]+)"`).FindAllStringSubmatch(out, -1)
	if len(ids) != 1 {
		b.t.Fatalf("not one session: %s", out)
	}
	return ids[0][1]
}

func saying(text string) provtest.Reply {
	return provtest.Reply{Text: []string{text}, Usage: provtest.Usage{Input: 20, Output: 10}}
}

// example is how a spec of the examples is run to its end.
type example struct {
	vars    []string
	says    [][2]string // what is answered to a message that has such a text, in order; else "fine"
	answers []string    // of a person, one question after the other
	calls   int         // of models
	ends    string      // what the response has in it
	writes  string      // a file below artifacts
}

const (
	aPlan  = `[{"task": "look left"}, {"task": "look right"}]`
	judged = `{"score": 95, "issues": [], "fixes": []}`
)

var exampleRuns = map[string]example{
	"hello-chain.yaml":            {vars: []string{"who=sea"}, answers: []string{"louder"}, ends: "The reader says: louder", writes: "hello-sea.txt"},
	"hello-tasks.yaml":            {ends: "menu for tonight: soup"},
	"hello-each.yaml":             {ends: "Write a guide to these towns"},
	"chain-briefing.yaml":         {vars: []string{"topic=tea"}, says: [][2]string{{"Facts:", "Tea is old."}}, calls: 3, ends: "Tea is old.", writes: "briefing-tea.md"},
	"chain-approved-letter.yaml":  {vars: []string{"customer=Ann", "complaint=late"}, says: [][2]string{{"final form", "Dear Ann"}}, answers: []string{"yes"}, calls: 2, ends: "Dear Ann", writes: "letter.txt"},
	"chain-shared-agents.yaml":    {says: [][2]string{{"Repair", "Short."}}, calls: 4, ends: "Short."},
	"workflow-release-notes.yaml": {vars: []string{"changes=a\nb"}, says: [][2]string{{"Join both", "Notes"}}, calls: 4, ends: "Notes", writes: "RELEASE.md"},
	"workflow-recipe.yaml":        {says: [][2]string{{"shopping list for 4: stew", "leeks"}}, answers: []string{"stew"}, calls: 3, ends: "leeks"},
	"routing-support.yaml":        {vars: []string{"request=it is broken"}, says: [][2]string{{"Who should", `{"route": "technical"}`}, {"given this cause", "Restart it."}}, calls: 3, ends: "Restart it."},
	"routing-reviewed.yaml":       {vars: []string{"report=smoke"}, says: [][2]string{{"How urgent", `{"route": "routine"}`}, {"Wake", "Wake up!"}}, answers: []string{"route:urgent"}, calls: 2, ends: "Wake up!"},
	"parallel-trip.yaml":          {vars: []string{"city=Oslo"}, says: [][2]string{{"A plan for 2 days", "Walk."}}, calls: 5, ends: "Walk.", writes: "Oslo.md"},
	"parallel-hiring.yaml":        {vars: []string{"application=I can sew"}, answers: []string{"well", "hire"}, calls: 3, ends: "hire"},
	"evaluator-haiku.yaml":        {says: [][2]string{{"Write a haiku", "frost / frost / frost"}, {"score", judged}}, calls: 2, ends: "frost / frost", writes: "haiku.txt"},
	"evaluator-speech.yaml":       {vars: []string{"occasion=a wedding"}, says: [][2]string{{"Write a speech", "Friends!"}, {"Friends! and family", judged}, {"Score this", `{"score": 10, "issues": ["dull"]}`}, {"Round 2", "Friends! and family"}}, answers: []string{"mention the family"}, calls: 4, ends: "and family"},
	"orchestrator-market.yaml":    {vars: []string{"question=why"}, says: [][2]string{{"A page on why", "Because."}, {"Order these", "ordered"}, {"look ", "seen"}, {"array", aPlan}}, calls: 5, ends: "Because.", writes: "report.md"},
	"orchestrator-reviewed.yaml":  {vars: []string{"goal=peace"}, says: [][2]string{{"Join the results", "Joined."}, {"look ", "seen"}, {"array", aPlan}}, answers: []string{"approved", "be brief"}, calls: 4, ends: "Joined."},
	"orchestrator-editor.yaml":    {says: [][2]string{{"look ", "seen"}, {"array", aPlan}}, answers: []string{"both", "All seen"}, calls: 3, ends: "All seen"},
	"graph-bug-triage.yaml":       {vars: []string{"bug=it crashes"}, says: [][2]string{{"Would this hold", "passes"}, {"report", "Fixed."}}, calls: 4, ends: "Fixed."},
	"graph-purchase.yaml":         {vars: []string{"item=a boat", "price=9000"}, says: [][2]string{{"Is 9000", "large"}, {"Order a boat", "Ordered."}}, answers: []string{"yes"}, calls: 2, ends: "Ordered."},
}

// Every example runs to its end, its questions answered one by one, and asks
// models no more often than it has to.
func TestRun_examplesComeToTheirEnd(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../examples/workflows/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, ok := exampleRuns[name]
			if !ok {
				t.Fatal("the test does not know this example")
			}
			runExample(t, path, e)
		})
	}
}

func runExample(t *testing.T, path string, e example) {
	t.Helper()
	b := newBench(t, func(said string, r provtest.Request) provtest.Reply {
		if strings.Contains(said, "Read README.md") && !bytes.Contains(r.Body, []byte("the readme's text")) {
			return provtest.Reply{Calls: []provtest.Call{{ID: "c1", Name: "file_read", Arguments: []string{`{"path": "README.md"}`}}}}
		}
		for _, s := range e.says {
			if strings.Contains(said, s[0]) {
				return saying(s[1])
			}
		}
		return saying("fine")
	})
	if err := os.WriteFile(filepath.Join(b.dir, "README.md"), []byte("the readme's text"), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"run", path}
	for _, v := range e.vars {
		args = append(args, "--var", v)
	}
	for i, answer := range e.answers {
		_, errs := b.run(19, args...)
		if !strings.Contains(errs, "answer with: holdfast run --resume ") {
			t.Fatalf("question %d does not say how to answer:\n%s", i, errs)
		}
		args = []string{"run", "--resume", b.only(), "--hitl-response", answer}
	}
	out, errs := b.run(0, args...)
	if !strings.Contains(out, e.ends) {
		t.Errorf("it ends with %q, want %q in it", out, e.ends)
	}
	if got := b.answered(); got != e.calls {
		t.Errorf("%d answers were paid for, want %d", got, e.calls)
	}
	if e.writes != "" {
		if _, err := os.Stat(filepath.Join(b.dir, "artifacts", e.writes)); err != nil || !strings.Contains(errs, e.writes) {
			t.Errorf("%v: told %s", err, errs)
		}
	}
	shown, _ := b.run(0, "sessions", "show", b.only())
	if !strings.Contains(shown, "  completed\n") || strings.Contains(shown, "next:") {
		t.Errorf("shown as\n%s", shown)
	}
}

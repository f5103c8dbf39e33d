package cli

import (
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// With --no-web no agent is offered a tool that uses the web, whatever else the
// command line allows; a task keeps that when somebody else resumes it.
func TestNoWeb_noAgentIsOfferedTheWeb(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args    []string
		env     string
		offered bool
	}{
		{args: []string{"task", "start", "go", "--plan", "none"}, offered: true},
		{args: []string{"task", "start", "go", "--plan", "none", "--no-web"}},
		{args: []string{"task", "start", "go", "--plan", "none"}, env: "1"},
		{args: []string{"send", "s", "go", "--allow-web"}, offered: true},
		{args: []string{"send", "s", "go", "--allow-web", "--no-web"}},
	} {
		var mu sync.Mutex
		asked := ""
		d := personAt(t, func(r provtest.Request) provtest.Reply {
			mu.Lock()
			defer mu.Unlock()
			asked += string(r.Body)
			return provtest.Reply{Text: []string{"Done."}}
		})
		d.person, d.screen = false, false
		d.must("", "chat", "--name", "s")
		d.env["HOLDFAST_NO_WEB"] = c.env
		d.must("", append(c.args, "--model", "openai/gpt-4o-mini")...)
		mu.Lock()
		if got := strings.Contains(asked, "http_get"); asked == "" || got != c.offered {
			t.Errorf("%q with %q: the web is offered: %v", c.args, c.env, got)
		}
		mu.Unlock()
	}
}

func TestNoWeb_aTaskKeepsIt(t *testing.T) {
	t.Parallel()
	d := asksFor(t, "http_get", map[string]any{"url": "http://example.org/?secret"})
	d.person, d.screen = false, false
	d.must("", "task", "start", "go", "--plan", "none", "--no-web", "--detach", "--model", "openai/gpt-4o-mini")
	out := d.must("", "task", "list", "--json")
	_, id, _ := strings.Cut(out, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	d.run(strings.NewReader(""), "task", "resume", id)
	if log := d.must("", "task", "log", id, "--json"); !strings.Contains(log, "does not permit network") {
		t.Errorf("the call was not refused:\n%s", log)
	}
}

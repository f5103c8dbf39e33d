package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// TestTitles_theModelNamesAChat asks, and says more until the title is there: it
// comes with the answer, or with a later save of the same process. Every command
// is a process of its own; a server is one for all.
func TestTitles_theModelNamesAChat(t *testing.T) {
	t.Parallel()
	var titles atomic.Int64
	asked := make(chan struct{})
	provider := provtest.OpenAI(provtest.Config{Key: deskKey, Choose: func(r provtest.Request) provtest.Reply {
		if bytes.Contains(r.Body, []byte("Write a title")) {
			if titles.Add(1) == 1 {
				close(asked)
			}
			return provtest.Reply{Text: []string{`"Tea in `, `Oslo."`}, Usage: provtest.Usage{Input: 40, Output: 4}}
		}
		<-asked
		return provtest.Reply{Text: []string{"Everywhere."}, Usage: provtest.Usage{Input: 10, Output: 1}}
	}})
	t.Cleanup(provider.Close)
	env := map[string]string{"OPENAI_BASE_URL": provider.URL, "OPENAI_API_KEY": deskKey, "HOLDFAST_MODEL": "openai/gpt-4.1-mini", "HOLDFAST_NO_TITLES": ""}
	here := newDesk(t)
	for name, value := range env {
		here.env[name] = value
	}
	there, _ := newServedDesk(t, env)
	for where, d := range map[string]*desk{"here": here, "at a server": there} {
		before := titles.Load()
		if got := d.must("", "ask", "Where do I get tea?"); !strings.Contains(got, "Everywhere.") {
			t.Fatalf("%s: the answer is %q", where, got)
		}
		id := regexp.MustCompile(`"sessionId":"([^"]+)"`).FindStringSubmatch(d.must("", "sessions", "list", "--json"))[1]
		versions, deadline := 2, time.Now().Add(time.Minute)
		for !strings.Contains(d.must("", "sessions", "list"), "Tea in Oslo") {
			if time.Now().After(deadline) {
				t.Fatalf("%s: no title after %d versions:\n%s", where, versions, d.out)
			}
			d.must("", "send", id, "And now?")
			versions++
		}
		if shown := d.must("", "sessions", "list", "--json"); !strings.Contains(shown, fmt.Sprintf(`"version":%d,`, versions)) {
			t.Errorf("%s: not version %d:\n%s", where, versions, shown)
		}
		if told := d.must("", "sessions", "log", id); strings.Count(told, "Tea in Oslo") != 1 {
			t.Errorf("%s: the log is\n%s", where, told)
		}
		if n := titles.Load() - before; where == "at a server" && n != 1 || n < 1 {
			t.Errorf("%s: asked for %d titles", where, n)
		}
	}
	before := titles.Load()
	here.must("", "ask", "And coffee?", "--no-titles")
	here.env["HOLDFAST_NO_TITLES"] = "true"
	here.must("", "ask", "And coffee?")
	if titles.Load() != before {
		t.Errorf("asked for %d titles that nobody wanted", titles.Load()-before)
	}
}

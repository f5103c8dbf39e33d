package cli

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// A title comes with the first answer or with a later save of the same process,
// so these tests say more until it is there.

// titleProvider is a provider that writes titles, and counts them. An answer waits
// until the first title was asked for.
func titleProvider(t *testing.T) (env map[string]string, titles *atomic.Int64) {
	t.Helper()
	titles = &atomic.Int64{}
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
	return map[string]string{"OPENAI_BASE_URL": provider.URL, "OPENAI_API_KEY": deskKey, "HOLDFAST_MODEL": "openai/gpt-4.1-mini", "HOLDFAST_NO_TITLES": ""}, titles
}

// sayUntilTitled says something until the only session of a desk has its title, and
// returns how often.
func sayUntilTitled(d *desk, say func()) (said int) {
	d.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(d.must("", "sessions", "list"), "Tea in Oslo"); said++ {
		if time.Now().After(deadline) {
			d.t.Fatalf("no title after %d messages:\n%s", said, d.out)
		}
		say()
	}
	return said
}

// wantTitledOnce fails the test unless the log of the session has one title.
func wantTitledOnce(d *desk) {
	d.t.Helper()
	if log := d.must("", "sessions", "log", "Tea in Oslo"); strings.Count(log, "Tea in Oslo") != 1 {
		d.t.Errorf("the log is\n%s", log)
	}
}

func TestTitles_ofAChat(t *testing.T) {
	t.Parallel()
	env, titles := titleProvider(t)
	d := newDesk(t)
	maps.Copy(d.env, env)
	elsewhere := &desk{t: t, store: d.store, env: d.env, signals: make(chan os.Signal, 1), out: newTranscript(), err: newTranscript()}
	in, typed := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := d.run(in, "chat")
		_ = in.Close() // whoever still types is told
		ended <- code
	}()
	sayUntilTitled(elsewhere, func() {
		if _, err := io.WriteString(typed, "Where do I get tea?\n"); err != nil {
			t.Error(err)
		}
	})
	if err := typed.Close(); err != nil {
		t.Error(err)
	}
	if code := <-ended; code != 0 {
		t.Fatalf("the chat ended with %d:\n%s", code, d.err)
	}
	wantTitledOnce(elsewhere)
	if titles.Load() != 1 {
		t.Errorf("asked for %d titles", titles.Load())
	}
	d.must("", "ask", "And coffee?", "--no-titles")
	d.env["HOLDFAST_NO_TITLES"] = "true"
	d.must("", "ask", "And coffee?")
	if titles.Load() != 1 {
		t.Errorf("asked for %d titles that nobody wanted", titles.Load()-1)
	}
}

func TestTitles_atAServer(t *testing.T) {
	t.Parallel()
	env, titles := titleProvider(t)
	d, _ := newServedDesk(t, env)
	if got := d.must("", "ask", "Where do I get tea?"); !strings.Contains(got, "Everywhere.") {
		t.Fatalf("the answer is %q", got)
	}
	id := regexp.MustCompile(`"sessionId":"([^"]+)"`).FindStringSubmatch(d.must("", "sessions", "list", "--json"))[1]
	said := sayUntilTitled(d, func() { d.must("", "send", id, "And now?") })
	wantTitledOnce(d)
	if list := d.must("", "sessions", "list", "--json"); !strings.Contains(list, fmt.Sprintf(`"version":%d,`, 2+said)) {
		t.Errorf("after %d more messages: %s", said, list)
	}
	if titles.Load() != 1 {
		t.Errorf("asked for %d titles", titles.Load())
	}
}

// A command that ends with its answer does not wait for a title, and has the
// answer whether or not the title was in time.
func TestTitles_ofACommand(t *testing.T) {
	t.Parallel()
	env, titles := titleProvider(t)
	d := newDesk(t)
	maps.Copy(d.env, env)
	if got := d.must("", "ask", "Where do I get tea?"); !strings.Contains(got, "Everywhere.") || titles.Load() != 1 {
		t.Errorf("the answer is %q, and %d titles were asked for", got, titles.Load())
	}
	if list := d.must("", "sessions", "list"); !strings.Contains(list, "Tea in Oslo") && !strings.Contains(list, "Where do I get tea?") {
		t.Errorf("listed as\n%s", list)
	}
}

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// taskDesk is a desk with a person at it, whose model writes a note, twice.
func taskDesk(t *testing.T) (d *desk, folder string) {
	t.Helper()
	d = personAt(t, func(r provtest.Request) provtest.Reply {
		body := string(r.Body)
		for n := 1; n <= 2; n++ {
			if !strings.Contains(body, fmt.Sprintf("call-%d", n)) {
				return provtest.Reply{Calls: []provtest.Call{{
					ID: fmt.Sprintf("call-%d", n), Name: "file_write", Arguments: []string{`{"path":"note.txt","content":"noted"}`},
				}}}
			}
		}
		return provtest.Reply{Text: []string{"That is all."}}
	})
	return d, t.TempDir()
}

// personAt is a desk with a person at it, whose model answers so.
func personAt(t *testing.T, choose func(provtest.Request) provtest.Reply) *desk {
	t.Helper()
	server := provtest.OpenAI(provtest.Config{Choose: choose})
	t.Cleanup(server.Close)
	d := newDesk(t)
	d.person, d.screen = true, true
	home := t.TempDir()
	d.env["OPENAI_API_KEY"], d.env["OPENAI_BASE_URL"], d.env["HOME"] = "sk-0123456789abcdef", server.URL, home
	return d
}

func (d *desk) startTask(typed, folder string) int {
	return d.run(strings.NewReader(typed), "task", "start", "note it", "--plan", "none", "--workspace", folder, "--model", "openai/gpt-4o-mini")
}

func noted(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "note.txt"))
	return err == nil
}

// At a terminal the person is asked there, and the answer holds as long as it
// says.
func TestTask_asksAtTheTerminal(t *testing.T) {
	t.Parallel()
	const question = "[y] once"
	for _, c := range []struct {
		typed           string
		code, questions int
		wrote           bool
		next            string
	}{
		{typed: "y\ny\n", code: exitOK, questions: 2, wrote: true},
		{typed: "s\n", code: exitOK, questions: 1, wrote: true},
		{typed: "n\n", code: exitWaiting, questions: 1, next: "holdfast task resume "},
		{typed: "\n", code: exitWaiting, questions: 1, next: "holdfast task approve "},
		{typed: "", code: exitWaiting, questions: 1, next: "holdfast task approve "},
	} {
		d, folder := taskDesk(t)
		if code := d.startTask(c.typed, folder); code != c.code {
			t.Errorf("%q: exit code %d:\n%s", c.typed, code, d.err)
		}
		told := d.err.String()
		if n := strings.Count(told, question); n != c.questions || !strings.Contains(told, c.next) {
			t.Errorf("%q: asked %d times, want %d, then %q:\n%s", c.typed, n, c.questions, c.next, told)
		}
		if noted(folder) != c.wrote {
			t.Errorf("%q: the note is written: %t", c.typed, noted(folder))
		}
		if c.code == exitOK && d.out.String() != "That is all.\n" {
			t.Errorf("%q: it ends with %q", c.typed, d.out)
		}
	}
}

// With --json nobody is asked, not even at a terminal.
func TestTask_jsonNeverAsks(t *testing.T) {
	t.Parallel()
	d, folder := taskDesk(t)
	code := d.run(strings.NewReader("y\ny\n"), "task", "start", "note it", "--plan", "none", "--workspace", folder, "--model", "openai/gpt-4o-mini", "--json")
	if code != exitWaiting || noted(folder) || !strings.Contains(d.out.String(), `"status": "blocked"`) {
		t.Errorf("exit code %d, %q", code, d.out)
	}
}

// A question of the agent is asked there as well, until something is said that
// it takes.
func TestTask_asksItsQuestionAtTheTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typed string
		code  int
		told  []string
	}{
		{typed: "443\n8080\n", code: exitOK, told: []string{" Which port?", "  · 80\n", "  · 8080\n", "none of them", "your answer"}},
		{typed: "\n", code: exitWaiting, told: []string{" Which port?", "your answer", "holdfast task send "}},
		{typed: "", code: exitWaiting, told: []string{" Which port?", "your answer", "holdfast task send "}},
	} {
		d := personAt(t, func(r provtest.Request) provtest.Reply {
			if body := string(r.Body); strings.Contains(body, "call-1") {
				return provtest.Reply{Text: []string{fmt.Sprintf("answered: %t", strings.Contains(body, `"content":"8080"`))}}
			}
			return provtest.Reply{Calls: []provtest.Call{{
				ID: "call-1", Name: "request_user_input", Arguments: []string{`{"question":"Which port?","options":["80","8080"]}`},
			}}}
		})
		if code := d.startTask(c.typed, t.TempDir()); code != c.code {
			t.Errorf("%q: exit code %d:\n%s", c.typed, code, d.err)
		}
		rest := d.err.String()
		for _, want := range c.told {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("%q: %q is not where it should be in\n%s", c.typed, want, d.err)
				break
			}
			rest = after
		}
		if c.code == exitOK && d.out.String() != "answered: true\n" {
			t.Errorf("%q: it ends with %q", c.typed, d.out)
		}
	}
}

package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// A task runs on the server, in its workspace; what it asks for is answered from
// any terminal.
func TestServer_worksOnTasks(t *testing.T) {
	t.Parallel()
	models := provtest.OpenAI(provtest.Config{Key: deskKey, Replies: []provtest.Reply{
		{Calls: []provtest.Call{{ID: "c1", Name: "file_write", Arguments: []string{`{"path":"note.txt","content":"tea"}`}}}},
		{Text: []string{"It is written."}},
	}})
	t.Cleanup(models.Close)
	dir := t.TempDir()
	d, _ := newServedDesk(t, map[string]string{
		"OPENAI_BASE_URL": models.URL, "OPENAI_API_KEY": deskKey, "HOLDFAST_MODEL": "openai/gpt-4.1-mini",
	}, "--allow-write", "--workspace", dir)
	if code := d.run(strings.NewReader(""), "task", "start", "write it down", "--title", "note", "--plan", "none"); code != exitWaiting {
		t.Fatalf("exit code %d:\n%s", code, d.err)
	}
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(d.must("", "task", "list", "--json"))[1]
	if shown := d.must("", "task", "show", id); !strings.Contains(shown, "note · blocked") || !strings.Contains(shown, "note.txt") {
		t.Errorf("shown is %s", shown)
	}
	if got := d.must("", "task", "approve", id); !strings.Contains(got, "It is written.") {
		t.Errorf("the result is %q:\n%s", got, d.err)
	}
	if text, err := os.ReadFile(dir + "/note.txt"); err != nil || string(text) != "tea" {
		t.Errorf("%q, %v", text, err)
	}
	if log := d.must("", "task", "log", id); !strings.Contains(log, "file_write") {
		t.Errorf("the log is %s", log)
	}
	if code := d.run(strings.NewReader(""), "task", "resume", id); code != exitSession {
		t.Errorf("exit code %d:\n%s", code, d.err)
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"task", "start", "x", "--workspace", dir}, exitUsage},
		{[]string{"task", "workspace", id, dir}, exitUnsupported},
		{[]string{"task", "mode", id, "plan"}, exitSession},
	} {
		if code := d.run(strings.NewReader(""), c.args...); code != c.code {
			t.Errorf("%q: exit code %d, want %d:\n%s", c.args, code, c.code, d.err)
		}
	}
}

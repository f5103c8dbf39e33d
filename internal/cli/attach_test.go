package cli

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pixel is a small image.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// attachedFiles makes an image and a text.
func attachedFiles(t *testing.T) (image, text string) {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	image, text = filepath.Join(dir, "dot.png"), filepath.Join(dir, "notes.txt")
	for path, content := range map[string][]byte{image: data, text: []byte("tea")} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return image, text
}

const (
	imagePart = `{"type":"image","data":"` + pixel + `","mediaType":"image/png","name":"dot.png"}`
	textPart  = `{"type":"file","data":"dGVh","mediaType":"text/plain","name":"notes.txt"}`
)

func TestChat_filesAreAttachedToTheNextMessage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	image, text := attachedFiles(t)
	d.must("/attach\n/attach "+image+"\n/attach\nlook at @"+text+", @nobody and a@b\nand this?\n/attach /nowhere\n", "chat", "--name", "s")
	d.tells("nothing is attached", "attached to your next message: dot.png · image/png · 1 KB", "with dot.png", "with notes.txt · text/plain · 1 KB", "attach /nowhere: no such file")
	exported := d.must("", "sessions", "export", "s")
	if want := `"content":[{"type":"text","text":"look at @` + text + `, @nobody and a@b"},` + imagePart + "," + textPart + "]"; strings.Count(exported, want) != 1 {
		t.Errorf("the message is not there once:\n%s\nin\n%s", want, exported)
	}
	if !strings.Contains(exported, `"content":"and this?"`) {
		t.Errorf("the next message has attachments too:\n%s", exported)
	}
	if shown := d.must("", "sessions", "show", "s"); !strings.Contains(shown, "[image dot.png]") {
		t.Errorf("shown as\n%s", shown)
	}
}

func TestChat_linesOfAPipeAttachNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, text := attachedFiles(t)
	d.must("see @"+text+"\n", "chat", "--name", "s")
	if exported := d.must("", "sessions", "export", "s"); !strings.Contains(exported, `"content":"see @`+text+`"`) {
		t.Errorf("more was sent:\n%s", exported)
	}
}

func TestSend_files(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	image, text := attachedFiles(t)
	d.must("", "ask", "--name", "s", "--file", image, "what is this?")
	d.must("", "send", "s", "and these?", "--file", text, "--file", image)
	exported := d.must("", "sessions", "export", "s")
	for _, want := range []string{
		`"content":[{"type":"text","text":"what is this?"},` + imagePart + "]",
		`"content":[{"type":"text","text":"and these?"},` + textPart + "," + imagePart + "]",
	} {
		if !strings.Contains(exported, want) {
			t.Errorf("not sent: %s\nin\n%s", want, exported)
		}
	}
	for path, code := range map[string]int{filepath.Join(t.TempDir(), "none"): exitIO, t.TempDir(): exitIO} {
		if got := d.run(strings.NewReader(""), "send", "s", "x", "--file", path); got != code {
			t.Errorf("%s ended with %d, want %d:\n%s", path, got, code, d.err)
		}
	}
}

// What AGENTS.md says is part of the prompt, once, and can be left out.
func TestChat_agentsFileIsPartOfThePrompt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "AGENTS.md"), []byte("Answer in verse."), 0o600); err != nil {
		t.Fatal(err)
	}
	d.must("", "chat", "--name", "with", "--workspace", dir)
	d.tells("AGENTS.md of the workspace is part of the prompt")
	d.must("", "ask", "--name", "asked", "--workspace", dir, "hello")
	d.must("", "chat", "--name", "without", "--workspace", dir, "--no-agents-file")
	start := []string{"task", "start", "x", "--detach", "--model", "offline/echo", "--workspace", dir, "--title"}
	d.must("", append(start, "task-with")...)
	d.must("", append(start, "task-without", "--no-agents-file")...)
	d.env["HOLDFAST_NO_AGENTS_FILE"] = "1"
	d.must("", "chat", "--name", "never", "--workspace", dir)
	d.must("", append(start, "task-never")...)
	for _, name := range []string{"task-with", "task-without", "task-never"} {
		if shown := d.must("", "task", "show", taskNamed(t, d, name), "--json", "--state"); strings.Contains(shown, `"agents_file":false`) != (name != "task-with") {
			t.Errorf("%s is %s", name, shown)
		}
	}
	for name, want := range map[string]int{"with": 1, "asked": 1, "without": 0, "never": 0} {
		if exported := d.must("", "sessions", "export", name); strings.Contains(exported, "Answer in verse.") != (want == 1) {
			t.Errorf("the prompt of %s:\n%s", name, exported)
		}
	}
}

// taskNamed returns the id of the task with a title.
func taskNamed(t *testing.T, d *desk, title string) string {
	t.Helper()
	var rows []struct{ ID, Title string }
	if err := json.Unmarshal([]byte(d.must("", "task", "list", "--json")), &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Title == title {
			return row.ID
		}
	}
	t.Fatalf("no task %s in %+v", title, rows)
	return ""
}

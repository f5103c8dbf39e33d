package cli

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// withProvider leads the command to a server that gives these replies.
func (d *desk) withProvider(replies ...provtest.Reply) {
	d.t.Helper()
	for name, value := range providerEnv(d.t, replies...) {
		d.env[name] = value
	}
}

func providerEnv(t *testing.T, replies ...provtest.Reply) map[string]string {
	t.Helper()
	server := provtest.OpenAI(provtest.Config{Replies: replies})
	t.Cleanup(server.Close)
	return map[string]string{
		"OPENAI_API_KEY": "sk-good-0123456789abcdef", "OPENAI_BASE_URL": server.URL, "HOLDFAST_MODEL": "openai/gpt-4.1-mini", "HOLDFAST_NO_TITLES": "1",
	}
}

func toolCall(t *testing.T, id, name string, arguments map[string]any) provtest.Reply {
	t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	return provtest.Reply{Calls: []provtest.Call{{ID: id, Name: name, Arguments: []string{string(raw)}}}}
}

func TestChat_asksAPersonAboutACallAndContinues(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person, d.screen, d.env["NO_COLOR"] = true, true, "1"
	dir := t.TempDir()
	write := func(id, text string) provtest.Reply {
		return toolCall(t, id, "file_write", map[string]any{"path": "note.txt", "content": text})
	}
	d.withProvider(
		write("c1", "one\ntwo"), provtest.Reply{Text: []string{"Written."}},
		write("c2", "three"), provtest.Reply{Text: []string{"Denied."}},
		write("c3", "four"), provtest.Reply{Text: []string{"Kept."}},
		write("c4", "five"), provtest.Reply{Text: []string{"Unasked."}},
	)
	d.must("write\nwhat?\ny\nagain\nn\nonce more\n2\nand again\n", "chat", "--name", "s", "--allow-write", "--workspace", dir)
	out, told := d.out.String(), d.err.String()
	for _, want := range []string{"Written.", "Denied.", "Kept.", "Unasked."} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, want := range []string{
		"? the agent wants to use file_write", "path: note.txt", "+one\n    +two\n", "Mode default asks before this.",
		"or add a rule about file_write on path " + dir + "/note.txt:\n", "[2] Allow in this session\n", "that is not one of the choices",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in\n%s", want, told)
		}
	}
	if n := strings.Count(told, "the agent wants to use"); n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "note.txt")); err != nil || string(data) != "five" {
		t.Errorf("the file has %q, %v", data, err)
	}
}

func TestChat_aCallLeftForLaterWaits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person, d.screen = true, true
	d.withProvider(
		toolCall(t, "c1", "request_user_input", map[string]any{"question": "which?", "options": []string{"red", "blue"}}),
		provtest.Reply{Text: []string{"Blue it is."}},
	)
	if code := d.run(strings.NewReader("choose\n\n"), "chat", "--name", "s"); code != exitWaiting {
		t.Fatalf("exit code %d:\n%s", code, d.err)
	}
	if want := "left for later"; !strings.Contains(d.err.String(), want) {
		t.Errorf("no %q in\n%s", want, d.err)
	}
	out := d.must("green\n2\n", "chat", "--session", "s")
	if !strings.Contains(out, "Blue it is.") || !strings.Contains(d.err.String(), `"green" is not offered`) {
		t.Errorf("coming back:\n%s\n%s", out, d.err)
	}
}

func TestSend_asksAtATerminal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("", "chat", "--name", "s")
	d.person, d.screen = true, true
	d.withProvider(toolCall(t, "c1", "shell", map[string]any{"command": "echo one && echo two"}), provtest.Reply{Text: []string{"Done."}})
	out := d.must("y\n", "send", "s", "go", "--allow-shell", "--model", "openai/gpt-4.1-mini", "--workspace", t.TempDir())
	if !strings.Contains(out, "Done.") || !strings.Contains(d.err.String(), "command: echo one && echo two\n") {
		t.Errorf("the answer:\n%s\n%s", out, d.err)
	}
}

func TestChat_killedBetweenQuestionAndResponse(t *testing.T) {
	t.Parallel()
	env := providerEnv(t,
		toolCall(t, "c1", "request_user_input", map[string]any{"question": "which colour?"}),
		provtest.Reply{Text: []string{"Blue it is."}})
	env["HOLDFAST_STORE"] = "sqlite:" + filepath.Join(t.TempDir(), "s.db")
	s := sitWith(t, env)
	s.press("choose\r")
	s.shown.waitAfter(t, "which colour?", "your response")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // it was killed
	out, err := s.holdfast("pending").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "which colour?") {
		t.Fatalf("pending: %v\n%s", err, out)
	}
	respond := s.holdfast("respond", "s", "answer", "-")
	respond.Stdin = io.NopCloser(strings.NewReader("blue\n"))
	if out, err := respond.CombinedOutput(); err != nil || !strings.Contains(string(out), "Blue it is.") {
		t.Errorf("respond: %v\n%s", err, out)
	}
}

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tells says that each text was told on standard error.
func (d *desk) tells(texts ...string) {
	d.t.Helper()
	for _, text := range texts {
		if !strings.Contains(d.err.String(), text) {
			d.t.Errorf("no %q in\n%s", text, d.err)
		}
	}
}

func TestChat_commandsChangeTheSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	d.must("one\ntwo\n/rewind 2\n/history\n/cost\n/model offline/echo\n/model\n/prune 1\n", "chat", "--name", "s")
	d.tells("version 4 · 2 messages", "the model was asked 2 times", "offline/echo answers", "version 5", "version 6")
	if out := d.out.String(); strings.Count(out, "\n  one\n") != 1 || strings.Contains(out, "\n  two\n") {
		t.Errorf("the history after going back is\n%s", out)
	}
	if log := d.must("", "sessions", "log", "s"); !strings.Contains(log, "session_rewound") || !strings.Contains(log, "model_changed") {
		t.Errorf("the log is\n%s", log)
	}
}

func TestChat_toolsVersionsAndANewSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	d.must("one\n/tools\n/versions\n/new second\ntwo\n/versions\n", "chat", "--name", "s")
	d.tells("tools: ", "calculator", "file_read", "   1  ", "· create · by cli", "   2  ", "· send message · by cli", "“second” now; the other one is")
	if first := d.must("", "sessions", "export", "s"); strings.Contains(first, `"content":"two"`) {
		t.Error("the first session heard what was said to the second")
	}
	if second := d.must("", "sessions", "export", "second"); strings.Contains(second, `"content":"one"`) || !strings.Contains(second, `"content":"two"`) {
		t.Errorf("the new session is\n%s", second)
	}
}

func TestChat_historyTellsHowToSeeMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	d.must("one\ntwo\n/history 3\n/history 4\n", "chat")
	d.tells("3 of 4 messages; there are more: /history 4\n")
	if told := d.err.String(); strings.Contains(told, "--") || strings.Count(told, "there are more") != 1 {
		t.Errorf("a chat has no flags, and the second time there is no more:\n%s", told)
	}
}

func TestChat_forkGoesOnInTheCopy(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	d.must("one\n/fork copy\ntwo\n", "chat", "--name", "s")
	d.tells("“copy” now; the other one is")
	if first := d.must("", "sessions", "export", "s"); strings.Contains(first, `"content":"two"`) {
		t.Error("the first session heard what was said to the copy")
	}
	if second := d.must("", "sessions", "export", "copy"); !strings.Contains(second, `"content":"one"`) || !strings.Contains(second, `"content":"two"`) {
		t.Errorf("the copy is\n%s", second)
	}
}

func TestChat_saveWritesADocumentAndReplacesNone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	path := filepath.Join(t.TempDir(), "a file.json")
	d.must("one\n/save "+path+"\ntwo\n/save "+path+"\n", "chat", "--name", "s")
	d.tells("version 2 is in", "file exists")
	saved, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(saved), `"content":"one"`) || strings.Contains(string(saved), `"content":"two"`) {
		t.Fatalf("saved %s, %v", saved, err)
	}
	d.person = false
	d.must("", "sessions", "import", path, "--new-id")
}

func TestChat_mistakesInCommandsAreToldAndChangeNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	d.must("/rewind\n/rewind 99\n/prune none\n/history 0\n/model nobody/x\n/model openai/gpt-4.1\n", "chat", "--name", "s")
	d.tells("give a version from 1 to 1", "99", `"none" is not a number above 0`, `"0" is not a number above 0`, `model "nobody/x" not found`, "set OPENAI_API_KEY")
	if exported := d.must("", "sessions", "export", "s"); !strings.Contains(exported, `"version":1,`) {
		t.Errorf("something changed:\n%s", exported)
	}
}

func TestChat_whatLooksLikeACommandIsNotSaidUnlessMeant(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	d.must("one\n/rewnd 2\n/cost now\n/help me\n/quit now\n /rewind 1\n// a comment\n/etc/hosts is a file\n", "chat", "--name", "s")
	d.tells("/rewnd is not a command; /help lists them", "/cost takes no argument", "/help takes no argument", "/quit takes no argument")
	exported := d.must("", "sessions", "export", "s")
	for _, said := range []string{"one", " /rewind 1", "// a comment", "/etc/hosts is a file"} {
		if !strings.Contains(exported, `"content":"`+said+`"`) {
			t.Errorf("%q was not said", said)
		}
	}
	if !strings.Contains(exported, `"messageCount":8,`) {
		t.Errorf("more was said:\n%s", exported)
	}
}

func TestChat_linesOfAPipeAreSaidNotObeyed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("one\n/rewind 1\n/fork\n/cost of water\n", "chat", "--name", "s")
	exported := d.must("", "sessions", "export", "s")
	for _, said := range []string{"/rewind 1", "/fork", "/cost of water"} {
		if !strings.Contains(exported, `"content":"`+said+`"`) {
			t.Errorf("%q was not said", said)
		}
	}
}

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/internal/ptytest"
)

// varying are the parts of a screen that differ from run to run.
var varying = regexp.MustCompile(`\b[0-9a-f]{8}\b|\b[0-9]+(?:\.[0-9]|m[0-9]{2})?s\b`)

// fromPrompt returns what a screen shows from the first prompt on.
func fromPrompt(text string) string {
	if at := strings.Index(text, "\n› "); at >= 0 {
		text = text[at+1:]
	}
	return varying.ReplaceAllStringFunc(text, func(part string) string {
		if strings.HasSuffix(part, "s") {
			return "TIME"
		}
		return "SESSION."
	})
}

// shows waits until the screen is that of a file, with the cursor as a bar.
// HOLDFAST_UPDATE writes the file anew, once the screen has a text.
func (s *sitting) shows(name, text string) {
	s.t.Helper()
	path := filepath.Join("testdata", "screens", name+".txt")
	if os.Getenv("HOLDFAST_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(s.screen.WaitFor(s.t, text, fromPrompt)+"\n"), 0o600); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.screen.WaitUntil(s.t, strings.TrimSuffix(string(want), "\n"), fromPrompt)
}

func (s *sitting) resize(columns uint16) {
	s.t.Helper()
	s.screen.Resize(int(columns))
	ptytest.SetSize(s.t, s.keys, columns, 24)
}

// The whole screen, while a person edits, pastes and resizes.
func TestChat_screens(t *testing.T) {
	t.Parallel()
	s := sit(t, "0s")
	s.press("日本語 e\u0301 🙂 word\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[Dx")
	s.shows("wide", "x▏ 🙂")
	s.press("\x05\x1b\r\x1b[200~func main() {\r\n\tprintln(\"hi\")\r\n}\x1b[201~ and a line that is longer than a narrow terminal is wide, 日本語")
	s.shows("pasted", "日本語▏")
	s.resize(24)
	s.shows("narrow", "\n  longer")
	s.resize(80)
	s.press("\x1b[A\x1b[A")
	s.shows("wide_again", "{▏")
	s.press("\r")
	s.saved("2")
	s.shows("answered", "TIME\n\n› ▏")
	s.press("\x12MAIN")
	s.shows("search", "search MAIN: 日")
	s.press("\x07/h\t")
	s.shows("choices", "/help  /history")
	s.press("\x15no\x03")
	s.shows("dropped", "^C\n› ▏")
	s.press("\x03")
	s.ends(exitOK)
	s.hears("日本語 e\u0301x 🙂 word\nfunc main() {\n\tprintln(\"hi\")\n} and a line that is longer than a narrow terminal is wide, 日本語")
}

func TestChat_tablesAreAligned(t *testing.T) {
	t.Parallel()
	s := sit(t, "0s")
	s.press("\x1b[200~tea:\n| kind | minutes |\n|---|--:|\n| 玉露 | 2 |\n| sencha, the first | 1 |\n\nenjoy\x1b[201~\r")
	s.saved("2")
	s.shows("table", "TIME\n\n› ▏")
	s.press("\x04")
	s.ends(exitOK)
}

// Ctrl-C during an answer interrupts it, and once more leaves.
func TestChat_interruptTwiceLeaves(t *testing.T) {
	t.Parallel()
	s := sit(t, "1h")
	s.press("a question\r")
	s.shown.wait(t, "You ")
	s.press("\x03")
	s.shown.waitAfter(t, "together with your next one", "› ")
	s.shows("interrupted", "continues it\n\n› ▏")
	s.press("\x03")
	s.ends(exitInterrupted)
}

// A chat that is killed in the middle of an answer continues at the same
// terminal.
func TestChat_killedContinues(t *testing.T) {
	t.Parallel()
	s := sit(t, "1h")
	s.press("a question\r")
	s.shown.wait(t, "You ")
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // it was killed
	// A shell makes its terminal what it was.
	if err := unix.IoctlSetTermios(int(s.tty.Fd()), unix.TCSETS, &s.found); err != nil {
		t.Fatal(err)
	}
	s.env["HOLDFAST_OFFLINE_PACE"] = "0s"
	s.start("chat", "--session", "s")
	s.shown.waitAfter(t, "it was interrupted: continuing", "saved · version 2")
	s.shown.waitAfter(t, "saved · version 2", "› ")
	s.press("\x04")
	s.ends(exitOK)
	s.hears("a question")
}

// What is typed during an answer stands below it, and is sent when it has ended.
func TestChat_typedDuringAnAnswerIsSentAfterIt(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	env := providerEnv(t,
		provtest.Reply{Text: []string{"Words that ", strings.Repeat("fill a line ", 8) + "and more.\nThe end."}, HoldEvents: 2, Release: release},
		provtest.Reply{Text: []string{"Second."}}, provtest.Reply{Text: []string{"Third."}})
	env["HOLDFAST_STORE"] = "file:" + t.TempDir()
	s := sitWith(t, env)
	s.press("one\r")
	s.shown.wait(t, "Words ")
	s.press("two 日本, and more than a narrow terminal shows\r/nothing\rthr\x1b[200~e\ne!\x1b[201~\x1b[D")
	s.shows("typed_ahead", "e▏!")
	s.resize(40)
	s.shows("typed_ahead_narrow", "…")
	s.resize(80)
	s.shows("typed_ahead", "shows\n")
	s.press("?")
	s.screen.WaitFor(t, "e?▏!", fromPrompt) // before the answer goes on
	close(release)
	s.saved("3")
	s.shows("typed_ahead_answered", "e?!▏")
	s.press("\r")
	s.saved("4")
	s.press("\x04")
	s.ends(exitOK)
	s.hears("one", "two 日本, and more than a narrow terminal shows", "thre\ne?!")
}

// Ctrl-C stops the answer, and what was typed during it is there to be edited.
func TestChat_interruptKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	s := sit(t, "1h")
	s.press("a question\r")
	s.shown.wait(t, "You ")
	s.press("queued\rnot sent")
	s.shown.wait(t, "not sent")
	s.press("\x03")
	s.shown.waitAfter(t, "together with your next one", "› ")
	s.shows("interrupted_typing", "not sent▏")
	s.press("\x03")
	s.shows("interrupted_dropped", "^C\n› ▏")
	s.press("\x03")
	s.ends(exitInterrupted)
}

// Ctrl-D during an answer leaves when it has ended.
func TestChat_endOfInputDuringAnAnswerLeavesAfterIt(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	env := providerEnv(t, provtest.Reply{Text: []string{"Words ", "here."}, HoldEvents: 2, Release: release})
	env["HOLDFAST_STORE"] = "file:" + t.TempDir()
	s := sitWith(t, env)
	s.press("one\r")
	s.shown.wait(t, "Words ")
	s.press("\x04")
	s.shown.wait(t, "next: leave")
	close(release)
	s.ends(exitOK)
	s.hears("one")
}

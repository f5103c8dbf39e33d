package cli

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/internal/ptytest"
)

// sitting is the real program at a real terminal, which sends it signals as
// one does.
type sitting struct {
	t      *testing.T
	env    map[string]string
	keys   *os.File
	tty    *os.File
	shown  *transcript
	screen *ptytest.Screen
	cmd    *exec.Cmd
	found  unix.Termios
}

// sit starts a chat in the session "s" with an offline model of that pace.
func sit(t *testing.T, pace string) *sitting {
	t.Helper()
	return sitWith(t, map[string]string{"HOLDFAST_STORE": "file:" + t.TempDir(), "HOLDFAST_OFFLINE_PACE": pace})
}

// sitWith starts a chat in the session "s" in an environment.
func sitWith(t *testing.T, env map[string]string) *sitting {
	t.Helper()
	ours, theirs := ptytest.Open(t, 80)
	s := &sitting{t: t, env: env, keys: ours, tty: theirs, shown: newTranscript(), screen: ptytest.NewScreen(80, 24)}
	if env["XDG_DATA_HOME"] == "" {
		env["XDG_DATA_HOME"] = t.TempDir()
	}
	s.found = s.modes()
	s.start("chat", "--name", "s")
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(io.MultiWriter(s.shown, s.screen), ours) // ends with an error when the other end is closed
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = theirs.Close()
		<-copied
	})
	s.shown.wait(t, "› ")
	return s
}

// start starts the program at the terminal.
func (s *sitting) start(args ...string) {
	s.t.Helper()
	s.cmd = s.holdfast(args...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.tty, s.tty, s.tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// saved waits until a version is saved and the next line is asked for: keys
// that are pressed before are not the editor's.
func (s *sitting) saved(version string) {
	s.t.Helper()
	s.shown.waitAfter(s.t, "saved · version "+version, "› ")
}

func (s *sitting) holdfast(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), "holdfast", args...)
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=1", "GORACE=atexit_sleep_ms=0")
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

func (s *sitting) modes() unix.Termios {
	s.t.Helper()
	modes, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *modes
}

func (s *sitting) press(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the program, which must leave the terminal as it was.
func (s *sitting) ends(want int) {
	s.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.cmd.Wait() // the code is looked at instead
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		s.t.Fatalf("it does not end:\n%s", s.shown)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != want {
		s.t.Errorf("exit code %d, want %d:\n%s", code, want, s.shown)
	}
	if s.modes() != s.found {
		s.t.Error("the terminal is not as it was")
	}
	s.shown.wait(s.t, "\x1b[?2004l") // pasting is as it was
}

// heard are the messages of the person, as they were saved.
func (s *sitting) heard() []string {
	s.t.Helper()
	out, err := s.holdfast("sessions", "export", "s").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	var doc struct {
		State struct {
			Messages []struct{ Role, Content string }
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		s.t.Fatal(err)
	}
	heard := []string{}
	for _, m := range doc.State.Messages {
		if m.Role == "user" {
			heard = append(heard, m.Content)
		}
	}
	return heard
}

func (s *sitting) hears(want ...string) {
	s.t.Helper()
	if got := s.heard(); strings.Join(got, "|") != strings.Join(want, "|") {
		s.t.Errorf("the agent heard %q, want %q", got, want)
	}
}

func TestChat_longLinesArriveWhole(t *testing.T) {
	t.Parallel()
	s := sit(t, "0s")
	long := strings.Repeat("0123456789", 1000) + " the énd"
	s.press(long + "\r")
	s.saved("2")
	s.press("\x04")
	s.ends(exitOK)
	s.hears(long)
}

func TestChat_aPastedBlockIsOneMessage(t *testing.T) {
	t.Parallel()
	s := sit(t, "0s")
	s.press("see: " + "\x1b[200~one\r\ntwo\n\tthree\x1b[31m\r\x1b[201~")
	s.shown.wait(t, "three\uFFFD[31m")
	s.press("\r")
	s.saved("2")
	s.press("\x04")
	s.ends(exitOK)
	s.hears("see: one\ntwo\n\tthree\uFFFD[31m")
}

func TestChat_linesAreEditedAndComeBack(t *testing.T) {
	t.Parallel()
	s := sit(t, "0s")
	s.press("wrld\x1b[D\x1b[D\x1b[Do\x01hello \x05!\r")
	s.saved("2")
	s.press("\x1b[A\x7f?\r")
	s.saved("3")
	s.press("\x04")
	s.ends(exitOK)
	s.hears("hello world!", "hello world?")
}

func TestChat_answersAreWrappedBetweenWords(t *testing.T) {
	t.Parallel()
	s := sit(t, "0s")
	s.press(strings.Repeat("banana ", 20) + "end\r")
	s.saved("2")
	s.press("\x04")
	s.ends(exitOK)
	_, answer, _ := strings.Cut(s.shown.String(), "You said:")
	answer, _, _ = strings.Cut(answer, "I am the offline model")
	for line := range strings.Lines(answer) {
		if words := strings.Fields(line); len(strings.TrimSpace(line)) > 80 || strings.Trim(strings.ReplaceAll(strings.Join(words, ""), "banana", ""), "end.") != "" {
			t.Errorf("a line is %q", line)
		}
	}
	if n := strings.Count(answer, "banana"); n < 20 {
		t.Errorf("%d of the words are there:\n%s", n, answer)
	}
}

// Tab completes commands and file names, and lines of an earlier chat come back.
func TestChat_tabCompletesAndLinesOutliveTheProgram(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	start := func() *sitting {
		return sitWith(t, map[string]string{"HOLDFAST_STORE": "file:" + t.TempDir(), "HOLDFAST_OFFLINE_PACE": "0s", "XDG_DATA_HOME": data})
	}
	s := start()
	s.press("/hel\t\r")
	s.shown.waitAfter(t, "Everything else is sent to the agent", "› ")
	s.press("see editor_linux_t\t!\r")
	s.saved("2")
	s.press("\x04")
	s.ends(exitOK)
	s.hears("see editor_linux_test.go!")
	again := start()
	again.press("\x1b[A\x7f?\r")
	again.saved("2")
	again.press("\x1b[A\x1b[A\x1b[A")
	again.shown.wait(t, "/help")
	again.press("\x15\x04")
	again.ends(exitOK)
	again.hears("see editor_linux_test.go?")
}

func TestChat_interruptWhileTypingDropsTheLineThenLeaves(t *testing.T) {
	t.Parallel()
	s := sit(t, "0s")
	s.press("never said\x03")
	s.shown.waitAfter(t, "^C", "› ")
	s.press("said\r")
	s.saved("2")
	s.press("\x03")
	s.ends(exitOK)
	s.hears("said")
}

func TestChat_interruptDuringAnAnswerAtATerminal(t *testing.T) {
	t.Parallel()
	s := sit(t, "1h")
	s.press("a question\r")
	s.shown.wait(t, "You ")
	s.press("\x03")
	s.shown.waitAfter(t, "together with your next one", "› ")
	s.press("\x04")
	s.ends(exitInterrupted)
}

func TestChat_terminationAtThePromptRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	s := sit(t, "0s")
	s.press("half a li")
	s.shown.wait(t, "half a li")
	if s.modes() == s.found {
		t.Error("the line is not edited at all")
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.ends(exitOK)
}

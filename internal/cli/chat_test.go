package cli

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// talk runs a command line while the test types.
func (d *desk) talk(args ...string) (keyboard *io.PipeWriter, ended <-chan int) {
	in, keyboard := io.Pipe()
	codes := make(chan int, 1)
	go func() { codes <- d.run(in, args...) }()
	return keyboard, codes
}

// exitCode waits for the end of a command line.
func exitCode(t *testing.T, ended <-chan int) int {
	t.Helper()
	select {
	case code := <-ended:
		return code
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	return 0
}

func typed(t *testing.T, keyboard io.Writer, line string) {
	t.Helper()
	if _, err := io.WriteString(keyboard, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func TestChat_promptsAPersonAndSpeaksToNoPipe(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("hello\n", "chat", "--name", "piped")
	if strings.Contains(d.err.String(), "›") {
		t.Errorf("a pipe was prompted:\n%s", d.err)
	}
	d.person = true
	d.must("hello\n", "chat", "--name", "typed")
	if n := strings.Count(d.err.String(), "› "); n != 2 { // one for the message, one at which the input ends
		t.Errorf("%d prompts, want 2:\n%s", n, d.err)
	}
}

func TestChat_linesAreMessagesAndBlanksAreNot(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("one\r\n\n   \n  two words  \n/not a command\nlast without newline", "chat", "--name", "s")
	exported := d.must("", "sessions", "export", "s")
	for _, want := range []string{`"content":"one"`, `"content":"  two words  "`, `"content":"/not a command"`, `"content":"last without newline"`, `"messageCount":8`} {
		if !strings.Contains(exported, want) {
			t.Errorf("no %s in\n%s", want, exported)
		}
	}
}

func TestChat_aPersonsMistypedCommandIsNotSaid(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	d.must("/hlep\n/help\n/info\n/quit\nnever said\n", "chat", "--name", "s")
	told := d.err.String()
	for _, want := range []string{"/hlep is not a command", "interrupt an answer; it is given together", "version    1 · 0 messages"} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in\n%s", want, told)
		}
	}
	if exported := d.must("", "sessions", "export", "s"); !strings.Contains(exported, `"messageCount":0`) {
		t.Errorf("something was said:\n%s", exported)
	}
}

func TestChat_interruptedAnswerIsContinuedByTheNextMessage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person, d.env["HOLDFAST_OFFLINE_PACE"] = true, "1h"
	keyboard, ended := d.talk("chat", "--name", "s")
	typed(t, keyboard, "a question")
	d.out.wait(t, "You ")
	d.signals <- os.Interrupt
	d.err.wait(t, "together with your next one")
	if err := keyboard.Close(); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, ended); code != exitInterrupted {
		t.Errorf("left in the middle with code %d, want %d", code, exitInterrupted)
	}
	if !strings.Contains(d.err.String(), "continue with: holdfast chat --session") {
		t.Errorf("it does not say how to continue:\n%s", d.err)
	}

	d.env["HOLDFAST_OFFLINE_PACE"], d.person = "", false
	if answer := d.must("", "chat", "--session", "s"); !strings.Contains(answer, "You said: a question") {
		t.Errorf("coming back did not continue:\n%s", answer)
	}
	if n := strings.Count(d.must("", "sessions", "export", "s"), `"content":"a question"`); n != 1 {
		t.Errorf("the question is there %d times", n)
	}
}

func TestChat_signalAtThePromptLeavesInPeace(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		d := newDesk(t)
		d.person = true
		keyboard, ended := d.talk("chat", "--name", "s")
		d.err.wait(t, "› ")
		d.signals <- signal
		if code := exitCode(t, ended); code != exitOK {
			t.Errorf("%v at the prompt ended with %d", signal, code)
		}
		_ = keyboard.Close()
	}
}

func TestChat_terminationDuringAnAnswerEndsTheProgram(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person, d.env["HOLDFAST_OFFLINE_PACE"] = true, "1h"
	keyboard, ended := d.talk("chat", "--name", "s")
	typed(t, keyboard, "a question")
	d.out.wait(t, "You ")
	d.signals <- syscall.SIGTERM
	if code := exitCode(t, ended); code != exitInterrupted {
		t.Errorf("ended with %d, want %d", code, exitInterrupted)
	}
	_ = keyboard.Close()
}

func TestChat_mistakeOfATurnDoesNotEndAPersonsConversation(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	keyboard, ended := d.talk("chat", "--name", "s")
	d.err.wait(t, "› ")
	other := newDesk(t)
	other.store = d.store
	other.must("", "sessions", "suspend", "s")
	typed(t, keyboard, "hello?")
	d.err.wait(t, "is suspended")
	other.must("", "sessions", "resume", "s")
	typed(t, keyboard, "hello!")
	d.err.wait(t, "saved · version 4")
	if err := keyboard.Close(); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, ended); code != exitOK {
		t.Errorf("ended with %d:\n%s", code, d.err)
	}
}

func TestPurge_asksAPerson(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("", "chat", "--name", "s")
	d.person = true
	for answer, want := range map[string]int{"n\n": exitCancelled, "\n": exitCancelled, "": exitCancelled, "yes please\n": exitCancelled} {
		if code := d.run(strings.NewReader(answer), "sessions", "purge", "s"); code != want {
			t.Errorf("%q ended with %d, want %d", answer, code, want)
		}
	}
	d.must("", "sessions", "show", "s")
	d.must("Y\n", "sessions", "purge", "s")
	if code := d.run(strings.NewReader(""), "sessions", "show", "s"); code != exitSession {
		t.Errorf("a purged session is shown with code %d", code)
	}
}

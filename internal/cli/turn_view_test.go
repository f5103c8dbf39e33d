package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/session"
)

const deskKey = "sk-desk-0123456789abcdef"

// answers puts a provider at the desk that gives these replies.
func (d *desk) answers(replies ...provtest.Reply) *provtest.Server {
	server := provtest.OpenAI(provtest.Config{Key: deskKey, Replies: replies})
	d.t.Cleanup(server.Close)
	d.env["OPENAI_BASE_URL"], d.env["OPENAI_API_KEY"], d.env["HOLDFAST_MODEL"] = server.URL, deskKey, "openai/gpt-4.1-mini"
	return server
}

// eraseLine begins a line of the program anew.
const eraseLine = "\r\x1b[K"

// ownCodes are the colours of the program itself.
var ownCodes = regexp.MustCompile("\x1b\\[(0|1|2|31|32|33|36)m")

func TestChat_hostileAnswersCannotDriveTheTerminal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.screen = true
	d.answers(
		provtest.Reply{Text: []string{"\x1b]0;owned\x07hi ", "\x1b[35m", "\u009b2J", "\rover", "\u202egnorw"}, Calls: []provtest.Call{{ID: "c1", Name: "calculator", Arguments: []string{`{"expression":"\u001b[2J"}`}}}},
		provtest.Reply{Text: []string{"done \x1b[2J"}},
	)
	d.must("hello\n/history\n", "chat")
	for name, text := range map[string]string{"output": d.out.String(), "errors": d.err.String()} {
		if left := ownCodes.ReplaceAllString(strings.ReplaceAll(text, eraseLine, ""), ""); strings.ContainsAny(left, "\x1b\x07\r\u009b\u202e") {
			t.Errorf("%s: %q", name, left)
		}
	}
	if !strings.Contains(d.out.String(), "hi ") || !strings.Contains(d.out.String(), "done ") {
		t.Errorf("the answer is not there: %q", d.out)
	}
	d.tells("✗ calculator failed")
}

func TestChat_markdownIsSetOffAndKept(t *testing.T) {
	t.Parallel()
	pieces := []string{"# He", "ad\nplain *", "*bo", "ld** and `co", "de **x**` 2*3\n``", "`go\nreturn **p\n``", "`\nend *"}
	const want = "\x1b[1m# Head\x1b[0m\nplain \x1b[1m**bold**\x1b[0m and \x1b[2m`code **x**`\x1b[0m 2*3\n" +
		"\x1b[2m```go\x1b[0m\n\x1b[36mreturn\x1b[0m **p\n\x1b[2m```\x1b[0m\nend *\n"
	seams := strings.NewReplacer("\x1b[0m\x1b[1m", "", "\x1b[0m\x1b[2m", "") // between pieces of one colour
	for _, colours := range []bool{true, false} {
		d := newDesk(t)
		d.screen = colours
		d.answers(provtest.Reply{Text: pieces})
		d.must("hello\n", "chat")
		want := want
		if !colours {
			want = strings.Join(pieces, "") + "\n"
		}
		if got := seams.Replace(d.out.String()); got != want {
			t.Errorf("colours %t: shown is\n%q, want\n%q", colours, got, want)
		}
	}
}

func TestChat_interruptedAnswerOfAProviderIsContinued(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	server := d.answers(
		provtest.Reply{Calls: []provtest.Call{{ID: "c1", Name: "calculator", Arguments: []string{`{"expression":"6*7"}`}}}},
		provtest.Reply{Text: []string{"It ", "is"}, HangEvents: 2},
		provtest.Reply{Text: []string{"It is 42."}},
	)
	keyboard, ended := d.talk("chat", "--name", "s")
	typed(t, keyboard, "how much?")
	d.out.wait(t, "It ")
	d.signals <- os.Interrupt
	d.err.wait(t, "together with your next one")
	typed(t, keyboard, "well?")
	d.out.wait(t, "It is 42.")
	d.err.wait(t, "saved · version 2 · 5 messages")
	if err := keyboard.Close(); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, ended); code != exitOK {
		t.Errorf("ended with %d:\n%s", code, d.err)
	}
	if n := strings.Count(d.err.String(), "→ calculator"); n != 1 {
		t.Errorf("the tool ran %d times:\n%s", n, d.err)
	}
	if calls := server.Calls(); calls.Answered != 2 || calls.Received != 3 {
		t.Errorf("the provider had %+v", calls)
	}
}

// Each word is shown once, whatever a broken connection makes a server send
// again; an answer that begins anew says so.
func TestTurnView_wordsAreShownOnce(t *testing.T) {
	t.Parallel()
	first := holdfast.Attempt{ExecutionID: "e", StepID: "s"}
	second := holdfast.Attempt{ExecutionID: "e", StepID: "s", Number: 1}
	delta := func(a holdfast.Attempt, text string) holdfast.Update {
		return holdfast.Update{Delta: &holdfast.Delta{Attempt: a, Text: text}}
	}
	broken := holdfast.Update{Dropped: &holdfast.Dropped{Attempt: first}}
	failed := holdfast.Update{Dropped: &holdfast.Dropped{Attempt: first, Again: true, PauseSeconds: 2, Reason: "busy"}}
	answer := func(text string) holdfast.Update {
		m := session.Message{ID: "m", StepID: "s", Role: session.RoleAssistant, Content: session.Text(text)}
		return holdfast.Update{Record: &session.LogEntry{Record: session.Record{Seq: 5, Change: session.MessageAdded{Message: m}}}}
	}
	const void = "(this answer was interrupted and does not count)\n"
	for name, c := range map[string]struct {
		updates []holdfast.Update
		want    string
	}{
		"whole":                  {[]holdfast.Update{delta(first, "one "), delta(first, "two"), answer("one two")}, "one two\n"},
		"record alone":           {[]holdfast.Update{answer("one two")}, "one two\n"},
		"sent again in one":      {[]holdfast.Update{delta(first, "one "), broken, delta(first, "one two"), answer("one two")}, "one two\n"},
		"sent again in pieces":   {[]holdfast.Update{delta(first, "one two"), broken, delta(first, "one "), delta(first, "two"), delta(first, " three"), answer("one two three")}, "one two three\n"},
		"the rest is recorded":   {[]holdfast.Update{delta(first, "one "), broken, answer("one two")}, "one two\n"},
		"another attempt":        {[]holdfast.Update{delta(first, "one "), broken, delta(second, "uno"), answer("uno")}, "one \n" + void + "uno\n"},
		"a failed attempt":       {[]holdfast.Update{delta(first, "one "), failed, delta(second, "one two"), answer("one two")}, "one \n" + void + "one two\n"},
		"another was recorded":   {[]holdfast.Update{delta(first, "one "), answer("uno")}, "one \n" + void + "uno\n"},
		"less was recorded":      {[]holdfast.Update{delta(first, "one two"), answer("one")}, "one two\n" + void + "one\n"},
		"broken again and again": {[]holdfast.Update{delta(first, "a"), broken, delta(first, "ab"), broken, delta(first, "abc"), answer("abcd")}, "abcd\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			before, err := session.New(session.Identity{ID: "id", AgentID: "a"}, session.Definition{Name: "a", SystemPrompt: "a"}, session.Seed{}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			n := display.NewTurnView(d.program(strings.NewReader("")).Console, before)
			for _, u := range c.updates {
				n.Take(u)
			}
			n.End()
			if got := d.out.String(); got != c.want {
				t.Errorf("shown is %q, want %q", got, c.want)
			}
			if told := strings.Contains(d.err.String(), "asking again in 2.0s · busy"); told != (name == "a failed attempt") {
				t.Errorf("told is %q", d.err)
			}
		})
	}
}

// The connection is lost in the middle of an answer: the words so far are said
// to be void, and the answer begins anew on a line of its own.
func TestSend_answerThatBreaksOffIsShownAnew(t *testing.T) {
	t.Parallel()
	for _, screen := range []bool{true, false} {
		d := newDesk(t)
		d.screen = screen
		d.answers(
			provtest.Reply{Text: []string{"It is ", "**for", "ty"}, CutAfter: 700},
			provtest.Reply{Cut: true},
			provtest.Reply{Text: []string{"It is ", "42."}},
		)
		d.must("", "chat", "--name", "s")
		d.must("", "send", "s", "how much?", "--stream")
		lines := strings.Split(ownCodes.ReplaceAllString(d.out.String(), ""), "\n")
		const said = "It is **forty"
		silent := 1
		if n := len(lines); n == 2 { // the words were void before they could be shown
			silent = 2
		} else if n != 4 || !strings.HasPrefix(said, lines[0]) || lines[0] == "" || lines[1] != "(this answer was interrupted and does not count)" {
			t.Errorf("on a screen %t: shown is %q", screen, lines)
		}
		if last := lines[len(lines)-2:]; last[0] != "It is 42." || last[1] != "" {
			t.Errorf("on a screen %t: shown is %q", screen, lines)
		}
		if n := strings.Count(d.err.String(), "no answer, asking again"); n != silent {
			t.Errorf("on a screen %t: a failure before the first word is told %d times:\n%s", screen, n, d.err)
		}
		d.screen = false
		if exported := d.must("", "sessions", "export", "s"); strings.Count(exported, `"role":"assistant"`) != 1 {
			t.Errorf("the session has\n%s", exported)
		}
	}
}

func TestSend_toolsAreToldWithWhatTheyAreAskedAndWhyTheyFail(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.answers(
		provtest.Reply{Calls: []provtest.Call{
			{ID: "c1", Name: "calculator", Arguments: []string{`{"expression":`, `"6*7"}`}},
			{ID: "c2", Name: "file_read", Arguments: []string{`{"path":"no such\nfile","offset":1}`}},
			{ID: "c3", Name: "calculator", Arguments: []string{`{"expression":"` + strings.Repeat("1+", 100) + `1"}`}},
		}},
		provtest.Reply{Text: []string{"done"}},
	)
	d.must("", "chat", "--name", "s")
	d.must("", "send", "s", "how much?", "--stream")
	d.tells("→ calculator 6*7\n", "→ file_read path=no such file offset=1\n", "✗ file_read failed · ", "no such file")
	for line := range strings.Lines(d.err.String()) {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("a line of %d: %q", n, line)
		}
	}
}

func TestSend_askingAgainSaysWhyAndWhen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.answers(
		provtest.Reply{Status: 429, Body: `{"error":{"message":"slow down"}}`},
		provtest.Reply{Text: []string{"It is ", "**for", "ty"}, CutAfter: 700},
		provtest.Reply{Text: []string{"It is ", "42."}},
	)
	d.must("", "chat", "--name", "s")
	d.must("", "send", "s", "how much?", "--stream")
	d.tells("no answer, asking again in 0.2s · status 429: slow down\n", "asking again in 0.5s · ")
}

// shownWaiting is the last thing that is told while an answer does not come.
var shownWaiting = regexp.MustCompile(regexp.QuoteMeta(eraseLine) + `waiting for an answer · [0-9]+s` + regexp.QuoteMeta(eraseLine) + `$`)

func TestSend_waitingIsShownAtATerminalUntilTheFirstWord(t *testing.T) {
	t.Parallel()
	for _, screen := range []bool{true, false} {
		d := newDesk(t)
		d.screen = screen
		release := make(chan struct{})
		reply := provtest.Reply{Text: []string{"42."}, HoldEvents: 1, Release: release}
		if !screen {
			reply.Delay = 1500 * time.Millisecond // a terminal would show it by then
		}
		d.answers(reply)
		d.must("", "chat", "--name", "s")
		_, ended := d.talk("send", "s", "how much?", "--stream")
		if screen {
			d.err.wait(t, "waiting for an answer · ")
		}
		close(release)
		if code := exitCode(t, ended); code != exitOK {
			t.Fatalf("ended with %d:\n%s", code, d.err)
		}
		told := ownCodes.ReplaceAllString(d.err.String(), "")
		if shown := shownWaiting.MatchString(told); shown != screen || strings.Contains(told, "waiting") != screen {
			t.Errorf("on a screen %t: told is %q", screen, told)
		}
	}
}

// Somebody else cancels in the middle of an answer: it ends then and there.
func TestChat_cancelFromElsewhereEndsTheAnswer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.person = true
	server := d.answers(provtest.Reply{Text: []string{"It ", "is"}, HangEvents: 2}, provtest.Reply{Text: []string{"It is 42."}})
	keyboard, ended := d.talk("chat", "--name", "s")
	typed(t, keyboard, "how much?")
	d.out.wait(t, "It ")
	other := newDesk(t)
	other.store, other.env = d.store, d.env
	if told := other.must("", "sessions", "cancel", "s"); !strings.HasPrefix(told, "asked ") && !strings.HasPrefix(told, "cancelled ") {
		t.Errorf("cancel says %q", told)
	}
	d.err.wait(t, "saved · version 2 · 1 message")
	d.err.wait(t, "user_requested")
	typed(t, keyboard, "well?")
	d.out.wait(t, "It is 42.")
	d.err.wait(t, "saved · version 3 · 3 messages")
	if err := keyboard.Close(); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, ended); code != exitOK {
		t.Errorf("ended with %d:\n%s", code, d.err)
	}
	if calls := server.Calls(); calls.Received != 2 {
		t.Errorf("the provider had %+v", calls)
	}
}

func TestSend_keyOfAProviderIsNotKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.answers(provtest.Reply{Text: []string{"your key is " + deskKey}})
	d.must("mine is "+deskKey+"\n", "chat", "--name", "s")
	if exported := d.must("", "sessions", "export", "s"); strings.Contains(exported, deskKey) || !strings.Contains(exported, "[secret:OPENAI_API_KEY]") {
		t.Errorf("the document is\n%s", exported)
	}
}

// What a model thinks is one line before its answer; the whole is a command.
func TestChat_reasoningIsFolded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.answers(
		provtest.Reply{Reasoning: []string{"Let me see.\nIt is a sum", " of two.\x1b[2J"}, Calls: []provtest.Call{{ID: "c1", Name: "calculator", Arguments: []string{`{"expression":"40+2"}`}}}},
		provtest.Reply{Reasoning: []string{"So it is 42."}, Text: []string{"4", "2."}},
	)
	d.must("/reasoning\nhow much?\n/reasoning\n", "chat")
	d.tells("the model tells no thoughts")
	told := d.err.String()
	thought, called, again := strings.Index(told, "thought · Let me see. It is a sum"), strings.Index(told, "→ calculator"), strings.Index(told, "thought · So it is 42.")
	if thought < 0 || called < thought || again < called || strings.Count(told, "thought · ") != 2 {
		t.Errorf("told is\n%s", told)
	}
	if want := "42.\nLet me see.\nIt is a sum of two.\uFFFD[2J\n\nSo it is 42.\n"; strings.ReplaceAll(d.out.String(), "\x1b", "\uFFFD") != want {
		t.Errorf("shown is %q, want %q", d.out.String(), want)
	}
}

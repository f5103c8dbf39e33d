package cli_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/tool/sandbox"
)

// TestPages_showWhatTheProgramPrints types what the pages of the documentation
// show, at a real terminal.
func TestPages_showWhatTheProgramPrints(t *testing.T) {
	t.Parallel()
	recordings := []struct {
		names []string
		play  func(*testing.T) *typist
	}{
		{[]string{"run"}, playRun},
		{[]string{"task-start", "task-show"}, playTask},
		{[]string{"chat-tool"}, playChatTool},
		{[]string{"chat-approval"}, playChatApproval},
		{[]string{"send-approval"}, playSendApproval},
		{[]string{"broken-answer"}, playBrokenAnswer},
		{[]string{"live-run"}, playLiveRun},
		{[]string{"sandbox"}, playSandbox},
		{[]string{"import"}, playImport},
		{[]string{"corrupt"}, playCorrupt},
		{[]string{"chat.svg"}, playKilled},
		{[]string{"chat-shell"}, playShell},
		{[]string{"trust"}, playTrust},
		{[]string{"facts"}, playFacts},
	}
	var all []string
	for _, r := range recordings {
		all = append(all, r.names...)
		t.Run(r.names[0], func(t *testing.T) {
			t.Parallel()
			if p := r.play(t); !slices.Equal(p.done, r.names) {
				t.Errorf("%q was compared, want %q", p.done, r.names)
			}
		})
	}
	for path, marks := range marksInPages(t) {
		for _, name := range marks {
			if !slices.Contains(all, name) {
				t.Errorf("%s: nothing produces %s", path, name)
			}
		}
	}
}

func call(name, arguments string) []provtest.Call {
	return []provtest.Call{{ID: "c-" + name, Name: name, Arguments: []string{arguments}}}
}

// turns is the script of a provider that knows the words of its model.
func turns(replies ...provtest.Reply) provtest.Config {
	return provtest.Config{Key: goodKey, Replies: replies}
}

func playRun(t *testing.T) *typist {
	t.Helper()
	p := sitDown(t, 120, provtest.Config{})
	p.does("cp -r " + absolute(t, "../../examples") + " .")
	p.runs(19, "holdfast run examples/workflows/hello-chain.yaml", "default: yes", "")
	p.shown("run")
	return p
}

// playLiveRun looks at a run while a unit of it is answered.
func playLiveRun(t *testing.T) *typist {
	t.Helper()
	release := make(chan struct{})
	p := sitDown(t, 100, provtest.Config{Key: goodKey, Choose: func(r provtest.Request) provtest.Reply {
		used := provtest.Usage{Input: 500, Output: 120}
		if strings.Contains(string(r.Body), "Describe the fixes") {
			return provtest.Reply{Text: []string{"No crash ", "when a file is empty, and the ", "clock is right."}, HoldEvents: 3, Release: release, Usage: used}
		}
		return provtest.Reply{Text: []string{"Sorted."}, Usage: used}
	}})
	p.does("cp -r " + absolute(t, "../../examples") + " .")
	run := p.begin("holdfast run examples/workflows/workflow-release-notes.yaml --var changes=…")
	p.sees("and the")
	p.sees("2 of 4 done")
	p.shown("live-run")
	close(release)
	p.ends(run, 0)
	return p
}

func playTask(t *testing.T) *typist {
	t.Helper()
	plan := `{"description":"repair the service","steps":[{"description":"read service.ini"},{"description":"repair what is wrong"}]}`
	p := sitDown(t, 120, turns(
		provtest.Reply{Text: []string{plan}, Usage: provtest.Usage{Input: 180, Output: 20}},
		provtest.Reply{Calls: call("file_read", `{"path":"service.ini"}`), Usage: provtest.Usage{Input: 200, Output: 20}},
		provtest.Reply{Text: []string{"It listens on port 0."}, Usage: provtest.Usage{Input: 220, Output: 20}},
		provtest.Reply{Calls: call("file_edit", `{"path":"service.ini","old":"port = 0","new":"port = 8080"}`), Usage: provtest.Usage{Input: 200, Output: 20}},
		provtest.Reply{Text: []string{"The service listens on port 8080."}, Usage: provtest.Usage{Input: 220, Output: 20}},
	))
	p.called = "/srv"
	p.file("service/service.ini", "[service]\nport = 0\n")
	p.runsPiped(19, `holdfast task start "The service does not start. Repair it." --workspace service --model openai/gpt-4.1-mini`)
	p.shown("task-start")
	p.runs(0, "holdfast task show "+p.ids[0])
	p.runs(0, "holdfast task approve "+p.ids[0])
	p.shown("task-show")
	return p
}

func playChatTool(t *testing.T) *typist {
	t.Helper()
	p := sitDown(t, 100, turns(
		provtest.Reply{Calls: call("file_read", `{"path":"README.md"}`), Usage: provtest.Usage{Input: 2011, Output: 18}},
		provtest.Reply{Text: []string{"It promises that nothing acknowledged is lost."}, Usage: provtest.Usage{Input: 2200, Output: 78}},
	))
	p.file("README.md", "Nothing acknowledged is lost.\n")
	p.runs(0, "holdfast chat --name trip --model openai/gpt-4.1-mini", "› ", "what does the README promise?\r", "saved", "", "› ", "\x04")
	p.shown("chat-tool")
	return p
}

// packing is the script of an agent that writes a list.
func packing() provtest.Config {
	return turns(
		provtest.Reply{Calls: call("file_write", `{"path":"list.md","content":"coat, boots, tickets\n"}`)},
		provtest.Reply{Text: []string{"The list is in list.md."}},
	)
}

func playChatApproval(t *testing.T) *typist {
	t.Helper()
	p := sitDown(t, 100, packing())
	p.runs(0, "holdfast chat --name trip --model openai/gpt-4.1-mini --allow-write",
		"› ", "write the packing list to list.md\r", "later: ", "y\r", "saved", "", "› ", "\x04")
	p.shown("chat-approval")
	return p
}

func playSendApproval(t *testing.T) *typist {
	t.Helper()
	p := sitDown(t, 140, packing())
	p.does("holdfast chat --name trip --model openai/gpt-4.1-mini </dev/null")
	p.runsPiped(19, `holdfast send trip "Write the packing list to list.md" --allow-write`)
	p.runs(0, "holdfast pending")
	p.runs(0, "holdfast respond trip approve")
	p.shown("send-approval")
	return p
}

func playBrokenAnswer(t *testing.T) *typist {
	t.Helper()
	release := make(chan struct{})
	p := sitDown(t, 140, turns(
		provtest.Reply{Text: []string{"It promises that every", "thing acknowledged is kept."}, HoldEvents: 2, Release: release, CutAfter: 550},
		provtest.Reply{Text: []string{"It promises that nothing acknowledged is lost."}},
	))
	p.does("holdfast chat --name trip --model openai/gpt-4.1-mini </dev/null")
	send := p.begin(`holdfast send trip "What does it promise?" --stream`)
	p.sees("that") // what follows is kept back until the word ends
	close(release) // it was seen before it breaks
	p.ends(send, 0)
	p.shown("broken-answer")
	return p
}

func playShell(t *testing.T) *typist {
	t.Helper()
	p := sitDown(t, 100, turns(
		provtest.Reply{Calls: call("shell", `{"command":"find . -name '*.go' | wc -l"}`)},
		provtest.Reply{Text: []string{"There are 2 Go files."}},
	))
	p.file("a.go", "package a\n")
	p.file("b.go", "package a\n")
	p.runs(0, "holdfast chat --allow-shell", "› ", "how many Go files are here?\r", "later: ", "y\r", "saved", "", "› ", "\x04")
	p.shown("chat-shell")
	return p
}

// playSandbox has a model that looks for keys.
func playSandbox(t *testing.T) *typist {
	t.Helper()
	if status := sandbox.Probe(); !status.Files {
		t.Skip("this machine cannot enforce it: " + status.String())
	}
	p := sitDown(t, 120, turns(
		provtest.Reply{Calls: call("shell", `{"command":"ls -a ~"}`)},
		provtest.Reply{Calls: call("shell", `{"command":"cat ../.ssh/id_ed25519"}`)},
		provtest.Reply{Text: []string{"My home is an empty one, and yours I cannot read."}},
	))
	p.file("../.ssh/id_ed25519", "a key")
	p.runs(0, "holdfast chat --allow-shell --permission-mode bypass_permissions", "› ", "what is my ssh key?\r", "saved", "", "› ", "\x04")
	p.shown("sandbox")
	return p
}

func playTrust(t *testing.T) *typist {
	t.Helper()
	p := sitDown(t, 300, provtest.Config{})
	p.called = "/src/clock"
	p.file(".holdfast/permissions.json", `{"version":1,"rules":[{"effect":"allow","scope":{"kind":"command_prefix","prefix":"make"}}]}`)
	p.runs(0, "holdfast task rules --workspace .")
	p.runs(0, "holdfast task trust .")
	p.runs(0, "holdfast task rules --workspace .")
	p.runs(0, "holdfast task trust --remove .")
	p.shown("trust")
	return p
}

func playFacts(t *testing.T) *typist {
	t.Helper()
	p := sitDown(t, 100, provtest.Config{Key: goodKey, Choose: func(r provtest.Request) provtest.Reply {
		switch body := string(r.Body); {
		case strings.Contains(body, "validFrom"):
			return provtest.Reply{Text: []string{`{"facts":[{"fact":"Ana lives in Oslo.","message":1},{"fact":"Ana's sister Ruth arrives on Friday at nine.","message":1}]}`}}
		case strings.Contains(body, "station"):
			return provtest.Reply{Text: []string{"On Friday before nine: Ruth arrives then."}}
		}
		return provtest.Reply{Text: []string{"I look forward to meeting her."}}
	}})
	p.file("host.md", firstBlock(t, "../../docs/memory.md", "markdown"))
	monday := p.begin("holdfast chat --agent host.md --name monday --user ana")
	p.types("› ", "My sister Ruth arrives on Friday at nine. I live in Oslo.\r", "saved", "")
	for late := time.Now().Add(time.Minute); !strings.Contains(p.does("holdfast memory facts monday"), "Ruth") && time.Now().Before(late); { // in the background
		<-time.After(20 * time.Millisecond)
	}
	p.ends(monday, 0, "› ", "\x04")
	p.runs(0, "holdfast memory facts monday")
	p.runs(0, "holdfast chat --agent host.md --name tuesday --user ana", "› ", "When do I have to be at the station?\r", "saved", "", "› ", "\x04")
	p.shown("facts")
	return p
}

func playImport(t *testing.T) *typist {
	t.Helper()
	p := sitDown(t, 120, provtest.Config{})
	p.file("../.claude/projects/app/0f0e0d0c.jsonl", `{"type":"summary","summary":"Fix the build","leafUuid":"a1"}
{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"0f0e0d0c-0001-4000-8000-000000000001","timestamp":"2026-01-02T10:00:00.000Z","message":{"role":"user","content":"make it green"}}
{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"0f0e0d0c-0001-4000-8000-000000000001","timestamp":"2026-01-02T10:00:01.000Z","message":{"id":"msg_1","role":"assistant","model":"claude-sonnet-5-5","content":[{"type":"text","text":"it is green"}],"usage":{"input_tokens":5}}}
`)
	p.runs(0, "holdfast import ~/.claude/projects/app/0f0e0d0c.jsonl")
	p.shown("import")
	return p
}

// playCorrupt damages a record of a session.
func playCorrupt(t *testing.T) *typist {
	t.Helper()
	p := sitDown(t, 140, provtest.Config{})
	p.does("holdfast chat --name trip </dev/null; holdfast send trip hello")
	p.changeStore("UPDATE changes SET data = CAST(replace(CAST(data AS TEXT), 'hello', 'hallo') AS BLOB) WHERE seq = 2")
	p.runs(17, "holdfast sessions log trip")
	p.shown("corrupt")
	return p
}

// playKilled has a chat killed in the middle of an answer, for the picture of
// the README.
func playKilled(t *testing.T) *typist {
	t.Helper()
	p := sitDown(t, 100, provtest.Config{})
	p.runs(0, "holdfast chat --name trip", "› ", "Do I need a coat in Oslo?\r", "saved", "", "› ", "\x04")
	p.env = append(p.env, "HOLDFAST_OFFLINE_PACE=1h")
	killed := p.begin("holdfast chat --session trip")
	p.types("/help", "", "› ", "And on Sunday?\r", "You", "")
	if err := syscall.Kill(-killed.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.ends(killed, -1)
	p.write("\nKilled\n")
	p.env = append(p.env, "HOLDFAST_OFFLINE_PACE=0s")
	p.runs(0, "holdfast chat --session trip", "continuing", "", "saved", "", "› ", "\x04")
	p.runs(0, "holdfast sessions list")
	p.pictured("chat.svg", "A chat is killed with kill -9 in the middle of an answer and continued")
	return p
}

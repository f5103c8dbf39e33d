package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTask_startToItsEnd(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "read the file", "repair the file")
	out, errs := b.start(0, folder, "--title", "the clock", "--permission-mode", "accept_edits", "--check", "grep -q 30 service.ini")
	if out != "It is 30 now.\n" || b.read("work", "service.ini") != "timeout = 30\n" {
		t.Errorf("it ends with %q and %q", out, b.read("work", "service.ini"))
	}
	b.contains(errs, "plan · the repair", "  · read the file", "▸ read the file", "→ file_read", "✓ read the file",
		"▸ repair the file", "→ file_edit", "✓ repair the file", "verification passed", "task completed")
	id := b.task()
	out, _ = b.run(0, "task", "list")
	b.contains(out, "ID", "TITLE", "STATUS", "PROGRESS", "COST", id[:8], "the clock", "completed", "2/2", "$0.000045")
	out, _ = b.run(0, "task", "list", "--status", "failed", "--json")
	if strings.TrimSpace(out) != "[]" {
		t.Errorf("failed ones are %s", out)
	}
	out, _ = b.run(0, "task", "show", id[:8])
	b.contains(out, "the clock · completed", "✓ read the file", "✓ repair the file", "It is 30 now.", "5 turns · 2 tool calls", "next: holdfast task send")
	out, _ = b.run(0, "task", "log", id)
	b.contains(out, "user · repair it", "plan · the repair", "→ file_edit", "assistant · It is 30 now.", "task completed")
	out, _ = b.run(0, "task", "show", id, "--json", "--state")
	shown := jsonOf(t, out)
	row, _ := shown["row"].(map[string]any)
	state, _ := shown["state"].(map[string]any)
	if row["status"] != "completed" || row["terminalStatus"] != "ok" || row["id"] != id || state["plan"] == nil {
		t.Errorf("shown as %s", out)
	}
}

// Without a terminal nobody is asked: the task waits in the store, and any
// other process answers.
func TestTask_blocksAndIsAnsweredFromElsewhere(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "read the file", "repair the file")
	_, errs := b.start(19, folder)
	b.contains(errs, "? ", "file_edit", "awaiting approval", "holdfast task approve ")
	id := b.task()
	if got := b.read("work", "service.ini"); got != "timeout = 3O\n" {
		t.Errorf("unasked it made %q", got)
	}
	out, _ := b.run(0, "task", "show", id)
	b.contains(out, "blocked", "✓ read the file", "▸ repair the file", "? ", "next: holdfast task approve")
	_, errs = b.run(17, "task", "resume", id)
	b.contains(errs, "is blocked: the task cannot be resumed")
	asked := b.openai.Calls().Received
	out, _ = b.run(0, "task", "approve", id)
	if out != "It is 30 now.\n" || b.read("work", "service.ini") != "timeout = 30\n" {
		t.Errorf("approved, it ends with %q and %q", out, b.read("work", "service.ini"))
	}
	if n := b.openai.Calls().Received - asked; n != 1 {
		t.Errorf("the model was asked %d times for what was left", n)
	}
}

// A question of the agent waits in the store as well, and a message answers it.
func TestTask_asksAndIsAnsweredFromElsewhere(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "ask for the port")
	_, errs := b.start(19, folder)
	b.contains(errs, "? Which port?", "paused (needs user action)", `holdfast task send `, `"…"`)
	id := b.task()
	out, _ := b.run(0, "task", "show", id)
	b.contains(out, "paused", "▸ ask for the port", "? Which port?", "· 80", "· 8080", "next: holdfast task send "+id[:8])
	b.run(17, "task", "resume", id)
	_, errs = b.run(2, "task", "approve", id)
	b.contains(errs, "waits for an answer")
	_, errs = b.run(2, "task", "send", id, "443")
	b.contains(errs, `"443" is not offered; choose one of 80, 8080`)
	asked := b.openai.Calls().Received
	out, errs = b.run(0, "task", "send", id, "8080")
	b.contains(errs, "this answers: Which port?", "task completed")
	if out != "It listens.\n" || b.openai.Calls().Received != asked+1 {
		t.Errorf("answered, it ends with %q after %d requests", out, b.openai.Calls().Received-asked)
	}
	if out, _ = b.run(0, "task", "send", id, "thank you"); !strings.HasPrefix(out, "queued ") { // nothing is asked any more
		t.Errorf("a message is %q", out)
	}
}

func TestTask_anAnswerIsKeptAsLongAsItSays(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "make a folder", "make a folder again")
	b.start(19, folder)
	if _, errs := b.run(2, "task", "approve", b.task(), "--for", "ever"); !strings.Contains(errs, `"ever"`) {
		t.Errorf("told %s", errs)
	}
	b.run(0, "task", "approve", b.task(), "--for", "session") // it would ask for the second otherwise
	out, _ := b.run(0, "task", "rules", b.task())
	b.contains(out, "allow", "session", "command_prefix:mkdir -p marks")
	out, _ = b.run(0, "task", "log", b.task())
	if strings.Count(out, "→ shell") != 2 || strings.Count(out, "? ") != 1 {
		t.Errorf("this happened:\n%s", out)
	}
}

func TestTask_denied(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "repair the file")
	b.start(19, folder)
	_, errs := b.run(19, "task", "deny", b.task())
	b.contains(errs, "paused (needs user action)", "User denied approval")
	if got := b.read("work", "service.ini"); got != "timeout = 3O\n" {
		t.Errorf("denied, it made %q", got)
	}
	out, _ := b.run(0, "task", "resume", b.task()) // the model knows, and goes on without
	if out != "It is 30 now.\n" {                  // so it says
		t.Errorf("it ends with %q", out)
	}
}

func TestTask_deniedGoesOn(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "repair the file")
	b.start(19, folder)
	b.run(0, "task", "deny", b.task(), "--go-on")
	if got := b.read("work", "service.ini"); got != "timeout = 3O\n" {
		t.Errorf("denied, it made %q", got)
	}
}

// What comes too late says how the task stands, changes nothing and ends
// with 17.
func TestTask_late(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "read the file")
	b.start(0, folder)
	id := b.task()
	before, _ := b.run(0, "task", "show", id, "--json")
	for _, args := range [][]string{
		{"resume", id},
		{"continue", id},
		{"approve", id},
		{"deny", id, "approval-1"},
		{"feedback", id, "current", "skip"},
		{"mode", id, "plan"},
		{"workspace", id, folder},
		{"rules", id, "add", "--tool", "shell"},
	} {
		_, errs := b.run(17, append([]string{"task"}, args...)...)
		b.contains(errs, "has ended: it is completed")
		if strings.Count(errs, "completed") != 1 {
			t.Errorf("%q says it more than once:\n%s", args, errs)
		}
	}
	b.run(0, "task", "cancel", id) // it has ended: nothing to do
	if after, _ := b.run(0, "task", "show", id, "--json"); after != before {
		t.Errorf("the row was\n%s and is\n%s", before, after)
	}
}

func TestTask_refusesWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "repair the file")
	for _, more := range [][]string{
		{"--mode", "fly"}, {"--permission-mode", "all"}, {"--plan", filepath.Join(b.dir, "none.json")}, {"--workspace", filepath.Join(b.dir, "none")},
	} {
		want := 2
		if more[0] == "--plan" {
			want = 12
		}
		b.start(want, folder, more...)
	}
	if out, _ := b.run(0, "task", "list", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("left behind: %s", out)
	}
	b.start(19, folder)
	id := b.task()
	b.run(17, "task", "approve", id, "approval-1")
	b.run(17, "task", "feedback", id, "step-9", "skip")
	b.run(2, "task", "feedback", id, "step-1", "dance")
	b.run(2, "task", "rules", id, "add", "--command", "*")
	b.run(2, "task", "rules")
	b.run(17, "task", "show", "no-such-task")
}

func TestTask_budgetUsedUpIsContinued(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "read the file")
	_, errs := b.start(20, folder, "--tokens", "40")
	b.contains(errs, "paused (needs user action)", "holdfast task continue ")
	id := b.task()
	b.run(20, "task", "continue", id)
	out, _ := b.run(0, "task", "continue", id, "--tokens", "100000")
	if out != "It has the letter O.\n" {
		t.Errorf("it ends with %q", out)
	}
}

func TestTask_checkThatNeverHoldsFails(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "read the file")
	_, errs := b.start(10, folder, "--check", "false")
	b.contains(errs, "verification failed", "is failed", "holdfast task retry ")
}

func TestTask_sendFeedbackModeAndCancel(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "read the file", "repair the file", "leave a mark")
	b.start(19, folder)
	id := b.task()
	b.run(0, "task", "mode", id, "allow_known")
	b.run(0, "task", "send", id, "in brief, please")
	out, _ := b.run(0, "task", "show", id)
	b.contains(out, "waiting: 1 message")
	b.run(0, "task", "feedback", id, "step-3", "skip")
	b.run(0, "task", "approve", id)
	if _, err := os.Stat(filepath.Join(folder, "marks")); err == nil {
		t.Error("the skipped step was done")
	}
	out, _ = b.run(0, "task", "log", id)
	b.contains(out, "USER UPDATE: in brief, please")
	out, _ = b.run(0, "task", "show", id)
	b.contains(out, "✓ repair the file", "– leave a mark")
	out, _ = b.run(0, "task", "send", id, "and now?", "--resume") // another run
	b.contains(out, "re: and now?")
	out, _ = b.run(0, "task", "show", id, "--json")
	if run := jsonOf(t, out)["run"]; run != 2.0 {
		t.Errorf("it is run %v", run)
	}
}

func TestTask_detachedIsCancelled(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "read the file")
	b.start(0, folder, "--detach")
	id := b.task()
	out, _ := b.run(0, "task", "show", id, "--json")
	if row := jsonOf(t, out); row["status"] != "pending" {
		t.Errorf("it is %v", row["status"])
	}
	b.run(0, "task", "cancel", id)
	_, errs := b.run(17, "task", "resume", id)
	b.contains(errs, "is cancelled")
	if n := b.openai.Calls().Received; n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestTask_checklistAndRules(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "make a list", "repair the file")
	b.start(19, folder)
	id := b.task()
	out, _ := b.run(0, "task", "checklist", id)
	b.contains(out, "✓ repair", "verification item")
	b.run(0, "task", "checklist", id, "--clear-nudge")
	out, _ = b.run(0, "task", "checklist", id, "--json")
	if list := jsonOf(t, out); list["verificationNudgeNeeded"] != false || list["nudgeReason"] != nil {
		t.Errorf("the list is %s", out)
	}
	b.run(0, "task", "rules", id, "add", "--effect", "deny", "--tool", "shell")
	b.run(0, "task", "rules", id, "add", "--effect", "deny", "--tool", "shell")
	out, _ = b.run(0, "task", "rules", id)
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, "tool:shell") {
		t.Errorf("the rules are %s", out)
	}
	b.run(0, "task", "rules", id, "remove", "--effect", "deny", "--tool", "shell")
	if out, _ = b.run(0, "task", "rules", id); out != "" {
		t.Errorf("the rules are %s", out)
	}
	b.run(0, "task", "rules", "--workspace", folder, "add", "--effect", "allow", "--command", "go test")
	out, _ = b.run(0, "task", "rules", "--workspace", folder)
	b.contains(out, "allow", "workspace_db", "command_prefix:go test")
}

func TestTask_exportAndImport(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "read the file", "repair the file")
	b.start(19, folder)
	id := b.task()
	b.run(0, "task", "snapshot", id)
	out, _ := b.run(0, "task", "export", id)
	first := jsonOf(t, out)
	if first["schema"] != "session_runtime_v2" || first["sessionId"] != id {
		t.Errorf("exported %s", out)
	}
	file := b.write("task.json", out)
	out, _ = b.run(0, "task", "import", file, "--workspace", folder, "--model", taskModel, "--json")
	row, _ := jsonOf(t, out)["row"].(map[string]any)
	other, _ := row["id"].(string)
	if row["status"] != "interrupted" || other == "" || other == id {
		t.Fatalf("imported as %s", out)
	}
	out, _ = b.run(0, "task", "show", other)
	b.contains(out, "interrupted", "✓ read the file", "next: holdfast task resume")
	b.run(17, "task", "import", b.write("bad.json", `{"schema":"session_runtime_v3","version":3,"conversationHistory":[]}`))
	b.run(0, "task", "mode", other, "accept_edits")
	b.run(0, "task", "resume", other)
	if got := b.read("work", "service.ini"); got != "timeout = 30\n" {
		t.Errorf("it left %q", got)
	}
}

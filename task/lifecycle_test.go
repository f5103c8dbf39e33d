package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

// player is a model that answers by a function of the last message.
type player struct {
	mu     sync.Mutex
	asked  []llm.Request
	answer func(ctx context.Context, n int, r llm.Request) (llm.Response, error)
}

func (p *player) Infer(ctx context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	p.mu.Lock()
	n := len(p.asked)
	p.asked = append(p.asked, r)
	p.mu.Unlock()
	return p.answer(ctx, n, r)
}

func (p *player) calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

// lastText is what the model was told last.
func lastText(r llm.Request) string { return r.Messages[len(r.Messages)-1].Content.Text() }

func says(text string) llm.Response {
	return llm.Response{Content: session.Text(text), FinishReason: "stop", Usage: session.Usage{Input: 10, Output: 5}}
}

func callsTool(id, name, arguments string) llm.Response {
	return llm.Response{
		ToolCalls:    []session.ToolCall{{ID: id, Name: name, Arguments: json.RawMessage(arguments)}},
		FinishReason: "tool_calls", Usage: session.Usage{Input: 10, Output: 5},
	}
}

// script answers with each line in turn; a line that begins with "call:" is a
// call of a tool: call:ID:NAME:ARGUMENTS.
func script(lines ...string) func(context.Context, int, llm.Request) (llm.Response, error) {
	return func(_ context.Context, n int, _ llm.Request) (llm.Response, error) {
		if n >= len(lines) {
			return llm.Response{}, fmt.Errorf("the script has %d lines and was asked for %d", len(lines), n+1)
		}
		return line(lines[n]), nil
	}
}

func line(text string) llm.Response {
	if rest, ok := strings.CutPrefix(text, "call:"); ok {
		parts := strings.SplitN(rest, ":", 3)
		return callsTool(parts[0], parts[1], parts[2])
	}
	return says(text)
}

// counter is a tool that counts its runs.
type counter struct {
	name   string
	nature tool.Nature

	mu   sync.Mutex
	runs []string // ids of calls
	do   func(ctx context.Context) (tool.Result, error)
}

func (c *counter) Spec() tool.Spec {
	return tool.Spec{Name: c.name, Description: "Counts.", Nature: c.nature}
}

func (c *counter) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	c.mu.Lock()
	c.runs = append(c.runs, call.ID)
	c.mu.Unlock()
	if c.do != nil {
		return c.do(ctx)
	}
	return tool.Result{Content: c.name + " ran"}, nil
}

func (c *counter) ran() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.runs)
}

// tools is a registry of fixed tools that can check commands.
type tools struct {
	list  []tool.Tool
	check func(command string) (string, bool)
}

func (t tools) Tools(context.Context, task.Workspace) ([]tool.Tool, error) { return t.list, nil }

func (t tools) Check(_ context.Context, _ task.Workspace, command string) (string, bool, error) {
	output, ok := t.check(command)
	return output, ok, nil
}

// house is an executor and all that is around it.
type house struct {
	*testing.T
	*player
	st store.Store
	rt *holdfast.Runtime
	x  *task.Executor

	mu     sync.Mutex
	warned []string
}

func newHouse(t *testing.T, answer func(context.Context, int, llm.Request) (llm.Response, error), change ...func(*task.Config)) *house {
	t.Helper()
	return houseOn(t, inmem.New(inmem.Config{}), answer, change...)
}

func houseOn(t *testing.T, st store.Store, answer func(context.Context, int, llm.Request) (llm.Response, error), change ...func(*task.Config)) *house {
	t.Helper()
	h := &house{T: t, player: &player{answer: answer}, st: st}
	c := task.Config{Warn: func(format string, args ...any) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.warned = append(h.warned, fmt.Sprintf(format, args...))
	}}
	for _, f := range change {
		f(&c)
	}
	var err error
	h.rt, err = holdfast.New(holdfast.Config{
		Store: st, Models: llm.Map{"m": h.player}, DefaultModel: "m", Poll: 5 * time.Millisecond, Now: c.Clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.rt.Close(); err != nil {
			t.Error(err)
		}
	})
	if h.x, err = task.New(h.rt, c); err != nil {
		t.Fatal(err)
	}
	return h
}

// with gives an executor tools.
func with(list ...tool.Tool) func(*task.Config) {
	return func(c *task.Config) { c.Registry = tools{list: list} }
}

// declared is a tool that does so.
type declared struct {
	tool.Tool
	effects tool.Effects
}

func (d declared) Spec() tool.Spec {
	s := d.Tool.Spec()
	s.Effects = d.effects
	return s
}

func reader(name string) (*counter, tool.Tool) {
	c := &counter{name: name, nature: tool.ReadOnly}
	return c, declared{c, tool.Read}
}

func writer() (*counter, tool.Tool) {
	c := &counter{name: "write"}
	return c, declared{c, tool.Write}
}

// job is a spec without planning.
func job() task.Spec { return task.Spec{ID: "t1", Prompt: "do it", PlanMode: task.PlanNone} }

func (h *house) start(s task.Spec) task.Row {
	h.Helper()
	row, err := h.x.Start(context.Background(), s)
	if err != nil {
		h.Fatal(err)
	}
	return row
}

func (h *house) state() session.TaskState {
	h.Helper()
	s, err := h.x.State(context.Background(), "t1")
	if err != nil {
		h.Fatal(err)
	}
	return s
}

func (h *house) row() task.Row {
	h.Helper()
	row, err := h.x.Get(context.Background(), "t1")
	if err != nil {
		h.Fatal(err)
	}
	return row
}

// events are the names of what happened, in order.
func (h *house) events() []string {
	h.Helper()
	var names []string
	for e, err := range h.rt.Log(context.Background(), "t1", 0) {
		if err != nil {
			h.Fatal(err)
		}
		if told, ok := e.Change.(session.TaskEvent); ok {
			names = append(names, told.Name)
		}
	}
	return names
}

func (h *house) count(event string) int {
	h.Helper()
	n := 0
	for _, name := range h.events() {
		if name == event {
			n++
		}
	}
	return n
}

// seq is the number of the last change.
func (h *house) seq() int64 {
	h.Helper()
	var last int64
	for e, err := range h.rt.Log(context.Background(), "t1", 0) {
		if err != nil {
			h.Fatal(err)
		}
		last = e.Seq
	}
	return last
}

// open is the only call that waits for a response.
func (h *house) open() session.PendingCall {
	h.Helper()
	open := h.waiting()
	if len(open) != 1 {
		h.Fatalf("%d calls wait", len(open))
	}
	return open[0]
}

// waiting lists the calls that wait for a response.
func (h *house) waiting() []session.PendingCall {
	h.Helper()
	s, err := h.rt.Get(context.Background(), "t1", holdfast.WithTail())
	if err != nil {
		h.Fatal(err)
	}
	return slices.DeleteFunc(s.PendingCalls(), func(p session.PendingCall) bool { return !p.Waiting() })
}

// responded lists how calls were settled.
func (h *house) responded() []session.Response {
	h.Helper()
	var found []session.Response
	for e, err := range h.rt.Log(context.Background(), "t1", 0) {
		if err != nil {
			h.Fatal(err)
		}
		if c, ok := e.Change.(session.CallResponded); ok && !e.Discarded {
			found = append(found, c.Response)
		}
	}
	return found
}

func (h *house) permissions() session.Permissions {
	h.Helper()
	s, err := h.rt.Get(context.Background(), "t1", holdfast.WithTail())
	if err != nil {
		h.Fatal(err)
	}
	return s.Permissions()
}

func (h *house) stands(status, terminalStatus, class string) {
	h.Helper()
	row := h.row()
	if row.Status != status || row.TerminalStatus != terminalStatus || row.FailureClass != class {
		h.Errorf("the row is %s/%s/%s (%s), want %s/%s/%s", row.Status, row.TerminalStatus, row.FailureClass, row.Error, status, terminalStatus, class)
	}
}

func TestStart_runsAPlanOfOneStepToItsEnd(t *testing.T) {
	t.Parallel()
	read, look := reader("look")
	h := newHouse(t, script("call:c1:look:{}", "all is well"), with(look))
	row := h.start(job())
	h.stands("completed", "ok", "")
	if row.ResultSummary != "all is well" || row.CompletedAt == 0 || row.Run != 1 || row.Projection.BudgetUsage.Turns != 2 {
		t.Errorf("the row is %+v", row)
	}
	if read.ran() != 1 {
		t.Errorf("the tool ran %d times", read.ran())
	}
	want := []string{"task_created", "plan_created", "executing", "step_started", "llm_usage", "tool_call", "tool_result", "llm_usage", "step_completed", "task_completed"}
	if got := slices.DeleteFunc(h.events(), func(n string) bool { return n == "conversation_snapshot" }); !slices.Equal(got, want) {
		t.Errorf("events are %v", got)
	}
}

func TestStart_refusesWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	h := newHouse(t, script())
	for name, change := range map[string]func(*task.Spec){
		"no prompt":             func(s *task.Spec) { s.Prompt = " " },
		"an unknown mode":       func(s *task.Spec) { s.ExecutionMode = "fly" },
		"an unknown permission": func(s *task.Spec) { s.PermissionMode = "all" },
		"an unknown plan mode":  func(s *task.Spec) { s.PlanMode = "maybe" },
		"too many attempts":     func(s *task.Spec) { s.MaxAttempts = 11 },
		"no such workspace":     func(s *task.Spec) { s.Workspace.Root = t.TempDir() + "/none" },
		"two steps of one id": func(s *task.Spec) {
			s.Plan = &session.Plan{Steps: []session.PlanStep{{ID: "a", Description: "x"}, {ID: "a", Description: "y"}}}
		},
		"a step without words":  func(s *task.Spec) { s.Plan = &session.Plan{Steps: []session.PlanStep{{ID: "a"}}} },
		"a criterion of nobody": func(s *task.Spec) { s.SuccessCriteria = &task.SuccessCriteria{Type: "prayer"} },
		"a command nobody runs": func(s *task.Spec) {
			s.SuccessCriteria = &task.SuccessCriteria{Type: "shell_command", Command: "true"}
		},
	} {
		s := job()
		change(&s)
		_, err := h.x.Start(context.Background(), s)
		if !errors.Is(err, session.ErrInvalid) && !errors.Is(err, session.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := h.x.Get(context.Background(), "t1"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%s left something behind: %v", name, err)
		}
	}
}

// yieldNow lets others work between two looks.
func yieldNow() { time.Sleep(time.Millisecond) }

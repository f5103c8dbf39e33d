package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// toolset is the tools of tasks under test.
type toolset []tool.Tool

func (t toolset) Tools(context.Context, task.Workspace) ([]tool.Tool, error) { return t, nil }

// working sets a node up for tasks and runs, with a model that answers by a
// script.
func working(model llm.Model, tools ...tool.Tool) func(*holdfast.Config, *server.Config) {
	return func(h *holdfast.Config, c *server.Config) {
		h.Models = llm.Map{offline.Name: model}
		c.Tasks = &server.Tasks{Executor: func(rt *holdfast.Runtime) (*task.Executor, error) {
			return task.New(rt, task.Config{Registry: toolset(tools), Engine: permission.Engine{}})
		}}
		c.Runs = &server.Runs{Host: func(*holdfast.Runtime) (workflow.Host, error) {
			return workflow.Host{Env: spec.Env{Providers: []string{"offline"}}, Models: func(spec.Model) (string, llm.Model, error) { return offline.Name, model, nil }}, nil
		}}
	}
}

// taskRow is the part of a task that tests look at.
type taskRow struct {
	ID, Title, Status, TerminalStatus string
	ResultSummary                     string
	Version                           int64
	PendingApprovals                  int
}

// until polls a path until its response is as wanted.
func until[T any](n *node, path string, ready func(T) bool) T {
	n.t.Helper()
	for over := time.Now().Add(time.Minute); ; {
		got := want[T](n.t, n.do("GET", path, request{}), 200)
		if ready(got) {
			return got
		}
		if time.Now().After(over) {
			n.t.Fatalf("%s is still %+v", path, got)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// answer is what a model says.
type answer struct {
	text  string
	calls []session.ToolCall
	err   error
}

func says(text string) answer { return answer{text: text} }

// ordered is a model that gives its answers in order, whoever asks.
type ordered struct {
	answers []answer
	asked   atomic.Int64
}

func inOrder(answers ...answer) *ordered { return &ordered{answers: answers} }

func (m *ordered) Infer(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
	n := int(m.asked.Add(1)) - 1
	if n >= len(m.answers) {
		return llm.Response{}, fmt.Errorf("the model was asked %d times", n+1)
	}
	a := m.answers[n]
	return llm.Response{Content: session.Text(a.text), ToolCalls: a.calls}, a.err
}

// launchTool has an effect that permissions ask about.
func launchTool(t *testing.T, ran chan<- struct{}) tool.Tool {
	t.Helper()
	made, err := tool.Func(tool.Spec{Name: "launch", Description: "launches", Effects: tool.System}, func(context.Context, struct{}) (string, error) {
		ran <- struct{}{}
		return "launched", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestTasks_fromStartToItsEnd(t *testing.T) {
	t.Parallel()
	n := newNode(t, working(inOrder(says("It is done."), says("All is well."))))
	body := map[string]any{"prompt": "repair the clock", "title": "clock", "plan": map[string]any{"steps": []any{map[string]any{"description": "repair"}}}}
	r := n.do("POST", "/v1/tasks", request{body: body, header: map[string]string{"Idempotency-Key": "one"}})
	made := want[taskRow](t, r, 201)
	at := "/v1/tasks/" + made.ID
	if made.Title != "clock" || r.header.Get("Location") != at {
		t.Fatalf("%+v %v", made, r.header)
	}
	ended := until(n, at, func(row taskRow) bool { return row.Status == "completed" })
	if ended.ResultSummary != "It is done." {
		t.Errorf("%+v", ended)
	}
	again := want[taskRow](t, n.do("POST", "/v1/tasks", request{body: body, header: map[string]string{"Idempotency-Key": "one"}}), 201)
	if again.ID != made.ID || again.Status != "completed" {
		t.Errorf("the same request again made %+v", again)
	}
	body["prompt"] = "another"
	refused(t, n.do("POST", "/v1/tasks", request{body: body, header: map[string]string{"Idempotency-Key": "one"}}), 422, "conflict_key_reused")
	list := want[struct{ Items []session.Info }](t, n.do("GET", "/v1/tasks?status=completed", request{}), 200)
	if len(list.Items) != 1 || list.Items[0].ID != made.ID || list.Items[0].Task == nil {
		t.Errorf("%+v", list)
	}
	plan := want[session.Plan](t, n.do("GET", at+"/plan", request{}), 200)
	if len(plan.Steps) != 1 || plan.Steps[0].Status != "completed" {
		t.Errorf("%+v", plan)
	}
	refused(t, n.do("POST", at+"/continue", request{}), 409, "task_ended")
	refused(t, n.do("PUT", at+"/plan", request{body: map[string]any{"steps": []any{map[string]any{"description": "x"}}}}), 409, "task_ended")
	refused(t, n.do("GET", "/v1/tasks/"+n.create(request{}).ID, request{}), 404, "not_found")
}

func TestTasks_planChecklistFeedbackAndCancel(t *testing.T) {
	t.Parallel()
	n := newNode(t, working(inOrder()))
	x, err := task.New(n.rt, task.Config{Registry: toolset{}, Engine: permission.Engine{}})
	if err != nil {
		t.Fatal(err)
	}
	row, err := x.Create(t.Context(), task.Spec{Prompt: "wait", PlanMode: task.PlanNone}) // nobody works on it
	if err != nil {
		t.Fatal(err)
	}
	at := "/v1/tasks/" + row.ID
	refused(t, n.do("GET", at+"/plan", request{}), 404, "not_found")
	steps := []any{map[string]any{"description": "first"}, map[string]any{"description": "second", "id": "two"}}
	plan := want[session.Plan](t, n.do("PUT", at+"/plan", request{body: map[string]any{"steps": steps}}), 200)
	if read := want[session.Plan](t, n.do("GET", at+"/plan", request{}), 200); len(read.Steps) != 2 || read.Steps[1].ID != "two" || read.Steps[0] != plan.Steps[0] {
		t.Errorf("%+v", read)
	}
	items := map[string]any{"items": []any{map[string]any{"title": "look", "status": "pending"}}}
	want[struct{}](t, n.do("PUT", at+"/checklist", request{body: items}), 200)
	if list := want[session.Checklist](t, n.do("GET", at+"/checklist", request{}), 200); len(list.Items) != 1 || list.Items[0].Title != "look" {
		t.Errorf("%+v", list)
	}
	send := func(path string, body map[string]any) string {
		return want[struct{ ID string }](t, n.do("POST", at+path, request{body: body, header: map[string]string{"Idempotency-Key": path}}), 202).ID
	}
	if a, b := send("/messages", map[string]any{"text": "also the hands"}), send("/messages", map[string]any{"text": "also the hands"}); a != b {
		t.Error("the same message twice is two")
	}
	if a, b := send("/feedback", map[string]any{"stepId": "two", "action": "skip"}), send("/feedback", map[string]any{"stepId": "two", "action": "skip"}); a != b {
		t.Error("the same feedback twice is two")
	}
	refused(t, n.do("POST", at+"/feedback", request{body: map[string]any{"stepId": "nine", "action": "skip"}}), 404, "not_found")
	waiting := want[struct{ Items []struct{ Kind string } }](t, n.do("GET", "/v1/sessions/"+row.ID+"/inbox", request{}), 200)
	if len(waiting.Items) != 2 {
		t.Errorf("%+v", waiting)
	}
	if gone := want[taskRow](t, n.do("POST", at+"/cancel", request{}), 202); gone.Status != "cancelled" {
		t.Errorf("%+v", gone)
	}
}

// An approval needs its scope; the task continues when it is continued.
func TestTasks_waitForAnApproval(t *testing.T) {
	t.Parallel()
	ran := make(chan struct{}, 1)
	model := inOrder(answer{calls: []session.ToolCall{{ID: "c1", Name: "launch", Arguments: []byte(`{}`)}}}, says("It flies."), says("It flies."))
	n := newNode(t, working(model, launchTool(t, ran)))
	made := want[taskRow](t, n.do("POST", "/v1/tasks", request{body: map[string]any{"prompt": "launch it", "planMode": "none"}}), 201)
	at := "/v1/tasks/" + made.ID
	until(n, at, func(row taskRow) bool { return row.Status == "blocked" })
	refused(t, n.do("POST", at+"/continue", request{}), 409, "not_resumable")
	page := want[holdfast.PendingPage](t, n.do("GET", "/v1/pending?kind=task", request{}), 200)
	if len(page.Items) != 1 || page.Items[0].Session.ID != made.ID {
		t.Fatalf("%+v", page)
	}
	call := "/v1/sessions/" + made.ID + "/pending/" + page.Items[0].ID
	refused(t, n.do("POST", call, request{key: n.key("default", apikey.Read, apikey.Write), body: map[string]any{"action": "approve"}}), 403, "forbidden")
	want[struct{}](t, n.do("POST", call, request{body: map[string]any{"action": "approve"}}), 202)
	if r := n.do("POST", at+"/continue", request{}); r.status != 202 && r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	until(n, at, func(row taskRow) bool { return row.Status == "completed" })
	if len(ran) != 1 {
		t.Error("the approved call did not run")
	}
}

// A key that may not approve calls cannot start a task that asks for nothing.
func TestTasks_whatRunsUnaskedNeedsTheScopeApprove(t *testing.T) {
	t.Parallel()
	n := newNode(t, working(inOrder()))
	key := n.key("default", apikey.Read, apikey.Write)
	for _, body := range []map[string]any{
		{"prompt": "x", "permissionMode": "bypass_permissions"},
		{"prompt": "x", "successCriteria": map[string]any{"type": "shell_command", "command": "true"}},
	} {
		refused(t, n.do("POST", "/v1/tasks", request{key: key, body: body}), 403, "forbidden")
	}
	refused(t, n.do("POST", "/v1/tasks", request{body: map[string]any{"prompt": "x", "successCriteria": map[string]any{"type": "shell_command", "command": "true"}}}), 403, "forbidden")
	if list := want[struct{ Items []session.Info }](t, n.do("GET", "/v1/tasks", request{}), 200); len(list.Items) != 0 {
		t.Errorf("%+v", list)
	}
}

// The end of a server interrupts its work, and the next process continues it.
func TestWork_endsWithTheServerAndIsContinued(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	n := newNode(t, working(waitingModel{asked}))
	made := want[taskRow](t, n.do("POST", "/v1/tasks", request{body: map[string]any{"prompt": "wait", "planMode": "none"}}), 201)
	<-asked
	n.server.Close()
	refused(t, n.do("POST", "/v1/tasks", request{body: map[string]any{"prompt": "late"}}), 503, "draining")
	row := want[taskRow](t, n.do("GET", "/v1/tasks/"+made.ID, request{}), 200)
	if row.Status != "interrupted" {
		t.Fatalf("%+v", row)
	}
	next := newNodeOn(t, n.store, working(inOrder(says("done"), says("done"))))
	x, err := task.New(next.rt, task.Config{Registry: toolset{}, Engine: permission.Engine{}})
	if err != nil {
		t.Fatal(err)
	}
	found, err := x.Recover(t.Context())
	if err != nil || len(found) != 1 || !found[0].Resumed || found[0].Row.Status != task.Completed {
		t.Errorf("%+v %v", found, err)
	}
}

// waitingModel answers when its context ends, with that.
type waitingModel struct{ asked chan<- struct{} }

func (m waitingModel) Infer(ctx context.Context, _ llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	m.asked <- struct{}{}
	<-ctx.Done()
	return llm.Response{}, context.Cause(ctx)
}

const chainSpec = `
version: 0
name: two steps
runtime: {provider: offline}
inputs:
  required: {topic: {type: string}}
agents:
  writer: {prompt: "Write."}
pattern:
  type: chain
  config:
    steps:
      - {agent: writer, input: "first about {{topic}}"}
      - {agent: writer, input: "then {{steps[0].response}}"}
`

// runState is the part of a run that tests look at.
type runState struct {
	Session   session.Info
	Status    string
	Response  string
	Error     string
	Variables map[string]string
	Pending   []session.PendingCall
}

func TestRuns_fromStartToARedo(t *testing.T) {
	t.Parallel()
	n := newNode(t, working(inOrder(says("one"), says("two"), says("three"))))
	body := map[string]any{"spec": chainSpec, "variables": map[string]string{"topic": "tea"}, "name": "tea-run"}
	keyed := request{body: body, header: map[string]string{"Idempotency-Key": "r1"}}
	r := n.do("POST", "/v1/runs", keyed)
	made := want[runState](t, r, 201)
	at := "/v1/runs/" + made.Session.ID
	if made.Variables["topic"] != "tea" || r.header.Get("Location") != at || made.Session.Name != "tea-run" {
		t.Fatalf("%+v", made)
	}
	ended := until(n, at, func(s runState) bool { return s.Status == "completed" })
	if ended.Response != "two" {
		t.Errorf("%+v", ended)
	}
	if again := want[runState](t, n.do("POST", "/v1/runs", keyed), 201); again.Session.ID != made.Session.ID {
		t.Errorf("the same request again made %s", again.Session.ID)
	}
	body["variables"] = map[string]string{"topic": "coffee"}
	refused(t, n.do("POST", "/v1/runs", keyed), 422, "conflict_key_reused")
	list := want[struct{ Items []session.Info }](t, n.do("GET", "/v1/runs?status=completed", request{}), 200)
	if len(list.Items) != 1 || list.Items[0].Workflow == nil {
		t.Errorf("%+v", list)
	}
	if r := n.do("POST", at+"/redo", request{body: map[string]any{"unit": "step/1"}}); r.status != 202 && r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	until(n, at, func(s runState) bool { return s.Status == "completed" && s.Response == "three" })
	refused(t, n.do("POST", at+"/redo", request{body: map[string]any{"unit": "step/9"}}), 422, "invalid")
	refused(t, n.do("POST", at+"/cancel", request{}), 409, "wrong_status")
	refused(t, n.do("GET", "/v1/runs/"+n.create(request{}).ID, request{}), 404, "not_found")
}

func TestRuns_aQuestionIsAnsweredByItsPendingCall(t *testing.T) {
	t.Parallel()
	n := newNode(t, working(inOrder(says("draft"), says("final"))))
	question := strings.Replace(chainSpec, `      - {agent: writer, input: "then`, "      - {type: hitl, prompt: \"Good?\"}\n      - {agent: writer, input: \"then", 1)
	made := want[runState](t, n.do("POST", "/v1/runs", request{body: map[string]any{"spec": question, "variables": map[string]string{"topic": "tea"}}}), 201)
	at := "/v1/runs/" + made.Session.ID
	waits := until(n, at, func(s runState) bool { return s.Status == "paused" && len(s.Pending) == 1 })
	want[struct{}](t, n.do("POST", "/v1/sessions/"+made.Session.ID+"/pending/"+url.PathEscape(waits.Pending[0].ID), request{body: map[string]any{"action": "answer", "text": "yes"}}), 202)
	if r := n.do("POST", at+"/resume", request{}); r.status != 202 && r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	until(n, at, func(s runState) bool { return s.Status == "completed" && s.Response == "final" })
}

// A spec that comes over HTTP reaches nothing of the server's machine.
func TestRuns_aSpecStaysWithinItself(t *testing.T) {
	t.Parallel()
	n := newNode(t, working(inOrder()))
	for name, change := range map[string][2]string{
		"host":      {"{provider: offline}", "{provider: openai, host: http://127.0.0.1:1}"},
		"secrets":   {"agents:\n", "env: {secrets: [{source: env, key: HOME, name: HOME}]}\nagents:\n"},
		"skills":    {"agents:\n", "skills: [{id: s, path: /etc, description: d}]\nagents:\n"},
		"file":      {`{prompt: "Write."}`, "{$ref: /etc/hosts.yaml}"},
		"schema":    {`{prompt: "Write."}`, `{prompt: "Write.", output_schema: /etc/hosts.json}`},
		"notes":     {"agents:\n", "context_policy: {notes: {file: n.md, include_last: 1}}\nagents:\n"},
		"artifacts": {"agents:\n", "outputs: {artifacts: [{path: a.md, from: \"{{last_response}}\"}]}\nagents:\n"},
		"mcp":       {"agents:\n", "tools: {mcp: [{id: m, command: sh}]}\nagents:\n"},
	} {
		text := strings.Replace(chainSpec, change[0], change[1], 1)
		if text == chainSpec {
			t.Fatalf("%s changes nothing", name)
		}
		p := refused(t, n.do("POST", "/v1/runs", request{body: map[string]any{"spec": text, "variables": map[string]string{"topic": "x"}}}), 422, "invalid_spec")
		if len(p.Errors) == 0 || !strings.Contains(p.Detail, "server") && !strings.Contains(p.Detail, "out of reach") {
			t.Errorf("%s: %+v", name, p)
		}
	}
	refused(t, n.do("POST", "/v1/runs", request{body: map[string]any{"spec": chainSpec}}), 422, "invalid")
	refused(t, n.do("POST", "/v1/runs", request{body: map[string]any{"spec": 3}}), 422, "invalid")
	if list := want[struct{ Items []session.Info }](t, n.do("GET", "/v1/runs", request{}), 200); len(list.Items) != 0 {
		t.Errorf("%+v", list)
	}
}

func TestWork_aServerWithoutItSaysSo(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	refused(t, n.do("POST", "/v1/tasks", request{body: map[string]any{"prompt": "x"}}), 501, "unsupported")
	refused(t, n.do("POST", "/v1/runs", request{body: map[string]any{"spec": chainSpec}}), 501, "unsupported")
}

// A run that fails says so in its state.
func TestRuns_aFailureIsInTheRun(t *testing.T) {
	t.Parallel()
	n := newNode(t, working(inOrder(answer{err: errors.New("no such key")})))
	made := want[runState](t, n.do("POST", "/v1/runs", request{body: map[string]any{"spec": chainSpec, "variables": map[string]string{"topic": "x"}}}), 201)
	got := until(n, "/v1/runs/"+made.Session.ID, func(s runState) bool { return s.Status == "failed" })
	if !strings.Contains(got.Error, "no such key") {
		t.Errorf("%+v", got)
	}
}

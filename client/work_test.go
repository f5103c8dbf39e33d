package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/workflow"
)

// await reads until what it reads is as wanted.
func await[T any](t *testing.T, read func() (T, error), ready func(T) bool) T {
	t.Helper()
	for over := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		got, err := read()
		if err != nil {
			t.Fatal(err)
		}
		if ready(got) {
			return got
		}
		if time.Now().After(over) {
			t.Fatalf("it is still %+v", got)
		}
	}
}

// A task that is started through a connection that breaks is one task.
func TestTasks_throughTheClient(t *testing.T) {
	t.Parallel()
	n := newNode(t, llm.Map{offline.Name: offline.Model{}})
	c, ctx := n.client(t), context.Background()
	n.cut.Store(1)
	row, err := c.StartTask(ctx, client.NewTask{Prompt: "say something", Plan: &client.Plan{Steps: []client.PlanStep{{Description: "say it"}}}})
	if err != nil {
		t.Fatal(err)
	}
	row = await(t, func() (task.Row, error) { return c.Task(ctx, row.ID) }, func(r task.Row) bool { return r.Status == task.Completed })
	if page, err := c.Tasks(ctx, client.Page{Limit: 10}, task.Completed); err != nil || len(page.Items) != 1 || page.Items[0].ID != row.ID {
		t.Errorf("%+v %v", page, err)
	}
	if plan, err := c.TaskPlan(ctx, row.ID); err != nil || len(plan.Steps) != 1 {
		t.Errorf("%+v %v", plan, err)
	}
	if _, err := c.TaskChecklist(ctx, row.ID); err != nil {
		t.Error(err)
	}
	var ended *session.TaskError
	if _, err := c.ContinueTask(ctx, row.ID, task.ContinueOptions{}); !errors.As(err, &ended) || !errors.Is(err, session.ErrTaskTerminal) {
		t.Errorf("%T %v", err, err)
	}
	if _, err := c.SetTaskPlan(ctx, row.ID, client.Plan{Steps: []client.PlanStep{{Description: "x"}}}); !errors.Is(err, session.ErrTaskTerminal) {
		t.Error(err)
	}
	if _, err := c.GiveFeedback(ctx, row.ID, session.StepFeedback{StepID: "current", Action: task.FeedbackSkip}); !errors.Is(err, session.ErrTaskTerminal) {
		t.Error(err)
	}
	if _, err := c.RetryTask(ctx, row.ID); err != nil {
		t.Error(err)
	}
	await(t, func() (task.Row, error) { return c.Task(ctx, row.ID) }, func(r task.Row) bool { return r.Status == task.Completed && r.Run == 2 })
	if _, err := c.Task(ctx, "nothing"); !errors.Is(err, session.ErrNotFound) {
		t.Error(err)
	}
}

const oneStep = `
version: 0
name: one
runtime: {provider: offline}
agents: {a: {prompt: "Say."}}
pattern: {type: chain, config: {steps: [{agent: a, input: "hello"}]}}
`

func TestRuns_throughTheClient(t *testing.T) {
	t.Parallel()
	n := newNode(t, llm.Map{offline.Name: offline.Model{}})
	c, ctx := n.client(t), context.Background()
	n.cut.Store(1)
	if _, err := c.StartRun(ctx, client.NewRun{Spec: oneStep, Name: "one-run"}); err != nil {
		t.Fatal(err)
	}
	done := func(r client.Run) bool { return r.Status == workflow.StatusCompleted }
	r := await(t, func() (client.Run, error) { return c.Run(ctx, "one-run") }, done)
	if r.Response == "" {
		t.Errorf("%+v", r)
	}
	if page, err := c.Runs(ctx, client.Page{}); err != nil || len(page.Items) != 1 {
		t.Errorf("%+v %v", page, err)
	}
	if g, err := c.RunGraph(ctx, r.Session.ID); err != nil || len(g.Nodes) != 1 {
		t.Errorf("%+v %v", g, err)
	}
	if _, err := c.RedoRun(ctx, r.Session.ID, "step/0"); err != nil {
		t.Error(err)
	}
	await(t, func() (client.Run, error) { return c.Run(ctx, "one-run") }, done)
	if _, err := c.CancelRun(ctx, r.Session.ID); !errors.Is(err, session.ErrStatus) {
		t.Error(err)
	}
	if _, err := c.StartRun(ctx, client.NewRun{Spec: "name: x"}); !errors.Is(err, session.ErrSpec) {
		t.Error(err)
	}
}

func TestMemory_throughTheClient(t *testing.T) {
	t.Parallel()
	n := newNode(t, llm.Map{offline.Name: offline.Model{}})
	c, ctx := n.client(t), context.Background()
	made, err := c.Create(ctx, client.NewSession{Definition: &session.Definition{Name: "echo"}, Name: "notes"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Remember(ctx, "notes", memory.ScopeSession, "a/b", map[string]int{"n": 1}); err != nil {
		t.Fatal(err)
	}
	if e, err := c.Memory(ctx, "notes", memory.ScopeSession, "a/b"); err != nil || string(e.Value) != `{"n":1}` {
		t.Errorf("%+v %v", e, err)
	}
	if list, err := c.Memories(ctx, "notes", memory.ScopeSession, "a", ""); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := c.Send(ctx, "notes", holdfast.SendMessage{Text: "the zebra is striped"}); err != nil {
		t.Fatal(err)
	}
	none := 0.0
	if hits, err := c.Recall(ctx, "notes", "zebra", memory.RecallOptions{Mode: memory.Keyword, Threshold: &none}); err != nil || len(hits) == 0 {
		t.Errorf("%+v %v", hits, err)
	}
	if page, err := c.Messages(ctx, "notes", memory.HistoryOptions{Limit: 1}); err != nil || len(page.Messages) != 1 {
		t.Errorf("%+v %v", page, err)
	}
	now, err := c.Info(ctx, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if commits, err := c.Commits(ctx, "notes", 1); err != nil || int64(len(commits)) != now.Version-1 {
		t.Errorf("%+v %v", commits, err)
	}
	if entries, err := c.Diff(ctx, "notes", 1, now.Version); err != nil || len(entries) == 0 {
		t.Errorf("%+v %v", entries, err)
	}
	if gone, err := c.Forget(ctx, "notes", memory.ScopeSession, "a/b"); err != nil || !gone {
		t.Errorf("%v %v", gone, err)
	}
	if _, err := c.Memory(ctx, "notes", memory.ScopeSession, "a/b"); !errors.Is(err, session.ErrNotFound) {
		t.Error(err)
	}
}

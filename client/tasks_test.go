package client_test

import (
	"context"
	"encoding/json"
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
	tasks := c.Tasks()
	row, err := tasks.Create(ctx, task.Spec{Prompt: "say something", Plan: &session.Plan{Steps: []session.PlanStep{{Description: "say it"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if row, err = tasks.Wait(ctx, row.ID); err != nil || row.Status != task.Completed {
		t.Fatalf("%+v %v", row, err)
	}
	found := 0
	for listed, err := range tasks.List(ctx, task.Filter{Statuses: []string{task.Completed}}) {
		if found++; err != nil || listed.ID != row.ID {
			t.Errorf("%+v %v", listed, err)
		}
	}
	if found != 1 {
		t.Errorf("%d tasks are listed", found)
	}
	if state, err := tasks.State(ctx, row.ID); err != nil || state.Plan == nil || len(state.Plan.Steps) != 1 {
		t.Errorf("%+v %v", state, err)
	}
	if waiting, err := tasks.Pending(ctx, row.ID); err != nil || len(waiting) != 0 {
		t.Errorf("%+v %v", waiting, err)
	}
	var ended *session.TaskError
	if _, err := tasks.Resume(ctx, row.ID); !errors.As(err, &ended) || !errors.Is(err, session.ErrTaskTerminal) {
		t.Errorf("%T %v", err, err)
	}
	if _, err := tasks.SetPlan(ctx, row.ID, session.Plan{Steps: []session.PlanStep{{Description: "x"}}}); !errors.Is(err, session.ErrTaskTerminal) {
		t.Error(err)
	}
	if _, err := tasks.SetStepFeedback(ctx, row.ID, session.StepFeedback{StepID: "current", Action: task.FeedbackSkip}); !errors.Is(err, session.ErrTaskTerminal) {
		t.Error(err)
	}
	if row, err := tasks.Retry(ctx, row.ID); err != nil || row.Status != task.Completed || row.Run != 2 {
		t.Errorf("%+v %v", row, err)
	}
	if _, err := tasks.Show(ctx, "nothing"); !errors.Is(err, session.ErrNotFound) {
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
	await(t, func() (client.Run, error) { return c.Run(ctx, "one-run") }, func(now client.Run) bool { return done(now) && now.Session.Version > r.Session.Version })
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
	def := echo
	def.Memory = &session.MemoryPolicy{Strategy: session.PruneAll, Blocks: []session.MemoryBlock{{Name: "to do", Limit: 20, Text: "tea"}}}
	made, err := c.Create(ctx, def, holdfast.WithName("notes"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Memory(ctx, "notes")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := m.EditBlock(ctx, "to do", memory.BlockEdit{Do: memory.BlockAppend, Text: "cake"}, memory.IfVersion(0)); err != nil || b.Text != "tea\ncake" || b.Version != 1 {
		t.Errorf("%+v %v", b, err)
	}
	for range 2 {
		if b, err := m.EditBlock(ctx, "to do", memory.BlockEdit{Do: memory.BlockInsert, Text: "milk"}, memory.Once("k")); err != nil || b.Text != "milk\ntea\ncake" || b.Version != 2 {
			t.Errorf("%+v %v", b, err)
		}
	}
	var refused *session.BlockError
	if _, err := m.EditBlock(ctx, "to do", memory.BlockEdit{Do: memory.BlockAppend, Text: "a long way"}); !errors.As(err, &refused) || refused.Have != 24 || refused.Want != 20 {
		t.Errorf("too long: %v", err)
	}
	if _, err := m.EditBlock(ctx, "to do", memory.BlockEdit{Do: memory.BlockSet}, memory.IfVersion(0)); !errors.Is(err, session.ErrConflict) {
		t.Errorf("stale: %v", err)
	}
	if _, err := m.EditBlock(ctx, "diary", memory.BlockEdit{Do: memory.BlockSet}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("not declared: %v", err)
	}
	if blocks, err := m.Blocks(ctx); err != nil || len(blocks) != 1 || blocks[0].Size != 13 || blocks[0].Limit != 20 {
		t.Errorf("%+v %v", blocks, err)
	}
	if _, err := m.Store(ctx, memory.ScopeSession, "a/b", map[string]int{"n": 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Store(ctx, memory.ScopeSession, "a/b", 2, memory.IfVersion(7)); !errors.Is(err, session.ErrConflict) {
		t.Error(err)
	}
	if e, err := m.Store(ctx, memory.ScopeSession, "a/b", 2, memory.IfVersion(1)); err != nil || e.Version != 2 {
		t.Errorf("%+v %v", e, err)
	}
	if e, found, err := m.Get(ctx, memory.ScopeSession, "a/b", memory.At(1)); err != nil || !found || string(e.Value) != `{"n":1}` {
		t.Errorf("%+v %v", e, err)
	}
	if list, err := m.Keys(ctx, memory.ScopeSession, "a", memory.KeyPage{}); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := c.Execute(ctx, "notes", holdfast.SendMessage{Text: "the zebra is striped"}); err != nil {
		t.Fatal(err)
	}
	none := 0.0
	if hits, err := m.Recall(ctx, "zebra", memory.RecallOptions{Mode: memory.Keyword, Threshold: &none}); err != nil || len(hits) == 0 {
		t.Errorf("%+v %v", hits, err)
	}
	if page, err := m.History(ctx, memory.HistoryOptions{Limit: 1}); err != nil || len(page.Messages) != 1 {
		t.Errorf("%+v %v", page, err)
	}
	if _, err := c.Execute(ctx, "notes", holdfast.SendMessage{Message: &session.Message{
		Content: session.Text("from the screen"), Metadata: session.Values{"screen": json.RawMessage(`"home"`)},
	}}); err != nil {
		t.Fatal(err)
	}
	if page, err := m.History(ctx, memory.HistoryOptions{Metadata: map[string]string{"screen": "home"}}); err != nil || page.Total != 2 {
		t.Errorf("%+v %v", page, err)
	}
	if page, err := m.History(ctx, memory.HistoryOptions{Request: "unknown"}); err != nil || page.Total != 0 {
		t.Errorf("%+v %v", page, err)
	}
	now, err := c.Info(ctx, made.ID())
	if err != nil {
		t.Fatal(err)
	}
	if commits, err := c.Commits(ctx, "notes", 1); err != nil || int64(len(commits)) != now.Version-1 {
		t.Errorf("%+v %v", commits, err)
	}
	if entries, err := c.Diff(ctx, "notes", 1, now.Version); err != nil || len(entries) == 0 {
		t.Errorf("%+v %v", entries, err)
	}
	if gone, err := m.Delete(ctx, memory.ScopeSession, "a/b"); err != nil || !gone {
		t.Errorf("%v %v", gone, err)
	}
	if _, found, err := m.Get(ctx, memory.ScopeSession, "a/b"); err != nil || found {
		t.Error(found, err)
	}
}

package task_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

// deltas is a model that streams its answer in pieces, and waits before the
// last until somebody has seen the first.
type deltas struct{ seen chan struct{} }

func (d deltas) Infer(ctx context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if emit != nil {
		emit(llm.Delta{Text: "it is "})
	}
	select {
	case <-d.seen:
	case <-ctx.Done():
		return llm.Response{}, ctx.Err()
	}
	return says("it is done"), nil
}

// Tasks stream: whoever follows one gets the pieces of its answers.
func TestTask_answersAreStreamed(t *testing.T) {
	t.Parallel()
	model := deltas{make(chan struct{})}
	s := newSite(t, task.Config{}, model)
	id := s.create(oneStep())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	got := make(chan string, 1)
	go func() {
		for u, err := range s.rt.Follow(ctx, id, 0) {
			if err != nil {
				return
			}
			if u.Delta != nil && u.Delta.Text != "" {
				got <- u.Delta.Text
				close(model.seen)
				return
			}
		}
	}()
	if result, err := s.x.Resume(context.Background(), id); err != nil || result.Row.Status != task.Completed {
		t.Fatalf("%+v, %v", result, err)
	}
	if text := <-got; text != "it is " {
		t.Errorf("the first piece is %q", text)
	}
}

// A call id that the provider uses twice is another one in the session.
func TestTask_callIDsAreUnique(t *testing.T) {
	t.Parallel()
	look := answers("look", tool.Read, "ok")
	s := newSite(t, task.Config{Registry: kit{look}}, scripted.New(
		replyCalls(callOf("c1", "look", `{"a":1}`)), replyCalls(callOf("c1", "look", `{"a":2}`)), reply("all done, at length")))
	id := s.run(oneStep()).ID
	var ids []string
	for _, m := range s.messages(id) {
		for _, c := range m.ToolCalls {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) != 2 || ids[0] == ids[1] {
		t.Errorf("the calls are %v", ids)
	}
}

// What the runtime has for a definition is there for tasks too.
func TestTask_hasTheMemoryOfItsDefinition(t *testing.T) {
	t.Parallel()
	model := scripted.New(
		replyCalls(callOf("c1", "memory_store", `{"key":"colour","value":"green"}`)), reply("it is kept, and that is all"))
	s := newSiteOn(t, inmem.New(inmem.Config{}), task.Config{}, model)
	sp := oneStep()
	sp.Definition = session.Definition{Name: "painter", Memory: &session.MemoryPolicy{Strategy: session.PruneAll, Tools: true}}
	id := s.run(sp).ID
	offered := slices.ContainsFunc(model.Requests()[0].Tools, func(l llm.Tool) bool { return strings.HasPrefix(l.Name, "memory_") })
	if r := s.results(id)["c1"]; !offered || r.IsError {
		t.Errorf("offered: %v, the result is %+v", offered, r)
	}
}

// A task of an earlier version that was at work has calls without results: they
// get one, and the model decides.
func TestTask_ofAnEarlierVersionGoesOn(t *testing.T) {
	t.Parallel()
	ran := 0
	work := toolOf("work", tool.Write, tool.Once, func(context.Context, tool.Call) (tool.Result, error) {
		ran++
		return tool.Result{Content: "ok"}, nil
	})
	model := scripted.New(reply("never"), reply("all done, at length"))
	s := newSite(t, task.Config{Registry: kit{work}}, model)
	id := s.working(oneStep())
	s.write(id, session.MessageAdded{Message: session.Message{ID: "a", Role: session.RoleAssistant, StepID: "s1", ToolCalls: []session.ToolCall{
		callOf("c1", "work", `{}`), callOf("c2", "work", `{}`),
	}}}, taskEvent(t, "approval_requested", map[string]any{"approval": map[string]any{"id": "p", "callId": "c2", "status": "pending"}}))
	s.alter(id, func(st *session.TaskState) {
		st.Tools.Started, st.Loop.LifetimeTurns = session.NewSet("c1"), 1
		st.Steps.Counts = &session.StepCounts{StepID: "s1", Iterations: 1, LLMCalls: 1}
	}, func(r *session.TaskRow) {
		r.Status, r.TerminalStatus, r.PendingApprovals = task.Blocked, task.TerminalAwaitingApproval, 1
	})
	result, err := s.x.Resume(context.Background(), id)
	if err != nil || result.Row.Status != task.Completed || result.Row.PendingApprovals != 0 || ran != 0 {
		t.Fatalf("%+v, %v; %d calls ran", result, err, ran)
	}
	got := s.results(id)
	if got["c1"].Content != session.UnknownOutcome || !strings.Contains(got["c2"].Content, "Call it again") {
		t.Errorf("the results are %+v", got)
	}
}

type staff map[string]session.Definition

func (s staff) Get(name string) (session.Definition, error) {
	if def, ok := s[name]; ok {
		return def, nil
	}
	return session.Definition{}, &session.NotFoundError{What: "definition", ID: name}
}

// A task gives work to subagents like any agent, and pays for it.
func TestTask_hasSubagents(t *testing.T) {
	t.Parallel()
	model := modelFunc(func(_ context.Context, r llm.Request) (llm.Response, error) {
		switch last := r.Messages[len(r.Messages)-1]; {
		case r.Agent == "cook":
			return says("soup is ready"), nil
		case last.ToolResult != nil:
			return says("the cook says: " + last.ToolResult.Content), nil
		}
		return callsTool("c1", "spawn_subagent", `{"subagent":"cook","prompt":"make soup"}`), nil
	})
	st := inmem.New(inmem.Config{})
	rt, err := holdfast.New(holdfast.Config{
		Store: st, Models: llm.Map{"m": model}, DefaultModel: "m", Definitions: staff{"cook": {Name: "cook", Description: "Cooks."}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	x, err := task.New(rt, task.Config{})
	if err != nil {
		t.Fatal(err)
	}
	row, err := x.Start(context.Background(), task.Spec{
		Prompt: "have soup made", PlanMode: task.PlanNone, PermissionMode: session.PermissionBypass,
		Definition: session.Definition{Name: "boss", Subagents: []string{"cook"}},
	})
	if err != nil || row.Status != task.Completed || !strings.Contains(row.ResultSummary, "soup is ready") {
		t.Fatalf("%+v, %v", row, err)
	}
}

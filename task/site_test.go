package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

// site is a place where tasks are run in tests: a store, a clock that is moved
// by hand, and a model that answers from a script.
type site struct {
	t     *testing.T
	store store.Store
	rt    *holdfast.Runtime
	x     *task.Executor
	model llm.Model

	mu  sync.Mutex
	now time.Time
	ids int
}

func (s *site) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *site) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *site) newID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	return fmt.Sprintf("id-%d", s.ids)
}

// newSite is a place with a model that answers so.
func newSite(t *testing.T, c task.Config, model llm.Model) *site {
	t.Helper()
	return newSiteOn(t, newStore(t), c, model)
}

func newSiteOn(t *testing.T, st store.Store, c task.Config, model llm.Model) *site {
	t.Helper()
	s := &site{t: t, store: st, model: model, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s.open(c)
	return s
}

// open makes a runtime and an executor, as a process does when it starts.
func (s *site) open(c task.Config) {
	s.t.Helper()
	rt, err := holdfast.New(holdfast.Config{
		Store: s.store, Models: llm.Map{"test/model": s.model}, DefaultModel: "test/model", BusyWait: 5 * time.Second, Lease: time.Minute,
		Now: s.clock,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = rt.Close() })
	c.Clock, c.NewID = s.clock, s.newID
	if s.x, err = task.New(rt, c); err != nil {
		s.t.Fatal(err)
	}
	s.rt = rt
}

func planOf(descriptions ...string) *session.Plan {
	p := &session.Plan{Description: "the plan"}
	for i, d := range descriptions {
		p.Steps = append(p.Steps, session.PlanStep{ID: fmt.Sprintf("s%d", i+1), Description: d, Status: "pending"})
	}
	return p
}

// spec is a job with a plan of two steps that may do anything.
func spec() task.Spec {
	return task.Spec{ID: "job", Prompt: "do it", Plan: planOf("first", "second"), PermissionMode: session.PermissionBypass}
}

// create makes a task and returns its id.
func (s *site) create(sp task.Spec) string {
	s.t.Helper()
	row, err := s.x.Create(context.Background(), sp)
	if err != nil {
		s.t.Fatal(err)
	}
	return row.ID
}

// with hands out the owner of a task.
func (s *site) with(id string, fn func(r *task.Run)) {
	s.t.Helper()
	err := s.x.Open(context.Background(), id, func(r *task.Run) error {
		fn(r)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) state(id string) session.TaskState {
	s.t.Helper()
	state, err := s.x.State(context.Background(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// event is one entry of a task's log.
type event struct {
	Kind string
	Seq  int64
	Data map[string]any
}

// events are those of some kinds, all for none.
func (s *site) events(id string, kinds ...string) []event {
	s.t.Helper()
	var list []event
	for e, err := range s.rt.Log(context.Background(), id, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Discarded || len(kinds) > 0 && !contains(kinds, e.Change.Kind()) {
			continue
		}
		raw, err := session.JSON(e.Change)
		if err != nil {
			s.t.Fatal(err)
		}
		found := event{Kind: e.Change.Kind(), Seq: e.Seq}
		if err := json.Unmarshal(raw, &found.Data); err != nil {
			s.t.Fatal(err)
		}
		list = append(list, found)
	}
	return list
}

// only is the one event of a kind.
func (s *site) only(id, kind string) event {
	s.t.Helper()
	list := s.events(id, kind)
	if len(list) != 1 {
		s.t.Fatalf("%d events %s, want 1", len(list), kind)
	}
	return list[0]
}

func contains(list []string, text string) bool {
	for _, l := range list {
		if l == text {
			return true
		}
	}
	return false
}

// messages is everything that was said, whatever the window shows.
func (s *site) messages(id string) []session.Message {
	s.t.Helper()
	whole, err := s.rt.Get(context.Background(), id, holdfast.WithTail(), holdfast.Whole())
	if err != nil {
		s.t.Fatal(err)
	}
	return whole.Messages()
}

// kit is a registry of fixed tools.
type kit []tool.Tool

func (l kit) Tools(context.Context, task.Workspace) ([]tool.Tool, error) { return l, nil }

// fakeTool is a tool made of a function of its arguments.
type fakeTool struct {
	spec tool.Spec
	call func(ctx context.Context, c tool.Call) (tool.Result, error)
}

func (f fakeTool) Spec() tool.Spec { return f.spec }
func (f fakeTool) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	return f.call(ctx, c)
}

func toolOf(name string, effects tool.Effects, nature tool.Nature, call func(ctx context.Context, c tool.Call) (tool.Result, error)) tool.Tool {
	return fakeTool{spec: tool.Spec{Name: name, Nature: nature, Effects: effects}, call: call}
}

// answers is a tool that always says the same.
func answers(name string, effects tool.Effects, text string) tool.Tool {
	return toolOf(name, effects, tool.ReadOnly, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: text}, nil
	})
}

func reply(text string) scripted.Reply {
	return scripted.Reply{Text: text, Usage: session.Usage{Input: 10, Output: 5}, Cost: session.Dollars(0.01)}
}

func replyCalls(list ...session.ToolCall) scripted.Reply {
	return scripted.Reply{ToolCalls: list, Usage: session.Usage{Input: 10, Output: 5}}
}

func callOf(id, name, arguments string) session.ToolCall {
	return session.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(arguments)}
}

func newStore(t *testing.T) *inmem.Store {
	st := inmem.New(inmem.Config{})
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// write puts changes into a task's log as its owner would.
func (s *site) write(id string, changes ...session.Change) {
	s.t.Helper()
	err := s.rt.Hold(context.Background(), id, func(ctx context.Context, h *holdfast.Hold) error {
		_, err := h.Append(ctx, changes...)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// alter makes a task's state and row something else.
func (s *site) alter(id string, state func(*session.TaskState), row func(*session.TaskRow)) {
	s.t.Helper()
	var changes []session.Change
	now, err := s.rt.Get(context.Background(), id, holdfast.WithTail())
	if err != nil {
		s.t.Fatal(err)
	}
	if state != nil {
		next := *now.Task()
		state(&next)
		moves, moved, err := session.TaskMoves(*now.Task(), next)
		if err != nil {
			s.t.Fatal(err)
		}
		if moved {
			changes = append(changes, moves)
		}
	}
	next := now.Info().Task.Clone()
	if row != nil {
		row(&next)
	}
	if state != nil {
		moved := *now.Task()
		state(&moved)
		next.Projection = ptr(moved.Projection())
	}
	changes = append(changes, session.TaskRowChanged{Task: next})
	s.write(id, changes...)
}

// working makes a task that is at work.
func (s *site) working(sp task.Spec) string {
	s.t.Helper()
	id := s.create(sp)
	s.alter(id, nil, func(r *session.TaskRow) { r.Status = task.Executing })
	return id
}

func taskEvent(t *testing.T, name string, payload any) session.Change {
	t.Helper()
	raw, err := session.JSON(payload)
	if err != nil {
		t.Fatal(err)
	}
	return session.TaskEvent{Name: name, Data: raw}
}

func ptr[T any](v T) *T { return &v }

// sleeper is a tool that takes its time.
func sleeper(name string, wait func()) tool.Tool {
	return toolOf(name, tool.Read, tool.ReadOnly, func(context.Context, tool.Call) (tool.Result, error) {
		wait()
		return tool.Result{Content: "at last"}, nil
	})
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

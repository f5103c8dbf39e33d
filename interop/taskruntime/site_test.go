package taskruntime_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/task"
)

// site is a store and an executor whose clock stands still.
type site struct {
	t  *testing.T
	rt *holdfast.Runtime
	x  *task.Executor

	mu  sync.Mutex
	ids int
}

func importing(t *testing.T) *site {
	t.Helper()
	st := inmem.New(inmem.Config{})
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"test/model": scripted.New()}, DefaultModel: "test/model"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = rt.Close()
		_ = st.Close()
	})
	s := &site{t: t, rt: rt}
	if s.x, err = task.New(rt, task.Config{Clock: s.clock, NewID: s.newID, Snapshot: taskruntime.Snapshot}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) clock() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func (s *site) newID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	return fmt.Sprintf("id-%d", s.ids)
}

// importData imports with the clock and the ids of the site.
func (s *site) importData(data []byte, o taskruntime.ImportOptions) (taskruntime.Imported, error) {
	o.Now, o.NewID = s.clock, s.newID
	return taskruntime.Import(s.t.Context(), s.x, data, o)
}

func (s *site) imported(data string, o taskruntime.ImportOptions) taskruntime.Imported {
	s.t.Helper()
	in, err := s.importData([]byte(data), o)
	if err != nil {
		s.t.Fatal(err)
	}
	return in
}

func (s *site) export(id string, o taskruntime.ExportOptions) json.RawMessage {
	s.t.Helper()
	raw, err := taskruntime.Export(s.t.Context(), s.x, id, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

// spec is a job with a plan of two steps.
func spec() task.Spec {
	return task.Spec{ID: "job", Prompt: "do it", PermissionMode: session.PermissionBypass, Plan: &session.Plan{Description: "the plan", Steps: []session.PlanStep{
		{ID: "s1", Description: "first", Status: "pending"}, {ID: "s2", Description: "second", Status: "pending"},
	}}}
}

func (s *site) create(sp task.Spec) string {
	s.t.Helper()
	row, err := s.x.Create(s.t.Context(), sp)
	if err != nil {
		s.t.Fatal(err)
	}
	return row.ID
}

func (s *site) with(id string, fn func(r *task.Run)) {
	s.t.Helper()
	err := s.x.Open(s.t.Context(), id, func(r *task.Run) error {
		fn(r)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) grants(id string) int {
	s.t.Helper()
	view, err := s.x.View(s.t.Context(), id, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return view.Session.Permissions().TemporaryGrants.Len()
}

func (s *site) state(id string) session.TaskState {
	s.t.Helper()
	state, err := s.x.State(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// snapshots are the events that SaveSnapshot left, as any reader sees them.
func (s *site) snapshots(id string) []event {
	s.t.Helper()
	var list []event
	for _, e := range s.log(id, "conversation_snapshot") {
		found := event{Seq: e.Seq}
		if err := json.Unmarshal(quote(e.Change), &found.Data); err != nil {
			s.t.Fatal(err)
		}
		list = append(list, found)
	}
	return list
}

type event struct {
	Seq  int64
	Data map[string]any
}

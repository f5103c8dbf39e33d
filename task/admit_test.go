package task_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// seqSnapshot is a snapshot that says which change it covers.
func seqSnapshot(v task.View) (json.RawMessage, error) {
	return json.RawMessage(fmt.Sprintf(`{"seq":%d,"waits":%d}`, v.Seq, len(v.Queues.FollowUps))), nil
}

func TestSaveSnapshot_isMadeByTheConfig(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{Snapshot: seqSnapshot}, scripted.New())
	id := s.create(spec())
	if _, err := s.x.QueueFollowUp(t.Context(), id, session.FollowUp{Message: "and this"}); err != nil {
		t.Fatal(err)
	}
	s.with(id, func(r *task.Run) {
		seq, err := r.SaveSnapshot(t.Context())
		saved := s.only(id, task.SnapshotEvent)
		if err != nil || saved.Seq != seq || saved.Data["seq"] != float64(seq) || saved.Data["waits"] != 1.0 {
			t.Errorf("snapshot %d (%v) is %+v", seq, err, saved)
		}
	})
}

func TestSaveSnapshot_withoutAFormatIsUnsupported(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.create(spec())
	s.with(id, func(r *task.Run) {
		if _, err := r.SaveSnapshot(t.Context()); !errors.Is(err, session.ErrUnsupported) {
			t.Errorf("a snapshot in no format: %v", err)
		}
	})
	if n := len(s.events(id, task.SnapshotEvent)); n != 0 {
		t.Errorf("%d snapshots were written", n)
	}
}

func TestSnapshots_areWrittenWhenTheModeSays(t *testing.T) {
	t.Parallel()
	for mode, want := range map[task.SnapshotMode]int{task.SnapshotNever: 0, task.SnapshotOnStop: 1, task.SnapshotEveryStep: 3, "": 1} {
		s := newSite(t, task.Config{Snapshot: seqSnapshot, Snapshots: mode}, scripted.New(reply("one"), reply("two")))
		row, err := s.x.Start(t.Context(), spec())
		if err != nil || row.Status != task.Completed {
			t.Fatalf("%q: %s, %v", mode, row.Status, err)
		}
		if n := len(s.events(row.ID, task.SnapshotEvent)); n != want {
			t.Errorf("%q: %d snapshots, want %d", mode, n, want)
		}
	}
}

func TestAdmit_makesATaskOfOneThatBeganElsewhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	state := session.NewTaskState()
	state.Plan = planOf("first")
	row, err := s.x.Admit(t.Context(), task.Arrival{
		Spec: task.Spec{ID: "taken", Prompt: "go on"}, State: state, Format: "elsewhere", Version: 1,
		Row:      session.TaskRow{Status: task.Executing},
		Queues:   session.TaskQueues{FollowUps: []session.FollowUp{{Message: "and this"}}},
		Messages: []session.Message{{ID: "m", Role: session.RoleUser, Content: session.Text("hello")}},
	})
	if err != nil || row.Status != task.Interrupted || row.TerminalStatus != task.TerminalResumeAvailable || row.Version != 1 || row.Prompt != "go on" {
		t.Fatalf("%+v, %v", row, err)
	}
	v, err := s.x.View(t.Context(), "taken", 0)
	if err != nil || len(v.Queues.FollowUps) != 1 || v.Session.Task().Plan == nil || v.Session.Len() != 1 || v.Seq != v.Session.Seq() {
		t.Errorf("%+v, %v", v, err)
	}
	_, err = s.x.Admit(t.Context(), task.Arrival{Spec: task.Spec{ID: "not", Prompt: "x"}, State: state, Queues: session.TaskQueues{FollowUps: []session.FollowUp{{}}}})
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("an empty follow-up: %v", err)
	}
	if _, err := s.x.View(t.Context(), "not", 0); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("what was refused was made: %v", err)
	}
}

package session_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// A task waits for a worker only if it wants to be resumed and no person has
// stopped it. The stores' suite has the other cases.
func TestDueAt_interruptedTasks(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		auto      bool
		reasons   []string
		completed int64
		due       bool
	}{
		"its process ended":                  {auto: true, reasons: []string{"restart"}, due: true},
		"a person interrupted it":            {auto: true, reasons: []string{"restart", "user"}},
		"it does not want to be resumed":     {reasons: []string{"restart"}},
		"nobody said why it was interrupted": {auto: true},
		"it is over":                         {auto: true, reasons: []string{"restart"}, completed: 1},
	} {
		state := session.NewTaskState()
		state.Settings.AutoResume, state.Usage.Input = c.auto, 1
		changes := []session.Change{session.TaskRowChanged{Task: session.TaskRow{Title: "t", Status: "interrupted", StopReasons: c.reasons, CompletedAt: c.completed}}}
		if moved, changed, err := session.TaskMoves(session.NewTaskState(), state); err != nil {
			t.Fatal(err)
		} else if changed {
			changes = append(changes, moved)
		}
		s, err := session.New(session.Identity{ID: "t", AgentID: "a", Kind: session.KindTask}, session.Definition{Name: "a"}, session.Seed{}, at)
		if err == nil {
			s, err = s.With(at, changes...)
		}
		if err != nil {
			t.Fatal(err)
		}
		since, due := s.DueAt()
		if due != c.due || due && !since.Equal(at) {
			t.Errorf("%s: due %v since %s", name, due, since)
		}
	}
}

// Of several calls that wait the first to expire counts.
func TestDueAt_firstExpiry(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, err := session.New(session.Identity{ID: "s", AgentID: "a"}, session.Definition{Name: "a"}, session.Seed{}, at)
	if err != nil {
		t.Fatal(err)
	}
	changes := []session.Change{session.ExecutionStarted{ExecutionID: "e"}}
	for i, hours := range []int{3, 1, 2} {
		expires := at.Add(time.Duration(hours) * time.Hour)
		id := string(rune('a' + i))
		changes = append(changes, session.CallPending{Call: session.PendingCall{ID: id, CallID: id, Kind: session.PendingQuestion, Prompt: "?", AskedAt: at, ExpiresAt: &expires}})
	}
	if s, err = s.With(at, append(changes, session.ExecutionWaiting{})...); err != nil {
		t.Fatal(err)
	}
	if got, due := s.DueAt(); !due || !got.Equal(at.Add(time.Hour)) {
		t.Errorf("due %v at %s, want after an hour", due, got)
	}
}

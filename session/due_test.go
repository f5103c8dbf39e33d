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
		auto    bool
		reasons []string
		due     bool
	}{
		"its process ended":                  {true, []string{"restart"}, true},
		"a person interrupted it":            {true, []string{"restart", "user"}, false},
		"it does not want to be resumed":     {false, []string{"restart"}, false},
		"nobody said why it was interrupted": {true, nil, false},
	} {
		state := session.NewTaskState()
		state.Settings.AutoResume = c.auto
		changes := []session.Change{session.TaskRowChanged{Task: session.TaskRow{Title: "t", Status: "interrupted", StopReasons: c.reasons}}}
		if moved, changed, err := session.TaskMoves(session.NewTaskState(), state); err != nil {
			t.Fatal(err)
		} else if changed {
			changes = append(changes, moved)
		}
		s, err := session.New(session.Birth{ID: "t", AgentID: "a", Kind: session.KindTask}, session.Definition{Name: "a"}, session.Seed{}, at)
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

package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
)

// crashFound is where a task stands.
type crashFound struct {
	row       session.TaskRow
	state     session.TaskState
	said      []string // the transcript
	unknown   bool     // a call's outcome is not known
	delivered int
	completed int
	asked     []string // the calls that waited, each time they were asked about
	answered  []string // how they were settled
}

var crashName = regexp.MustCompile(`^\((\w+)\)`)

// loadTask reads the task as the next process would find it. What the store's
// head says and what its log comes to have to be the same.
func loadTask(ctx context.Context, _ *crashtest.Run, st store.Store) (found crashtest.Found, err error) {
	rt, err := holdfast.New(holdfast.Config{Store: st})
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	s, err := rt.Get(ctx, crashID, holdfast.WithTail(), holdfast.Whole())
	if errors.Is(err, session.ErrNotFound) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	f := crashFound{row: *s.Info().Task, state: *s.Task()}
	found = crashtest.Found{Answers: map[string]bool{}, Results: map[string]bool{}, Unknown: map[string]bool{}}
	if f.state.Plan != nil {
		found.Answers["plan"] = true
	}
	for _, m := range s.Messages() {
		f.message(m, found)
	}
	f.unknown = len(found.Unknown) > 0
	if err := f.fold(ctx, rt); err != nil {
		return found, err
	}
	found.State = f
	return found, nil
}

// fold compares the task with its log and its row in a listing.
func (f *crashFound) fold(ctx context.Context, rt *holdfast.Runtime) error {
	var records []session.Record
	for e, err := range rt.Log(ctx, crashID, 0) {
		if err != nil {
			return err
		}
		records = append(records, e.Record)
		switch c := e.Change.(type) {
		case session.CallPending:
			f.asked = append(f.asked, c.Call.CallID)
		case session.CallResponded:
			f.answered = append(f.answered, string(c.Response.Action)+" by "+c.Response.By)
		case session.TaskEvent:
			switch c.Name {
			case "follow_up_delivered":
				f.delivered++
			case "task_completed":
				f.completed++
			}
		}
	}
	folded, err := session.Fold(records)
	if err != nil {
		return err
	}
	info, err := rt.Info(ctx, crashID)
	if err != nil {
		return err
	}
	switch {
	case crashJSON(*folded.Task()) != crashJSON(f.state) || crashJSON(folded.Info().Task) != crashJSON(f.row):
		return errors.New("the log comes to another state than the head")
	case crashJSON(info.Task) != crashJSON(f.row):
		return fmt.Errorf("a listing shows %s, the task is %s", crashJSON(info.Task), crashJSON(f.row))
	case (f.completed > 0) != (f.row.Status == task.Completed) || f.completed > 1:
		return fmt.Errorf("the row is %s, with %d events of completion", f.row.Status, f.completed)
	}
	return nil
}

func (f *crashFound) message(m session.Message, found crashtest.Found) {
	said := string(m.Role) + ": " + m.Content.Text()
	for _, c := range m.ToolCalls {
		said += " calls " + c.ID
	}
	if name := crashName.FindStringSubmatch(m.Content.Text()); m.Role == session.RoleAssistant && name != nil {
		found.Answers[name[1]] = true
	}
	if r := m.ToolResult; r != nil {
		said += r.CallID + " gave " + r.Content
		if r.CallID != "ask-1" { // no program has its result
			found.Results[r.CallID] = true
		}
		if strings.Contains(r.Content, "outcome unknown") {
			found.Unknown[r.CallID] = true
		}
	}
	f.said = append(f.said, said)
}

var crashIDs = regexp.MustCompile(`id-\d+-\d+`)

func crashJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return crashIDs.ReplaceAllString(string(raw), "id")
}

// taskFaults is what a task must not have come to: end is what the last process
// left. A plan was asked for again if it was
// lost before it was written.
func taskFaults(end, undisturbed crashFound, replanned bool) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	updates := 0
	for _, said := range end.said {
		if said == "user: USER UPDATE: "+crashUpdate {
			updates++
		}
	}
	if end.delivered != 1 || updates != 1 {
		fault("the follow-up was delivered %d times and said %d times", end.delivered, updates)
	}
	if asked := strings.Join(end.asked, " "); asked != "note-1 ask-1" {
		fault("these calls were asked about: %s", asked)
	}
	if answered := strings.Join(end.answered, ", "); answered != "approve by ann, answer by ann" {
		fault("the responses are %s", answered)
	}
	if end.row.Status != task.Completed || end.row.TerminalStatus != task.TerminalOK {
		fault("the task is %s/%s: %s", end.row.Status, end.row.TerminalStatus, end.row.Error)
	}
	if end.unknown != undisturbed.unknown {
		return faults // a call of which nobody knows the outcome has another result
	}
	return append(faults, end.parts(replanned).Differ(undisturbed.parts(replanned))...)
}

// parts is what two tasks have in common. A plan that is asked for twice
// counts as more turns.
func (f crashFound) parts(replanned bool) crashtest.Parts {
	state, row := *f.state.Clone(), f.row
	state.Settings.ModeSeq, state.Loop.WindowStart = 0, 0
	if replanned {
		state.Loop.Turns, state.Loop.LifetimeTurns, state.Loop.Iterations, state.Usage = 0, 0, 0, session.TaskUsage{}
		row.Projection = nil
	}
	return crashtest.Parts{"the state": crashJSON(state), "the row": crashJSON(row), "the transcript": strings.Join(f.said, "\n")}
}

// The account sees every fault of a task that it is there to see.
func TestCrashAccount_seesEveryFault(t *testing.T) {
	t.Parallel()
	done := func() crashFound {
		return crashFound{
			row:       session.TaskRow{Status: task.Completed, TerminalStatus: task.TerminalOK, Projection: &session.TaskProjection{}},
			said:      []string{"user: USER UPDATE: " + crashUpdate},
			delivered: 1, completed: 1, asked: []string{"note-1", "ask-1"}, answered: []string{"approve by ann", "answer by ann"},
		}
	}
	if faults := taskFaults(done(), done(), false); faults != nil {
		t.Fatalf("nothing is wrong, and it sees %v", faults)
	}
	for name, c := range map[string]struct {
		change func(end *crashFound)
		want   string
	}{
		"a message that was lost":    {func(e *crashFound) { e.delivered, e.said = 0, nil }, "delivered 0 times"},
		"a message that came twice":  {func(e *crashFound) { e.said = append(e.said, e.said[0]) }, "said 2 times"},
		"an approval of another one": {func(e *crashFound) { e.asked = append(e.asked, "note-1") }, "asked about"},
		"an approval that is open":   {func(e *crashFound) { e.answered = e.answered[1:] }, "the responses are"},
		"a task that failed":         {func(e *crashFound) { e.row.Status = task.Failed }, "the task is failed"},
		"another state":              {func(e *crashFound) { e.state.Loop.LifetimeTurns++ }, "the state differs"},
		"another row":                {func(e *crashFound) { e.row.ResultSummary = "x" }, "the row differs"},
		"another transcript":         {func(e *crashFound) { e.said = append(e.said, "user: more") }, "the transcript differs"},
	} {
		end := done()
		c.change(&end)
		if err := errors.Join(taskFaults(end, done(), false)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: it sees %v, want %q", name, err, c.want)
		}
	}
}

package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
)

// crashFound is what a process left: what the log holds, and where the task
// stands.
type crashFound struct {
	answered map[string]bool // answers of the model, by name
	finished map[string]bool // calls that have their result
	planned  bool
	unknown  bool // a call's outcome is not known

	row        session.TaskRow
	state      session.TaskState
	said       []string // the transcript
	delivered  int
	completed  int
	approvalID string
}

var crashName = regexp.MustCompile(`^\((\w+)\)`)

// crashLoad reads the task as the next process would find it. What the store's
// head says and what its log comes to have to be the same.
func crashLoad(ctx context.Context, st store.Store) (f crashFound, err error) {
	f.answered, f.finished = map[string]bool{}, map[string]bool{}
	rt, err := holdfast.New(holdfast.Config{Store: st})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	s, err := rt.Get(ctx, crashID, holdfast.WithTail(), holdfast.Whole())
	if errors.Is(err, session.ErrNotFound) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.row, f.state = *s.Info().Task, *s.Task()
	f.planned = f.state.Plan != nil
	if len(f.state.Approvals) > 0 {
		f.approvalID = f.state.Approvals[0].ID
	}
	for _, m := range s.Messages() {
		f.message(m)
	}
	var records []session.Record
	for e, err := range rt.Log(ctx, crashID, 0) {
		if err != nil {
			return f, err
		}
		records = append(records, e.Record)
		if told, ok := e.Change.(session.TaskEvent); ok {
			switch told.Name {
			case "follow_up_delivered":
				f.delivered++
			case "task_completed":
				f.completed++
			}
		}
	}
	folded, err := session.Fold(records)
	if err != nil {
		return f, err
	}
	info, err := rt.Info(ctx, crashID)
	if err != nil {
		return f, err
	}
	switch {
	case crashJSON(*folded.Task()) != crashJSON(f.state) || crashJSON(folded.Info().Task) != crashJSON(f.row):
		return f, errors.New("the log comes to another state than the head")
	case crashJSON(info.Task) != crashJSON(f.row):
		return f, fmt.Errorf("a listing shows %s, the task is %s", crashJSON(info.Task), crashJSON(f.row))
	case (f.completed > 0) != (f.row.Status == task.Completed) || f.completed > 1:
		return f, fmt.Errorf("the row is %s, with %d events of completion", f.row.Status, f.completed)
	}
	return f, nil
}

func (f *crashFound) message(m session.Message) {
	said := string(m.Role) + ": " + m.Content.Text()
	for _, c := range m.ToolCalls {
		said += " calls " + c.ID
	}
	if name := crashName.FindStringSubmatch(m.Content.Text()); m.Role == session.RoleAssistant && name != nil {
		f.answered[name[1]] = true
	}
	if r := m.ToolResult; r != nil {
		said += r.CallID + " gave " + r.Content
		f.finished[r.CallID] = true
		f.unknown = f.unknown || strings.Contains(r.Content, "outcome unknown")
	}
	f.said = append(f.said, said)
}

func crashJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return crashIDs.ReplaceAllString(string(raw), "id")
}

// crashLine is a line of the trace.
type crashLine struct {
	what, key string
	life      int
}

func crashLines(dir string) ([]crashLine, error) {
	raw, err := os.ReadFile(filepath.Join(dir, crashTrace))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var all []crashLine
	for line := range strings.Lines(string(raw)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		life, bad := strconv.Atoi(parts[len(parts)-1])
		if len(parts) != 3 || bad != nil {
			return nil, fmt.Errorf("trace %q", line)
		}
		all = append(all, crashLine{parts[0], parts[1], life})
	}
	return all, err
}

// crashAccount is every fault of a task that was worked on by several
// processes: lives are what each of them found, end what the last one left.
func crashAccount(lines []crashLine, lives []crashFound, end crashFound, undisturbed *crashFound) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	plans, ran := 0, map[string]int{}
	for _, l := range lines {
		switch found := lives[l.life]; {
		case l.what == "asked" && (found.answered[l.key] || l.key == "plan" && found.planned):
			fault("process %d asked for %q, which the log answers", l.life, l.key)
		case l.what == "asked" && l.key == "plan":
			plans++
		case l.what == "began" && found.finished[l.key]:
			fault("process %d ran %q, whose result is in the log", l.life, l.key)
		case l.what == "began":
			ran[l.key]++
		}
	}
	if ran["note-1"] > 1 || ran["note-1"] == 0 && !end.unknown {
		fault("the tool that must run once ran %d times", ran["note-1"])
	}
	if ran["look-1"] == 0 {
		fault("the tool that reads never ran")
	}
	updates := 0
	for _, said := range end.said {
		if said == "user: USER UPDATE: "+crashUpdate {
			updates++
		}
	}
	if end.delivered != 1 || updates != 1 {
		fault("the follow-up was delivered %d times and said %d times", end.delivered, updates)
	}
	for _, found := range lives {
		if found.approvalID != "" && found.approvalID != end.approvalID {
			fault("an approval was asked for again")
		}
	}
	if a := end.state.Approvals; len(a) != 1 || a[0].Status != "approved" || a[0].By != "ann" {
		fault("the approvals are %+v", a)
	}
	if end.row.Status != task.Completed || end.row.TerminalStatus != task.TerminalOK {
		fault("the task is %s/%s: %s", end.row.Status, end.row.TerminalStatus, end.row.Error)
	}
	if undisturbed != nil {
		faults = append(faults, end.differ(*undisturbed, plans > 1)...)
	}
	return faults
}

// differ is what is not as in another end. A plan that was lost before it was
// written was asked for again, and that counts as turns; a call of which nobody
// knows the outcome has another result.
func (f crashFound) differ(other crashFound, planned bool) (faults []error) {
	if f.unknown != other.unknown {
		return nil
	}
	for i, s := range []*session.TaskState{&f.state, &other.state} {
		next := *s.Clone()
		next.Settings.ModeSeq, next.Loop.WindowStart = 0, 0
		row := []*session.TaskRow{&f.row, &other.row}[i]
		if planned {
			next.Loop.Turns, next.Loop.LifetimeTurns, next.Loop.Iterations, next.Usage = 0, 0, 0, session.TaskUsage{}
			row.Projection = nil
		}
		*s = next
	}
	for name, pair := range map[string][2]string{
		"state":      {crashJSON(f.state), crashJSON(other.state)},
		"row":        {crashJSON(f.row), crashJSON(other.row)},
		"transcript": {strings.Join(f.said, "\n"), strings.Join(other.said, "\n")},
	} {
		if pair[0] != pair[1] {
			faults = append(faults, fmt.Errorf("another %s:\n%s\nwant\n%s", name, pair[0], pair[1]))
		}
	}
	return faults
}

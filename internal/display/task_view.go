package display

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// taskReader reads where a task stands.
type taskReader interface {
	Get(ctx context.Context, id string) (task.Row, error)
	State(ctx context.Context, id string) (session.TaskState, error)
	Pending(ctx context.Context, id string) ([]session.PendingCall, error)
}

// follower follows a session.
type follower interface {
	Get(ctx context.Context, id string, opts ...holdfast.Option) (session.Session, error)
	Follow(ctx context.Context, id string, after int64) iter.Seq2[holdfast.Update, error]
}

// TaskView shows a task while somebody works on it, on standard error: on a
// terminal a drawing that is made anew in its place, elsewhere a line for each
// thing that happens, with --json the changes themselves.
type TaskView struct {
	*terminal.Console
	*terminal.Canvas
	tasks    taskReader
	sessions follower
	id       string
	stop     context.CancelFunc
	over     chan struct{}

	items   *projector.Projector
	seen    int64 // the last change that was heard of; guarded by the canvas, as is the rest
	row     task.Row
	state   session.TaskState
	waiting []session.PendingCall
	doing   string // the tool that runs
	writing string // the end of an answer that is coming
	dirty   bool
	ended   bool
}

// WatchTask begins to show a task. The caller ends it.
func WatchTask(ctx context.Context, p *terminal.Console, tasks taskReader, sessions follower, id string) (*TaskView, error) {
	s, err := sessions.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	v := &TaskView{
		Console: p, Canvas: p.NewCanvas(), tasks: tasks, sessions: sessions, id: id, stop: stop, over: make(chan struct{}), items: projector.New(id), seen: s.Seq(),
	}
	v.Lines = v.lines
	v.refresh(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { v.follow(ctx, s.Seq()) })
	wg.Go(func() { v.Animate(ctx.Done(), func() { v.refreshStale(ctx) }) })
	go func() {
		wg.Wait()
		close(v.over)
	}()
	return v, nil
}

// follow hears what happens to the task.
func (v *TaskView) follow(ctx context.Context, after int64) {
	for u, err := range v.sessions.Follow(ctx, v.id, after) {
		if err != nil {
			return // the view ends; the work does not depend on it
		}
		v.take(u)
	}
}

func (v *TaskView) take(u holdfast.Update) {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	if u.Record != nil {
		defer func() { v.seen = u.Record.Seq }()
	}
	if v.JSON {
		if u.Record == nil {
			return
		}
		if raw, err := session.JSON(*u.Record); err == nil {
			fmt.Fprintf(v.Err, "%s\n", raw)
		}
		return
	}
	v.dirty = v.dirty || u.Record != nil
	for _, c := range v.items.Apply(u) {
		v.show(c)
		if line := TaskLine(c); !v.Live && line != "" {
			v.Err.Status("%s", line)
		}
	}
}

// show keeps the tool that runs and the answer that is coming.
func (v *TaskView) show(c projector.Change) {
	switch i := c.Item; {
	case i.Message != nil && c.Op == projector.Grew:
		v.writing = lastRunes(v.writing+i.Message.Text, 200)
	case i.Message != nil:
		v.writing = ""
	case i.Call != nil && i.Call.State == projector.CallRunning && c.Op != projector.Withdrawn:
		v.doing = strings.TrimSpace(i.Call.Name + " " + terminal.OneLine(string(i.Call.Arguments)))
	case i.Call != nil && i.Done:
		v.doing = ""
	case i.Task != nil && i.Task.Event == "tool_call":
		var told struct {
			Input json.RawMessage `json:"input"`
		}
		_ = json.Unmarshal(i.Task.Data, &told) // the name says enough
		v.doing = strings.TrimSpace(i.Task.Tool + " " + terminal.OneLine(string(told.Input)))
	case i.Task != nil && (i.Task.Event == "tool_result" || i.Task.Event == "tool_error"):
		v.doing = ""
	}
}

// TaskLine tells a change in a line, "" for one that is not worth it.
func TaskLine(c projector.Change) string {
	if c.Op == projector.Withdrawn {
		return ""
	}
	switch i := c.Item; {
	case i.Pending != nil && c.Op == projector.Added:
		lines := []string{"? " + terminal.OneLine(i.Pending.Prompt)}
		for _, line := range CallLines(i.Pending.PendingCall, maxCallLines) {
			lines = append(lines, "    "+line.Text)
		}
		return strings.Join(lines, "\n")
	case i.Pending != nil && c.Op == projector.Finished && i.Pending.Response != nil:
		words := map[session.ResponseAction]string{
			session.RespondApprove: "granted", session.RespondDeny: "denied", session.RespondExpire: "expired", session.RespondAnswer: "answered",
		}
		if word := words[i.Pending.Response.Action]; word != "" {
			return word + " · " + terminal.OneLine(i.Pending.Prompt)
		}
	case i.Call != nil && i.Call.State == projector.CallRunning && i.Call.Result == nil && c.Op == projector.Updated:
		return "  → " + i.Call.Name
	case i.Call != nil && i.Call.StartedAt != nil && c.Op == projector.Finished && i.Call.Result.IsError:
		return "  ✗ " + i.Call.Name + " · " + terminal.OneLine(i.Call.Result.Content)
	case i.Task != nil && i.Task.Step != nil && i.Done == (c.Op == projector.Finished), // with its end when that comes
		i.Task != nil && i.Task.Step == nil && (c.Op == projector.Added || c.Op == projector.Updated):
		return taskEventLine(*i.Task)
	}
	return ""
}

func taskEventLine(t projector.Task) string {
	switch t.Event {
	case "plan_created", "plan_revised":
		lines := []string{"plan · " + terminal.OneLine(t.Plan.Description)}
		for _, s := range t.Plan.Steps {
			lines = append(lines, "  · "+terminal.OneLine(s.Description))
		}
		return strings.Join(lines, "\n")
	case "step_started", "step_completed", "step_failed", "step_skipped":
		return stepLine(t)
	case "tool_blocked":
		return "  ✗ " + t.Tool + " · not allowed"
	case "file_created", "file_modified", "file_deleted":
		return "  " + strings.TrimPrefix(t.Event, "file_") + " " + t.Path
	case "task_completed", "task_paused", "task_cancelled", "task_interrupted", "task_resumed", "auto_continuation_started",
		"auto_continuation_blocked", "llm_retry", "verification_passed", "verification_failed", "follow_up_delivered", "error":
		name, why := strings.ReplaceAll(t.Event, "_", " "), terminal.OneLine(t.Text)
		if why == "" || strings.EqualFold(name, why) {
			return name
		}
		return name + " · " + why
	}
	return ""
}

func stepLine(t projector.Task) string {
	if t.Step == nil { // the plan with the step as it is
		return ""
	}
	mark := map[string]string{"step_started": "▸ ", "step_completed": "✓ ", "step_failed": "✗ ", "step_skipped": "– "}[t.Event]
	if text := t.Step.Description; t.Event != "step_failed" {
		return mark + terminal.OneLine(text)
	}
	return mark + terminal.OneLine(t.Step.Description+" · "+t.Step.Error)
}

// refreshStale reads where the task stands if something has happened to it.
func (v *TaskView) refreshStale(ctx context.Context) {
	v.Mu.Lock()
	stale := v.dirty
	v.dirty = false
	v.Mu.Unlock()
	if stale {
		v.refresh(ctx)
	}
}

// refresh reads where the task stands. What cannot be read is shown as it was.
func (v *TaskView) refresh(ctx context.Context) {
	row, err := v.tasks.Get(ctx, v.id)
	if err != nil {
		return
	}
	state, err := v.tasks.State(ctx, v.id)
	if err != nil {
		return
	}
	waiting, err := v.tasks.Pending(ctx, v.id)
	if err != nil {
		return
	}
	v.Mu.Lock()
	defer v.Mu.Unlock()
	v.row, v.state, v.waiting = row, state, waiting
}

// lines draw the task, no more than the screen has room for.
func (v *TaskView) lines(columns, height int) []string {
	frame := v.Frame
	if v.ended {
		frame = -1
	}
	cells := TaskLines(v.row, v.state, v.waiting, cmp.Or(v.doing, terminal.OneLine(v.writing)), frame)
	if most := max(1, height-2); len(cells) > most {
		cells = cells[len(cells)-most:]
	}
	lines := make([]string, len(cells))
	for i, c := range cells {
		lines[i] = v.Err.Paint(c.Colour, terminal.Cut(c.Text, columns-1))
	}
	return lines
}

// Say writes a line about the work itself.
func (v *TaskView) Say(format string, args ...any) {
	if v.JSON {
		return
	}
	v.Aside(func() { v.Err.Status(format, args...) })
}

// Hearing is how long the view waits for what was written last.
const Hearing = 10 * time.Second

// catchUp waits until all that is written has been heard of.
func (v *TaskView) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, Hearing)
	defer cancel()
	s, err := v.sessions.Get(ctx, v.id, holdfast.WithTail())
	for err == nil {
		v.Mu.Lock()
		seen := v.seen
		v.Mu.Unlock()
		if seen >= s.Seq() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-v.over: // nobody listens any more
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// End leaves the last drawing on the screen.
func (v *TaskView) End(ctx context.Context) {
	v.catchUp(ctx)
	v.stop()
	<-v.over
	v.refresh(context.WithoutCancel(ctx))
	v.Mu.Lock()
	defer v.Mu.Unlock()
	v.doing, v.writing, v.ended = "", "", true
	v.Draw()
}

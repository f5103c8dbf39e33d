package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// taskView shows a task while somebody works on it, on standard error: on a
// terminal a drawing that is made anew in its place, elsewhere a line for each
// thing that happens, with --json the changes themselves.
type taskView struct {
	*program
	*canvas
	d    *workshop
	id   string
	stop context.CancelFunc
	over chan struct{}

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

// watchTask begins to show a task. The caller ends it.
func (p *program) watchTask(ctx context.Context, d *workshop, id string) (*taskView, error) {
	s, err := d.h.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	v := &taskView{
		program: p, canvas: p.canvas(), d: d, id: id, stop: stop, over: make(chan struct{}), items: projector.New(id), seen: s.Seq(),
	}
	v.canvas.lines = v.lines
	v.refresh(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { v.listen(ctx, s.Seq()) })
	wg.Go(func() { v.animate(ctx.Done(), func() { v.refreshStale(ctx) }) })
	go func() {
		wg.Wait()
		close(v.over)
	}()
	return v, nil
}

// listen hears what happens to the task.
func (v *taskView) listen(ctx context.Context, after int64) {
	for u, err := range v.d.h.Follow(ctx, v.id, after) {
		if err != nil {
			return // the view ends; the work does not depend on it
		}
		v.hear(u)
	}
}

func (v *taskView) hear(u holdfast.Update) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if u.Record != nil {
		defer func() { v.seen = u.Record.Seq }()
	}
	if v.json {
		if u.Record == nil {
			return
		}
		if raw, err := session.JSON(*u.Record); err == nil {
			fmt.Fprintf(v.err, "%s\n", raw)
		}
		return
	}
	v.dirty = v.dirty || u.Record != nil
	for _, c := range v.items.Apply(u) {
		v.show(c)
		if line := taskLine(c); !v.live && line != "" {
			v.err.status("%s", line)
		}
	}
}

// show keeps the tool that runs and the answer that is coming.
func (v *taskView) show(c projector.Change) {
	switch i := c.Item; {
	case i.Message != nil && c.Op == projector.Grew:
		v.writing = lastRunes(v.writing+i.Message.Text, 200)
	case i.Message != nil:
		v.writing = ""
	case i.Call != nil && i.Call.State == projector.CallRunning && c.Op != projector.Withdrawn:
		v.doing = strings.TrimSpace(i.Call.Name + " " + oneLine(string(i.Call.Arguments)))
	case i.Call != nil && i.Done:
		v.doing = ""
	case i.Task != nil && i.Task.Event == "tool_call":
		var told struct {
			Input json.RawMessage `json:"input"`
		}
		_ = json.Unmarshal(i.Task.Data, &told) // the name says enough
		v.doing = strings.TrimSpace(i.Task.Tool + " " + oneLine(string(told.Input)))
	case i.Task != nil && (i.Task.Event == "tool_result" || i.Task.Event == "tool_error"):
		v.doing = ""
	}
}

// taskLine tells a change in a line, "" for one that is not worth it.
func taskLine(c projector.Change) string {
	if c.Op == projector.Withdrawn {
		return ""
	}
	switch i := c.Item; {
	case i.Pending != nil && c.Op == projector.Added:
		lines := []string{"? " + oneLine(i.Pending.Prompt)}
		for _, line := range callLines(i.Pending.PendingCall, maxCallLines) {
			lines = append(lines, "    "+line.text)
		}
		return strings.Join(lines, "\n")
	case i.Pending != nil && c.Op == projector.Finished && i.Pending.Response != nil:
		words := map[session.ResponseAction]string{
			session.RespondApprove: "granted", session.RespondDeny: "denied", session.RespondExpire: "expired", session.RespondAnswer: "answered",
		}
		if word := words[i.Pending.Response.Action]; word != "" {
			return word + " · " + oneLine(i.Pending.Prompt)
		}
	case i.Call != nil && i.Call.State == projector.CallRunning && i.Call.Result == nil && c.Op == projector.Updated:
		return "  → " + i.Call.Name
	case i.Call != nil && i.Call.StartedAt != nil && c.Op == projector.Finished && i.Call.Result.IsError:
		return "  ✗ " + i.Call.Name + " · " + oneLine(i.Call.Result.Content)
	case i.Task != nil && i.Task.Step != nil && i.Done == (c.Op == projector.Finished), // with its end when that comes
		i.Task != nil && i.Task.Step == nil && (c.Op == projector.Added || c.Op == projector.Updated):
		return taskEventLine(*i.Task)
	}
	return ""
}

func taskEventLine(t projector.Task) string {
	switch t.Event {
	case "plan_created", "plan_revised":
		lines := []string{"plan · " + oneLine(t.Plan.Description)}
		for _, s := range t.Plan.Steps {
			lines = append(lines, "  · "+oneLine(s.Description))
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
		name, why := strings.ReplaceAll(t.Event, "_", " "), oneLine(t.Text)
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
		return mark + oneLine(text)
	}
	return mark + oneLine(t.Step.Description+" · "+t.Step.Error)
}

// refreshStale reads where the task stands if something has happened to it.
func (v *taskView) refreshStale(ctx context.Context) {
	v.mu.Lock()
	stale := v.dirty
	v.dirty = false
	v.mu.Unlock()
	if stale {
		v.refresh(ctx)
	}
}

// refresh reads where the task stands. What cannot be read is shown as it was.
func (v *taskView) refresh(ctx context.Context) {
	row, err := v.d.Get(ctx, v.id)
	if err != nil {
		return
	}
	state, err := v.d.State(ctx, v.id)
	if err != nil {
		return
	}
	waiting, err := v.d.Pending(ctx, v.id)
	if err != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.row, v.state, v.waiting = row, state, waiting
}

// lines draw the task, no more than the screen has room for.
func (v *taskView) lines(columns, height int) []string {
	frame := v.frame
	if v.ended {
		frame = -1
	}
	cells := taskLines(v.row, v.state, v.waiting, cmp.Or(v.doing, oneLine(v.writing)), frame)
	if most := max(1, height-2); len(cells) > most {
		cells = cells[len(cells)-most:]
	}
	lines := make([]string, len(cells))
	for i, c := range cells {
		lines[i] = v.err.paint(c.colour, cut(c.text, columns-1))
	}
	return lines
}

// say writes a line about the work itself.
func (v *taskView) say(format string, args ...any) {
	if v.json {
		return
	}
	v.aside(func() { v.err.status(format, args...) })
}

// hearing is how long the view waits for what was written last.
const hearing = 10 * time.Second

// hearOut waits until all that is written has been heard of.
func (v *taskView) hearOut(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, hearing)
	defer cancel()
	s, err := v.d.h.Get(ctx, v.id, holdfast.WithTail())
	for err == nil {
		v.mu.Lock()
		seen := v.seen
		v.mu.Unlock()
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

// end leaves the last drawing on the screen.
func (v *taskView) end(ctx context.Context) {
	v.hearOut(ctx)
	v.stop()
	<-v.over
	v.refresh(context.WithoutCancel(ctx))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.doing, v.writing, v.ended = "", "", true
	v.draw()
}

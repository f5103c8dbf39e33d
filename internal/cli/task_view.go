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
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// taskView shows a task while somebody works on it, on standard error: on a
// terminal a drawing that is made anew in its place, elsewhere a line for each
// thing that happens, with --json the changes themselves.
type taskView struct {
	*program
	d    *workshop
	id   string
	live bool
	stop context.CancelFunc
	over chan struct{}

	mu     sync.Mutex // guards the rest
	seen   int64      // the last change that was heard of
	row    task.Row
	state  session.TaskState
	doing  string // the tool that runs
	dirty  bool
	frame  int
	drawn  int
	paused bool
}

// watchTask begins to show a task. The caller ends it.
func (p *program) watchTask(ctx context.Context, d *workshop, id string) (*taskView, error) {
	s, err := d.h.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	v := &taskView{
		program: p, d: d, id: id, stop: stop, over: make(chan struct{}),
		live: p.err.terminal && !p.json && p.getenv("TERM") != "dumb", seen: s.Seq(),
	}
	v.refresh(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { v.listen(ctx, s.Seq()) })
	if v.live {
		wg.Go(func() { v.animate(ctx) })
	}
	go func() {
		wg.Wait()
		close(v.over)
	}()
	return v, nil
}

// listen hears what is written about the task.
func (v *taskView) listen(ctx context.Context, after int64) {
	for entry, err := range v.d.h.Watch(ctx, v.id, after) {
		if err != nil {
			return // the view ends; the work does not depend on it
		}
		v.hear(entry)
		v.mu.Lock()
		v.seen = entry.Seq
		v.mu.Unlock()
	}
}

func (v *taskView) hear(e session.LogEntry) {
	if v.json {
		if raw, err := session.JSON(e); err == nil {
			fmt.Fprintf(v.err, "%s\n", raw)
		}
		return
	}
	line := taskLine(e.Change)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dirty = true
	if name, says := toolOf(e.Change); says {
		v.doing = name
	}
	if !v.live && line != "" {
		v.err.status("%s", line)
	}
}

// toolOf is the tool that a change starts, or "" for one that it ends.
func toolOf(c session.Change) (name string, says bool) {
	e, ok := c.(session.TaskEvent)
	if !ok {
		return "", false
	}
	var told struct {
		Tool  string          `json:"tool"`
		Input json.RawMessage `json:"input"`
	}
	switch e.Name {
	case "tool_call":
		if json.Unmarshal(e.Data, &told) != nil {
			return "", false
		}
		return strings.TrimSpace(told.Tool + " " + oneLine(string(told.Input))), true
	case "tool_result", "tool_error":
		return "", true
	}
	return "", false
}

// taskLine is a change in a line, "" for one that is not worth it.
func taskLine(c session.Change) string {
	e, ok := c.(session.TaskEvent)
	if !ok {
		return ""
	}
	var told struct {
		Message  string            `json:"message"`
		Reason   string            `json:"reason"`
		Error    string            `json:"error"`
		Tool     string            `json:"tool"`
		Path     string            `json:"path"`
		Plan     *session.Plan     `json:"plan"`
		Step     *session.PlanStep `json:"step"`
		Approval *session.Approval `json:"approval"`
	}
	if json.Unmarshal(e.Data, &told) != nil {
		return e.Name
	}
	switch e.Name {
	case "plan_created", "plan_revised":
		lines := []string{"plan · " + oneLine(told.Plan.Description)}
		for _, s := range told.Plan.Steps {
			lines = append(lines, "  · "+oneLine(s.Description))
		}
		return strings.Join(lines, "\n")
	case "step_started":
		return "▸ " + oneLine(told.Step.Description)
	case "step_completed":
		return "✓ " + oneLine(told.Step.Description)
	case "step_failed":
		return "✗ " + oneLine(told.Step.Description+" · "+told.Step.Error)
	case "step_skipped":
		return "– " + oneLine(told.Step.Description)
	case "tool_call":
		return "  → " + told.Tool
	case "tool_error":
		return "  ✗ " + told.Tool + " · " + oneLine(told.Error)
	case "tool_blocked":
		return "  ✗ " + told.Tool + " · not allowed"
	case "approval_requested":
		return "? " + oneLine(told.Approval.Description)
	case "approval_granted", "approval_denied", "approval_expired":
		return strings.TrimPrefix(e.Name, "approval_") + " · " + oneLine(told.Approval.Description)
	case "file_created", "file_modified", "file_deleted":
		return "  " + strings.TrimPrefix(e.Name, "file_") + " " + told.Path
	case "task_completed", "task_paused", "task_cancelled", "task_interrupted", "task_resumed", "auto_continuation_started",
		"auto_continuation_blocked", "llm_retry", "verification_passed", "verification_failed", "follow_up_delivered", "error":
		name, why := strings.ReplaceAll(e.Name, "_", " "), oneLine(cmp.Or(told.Message, told.Reason, told.Error))
		if why == "" || strings.EqualFold(name, why) {
			return name
		}
		return name + " · " + why
	}
	return ""
}

// animate draws the task again and again.
func (v *taskView) animate(ctx context.Context) {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		v.mu.Lock()
		stale := v.dirty
		v.dirty = false
		v.mu.Unlock()
		if stale {
			v.refresh(ctx)
		}
		v.mu.Lock()
		v.frame++
		v.draw(v.frame)
		v.mu.Unlock()
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
	v.mu.Lock()
	defer v.mu.Unlock()
	v.row, v.state = row, state
}

// draw makes the drawing anew, in one write.
func (v *taskView) draw(frame int) {
	if !v.live || v.paused {
		return
	}
	columns, height := v.err.size()
	lines := taskLines(v.row, v.state, v.doing, frame)
	if most := max(1, height-2); len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	b.WriteString("\r")
	for _, line := range lines {
		b.WriteString(v.err.paint(line.colour, cut(line.text, columns-1)) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	fmt.Fprint(v.err, b.String())
	v.drawn = len(lines)
}

// aside takes the drawing off the screen while something else is written.
func (v *taskView) aside(write func()) {
	v.mu.Lock()
	if v.drawn > 0 {
		fmt.Fprintf(v.err, "\x1b[%dA\r\x1b[J", v.drawn)
		v.drawn = 0
	}
	v.paused = true
	v.mu.Unlock()
	write()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.paused = false
}

// say writes a line about the work itself.
func (v *taskView) say(format string, args ...any) {
	if v.json {
		return
	}
	v.aside(func() { v.err.status(format, args...) })
}

// hearing is how long the view waits for what was written last.
const hearing = 2 * time.Second

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
	v.doing = ""
	v.draw(-1)
}

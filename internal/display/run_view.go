package display

import (
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// RunView shows a run while it goes on, on standard error: on a terminal a
// drawing that is made anew in its place, elsewhere a line for each thing that
// happens, with --json the events themselves.
type RunView struct {
	*terminal.Console
	*terminal.Canvas
	spec    *spec.Spec
	verbose bool
	begun   time.Time

	stop, stopped chan struct{}

	state *RunState // guarded by the canvas, as are the next two
	id    string
	ended bool
}

// NewRunView begins to show a run from the state it has. The caller ends it.
func NewRunView(p *terminal.Console, s *spec.Spec, c *RunState, verbose bool) *RunView {
	v := &RunView{
		Console: p, Canvas: p.NewCanvas(), spec: s, state: c, verbose: verbose, begun: time.Now(),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	v.Lines = v.lines
	go func() {
		defer close(v.stopped)
		v.Animate(v.stop, func() {})
	}()
	return v
}

// TakeEvent takes an event. It is a workflow.Host's OnEvent.
func (v *RunView) TakeEvent(e workflow.Event) {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	v.id = e.SessionID
	if v.JSON {
		if raw, err := session.JSON(e); err == nil {
			fmt.Fprintf(v.Err, "%s\n", v.Redactor.Redact(string(raw)))
		}
		return
	}
	if e.Type == workflow.WorkflowStart {
		v.started(e)
	}
}

// started says which run goes on. Units that were begun before are taken up.
func (v *RunView) started(e workflow.Event) {
	resumed := v.state.resume(time.Now())
	if v.Live {
		v.Draw()
		return
	}
	verb := "started"
	if start, ok := e.Data.(workflow.StartData); ok && start.Resumed {
		verb = "resumed"
	}
	v.Err.Status("%s %s · %s · id %s", verb, terminal.OneLine(e.SpecName), e.Pattern, e.SessionID)
	for _, p := range resumed {
		v.Err.Status("▸ %s · %s", p.unit, p.agent)
	}
}

// TakeUpdate takes what happens to the run. It is a workflow.Host's OnUpdate.
func (v *RunView) TakeUpdate(u holdfast.Update) {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	before := v.state.route
	changes := v.state.update(u)
	if u.Delta != nil {
		if p := v.state.units[u.Delta.Unit]; p != nil {
			p.writing = v.Redactor.Redact(p.writing)
		}
	}
	switch {
	case v.JSON:
	case v.Live: // the next frame shows it
		for _, c := range changes {
			if text := v.kept(c); text != "" {
				v.Erase()
				fmt.Fprintln(v.Err, text)
			}
		}
	default:
		if v.state.route != before {
			v.Err.Status("→ %s", v.state.route)
		}
		for _, c := range changes {
			v.line(c)
		}
		if u.Dropped != nil {
			v.Err.Status("%s · the model gave no answer", u.Dropped.Unit)
		}
	}
}

func lastRunes(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[len(r)-most:])
	}
	return text
}

// Warn says what does not stop a run. It is a workflow.Host's Warn.
func (v *RunView) Warn(format string, args ...any) {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	if v.JSON {
		if raw, err := session.JSON(map[string]string{"warning": fmt.Sprintf(format, args...)}); err == nil {
			fmt.Fprintf(v.Err, "%s\n", raw)
		}
		return
	}
	v.Erase()
	v.Err.Warn(format, args...)
	v.Draw()
}

// End leaves the last drawing on the screen, made of what the log says where
// that could be read.
func (v *RunView) End(final *RunState) {
	close(v.stop)
	<-v.stopped
	v.Mu.Lock()
	defer v.Mu.Unlock()
	v.state.halt()
	if final != nil {
		v.state = final
	}
	v.ended = true
	v.Draw()
	v.Drawn = 0
	if !v.Live && !v.JSON && v.id != "" {
		v.Err.Status("%s", RunDrawing{}.Sum(v.spec, v.state, time.Since(v.begun)))
	}
}

// lines are a head, the units and a sum, no more than the screen has room for.
func (v *RunView) lines(columns, height int) []string {
	if v.id == "" { // a run that was refused is not drawn
		return nil
	}
	ch := RunDrawing{To: v.Err, Columns: columns, Frame: v.Frame, Now: time.Now()}
	if v.ended {
		ch.Frame = -1
	}
	units := ch.Lines(v.spec, v.state)
	if most := max(1, height-4); len(units) > most {
		units = window(units, v.state, v.spec, most)
		units[0] = v.Err.Paint(terminal.Dim, "  …")
	}
	name := terminal.Cut(terminal.OneLine(v.spec.Name), columns-1)
	about := " · " + string(v.spec.Pattern.Type)
	about += " · " + ShortID(v.id)
	head := v.Err.Paint(terminal.Bold, name) + v.Err.Paint(terminal.Dim, terminal.Cut(about, columns-1-runewidth.StringWidth(name)))
	sum := terminal.Cut("  "+ch.Sum(v.spec, v.state, time.Since(v.begun)), columns-1)
	return append(append([]string{head}, units...), v.Err.Paint(terminal.Dim, sum))
}

// window is the part of a long drawing where something goes on.
func window(units []string, c *RunState, s *spec.Spec, most int) []string {
	rows := rowsOf(s, c)
	last := 0
	for i, r := range rows {
		if r.unit != nil {
			last = i
		}
	}
	from := min(max(0, last-most+2), len(units)-most)
	return units[from : from+most : from+most]
}

// line tells a change in a line of its own, for a file or a pipe.
func (v *RunView) line(c projector.Change) {
	i := c.Item
	p := v.state.units[i.Unit]
	switch {
	case i.Work != nil && c.Op == projector.Added && !i.Done:
		v.Err.Status("▸ %s · %s", i.Unit, i.Work.Agent)
	case i.Work != nil && c.Op == projector.Finished && i.Work.State == projector.WorkFinished && i.Work.Agent != "":
		v.Err.Status("✓ %s · %s · %s · %s so far", i.Unit, i.Work.Agent, terminal.DurationText(p.took), tokensText(v.state.used.Total()))
	case i.Pending != nil && i.Pending.CallID != "" && p != nil && c.Op == projector.Added:
		v.Err.Status("? %s · %s", i.Unit, terminal.OneLine(p.note))
	case i.Pending != nil && i.Pending.CallID != "" && c.Op == projector.Finished:
		v.Err.Status("▸ %s · %s has its response", i.Unit, i.Pending.Tool)
	case i.Pending != nil && c.Op == projector.Added:
		v.Err.Status("? %s · a person is asked", i.Unit)
	case i.Pending != nil && c.Op == projector.Finished && p != nil:
		v.Err.Status("✓ %s · %s", i.Unit, p.note)
	}
	if text := v.kept(c); text != "" {
		fmt.Fprintln(v.Err, text)
	}
}

// kept is what stays on the screen of a change whatever is drawn below it, ""
// for nothing: a warning, and where that is wanted what a unit answered.
func (v *RunView) kept(c projector.Change) string {
	i := c.Item
	switch {
	case i.Status != nil && i.Status.Event == (session.BudgetWarned{}).Kind() && c.Op == projector.Added:
		return v.Err.Paint(terminal.Yellow, "warning:") + fmt.Sprintf(" %v: %v of %v used", i.Status.Name, i.Status.Used, i.Status.Limit)
	case v.verbose && i.Work != nil && c.Op == projector.Finished && i.Work.State == projector.WorkFinished && i.Work.Agent != "":
		return v.Err.Paint(terminal.Dim, i.Unit) + "\n" + SetIn(terminal.Printable(v.Redactor.Redact(v.state.units[i.Unit].answer)))
	}
	return ""
}

// SetIn is text with each line a little to the right.
func SetIn(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return "  " + strings.Join(lines, "\n  ")
}

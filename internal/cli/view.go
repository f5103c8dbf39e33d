package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// view shows a run while it goes on, on standard error: on a terminal a
// drawing that is made anew in its place, elsewhere a line for each thing that
// happens, with --json the events themselves.
type view struct {
	*program
	*canvas
	spec    *spec.Spec
	verbose bool
	begun   time.Time

	stop, stopped chan struct{}

	course *course // guarded by the canvas, as are the next two
	id     string
	ended  bool
}

// view begins to show a run that has come as far as its course. The caller ends
// it.
func (p *program) view(s *spec.Spec, c *course, verbose bool) *view {
	v := &view{
		program: p, canvas: p.canvas(), spec: s, course: c, verbose: verbose, begun: time.Now(),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	v.canvas.lines = v.lines
	go func() {
		defer close(v.stopped)
		v.animate(v.stop, func() {})
	}()
	return v
}

// hear takes an event. It is a workflow.Host's OnEvent.
func (v *view) hear(e workflow.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.id = e.SessionID
	if v.json {
		if raw, err := session.JSON(e); err == nil {
			fmt.Fprintf(v.err, "%s\n", v.redactor.redact(string(raw)))
		}
		return
	}
	if e.Type == workflow.WorkflowStart {
		v.started(e)
	}
}

// started says which run goes on. Units that were begun before are taken up.
func (v *view) started(e workflow.Event) {
	resumed := v.course.goOn(time.Now())
	if v.live {
		v.draw()
		return
	}
	verb := "started"
	if start, ok := e.Data.(workflow.StartData); ok && start.Resumed {
		verb = "resumed"
	}
	v.err.status("%s %s · %s · id %s", verb, oneLine(e.SpecName), e.Pattern, e.SessionID)
	for _, p := range resumed {
		v.err.status("▸ %s · %s", p.unit, p.agent)
	}
}

// update takes what happens to the run. It is a workflow.Host's OnUpdate.
func (v *view) update(u holdfast.Update) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.course.route
	changes := v.course.update(u)
	if u.Delta != nil {
		if p := v.course.pieces[u.Delta.Unit]; p != nil {
			p.writing = v.redactor.redact(p.writing)
		}
	}
	switch {
	case v.json:
	case v.live: // the next frame shows it
		for _, c := range changes {
			if text := v.kept(c); text != "" {
				v.erase()
				fmt.Fprintln(v.err, text)
			}
		}
	default:
		if v.course.route != before {
			v.err.status("→ %s", v.course.route)
		}
		for _, c := range changes {
			v.line(c)
		}
		if u.Dropped != nil {
			v.err.status("%s · the model gave no answer", u.Dropped.Unit)
		}
	}
}

func lastRunes(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[len(r)-most:])
	}
	return text
}

// warn says what does not stop a run. It is a workflow.Host's Warn.
func (v *view) warn(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.json {
		if raw, err := session.JSON(map[string]string{"warning": fmt.Sprintf(format, args...)}); err == nil {
			fmt.Fprintf(v.err, "%s\n", raw)
		}
		return
	}
	v.erase()
	v.err.warn(format, args...)
	v.draw()
}

// end leaves the last drawing on the screen, made of what the log says where
// that could be read.
func (v *view) end(final *course) {
	close(v.stop)
	<-v.stopped
	v.mu.Lock()
	defer v.mu.Unlock()
	v.course.halt()
	if final != nil {
		v.course = final
	}
	v.ended = true
	v.draw()
	v.drawn = 0
	if !v.live && !v.json && v.id != "" {
		v.err.status("%s", chart{}.sum(v.spec, v.course, time.Since(v.begun)))
	}
}

// lines are a head, the units and a sum, no more than the screen has room for.
func (v *view) lines(columns, height int) []string {
	if v.id == "" { // a run that was refused is not drawn
		return nil
	}
	ch := chart{to: v.err, columns: columns, frame: v.frame, now: time.Now()}
	if v.ended {
		ch.frame = -1
	}
	units := ch.lines(v.spec, v.course)
	if most := max(1, height-4); len(units) > most {
		units = window(units, v.course, v.spec, most)
		units[0] = v.err.paint(dim, "  …")
	}
	name := cut(oneLine(v.spec.Name), columns-1)
	about := " · " + string(v.spec.Pattern.Type)
	about += " · " + shortID(v.id)
	head := v.err.paint(bold, name) + v.err.paint(dim, cut(about, columns-1-runewidth.StringWidth(name)))
	sum := cut("  "+ch.sum(v.spec, v.course, time.Since(v.begun)), columns-1)
	return append(append([]string{head}, units...), v.err.paint(dim, sum))
}

// window is the part of a long drawing where something goes on.
func window(units []string, c *course, s *spec.Spec, most int) []string {
	rows, _ := rowsOf(s, c)
	last := 0
	for i, r := range rows {
		if r.piece != nil {
			last = i
		}
	}
	from := min(max(0, last-most+2), len(units)-most)
	return units[from : from+most : from+most]
}

// size is the number of columns and lines of a terminal.
func (s *screen) size() (columns, lines int) {
	columns, lines = defaultWidth, 24
	if f, ok := s.w.(*os.File); ok && s.terminal {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return columns, lines
}

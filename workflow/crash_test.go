package workflow_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A process works on a run of a spec and is killed: when the model's server
// has its question, when the answer begins and when it has arrived, when a
// tool begins and when it is done, at the points at which the store writes,
// when a person is asked, and among the notes and artifacts it leaves. The
// next process takes the run up, without the spec. Some are killed as well.
// Whatever happened, no answer is asked for that is in the log, and the run
// ends as if nothing had happened.

func TestCrash_sqlite(t *testing.T)   { crashEverywhere(t, "sqlite", allKinds, kindSealed) }
func TestCrash_file(t *testing.T)     { crashEverywhere(t, "file", []string{kindWritten}, "") }
func TestCrash_postgres(t *testing.T) { crashEverywhere(t, "postgres", []string{kindWrite}, "") }

// Kinds of moments.
const (
	writePrefix = "write "

	kindAsked   = "model asked"
	kindBegan   = "answer begins"
	kindArrived = "answer arrived"
	kindTool    = "tool"
	kindWritten = "answer written"
	kindSealed  = "unit written"
	kindWrite   = "other write"
	kindPaused  = "person asked"
	kindNotes   = "notes"
	kindFiles   = "artifacts"
)

var allKinds = []string{kindAsked, kindBegan, kindArrived, kindWritten, kindTool, kindSealed, kindWrite, kindPaused, kindNotes, kindFiles}

// minorKinds are those of a sample where another spec of the pattern has all.
var minorKinds = []string{kindArrived, kindWritten, kindSealed, kindWrite, kindPaused}

// moment is where a process dies: by its own hand, or by that of the recorder
// when it receives a request.
type moment struct {
	kind, name string
	apply      func(r *crashRun, j *crashJob)
}

// deaths are all moments of a run.
func (p *crashPlan) deaths() []moment {
	var all []moment
	add := func(kind, name string, apply func(r *crashRun, j *crashJob)) {
		all = append(all, moment{kind, p.name + ": " + name, apply})
	}
	writes, special := 0, p.special()
	for i, name := range p.moments {
		before, what, _ := strings.Cut(name, ": ")
		switch kind := map[string]string{
			"answer began": kindBegan, "answer arrived": kindArrived, "tool began": kindTool, "tool ended": kindTool, "paused": kindPaused,
			"unit done": kindNotes,
		}[before]; {
		case strings.HasPrefix(name, writePrefix):
			writes++
			n, kind := writes, kindWrite
			if special[i] != "" {
				kind = special[i]
			}
			add(kind, fmt.Sprintf("%s (%d)", name, n), func(_ *crashRun, j *crashJob) { j.DieWrite = n })
		case kind == kindArrived:
			add(kindAsked, "request received: "+what, func(r *crashRun, _ *crashJob) { r.killAsk = what })
			fallthrough
		default:
			add(kind, name, func(_ *crashRun, j *crashJob) { j.DieAt = name })
		}
	}
	for n := range p.left.Notes {
		add(kindNotes, fmt.Sprint("note ", n+1), func(_ *crashRun, j *crashJob) { j.DieFiles = files{Notes: n + 1} })
	}
	for n := range p.left.Artifacts {
		add(kindFiles, fmt.Sprint("artifact begun ", n+1), func(_ *crashRun, j *crashJob) { j.DieFiles = files{Artifacts: n, Temporary: 1} })
		add(kindFiles, fmt.Sprint("artifact ", n+1), func(_ *crashRun, j *crashJob) { j.DieFiles = files{Artifacts: n + 1} })
	}
	return all
}

// special are the write points at which an answer has just been written, or a
// unit: there the store begins its next write, or the run tells of the unit.
func (p *crashPlan) special() map[int]string {
	found := map[int]string{}
	for i, name := range p.moments {
		switch {
		case strings.HasPrefix(name, "answer arrived"):
			if last := p.lastOfWrite(i); last >= 0 {
				found[last] = kindWritten
			}
		case strings.HasPrefix(name, "unit done"):
			for i > 0 && !strings.HasPrefix(p.moments[i], writePrefix) {
				i--
			}
			found[i] = kindSealed
		}
	}
	return found
}

// lastOfWrite is the last point of the first write after a moment, -1 where it
// does not end.
func (p *crashPlan) lastOfWrite(i int) int {
	begin, last := "", -1
	for ; i < len(p.moments); i++ {
		switch name := p.moments[i]; {
		case !strings.HasPrefix(name, writePrefix):
			continue
		case begin == "":
			begin = name
		case name == begin:
			return last
		}
		last = i
	}
	return -1
}

// crashEverywhere kills processes on one store: at one moment of each of these
// kinds for every spec and at all of one kind where there are summaries, or at
// all moments there are.
func crashEverywhere(t *testing.T, name string, kinds []string, ofSummary string) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	t.Parallel()
	s, plans := newCrashSite(t, name), crashPlans()
	s.each(t, len(plans), func(ctx context.Context, i int) error { return s.rehearse(ctx, plans[i]) })
	if t.Failed() {
		return
	}
	type cell struct {
		plan *crashPlan
		moment
	}
	var cells []cell
	for _, p := range plans {
		deaths := p.deaths()
		if flag.Lookup(wholeFlag).Value.String() != "true" {
			of, every := kinds, ""
			if p.minor {
				of = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return !slices.Contains(minorKinds, kind) })
			}
			if p.summarised {
				every = ofSummary
			}
			deaths = sample(deaths, of, every)
		}
		for _, m := range deaths {
			cells = append(cells, cell{p, m})
		}
	}
	var l tally
	s.each(t, len(cells), func(ctx context.Context, i int) error {
		again := 0
		if i%4 == 0 {
			again = 1 + i%17
		}
		if err := s.dieAt(ctx, &l, cells[i].plan, cells[i].moment, again); err != nil {
			return fmt.Errorf("killed at %s: %w", cells[i].name, err)
		}
		return nil
	})
	l.log(t)
	if c := l.sum(); c.kills < len(cells)*9/10 || c.repeats > 0 || c.differences > 0 { // what is watched for may be over too soon
		t.Errorf("%d kills at %d moments, %d repeated calls, %d differences", c.kills, len(cells), c.repeats, c.differences)
	}
}

// sample is one moment of each kind, each at another part of the run, and all
// of one kind.
func sample(deaths []moment, kinds []string, every string) []moment {
	var some []moment
	for k, kind := range kinds {
		var all []moment
		for _, m := range deaths {
			if m.kind == kind {
				all = append(all, m)
			}
		}
		switch {
		case kind == every:
			some = append(some, all...)
		case len(all) > 0:
			some = append(some, all[len(all)*(k+1)/(len(kinds)+1)])
		}
	}
	return some
}

// dieAt kills a process at one moment, the next at its write point of that
// number (0: it lives), and lets the last one finish.
func (s *crashSite) dieAt(ctx context.Context, l *tally, p *crashPlan, m moment, again int) error {
	r, err := s.newRun(ctx, p)
	if err != nil {
		return err
	}
	job := r.job
	m.apply(r, &job)
	killed, err := r.live(ctx, job)
	if err == nil && killed != "" && again > 0 {
		job = r.job
		job.DieWrite = again
		killed, err = r.live(ctx, job)
	}
	if err == nil && killed != "" {
		if killed, err = r.live(ctx, r.job); err == nil && killed != "" {
			err = fmt.Errorf("killed by %s, which nobody asked for", killed)
		}
	}
	if err != nil {
		return err
	}
	c, err := r.account() //nolint:contextcheck // a projection asks nobody
	l.add(p.pattern, m.kind, c)
	return err
}

// tally adds up runs by pattern and kind of moment.
type tally struct {
	mu sync.Mutex // guards by
	by map[[2]string]*crashCounts
}

func (l *tally) add(pattern, kind string, c crashCounts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[[2]string]*crashCounts{}
	}
	at := [2]string{pattern, kind}
	if l.by[at] == nil {
		l.by[at] = &crashCounts{}
	}
	l.by[at].add(c)
}

func (l *tally) sum() (c crashCounts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.by {
		c.add(*d)
	}
	return c
}

// columns are the kinds of moments as the matrix shows them.
var columns = []struct {
	name  string
	kinds []string
}{
	{"model call", []string{kindAsked, kindBegan, kindArrived}},
	{"tool", []string{kindTool}},
	{"write point", []string{kindWritten, kindSealed, kindWrite}},
	{"question", []string{kindPaused}},
	{"note", []string{kindNotes}},
	{"artifact", []string{kindFiles}},
}

// log writes the matrix: per pattern the kills of each kind, and what came of
// all of them.
func (l *tally) log(t *testing.T) {
	t.Helper()
	var b strings.Builder
	b.WriteString("| pattern |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString(" kills | asked again, written | differences | asked again, lost |\n")
	var patterns []string
	for _, p := range crashPlans() {
		if !slices.Contains(patterns, p.pattern) {
			patterns = append(patterns, p.pattern)
		}
	}
	for _, pattern := range patterns {
		var all crashCounts
		fmt.Fprintf(&b, "| %s |", pattern)
		for _, column := range columns {
			var of crashCounts
			for _, kind := range column.kinds {
				if c := l.by[[2]string{pattern, kind}]; c != nil {
					of.add(*c)
				}
			}
			all.add(of)
			fmt.Fprintf(&b, " %d |", of.kills)
		}
		fmt.Fprintf(&b, " %d | %d | %d | %d |\n", all.kills, all.repeats, all.differences, all.lost)
	}
	t.Logf("\n%s", b.String())
}

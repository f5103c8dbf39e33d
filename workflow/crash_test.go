package workflow_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
)

// TestMain is also where the processes begin that the crash tests kill.
func TestMain(m *testing.M) {
	crashtest.Main(map[string]crashtest.Work{"run": workOnRun})
	// The clock of patterns ends by itself, some time after the last search.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock"))
}

// A process works on a run of a spec and is killed: when the model's server
// has its question, when the answer begins and when it has arrived, when a
// tool begins and when it is done, at the points at which the store writes,
// when a person is asked, and among the notes and artifacts it leaves. The
// next process takes the run up, without the spec. Some are killed as well.
// Whatever happened, no answer is asked for that is in the log, and the run
// ends as if nothing had happened.

func TestCrash_sqlite(t *testing.T)   { crashRuns(t, "sqlite", allKinds, kindSealed) }
func TestCrash_file(t *testing.T)     { crashRuns(t, "file", []string{kindWritten}, "") }
func TestCrash_postgres(t *testing.T) { crashRuns(t, "postgres", []string{crashtest.WritePoint}, "") }

// Kinds of moments.
const (
	kindAsked   = "request received"
	kindBegan   = "answer began"
	kindArrived = "answer arrived"
	kindTool    = "tool"
	kindWritten = "answer written"
	kindSealed  = "unit written"
	kindPaused  = "paused"
	kindNotes   = "notes"
	kindFiles   = "artifacts"
)

var allKinds = []string{
	kindAsked, kindBegan, kindArrived, kindWritten, kindTool, kindSealed, crashtest.WritePoint, kindPaused, kindNotes, kindFiles,
}

// minorKinds are those of a sample where another spec of the pattern has all.
var minorKinds = []string{kindArrived, kindWritten, kindSealed, crashtest.WritePoint, kindPaused}

// runKills are all moments of a run.
func runKills(s crashSpec, p *crashtest.Plan) []crashtest.Kill {
	all := p.Kills()
	for i, point := range p.Points {
		switch {
		case strings.HasPrefix(point, "responded: "):
			all[i].Kind = kindPaused
		case strings.HasPrefix(point, "tool "):
			all[i].Kind = kindTool
		case strings.HasPrefix(point, "unit done"):
			all[i].Kind = kindNotes
			for i > 0 && !strings.HasPrefix(p.Points[i], child.WritePrefix) {
				i--
			}
			all[i].Kind = kindSealed
		case strings.HasPrefix(point, "answer arrived"):
			if last := lastOfWrite(p.Points, i); last >= 0 {
				all[last].Kind = kindWritten
			}
		}
	}
	left := filesIn(p.Undisturbed.Dir)
	add := func(kind, name string, f files) {
		all = append(all, crashtest.Kill{Kind: kind, Name: name, At: f.point()})
	}
	for n := range left.notes {
		add(kindNotes, fmt.Sprint("note ", n+1), files{notes: n + 1})
	}
	for n := range left.artifacts {
		add(kindFiles, fmt.Sprint("artifact begun ", n+1), files{artifacts: n, temporary: 1})
		add(kindFiles, fmt.Sprint("artifact ", n+1), files{artifacts: n + 1})
	}
	for i := range all {
		all[i].Name = s.name + ": " + all[i].Name
	}
	return all
}

// lastOfWrite is the last point of the first write after a moment, -1 where it
// does not end. There what the moment led to has just been written.
func lastOfWrite(points []string, i int) int {
	begin, last := "", -1
	for ; i < len(points); i++ {
		switch name := points[i]; {
		case !strings.HasPrefix(name, child.WritePrefix):
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

// crashRuns kills processes on one store: at one moment of each of these kinds
// for every spec and at all of one kind where there are summaries, or at all
// moments there are.
func crashRuns(t *testing.T, name string, kinds []string, ofSummary string) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	t.Parallel()
	config := crashtest.Config{Store: name, Protocol: "openai"}
	if name == "postgres" {
		config.Lease, config.Together = 6*time.Second, 12 // nobody knows that the holder is dead: its lease has to end
	}
	specs := crashSpecs
	if name == "file" { // it has no inbox
		specs = slices.DeleteFunc(slices.Clone(specs), func(s crashSpec) bool { return s.remote })
	}
	place := crashtest.NewPlace(t, config)
	plans := make([]*crashtest.Plan, len(specs))
	place.Each(t, len(plans), func(ctx context.Context, i int) (err error) {
		plans[i], err = place.Rehearse(ctx, specs[i].scenario()) //nolint:contextcheck // a projection asks nobody
		return err
	})
	if t.Failed() {
		return
	}
	var cells []crashtest.Cell
	for i, s := range specs {
		kills := runKills(s, plans[i])
		if !crashtest.Whole() {
			of, every := kinds, ""
			if s.minor {
				of = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return !slices.Contains(minorKinds, kind) })
			}
			if s.summarised {
				every = ofSummary
			}
			kills = sample(kills, of, every)
		}
		cells = append(cells, crashtest.Cells(plans[i], kills)...)
	}
	logRuns(t, place.KillAll(t, cells, 17))
}

// sample is one moment of each kind, each at another part of the run, and all
// of one kind.
func sample(kills []crashtest.Kill, kinds []string, every string) []crashtest.Kill {
	var some []crashtest.Kill
	for k, kind := range kinds {
		var all []crashtest.Kill
		for _, m := range kills {
			if m.Kind == kind {
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

// logRuns writes the matrix: per pattern the kills of each kind, and what came
// of all of them.
func logRuns(t *testing.T, l *crashtest.Tally) {
	t.Helper()
	var patterns []string
	for _, s := range crashSpecs {
		if !slices.Contains(patterns, s.pattern) {
			patterns = append(patterns, s.pattern)
		}
	}
	l.Log(t, "pattern", patterns,
		crashtest.Of("model call", kindAsked, kindBegan, kindArrived),
		crashtest.Of("tool", kindTool),
		crashtest.Of("write point", kindWritten, kindSealed, crashtest.WritePoint),
		crashtest.Of("question", kindPaused),
		crashtest.Of("note", kindNotes),
		crashtest.Of("artifact", kindFiles),
		crashtest.Kills, crashtest.AskedAgain, crashtest.Differences, crashtest.Lost)
}

// Two processes take up an interrupted run at the same time: one works, the
// other is told that the run is busy.
func TestCrash_twoTakeItUp(t *testing.T) {
	t.Parallel()
	place := crashtest.NewPlace(t, crashtest.Config{Store: "sqlite", Protocol: "openai"})
	r, err := place.MustRehearse(t, crashSpecs[0].scenario()).NewRun(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if killed, err := r.Live(t.Context(), crashtest.Kill{At: "paused: step/1"}); err != nil || killed == "" {
		t.Fatalf("killed by %q, %v", killed, err)
	}
	job := r.Job.(runJob)
	job.NoWait = true
	r.Job = job
	if err := r.TakeUpTwice(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := r.Account(); err != nil || c.Lost != 0 {
		t.Errorf("%+v, %v: want every answer asked for once", c, err)
	}
}

// The same without processes: every write of every spec fails once.
func TestCrash_everyWriteFails(t *testing.T) {
	t.Parallel()
	place := crashtest.NewPlace(t, crashtest.Config{Store: crashtest.Memory, Protocol: "openai"})
	for _, s := range crashSpecs {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			calls := []string{"Append", "Save"}
			if s.after == afterCancel { // it has no units
				calls = calls[1:]
			}
			place.FailEveryWrite(t, s.scenario(), calls...)
		})
	}
}

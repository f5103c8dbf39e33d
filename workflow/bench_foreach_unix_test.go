//go:build unix

package workflow_test

import (
	"strings"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/benchmark"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// processorTime is what the process has used so far, whatever else runs here.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	used, err := benchmark.ProcessorTime()
	if err != nil {
		b.Fatal(err)
	}
	return used
}

// Ten times as many items of a list: the run, and its graph. Both should take
// about ten times as much time of the processor; the ratio is printed.
func BenchmarkForEach(b *testing.B) {
	const few, many = 1_000, 10_000
	st := inmem.New(inmem.Config{})
	rt := speedRuntime(b, st, nil)
	measure := func(items int) (run, graph time.Duration) {
		vars := spec.Map[string]{{Name: "towns", Value: list(items)}}
		loaded, err := workflow.Load(written(b, strings.Replace(eachSpec, "max_parallel: 3", "max_parallel: 64", 1)), vars)
		if err != nil {
			b.Fatal(err)
		}
		began := processorTime(b)
		res, err := workflow.Start(b.Context(), rt, loaded, workflow.RunOptions{Host: speedHost(instant{}), Out: b.TempDir(), Vars: vars})
		if err != nil || res.Status != workflow.StatusCompleted {
			b.Fatal(res.Status, err)
		}
		run = processorTime(b) - began
		s, err := rt.Get(b.Context(), res.SessionID, holdfast.Whole())
		if err != nil {
			b.Fatal(err)
		}
		began = processorTime(b)
		if _, err := workflow.RunGraph(s); err != nil {
			b.Fatal(err)
		}
		return run, processorTime(b) - began
	}
	var runs, graphs [2]time.Duration
	for b.Loop() {
		for i, n := range []int{few, many} {
			run, graph := measure(n)
			runs[i], graphs[i] = runs[i]+run, graphs[i]+graph
		}
	}
	b.ReportMetric(float64(runs[1].Milliseconds())/float64(b.N), "ms/run-of-10000")
	b.ReportMetric(float64(runs[1])/float64(runs[0]), "run-ratio")
	b.ReportMetric(float64(graphs[1].Milliseconds())/float64(b.N), "ms/graph-of-10000")
	b.ReportMetric(float64(graphs[1])/float64(graphs[0]), "graph-ratio")
}

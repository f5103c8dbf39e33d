package strands_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/workflow"
)

// Whatever version of a run is exported, it reads back as it was, and goes on
// to the same end without asking anything twice.
func TestExport_everyVersionGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	for name, text := range patterns {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &actor{}
			b, _, err := start(t, text, a, nil)
			if err != nil {
				t.Fatal(err)
			}
			b.toTheEnd(t, a)
			end, calls := shown(t, b.state(t, 0)), len(a.calls())
			last := b.session(t, 0).Version()
			if last < 2 {
				t.Fatalf("the run has %d versions", last)
			}
			for version := int64(1); version <= last; version++ {
				d, err := strands.Export(t.Context(), b.rt, b.id, t.TempDir(), strands.ExportOptions{At: version})
				if err != nil {
					t.Fatalf("export at %d: %v", version, err)
				}
				again := begun{rt: newRuntime(t, nil), out: b.out}
				var notes []string
				if again.id, notes, err = strands.Import(t.Context(), again.rt, d, strands.ImportOptions{}); err != nil || len(notes) > 0 {
					t.Fatalf("import of %d: %v %v", version, err, notes)
				}
				if got, want := shown(t, again.state(t, 0)), shown(t, b.state(t, version)); got != want {
					t.Fatalf("version %d reads back as\n%s\nwant\n%s", version, got, want)
				}
				if was := again.session(t, 0).Info(); !was.CreatedAt.Equal(b.session(t, 0).Info().CreatedAt) {
					t.Errorf("version %d was created at %v", version, was.CreatedAt)
				}
				more := &actor{}
				again.toTheEnd(t, more)
				if got := shown(t, again.state(t, 0)); got != end {
					t.Errorf("version %d ends as\n%s\nwant\n%s", version, got, end)
				}
				if got, want := len(more.calls()), calls-answered(b.session(t, version)); got != want {
					t.Errorf("version %d: %d calls to its end, want %d:\n%q\nof\n%q", version, got, want, more.calls(), a.calls())
				}
				if again.state(t, 0).Metadata.Status != workflow.StatusCompleted {
					t.Errorf("version %d is not completed", version)
				}
			}
		})
	}
}

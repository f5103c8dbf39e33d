package worker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/worker"
)

// How long after the end of a dead process's lease another one goes on with its
// work, with the defaults.
func BenchmarkTakeover(b *testing.B) {
	st := inmem.New(inmem.Config{})
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": scripted.New()}, DefaultModel: "demo"})
	if err != nil {
		b.Fatal(err)
	}
	taken := make(chan time.Time, 1)
	w, err := worker.New(worker.Config{Runtime: rt, Store: st, Kinds: map[session.Kind]worker.Kind{session.KindChat: {
		Slots: 4, Do: func(ctx context.Context, rt *holdfast.Runtime, id string) (bool, error) {
			taken <- time.Now()
			_, err := rt.Execute(ctx, id, holdfast.AbandonExecution{})
			return true, err
		},
	}}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		s, err := rt.Create(ctx, session.Definition{Name: "a"}, holdfast.WithID(fmt.Sprint("s", i)))
		if err != nil {
			b.Fatal(err)
		}
		lease, err := st.Acquire(ctx, store.Ref{Tenant: session.DefaultTenant, ID: s.ID()}, "a process that died", 200*time.Millisecond)
		if err != nil {
			b.Fatal(err)
		}
		if s, err = s.With(time.Now(), session.ExecutionStarted{ExecutionID: "e"}); err == nil {
			_, err = st.Append(ctx, s, store.Append{Fence: lease.Token})
		}
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-taken).Sub(lease.Until))
	}
	stop()
	<-done
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "ms-median")
	b.ReportMetric(float64(took[len(took)-1])/1e6, "ms-most")
	if err := rt.Close(); err != nil {
		b.Fatal(err)
	}
}

package holdfast

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
)

// Recovered is what Recover did about one session.
type Recovered struct {
	ID      string
	Version int64 // 0 when it failed
	Err     error
}

// Recover continues every interrupted conversation it can get the lease of, a
// few at a time, and reports each. Tasks and workflow runs are taken up by
// their own packages.
func (rt *Runtime) Recover(ctx context.Context) ([]Recovered, error) {
	if rt.tails == nil {
		return nil, rt.unsupported("resuming")
	}
	refs, err := rt.tails.Interrupted(ctx, rt.who.Tenant)
	if err != nil {
		return nil, err
	}
	const atOnce = 4
	results := make([]*Recovered, len(refs))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, ref := range refs {
		info, err := rt.store.Info(ctx, ref)
		if err != nil {
			results[i] = &Recovered{ID: ref.ID, Err: err}
			continue
		}
		if info.Kind != session.KindChat || info.Status != session.Active {
			continue
		}
		s, err := rt.store.Load(ctx, ref, true)
		if err != nil {
			results[i] = &Recovered{ID: ref.ID, Err: err}
			continue
		}
		if (&execution{rt: rt, ref: ref}).checkResponded(ctx, s) != nil {
			continue // it waits for responses, and needs no process for that
		}
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer wg.Done()
			defer func() { <-slots }()
			s, err := rt.Execute(ctx, ref.ID, ContinueExecution{}, OnBusy(Reject))
			results[i] = &Recovered{ID: ref.ID, Err: err}
			if !s.IsZero() && (err == nil || errors.Is(err, session.ErrExecutionFailed) || errors.Is(err, session.ErrAfterSave)) {
				results[i].Version = s.Version()
			}
		}()
	}
	wg.Wait()
	var done []Recovered
	for _, r := range results {
		if r != nil {
			done = append(done, *r)
		}
	}
	return done, nil
}

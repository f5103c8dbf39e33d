package holdfast

import (
	"context"
	"fmt"
	"iter"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Log reads a session's changes after a number, sealed or in the open tail.
// For a fork the parent's come first. It needs a store with a log.
func (rt *Runtime) Log(ctx context.Context, id string, after int64) iter.Seq2[session.LogEntry, error] {
	return func(yield func(session.LogEntry, error) bool) {
		ref, err := rt.logRef(id)
		if err != nil {
			yield(session.LogEntry{}, err)
			return
		}
		from := after
		rt.readLog(ctx, ref, &from, yield)
	}
}

// readLog yields what the log holds after a number, which it advances. It
// reports whether to continue.
func (rt *Runtime) readLog(ctx context.Context, ref store.Ref, after *int64, yield func(session.LogEntry, error) bool) bool {
	return readPages(after, yield, func(after int64) ([]session.LogEntry, error) { return rt.logs.Log(ctx, ref, after, 0) })
}

// readPages yields what is read page by page.
func readPages(after *int64, yield func(session.LogEntry, error) bool, read func(after int64) ([]session.LogEntry, error)) bool {
	for {
		entries, err := read(*after)
		if err != nil {
			yield(session.LogEntry{}, err)
			return false
		}
		if len(entries) == 0 {
			return true
		}
		for _, e := range entries {
			*after = e.Seq
			if !yield(e, nil) {
				return false
			}
		}
	}
}

func (rt *Runtime) logRef(id string) (store.Ref, error) {
	ref, err := rt.openRef(id)
	if err == nil && rt.logs == nil {
		err = rt.unsupported("a log")
	}
	return ref, err
}

// Commits lists the versions of a session after one: who did what, and when.
func (rt *Runtime) Commits(ctx context.Context, id string, after int64) ([]store.CommitInfo, error) {
	ref, err := rt.logRef(id)
	if err != nil {
		return nil, err
	}
	var all []store.CommitInfo
	for {
		page, err := rt.logs.Commits(ctx, ref, after, 0)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		after = page[len(page)-1].Version
	}
}

// Diff lists the changes that lead from one version to a later one.
func (rt *Runtime) Diff(ctx context.Context, id string, from, to int64) ([]session.LogEntry, error) {
	ref, err := rt.logRef(id)
	if err != nil {
		return nil, err
	}
	if from > to {
		return nil, &session.InvalidError{Field: "version", Reason: fmt.Sprintf("%d is later than %d", from, to)}
	}
	seqs := make([]int64, 2)
	for i, version := range []int64{from, to} {
		s, err := rt.logs.LoadAt(ctx, ref, version)
		if err != nil {
			return nil, err
		}
		seqs[i] = s.Info().Seq
	}
	var changes []session.LogEntry
	after := seqs[0]
	var failed error
	rt.readLog(ctx, ref, &after, func(e session.LogEntry, err error) bool {
		if err != nil || e.Seq > seqs[1] {
			failed = err
			return false
		}
		changes = append(changes, e)
		return true
	})
	return changes, failed
}

// Watch yields a session's changes after a number, then waits for more until
// the context ends. The number of a change is the cursor to go on from; none
// is left out or repeated. Watching changes nothing and holds nothing.
func (rt *Runtime) Watch(ctx context.Context, id string, after int64) iter.Seq2[session.LogEntry, error] {
	return func(yield func(session.LogEntry, error) bool) {
		ref, err := rt.logRef(id)
		if err != nil {
			yield(session.LogEntry{}, err)
			return
		}
		news := func(e session.LogEntry, err error) bool {
			return (err == nil || ctx.Err() == nil) && yield(e, err) // the context's end is no news
		}
		changed, stop := rt.subscribeChanges(ref)
		defer stop()
		from := after
		for rt.readLog(ctx, ref, &from, news) {
			if err := rt.await(ctx, changed, rt.config.Poll); err != nil {
				news(session.LogEntry{}, err)
				return
			}
		}
	}
}

package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow"
)

// What the processes do with a run that was made before the first of them.
const (
	afterRedo   = "redo"   // do its first unit again, and all after it
	afterFork   = "fork"   // fork it with another answer of its first unit
	afterCancel = "cancel" // end it for good
)

// checkAfter checks that what was to be done with the run was done.
func (s crashSpec) checkAfter(r *crashtest.Run) error {
	end, ok := r.Last.State.(session.Session)
	if !ok || s.after == "" {
		return nil
	}
	want := workflow.StatusCompleted
	if s.after == afterCancel {
		want = workflow.StatusCancelled
	}
	st, err := workflow.Project(end)
	switch {
	case err != nil:
		return err
	case st.Metadata.Status != want:
		return fmt.Errorf("after the %s the run is %s, want %s", s.after, st.Metadata.Status, want)
	case s.after != afterCancel && keyIn(st.Final) == "":
		return fmt.Errorf("after the %s the run says %q, which is of before", s.after, st.Final)
	}
	return nil
}

// forkedFrom is the id of the run that a fork comes from.
func forkedFrom(id string) string { return id + "-before" }

// prepareRun makes a run that waits for a person and, unless it is to be
// cancelled, one that is completed. Its model is none that is counted.
func prepareRun(ctx context.Context, r *crashtest.Run, st store.Store, after string) (err error) {
	rt, err := holdfast.New(holdfast.Config{Store: st})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	model := &actor{answer: func(q llm.Request) (llm.Response, error) { return said("Earlier."), nil }}
	h := host(model)
	h.Env.Providers, h.WorkDir = []string{"recorded"}, r.Dir
	s, err := workflow.Load(filepath.Join(r.Dir, specFile), nil)
	if err != nil {
		return err
	}
	id := r.ID
	if after == afterFork {
		id = forkedFrom(id)
	}
	res, err := workflow.Start(ctx, rt, s, workflow.RunOptions{Host: h, ID: id, Out: filepath.Join(r.Dir, outDir)})
	if err == nil && after != afterCancel {
		yes := "yes"
		res, err = workflow.Resume(ctx, rt, id, workflow.ResumeOptions{Host: h, Out: filepath.Join(r.Dir, outDir), Answer: &yes})
	}
	if want := map[bool]workflow.Status{true: workflow.StatusPaused, false: workflow.StatusCompleted}[after == afterCancel]; err == nil && res.Status != want {
		err = fmt.Errorf("the run is %s, want %s", res.Status, want)
	}
	return err
}

// startAfter does what is to be done with the run, unless a process before this
// one has.
func startAfter(ctx context.Context, rt *holdfast.Runtime, w *crashtest.Worker, after string, o workflow.ResumeOptions) (workflow.Result, error) {
	switch after {
	case afterCancel:
		pending, err := workflow.Cancel(ctx, rt, w.Run)
		if err == nil && pending { // by a process that is dead: who comes next finds the request
			_, err = workflow.Resume(ctx, rt, w.Run, o)
		}
		var cancelled *workflow.CancelledError
		if err != nil && !errors.As(err, &cancelled) {
			return workflow.Result{}, err
		}
		return workflow.Result{Status: workflow.StatusCancelled}, nil
	case afterFork:
		o.Force = true // the files are those of the run that it comes from
		_, err := rt.Info(ctx, w.Run)
		if errors.Is(err, session.ErrNotFound) {
			_, err = workflow.Fork(ctx, rt, forkedFrom(w.Run), workflow.ForkOptions{ID: w.Run, Outputs: map[string]string{"step/0": "Another beginning."}})
		}
		if err != nil {
			return workflow.Result{}, err
		}
		return workflow.Resume(ctx, rt, w.Run, o)
	}
	s, err := rt.Get(ctx, w.Run, holdfast.Whole(), holdfast.WithTail())
	if err != nil {
		return workflow.Result{}, err
	}
	if slices.ContainsFunc(s.Ledger(), func(r session.Record) bool { _, ok := r.Change.(session.UnitsReset); return ok }) {
		return workflow.Resume(ctx, rt, w.Run, o)
	}
	return workflow.Redo(ctx, rt, w.Run, "step/0", o)
}

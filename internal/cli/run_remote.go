package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

// runHereFlags are what only the machine that works on a run can do.
var runHereFlags = []string{
	"out", "force", "allow-path", "model", "trace", "strict", "accept-changes", "no-wait", "interactive", "save-session", "no-save-session",
}

// doOnServer starts a run that a server works on, or goes on with one, and shows
// it until it rests. The server works on it whether somebody looks or not.
func (j *runPass) doOnServer(ctx context.Context, h *setup.Env) error {
	var refused error
	j.Command.Flags().Visit(func(f *pflag.Flag) {
		for _, name := range runHereFlags {
			if f.Name == name && refused == nil {
				refused = &session.InvalidError{Field: name, Reason: "the server works on the run, with its own models, tools and folders"}
			}
		}
	})
	if refused != nil {
		return refused
	}
	id, err := j.find(ctx, h)
	if err != nil {
		return err
	}
	before, after := display.NewRunState(), int64(0)
	if id != "" {
		s, err := h.Get(ctx, id, holdfast.Whole(), holdfast.WithTail())
		if err == nil {
			j.spec, err = display.SpecOf(s)
		}
		if err != nil {
			return err
		}
		j.result.SessionID, before, after = id, display.RunStateOf(s, false), s.Seq()
	}
	if id, err = j.begin(ctx, h, id); err != nil {
		return err
	}
	j.result.SessionID = id
	j.view = display.NewRunView(j.Console, j.spec, before, j.options.verbose)
	j.view.TakeEvent(workflow.Event{
		Type: workflow.WorkflowStart, Timestamp: workflow.NowISO8601(), SessionID: id, SpecName: j.spec.Name, Pattern: j.spec.Pattern.Type, Data: workflow.StartData{Resumed: after > 0},
	})
	err = errors.Join(j.followRun(ctx, h, id, after), j.readResult(context.WithoutCancel(ctx), h, id))
	var final *display.RunState
	if !j.final.IsZero() {
		final = display.RunStateOf(j.final, false)
	}
	j.view.End(final)
	return err
}

// begin lets the server work on a run and returns its id.
func (j *runPass) begin(ctx context.Context, h *setup.Env, id string) (string, error) {
	switch {
	case id == "":
		text, err := os.ReadFile(j.spec.Path())
		if err != nil {
			return "", &specFileError{path: j.spec.Path(), err: err}
		}
		var wrong *session.SpecError
		r, err := h.Server.StartRun(ctx, client.NewRun{Spec: string(text), Variables: asMap(j.vars), Name: j.options.name})
		if errors.As(err, &wrong) {
			wrong.File = j.spec.Path() // the server knows no file
		}
		return r.Session.ID, err
	case j.options.redo != "":
		_, err := h.Server.RedoRun(ctx, id, j.options.redo)
		return id, err
	}
	_, err := h.Server.ResumeRun(ctx, id, client.ResumeOptions{Reopen: j.options.reopen, Answer: j.options.answer, Target: j.options.target})
	return id, err
}

// followRun shows a run until it rests. Ctrl-C stops looking at it.
func (j *runPass) followRun(ctx context.Context, h *setup.Env, id string, after int64) error {
	looking, leave := context.WithCancel(ctx)
	defer leave()
	var (
		seen   atomic.Int64 // the last change that was shown
		rested atomic.Bool
	)
	seen.Store(after)
	go func() {
		for {
			select {
			case <-j.options.stop:
				leave()
			case <-looking.Done():
				return
			case <-time.After(restPause):
				if restsAt(looking, h, id, seen.Load()) {
					rested.Store(true)
					leave()
				}
			}
		}
	}()
	for u, err := range h.Follow(looking, id, after) {
		if looking.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		j.view.TakeUpdate(u)
		if u.Record == nil {
			continue
		}
		if row, ok := u.Record.Change.(session.WorkflowRowChanged); ok && row.Workflow.Status != string(workflow.StatusRunning) {
			return nil
		}
		seen.Store(u.Record.Seq)
	}
	if rested.Load() {
		return nil
	}
	j.view.Warn("the server goes on with it: holdfast sessions show %s; stop it with: holdfast sessions suspend %s", display.ShortID(id), display.ShortID(id))
	return &session.InterruptedError{ID: id, Err: context.Canceled}
}

// restPause is how often a run that is followed is looked at: one that is resumed
// and still waits writes nothing.
const restPause = 100 * time.Millisecond

// restsAt reports that nobody works on a run, that it waits or has ended, and that
// everything up to there was shown.
func restsAt(ctx context.Context, h *setup.Env, id string, seen int64) bool {
	if _, held, err := h.Holder(ctx, id); err != nil || held {
		return false
	}
	i, err := h.Info(ctx, id)
	return err == nil && i.Workflow != nil && i.Workflow.Status != string(workflow.StatusRunning) && seen >= i.Seq
}

// readResult reads what the run has come to. The error is that of a run that
// failed or was cancelled.
func (j *runPass) readResult(ctx context.Context, h *setup.Env, id string) error {
	s, err := h.Get(ctx, id, holdfast.Whole(), holdfast.WithTail())
	if err != nil {
		return err
	}
	state, err := workflow.Project(s) //nolint:contextcheck // it reads what is there and waits for nobody
	if err != nil {
		return err
	}
	j.final = s
	r := &j.result
	r.Name, r.Pattern, r.Version, r.Status = j.spec.Name, j.spec.Pattern.Type, s.Version(), state.Metadata.Status
	r.LastResponse, r.Agent, r.Usage, r.Artifacts, r.Waiting, r.Pending = state.Final, state.Agent, state.Usage, state.Artifacts, state.Waiting, state.Open
	_, r.Cost = s.Usage()
	if len(state.Open) > 0 {
		r.Question = &state.Open[0]
	}
	switch {
	case r.Status == workflow.StatusCancelled:
		return context.Canceled
	case r.Status == workflow.StatusFailed && state.Metadata.Error != nil:
		kind, text, _ := strings.Cut(*state.Metadata.Error, ": ")
		r.Error = *state.Metadata.Error
		return &workflow.RunError{Kind: workflow.Kind(kind), Err: errors.New(text)}
	}
	return nil
}

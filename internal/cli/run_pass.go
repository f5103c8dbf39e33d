package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// runPass is one pass over a workflow run, from the command line to its result.
type runPass struct {
	*program
	options *runOptions
	http    tools.HTTP
	models  *setup.SpecModels

	vars spec.Map[string]
	spec *spec.Spec // nil: not read yet
	view *display.RunView

	result workflow.Result
	final  session.Session // as the pass left it; zero where there is none
}

func (p *program) newJob(o *runOptions) (*runPass, error) {
	o.verbose = o.verbose || p.debug
	http, err := tools.HTTPFromEnv(p.Getenv)
	if err != nil {
		return nil, err
	}
	j := &runPass{program: p, options: o, http: http}
	j.models = &setup.SpecModels{Setup: p.Setup, Instead: o.model}
	j.vars, err = parseVariables(o.vars)
	return j, err
}

// check refuses what this terminal cannot do.
func (j *runPass) check() error {
	if j.options.interactive && !j.In.Terminal {
		return &session.InvalidError{Field: "interactive", Reason: "there is no terminal to ask at"}
	}
	return nil
}

// load reads the spec, and asks for what it lacks where that is wanted.
func (j *runPass) load(ctx context.Context, path string) error {
	s, err := j.loadSpec(path, spec.Loader{AllowPrivate: j.http.AllowPrivate}, j.vars)
	if err != nil {
		return err
	}
	if missing := s.Missing(); len(missing) > 0 && j.options.ask {
		if j.vars, err = j.askInputs(ctx, s, missing, j.vars); err != nil {
			return err
		}
		if s, err = j.loadSpec(path, spec.Loader{AllowPrivate: j.http.AllowPrivate}, j.vars); err != nil {
			return err
		}
	}
	if err := s.Complete(); err != nil {
		if len(s.Missing()) > 0 {
			err = &inputsError{err}
		}
		return err
	}
	for _, w := range s.Warnings {
		j.WarnEarly("%s: %s", w.Pointer, w.Reason)
	}
	j.spec = s
	if url, _, err := j.FindServer(); err != nil || url != "" { // the server knows its models
		return err
	}
	return j.models.Check(s)
}

// loadSpec reads a spec. A file that cannot be read is as wrong as what stands in
// it.
func (p *program) loadSpec(path string, l spec.Loader, vars spec.Map[string]) (*spec.Spec, error) {
	s, err := l.Load(path, vars)
	if err == nil || errors.Is(err, session.ErrSpec) || errors.Is(err, session.ErrInvalid) {
		return s, err
	}
	return nil, &specFileError{path: path, err: err}
}

// do starts the run, or goes on with the one that was asked for.
func (j *runPass) do(ctx context.Context, h *setup.Env) error {
	if h.Server != nil {
		return j.doOnServer(ctx, h)
	}
	id, err := j.find(ctx, h)
	switch {
	case err != nil:
		return err
	case id == "":
		return j.attend(ctx, h, display.NewRunState(), func(rt *holdfast.Runtime, host workflow.Host) (workflow.Result, error) {
			return workflow.Start(ctx, rt, j.spec, workflow.RunOptions{
				Host: host, Name: j.options.name, Vars: j.vars, Out: j.options.out, Force: j.options.force, Volatile: j.options.forget, Trace: j.options.trace, Ask: j.asker(),
			})
		})
	}
	s, err := h.Get(ctx, id, holdfast.Whole(), holdfast.WithTail())
	if err != nil {
		return err
	}
	if j.spec, err = display.SpecOf(s); err != nil {
		return err
	}
	if err := j.models.Check(j.spec); err != nil {
		return err
	}
	j.result.SessionID = id
	return j.attend(ctx, h, display.RunStateOf(s, false), func(rt *holdfast.Runtime, host workflow.Host) (workflow.Result, error) {
		o := workflow.ResumeOptions{
			Host: host, Answer: j.options.answer, Target: j.options.target, Strict: j.options.strict, AcceptChanges: j.options.accept,
			Out: j.options.out, Force: j.options.force, NoWait: j.options.noWait, Trace: j.options.trace, Ask: j.asker(), Reopen: j.options.reopen,
		}
		if j.options.redo != "" {
			return workflow.Redo(ctx, rt, id, j.options.redo, o)
		}
		return workflow.Resume(ctx, rt, id, o)
	})
}

// find returns the run to go on with, "" where one is to be started.
func (j *runPass) find(ctx context.Context, h *setup.Env) (string, error) {
	switch {
	case j.options.resume != "":
		i, err := h.Resolve(ctx, j.options.resume)
		if err == nil && i.Kind != session.KindWorkflow {
			err = &session.InvalidError{Field: "resume", Reason: fmt.Sprintf("session %s is not a workflow run", display.ShortID(i.ID))}
		}
		return i.ID, err
	case j.options.autoResume:
		return j.unfinished(ctx, h)
	}
	return "", nil
}

// unfinished returns the run of this spec, and of these variables where some are
// given, that was at work last and that nobody works on.
func (j *runPass) unfinished(ctx context.Context, h *setup.Env) (string, error) {
	hash, err := workflow.SpecHash(j.spec.Path())
	if err != nil {
		return "", err
	}
	q := store.Query{Kinds: []session.Kind{session.KindWorkflow}, Limit: 1000, WorkflowStatuses: []string{
		string(workflow.StatusRunning), string(workflow.StatusPaused), string(workflow.StatusFailed),
	}}
	for {
		page, err := h.List(ctx, q)
		if err != nil {
			return "", err
		}
		for _, i := range page.Items {
			if i.Workflow == nil || i.Workflow.SpecHash != hash {
				continue
			}
			if fits, err := j.fits(ctx, h, i.ID); err != nil || fits {
				return i.ID, err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return "", nil
		}
	}
}

// fits reports a run that nobody works on and that has the variables of this
// command line.
func (j *runPass) fits(ctx context.Context, h *setup.Env, id string) (bool, error) {
	_, live, err := h.Holder(ctx, id)
	if err != nil || live {
		return false, err
	}
	if len(j.vars) == 0 {
		return true, nil
	}
	s, err := h.Get(ctx, id, holdfast.Whole())
	if err != nil {
		return false, err
	}
	_, vars := display.StartedWith(s)
	return maps.Equal(asMap(vars), asMap(j.vars)), nil
}

func asMap(vars spec.Map[string]) map[string]string {
	m := map[string]string{}
	for _, v := range vars {
		m[v.Name] = v.Value
	}
	return m
}

// attend makes the pass and shows it.
func (j *runPass) attend(ctx context.Context, h *setup.Env, before *display.RunState, pass func(*holdfast.Runtime, workflow.Host) (workflow.Result, error)) (err error) {
	rt, err := j.guarded(h)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	j.view = display.NewRunView(j.Console, j.spec, before, j.options.verbose)
	id := j.result.SessionID
	j.result, err = pass(rt, workflow.Host{
		Models: j.models.Model, Env: j.models.Env(), Tools: j.openRunTools, AllowPrivate: j.http.AllowPrivate, Now: j.Now,
		Stop: j.options.stop, OnEvent: j.view.TakeEvent, OnUpdate: j.view.TakeUpdate, Warn: j.view.Warn,
	})
	if j.result.SessionID == "" {
		j.result.SessionID = id
	}
	j.view.End(j.reread(context.WithoutCancel(ctx), rt))
	j.hide()
	if j.options.trace && !j.final.IsZero() {
		err = errors.Join(err, j.writeTrace())
	}
	return err
}

// hide takes the values of keys out of the result, as they are in the session.
func (j *runPass) hide() {
	r := &j.result
	r.LastResponse, r.Error = j.Redactor.Redact(r.LastResponse), j.Redactor.Redact(r.Error)
	if r.Question != nil {
		q := *r.Question
		q.Prompt, q.ContextDisplay = j.Redactor.Redact(q.Prompt), j.Redactor.Redact(q.ContextDisplay)
		r.Question = &q
	}
}

// guarded returns a runtime that keeps the secrets of the spec out of the session.
func (j *runPass) guarded(h *setup.Env) (*holdfast.Runtime, error) {
	secrets := j.models.Secrets(j.spec)
	maps.Copy(secrets, h.Models.Providers.Secrets)
	return j.Runtime(h.Store, h.AgentSetup, secrets, h.Identity)
}

// reread returns the state of the run as its log has it, nil where it cannot be
// read: the run says why itself.
func (j *runPass) reread(ctx context.Context, rt *holdfast.Runtime) *display.RunState {
	if j.result.SessionID == "" {
		return nil
	}
	s, err := rt.Get(ctx, j.result.SessionID, holdfast.Whole(), holdfast.WithTail())
	if err != nil {
		return nil
	}
	j.final = s
	return display.RunStateOf(s, false)
}

// writeTrace writes the history of the run beside its artifacts.
func (j *runPass) writeTrace() error {
	raw, err := workflow.Trace(j.final)
	if err != nil {
		return err
	}
	path := filepath.Join(j.options.out, workflow.FileName(j.spec.Name)+"-trace.json")
	if err := setup.WriteWhole(path, append(slices.Clone(raw), '\n')); err != nil {
		return err
	}
	if !j.JSON {
		j.Err.Status("wrote %s", path)
	}
	return nil
}

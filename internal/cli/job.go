package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// job is one pass over a workflow run, from the command line to its result.
type job struct {
	*program
	order  *order
	http   tools.HTTP
	engine *engine

	vars spec.Map[string]
	spec *spec.Spec // nil: not read yet
	view *view

	result workflow.Result
	final  session.Session // as the pass left it; zero where there is none
}

func (p *program) newJob(o *order) (*job, error) {
	o.verbose = o.verbose || p.debug
	http, err := tools.HTTPFromEnv(p.getenv)
	if err != nil {
		return nil, err
	}
	j := &job{program: p, order: o, http: http}
	j.engine = &engine{program: p, instead: o.model}
	j.vars, err = parseVariables(o.vars)
	return j, err
}

// check refuses what this terminal cannot do.
func (j *job) check() error {
	if j.order.interactive && !j.in.terminal {
		return &session.InvalidError{Field: "interactive", Reason: "there is no terminal to ask at"}
	}
	return nil
}

// load reads the spec, and asks for what it lacks where that is wanted.
func (j *job) load(ctx context.Context, path string) error {
	s, err := j.loadSpec(path, spec.Loader{AllowPrivate: j.http.AllowPrivate}, j.vars)
	if err != nil {
		return err
	}
	if missing := s.Missing(); len(missing) > 0 && j.order.ask {
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
		j.warnEarly("%s: %s", w.Pointer, w.Reason)
	}
	j.spec = s
	if url, _, err := j.findServer(); err != nil || url != "" { // the server knows its models
		return err
	}
	return j.engine.check(s)
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

// warnEarly warns before there is anything to show.
func (p *program) warnEarly(format string, args ...any) {
	if !p.json {
		p.err.warn(format, args...)
		return
	}
	p.errJSON(map[string]string{"warning": fmt.Sprintf(format, args...)})
}

// do starts the run, or goes on with the one that was asked for.
func (j *job) do(ctx context.Context, h *env) error {
	if h.server != nil {
		return j.doOnServer(ctx, h)
	}
	id, err := j.find(ctx, h)
	switch {
	case err != nil:
		return err
	case id == "":
		return j.attend(ctx, h, newCourse(), func(rt *holdfast.Runtime, host workflow.Host) (workflow.Result, error) {
			return workflow.Start(ctx, rt, j.spec, workflow.RunOptions{
				Host: host, Name: j.order.name, Vars: j.vars, Out: j.order.out, Force: j.order.force, Volatile: j.order.forget, Trace: j.order.trace, Ask: j.asker(),
			})
		})
	}
	s, err := h.Get(ctx, id, holdfast.Whole(), holdfast.WithTail())
	if err != nil {
		return err
	}
	if j.spec, err = specOf(s); err != nil {
		return err
	}
	if err := j.engine.check(j.spec); err != nil {
		return err
	}
	j.result.SessionID = id
	return j.attend(ctx, h, courseOf(s, false), func(rt *holdfast.Runtime, host workflow.Host) (workflow.Result, error) {
		o := workflow.ResumeOptions{
			Host: host, Answer: j.order.answer, Target: j.order.target, Strict: j.order.strict, AcceptChanges: j.order.accept,
			Out: j.order.out, Force: j.order.force, NoWait: j.order.noWait, Trace: j.order.trace, Ask: j.asker(), Reopen: j.order.reopen,
		}
		if j.order.redo != "" {
			return workflow.Redo(ctx, rt, id, j.order.redo, o)
		}
		return workflow.Resume(ctx, rt, id, o)
	})
}

// find returns the run to go on with, "" where one is to be started.
func (j *job) find(ctx context.Context, h *env) (string, error) {
	switch {
	case j.order.resume != "":
		i, err := h.Resolve(ctx, j.order.resume)
		if err == nil && i.Kind != session.KindWorkflow {
			err = &session.InvalidError{Field: "resume", Reason: fmt.Sprintf("session %s is not a workflow run", shortID(i.ID))}
		}
		return i.ID, err
	case j.order.autoResume:
		return j.unfinished(ctx, h)
	}
	return "", nil
}

// unfinished returns the run of this spec, and of these variables where some are
// given, that was at work last and that nobody works on.
func (j *job) unfinished(ctx context.Context, h *env) (string, error) {
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
func (j *job) fits(ctx context.Context, h *env, id string) (bool, error) {
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
	_, vars := begunWith(s)
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
func (j *job) attend(ctx context.Context, h *env, before *course, pass func(*holdfast.Runtime, workflow.Host) (workflow.Result, error)) (err error) {
	rt, err := j.guarded(h)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	j.view = j.program.view(j.spec, before, j.order.verbose)
	id := j.result.SessionID
	j.result, err = pass(rt, workflow.Host{
		Models: j.engine.model, Env: j.engine.env(), Tools: j.kit, AllowPrivate: j.http.AllowPrivate, Now: j.now,
		Stop: j.order.stop, OnEvent: j.view.hear, OnUpdate: j.view.update, Warn: j.view.warn,
	})
	if j.result.SessionID == "" {
		j.result.SessionID = id
	}
	j.view.end(j.reread(context.WithoutCancel(ctx), rt))
	j.hide()
	if j.order.trace && !j.final.IsZero() {
		err = errors.Join(err, j.writeTrace())
	}
	return err
}

// hide takes the values of keys out of the result, as they are in the session.
func (j *job) hide() {
	r := &j.result
	r.LastResponse, r.Error = j.redactor.redact(r.LastResponse), j.redactor.redact(r.Error)
	if r.Question != nil {
		q := *r.Question
		q.Prompt, q.ContextDisplay = j.redactor.redact(q.Prompt), j.redactor.redact(q.ContextDisplay)
		r.Question = &q
	}
}

// guarded returns a runtime that keeps the secrets of the spec out of the session.
func (j *job) guarded(h *env) (*holdfast.Runtime, error) {
	secrets := j.engine.secrets(j.spec)
	maps.Copy(secrets, h.models.providers.secrets)
	return j.runtime(h.store, h.agentSetup, secrets, h.identity)
}

// reread returns the course of the run as its log has it, nil where it cannot be
// read: the run says why itself.
func (j *job) reread(ctx context.Context, rt *holdfast.Runtime) *course {
	if j.result.SessionID == "" {
		return nil
	}
	s, err := rt.Get(ctx, j.result.SessionID, holdfast.Whole(), holdfast.WithTail())
	if err != nil {
		return nil
	}
	j.final = s
	return courseOf(s, false)
}

// writeTrace writes the course of the run beside its artifacts.
func (j *job) writeTrace() error {
	raw, err := workflow.Trace(j.final)
	if err != nil {
		return err
	}
	path := filepath.Join(j.order.out, workflow.FileName(j.spec.Name)+"-trace.json")
	if err := writeWhole(path, append(slices.Clone(raw), '\n')); err != nil {
		return err
	}
	if !j.json {
		j.err.status("wrote %s", path)
	}
	return nil
}

// writeWhole puts a file in its place at once, and makes its folder.
func writeWhole(path string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".holdfast-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	if _, err = tmp.Write(data); err == nil {
		err = tmp.Chmod(0o644)
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	return err
}

package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// RunOptions say how a spec is run.
type RunOptions struct {
	Host
	ID       string           // of the session; empty: a new one
	Key      string           // an idempotency key, instead of an ID: the same spec and variables under it are one run
	Name     string           // of the session; empty: none
	Vars     spec.Map[string] // those the spec was loaded with
	Out      string           // where artifacts go; empty: ./artifacts
	Force    bool             // replace files that are there
	Volatile bool             // the session does not outlive the process, so that no answer can be waited for
	Trace    bool             // artifacts may show the trace
	// Ask asks a person at once, instead of pausing. An error pauses.
	Ask func(ctx context.Context, q HITLState) (string, error)
}

// ResumeOptions say how a run continues.
type ResumeOptions struct {
	Host
	Answer        *string // to the first question that waits, or to the target's
	Target        string  // a branch, or the id of a pending call
	Strict        bool    // refuse when the spec's files differ from the snapshot
	AcceptChanges bool    // make the spec's files the snapshot
	Out           string
	Force         bool
	NoWait        bool // do not wait for the end of a silent holder's lease
	Reopen        bool // continue also a run that was cancelled
	Trace         bool
	Ask           func(ctx context.Context, q HITLState) (string, error)
}

// Start creates a session for a spec and runs it: to its end, to a question or
// to a failure. What can be seen to be wrong is refused before the session is
// created.
func Start(ctx context.Context, rt *holdfast.Runtime, s *spec.Spec, o RunOptions) (Result, error) {
	made, err := Create(ctx, rt, s, o)
	if err != nil {
		return Result{}, err
	}
	return drive(ctx, rt, made.ID(), &attempt{host: o.withDefaults(), out: o.output(), ask: o.Ask, trace: o.Trace, fresh: true})
}

// Create creates the session of a run, which Resume then begins. It refuses what
// Start refuses.
func Create(ctx context.Context, rt *holdfast.Runtime, s *spec.Spec, o RunOptions) (session.Session, error) {
	var none session.Session
	if err := s.Complete(); err != nil {
		return none, err
	}
	if issues := spec.Check(s, o.Env); len(issues) > 0 {
		return none, &UnsupportedError{File: s.Path(), Issues: issues}
	}
	if o.Volatile && asksPeople(s) {
		return none, &session.InvalidError{Field: "session", Reason: "the spec asks a person, and a session that is not saved cannot wait for the answer"}
	}
	snap, err := s.Snapshot()
	if err != nil {
		return none, err
	}
	dry, err := newRun("", newIndex(), s, snap, o.Vars)
	if err != nil {
		return none, err
	}
	if err := dry.precheck(o.output()); err != nil {
		return none, err
	}
	return create(ctx, rt, s, snap, o)
}

func (o RunOptions) output() output { return output{cmp.Or(o.Out, "artifacts"), o.Force} }

// Resume continues a run: with the answer to a question, after a failure, an
// interruption or a kill. Nothing but the session is needed. An answer that the
// question does not take changes nothing; the first answer to it counts.
func Resume(ctx context.Context, rt *holdfast.Runtime, id string, o ResumeOptions) (Result, error) {
	return drive(ctx, rt, id, o.attempt())
}

func (o ResumeOptions) attempt() *attempt {
	return &attempt{
		host: o.withDefaults(), out: output{cmp.Or(o.Out, "artifacts"), o.Force}, ask: o.Ask, trace: o.Trace,
		answer: o.Answer, target: o.Target, strict: o.Strict, accept: o.AcceptChanges, noWait: o.NoWait, reopen: o.Reopen,
	}
}

// asksPeople reports a spec with a question somewhere.
func asksPeople(s *spec.Spec) bool {
	for _, t := range s.Texts() {
		if t.Kind == spec.QuestionText {
			return true
		}
	}
	return false
}

// create makes the session: its first version holds all that a resume needs.
func create(ctx context.Context, rt *holdfast.Runtime, s *spec.Spec, snap *spec.Snapshot, o RunOptions) (session.Session, error) {
	begun, err := Beginning(s, snap, o.Vars)
	if err != nil {
		return session.Session{}, err
	}
	row := session.WorkflowRow{Name: s.Name, SpecHash: snap.SHA256, Pattern: string(s.Pattern.Type), Status: string(StatusRunning)}
	opts := []holdfast.Option{holdfast.WithKind(session.KindWorkflow), holdfast.WithChanges(begun, session.WorkflowRowChanged{Workflow: row})}
	switch {
	case o.Key == "":
		opts = append(opts, holdfast.WithID(cmp.Or(o.ID, NewSessionID())))
	case o.ID != "":
		return session.Session{}, &session.InvalidError{Field: "ID", Reason: "a Key chooses the id as well; give one of the two"}
	default:
		opts = append(opts, holdfast.IdempotencyKey(o.Key))
	}
	if o.Name != "" {
		opts = append(opts, holdfast.WithName(o.Name))
	}
	return rt.Create(ctx, Definition(s), opts...)
}

// Definition returns the definition of a session that runs a spec.
func Definition(s *spec.Spec) session.Definition {
	return session.Definition{Name: DefinitionName(s.Name), Label: s.Name, Description: s.Description}
}

// Beginning returns the first change of a run: the spec with its files, and the
// variables.
func Beginning(s *spec.Spec, snap *spec.Snapshot, vars spec.Map[string]) (session.WorkflowBegun, error) {
	raw, err := json.Marshal(snap)
	if err != nil {
		return session.WorkflowBegun{}, fmt.Errorf("write the spec: %w", err)
	}
	runtime, err := runtimeConfig(s.Runtime)
	if err != nil {
		return session.WorkflowBegun{}, err
	}
	begun := session.WorkflowBegun{Spec: raw, Runtime: runtime, Variables: []session.RunVariable{}}
	for _, v := range vars {
		begun.Variables = append(begun.Variables, session.RunVariable{Name: v.Name, Value: v.Value})
	}
	return begun, nil
}

// runtimeConfig writes the runtime section of a spec with all its keys.
func runtimeConfig(r spec.Runtime) (json.RawMessage, error) {
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	raw, err := json.Marshal(spec.Map[any]{
		{Name: "provider", Value: r.Provider}, {Name: "model_id", Value: text(r.ModelID)}, {Name: "region", Value: text(r.Region)},
		{Name: "host", Value: text(r.Host)}, {Name: "temperature", Value: deref(r.Temperature)}, {Name: "top_p", Value: deref(r.TopP)},
		{Name: "max_tokens", Value: deref(r.MaxTokens)}, {Name: "max_parallel", Value: deref(r.MaxParallel)},
		{Name: "budgets", Value: deref(r.Budgets)}, {Name: "failure_policy", Value: deref(r.FailurePolicy)},
	})
	if err != nil {
		return nil, fmt.Errorf("write the runtime: %w", err)
	}
	return raw, nil
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// DefinitionName returns the name of a spec or an agent in the form that
// sessions take.
func DefinitionName(agent string) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			return c
		case c >= 'A' && c <= 'Z':
			return c - 'A' + 'a'
		}
		return '-'
	}, agent)
	if name = strings.TrimLeft(name, "-_"); name == "" {
		return "agent"
	}
	return name[:min(len(name), 128)]
}

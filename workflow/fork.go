package workflow

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// ForkOptions say how a fork of a run differs from it.
type ForkOptions struct {
	At        int64             // the version; 0: the last one
	ID, Name  string            // of the new session; an empty id is made
	Key       string            // an idempotency key, instead of an ID: the same fork under it is one
	Variables spec.Map[string]  // other values; what is done stays as it is, but for changed items of a list
	Outputs   map[string]string // other answers of finished units; what came after them is done again
}

// Fork starts a new run with the same history up to a version, as
// Runtime.Fork does, and with other variables and answers. All of it is one
// version: a crash leaves the whole fork or none.
func Fork(ctx context.Context, rt *holdfast.Runtime, id string, o ForkOptions) (session.Session, error) {
	opts := []holdfast.Option{holdfast.Whole()}
	if o.At != 0 {
		opts = append(opts, holdfast.At(o.At))
	}
	s, err := rt.Get(ctx, id, opts...)
	if err != nil {
		return s, err
	}
	if s.Workflow() == nil {
		return s, &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%q is no workflow run", id)}
	}
	changes, err := o.changes(ctx, s)
	if err != nil {
		return s, err
	}
	opts = []holdfast.Option{holdfast.At(s.Version()), holdfast.WithChanges(changes...)}
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
	return rt.Fork(ctx, id, opts...)
}

// changes returns what makes the fork differ.
func (o ForkOptions) changes(ctx context.Context, s session.Session) ([]session.Change, error) {
	r, err := readRun(s)
	if err != nil {
		return nil, err
	}
	var (
		changes, answers []session.Change
		again            = map[string]bool{} // what is to be done again
		list             = r.reaches(ctx)
	)
	if len(o.Variables) > 0 {
		changed, err := r.withVariables(o.Variables, list, again)
		if err != nil {
			return nil, err
		}
		changes = append(changes, changed)
	}
	if answers, err = r.withOutputs(o.Outputs, list, again); err != nil {
		return nil, err
	}
	if len(again) > 0 {
		changes = append(changes, r.index.resetOf(slices.Sorted(maps.Keys(again))))
	}
	changes = append(changes, answers...)
	if row := r.row(StatusPaused, "", s, changes); len(changes) > 0 && *s.Info().Workflow != row {
		changes = append(changes, session.WorkflowRowChanged{Workflow: row})
	}
	return changes, nil
}

// withVariables puts other variables in force. What is done stays as it is, but
// items of a list that are not what they were are done again, and what is made
// of all items.
func (r *run) withVariables(vars spec.Map[string], list []reached, again map[string]bool) (session.WorkflowSpecChanged, error) {
	change := session.WorkflowSpecChanged{Spec: r.index.spec, Runtime: r.index.runtime}
	all := slices.Clone(r.vars)
	for _, v := range vars {
		all = all.With(v.Name, v.Value)
	}
	made, err := spec.Loader{Lenient: true}.Parse(r.snap.Source(), all)
	if err == nil {
		err = made.Complete()
	}
	if err != nil {
		return change, err
	}
	for _, v := range all {
		change.Variables = append(change.Variables, session.RunVariable{Name: v.Name, Value: v.Value})
	}
	r.units = CountUnits(made.Pattern)
	p := made.Pattern.Parallel
	if p == nil || p.ForEach == nil {
		return change, nil
	}
	before, same := r.spec.Pattern.Parallel.Branches, map[string]bool{}
	for i := range min(len(before), len(p.Branches)) {
		same[p.Branches[i].ID] = reflect.DeepEqual(before[i].Item, p.Branches[i].Item)
	}
	if len(before) == len(p.Branches) && !slices.Contains(slices.Collect(maps.Values(same)), false) {
		return change, nil
	}
	for _, o := range list {
		id, ofItem := strings.CutPrefix(o.key, "branch/")
		id, _, _ = strings.Cut(id, "/")
		if !ofItem || !same[id] {
			again[o.key] = true
		}
	}
	return change, nil
}

// withOutputs returns what gives units other answers.
func (r *run) withOutputs(outputs map[string]string, list []reached, again map[string]bool) (changes []session.Change, err error) {
	for unit := range outputs {
		if e := r.index.units[unit]; e == nil || !e.done || e.agent == "" {
			return nil, &session.InvalidError{Field: "unit", Reason: fmt.Sprintf("no agent has finished %q", unit)}
		}
		units, err := from(unit, list)
		if err != nil {
			return nil, err
		}
		for _, key := range units {
			again[key] = true
		}
	}
	for _, o := range list {
		text, edited := outputs[o.key]
		if !edited {
			continue
		}
		made, err := r.answeredWith(o, text)
		if err != nil {
			return nil, err
		}
		changes = append(changes, made...)
	}
	return changes, nil
}

// answeredWith returns a finished unit that was asked the same and gave another
// answer.
func (r *run) answeredWith(o reached, text string) ([]session.Change, error) {
	e := r.index.units[o.key]
	u := unit{key: e.key, agent: e.agent, lane: e.lane}
	input, _ := e.input()
	res := result{Tokens: countWords(input, text)}
	if o.read != nil {
		var err error
		if res.Value, err = o.read(text); err != nil {
			return nil, &session.InvalidError{Field: "output", Reason: fmt.Sprintf("%s: %v", o.key, err)}
		}
	}
	return []session.Change{
		session.UnitStarted{Unit: u.key, Lane: u.lane, Agent: u.agent}, u.message(input),
		session.MessageAdded{Message: session.Message{
			ID: uuid.NewString(), Role: session.RoleAssistant, Unit: u.key, Lane: u.lane, ExecutionID: u.key, Content: session.Text(text),
		}},
		session.UnitFinished{Unit: u.key, Agent: u.agent, Result: res.json()},
	}, nil
}

package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// compareSpec checks whether the spec's files differ from the snapshot, and does
// about it what the caller wants.
func (a *attempt) compareSpec(ctx context.Context) error {
	if a.fresh {
		return nil
	}
	stale, err := a.run.snap.Stale()
	if err != nil {
		a.host.Warn("%v", err)
		return nil
	}
	if len(stale) == 0 {
		if a.accept {
			a.host.Warn("the spec has not changed")
		}
		return nil
	}
	newer, pointers, err := a.loadNewer()
	a.changed = slices.Concat(pointers, stale)
	switch {
	case a.strict:
		return &ChangedError{ID: a.run.id, Changes: a.changed}
	case a.accept && err != nil:
		return err
	case a.accept:
		return a.acceptSpec(ctx, newer)
	}
	return nil
}

// loadNewer reads the spec as its file is at present, and where it differs.
func (a *attempt) loadNewer() (*spec.Spec, []string, error) {
	if _, err := os.Stat(a.run.snap.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("the file of the spec is gone: %w", err)
	}
	newer, err := spec.Loader{AllowPrivate: a.host.AllowPrivate}.Load(a.run.snap.Path, a.run.vars)
	if err != nil {
		return nil, nil, err
	}
	pointers, err := spec.Diff(a.run.spec, newer)
	return newer, pointers, err
}

// acceptSpec makes the spec's file the snapshot, if no finished unit would have
// been another with it.
func (a *attempt) acceptSpec(ctx context.Context, newer *spec.Spec) error {
	if err := newer.Complete(); err != nil {
		return err
	}
	if issues := spec.Check(newer, a.host.Env); len(issues) > 0 {
		return &UnsupportedError{File: newer.Path(), Issues: issues}
	}
	snap, err := newer.Snapshot()
	if err != nil {
		return err
	}
	next, err := newRun(a.run.id, a.run.index, newer, snap, a.run.vars)
	if err != nil {
		return err
	}
	before := a.run.replayer()
	_, _, _ = before.replay(ctx)
	_, _, _ = next.replay(ctx)
	if unit := affected(before, next); unit != "" {
		return &ChangedError{ID: a.run.id, Changes: a.changed, Unit: unit}
	}
	raw, err := json.Marshal(snap)
	if err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	runtime, err := runtimeConfig(newer.Runtime)
	if err != nil {
		return err
	}
	changes := []session.Change{session.WorkflowSpecChanged{Spec: raw, Runtime: runtime}}
	changes = append(changes, a.askAgain(next)...)
	changes = append(changes, a.startAgain(before, next)...)
	old := a.run
	a.run = next.replayer()
	if err := a.commitSame(ctx, "the new spec", "workflow.accept", changes...); err != nil {
		a.run = old
		return err
	}
	a.changed = nil
	return nil
}

// askAgain returns the open questions as the new spec asks them. A response that
// is on its way still finds its question.
func (a *attempt) askAgain(next *run) []session.Change {
	var changes []session.Change
	for _, p := range next.prompts {
		open := a.run.index.questions[p.unit]
		if open == nil || open.answer != nil {
			continue
		}
		call := next.call(p)
		call.ID, call.AskedAt, call.ExpiresAt = open.ID, open.AskedAt, open.ExpiresAt
		changes = append(changes, session.CallPending{Call: call, Seconds: a.runner.seconds()})
	}
	return changes
}

// startAgain starts those units again that are not finished and that the new
// spec asks something else: what they were asked before is dropped, and so is
// the prompt of an agent that has finished nothing.
func (a *attempt) startAgain(before, next *run) []session.Change {
	var changes []session.Change
	for _, t := range next.started {
		if slices.Contains(before.started, t) {
			continue
		}
		e := a.run.index.units[t.unit]
		again := session.UnitStarted{Unit: e.key, Lane: e.lane, Agent: t.agent}
		if !slices.ContainsFunc(a.run.index.finished, func(f *entry) bool { return f.agent == t.agent && f.lane == e.lane }) {
			again.System = ptr(a.runner.systemPrompt(next, t.agent))
		}
		changes = append(changes, again)
	}
	return changes
}

// source is what the spec says about a unit.
type source struct{ unit, agent, spec string }

// sourceOf returns what a unit depends on: its own part of the spec, and its
// agent.
func (r *run) sourceOf(u unit) source {
	made, _ := r.spec.Agents.Get(u.agent)
	return source{u.key, u.agent, fingerprint([]any{u.source, made.Prompt, made.Tools, r.spec.ModelOf(made)})}
}

func fingerprint(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("workflow: a part of a spec is no JSON: %v", err)) // it was read from one
	}
	return string(raw)
}

// affected returns the first finished unit that would have been another with
// the new spec, "" where there is none.
func affected(before, next *run) string {
	values := fingerprint(before.spec.Inputs.Values) == fingerprint(next.spec.Inputs.Values)
	for i, t := range before.finished {
		if !values || i >= len(next.finished) || next.finished[i] != t {
			return t.unit
		}
	}
	return ""
}

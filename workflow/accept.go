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

// compare looks whether the spec's files differ from the snapshot, and does
// what the caller wants about it.
func (p *pass) compare(ctx context.Context) error {
	if p.fresh {
		return nil
	}
	stale, err := p.r.snap.Stale()
	if err != nil {
		p.host.Warn("%v", err)
		return nil
	}
	if len(stale) == 0 {
		if p.accept {
			p.host.Warn("the spec has not changed")
		}
		return nil
	}
	newer, pointers, err := p.newer()
	p.changed = slices.Concat(pointers, stale)
	switch {
	case p.strict:
		return &ChangedError{ID: p.r.id, Changes: p.changed}
	case p.accept && err != nil:
		return err
	case p.accept:
		return p.adopt(ctx, newer)
	}
	return nil
}

// newer is the spec as its file is now, and where it differs.
func (p *pass) newer() (*spec.Spec, []string, error) {
	if _, err := os.Stat(p.r.snap.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("the spec's file is gone: %w", err)
	}
	newer, err := spec.Loader{AllowPrivate: p.host.AllowPrivate}.Load(p.r.snap.Path, p.r.vars)
	if err != nil {
		return nil, nil, err
	}
	pointers, err := spec.Diff(p.r.spec, newer)
	return newer, pointers, err
}

// adopt makes the spec's file the snapshot, if no finished unit would have
// been another with it.
func (p *pass) adopt(ctx context.Context, newer *spec.Spec) error {
	if err := newer.Complete(); err != nil {
		return err
	}
	if issues := spec.Check(newer, p.host.Env); len(issues) > 0 {
		return &UnsupportedError{File: newer.Path(), Issues: issues}
	}
	snap, err := newer.Snapshot()
	if err != nil {
		return err
	}
	next, err := newRunOf(p.r.id, p.r.book, newer, snap, p.r.vars)
	if err != nil {
		return err
	}
	before := p.looking()
	_, _, _ = before.replay(ctx)
	_, _, _ = next.replay(ctx)
	if unit := affected(before, next); unit != "" {
		return &ChangedError{ID: p.r.id, Changes: p.changed, Unit: unit}
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
	changes = append(changes, p.askedAnew(next)...)
	changes = append(changes, p.begunAnew(before, next)...)
	row := p.st.hold.Session().Info().Workflow
	old := p.r
	p.r = next
	next.trail, next.reached, next.asks = nil, nil, nil
	if err := p.st.commit(ctx, next, "the new spec", "workflow.accept", Status(row.Status), row.Error, changes...); err != nil {
		p.r = old
		return err
	}
	p.changed = nil
	return nil
}

// askedAnew are the open questions as the new spec puts them.
func (p *pass) askedAnew(next *run) []session.Change {
	var changes []session.Change
	for _, q := range next.asks {
		open := p.r.book.questions[q.unit]
		if open == nil || open.answer != nil {
			continue
		}
		prompt, shown := next.shown(q)
		asked := session.Question{Unit: q.unit, Prompt: prompt, Context: shown, Default: q.ask.Default, TimeoutAt: open.TimeoutAt}
		changes = append(changes, session.QuestionPut{Question: asked, Seconds: p.st.seconds()})
	}
	return changes
}

// begunAnew are the units that were begun, came to no end and are asked
// something else by the new spec: what they were asked before is forgotten,
// and the prompt of an agent that has finished nothing.
func (p *pass) begunAnew(before, next *run) []session.Change {
	var changes []session.Change
	for _, t := range next.reached {
		if slices.Contains(before.reached, t) {
			continue
		}
		e := p.r.book.units[t.unit]
		again := session.UnitStarted{Unit: e.key, Lane: e.lane, Agent: t.agent}
		if !slices.ContainsFunc(p.r.book.finished, func(f *entry) bool { return f.agent == t.agent && f.lane == e.lane }) {
			again.System = ptr(p.st.systemPrompt(next, t.agent))
		}
		changes = append(changes, again)
	}
	return changes
}

// trace is a finished unit and what the spec says about it.
type trace struct{ unit, agent, source string }

// traceOf is a unit as it depends on the spec: its own part of it, and its
// agent.
func (r *run) traceOf(u unit) trace {
	made, _ := r.spec.Agents.Get(u.agent)
	return trace{u.key, u.agent, fingerprint([]any{u.source, made.Prompt, made.Tools, r.spec.ModelOf(made)})}
}

func fingerprint(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("workflow: a part of a spec is no JSON: %v", err)) // it was read from one
	}
	return string(raw)
}

// affected is the first finished unit that would have been another with the
// new spec, "" where there is none.
func affected(before, next *run) string {
	values := fingerprint(before.spec.Inputs.Values) == fingerprint(next.spec.Inputs.Values)
	for i, t := range before.trail {
		if !values || i >= len(next.trail) || next.trail[i] != t {
			return t.unit
		}
	}
	return ""
}

package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// create writes version 1. A fork shares the log of its parent if the target has
// it; otherwise it gets the whole log, with what it has of its parent.
func (l *logged) create(ctx context.Context, c store.CommitInfo) (session.Session, error) {
	put, base, after := l.to.Create, session.Session{}, int64(0)
	if l.shared > 0 {
		parent, found, err := l.parent(ctx)
		if err != nil {
			return session.Session{}, err
		}
		if forks, ok := l.to.(store.Forks); ok && found {
			put, base, after = forks.Fork, parent, l.shared
		} else {
			l.note("its parent %s is not there: what it has of it is kept as part of version 1", l.info.ParentID)
		}
	}
	records, err := l.records(ctx, after, c.LastSeq)
	if err != nil {
		return session.Session{}, err
	}
	if after < l.shared && len(takenBy(records[:l.shared])) > 0 {
		// No store lets a session begin with items taken from its inbox.
		return session.Session{}, &session.UnsupportedError{
			Store: "copying", Ability: fmt.Sprintf("a fork of %s, which is gone and had taken from its inbox", l.info.ParentID),
		}
	}
	next, err := session.Replay(base, records, 0)
	if err != nil {
		return session.Session{}, err
	}
	return put(ctx, next, commitOf(c))
}

// parent reads the version in the target that the session was forked from, if
// the target has the same history up to it. A parent of the same agent with
// another history is refused, because the target could not tell the two apart.
func (l *logged) parent(ctx context.Context) (session.Session, bool, error) {
	fork, ref := *l.info.Fork, store.Ref{Tenant: l.ref.Tenant, ID: l.info.ParentID}
	if !l.agreesOn(ref, l.shared) {
		found, err := l.findParent(ctx, ref)
		if err != nil || !found {
			return session.Session{}, false, err
		}
	}
	commits, err := l.theirs.Commits(ctx, ref, fork.Version-1, 1)
	if err != nil || len(commits) == 0 || commits[0].LastSeq != fork.Seq {
		return session.Session{}, false, err
	}
	parent, err := l.theirs.LoadAt(ctx, ref, fork.Version)
	return parent, err == nil, err
}

// findParent looks for the parent in the target and compares what the session
// has of it.
func (l *logged) findParent(ctx context.Context, ref store.Ref) (bool, error) {
	there, err := l.to.Load(ctx, ref, false)
	if errors.Is(err, session.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	agent, err := l.parentAgent(ctx)
	if err != nil || agent != there.AgentID() {
		return false, err
	}
	c := comparison{source: l.source, target: l.theirs, ref: l.ref, targetRef: ref, inherited: l.shared, upTo: l.shared}
	_, differs, err := c.log(ctx, 0)
	if err == nil && differs != 0 {
		err = &session.ConflictError{ID: ref.ID, Reason: session.ReasonDiffers, Have: differs}
	}
	return true, err
}

// parentAgent is the agent whose history the session continues.
func (l *logged) parentAgent(ctx context.Context) (string, error) {
	records, err := l.records(ctx, 0, l.shared)
	agent := ""
	for _, r := range records {
		switch c := r.Change.(type) {
		case session.SessionCreated:
			agent = c.State.AgentID
		case session.SessionForked:
			agent = c.AgentID
		}
	}
	return agent, err
}

package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// document is a target without a log. It gets the last version as its own
// version 1, numbers and times of changes kept, and the open tail.
type document struct {
	*job
	tails store.Tails // nil: the target cannot keep an open tail

	entries []session.LogEntry // the whole log of the source
	commit  store.CommitInfo   // its last one
	sealed  session.Session    // the last version of the source, whole
	durable session.Session    // with the open tail
	there   session.Session    // last version in the target, zero where there is none
}

func (d *document) look(ctx context.Context) (Outcome, error) {
	d.tails, _ = d.to.(store.Tails)
	if err := d.read(ctx); err != nil {
		return "", err
	}
	if inboxes, ok := d.from.(store.Inboxes); ok {
		if items, err := inboxes.Inbox(ctx, d.ref); err != nil || len(items) > 0 {
			d.note("its inbox was not copied: the target has none")
			if err != nil {
				return "", err
			}
		}
	}
	var err error
	d.there, err = d.to.Load(ctx, d.ref, false)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return Copied, nil
	case err != nil:
		return "", err
	}
	return d.compare(ctx)
}

// read folds the two states of the source from its log.
func (d *document) read(ctx context.Context) error {
	for version := int64(0); ; version = d.commit.Version {
		commits, err := d.source.Commits(ctx, d.ref, version, 0)
		if err != nil {
			return err
		}
		if len(commits) == 0 {
			break
		}
		d.commit = commits[len(commits)-1]
	}
	var err error
	if d.entries, err = readAll(ctx, d.source, d.ref, 0); err != nil {
		return err
	}
	if d.sealed, err = d.at(d.commit.LastSeq); err != nil {
		return err
	}
	d.durable, err = d.at(int64(len(d.entries)))
	if err == nil && d.foldsTail() {
		d.note("its unfinished turn is part of its version there")
		d.sealed = d.durable
	}
	return err
}

// foldsTail reports whether the open tail must become a part of the version,
// because the target can keep none or none that takes inbox items.
func (d *document) foldsTail() bool {
	if d.durable.Seq() == d.sealed.Seq() {
		return false
	}
	return d.tails == nil || len(takenBy(recordsOf(d.entries[d.commit.LastSeq:]))) > 0
}

// at folds the session up to a change.
func (d *document) at(seq int64) (session.Session, error) {
	return session.Replay(session.Session{}, recordsOf(d.entries[:min(max(0, seq), int64(len(d.entries)))]), seq)
}

// compare finds out whether the target has a state that the source once had.
func (d *document) compare(ctx context.Context) (Outcome, error) {
	with, err := d.to.Load(ctx, d.ref, d.tails != nil)
	if err != nil {
		return "", err
	}
	d.version, d.last = d.there.Version(), session.Base(with)
	for _, s := range []session.Session{d.there, with} {
		once, err := d.at(session.Base(s))
		if err != nil || !sameState(once, s) {
			return "", d.differs(session.Base(s))
		}
	}
	for _, e := range d.entries[session.Base(d.there):] {
		if c, ok := e.Change.(session.TailDiscarded); ok && c.From <= session.Base(d.there) {
			return "", d.differs(c.From) // an unfinished turn is part of the version there, and was discarded here
		}
	}
	if session.Base(d.there) == d.sealed.Seq() && d.last == max(d.durable.Seq(), d.sealed.Seq()) {
		return Same, nil
	}
	return Continued, nil
}

// sameState compares two sessions without what a store numbers.
func sameState(a, b session.Session) bool {
	return bytes.Equal(stateOf(a), stateOf(b))
}

// stateOf encodes a session without its version, its time and its last change.
func stateOf(s session.Session) []byte {
	info := s.Info()
	info.Version, info.Seq, info.UpdatedAt = 0, 0, info.CreatedAt
	raw, err := json.Marshal([]any{info, s.Definition(), s.State()})
	if err != nil {
		return nil
	}
	return raw
}

func (d *document) write(ctx context.Context) error {
	if d.outcome == Same {
		return nil
	}
	if err := d.putVersion(ctx); err != nil {
		return err
	}
	if err := d.putTail(ctx); err != nil {
		return err
	}
	outcome, err := d.compare(ctx)
	if err == nil && outcome != Same {
		err = d.differs(d.last)
	}
	return d.mismatch(err)
}

// putVersion writes the last version, unless it is there.
func (d *document) putVersion(ctx context.Context) error {
	var err error
	switch {
	case d.there.IsZero():
		d.there, err = d.to.Create(ctx, d.sealed, commitOf(d.commit))
	case session.Base(d.there) < d.sealed.Seq():
		var next session.Session
		next, err = session.Replay(d.there, recordsOf(d.entries[session.Base(d.there):d.sealed.Seq()]), d.last)
		if err != nil {
			return err
		}
		if next, err = session.AttachMessages(next, d.sealed.Messages()); err != nil { // a rewind needs more than the target has
			return err
		}
		d.there, err = d.to.Save(ctx, next, commitOf(d.commit))
	default:
		return nil
	}
	if err != nil {
		return err
	}
	d.last = d.there.Seq()
	return nil
}

// putTail writes what the target lacks of the open tail.
func (d *document) putTail(ctx context.Context) error {
	if d.durable.Seq() <= d.last {
		return nil
	}
	next, err := session.Replay(d.there, recordsOf(d.entries[d.there.Seq():]), d.last)
	if err != nil {
		return err
	}
	_, err = d.tails.Append(ctx, next, store.Append{})
	return err
}

package transfer

import (
	"bytes"
	"context"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// comparison compares a log in the source with one in the target.
type comparison struct {
	source    logs
	target    logs
	ref       store.Ref // in the source
	targetRef store.Ref
	inherited int64 // changes up to here are a parent's: their versions are compared with the parent itself
	upTo      int64 // changes after it do not matter
}

// log compares changes after a number. The target's log must be the beginning
// of the source's: last is its last change that is, and differs the first that
// is not, 0 where there is none.
func (c comparison) log(ctx context.Context, after int64) (last, differs int64, err error) {
	for last = after; last < c.upTo; {
		theirs, err := c.target.Log(ctx, c.targetRef, last, 0)
		if err != nil || len(theirs) == 0 {
			return last, 0, err
		}
		ours, err := c.source.Log(ctx, c.ref, last, len(theirs))
		if err != nil {
			return last, 0, err
		}
		for i, entry := range theirs {
			if entry.Seq > c.upTo {
				return last, 0, nil
			}
			if i >= len(ours) {
				return last, entry.Seq, nil
			}
			if same, err := c.sameEntry(ours[i], entry); err != nil || !same {
				return last, entry.Seq, err
			}
			last = entry.Seq
		}
	}
	return last, 0, nil
}

// sameEntry compares one change. In the target's open tail it is not yet
// decided which version a change belongs to and whether it is discarded.
func (c comparison) sameEntry(ours, theirs session.LogEntry) (bool, error) {
	a, err := ours.Record.MarshalJSON()
	if err != nil {
		return false, err
	}
	b, err := theirs.Record.MarshalJSON()
	if err != nil || !bytes.Equal(a, b) {
		return false, err
	}
	switch {
	case theirs.Seq <= c.inherited:
		return ours.Discarded == theirs.Discarded, nil
	case theirs.Version == 0:
		return true, nil
	}
	return ours.Version == theirs.Version && ours.Discarded == theirs.Discarded, nil
}

// commits compares the commits after a version. The target's must be the
// first of the source's: last is the version of the last one that is, and
// differs the last change of the first that is not, 0 where there is none.
func (c comparison) commits(ctx context.Context, after int64) (last, differs int64, err error) {
	for last = after; ; {
		theirs, err := c.target.Commits(ctx, c.targetRef, last, 0)
		if err != nil || len(theirs) == 0 {
			return last, 0, err
		}
		ours, err := c.source.Commits(ctx, c.ref, last, len(theirs))
		if err != nil {
			return last, 0, err
		}
		for i, commit := range theirs {
			if i >= len(ours) || !c.sameCommit(ours[i], commit) {
				return last, commit.LastSeq, nil
			}
			last = commit.Version
		}
	}
}

// sameCommit compares one commit. Whether the first one of a fork counts what
// it has of its parent depends on whether the parent was there.
func (c comparison) sameCommit(ours, theirs store.CommitInfo) bool {
	if ours.Version == 1 && c.inherited > 0 {
		ours.FirstSeq = theirs.FirstSeq
	}
	equal := ours.At.Equal(theirs.At)
	ours.At = theirs.At
	return equal && ours == theirs
}

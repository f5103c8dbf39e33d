package transfer

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// history returns the source's log of the session or, if the source has no logs,
// one made from the session as it is.
func (j *job) history(ctx context.Context) (logs, error) {
	if l, ok := j.from.(store.Logs); ok {
		return l, nil
	}
	_, tails := j.from.(store.Tails)
	s, err := j.from.Load(ctx, j.ref, tails)
	if err != nil {
		return nil, err
	}
	rooted, err := session.Detach(s)
	if err != nil {
		return nil, err
	}
	if s.HasTail() {
		j.note("its unfinished turn is part of version 1")
	}
	f := &flat{commit: store.CommitInfo{
		ID: fmt.Sprintf("copy-%s-%d", s.AgentID(), s.Version()), Version: 1, FirstSeq: 1, LastSeq: rooted.Seq(),
		Action: "copy", At: s.Info().UpdatedAt,
	}}
	for _, r := range session.Unsaved(rooted) {
		f.entries = append(f.entries, session.LogEntry{Record: r, Version: 1})
	}
	return f, nil
}

// flat is the history of a session that has none: one version.
type flat struct {
	commit  store.CommitInfo
	entries []session.LogEntry
}

func (f *flat) Log(_ context.Context, _ store.Ref, after int64, limit int) ([]session.LogEntry, error) {
	limit, err := store.PageLimit(limit)
	rest := f.entries[min(max(0, after), int64(len(f.entries))):]
	return rest[:min(limit, len(rest))], err
}

func (f *flat) Commits(_ context.Context, _ store.Ref, after int64, _ int) ([]store.CommitInfo, error) {
	if after > 0 {
		return nil, nil
	}
	return []store.CommitInfo{f.commit}, nil
}

// inherited is the last change the session has of its parent, 0 where its log
// begins with itself.
func (j *job) inherited(ctx context.Context) (int64, error) {
	if j.info.Fork == nil {
		return 0, nil
	}
	entries, err := j.source.Log(ctx, j.ref, j.info.Fork.Seq, 1)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	if forked, ok := entries[0].Change.(session.SessionForked); ok && forked.SessionID == j.ref.ID {
		return j.info.Fork.Seq, nil
	}
	return 0, nil
}

package inmem

import (
	"context"
	"math"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// Log reads changes.
func (s *Store) Log(ctx context.Context, r store.Ref, after int64, limit int) ([]session.LogEntry, error) {
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	var changes []change
	err = s.read(ctx, r, func(w *row) error {
		changes = w.log.between(after, math.MaxInt64, limit)
		if room := limit - len(changes); room > 0 && len(w.tail) > 0 {
			tail := markDiscarded(w.log.last()+1, slices.Clone(w.tail))
			skip := min(max(0, after-w.log.last()), int64(len(tail)))
			tail = tail[skip:]
			changes = append(changes, tail[:min(room, len(tail))]...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	records, err := decodeRecords(r.ID, changes)
	if err != nil {
		return nil, err
	}
	entries := make([]session.LogEntry, len(records))
	for i, record := range records {
		entries[i] = session.LogEntry{Record: record, Version: changes[i].version, Discarded: changes[i].discarded}
	}
	return entries, nil
}

// Commits reads commits.
func (s *Store) Commits(ctx context.Context, r store.Ref, after int64, limit int) ([]store.CommitInfo, error) {
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	var commits []store.CommitInfo
	err = s.read(ctx, r, func(w *row) error {
		rest := w.commits[min(max(0, after), int64(len(w.commits))):]
		commits = slices.Clone(rest[:min(limit, len(rest))])
		return nil
	})
	return commits, err
}

// LoadAt reads any version with the messages of its window.
func (s *Store) LoadAt(ctx context.Context, r store.Ref, version int64) (session.Session, error) {
	seen, err := s.look(ctx, r)
	if err != nil {
		return session.Session{}, err
	}
	return seen.loadAt(r.ID, version, false)
}

// LoadWhole reads a version, 0 for the last, with its whole transcript.
func (s *Store) LoadWhole(ctx context.Context, r store.Ref, version int64) (session.Session, error) {
	seen, err := s.look(ctx, r)
	if err != nil {
		return session.Session{}, err
	}
	if version == 0 {
		return seen.load(r.ID, true)
	}
	return seen.loadAt(r.ID, version, true)
}

// loadAt folds a version from the nearest snapshot before it.
func (w *row) loadAt(id string, version int64, whole bool) (session.Session, error) {
	last := w.version()
	if err := admission.CheckVersion(version, last); err != nil {
		return session.Session{}, err
	}
	if version == last {
		return w.load(id, whole)
	}
	from := w.newestSnapshot(version)
	at, err := session.DecodeHead(from.head, nil)
	if err != nil {
		return session.Session{}, store.Unreadable(id, "snapshot", err)
	}
	changes := w.log.between(from.seq, w.commits[version-1].LastSeq, math.MaxInt)
	records, err := decodeRecords(id, changes)
	if err != nil {
		return session.Session{}, err
	}
	if at, err = session.FoldFrom(at, records); err != nil {
		return session.Session{}, store.Unreadable(id, "log", err)
	}
	// The log says nothing of versions and their times; the commits do.
	for _, c := range w.commits[from.version:version] {
		at = session.Seal(at, c.At)
	}
	return w.log.forked(at.Info().Seq).fill(at, whole) // no message of a later version
}

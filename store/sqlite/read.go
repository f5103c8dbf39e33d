package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
	"github.com/holdfast-dev/holdfast/store/warm"
)

// Load reads the last version, with the open tail where asked. Of a session that
// is warm only the mark is read.
func (s *Store) Load(ctx context.Context, r store.Ref, tail bool) (loaded session.Session, err error) {
	if s.warm.Has(r) {
		if loaded, found, err := s.loadWarm(ctx, r, tail); found || err != nil {
			return loaded, err
		}
	}
	var w row
	err = s.readSession(ctx, r, func(ctx context.Context, c *conn, found row) error {
		w = found
		if w.last == w.head.seq || w.last > w.seq && !tail {
			if err := c.ends(ctx, r, w); err != nil {
				return err
			}
		}
		last, err := c.load(ctx, r, w, w.version, false)
		if err != nil || !tail {
			loaded = last
			return err
		}
		records, err := c.records(ctx, r, w, reading{after: w.seq, upTo: w.last})
		if err != nil {
			return err
		}
		loaded, err = session.ApplyTail(last, records)
		return store.Unreadable(r.ID, "tail", err)
	})
	if err != nil {
		return session.Session{}, err
	}
	if session.Base(loaded) == w.last {
		loaded = s.warm.Keep(loaded, w.lastSum)
	}
	return loaded, nil
}

// loadWarm returns a session that is held in memory as it is stored now.
func (s *Store) loadWarm(ctx context.Context, r store.Ref, tail bool) (loaded session.Session, found bool, err error) {
	w, err := s.mark(ctx, r)
	if errors.Is(err, session.ErrNotFound) {
		s.warm.Drop(r)
	}
	if err != nil || w.last > w.seq && !tail {
		return session.Session{}, false, err
	}
	loaded, found = s.warm.Get(r, warm.Mark{Version: w.version, Last: w.last, Sum: w.lastSum, UpdatedAt: instant(w.updated)})
	return loaded, found, nil
}

// LoadAt reads any version with the messages of its window.
func (s *Store) LoadAt(ctx context.Context, r store.Ref, version int64) (session.Session, error) {
	return s.loadAt(ctx, r, version, false)
}

// LoadWhole reads a version, 0 for the last, with its whole transcript.
func (s *Store) LoadWhole(ctx context.Context, r store.Ref, version int64) (session.Session, error) {
	return s.loadAt(ctx, r, version, true)
}

func (s *Store) loadAt(ctx context.Context, r store.Ref, version int64, whole bool) (loaded session.Session, err error) {
	err = s.readSession(ctx, r, func(ctx context.Context, c *conn, w row) error {
		if version == 0 && whole {
			version = w.version
		}
		if err := admission.CheckVersion(version, w.version); err != nil {
			return err
		}
		loaded, err = c.load(ctx, r, w, version, whole)
		return err
	})
	if err != nil {
		return session.Session{}, err
	}
	return loaded, nil
}

// load reads a version with the messages of its window or the whole transcript.
func (c *conn) load(ctx context.Context, r store.Ref, w row, version int64, whole bool) (session.Session, error) {
	s, after, err := c.foldedAfter(ctx, r, w, version)
	if err != nil {
		return session.Session{}, err
	}
	return c.fill(ctx, w, s, after, whole)
}

// folded reads a version with some of its messages or none.
func (c *conn) folded(ctx context.Context, r store.Ref, w row, version int64) (session.Session, error) {
	s, _, err := c.foldedAfter(ctx, r, w, version)
	return s, err
}

// foldedAfter folds a version from the nearest head before it and the changes
// since. It has the messages after the head's last change, which is returned,
// and none before. The times of versions are in the commits, not in the log.
func (c *conn) foldedAfter(ctx context.Context, r store.Ref, w row, version int64) (_ session.Session, after int64, _ error) {
	from := w.head
	if from.n.Valid && from.version > version {
		if _, err := c.one(ctx, "SELECT n, version, seq, log_sum, sum FROM heads WHERE log = ? AND version <= ? ORDER BY base DESC LIMIT 1",
			[]any{w.log, version}, &from.n, &from.version, &from.seq, (*int64)(&from.logSum), &from.sum); err != nil {
			return session.Session{}, 0, err
		}
		from.data = nil
	}
	if err := c.readHead(ctx, &from); err != nil {
		return session.Session{}, 0, err
	}
	s, err := from.decode(r)
	if err != nil || from.version == version {
		return s, from.seq, err
	}
	commits, err := c.commitsIn(ctx, r.ID, w.log, from.version, version, math.MaxInt)
	if err != nil {
		return session.Session{}, 0, err
	}
	if n := int64(len(commits)); n == 0 || n != version-from.version {
		return session.Session{}, 0, &session.CorruptError{ID: r.ID, Path: "commits", Reason: fmt.Sprintf("%d of the %d after version %d are there", n, version-from.version, from.version)}
	}
	records, err := c.records(ctx, r, w, reading{after: from.seq, upTo: commits[len(commits)-1].LastSeq, before: &from.logSum})
	if err != nil {
		return session.Session{}, 0, err
	}
	if s, err = session.FoldFrom(s, records); err != nil {
		return session.Session{}, 0, store.Unreadable(r.ID, "log", err)
	}
	for _, commit := range commits {
		s = session.Seal(s, commit.At)
	}
	return s, from.seq, nil
}

// Info reads the header.
func (s *Store) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	if err := s.usable(ctx, r.Check()); err != nil {
		return session.Info{}, err
	}
	var header string
	var sum int64
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		found, err := c.one(ctx, "SELECT header, header_sum FROM sessions WHERE tenant = ? AND id = ?", []any{r.Tenant, r.ID}, &header, &sum)
		if err == nil && !found {
			err = session.NotFound(r.ID)
		}
		return err
	})
	if err != nil {
		return session.Info{}, err
	}
	return decodeHeader(r, header, sum)
}

// Log reads changes.
func (s *Store) Log(ctx context.Context, r store.Ref, after int64, limit int) ([]session.LogEntry, error) {
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	var entries []session.LogEntry
	err = s.readMark(ctx, r, func(ctx context.Context, c *conn, w row) error {
		parts, err := c.history(ctx, w, w.last)
		if err != nil {
			return err
		}
		return c.follow(ctx, r, w, parts, reading{after: max(after, 0), upTo: w.last, limit: limit}, func(l logRow) error {
			record, err := l.record(r.ID)
			entry := session.LogEntry{Record: record, Version: l.version, Discarded: l.discarded}
			if l.seq > w.seq {
				entry.Version = 0 // in the open tail
			}
			entries = append(entries, entry)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// Commits reads commits.
func (s *Store) Commits(ctx context.Context, r store.Ref, after int64, limit int) (commits []store.CommitInfo, err error) {
	if limit, err = store.PageLimit(limit); err != nil {
		return nil, err
	}
	err = s.readMark(ctx, r, func(ctx context.Context, c *conn, w row) error {
		if commits, err = c.commitsIn(ctx, r.ID, w.log, after, w.version, limit); err != nil {
			return err
		}
		next := max(after, 0)
		for _, commit := range commits {
			if next++; commit.Version != next {
				return missingCommit(r.ID, next)
			}
		}
		if next < w.version && len(commits) < limit {
			return missingCommit(r.ID, next+1)
		}
		return nil
	})
	return commits, err
}

func missingCommit(id string, version int64) error {
	return &session.CorruptError{ID: id, Path: "commits", Reason: fmt.Sprintf("that of version %d is missing", version)}
}

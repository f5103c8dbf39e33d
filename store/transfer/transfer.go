// Package transfer copies sessions from one store to another exactly: every
// change with its number and time, every version with its commit, discarded
// changes, forks that share the log of their parent, the open tail and the
// unread inbox.
//
// It writes with the usual calls of a store (Create, Fork, Save, Append, Post),
// so it works between any two stores. It never overwrites: a session that exists
// in the target is left alone if it is the same, continued if its log is the
// beginning of the source's, and refused if it differs. So copying again resumes
// an interrupted copy. Everything written is read back and compared.
//
// What a store does not keep cannot be copied. A store without Logs has neither
// history nor version numbers: as a target it gets the newest version and the
// open tail, as a source it gives its session as version 1. Leases are not
// copied, and neither are idempotency keys, because no store lists them.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Outcome is the result of copying a session.
type Outcome string

// The outcomes of copying. Look reports the one that Copy would have.
const (
	Copied    Outcome = "copied"    // the target did not have it
	Continued Outcome = "continued" // the target had a part of it
	Same      Outcome = "same"      // nothing was missing
)

// Report says what was done with a session.
type Report struct {
	ID      string   `json:"sessionId"`
	Outcome Outcome  `json:"outcome"`
	Version int64    `json:"version"`          // in the target
	Seq     int64    `json:"seq"`              // last change in the target, with the open tail
	Holder  string   `json:"holder,omitempty"` // of a live lease in the source: the copy has what was written so far
	Notes   []string `json:"notes,omitempty"`  // what differs from the source, for people
}

// Copier copies from one store to another. Several sessions may be copied at
// once, one of them not twice.
type Copier struct {
	from, to store.Store

	mu     sync.Mutex
	agreed map[store.Ref]int64 // how far the two stores are known to have the same log; guarded by mu
}

// New returns a copier between two stores, which the caller closes.
func New(from, to store.Store) *Copier {
	return &Copier{from: from, to: to, agreed: map[store.Ref]int64{}}
}

// setAgreed records how far the stores have the same log of a session.
func (c *Copier) setAgreed(r store.Ref, seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agreed[r] = seq
}

// agreesOn reports whether they are known to have the same log up to a change.
func (c *Copier) agreesOn(r store.Ref, seq int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agreed[r] >= seq
}

// Copy copies one session into the target and compares the two. Copy the
// sessions it was forked from first, in the order of a Plan: only then can it
// share their log.
//
// ConflictError differs: the target has another session with that id, or one
// that was changed there; it is untouched. BusyError: the session has a live
// lease in the target. CorruptError: it cannot be read, or what was read back is
// not what was written; the path names the change. After any error, what was
// copied stays and copying again continues from there.
func (c *Copier) Copy(ctx context.Context, r store.Ref) (Report, error) {
	j, err := c.begin(ctx, r)
	if err != nil {
		return j.report(), err
	}
	if err := j.target.write(ctx); err != nil {
		return j.report(), err
	}
	if err := j.findHolder(ctx); err != nil {
		return j.report(), err
	}
	return j.report(), nil
}

// Look reports what Copy would do, and writes nothing. Its errors are those that
// Copy would return before it writes.
func (c *Copier) Look(ctx context.Context, r store.Ref) (Report, error) {
	j, err := c.begin(ctx, r)
	return j.report(), err
}

// job is the copying of one session.
type job struct {
	*Copier
	ref    store.Ref
	source logs
	info   session.Info // of the source, when the job began
	target target

	outcome Outcome
	version int64 // last one in the target
	last    int64 // last durable change in the target
	holder  string
	notes   []string
}

// target is the store that is written to, with a log or without.
type target interface {
	// look finds out how much of the session the target has.
	look(ctx context.Context) (Outcome, error)
	// write writes what is missing and compares.
	write(ctx context.Context) error
}

// logs is the history of a source.
type logs interface {
	Log(ctx context.Context, r store.Ref, after int64, limit int) ([]session.LogEntry, error)
	Commits(ctx context.Context, r store.Ref, after int64, limit int) ([]store.CommitInfo, error)
}

func (c *Copier) begin(ctx context.Context, r store.Ref) (*job, error) {
	j := &job{Copier: c, ref: r}
	var err error
	if j.info, err = c.from.Info(ctx, r); err != nil {
		return j, err
	}
	if j.source, err = j.history(ctx); err != nil {
		return j, err
	}
	if to, ok := c.to.(store.Logs); ok {
		j.target = &logged{job: j, theirs: to}
	} else {
		j.target = &document{job: j}
	}
	j.outcome, err = j.target.look(ctx)
	return j, err
}

func (j *job) report() Report {
	return Report{ID: j.ref.ID, Outcome: j.outcome, Version: j.version, Seq: j.last, Holder: j.holder, Notes: j.notes}
}

func (j *job) note(format string, args ...any) {
	j.notes = append(j.notes, fmt.Sprintf(format, args...))
}

// differs refuses a session that is not the source's.
func (j *job) differs(seq int64) error {
	return &session.ConflictError{ID: j.ref.ID, Reason: session.ReasonDiffers, Have: seq}
}

// mismatch returns CorruptError for a copy that is not what was written.
func (j *job) mismatch(err error) error {
	var c *session.ConflictError
	if !errors.As(err, &c) || c.Reason != session.ReasonDiffers {
		return err
	}
	return &session.CorruptError{ID: j.ref.ID, Path: fmt.Sprintf("change %d", c.Have), Reason: "the copy in the target differs from the source"}
}

// findHolder reads who holds a live lease in the source.
func (j *job) findHolder(ctx context.Context) error {
	leases, ok := j.from.(store.Leases)
	if !ok {
		return nil
	}
	lease, held, err := leases.Holding(ctx, j.ref)
	if errors.Is(err, session.ErrNotFound) { // removed meanwhile
		return nil
	}
	if held {
		j.holder = lease.Holder
	}
	return err
}

// readAll reads all entries of a log after a number.
func readAll(ctx context.Context, l logs, r store.Ref, after int64) ([]session.LogEntry, error) {
	var all []session.LogEntry
	for {
		page, err := l.Log(ctx, r, after, 0)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

func recordsOf(entries []session.LogEntry) []session.Record {
	records := make([]session.Record, len(entries))
	for i, e := range entries {
		records[i] = e.Record
	}
	return records
}

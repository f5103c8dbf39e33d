// Package admission holds the decisions that all stores share: which writes
// they accept, which they refuse, and with which error. A store reads its data
// in its own way and passes in what it found. Nothing here reads or writes.
package admission

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// CheckSession refuses a session or keys that no store can write, whatever it
// holds.
func CheckSession(next session.Session, keys []store.Key) error {
	if next.IsZero() {
		return &session.InvalidError{Field: "session", Reason: "is the zero session"}
	}
	if err := store.RefOf(next).Check(); err != nil {
		return err
	}
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
	}
	return nil
}

// State is what a store holds of the session that a write is for.
type State struct {
	Damage  error // why the stored session cannot be read; nil: it can be
	AgentID string
	Version int64
	LastSeq int64 // the last change, sealed or in the open tail
	Lease   Lease
	Live    func() bool // whether the lease is live; called only where it matters, because it may cost system calls
}

// Admit runs the checks of Save and Append for a session that exists, in the
// order that the contract fixes.
func (s State) Admit(next session.Session, fence int64) error {
	if s.Damage != nil {
		return s.Damage
	}
	if err := s.Lease.Admit(next.ID(), fence, s.Live); err != nil {
		return err
	}
	conflict := &session.ConflictError{ID: next.ID(), Want: next.Version(), Have: s.Version}
	switch {
	case next.AgentID() != s.AgentID:
		conflict.Reason = session.ReasonReplaced
	case next.Version() != s.Version:
		conflict.Reason = session.ReasonStale
	case session.Base(next) != s.LastSeq:
		conflict.Reason, conflict.Want, conflict.Have = session.ReasonOpenTail, session.Base(next), s.LastSeq
	default:
		return nil
	}
	return conflict
}

// CheckAppend refuses changes that a version can hold and an open tail cannot.
func CheckAppend(pending []session.Record) error {
	if Has[session.SessionRewound](pending) {
		return &session.InvalidError{Field: "change", Reason: "session_rewound can be saved but not appended: only a version can be rewound"}
	}
	return nil
}

// MovesRows reports whether an append changes the task and workflow rows that
// the header shows. A TailDiscarded returns them to what they were, which is
// what the session that discards the tail has.
func MovesRows(pending []session.Record) bool {
	return Has[session.TaskRowChanged](pending) || Has[session.WorkflowRowChanged](pending) || Has[session.TailDiscarded](pending)
}

// Has reports whether a change of one kind is among records.
func Has[C session.Change](records []session.Record) bool {
	return slices.ContainsFunc(records, func(r session.Record) bool {
		_, ok := r.Change.(C)
		return ok
	})
}

// ItemTaken refuses a write that takes an inbox item which is not there, or
// which an earlier write took.
func ItemTaken(id string) error {
	return &session.InvalidError{Field: "inbox", Reason: fmt.Sprintf("item %s is gone or taken", id)}
}

// CheckVersion refuses a version that a session with so many does not have.
func CheckVersion(version, last int64) error {
	if version < 1 || version > last {
		return &session.InvalidError{Field: "version", Reason: fmt.Sprintf("%d is not between 1 and %d", version, last)}
	}
	return nil
}

//go:build unix

package storetest

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/linear"
	"github.com/holdfast-dev/holdfast/session"
)

// The kinds of operation a racing worker does.
const (
	opLoad   = "load"
	opSave   = "save"
	opAppend = "append"
)

// operation is one call of a racing worker with its outcome.
type operation struct {
	Kind         string
	Call, Return int64 // in nanoseconds of the machine's clock
	From, Base   int64 // version and last change the writer came with
	Tag          string

	Version, Seq int64                  // what a load found or a write made
	Last         string                 // the text of the last message found
	Lost         session.ConflictReason // empty: the write was acknowledged
	Have         int64
}

// observed is an operation of a history: request and outcome are one value.
type observed = linear.Call[operation, struct{}]

// history holds the operations of each worker.
type history struct {
	done []observed
	open map[int]operation // begun and not ended
}

// add takes in a report of a worker.
func (h *history) add(worker int, r report) {
	if h.open == nil {
		h.open = map[int]operation{}
	}
	switch {
	case r.Begin != nil:
		h.open[worker] = *r.Begin
	case r.End != nil:
		delete(h.open, worker)
		h.done = append(h.done, observed{Client: worker, In: *r.End, Began: r.End.Call, Ended: r.End.Return})
	}
}

// check compares the history with the session it led to. Every write adds one
// message with a text of its own, so the transcript says which writes of dead
// workers took effect. When they did is not known: a database may carry out what
// it was asked for after the one who asked is gone.
func (h *history) check(t testing.TB, s session.Session) {
	t.Helper()
	written := map[string]int64{}
	for _, m := range s.All() {
		tag := m.Content.Text()
		if _, twice := written[tag]; twice {
			t.Errorf("%s was written twice", tag)
		}
		written[tag] = m.Seq
	}
	operations, writers := slices.Clone(h.done), map[int64]string{}
	saves, lost, accounted := int64(0), 0, map[string]bool{}
	for _, o := range h.done {
		op := o.In
		if op.Lost != "" {
			lost++
		}
		if op.Kind == opLoad || op.Lost != "" {
			continue
		}
		accounted[op.Tag] = true
		if written[op.Tag] != op.Seq {
			t.Errorf("%s was acknowledged as change %d, the session has it at %d (0: lost)", op.Tag, op.Seq, written[op.Tag])
		}
		if op.Kind == opSave {
			saves++
			if other, taken := writers[op.Version]; taken {
				t.Errorf("version %d was acknowledged to both %s and %s", op.Version, other, op.Tag)
			}
			writers[op.Version] = op.Tag
		}
	}
	for worker, op := range h.open {
		seq, ok := written[op.Tag]
		if op.Kind == opLoad || !ok {
			continue
		}
		accounted[op.Tag] = true
		op.Version, op.Seq = op.From, seq
		if op.Kind == opSave {
			op.Version++
			saves++
		}
		operations = append(operations, observed{Client: worker, In: op, Began: op.Call, Ended: linear.Forever})
	}
	if s.Version() != saves+1 {
		t.Errorf("the session is at version %d after %d saves", s.Version(), saves)
	}
	for tag := range written {
		if !accounted[tag] {
			t.Errorf("%s is in the session, but its writer got an error", tag)
		}
	}
	if err := linear.Check(processModel(), operations); err != nil {
		t.Errorf("the history is not linearizable: %v", err)
	}
	t.Logf("%d operations: %d saves, %d conflicts, %d cut off", len(operations), saves, lost, len(h.open))
}

// sessionState is the state of a session in the model.
type sessionState struct {
	version, seq int64
	last         string
}

// processModel models one session: a write from the current version succeeds,
// any other gets a conflict with the current version.
func processModel() linear.Model[sessionState, operation, struct{}] {
	return linear.Model[sessionState, operation, struct{}]{
		Start: sessionState{version: 1, seq: 1},
		Step: func(at sessionState, op operation, _ struct{}) []sessionState {
			if next, ok := at.after(op); ok {
				return []sessionState{next}
			}
			return nil
		},
	}
}

// after returns the state after an operation, and whether its outcome is
// possible.
func (at sessionState) after(op operation) (sessionState, bool) {
	switch {
	case op.Kind == opLoad:
		return at, sessionState{op.Version, op.Seq, op.Last} == at
	case op.Lost == session.ReasonStale:
		return at, op.From != at.version && op.Have == at.version
	case op.Lost == session.ReasonOpenTail:
		return at, op.From == at.version && op.Base != at.seq && op.Have == at.seq
	case op.Lost != "":
		return at, false
	}
	next := sessionState{version: at.version, seq: at.seq + 1, last: op.Tag}
	if op.Kind == opSave {
		next.version++
	}
	return next, op.From == at.version && op.Base == at.seq && op.Version == next.version && op.Seq == next.seq
}

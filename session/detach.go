package session

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Detach returns the same version-0 session with a log of its own that needs
// no parent's: creation, then each message. Stores use it to create a fork whose
// parent they do not hold. Messages get new numbers, and the window with them.
func Detach(s Session) (Session, error) {
	if s.Partial() {
		return Session{}, invalid("session", "%s holds a part of its transcript only and cannot be stored whole", quoted(s.ID()))
	}
	info, state := s.Info(), s.b.st
	info.Version, info.Seq, info.MessageCount = 0, 0, 0
	state.Window, state.TraceCount = s.b.renumberWindow(), new(0)
	if state.Workflow != nil { // all of it comes from the ledger
		state.Workflow, state.Usage, state.Cost, state.InferenceCount = nil, Usage{}, 0, 0
	}
	at := state.UpdatedAt
	next, err := Session{}.record(at, SessionCreated{Header: info, Definition: *s.b.def, State: state})
	if err != nil {
		return Session{}, err
	}
	for _, r := range s.b.transcriptAndLedger() {
		if next, err = next.record(at, r.Change); err != nil {
			return Session{}, err
		}
	}
	return next, nil
}

// transcriptAndLedger lists both as one, in order.
func (b *body) transcriptAndLedger() []Record {
	records := make([]Record, 0, b.msgs.len()+b.ledger.len())
	i := 0
	for _, m := range b.msgs.all() {
		for ; i < b.ledger.len() && b.ledger.at(i).Seq < m.Seq; i++ {
			records = append(records, *b.ledger.at(i))
		}
		records = append(records, Record{Seq: m.Seq, At: m.CreatedAt, Change: MessageAdded{Message: *m}})
	}
	for ; i < b.ledger.len(); i++ {
		records = append(records, *b.ledger.at(i))
	}
	return records
}

// renumberWindow returns the window of a transcript whose messages are numbered
// from firstRooted on.
func (b *body) renumberWindow() Window {
	const firstRooted = 2 // the creation is 1
	w := b.st.Window.clone()
	place := func(seq int64) int64 { // of the first message that is not before seq
		i := sort.Search(b.msgs.len(), func(i int) bool { return b.msgs.at(i).Seq >= seq })
		return int64(firstRooted + i)
	}
	if w.FromSeq > 0 {
		w.FromSeq = place(w.FromSeq)
	}
	keep := w.Keep
	w.Keep = []int64{}
	for _, seq := range keep {
		if i := place(seq); i < place(seq+1) {
			w.Keep = append(w.Keep, i)
		}
	}
	if w.Summary != nil {
		w.Summary.FromSeq, w.Summary.ToSeq = place(w.Summary.FromSeq), place(w.Summary.ToSeq+1)-1
	}
	return w
}

// Imported is a document's session as a new one: version 0, a log of its own,
// origin import, and the old version and time in an import change. An empty
// id keeps the document's. From says where it came from and what was left out;
// its version and time are the document's where they are zero. Whoever wrote the document decides nothing about
// this machine: what its permissions allow is dropped, and approvals are asked
// for again when the session continues. The import change names all that.
func (s Session) Imported(id, agentID, tenant string, from SessionImported, at time.Time) (Session, error) {
	made := *s.b
	from.Version = cmp.Or(from.Version, made.info.Version)
	if from.UpdatedAt.IsZero() {
		from.UpdatedAt = made.info.UpdatedAt
	}
	made.info.ID, made.info.Tenant = cmp.Or(id, made.info.ID), cmp.Or(tenant, made.info.Tenant)
	made.st.AgentID = cmp.Or(agentID, made.st.AgentID)
	made.info.UpdatedAt, made.st.UpdatedAt = Instant(at), Instant(at)
	from.Dropped = slices.Concat(from.Dropped, made.dropAllowed(), made.dropApprovals())
	rooted, err := Detach(Session{&made})
	if err != nil {
		return Session{}, err
	}
	return rooted.With(at, from)
}

// dropAllowed removes what permissions let the session do unasked.
func (b *body) dropAllowed() (dropped []string) {
	if b.st.Permissions == nil {
		return nil
	}
	kept, dropped := b.st.Permissions.Restricted()
	b.st.Permissions = &kept
	if t := b.info.Task; t != nil {
		row := *t
		row.PermissionMode = kept.Mode
		b.info.Task = &row
	}
	return dropped
}

// dropApprovals removes the approvals that were asked for or given. An
// execution that waited for nothing else is interrupted: it asks again.
func (b *body) dropApprovals() (dropped []string) {
	b.dropPending(func(p PendingCall) bool {
		if p.Kind != PendingApproval {
			return false
		}
		dropped = append(dropped, "pending: the approval of "+p.Tool+"; it is asked for again")
		return true
	})
	if e := b.st.Execution; len(dropped) > 0 && b.info.Pending == 0 && e != nil && e.Status == ExecutionWaits {
		interrupted := *e
		interrupted.Status = ExecutionInProgress
		b.st.Execution = &interrupted
	}
	return dropped
}

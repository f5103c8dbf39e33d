package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// encodedSave is a version ready to be written.
type encodedSave struct {
	changes []change
	head    []byte
	header  []byte
}

// encodeSave prepares the version that sealing makes of next.
func (d *data) encodeSave(next, sealed session.Session) (encodedSave, error) {
	var e encodedSave
	var err error
	if e.changes, err = d.encodeChanges(next.Pending()); err != nil {
		return e, err
	}
	if e.head, err = sealed.EncodeHead(); err != nil {
		return e, err
	}
	e.header, err = encodeHeader(sealed.Info())
	return e, err
}

// Create stores a version-0 session as version 1.
func (s *Store) Create(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	return s.create(ctx, next, c, false)
}

// Fork stores a fork as version 1 and shares the log of its parent.
func (s *Store) Fork(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	return s.create(ctx, next, c, true)
}

func (s *Store) create(ctx context.Context, next session.Session, c store.Commit, mustShare bool) (session.Session, error) {
	if err := s.writable(ctx, next, c.Keys); err != nil {
		return session.Session{}, err
	}
	r := store.RefOf(next)
	history, shared, err := s.creatable(r, next)
	if err != nil {
		return session.Session{}, err
	}
	if mustShare && !shared {
		if next.Info().Fork == nil {
			return session.Session{}, &session.InvalidError{Field: "fork", Reason: "the session is not a fork"}
		}
		return session.Session{}, session.NotFound(next.Info().ParentID)
	}
	if !shared && !beginsLog(next) {
		if next, err = next.Rooted(); err != nil {
			return session.Session{}, err
		}
	}
	sealed := next.Sealed(c.At)
	enc, err := s.data.encodeSave(next, sealed)
	if err != nil {
		return session.Session{}, err
	}
	w := &row{log: history}
	if err := w.inbox.apply(1, enc.changes); err != nil {
		return session.Session{}, err
	}
	w.seal(sealed, enc, c)
	w.keys.add(c.Keys, keyUse{version: 1, at: s.data.now()})
	if err := s.insert(r, w); err != nil {
		return session.Session{}, err
	}
	s.data.bells.ring(r)
	return sealed, nil
}

// writable is the reason why a session cannot be written at all.
func (s *Store) writable(ctx context.Context, next session.Session, keys []store.Key) error {
	if next.IsZero() {
		return &session.InvalidError{Field: "session", Reason: "is the zero session"}
	}
	if err := s.open(ctx, store.RefOf(next)); err != nil {
		return err
	}
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
	}
	return nil
}

// creatable checks whether a session can be created, and gives the log it
// continues: for a fork whose parent is here, a share of the parent's. Such a
// share stays good when the parent is deleted the next moment.
func (s *Store) creatable(r store.Ref, next session.Session) (history log, shared bool, err error) {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	if _, ok := s.data.rows[r]; ok {
		return log{}, false, &session.ConflictError{ID: r.ID, Reason: session.ReasonExists}
	}
	if v := next.Version(); v != 0 {
		return log{}, false, &session.ConflictError{ID: r.ID, Reason: session.ReasonNonzeroVersion, Want: v}
	}
	info := next.Info()
	if info.Fork == nil || next.ForkedFrom() == "" {
		return log{}, false, nil
	}
	parent, ok := s.data.rows[store.Ref{Tenant: r.Tenant, ID: info.ParentID}]
	if !ok || parent.agentID != next.ForkedFrom() || !parent.has(*info.Fork) {
		return log{}, false, nil
	}
	return parent.log.forked(info.Fork.Seq), true, nil
}

// has reports whether a fork point lies at the end of a version.
func (w *row) has(p session.ForkPoint) bool {
	return p.Version >= 1 && p.Version <= w.version() && w.commits[p.Version-1].LastSeq == p.Seq
}

// beginsLog reports whether a session's changes are a log by themselves.
func beginsLog(s session.Session) bool {
	pending := s.Pending()
	if len(pending) == 0 {
		return false
	}
	_, ok := pending[0].Change.(session.SessionCreated)
	return ok
}

// insert adds a row unless another writer was faster.
func (s *Store) insert(r store.Ref, w *row) error {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	if _, ok := s.data.rows[r]; ok {
		return &session.ConflictError{ID: r.ID, Reason: session.ReasonExists}
	}
	s.data.rows[r] = w
	return nil
}

// Save adds a version.
func (s *Store) Save(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	if err := s.writable(ctx, next, c.Keys); err != nil {
		return session.Session{}, err
	}
	sealed := next.Sealed(c.At)
	enc, err := s.data.encodeSave(next, sealed)
	if err != nil {
		return session.Session{}, err
	}
	err = s.write(ctx, store.RefOf(next), func(w *row) error {
		now := s.data.now()
		if err := w.admit(next, c.Fence, now); err != nil {
			return err
		}
		if err := w.inbox.apply(w.last()+1, enc.changes); err != nil {
			return err
		}
		w.keys.apply(enc.changes)
		w.seal(sealed, enc, c)
		w.keys.add(c.Keys, keyUse{version: sealed.Version(), at: now})
		if c.Release {
			w.lease.ended = true
		}
		return nil
	})
	if err != nil {
		return session.Session{}, err
	}
	return sealed, nil
}

// admit runs the checks of a write in the order the contract fixes.
func (w *row) admit(next session.Session, fence int64, now time.Time) error {
	if err := w.readable(next.ID()); err != nil {
		return err
	}
	if err := w.lease.admit(next.ID(), fence, now); err != nil {
		return err
	}
	conflict := &session.ConflictError{ID: next.ID()}
	switch {
	case next.AgentID() != w.agentID:
		conflict.Reason, conflict.Want, conflict.Have = session.ReasonReplaced, next.Version(), w.version()
	case next.Version() != w.version():
		conflict.Reason, conflict.Want, conflict.Have = session.ReasonStale, next.Version(), w.version()
	case next.Base() != w.last():
		conflict.Reason, conflict.Want, conflict.Have = session.ReasonOpenTail, next.Base(), w.last()
	default:
		return nil
	}
	return conflict
}

// Append writes to the open tail.
func (s *Store) Append(ctx context.Context, next session.Session, a store.Append) (session.Session, error) {
	if err := s.writable(ctx, next, a.Keys); err != nil {
		return session.Session{}, err
	}
	changes, err := s.data.encodeChanges(next.Pending())
	if err != nil {
		return session.Session{}, err
	}
	err = s.write(ctx, store.RefOf(next), func(w *row) error {
		now := s.data.now()
		if err := w.admit(next, a.Fence, now); err != nil {
			return err
		}
		return w.append(next, changes, a.Keys, now)
	})
	if err != nil {
		return session.Session{}, err
	}
	return next.Flushed(), nil
}

// Start takes the lease and writes to the open tail.
func (s *Store) Start(ctx context.Context, next session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	if err := checkLength(b.Length); err != nil {
		return session.Session{}, store.Lease{}, err
	}
	if err := s.writable(ctx, next, b.Keys); err != nil {
		return session.Session{}, store.Lease{}, err
	}
	changes, err := s.data.encodeChanges(next.Pending())
	if err != nil {
		return session.Session{}, store.Lease{}, err
	}
	var taken store.Lease
	err = s.write(ctx, store.RefOf(next), func(w *row) error {
		now := s.data.now()
		if err := w.admit(next, 0, now); err != nil {
			return err
		}
		if err := w.append(next, changes, b.Keys, now); err != nil {
			return err
		}
		taken = s.data.grant(w, b.Holder, now.Add(b.Length))
		return nil
	})
	if err != nil {
		return session.Session{}, store.Lease{}, err
	}
	return next.Flushed(), taken, nil
}

// append writes changes of an admitted writer to the tail: all of them or,
// with an error, none.
func (w *row) append(next session.Session, changes []change, used []store.Key, now time.Time) error {
	if slices.ContainsFunc(changes, func(c change) bool { return c.kind == sessionRewound }) {
		return &session.InvalidError{Field: "change", Reason: "session_rewound can be saved but not appended"}
	}
	header, err := w.headerWith(next.Info(), changes)
	if err != nil {
		return err
	}
	if err := w.inbox.apply(w.last()+1, changes); err != nil {
		return err
	}
	w.header, w.running = header, next.Running()
	w.extend(changes)
	w.keys.apply(changes)
	w.keys.add(used, keyUse{seq: w.last(), at: now})
	return nil
}

// headerWith is the header with the task and workflow rows of info where the
// changes touch them. A discarded tail returns them to what they were, which
// is what the value that discards it has.
func (w *row) headerWith(info session.Info, changes []change) ([]byte, error) {
	touched := slices.ContainsFunc(changes, func(c change) bool {
		return c.kind == taskRowChanged || c.kind == workflowRowChanged || c.kind == tailDiscarded
	})
	if !touched {
		return w.header, nil
	}
	header, err := w.info(info.ID)
	if err != nil {
		return nil, err
	}
	header.Task, header.Workflow = info.Task, info.Workflow
	return encodeHeader(header)
}

// extend adds changes to the tail and counts those in force.
func (w *row) extend(changes []change) {
	w.tail = append(w.tail, changes...)
	if !slices.ContainsFunc(changes, func(c change) bool { return c.kind == tailDiscarded }) {
		w.live += len(changes)
		return
	}
	w.live = 0
	for _, c := range markDiscarded(w.log.last()+1, slices.Clone(w.tail)) {
		if !c.discarded && c.kind != tailDiscarded {
			w.live++
		}
	}
}

// Delete removes a session for good. Forks of it keep their share of its log.
func (s *Store) Delete(ctx context.Context, r store.Ref, fence int64) error {
	if err := s.open(ctx, r); err != nil {
		return err
	}
	if err := s.remove(r, fence); err != nil {
		return err
	}
	s.data.bells.ring(r)
	return nil
}

func (s *Store) remove(r store.Ref, fence int64) error {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	w, ok := s.data.rows[r]
	if !ok {
		return nil
	}
	if w.lease.live(s.data.now()) && w.lease.token != fence {
		return w.lease.busy(r.ID)
	}
	delete(s.data.rows, r)
	return nil
}

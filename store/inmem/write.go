package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
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
	if e.changes, err = d.encodeChanges(session.Unsaved(next)); err != nil {
		return e, err
	}
	if e.head, err = session.EncodeHead(sealed); err != nil {
		return e, err
	}
	e.header, err = store.EncodeHeader(sealed.Info())
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
	if err := s.usable(ctx, admission.CheckSession(next, c.Keys)); err != nil {
		return session.Session{}, err
	}
	r := store.RefOf(next)
	history, shared, err := s.creatable(r, next)
	if err != nil {
		return session.Session{}, err
	}
	if !shared {
		if next, _, err = admission.Rooted(next, mustShare); err != nil {
			return session.Session{}, err
		}
	}
	sealed := session.Seal(next, c.At)
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
	s.data.subscribers.Notify(r)
	return sealed, nil
}

// creatable checks whether a session can be created, and returns the log it
// continues: a part of its parent's, if the parent exists. That part stays valid
// if the parent is deleted.
func (s *Store) creatable(r store.Ref, next session.Session) (history log, shared bool, err error) {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	_, exists := s.data.rows[r]
	if err := admission.CheckCreate(next, exists); err != nil {
		return log{}, false, err
	}
	of, ok := admission.ParentOf(next)
	if !ok {
		return log{}, false, nil
	}
	parent, ok := s.data.rows[of.Ref]
	if !ok || parent.agentID != of.AgentID || !parent.has(of.At) {
		return log{}, false, nil
	}
	return parent.log.forked(of.At.Seq), true, nil
}

// has reports whether a fork point lies at the end of a version.
func (w *row) has(p session.ForkPoint) bool {
	return p.Version >= 1 && p.Version <= w.version() && w.commits[p.Version-1].LastSeq == p.Seq
}

// insert adds a row unless another writer has done so meanwhile.
func (s *Store) insert(r store.Ref, w *row) error {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	if _, exists := s.data.rows[r]; exists {
		return &session.ConflictError{ID: r.ID, Reason: session.ReasonExists}
	}
	s.data.rows[r] = w
	return nil
}

// Save adds a version.
func (s *Store) Save(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	if err := s.usable(ctx, admission.CheckSession(next, c.Keys)); err != nil {
		return session.Session{}, err
	}
	sealed := session.Seal(next, c.At)
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
		if admission.Releases(c) {
			w.lease.Released = true
		}
		return nil
	})
	if err != nil {
		return session.Session{}, err
	}
	return sealed, nil
}

func (w *row) admit(next session.Session, fence int64, now time.Time) error {
	return admission.State{
		Damage: w.readable(next.ID()), AgentID: w.agentID, Version: w.version(), LastSeq: w.last(),
		Lease: w.lease, Live: w.leased(now),
	}.Admit(next, fence)
}

// Append writes to the open tail.
func (s *Store) Append(ctx context.Context, next session.Session, a store.Append) (session.Session, error) {
	if err := s.usable(ctx, admission.CheckSession(next, a.Keys)); err != nil {
		return session.Session{}, err
	}
	changes, err := s.data.encodeChanges(session.Unsaved(next))
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
	return session.Flush(next), nil
}

// Start takes the lease and writes to the open tail.
func (s *Store) Start(ctx context.Context, next session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	if err := admission.CheckLength(b.Length); err != nil {
		return session.Session{}, store.Lease{}, err
	}
	if err := s.usable(ctx, admission.CheckSession(next, b.Keys)); err != nil {
		return session.Session{}, store.Lease{}, err
	}
	changes, err := s.data.encodeChanges(session.Unsaved(next))
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
		taken = s.data.grant(w, b.Holder, now, b.Length)
		return nil
	})
	if err != nil {
		return session.Session{}, store.Lease{}, err
	}
	return session.Flush(next), taken, nil
}

// append writes changes of an admitted writer to the tail: all of them or,
// with an error, none.
func (w *row) append(next session.Session, changes []change, used []store.Key, now time.Time) error {
	if err := admission.CheckAppend(session.Unsaved(next)); err != nil {
		return err
	}
	header, err := w.headerWith(next)
	if err != nil {
		return err
	}
	if err := w.inbox.apply(w.last()+1, changes); err != nil {
		return err
	}
	w.header, w.running, w.due = header, next.Running(), dueOf(session.Flush(next))
	w.extend(changes)
	w.keys.apply(changes)
	w.keys.add(used, keyUse{seq: w.last(), at: now})
	return nil
}

// headerWith is the header with the task and workflow rows of a session whose
// pending changes move them.
func (w *row) headerWith(next session.Session) ([]byte, error) {
	if !admission.MovesRows(session.Unsaved(next)) {
		return w.header, nil
	}
	info := next.Info()
	header, err := w.info(info.ID)
	if err != nil {
		return nil, err
	}
	header.Task, header.Workflow = info.Task, info.Workflow
	return store.EncodeHeader(header)
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
	if err := s.usable(ctx, r.Check()); err != nil {
		return err
	}
	if err := s.remove(r, fence); err != nil {
		return err
	}
	s.data.subscribers.Notify(r)
	return nil
}

func (s *Store) remove(r store.Ref, fence int64) error {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	w, ok := s.data.rows[r]
	if !ok {
		return nil
	}
	if err := w.lease.AdmitDelete(r.ID, fence, w.leased(s.data.now())); err != nil {
		return err
	}
	delete(s.data.rows, r)
	return nil
}

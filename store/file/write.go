package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// Create stores a new session. On a file system that ignores case, an id or a
// tenant that differs from another only in case is refused.
func (s *Store) Create(ctx context.Context, v session.Session, c store.Commit) (session.Session, error) {
	p, err := s.check(ctx, v, c.Keys)
	if err != nil {
		return session.Session{}, err
	}
	if err := s.ensureTenant(p); err != nil {
		return session.Session{}, err
	}
	unlock, err := s.lock(ctx, p)
	if err != nil {
		return session.Session{}, err
	}
	defer unlock()
	_, err = os.Lstat(p.document())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return session.Session{}, fmt.Errorf("create session %s: %w", v.ID(), err)
	}
	if err := admission.CheckCreate(v, err == nil); err != nil {
		return session.Session{}, err
	}
	if s.folders != nil {
		if err := s.disk.makeFolder(p.dir); err != nil {
			return session.Session{}, fmt.Errorf("create session %s: %w", v.ID(), err)
		}
	}
	// A crash in Delete can leave these behind.
	for _, path := range []string{p.tail(), p.lease()} {
		if err := s.disk.remove("leftover", path); err != nil {
			return session.Session{}, fmt.Errorf("create session %s: %w", v.ID(), err)
		}
	}
	return s.writeDocument(ctx, p, v, c)
}

// ensureTenant makes the tenant's directory.
func (s *Store) ensureTenant(p place) error {
	if p.locks == s.dir {
		return nil
	}
	if _, done := s.tenants.Load(p.ref.Tenant); done {
		return nil
	}
	if err := s.disk.makeTenant(p.locks); err != nil {
		return fmt.Errorf("make directory of tenant %s: %w", p.ref.Tenant, err)
	}
	ok, err := s.listed(filepath.Dir(p.locks), p.ref.Tenant)
	if err != nil {
		return err
	}
	if !ok {
		return &session.InvalidError{Field: "tenant", Reason: fmt.Sprintf("%q differs only in case from another, and this file system cannot tell them apart", p.ref.Tenant)}
	}
	s.tenants.Store(p.ref.Tenant, true)
	return nil
}

// Save writes the whole document anew.
func (s *Store) Save(ctx context.Context, v session.Session, c store.Commit) (session.Session, error) {
	p, err := s.check(ctx, v, c.Keys)
	if err != nil {
		return session.Session{}, err
	}
	unlock, err := s.lockExisting(ctx, p)
	if err != nil {
		return session.Session{}, err
	}
	defer unlock()
	if _, err := s.current(p, v, c.Fence); err != nil {
		return session.Session{}, err
	}
	saved, err := s.writeDocument(ctx, p, v, c)
	if err != nil {
		return session.Session{}, err
	}
	// The session is saved even if the rest fails: a tail that stays is older than
	// the document, and a lease that stays runs out.
	_ = s.disk.remove("tail", p.tail())
	if admission.Releases(c) {
		_ = s.writeLease(p, store.Lease{Token: c.Fence})
	}
	return saved, nil
}

// Append adds one line to the tail. Its cost depends neither on the document nor
// on the tail, as long as only this Store writes them.
func (s *Store) Append(ctx context.Context, v session.Session, a store.Append) (session.Session, error) {
	p, err := s.check(ctx, v, a.Keys)
	if err != nil {
		return session.Session{}, err
	}
	unlock, err := s.lockExisting(ctx, p)
	if err != nil {
		return session.Session{}, err
	}
	defer unlock()
	k, err := s.current(p, v, a.Fence)
	if err != nil {
		return session.Session{}, err
	}
	pending := session.Unsaved(v)
	if err := admission.CheckAppend(pending); err != nil {
		return session.Session{}, err
	}
	if len(pending) == 0 {
		return session.Flush(v), nil
	}
	line, err := appended{AgentID: k.head.agent, Version: k.head.version, Records: pending}.line()
	if err != nil {
		return session.Session{}, fmt.Errorf("encode tail of session %s: %w", v.ID(), err)
	}
	if err := ctx.Err(); err != nil {
		return session.Session{}, err
	}
	if err := s.disk.appendLine(p.tail(), k.tail, line); err != nil {
		s.cache.forget(p.ref)
		if errors.Is(err, errOutcomeUnknown) {
			return session.Session{}, &session.UnknownOutcomeError{ID: v.ID(), Err: err}
		}
		return session.Session{}, fmt.Errorf("append to session %s: %w", v.ID(), err)
	}
	k.tail.good += int64(len(line))
	k.tail.size, k.tail.last = k.tail.good, pending[len(pending)-1].Seq
	s.cache.put(p.ref, k)
	s.subscribers.Notify(p.ref)
	return session.Flush(v), nil
}

// Delete removes the document first: from then on the session is gone, and the
// next Delete or Create removes what a crash leaves of it.
func (s *Store) Delete(ctx context.Context, r store.Ref, fence int64) error {
	p, err := s.at(ctx, r)
	if err != nil {
		return err
	}
	if left, err := s.anythingLeft(p); err != nil || !left {
		return err
	}
	unlock, err := s.lock(ctx, p)
	if err != nil {
		return err
	}
	defer unlock()
	there, err := s.exists(p)
	if err != nil {
		return err
	}
	if there {
		// A lease that cannot be read is part of a corrupt session, which can
		// be deleted.
		if l, err := p.readLease(); err == nil {
			if err := l.AdmitDelete(r.ID, fence, s.leased(l)); err != nil {
				return err
			}
		}
	}
	s.cache.forget(r)
	defer s.subscribers.Notify(r)
	if s.folders != nil {
		if err := s.folders.Deleting(r); err != nil {
			return fmt.Errorf("delete session %s: %w", r.ID, err)
		}
	}
	for _, f := range []struct{ what, path string }{{"document", p.document()}, {"tail", p.tail()}, {"lease", p.lease()}} {
		if _, err := os.Lstat(f.path); errors.Is(err, fs.ErrNotExist) || f.path == p.document() && !there {
			continue
		}
		if err := s.disk.remove(f.what, f.path); err != nil {
			return fmt.Errorf("delete session %s: %w", r.ID, err)
		}
		if err := s.disk.syncDir(f.what, p.dir); err != nil {
			return fmt.Errorf("delete session %s: %w", r.ID, err)
		}
	}
	if s.folders == nil {
		return nil
	}
	if err := s.folders.Deleted(r); err != nil {
		return fmt.Errorf("delete session %s: %w", r.ID, err)
	}
	return nil
}

// anythingLeft reports whether there is a file to delete, so that unused ids get
// no lock file.
func (s *Store) anythingLeft(p place) (bool, error) {
	if there, err := s.exists(p); err != nil || there {
		return there, err
	}
	left := []string{p.tail(), p.lease(), tempOf(p.document()), tempOf(p.lease())}
	if s.folders != nil {
		left = append(left, p.dir)
	}
	for _, path := range left {
		if _, err := os.Lstat(path); err == nil {
			return true, nil
		}
	}
	return false, nil
}

// check refuses what can be refused without looking at the disk.
func (s *Store) check(ctx context.Context, v session.Session, keys []store.Key) (place, error) {
	if err := s.usable(ctx); err != nil {
		return place{}, err
	}
	if err := admission.CheckSession(v, nil); err != nil {
		return place{}, err
	}
	switch {
	case len(keys) > 0:
		return place{}, &session.UnsupportedError{Store: "file", Ability: "Keys"}
	case admission.Has[session.InboxTaken](session.Unsaved(v)):
		return place{}, &session.UnsupportedError{Store: "file", Ability: "Inboxes"}
	}
	return s.placeOf(store.RefOf(v)), nil
}

// lockExisting locks a session that exists.
func (s *Store) lockExisting(ctx context.Context, p place) (unlock func(), err error) {
	if _, err := os.Lstat(p.document()); errors.Is(err, fs.ErrNotExist) {
		return nil, s.missing(p, errNoDocument)
	}
	return s.lock(ctx, p)
}

// current returns what is stored of a session if it admits a write. The caller
// holds the lock.
func (s *Store) current(p place, v session.Session, fence int64) (known, error) {
	k, err := s.stored(p)
	if err != nil {
		return known{}, s.missing(p, err)
	}
	l, err := p.readLease()
	if err != nil {
		return known{}, err
	}
	have := admission.State{AgentID: k.head.agent, Version: k.head.version, LastSeq: k.tail.last, Lease: l, Live: s.leased(l)}
	return k, have.Admit(v, fence)
}

// stored reads the head and the end of the tail, and decodes the document unless
// the cache has it.
func (s *Store) stored(p place) (known, error) {
	f, info, err := p.openDocument()
	if err != nil {
		return known{}, err
	}
	defer func() { _ = f.Close() }() // it is only read
	k := s.cache.get(p.ref)
	good := false
	if k.fits(info) {
		if head, err := p.readHead(f); err == nil {
			h, _, err := peek(head)
			good = err == nil && h == k.head
		}
	}
	if !good {
		if _, err := f.Seek(0, 0); err != nil {
			return known{}, p.unreadable(p.document(), err)
		}
		v, err := p.readDocument(f)
		if err != nil {
			return known{}, err
		}
		k = known{file: info, head: headOf(v), tail: emptyTail(headOf(v))}
	}
	if err := p.refresh(&k); err != nil {
		return known{}, err
	}
	s.cache.put(p.ref, k)
	return k, nil
}

// refresh reads what was added to a tail since it was last read. Under one
// version a tail only grows, apart from torn lines at its end.
func (p place) refresh(k *known) error {
	size := int64(0)
	switch info, err := os.Stat(p.tail()); {
	case err == nil:
		size = info.Size()
	case !errors.Is(err, fs.ErrNotExist):
		return p.unreadable(p.tail(), err)
	}
	if size < k.tail.good {
		k.tail = emptyTail(k.head)
	}
	if k.tail.size = size; size == k.tail.good {
		return nil
	}
	var err error
	k.tail, err = p.readTail(k.head, k.tail)
	return err
}

// writeDocument seals a session into its next version.
func (s *Store) writeDocument(ctx context.Context, p place, v session.Session, c store.Commit) (session.Session, error) {
	if v.Partial() {
		return session.Session{}, &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%q was loaded with a part of its transcript only: load it whole to store it", v.ID())}
	}
	sealed := session.Seal(v, c.At)
	raw, err := sealed.MarshalJSON()
	if err == nil {
		raw, err = seal(raw)
	}
	if err != nil {
		return session.Session{}, fmt.Errorf("save session %s: %w", v.ID(), err)
	}
	if err := ctx.Err(); err != nil {
		return session.Session{}, err
	}
	renamed, err := s.disk.replace("document", p.document(), raw)
	s.cache.forget(p.ref)
	switch {
	case err != nil && renamed:
		return session.Session{}, &session.UnknownOutcomeError{ID: v.ID(), CommitID: c.ID, Err: err}
	case err != nil:
		return session.Session{}, fmt.Errorf("save session %s: %w", v.ID(), err)
	}
	if info, err := os.Stat(p.document()); err == nil {
		s.cache.put(p.ref, known{file: info, head: headOf(sealed), tail: emptyTail(headOf(sealed))})
	}
	s.subscribers.Notify(p.ref)
	return sealed, nil
}

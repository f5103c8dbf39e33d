package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// leaseFile is a lease on disk. A released one keeps only its token, so that a
// late writer is told the newest.
type leaseFile struct {
	Token  int64     `json:"token"`
	Holder string    `json:"holder"`
	Until  time.Time `json:"until"`
}

const leaseKey = "lease"

func (p place) readLease() (admission.Lease, error) {
	raw, err := readRegular(p.lease())
	if errors.Is(err, fs.ErrNotExist) {
		return admission.Lease{}, nil
	}
	if err != nil {
		return admission.Lease{}, p.unreadable(p.lease(), err)
	}
	if bytes.HasPrefix(raw, []byte(sumKey)) { // those of earlier programs have none
		line, ended := bytes.CutSuffix(raw, []byte("\n"))
		value, ok := openLine(leaseKey, line)
		if !ended || !ok {
			return admission.Lease{}, corruptFile(p, p.lease(), wrongSum)
		}
		raw = value
	}
	var l leaseFile
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return admission.Lease{}, corruptFile(p, p.lease(), "%v", err)
	}
	if l.Token < 1 {
		return admission.Lease{}, corruptFile(p, p.lease(), "token %d is not positive", l.Token)
	}
	return admission.Lease{Lease: store.Lease(l), Released: l.Holder == ""}, nil
}

func (s *Store) writeLease(p place, l store.Lease) error {
	raw, err := json.Marshal(leaseFile(l))
	if err != nil {
		return fmt.Errorf("encode lease of session %s: %w", p.ref.ID, err)
	}
	if _, err := s.disk.replace("lease", p.lease(), sealLine(leaseKey, raw)); err != nil {
		return fmt.Errorf("write lease of session %s: %w", p.ref.ID, err)
	}
	s.subscribers.Notify(p.ref)
	return nil
}

// leased asks whether a lease is live.
func (s *Store) leased(l admission.Lease) func() bool {
	return func() bool { return l.Live(s.now()) }
}

// Acquire takes the lease. A holder named by package holder whose process is
// dead is replaced at once.
func (s *Store) Acquire(ctx context.Context, r store.Ref, name string, length time.Duration) (store.Lease, error) {
	if name == "" {
		return store.Lease{}, &session.InvalidError{Field: "holder", Reason: "is empty"}
	}
	if err := admission.CheckLength(length); err != nil {
		return store.Lease{}, err
	}
	p, unlock, err := s.lockFor(ctx, r)
	if err != nil {
		return store.Lease{}, err
	}
	defer unlock()
	old, err := p.readLease()
	if err != nil {
		return store.Lease{}, err
	}
	if err := old.Admit(r.ID, 0, s.leased(old)); err != nil {
		return store.Lease{}, err
	}
	token, err := s.nextToken(ctx, old.Token)
	if err != nil {
		return store.Lease{}, err
	}
	l := admission.NewLease(name, s.now(), length)
	l.Token = token
	return l.Lease, s.writeLease(p, l.Lease)
}

// lockFor locks a session that exists, readable or not. It looks before it locks,
// so that unused ids get no lock file.
func (s *Store) lockFor(ctx context.Context, r store.Ref) (place, func(), error) {
	p, err := s.at(ctx, r)
	if err != nil {
		return p, nil, err
	}
	if err := s.mustExist(p); err != nil {
		return p, nil, err
	}
	unlock, err := s.lock(ctx, p)
	if err != nil {
		return p, nil, err
	}
	if err := s.mustExist(p); err != nil {
		unlock()
		return p, nil, err
	}
	return p, unlock, nil
}

func (s *Store) mustExist(p place) error {
	there, err := s.exists(p)
	if err == nil && !there {
		return session.NotFound(p.ref.ID)
	}
	return err
}

// Renew prolongs the lease from now on.
func (s *Store) Renew(ctx context.Context, r store.Ref, l store.Lease, length time.Duration) (store.Lease, error) {
	if err := admission.CheckLength(length); err != nil {
		return store.Lease{}, err
	}
	p, unlock, err := s.lockFor(ctx, r)
	if errors.Is(err, session.ErrNotFound) {
		return store.Lease{}, admission.Lease{}.CheckToken(r.ID, l.Token)
	}
	if err != nil {
		return store.Lease{}, err
	}
	defer unlock()
	have, err := p.readLease()
	if err != nil {
		return store.Lease{}, err
	}
	if err := have.CheckToken(r.ID, l.Token); err != nil {
		return store.Lease{}, err
	}
	have.Until = session.Instant(s.now().Add(length))
	return have.Lease, s.writeLease(p, have.Lease)
}

// Release ends the lease.
func (s *Store) Release(ctx context.Context, r store.Ref, l store.Lease) error {
	p, unlock, err := s.lockFor(ctx, r)
	if errors.Is(err, session.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	have, err := p.readLease()
	if err != nil || !have.Is(l.Token) {
		return err
	}
	return s.writeLease(p, store.Lease{Token: have.Token})
}

// Holding reads the lease without locking it.
func (s *Store) Holding(ctx context.Context, r store.Ref) (store.Lease, bool, error) {
	p, err := s.at(ctx, r)
	if err != nil {
		return store.Lease{}, false, err
	}
	if err := s.mustExist(p); err != nil {
		return store.Lease{}, false, err
	}
	l, err := p.readLease()
	if err != nil || !l.Live(s.now()) {
		return store.Lease{}, false, err
	}
	return l.Lease, true, nil
}

// nextToken returns a token larger than every one before. It is durable before it
// is used, so none is used twice, even after a crash. If the file is lost, tokens
// still grow for each session.
func (s *Store) nextToken(ctx context.Context, atLeast int64) (int64, error) {
	path := filepath.Join(s.dir, ".tokens")
	unlock, err := s.lockFile(ctx, "tokens", path+".lock")
	if err != nil {
		return 0, fmt.Errorf("lock fencing tokens: %w", err)
	}
	defer unlock()
	last := int64(0)
	raw, err := readRegular(path)
	switch {
	case err == nil:
		if last, err = strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err != nil || last < 0 {
			return 0, fmt.Errorf("read fencing tokens: %s does not hold a number; restore the file, or remove it while no session runs", path)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("read fencing tokens: %w", err)
	}
	next := max(last, atLeast) + 1
	if _, err := s.disk.replace("tokens", path, fmt.Appendln(nil, next)); err != nil {
		return 0, fmt.Errorf("write fencing tokens: %w", err)
	}
	return next, nil
}

package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Load reads a session without locking it, always with its whole transcript.
func (s *Store) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	p, err := s.at(ctx, r)
	if err != nil {
		return session.Session{}, err
	}
	return s.load(ctx, p, tail)
}

func (s *Store) load(ctx context.Context, p place, withTail bool) (session.Session, error) {
	var loaded session.Session
	err := s.read(ctx, p, func(f *os.File) (err error) {
		if loaded, err = p.readDocument(f); err != nil || !withTail {
			return err
		}
		t, err := p.readTail(headOf(loaded), emptyTail(headOf(loaded)))
		if err != nil {
			return err
		}
		if loaded, err = session.ApplyTail(loaded, t.records); err != nil {
			return corruptFile(p, p.tail(), "%v", err)
		}
		return nil
	})
	if err != nil {
		return session.Session{}, err
	}
	return loaded, nil
}

// read lets look read a document and then the tail. If a save came in between,
// the two do not belong together, and look is called again. The document stays
// open until that is known, so that its inode cannot be reused.
func (s *Store) read(ctx context.Context, p place, look func(*os.File) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, info, err := p.openDocument()
		if err != nil {
			return s.missing(p, err)
		}
		err = look(f)
		now, statErr := os.Stat(p.document())
		_ = f.Close() // it was only read
		if statErr == nil && os.SameFile(info, now) || statErr != nil && !errors.Is(statErr, fs.ErrNotExist) {
			return s.missing(p, err)
		}
	}
}

// missing turns a missing document into ErrNotFound, and also one with another
// name that is found only because the file system ignores case.
func (s *Store) missing(p place, err error) error {
	var corrupt *session.CorruptError
	switch {
	case errors.Is(err, errNoDocument):
		if _, err := os.Stat(s.dir); err != nil {
			return fmt.Errorf("file store: %w", err)
		}
		return session.NotFound(p.ref.ID)
	case errors.As(err, &corrupt):
		if exact, nameErr := s.exact(p); nameErr == nil && !exact {
			return session.NotFound(p.ref.ID)
		}
	}
	return err
}

// Info reads the header, and the tail where there is one.
func (s *Store) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	p, err := s.at(ctx, r)
	if err != nil {
		return session.Info{}, err
	}
	return s.info(ctx, p)
}

func (s *Store) info(ctx context.Context, p place) (session.Info, error) {
	var info session.Info
	err := s.read(ctx, p, func(f *os.File) (err error) {
		if info, err = p.readHeader(f); err != nil {
			return err
		}
		if _, err := os.Lstat(p.tail()); err != nil {
			return nil // no tail, or one that Load will report
		}
		if _, err := f.Seek(0, 0); err != nil {
			return p.unreadable(p.document(), err)
		}
		head, err := p.readHead(f)
		if err != nil {
			return err
		}
		h, _, err := peek(head)
		if err != nil {
			return p.corrupt("%v", err)
		}
		t, err := p.readTail(h, emptyTail(h))
		info = t.rows(info)
		return err
	})
	return info, err
}

// List reads the header of every session of the tenant; there is no index.
func (s *Store) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	if err := s.usable(ctx); err != nil {
		return store.Page{}, err
	}
	q, after, err := q.Check()
	if err != nil {
		return store.Page{}, err
	}
	places, err := s.places(tenant)
	if err != nil {
		return store.Page{}, err
	}
	var infos []session.Info
	var corrupt []*session.CorruptError
	for _, p := range places {
		info, fits, err := s.matches(ctx, p, q)
		var bad *session.CorruptError
		var newer *session.NewerFormatError
		switch {
		case errors.As(err, &bad):
			corrupt = append(corrupt, bad)
		case errors.As(err, &newer):
			corrupt = append(corrupt, p.corrupt("%v", newer))
		case errors.Is(err, session.ErrNotFound): // deleted since the directory was read
		case err != nil:
			return store.Page{}, err
		case fits:
			infos = append(infos, info)
		}
	}
	page := q.Paginate(infos, after)
	page.Corrupt = corrupt
	return page, nil
}

func (s *Store) matches(ctx context.Context, p place, q store.Query) (session.Info, bool, error) {
	info, err := s.info(ctx, p)
	if err != nil {
		return info, false, err
	}
	fits, err := q.Match(info, func() (session.Values, error) {
		loaded, err := s.load(ctx, p, false)
		if err != nil {
			return nil, err
		}
		return loaded.Metadata(), nil
	})
	return info, fits, err
}

// places finds the sessions of a tenant. It ignores files that cannot be a
// session's.
func (s *Store) places(tenant string) ([]place, error) {
	if err := session.CheckTenant(tenant); err != nil {
		return nil, err
	}
	if s.folders != nil {
		return s.placesInFolders(tenant)
	}
	dir := s.tenantDir(tenant)
	entries, err := os.ReadDir(dir)
	if dir != s.dir {
		switch _, rootErr := os.Stat(s.dir); {
		case rootErr != nil:
			return nil, fmt.Errorf("file store: %w", rootErr)
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list file store: %w", err)
	}
	var places []place
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), documentExt)
		if ok && session.CheckID(id) == nil {
			places = append(places, s.placeOf(store.Ref{Tenant: tenant, ID: id}))
		}
	}
	return places, nil
}

// placesInFolders leaves out folders without a document.
func (s *Store) placesInFolders(tenant string) ([]place, error) {
	ids, err := s.folders.Sessions(tenant)
	if err != nil {
		return nil, fmt.Errorf("list file store: %w", err)
	}
	var places []place
	for _, id := range ids {
		if session.CheckID(id) != nil {
			continue // somebody else's folder
		}
		p := s.placeOf(store.Ref{Tenant: tenant, ID: id})
		if _, err := os.Lstat(p.document()); err == nil {
			places = append(places, p)
		}
	}
	return places, nil
}

// Interrupted looks into every session of the tenant, because neither tails
// nor executions are part of a header. Sessions that cannot be read are left
// out; List reports them.
func (s *Store) Interrupted(ctx context.Context, tenant string) ([]store.Ref, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	places, err := s.places(tenant)
	if err != nil {
		return nil, err
	}
	var refs []store.Ref
	for _, p := range places {
		interrupted, err := s.interrupted(ctx, p)
		switch {
		case errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrNewerFormat), errors.Is(err, session.ErrNotFound):
		case err != nil:
			return nil, err
		case interrupted:
			refs = append(refs, p.ref)
		}
	}
	return refs, nil
}

func (s *Store) interrupted(ctx context.Context, p place) (bool, error) {
	may, err := p.mayBeInterrupted()
	if err != nil || !may {
		return false, s.missing(p, err)
	}
	loaded, err := s.load(ctx, p, true)
	if err != nil || !loaded.HasTail() && !loaded.Running() {
		return false, err
	}
	l, err := p.readLease()
	return !l.Live(s.now()), err
}

// mayBeInterrupted rules out most documents without decoding them.
func (p place) mayBeInterrupted() (bool, error) {
	if _, err := os.Lstat(p.tail()); err == nil {
		return true, nil
	}
	raw, err := readRegular(p.document())
	if err != nil {
		return false, p.unreadable(p.document(), err)
	}
	for _, status := range []session.ExecutionStatus{session.ExecutionInProgress, session.ExecutionPending} {
		if bytes.Contains(raw, []byte(status)) {
			return true, nil
		}
	}
	return false, nil
}

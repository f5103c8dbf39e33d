package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Each store of this file is broken in one way, named in mutants.

type looseVersion struct{ Full }

func (m looseVersion) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	saved, err := m.Full.Save(ctx, s, c)
	var conflict *session.ConflictError
	if !errors.As(err, &conflict) || conflict.Reason != session.ReasonStale {
		return saved, err
	}
	now, err := m.Load(ctx, store.RefOf(s), true)
	if err != nil {
		return now, err
	}
	for _, r := range session.Unsaved(s) {
		if now, err = now.With(r.At, r.Change); err != nil {
			return now, err
		}
	}
	return m.Full.Save(ctx, now, c)
}

type noFence struct{ Full }

func (m noFence) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	saved, err := m.Full.Save(ctx, s, c)
	if errors.Is(err, session.ErrFenced) {
		l, _, _ := m.Holding(ctx, store.RefOf(s))
		c.Fence = l.Token
		return m.Full.Save(ctx, s, c)
	}
	return saved, err
}

type noBusy struct{ Full }

func (m noBusy) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	if l, live, _ := m.Holding(ctx, store.RefOf(s)); live && c.Fence == 0 {
		c.Fence = l.Token
	}
	return m.Full.Save(ctx, s, c)
}

type noAgent struct{ Full }

func (m noAgent) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	saved, err := m.Full.Save(ctx, s, c)
	var conflict *session.ConflictError
	if errors.As(err, &conflict) && conflict.Reason == session.ReasonReplaced {
		conflict.Reason = session.ReasonStale
	}
	return saved, err
}

type tailFirst struct{ Full }

func (m tailFirst) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	saved, err := m.Full.Save(ctx, s, c)
	var conflict *session.ConflictError
	if errors.As(err, &conflict) && conflict.Reason == session.ReasonStale {
		if now, err := m.Load(ctx, store.RefOf(s), true); err == nil && now.HasTail() {
			conflict.Reason = session.ReasonOpenTail
		}
	}
	return saved, err
}

type twoVersions struct{ Full }

func (m twoVersions) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	saved, err := m.Full.Save(ctx, s, c)
	if err != nil {
		return saved, err
	}
	return m.Full.Save(ctx, saved, c)
}

// noDiscard writes a note in the place of the refusal.
type noDiscard struct{ Full }

func (m noDiscard) Append(ctx context.Context, s session.Session, a store.Append) (session.Session, error) {
	s, err := replaceKind(s, session.TailDiscarded{}.Kind())
	if err != nil {
		return s, err
	}
	return m.Full.Append(ctx, s, a)
}

// replaceKind is the session with changes of a kind made harmless.
func replaceKind(s session.Session, kind string) (session.Session, error) {
	return session.Amend(s, func(c session.Change) (session.Change, error) {
		if c.Kind() == kind {
			return session.MetadataWritten{Key: "replaced", Value: json.RawMessage(`1`)}, nil
		}
		return c, nil
	})
}

type noTail struct{ Full }

func (m noTail) Load(ctx context.Context, r store.Ref, _ bool) (session.Session, error) {
	return m.Full.Load(ctx, r, false)
}

type takesTwice struct{ Full }

func (m takesTwice) Append(ctx context.Context, s session.Session, a store.Append) (session.Session, error) {
	s, err := replaceKind(s, session.InboxTaken{}.Kind())
	if err != nil {
		return s, err
	}
	return m.Full.Append(ctx, s, a)
}

func (m takesTwice) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	s, err := replaceKind(s, session.InboxTaken{}.Kind())
	if err != nil {
		return s, err
	}
	return m.Full.Save(ctx, s, c)
}

type unordered struct{ Full }

func (m unordered) Inbox(ctx context.Context, r store.Ref) ([]store.Item, error) {
	items, err := m.Full.Inbox(ctx, r)
	slices.SortFunc(items, func(a, b store.Item) int { return strings.Compare(a.ID, b.ID) })
	return items, err
}

// shared returns one header to everybody.
type shared struct {
	Full
	mu    sync.Mutex
	infos map[store.Ref]session.Info
}

func (m *shared) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i, ok := m.infos[r]; ok {
		return i, nil
	}
	i, err := m.Full.Info(ctx, r)
	m.infos[r] = i
	return i, err
}

// staleReads remembers what it read last and returns it once more.
type staleReads struct {
	Full
	mu   sync.Mutex
	last map[store.Ref]session.Session
}

func (m *staleReads) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.last[r]
	if ok {
		delete(m.last, r)
		return old, nil
	}
	s, err := m.Full.Load(ctx, r, tail)
	if err == nil {
		m.last[r] = s
	}
	return s, err
}

type noRelease struct{ Full }

func (m noRelease) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	c.Release = false
	return m.Full.Save(ctx, s, c)
}

type forEver struct{ Full }

func (m forEver) Acquire(ctx context.Context, r store.Ref, holder string, length time.Duration) (store.Lease, error) {
	return m.Full.Acquire(ctx, r, holder, 1000*length)
}

func (m forEver) Renew(ctx context.Context, r store.Ref, l store.Lease, length time.Duration) (store.Lease, error) {
	return m.Full.Renew(ctx, r, l, 1000*length)
}

type reentrant struct{ Full }

func (m reentrant) Acquire(ctx context.Context, r store.Ref, holder string, length time.Duration) (store.Lease, error) {
	if l, live, err := m.Holding(ctx, r); live && err == nil && l.Holder == holder {
		return l, nil
	}
	return m.Full.Acquire(ctx, r, holder, length)
}

type noKeys struct{ Full }

func (m noKeys) Key(context.Context, store.Ref, string) (store.KeyUse, bool, error) {
	return store.KeyUse{}, false, nil
}

type lastUse struct {
	Full
	used map[string]string
}

func (m lastUse) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	for _, k := range c.Keys {
		m.used[k.Name] = k.Fingerprint
	}
	return m.Full.Save(ctx, s, c)
}

func (m lastUse) Key(ctx context.Context, r store.Ref, name string) (store.KeyUse, bool, error) {
	use, known, err := m.Full.Key(ctx, r, name)
	use.Fingerprint = m.used[name]
	return use, known, err
}

// gap leaves out the third change.
type gap struct{ Full }

func (m gap) Log(ctx context.Context, r store.Ref, after int64, limit int) ([]session.LogEntry, error) {
	entries, err := m.Full.Log(ctx, r, after, limit)
	return slices.DeleteFunc(entries, func(e session.LogEntry) bool { return e.Seq == 3 }), err
}

type offByOne struct{ Full }

func (m offByOne) LoadAt(ctx context.Context, r store.Ref, version int64) (session.Session, error) {
	return m.Full.LoadAt(ctx, r, max(1, version-1))
}

// silent tells for ever, also after stop.
type silent struct{ Full }

func (m silent) Subscribe(r store.Ref) (<-chan struct{}, func()) {
	news, _ := m.Full.Subscribe(r)
	return news, func() {}
}

// joined lets a parent's later saves show in its forks.
type joined struct{ Full }

func (m joined) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	s, err := m.Full.Load(ctx, r, tail)
	if err != nil || s.Info().ParentID == "" {
		return s, err
	}
	return m.Full.Load(ctx, store.Ref{Tenant: r.Tenant, ID: s.Info().ParentID}, tail)
}

type anyCursor struct{ Full }

func (m anyCursor) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	page, err := m.Full.List(ctx, tenant, q)
	if err != nil && q.Cursor != "" {
		q.Cursor = ""
		return m.Full.List(ctx, tenant, q)
	}
	return page, err
}

type showsDeleted struct{ Full }

func (m showsDeleted) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	q.IncludeDeleted = true
	return m.Full.List(ctx, tenant, q)
}

// firstMetadata filters by the metadata that sessions were created with.
type firstMetadata struct {
	Full
	created map[store.Ref]session.Session
}

func (m firstMetadata) Create(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	m.created[store.RefOf(s)] = s
	return m.Full.Create(ctx, s, c)
}

func (m firstMetadata) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	asked := q.Metadata
	q.Metadata = nil
	page, err := m.Full.List(ctx, tenant, q)
	page.Items = slices.DeleteFunc(page.Items, func(i session.Info) bool {
		fits, err := store.Query{Kinds: session.Kinds(), IncludeDeleted: true, Metadata: asked}.Match(i, func() (session.Values, error) {
			s, ok := m.created[store.Ref{Tenant: i.Tenant, ID: i.ID}]
			if !ok {
				return nil, nil
			}
			return s.Metadata(), nil
		})
		return err != nil || !fits
	})
	return page, err
}

type shortPage struct{ Full }

func (m shortPage) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	page, err := m.Full.List(ctx, tenant, q)
	if page.Next != "" {
		page.Items = page.Items[:len(page.Items)-1]
	}
	return page, err
}

type oneTenant struct{ Full }

func (m oneTenant) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	page, err := m.Full.List(ctx, tenant, q)
	more, _ := m.Full.List(ctx, tenant+"-b", q)
	page.Items = append(page.Items, more.Items...)
	return page, err
}

type coarse struct{ Full }

func (m coarse) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	i, err := m.Full.Info(ctx, r)
	i.UpdatedAt = i.UpdatedAt.Truncate(time.Millisecond)
	return i, err
}

// noNil reads an empty list where there was none.
type noNil struct{ Full }

func (m noNil) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	s, err := m.Full.Load(ctx, r, tail)
	if err != nil {
		return s, err
	}
	raw, err := s.MarshalJSON()
	if err != nil {
		return s, err
	}
	return session.Decode(bytes.ReplaceAll(raw, []byte(`"tools":null`), []byte(`"tools":[]`)))
}

type deaf struct{ Full }

func (m deaf) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	return m.Full.Info(context.WithoutCancel(ctx), r)
}

type sweepsAll struct{ Full }

func (m sweepsAll) Sweepable(ctx context.Context, tenant string, r store.Retention, _ time.Time) ([]session.Info, error) {
	page, err := m.List(ctx, tenant, store.Query{Statuses: r.Statuses})
	return page.Items, err
}

// rewrites uses memory for every message the session ever had.
type rewrites struct{ Full }

func (m rewrites) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	document := make([]byte, 0, 100*s.Info().MessageCount)
	for range s.Info().MessageCount {
		document = append(document, "a message that was written already"...)
	}
	if !bytes.Contains(document, []byte("never")) {
		c.Actor = "rewriter"
	}
	return m.Full.Save(ctx, s, c)
}

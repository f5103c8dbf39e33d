package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
)

// TestSearch_findsWhatReadingEverythingFinds does random things to sessions of
// two tenants with look-alike names, indexes now and then, and holds what is
// found against what a reader of every log finds.
func TestSearch_findsWhatReadingEverythingFinds(t *testing.T) {
	t.Parallel()
	st := busy(t, migrated.Copy(t))
	round := 0
	property.CheckCases(t, 10, func(rt *property.T) {
		round++
		m := &machine{T: rt, test: t, store: st, tenants: []string{fmt.Sprint("t", round), fmt.Sprint("t", round, "-")}}
		steps := map[string]func(){
			"create": m.create, "say": m.say, "append": m.append, "discard": m.discard, "clear": m.clear, "rewind": m.rewind,
			"fork": m.fork, "hide": m.hide, "purge": m.purge, "remember": m.remember, "forget": m.forget,
			"index": func() { st.Index(t.Context()) },
		}
		names := slices.Sorted(maps.Keys(steps))
		m.search()
		for range rt.Repeat(1, 60) {
			steps[property.SampledFrom(names).Draw(rt, "step")]()
			m.search()
		}
	})
}

type machine struct {
	*property.T
	test    *testing.T
	store   *postgres.Store
	tenants []string

	refs     []store.Ref
	ids      int
	messages int
	minutes  int
}

func (m *machine) must(err error) {
	if err != nil {
		m.Fatalf("%v", err)
	}
}

// at is a time that may repeat, so that ties are met.
func (m *machine) at() time.Time {
	m.minutes += property.IntRange(0, 1).Draw(m.T, "minutes")
	return noon().Add(time.Duration(m.minutes) * time.Minute)
}

func (m *machine) pick() store.Ref {
	if len(m.refs) == 0 {
		m.create()
	}
	return property.SampledFrom(m.refs).Draw(m.T, "session")
}

func (m *machine) load(r store.Ref) session.Session {
	s, err := m.store.Load(m.test.Context(), r, true)
	m.must(err)
	return s
}

func (m *machine) commit(s session.Session) {
	_, err := m.store.Save(m.test.Context(), s, store.Commit{ID: "c", At: noon()})
	m.must(err)
}

var vocabulary = []string{"tea", "Tee", "TEA", "oslo", "o'slo", "50%", "茶", "ß"}

func (m *machine) text() string {
	return strings.Join(property.SliceOfN(property.SampledFrom(vocabulary), 0, 4).Draw(m.T, "text"), " ")
}

func (m *machine) message() session.Message {
	m.messages++
	return session.Message{
		ID: fmt.Sprint("m", m.messages), Role: session.RoleUser, Content: session.Text(m.text()),
		CreatedAt: m.at(), Trace: property.IntRange(0, 3).Draw(m.T, "trace") == 0,
	}
}

func (m *machine) said(s session.Session) session.Session {
	s, err := s.WithMessage(m.message(), noon())
	m.must(err)
	return s
}

func (m *machine) add(s session.Session) {
	m.refs = append(m.refs, store.RefOf(s))
}

func (m *machine) newID() string {
	m.ids++
	return fmt.Sprint("s", m.ids)
}

func (m *machine) create() {
	identity := session.Identity{
		ID: m.newID(), AgentID: "agent", Tenant: property.SampledFrom(m.tenants).Draw(m.T, "tenant"),
		UserID: property.SampledFrom([]string{"", "ann", "Ann", "ann%"}).Draw(m.T, "user"),
	}
	s, err := session.New(identity, session.Definition{Name: "tester"}, session.Seed{Messages: []session.Message{m.message()}}, noon())
	m.must(err)
	s, err = m.store.Create(m.test.Context(), s, store.Commit{ID: "create", At: noon()})
	m.must(err)
	m.add(s)
}

func (m *machine) say() { m.commit(m.said(m.said(m.load(m.pick())))) }

func (m *machine) append() {
	s := m.load(m.pick())
	s = m.said(s)
	if property.IntRange(0, 4).Draw(m.T, "clears") == 0 {
		var err error
		s, err = s.Cleared(noon())
		m.must(err)
	}
	_, err := m.store.Append(m.test.Context(), m.said(s), store.Append{})
	m.must(err)
}

// discard refuses the last changes of an open tail, back to some change after
// those refused before.
func (m *machine) discard() {
	r := m.pick()
	base, err := m.store.Load(m.test.Context(), r, false)
	m.must(err)
	tail := m.tail(r, base.Seq())
	first := 0
	for i, record := range tail {
		if _, ok := record.Change.(session.TailDiscarded); ok {
			first = i + 1
		}
	}
	if first == len(tail) {
		return // there is nothing to discard
	}
	keep := property.IntRange(first, len(tail)-1).Draw(m.T, "keep")
	before, err := session.ApplyTail(base, tail[:keep])
	m.must(err)
	refused, err := session.DiscardTail(before, before.Seq()+1, tail[len(tail)-1].Seq, noon())
	m.must(err)
	_, err = m.store.Append(m.test.Context(), refused, store.Append{})
	m.must(err)
}

func (m *machine) tail(r store.Ref, after int64) []session.Record {
	entries, err := m.store.Log(m.test.Context(), r, after, 0)
	m.must(err)
	var records []session.Record
	for _, e := range entries {
		records = append(records, e.Record)
	}
	return records
}

func (m *machine) clear() {
	s, err := m.load(m.pick()).Cleared(noon())
	m.must(err)
	m.commit(s)
}

func (m *machine) rewind() {
	r := m.pick()
	s := m.load(r)
	target, err := m.store.LoadWhole(m.test.Context(), r, property.Int64Range(1, s.Version()).Draw(m.T, "version"))
	m.must(err)
	s, err = s.Rewound(target, noon())
	m.must(err)
	m.commit(s)
}

func (m *machine) fork() {
	r := m.pick()
	s, err := m.store.LoadWhole(m.test.Context(), r, 0)
	m.must(err)
	id := m.newID()
	s, err = s.Fork(id, "agent-"+id, noon())
	m.must(err)
	s, err = m.store.Fork(m.test.Context(), s, store.Commit{ID: "fork", At: noon()})
	m.must(err)
	m.add(s)
}

func (m *machine) hide() {
	s := m.load(m.pick())
	next := session.Deleted
	if s.Status() == session.Deleted {
		next = session.Active
	}
	s, err := s.WithStatus(next, "", noon())
	m.must(err)
	m.commit(s)
}

func (m *machine) purge() {
	r := m.pick()
	m.must(m.store.Delete(m.test.Context(), r, 0))
	m.refs = slices.DeleteFunc(m.refs, func(o store.Ref) bool { return o == r })
}

func (m *machine) owner() store.Owner {
	return store.Owner{
		Tenant: property.SampledFrom(m.tenants).Draw(m.T, "tenant"), Scope: property.SampledFrom([]store.Scope{store.ScopeUser, store.ScopeAgent}).Draw(m.T, "scope"),
		Name: property.SampledFrom([]string{"ann", "Ann", "ann%"}).Draw(m.T, "owner"),
	}
}

var entryKeys = []string{"tea", "a/oslo", "a/b", "%"}

func (m *machine) remember() {
	value, err := json.Marshal(m.text())
	m.must(err)
	_, err = m.store.Remember(m.test.Context(), m.owner(), store.Memo{Key: property.SampledFrom(entryKeys).Draw(m.T, "key"), Value: value, At: m.at()})
	m.must(err)
}

func (m *machine) forget() {
	_, err := m.store.Forget(m.test.Context(), m.owner(), property.SampledFrom(entryKeys).Draw(m.T, "key"), nil)
	m.must(err)
}

// search asks for something and reads everything to see what must be found.
func (m *machine) search() {
	q := store.Search{
		Words: store.Words(strings.Join(property.SliceOfN(property.SampledFrom(vocabulary), 1, 4).Draw(m.T, "words"), " ")),
		Least: property.IntRange(0, 4).Draw(m.T, "least"), Everywhere: property.Bool().Draw(m.T, "everywhere"), Limit: property.SampledFrom([]int{0, 1, 3}).Draw(m.T, "limit"),
		Session: property.SampledFrom([]string{"", "s1", "s2", "s3"}).Draw(m.T, "session"),
		User:    property.SampledFrom([]string{"", "ann", "Ann", "ann%"}).Draw(m.T, "user"),
		Agent:   property.SampledFrom([]string{"", "ann"}).Draw(m.T, "agent"),
		Cleared: property.Bool().Draw(m.T, "cleared"), Trace: property.Bool().Draw(m.T, "trace"),
	}
	if q.Everywhere {
		q.Limit = 0 // which messages are the newest is known of saved ones only
	}
	q, err := q.Check()
	if errors.Is(err, session.ErrInvalid) {
		return // nowhere to look
	}
	m.must(err)
	tenant := property.SampledFrom(m.tenants).Draw(m.T, "tenant")
	got, err := m.store.Search(m.test.Context(), tenant, q)
	m.must(err)
	if want := m.expected(tenant, q); !slices.EqualFunc(got, want, samePassage) {
		m.Fatalf("%+v in %s found\n%+v, want\n%+v", q, tenant, got, want)
	}
}

func samePassage(a, b store.Passage) bool {
	sameTime := a.At.Equal(b.At)
	a.At, b.At = time.Time{}, time.Time{}
	return sameTime && a == b
}

func (m *machine) expected(tenant string, q store.Search) []store.Passage {
	var found []store.Passage
	refs := slices.DeleteFunc(slices.Clone(m.refs), func(r store.Ref) bool { return r.Tenant != tenant })
	sort.Slice(refs, func(i, j int) bool {
		if (refs[i].ID == q.Session) != (refs[j].ID == q.Session) {
			return refs[i].ID == q.Session
		}
		return refs[i].ID < refs[j].ID
	})
	shared := map[string]bool{}
	for _, r := range refs {
		info, err := m.store.Info(m.test.Context(), r)
		if errors.Is(err, session.ErrNotFound) {
			continue
		}
		m.must(err)
		if info.Status == session.Deleted || !q.Everywhere && r.ID != q.Session && (q.User == "" || info.UserID != q.User) {
			continue
		}
		for _, message := range m.transcript(r, q.Cleared) {
			text := store.MessageText(message)
			n := q.Found(text)
			if n < q.Least || message.Trace && !q.Trace || shared[message.ID] {
				continue
			}
			shared[message.ID] = true
			found = append(found, store.Passage{SessionID: r.ID, Seq: message.Seq, MessageID: message.ID, Text: text, Found: n, At: message.CreatedAt})
		}
	}
	for _, o := range q.Owners(tenant) {
		entries, err := m.store.Entries(m.test.Context(), o, "", "", 0)
		m.must(err)
		for _, e := range entries {
			if n := q.Found(store.EntryWords(e.Key, e.Value)); n >= q.Least {
				found = append(found, store.Passage{Owner: o, Key: e.Key, Version: e.Version, Text: store.EntryText(e.Value), Found: n, At: e.UpdatedAt})
			}
		}
	}
	return q.Rank(found)
}

// transcript reads a session's messages, with cleared all that were not
// refused.
func (m *machine) transcript(r store.Ref, cleared bool) []session.Message {
	if cleared {
		entries, err := m.store.Log(m.test.Context(), r, 0, 0)
		m.must(err)
		var messages []session.Message
		for _, e := range entries {
			if added, ok := e.Change.(session.MessageAdded); ok && !e.Discarded {
				messages = append(messages, added.Message)
			}
		}
		return messages
	}
	s, err := m.store.LoadWhole(m.test.Context(), r, 0)
	m.must(err)
	s, err = session.ApplyTail(s, m.tail(r, s.Seq()))
	m.must(err)
	return s.Messages()
}

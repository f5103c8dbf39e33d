package transfer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

const tenant = "acme"

func ref(id string) store.Ref { return store.Ref{Tenant: tenant, ID: id} }

// full is a store that keeps everything.
type full interface {
	store.Store
	store.Tails
	store.Logs
	store.Forks
	store.Inboxes
}

// world is a store in which much has happened.
type world struct {
	t    *property.T
	st   full
	ids  []string
	took map[string]bool // has taken from an inbox, itself or a session it was forked from
	tick int
}

// newWorld has some sessions with random histories.
func newWorld(t *property.T) *world {
	w := &world{t: t, st: inmem.New(inmem.Config{}), took: map[string]bool{}}
	w.create()
	w.live()
	return w
}

// live lets some more happen.
func (w *world) live() {
	for range w.t.Repeat(5, 25) {
		w.step()
	}
}

// at is a time later than all before, or now and then one that is not.
func (w *world) at() time.Time {
	w.tick += property.IntRange(-2, 10).Draw(w.t, "tick")
	return time.Date(2026, 3, 4, 5, 6, 7, 891000, time.UTC).Add(time.Duration(w.tick) * time.Millisecond)
}

func (w *world) commit(action string) store.Commit {
	return store.Commit{ID: fmt.Sprintf("c%d-%d", len(w.ids), w.tick), Action: action, Actor: property.SampledFrom([]string{"", "ana"}).Draw(w.t, "actor"), At: w.at()}
}

func must[T any](w *world) func(T, error) T {
	return func(v T, err error) T {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
		return v
	}
}

func (w *world) create() {
	id := fmt.Sprintf("s%02d", len(w.ids))
	kind := property.SampledFrom([]session.Kind{session.KindChat, session.KindTask}).Draw(w.t, "kind")
	s := must[session.Session](w)(session.New(session.Identity{ID: id, AgentID: "agent-" + id, Tenant: tenant, Kind: kind, Name: "n" + id},
		session.Definition{Name: "tester", SystemPrompt: "Be short."}, session.Seed{}, w.at()))
	w.ids = append(w.ids, id)
	must[session.Session](w)(w.st.Create(w.t.Context(), w.grown(s), w.commit("create")))
}

func (w *world) step() {
	id := property.SampledFrom(w.ids).Draw(w.t, "session")
	s, err := w.st.Load(w.t.Context(), ref(id), true)
	if errors.Is(err, session.ErrNotFound) {
		return // purged
	}
	s = must[session.Session](w)(s, err)
	switch property.IntRange(0, 13).Draw(w.t, "step") {
	case 0:
		w.create()
	case 1, 2, 3:
		must[session.Session](w)(w.st.Append(w.t.Context(), w.grown(s), store.Append{}))
	case 4:
		w.discard(s)
	case 5:
		w.rewind(s)
	case 6, 7:
		w.fork(id, s.Version())
	case 8, 9:
		w.item(s)
	case 10:
		if property.Bool().Draw(w.t, "purge") && id != w.ids[0] && !w.took[id] {
			if err := w.st.Delete(w.t.Context(), ref(id), 0); err != nil {
				w.t.Fatal(err)
			}
		}
	default:
		must[session.Session](w)(w.st.Save(w.t.Context(), w.grown(s), w.commit("act")))
	}
}

// grown is a session with some changes, perhaps none.
func (w *world) grown(s session.Session) session.Session {
	for range w.t.Repeat(0, 3) {
		if next, err := s.With(w.at(), w.change(s)); err == nil {
			s = next
		}
	}
	return s
}

func (w *world) change(s session.Session) session.Change {
	switch property.IntRange(0, 9).Draw(w.t, "change") {
	case 0:
		return session.TranscriptCleared{}
	case 1:
		return session.WindowMoved{Strategy: session.PruneSliding, To: property.Int64Range(0, s.Seq()).Draw(w.t, "to"), Keep: []int64{}}
	case 2:
		return session.StatusChanged{Status: property.SampledFrom(session.Statuses()).Draw(w.t, "status")}
	case 3:
		return session.MetadataWritten{Key: "k", Value: json.RawMessage(`{"a":[1,"<&>"]}`)}
	case 4:
		return session.TaskRowChanged{Task: session.TaskRow{Title: "t", Status: fmt.Sprint(s.Seq())}}
	case 5:
		if !s.Running() {
			return session.ExecutionStarted{ExecutionID: fmt.Sprintf("x%d", s.Seq())}
		}
		return session.ExecutionFinished{Status: session.ExecutionStopped, Stop: &session.Signal{Reason: session.StopTime}}
	}
	return session.MessageAdded{Message: session.Message{
		ID: fmt.Sprintf("m%d", s.Seq()+1), Role: session.RoleUser, Content: session.Text(property.StringN(0, 8).Draw(w.t, "text")),
	}}
}

// discard lets an action write and be refused.
func (w *world) discard(loaded session.Session) {
	acting := w.grown(loaded)
	if acting.Seq() == loaded.Seq() {
		return
	}
	must[session.Session](w)(w.st.Append(w.t.Context(), acting, store.Append{}))
	back := must[session.Session](w)(session.DiscardTail(loaded, session.Base(loaded)+1, acting.Seq(), w.at()))
	must[session.Session](w)(w.st.Append(w.t.Context(), back, store.Append{}))
}

func (w *world) rewind(s session.Session) {
	version := property.Int64Range(1, s.Version()).Draw(w.t, "version")
	target := must[session.Session](w)(w.st.LoadAt(w.t.Context(), ref(s.ID()), version))
	back := must[session.Session](w)(s.Rewound(target, w.at()))
	must[session.Session](w)(w.st.Save(w.t.Context(), back, w.commit("rewind")))
}

func (w *world) fork(id string, last int64) {
	source := must[session.Session](w)(w.st.LoadAt(w.t.Context(), ref(id), property.Int64Range(1, last).Draw(w.t, "version")))
	child := fmt.Sprintf("s%02d", len(w.ids))
	s := must[session.Session](w)(source.Fork(child, "agent-"+child, w.at()))
	w.ids = append(w.ids, child)
	w.took[child] = w.took[id]
	must[session.Session](w)(w.st.Fork(w.t.Context(), s, w.commit("fork")))
}

// item posts something, or takes the oldest that is there: for good, or in a
// turn that is refused.
func (w *world) item(s session.Session) {
	items := must[[]store.Item](w)(w.st.Inbox(w.t.Context(), ref(s.ID())))
	if len(items) == 0 || property.Bool().Draw(w.t, "post") {
		item := store.Item{ID: fmt.Sprintf("i%d", w.tick), Kind: store.ItemFollowUp, Payload: session.Values{"text": json.RawMessage(`"hi"`)}, At: w.at()}
		if err := w.st.Post(w.t.Context(), ref(s.ID()), item); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	w.took[s.ID()] = true
	taken := must[session.Session](w)(s.With(w.at(), session.InboxTaken{ItemID: items[0].ID, ItemKind: string(items[0].Kind)}))
	if property.Bool().Draw(w.t, "keep") {
		must[session.Session](w)(w.st.Save(w.t.Context(), taken, w.commit("take")))
		return
	}
	must[session.Session](w)(w.st.Append(w.t.Context(), taken, store.Append{}))
	back := must[session.Session](w)(session.DiscardTail(s, session.Base(s)+1, taken.Seq(), w.at()))
	must[session.Session](w)(w.st.Append(w.t.Context(), back, store.Append{}))
}

// there are the sessions that were not purged.
func (w *world) there() []string {
	var ids []string
	for _, id := range w.ids {
		if _, err := w.st.Info(w.t.Context(), ref(id)); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// same fails the test unless two stores have the same of a session: headers,
// every version, every change, every commit, tail and inbox.
func same(t failer, tb testing.TB, have, want full, id string) {
	t.Helper()
	ctx, r := tb.Context(), ref(id)
	a, b := view{t: t}, view{t: t}
	for _, side := range []struct {
		v  *view
		st full
	}{{&a, have}, {&b, want}} {
		v, st := side.v, side.st
		info, err := st.Info(ctx, r)
		v.add("header", info, err)
		s, err := st.Load(ctx, r, true)
		if err == nil { // a load may bring more messages than the window's
			state := s.State()
			state.Messages, state.Partial = s.WindowMessages(), false
			v.add("state", []any{s.Definition(), state}, nil)
		}
		v.add("tail", []any{s.HasTail(), session.Base(s), s.Seq(), s.Running()}, err)
		items, err := st.Inbox(ctx, r)
		v.add("inbox", items, err)
		for version := int64(1); version <= info.Version; version++ {
			at, err := st.LoadWhole(ctx, r, version)
			v.add(fmt.Sprintf("version %d", version), at, err)
		}
		entries, err := st.Log(ctx, r, 0, 1<<20)
		for i := range entries {
			if info.Fork != nil && entries[i].Seq <= info.Fork.Seq {
				entries[i].Version = 0 // of a parent, which may be gone
			}
		}
		v.add("log", entries, err)
		commits, err := st.Commits(ctx, r, 0, 1<<20)
		if info.Fork != nil && len(commits) > 0 {
			commits[0].FirstSeq = 0
		}
		v.add("commits", commits, err)
	}
	for i := range b.parts {
		if i >= len(a.parts) || !bytes.Equal(a.parts[i], b.parts[i]) {
			t.Fatalf("%s: %s differs\nhave %s\nwant %s", id, b.names[i], part(a.parts, i), b.parts[i])
		}
	}
}

func part(parts [][]byte, i int) []byte {
	if i >= len(parts) {
		return nil
	}
	return parts[i]
}

// view is what a store shows of a session.
type view struct {
	t     failer
	names []string
	parts [][]byte
}

func (v *view) add(name string, value any, err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatalf("%s: %v", name, err)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		v.t.Fatalf("%s: %v", name, err)
	}
	v.names, v.parts = append(v.names, name), append(v.parts, raw)
}

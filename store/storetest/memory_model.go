package storetest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// searchAgreesWithModel leads random sessions through random histories and
// compares what is found with what a reader of whole transcripts finds.
func searchAgreesWithModel(t testing.TB, d Data) {
	st := d.Open(t)
	runs := 0
	property.CheckCases(t, d.cases(), func(run *property.T) {
		runs++
		w := newModelTenant(run, st, fmt.Sprint("run-", runs))
		for range run.Repeat(1, 20) {
			w.step()
		}
		w.read()
		for range 4 {
			w.compare(w.drawSearch())
		}
	})
}

// modelTenant is a tenant with a random history and its model.
type modelTenant struct {
	*property.T
	st     store.Store
	tenant string
	said   int
	unique bool // every text is another

	// tails has for each session that is there what it was at its last version
	// and after each append since.
	tails   map[string][]session.Session
	entries map[store.Owner]map[string]string // texts, by key

	transcripts []transcript // by id, once they are read
}

func newModelTenant(t *property.T, st store.Store, tenant string) *modelTenant {
	return &modelTenant{T: t, st: st, tenant: tenant, tails: map[string][]session.Session{}, entries: map[store.Owner]map[string]string{}}
}

// transcript holds the messages of a session, without and with cleared ones.
type transcript struct {
	session.Info
	inForce, all []session.Message
}

func (w *modelTenant) draw(what string, choices ...string) string {
	return property.SampledFrom(choices).Draw(w.T, what)
}

func (w *modelTenant) flip(what string) bool { return property.Bool().Draw(w.T, what) }

func (w *modelTenant) ref(id string) store.Ref { return store.Ref{Tenant: w.tenant, ID: id} }

// text is a few words.
func (w *modelTenant) text() string {
	words := property.SliceOfN(property.SampledFrom([]string{"tea", "Tea", "milk", "hot", "cup"}), 1, 3).Draw(w.T, "text")
	if w.unique {
		w.said++
		words = append(words, fmt.Sprintf("%s-%d", w.tenant, w.said))
	}
	return strings.Join(words, " ")
}

// step makes one random change of what can be found.
func (w *modelTenant) step() {
	id := w.draw("session", "a", "b", "c")
	tail, there := w.tails[id]
	if !there {
		w.begin(id)
		return
	}
	now := tail[len(tail)-1]
	switch w.draw("step", "say", "say", "append", "append", "append", "append", "discard", "discard", "discard",
		"clear", "clear in the tail", "rewind", "mark", "purge", "remember", "forget") {
	case "say":
		w.tails[id] = []session.Session{save(w, w.st, w.say(now))}
	case "append":
		w.tails[id] = append(tail, mustAppend(w, w.st, w.say(now)))
	case "discard":
		if len(tail) > 1 {
			kept := property.IntRange(0, len(tail)-2).Draw(w.T, "kept")
			after := discard(w, w.st, tail[kept], tail[kept].Seq()+1, now.Seq())
			w.tails[id] = append(tail[:kept:kept], after)
		}
	case "clear":
		w.tails[id] = []session.Session{save(w, w.st, withChanges(w, now, session.TranscriptCleared{}))}
	case "clear in the tail":
		w.tails[id] = append(tail, mustAppend(w, w.st, withChanges(w, now, session.TranscriptCleared{})))
	case "rewind":
		back, err := now.Rewound(loadWhole(w, w.st, w.ref(id), w.someVersion(now)), start().Add(time.Hour))
		if err != nil {
			w.Fatalf("rewind: %v", err)
		}
		w.tails[id] = []session.Session{save(w, w.st, back)}
	case "mark":
		status := session.Deleted
		if now.Status() == session.Deleted {
			status = session.Active
		}
		w.tails[id] = []session.Session{save(w, w.st, withChanges(w, now, session.StatusChanged{Status: status}))}
	case "purge":
		if err := w.st.Delete(w.Context(), w.ref(id), 0); err != nil {
			w.Fatalf("purge: %v", err)
		}
		delete(w.tails, id)
	case "remember":
		w.remember()
	case "forget":
		w.forget()
	}
}

// begin creates a session, new or as a fork.
func (w *modelTenant) begin(id string) {
	w.said++
	agentID := fmt.Sprintf("agent-%s-%d", id, w.said)
	if parents := slices.Sorted(maps.Keys(w.tails)); len(parents) > 0 && w.flip("fork") {
		parent := property.SampledFrom(parents).Draw(w.T, "parent")
		from := loadWhole(w, w.st, w.ref(parent), w.someVersion(w.tails[parent][0]))
		f, err := from.Fork(id, agentID, start().Add(time.Hour))
		if err != nil {
			w.Fatalf("fork: %v", err)
		}
		if f, err = ability[store.Forks](w, w.st).Fork(w.Context(), f, commit(f, "fork")); err != nil {
			w.Fatalf("store fork: %v", err)
		}
		w.tails[id] = []session.Session{f}
		return
	}
	s := newSessionFrom(w, session.Identity{ID: id, Tenant: w.tenant, UserID: w.draw("user", "ann", "bob"), AgentID: agentID})
	w.tails[id] = []session.Session{create(w, w.st, w.say(s))}
}

func (w *modelTenant) someVersion(s session.Session) int64 {
	return property.Int64Range(1, s.Version()).Draw(w.T, "version")
}

// say adds a message with an id that is unique in the tenant.
func (w *modelTenant) say(s session.Session) session.Session {
	w.said++
	m := session.Message{ID: fmt.Sprint("said-", w.said), Role: session.RoleUser, Content: session.Text(w.text()), Trace: w.draw("trace", "no", "no", "yes") == "yes"}
	return withChanges(w, s, session.MessageAdded{Message: m})
}

func (w *modelTenant) owner() store.Owner {
	scope := store.Scope(w.draw("scope", string(store.ScopeUser), string(store.ScopeAgent)))
	return store.Owner{Tenant: w.tenant, Scope: scope, Name: w.draw("owner", "ann", "bob")}
}

func (w *modelTenant) remember() {
	o, key, text := w.owner(), w.draw("key", "x", "tea/y"), w.text()
	mustRemember(w, w.st, o, newMemo(key, string(quote(w, text))))
	if w.entries[o] == nil {
		w.entries[o] = map[string]string{}
	}
	w.entries[o][key] = text
}

func (w *modelTenant) forget() {
	o, key := w.owner(), w.draw("key", "x", "tea/y")
	_, want := w.entries[o][key]
	if there := forget(w, w.st, o, key); there != want {
		w.Errorf("forgetting %q says %t", key, there)
	}
	delete(w.entries[o], key)
}

func (w *modelTenant) drawSearch() store.Search {
	q := store.Search{
		Words:   property.DistinctOfN(property.SampledFrom([]string{"tea", "milk", "hot", "cup", "none"}), 1, 3).Draw(w.T, "words"),
		Least:   property.IntRange(0, 3).Draw(w.T, "least"),
		Limit:   property.SampledFrom([]int{0, 1, 2, 5}).Draw(w.T, "limit"),
		Session: w.draw("place", "", "a", "b", "c", "d"), User: w.draw("user", "", "ann", "bob"), Agent: w.draw("agent", "", "ann"),
		Cleared: w.flip("cleared"), Trace: w.flip("trace"),
	}
	if q.Session == "" && q.User == "" && q.Agent == "" {
		q.User = "ann"
	}
	return q
}

// compare fails the run unless the store finds what the model finds.
func (w *modelTenant) compare(q store.Search) {
	have, err := ability[store.Memories](w, w.st).Search(w.Context(), w.tenant, q)
	if err != nil {
		w.Fatalf("search %+v: %v", q, err)
	}
	if want := w.find(q); !slices.EqualFunc(have, want, samePassage) {
		w.Errorf("search %+v:\n got %+v\nwant %+v", q, have, want)
	}
}

func samePassage(a, b store.Passage) bool {
	equal := a.At.Equal(b.At)
	a.At, b.At = time.Time{}, time.Time{}
	return equal && a == b
}

// find is the model of a search.
func (w *modelTenant) find(q store.Search) []store.Passage {
	q, err := q.Check()
	if err != nil {
		w.Fatalf("check: %v", err)
	}
	var found []store.Passage
	for _, p := range w.passages(q) {
		if p.Found = q.Found(p.Key + " " + p.Text); p.Found >= q.Least {
			found = append(found, p)
		}
	}
	return q.Rank(found)
}

// passages lists all passages in the scope of a search.
func (w *modelTenant) passages(q store.Search) []store.Passage {
	var all []store.Passage
	for _, o := range q.Owners(w.tenant) {
		for key, text := range w.entries[o] {
			e := wantEntry(w, w.st, o, key, 0, string(quote(w, text)))
			all = append(all, store.Passage{Owner: o, Key: key, Version: e.Version, Text: text, At: e.UpdatedAt})
		}
	}
	seen := map[string]bool{}
	for _, first := range []bool{true, false} { // the session asked for, then the others
		for _, t := range w.transcripts {
			if (t.ID == q.Session) == first && t.Status != session.Deleted && (first || q.User != "" && t.UserID == q.User) {
				all = append(all, t.passages(q, seen)...)
			}
		}
	}
	return all
}

// passages are those of one transcript, but for messages that were seen in
// another.
func (t transcript) passages(q store.Search, seen map[string]bool) []store.Passage {
	messages := t.inForce
	if q.Cleared {
		messages = t.all
	}
	var all []store.Passage
	for _, m := range messages {
		if m.Trace && !q.Trace || seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		all = append(all, store.Passage{SessionID: t.ID, Seq: m.Seq, MessageID: m.ID, Text: m.Content.Text(), At: m.CreatedAt})
	}
	return all
}

// read reads all transcripts from the store.
func (w *modelTenant) read() {
	for _, id := range slices.Sorted(maps.Keys(w.tails)) {
		entries, err := ability[store.Logs](w, w.st).Log(w.Context(), w.ref(id), 0, math.MaxInt32)
		if err != nil {
			w.Fatalf("log: %v", err)
		}
		s := loadWhole(w, w.st, w.ref(id), 0)
		t := transcript{Info: s.Info()}
		var tail []session.Record
		for _, e := range entries {
			if e.Seq > s.Seq() {
				tail = append(tail, e.Record)
			}
			if added, ok := e.Change.(session.MessageAdded); ok && !e.Discarded {
				t.all = append(t.all, added.Message)
			}
		}
		if s, err = session.ApplyTail(s, tail); err != nil {
			w.Fatalf("lay the tail on %s: %v", id, err)
		}
		t.inForce = s.Messages()
		w.transcripts = append(w.transcripts, t)
	}
}

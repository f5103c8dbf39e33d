package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func nearestFirst(t testing.TB, d Data) {
	st := d.Open(t)
	s := createOwned(t, st, "s", "ann")
	directions := map[string][]float32{
		"east": vectorTo(1, 0), "east again": vectorTo(1, 0), "north-east": vectorTo(1, 1), "north": vectorTo(0, 1), "west": vectorTo(-1, 0), "north-north-east": vectorTo(1, 2),
	}
	for _, text := range []string{"north", "west", "east", "north-east", "east again", "north-north-east"} {
		s = save(t, st, withMessage(t, s, text))
	}
	m := newMemo("entry", `"east"`)
	m.At = start().Add(-time.Hour)
	mustRemember(t, st, user("ann"), m)
	embedAll(t, st, maker, func(text string) []float32 {
		if v, ok := directions[text]; ok {
			return v
		}
		return vectorTo(1, 0)
	})
	q := nearTo(store.Search{User: "ann"}, vectorTo(1, 0))
	order := []string{"s: east again", "s: east", "entry", "s: north-east", "s: north-north-east", "s: west", "s: north"}
	wantNear(t, st, q, order...)
	for limit := 1; limit <= len(order); limit++ {
		q.Limit = limit
		wantNear(t, st, q, order[:limit]...)
	}
	q.Limit, q.Vector = 2, vectorTo(0, 1)
	wantNear(t, st, q, "s: north", "s: north-north-east")

	q.Limit, q.Vector = 0, vectorTo(1, 0)
	first := nearest(t, st, q)[1]
	message := s.Message(2)
	if first.Seq != message.Seq || first.MessageID != message.ID || !first.At.Equal(message.CreatedAt) || first.Score < 0.99 || first.Found != 0 {
		t.Errorf("found %+v of message %+v", first, message)
	}
	many := createOwned(t, st, "many", "bob")
	for range 60 {
		many = withMessage(t, many, "east")
	}
	save(t, st, many)
	embedAll(t, st, maker, func(string) []float32 { return vectorTo(1, 0) })
	for limit, want := range map[int]int{0: 50, 1000: 60, 59: 59} {
		q := nearTo(store.Search{User: "bob", Limit: limit}, vectorTo(1, 0))
		found := nearest(t, st, q)
		if len(found) != want || !slices.IsSortedFunc(found, store.Passage.Compare) {
			t.Errorf("%d are found with a limit of %d, want %d in order", len(found), limit, want)
		}
	}
}

func leastScore(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, withMessage(t, withMessage(t, withMessage(t, newSession(t, "s"), "same"), "half"), "opposite"))
	embedAll(t, st, maker, func(text string) []float32 {
		return map[string][]float32{"same": vectorTo(1, 0, 0), "half": vectorTo(1, 1, 0), "opposite": vectorTo(-1, 0, 0)}[text]
	})
	for least, want := range map[float64][]string{
		0: {"s: same", "s: half", "s: opposite"}, 0.01: {"s: same", "s: half"}, 0.7: {"s: same", "s: half"}, 0.72: {"s: same"}, 0.99: {"s: same"},
	} {
		q := nearTo(store.Search{Session: "s"}, vectorTo(1, 0, 0))
		q.Least = least
		wantNear(t, st, q, want...)
	}
	if found := nearest(t, st, nearTo(store.Search{Session: "s"}, vectorTo(1, 0, 0))); found[2].Score != 0 {
		t.Errorf("what points away has the score %v", found[2].Score)
	}
}

func embeddersNeverMeet(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, withMessage(t, withMessage(t, newSession(t, "s"), "one"), "two"))
	names := []string{maker, "test/makers", "test/mak", "Test/Maker", "test/maker "}
	for i, name := range names {
		mustEmbed(t, st, name, store.Embedding{Token: leaseToken(t, st, name, "one"), Vector: vectorTo(1, float32(i))})
	}
	for i, name := range names {
		wantWaiting(t, st, name, "two")
		q := nearTo(store.Search{Session: "s"}, vectorTo(1, float32(i)))
		q.Embedder = name
		found := nearest(t, st, q)
		if len(found) != 1 || found[0].Text != "one" || found[0].Score < 0.99 {
			t.Errorf("%q finds %+v", name, found)
		}
	}
	q := nearTo(store.Search{Session: "s"}, vectorTo(1, 0))
	q.Embedder = "nobody"
	wantNear(t, st, q)
}

func otherDimensions(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, withMessage(t, withMessage(t, withMessage(t, newSession(t, "s"), "two"), "three"), "none"))
	mustRemember(t, st, user("ann"), newMemo("four", `4`))
	embedAll(t, st, maker, func(text string) []float32 {
		return map[string][]float32{"two": vectorTo(1, 0), "three": vectorTo(1, 0, 0), "none": {}, "four\n4": vectorTo(1, 0, 0, 0)}[text]
	})
	wantWaiting(t, st, maker)
	place := store.Search{Session: "s", User: "ann"}
	wantNear(t, st, nearTo(place, vectorTo(1, 0)), "s: two")
	wantNear(t, st, nearTo(place, vectorTo(1, 0, 0)), "s: three")
	wantNear(t, st, nearTo(place, vectorTo(1, 0, 0, 0)), "four")
	wantNear(t, st, nearTo(place, vectorTo(1)))
}

// scoresAreClose uses vectors as real embedders make them.
func scoresAreClose(t testing.TB, d Data) {
	st := d.Open(t)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers each time
	direction := func() []float32 {
		to := make([]float32, 384)
		for i := range to {
			to[i] = float32(random.NormFloat64())
		}
		return vectorTo(to...)
	}
	s, made := newSession(t, "s"), map[string][]float32{}
	for i := range 20 {
		s = withMessage(t, s, fmt.Sprint("text ", i))
		made[fmt.Sprint("text ", i)] = direction()
	}
	create(t, st, s)
	embedAll(t, st, maker, func(text string) []float32 { return made[text] })
	for text, v := range made {
		found := nearest(t, st, nearTo(store.Search{Session: "s"}, v))
		if len(found) != 20 || found[0].Text != text {
			t.Fatalf("%d are found, the first is %+v, want %s", len(found), found[0], text)
		}
		for _, p := range found {
			exact := store.Cosine(made[p.Text], v)
			if diff := p.Score - exact; diff > 0.005 || diff < -0.005 {
				t.Errorf("%s has the score %v, its cosine is %v", p.Text, p.Score, exact)
			}
			if same, _, _ := store.Pack(made[p.Text]).Score(v); p.Score != same {
				t.Errorf("%s has the score %v, in other stores %v", p.Text, p.Score, same)
			}
		}
	}
}

func nearLooksWhereSearchWould(t testing.TB, d Data) {
	st := d.Open(t)
	a := save(t, st, withMessage(t, createOwned(t, st, "a", "ann"), "tea, shared"))
	b := save(t, st, withMessage(t, createFork(t, st, a, "b"), "tea, b's"))
	a = save(t, st, withMessage(t, withChanges(t, a, session.TranscriptCleared{}), "tea, a's"))
	said := session.Message{ID: "trace", Role: session.RoleAssistant, Content: session.Text("tea, looked for"), Trace: true}
	mustAppend(t, st, withChanges(t, a, session.MessageAdded{Message: said}))
	save(t, st, withMessage(t, createOwned(t, st, "c", "bob"), "tea, bob's"))
	deleted := save(t, st, withMessage(t, createOwned(t, st, "d", "ann"), "tea, deleted"))
	save(t, st, withChanges(t, deleted, session.StatusChanged{Status: session.Deleted}))
	back, err := b.Rewound(loadWhole(t, st, ref("b"), 1), start().Add(time.Hour))
	if err != nil {
		t.Fatalf("rewind: %v", err)
	}
	save(t, st, back)
	mustRemember(t, st, user("ann"), newMemo("mine", `"tea"`))
	mustRemember(t, st, agent("ann"), newMemo("theirs", `"tea"`))
	embedAll(t, st, maker, func(string) []float32 { return vectorTo(1, 0) })
	for _, user := range []string{"", "ann", "bob"} {
		for _, id := range []string{"", "a", "b", "c", "d", "nobody"} {
			for flags := range 8 {
				q := store.Search{Words: store.Words("tea"), User: user, Session: id, Cleared: flags&1 > 0, Trace: flags&2 > 0}
				if flags&4 > 0 {
					q.Agent = "ann"
				}
				if user == "" && id == "" && q.Agent == "" {
					continue
				}
				var want []string
				for _, p := range search(t, st, q) {
					want = append(want, passageLabel(p))
				}
				wantNear(t, st, nearTo(q, vectorTo(1, 0)), want...)
			}
		}
	}
}

func nearTenants(t testing.TB, d Data) {
	st := d.Open(t)
	vectors := ability[store.Vectors](t, st)
	for i, r := range lookAlikes() {
		s := newSessionFrom(t, session.Identity{ID: r.ID, Tenant: r.Tenant, UserID: "ann", AgentID: fmt.Sprint("agent-", i)})
		create(t, st, withMessage(t, s, "tea of "+r.Tenant))
		mustRemember(t, st, store.Owner{Tenant: r.Tenant, Scope: store.ScopeUser, Name: "ann"}, newMemo("key-"+r.ID, string(quote(t, "tea of "+r.Tenant))))
	}
	embedAll(t, st, maker, func(string) []float32 { return vectorTo(1, 0) })
	for _, r := range lookAlikes() {
		for _, o := range lookAlikes() {
			found, err := vectors.Nearest(t.Context(), r.Tenant, nearTo(store.Search{User: "ann", Session: o.ID, Cleared: true}, vectorTo(1, 0)))
			if err != nil || len(found) == 0 {
				t.Errorf("%v finds %d, %v", r, len(found), err)
			}
			for _, p := range found {
				if p.Text != "tea of "+r.Tenant {
					t.Errorf("%v finds %q", r, p.Text)
				}
			}
		}
	}
	found, err := vectors.Nearest(t.Context(), "nobody", nearTo(store.Search{User: "ann", Session: "c", Agent: "ann"}, vectorTo(1, 0)))
	if err != nil || len(found) != 0 {
		t.Errorf("a tenant without anything finds %v, %v", found, err)
	}
}

func vectorsSurvive(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, withMessage(t, withMessage(t, newSession(t, "s"), "tea"), "milk"))
	mustRemember(t, st, user("ann"), newMemo("k", `"tea"`))
	mustEmbed(t, st, maker, store.Embedding{Token: leaseToken(t, st, maker, "tea"), Vector: meaning("tea")},
		store.Embedding{Token: leaseToken(t, st, maker, "k\ntea"), Vector: meaning("tea")})
	token := leaseToken(t, st, maker, "milk")
	again := d.Open(t)
	if err := st.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	wantWaiting(t, again, maker, "milk")
	q := nearTo(store.Search{Session: "s", User: "ann"}, meaning("milk"))
	wantNear(t, again, q, "s: tea", "k")
	mustEmbed(t, again, maker, store.Embedding{Token: token, Vector: meaning("milk")}) // a token that was given before
	wantWaiting(t, again, maker)
	wantNear(t, again, q, "s: milk", "s: tea", "k")
}

func vectorsAreCopied(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, withMessage(t, newSession(t, "s"), "tea"))
	v := vectorTo(1, 0)
	made := []store.Embedding{{Token: leaseToken(t, st, maker, "tea"), Vector: v}}
	mustEmbed(t, st, maker, made...)
	v[0], v[1], made[0].Token = 0, 1, ""
	q := nearTo(store.Search{Session: "s"}, vectorTo(1, 0))
	q.Least = 0.9
	wantNear(t, st, q, "s: tea")
}

func nearAroundCorrupt(t testing.TB, d Data) {
	st := d.Open(t)
	save(t, st, withMessage(t, createOwned(t, st, "good", "ann"), "tea"))
	save(t, st, withMessage(t, createOwned(t, st, "bad", "ann"), "tea"))
	embedAll(t, st, maker, meaning)
	save(t, st, withMessage(t, load(t, st, ref("bad")), "more tea"))
	d.Corrupt(t, ref("bad"))
	for _, st := range []store.Store{st, d.Open(t)} {
		found := nearest(t, st, nearTo(store.Search{User: "ann"}, meaning("tea")))
		if !slices.ContainsFunc(found, func(p store.Passage) bool { return p.SessionID == "good" }) {
			t.Errorf("beside a corrupt session only %+v is found", found)
		}
		nearest(t, st, nearTo(store.Search{Session: "bad"}, meaning("tea")))
		embedAll(t, st, maker, meaning)
	}
}

func reindexKeepsVectors(t testing.TB, d Data) {
	st := d.Open(t)
	fillStore(t, st)
	embedAll(t, st, maker, meaning)
	q := nearTo(store.Search{User: "ann", Cleared: true, Limit: 1000}, meaning("tea"))
	want := nearest(t, st, q)
	if len(want) == 0 {
		t.Fatal("there is nothing to find")
	}
	for what, look := range map[string]func(){"check": func() { checkStore(t, st) }, "reindex": func() { reindex(t, st) }, "repair": func() { repairStore(t, st) }} {
		look()
		if have := nearest(t, st, q); !slices.EqualFunc(have, want, samePassage) {
			t.Errorf("after a %s %d are found, before %d", what, len(have), len(want))
		}
		wantWaiting(t, st, maker)
	}
	if problems := checkStore(t, st); len(problems) != 0 {
		t.Errorf("the check found %q", problems)
	}
}

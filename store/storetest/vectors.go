package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func vectorBehaviours() []behaviour {
	needs := []string{Vectors, Memories}
	tails, forks := []string{Vectors, Memories, Tails}, []string{Vectors, Memories, Tails, Forks, Logs}
	return []behaviour{
		{name: "vectors/listsWhatHasNone", needs: tails, check: listsWhatHasNone},
		{name: "vectors/listsNothingThatIsGone", needs: tails, check: listsNothingGone},
		{name: "vectors/listsTheSharedOnce", needs: forks, check: listsSharedOnce},
		{name: "vectors/listsThoseOfASession", needs: forks, check: listsOfSession},
		{name: "vectors/listsNoMoreThanAskedFor", needs: needs, check: listsInPages},
		{name: "vectors/listsWhatLiesBehindMuchWithoutText", needs: needs, check: listsBehindTextless},
		{name: "vectors/nilIsNeverListedAndNeverFound", needs: needs, check: nilVector},
		{name: "vectors/embeddedTwiceIsEmbeddedOnce", needs: needs, check: embeddedTwice},
		{name: "vectors/ofWhatIsGoneAreDropped", needs: tails, check: vectorsOfTheGone},
		{name: "vectors/ofAnEarlierVersionAreDropped", needs: needs, check: vectorsOfOldVersions},
		{name: "vectors/goWithTheirPassage", needs: tails, check: vectorsGo},
		{name: "vectors/findsTheNearestFirst", needs: needs, check: nearestFirst},
		{name: "vectors/asksForTheLeast", needs: needs, check: leastScore},
		{name: "vectors/embeddersNeverMeet", needs: needs, check: embeddersNeverMeet},
		{name: "vectors/otherDimensionsAreNeverNear", needs: needs, check: otherDimensions},
		{name: "vectors/scoresHardlyDifferFromTheCosine", needs: needs, check: scoresAreClose},
		{name: "vectors/looksWhereASearchWould", needs: forks, check: nearLooksWhereSearchWould},
		{name: "vectors/lookAlikeTenantsNeverMeet", needs: needs, check: nearTenants},
		{name: "vectors/survivesReopening", needs: needs, check: vectorsSurvive},
		{name: "vectors/givenValuesAreCopied", needs: needs, check: vectorsAreCopied},
		{name: "vectors/badRequestsAreRefused", needs: needs, check: badVectors},
		{name: "vectors/refusesWhenClosedOrEnded", needs: needs, check: vectorsRefuse},
		{name: "vectors/corruptSessionBreaksItselfAlone", needs: []string{Vectors, Memories, corruptHook}, check: nearAroundCorrupt},
		{name: "vectors/ofManyEmbeddersNoneIsHarmed", needs: tails, check: manyEmbedders},
		{name: "vectors/staysWhenTheIndexIsBuiltAnew", needs: []string{Vectors, Memories, Doctors}, check: reindexKeepsVectors},
		{name: "vectors/agreesWithAModel", needs: forks, check: vectorsAgreeWithModel},
	}
}

// maker is the embedder of most of the suite.
const maker = "test/maker"

// vectorTo makes a vector of length 1 in a direction.
func vectorTo(to ...float32) []float32 {
	sum := 0.0
	for _, x := range to {
		sum += float64(x) * float64(x)
	}
	unit := make([]float32, len(to))
	for i, x := range to {
		unit[i] = float32(float64(x) / math.Sqrt(sum))
	}
	return unit
}

// meaning is the vector of a text: what it has of some words.
func meaning(text string) []float32 {
	to := []float32{0.1, 0, 0, 0}
	for i, word := range []string{"tea", "milk", "hot", "cup"} {
		to[i] += float32(strings.Count(strings.ToLower(text), word))
	}
	return vectorTo(to...)
}

func listUnembedded(t testing.TB, st store.Store, embedder string, limit int) []store.Unembedded {
	t.Helper()
	list, err := ability[store.Vectors](t, st).Unembedded(t.Context(), embedder, limit)
	if err != nil {
		t.Fatalf("unembedded of %s: %v", embedder, err)
	}
	return list
}

func mustEmbed(t testing.TB, st store.Store, embedder string, vectors ...store.Embedding) {
	t.Helper()
	if err := ability[store.Vectors](t, st).Embedded(t.Context(), embedder, vectors); err != nil {
		t.Fatalf("embedded by %s: %v", embedder, err)
	}
}

// embedAll embeds until nothing waits, by what a function makes of a text.
func embedAll(t testing.TB, st store.Store, embedder string, of func(text string) []float32) {
	t.Helper()
	for range 10_000 {
		list := listUnembedded(t, st, embedder, 0)
		if len(list) == 0 {
			return
		}
		var made []store.Embedding
		for _, u := range list {
			made = append(made, store.Embedding{Token: u.Token, Vector: of(u.Text)})
		}
		mustEmbed(t, st, embedder, made...)
	}
	t.Fatalf("what waits for %s never ends", embedder)
}

// leaseToken is the token of a text that waits.
func leaseToken(t testing.TB, st store.Store, embedder, text string) string {
	t.Helper()
	for _, u := range listUnembedded(t, st, embedder, 0) {
		if u.Text == text {
			return u.Token
		}
	}
	t.Fatalf("%q does not wait for %s", text, embedder)
	return ""
}

// wantWaiting fails the test unless these texts wait, in whatever order.
func wantWaiting(t testing.TB, st store.Store, embedder string, want ...string) {
	t.Helper()
	have := []string{}
	for _, u := range listUnembedded(t, st, embedder, 0) {
		have = append(have, u.Text)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("waiting for %s is %q, want %q", embedder, have, want)
	}
}

// nearTo is a question for what lies near a vector.
func nearTo(place store.Search, vector []float32) store.Near {
	return store.Near{Search: place, Embedder: maker, Vector: vector}
}

func nearest(t testing.TB, st store.Store, q store.Near) []store.Passage {
	t.Helper()
	found, err := ability[store.Vectors](t, st).Nearest(t.Context(), session.DefaultTenant, q)
	if err != nil {
		t.Fatalf("nearest %+v: %v", q, err)
	}
	return found
}

// wantNear fails the test unless these are found, in this order.
func wantNear(t testing.TB, st store.Store, q store.Near, want ...string) {
	t.Helper()
	var have []string
	for _, p := range nearest(t, st, q) {
		have = append(have, passageLabel(p))
	}
	if !slices.Equal(have, want) {
		t.Errorf("nearest %+v found %q, want %q", q, have, want)
	}
}

func badVectors(t testing.TB, d Data) {
	st := d.Open(t)
	vectors := ability[store.Vectors](t, st)
	create(t, st, withMessage(t, newSession(t, "s"), "tea"))
	token := leaseToken(t, st, maker, "tea")
	for _, embedder := range []string{"", "a\nb", strings.Repeat("n", 257), "\xff"} {
		_, err := vectors.Unembedded(t.Context(), embedder, 0)
		wantErr(t, fmt.Sprintf("unembedded of %.10q", embedder), err, session.ErrInvalid)
		wantErr(t, fmt.Sprintf("embedded by %.10q", embedder), vectors.Embedded(t.Context(), embedder, nil), session.ErrInvalid)
	}
	_, err := vectors.Unembedded(t.Context(), maker, -1)
	wantErr(t, "unembedded with limit -1", err, session.ErrInvalid)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for what, bad := range map[string]store.Embedding{
		"no token": {Vector: vectorTo(1)}, "a token of nobody": {Token: "not a token", Vector: vectorTo(1)},
		"not a number": {Token: token, Vector: []float32{1, nan}}, "no end": {Token: token, Vector: []float32{inf}},
		"too many dimensions": {Token: token, Vector: make([]float32, 8193)},
	} {
		err := vectors.Embedded(t.Context(), maker, []store.Embedding{{Token: token, Vector: vectorTo(1)}, bad})
		wantErr(t, "embedded with "+what, err, session.ErrInvalid)
	}
	wantWaiting(t, st, maker, "tea") // what came with the bad was not kept

	good := nearTo(store.Search{Session: "s"}, vectorTo(1))
	for what, spoil := range map[string]func(*store.Near){
		"no embedder": func(q *store.Near) { q.Embedder = "" }, "no vector": func(q *store.Near) { q.Vector = nil },
		"not a number": func(q *store.Near) { q.Vector = []float32{nan} }, "no place": func(q *store.Near) { q.Session = "" },
		"least -1": func(q *store.Near) { q.Least = -1 }, "least 2": func(q *store.Near) { q.Least = 2 }, "least nan": func(q *store.Near) { q.Least = math.NaN() },
		"limit -1": func(q *store.Near) { q.Limit = -1 }, "limit 1001": func(q *store.Near) { q.Limit = 1001 },
		"a bad session": func(q *store.Near) { q.Session = "no/session" }, "a bad user": func(q *store.Near) { q.User = "a\nb" },
	} {
		q := good
		spoil(&q)
		_, err := vectors.Nearest(t.Context(), session.DefaultTenant, q)
		wantErr(t, "nearest with "+what, err, session.ErrInvalid)
	}
	_, err = vectors.Nearest(t.Context(), "no/tenant", good)
	wantErr(t, "nearest in a bad tenant", err, session.ErrInvalid)
	wantNear(t, st, nearTo(store.Search{Session: "nobody", User: "nobody", Agent: "nobody"}, vectorTo(1)))
}

func vectorsRefuse(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, withMessage(t, newSession(t, "s"), "tea"))
	token := leaseToken(t, st, maker, "tea")
	every := func(ctx context.Context) map[string]error {
		vectors, errs := ability[store.Vectors](t, st), map[string]error{}
		_, errs["Unembedded"] = vectors.Unembedded(ctx, maker, 0)
		errs["Embedded"] = vectors.Embedded(ctx, maker, []store.Embedding{{Token: token, Vector: vectorTo(1)}})
		_, errs["Nearest"] = vectors.Nearest(ctx, session.DefaultTenant, nearTo(store.Search{Session: "s"}, vectorTo(1)))
		return errs
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for call, err := range every(ctx) {
		wantErr(t, call+" with an ended context", err, context.Canceled)
	}
	wantWaiting(t, st, maker, "tea")
	if err := st.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	for call, err := range every(t.Context()) {
		wantErr(t, call+" after Close", err, session.ErrClosed)
	}
}

// manyEmbedders has several of them take from one list while others write.
func manyEmbedders(t testing.TB, d Data) {
	st := d.Open(t)
	for i := range clients {
		createOwned(t, st, fmt.Sprint("s", i), "ann")
	}
	errs := runTogether(t, d, 2*clients, func(i int, st store.Store) error {
		if i >= clients {
			return writesMuch(t, st, fmt.Sprint("s", i-clients))
		}
		for range 20 {
			list, err := ability[store.Vectors](t, st).Unembedded(t.Context(), maker, 5)
			if err != nil {
				return err
			}
			var made []store.Embedding
			for _, u := range list {
				made = append(made, store.Embedding{Token: u.Token, Vector: meaning(u.Text)})
			}
			if err := ability[store.Vectors](t, st).Embedded(t.Context(), maker, made); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	embedAll(t, st, maker, meaning)
	q := nearTo(store.Search{User: "ann", Limit: 1000}, vectorTo(1, 0, 0, 0))
	seen := map[string]bool{}
	for _, p := range nearest(t, st, q) {
		if seen[p.Text] || p.Score < 0.9 {
			t.Errorf("%q is found with score %v, before: %t", p.Text, p.Score, seen[p.Text])
		}
		seen[p.Text] = true
	}
	if len(seen) != 10*clients {
		t.Errorf("%d are found, want %d", len(seen), 10*clients)
	}
}

func writesMuch(t testing.TB, st store.Store, id string) error {
	s, err := loadWithTail(t.Context(), st, ref(id))
	for n := 0; err == nil && n < 10; n++ {
		next := withMessage(t, s, fmt.Sprintf("tea %d of %s", n, id))
		if n%2 == 0 {
			s, err = ability[store.Tails](t, st).Append(t.Context(), next, store.Append{})
		} else {
			s, err = st.Save(t.Context(), next, commit(next, "test"))
		}
	}
	return err
}

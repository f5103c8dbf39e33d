package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func inboxBehaviours() []behaviour {
	both := []string{Inboxes, Tails}
	return []behaviour{
		{name: "inbox/keepsItemsInOrder", needs: []string{Inboxes}, check: keepsItemsInOrder},
		{name: "inbox/sameIDIsOneItemForEver", needs: both, check: sameIDIsOneItem},
		{name: "inbox/postingNeedsNoLease", needs: []string{Inboxes, Leases}, check: postingNeedsNoLease},
		{name: "inbox/itemsAreTakenOnce", needs: both, check: itemsAreTakenOnce},
		{name: "inbox/saveTakesToo", needs: []string{Inboxes}, check: saveTakesToo},
		{name: "inbox/refusedTakingChangesNothing", needs: both, check: refusedTaking},
		{name: "inbox/ofManyTakersOneWins", needs: both, check: ofManyTakersOneWins},
		{name: "inbox/discardGivesBack", needs: both, check: discardGivesBack},
		{name: "inbox/fencedTakerTakesNothing", needs: []string{Inboxes, Tails, Leases}, check: fencedTaker},
		{name: "inbox/badItemsAreRefused", needs: []string{Inboxes}, check: badItems},
		{name: "inbox/concurrentPostsAllArrive", needs: []string{Inboxes}, check: concurrentPosts},
		{name: "inbox/unreadOnesAreListed", needs: []string{Inboxes, Leases, Tails}, check: unreadOnesAreListed},
		{name: "inbox/goesWithItsSession", needs: []string{Inboxes}, check: inboxGoesWithItsSession},
	}
}

func item(id string) store.Item {
	return store.Item{
		ID: id, Kind: store.ItemFollowUp, At: start(),
		Payload: session.Values{"text": []byte(`"about ` + id + `"`)},
	}
}

func post(t testing.TB, st store.Store, r store.Ref, it store.Item) {
	t.Helper()
	if err := ability[store.Inboxes](t, st).Post(t.Context(), r, it); err != nil {
		t.Fatalf("post %s: %v", it.ID, err)
	}
}

func listInbox(t testing.TB, st store.Store, r store.Ref) []store.Item {
	t.Helper()
	items, err := ability[store.Inboxes](t, st).Inbox(t.Context(), r)
	if err != nil {
		t.Fatalf("inbox of %s: %v", r.ID, err)
	}
	return items
}

// wantUnread fails the test unless the inbox has exactly these ids, in order.
func wantUnread(t testing.TB, st store.Store, r store.Ref, ids ...string) {
	t.Helper()
	var have []string
	for _, it := range listInbox(t, st, r) {
		have = append(have, it.ID)
	}
	if !slices.Equal(have, ids) {
		t.Errorf("unread: %v, want %v", have, ids)
	}
}

func withItemTaken(t testing.TB, s session.Session, id string) session.Session {
	t.Helper()
	return withChanges(t, s, session.InboxTaken{ItemID: id, ItemKind: string(store.ItemFollowUp)})
}

func keepsItemsInOrder(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	create(t, open[0], newSession(t, "queue"))
	var want []store.Item
	for i, kind := range store.ItemKinds() {
		// Neither ids nor times are in the order of arrival.
		it := item(fmt.Sprintf("item-%d", 99-i))
		it.Kind, it.At = kind, start().Add(-time.Duration(i)*time.Hour)
		it.Payload["hostile"] = quote(t, "'; drop table inbox; --\x00\u2028\"")
		post(t, open[i%2], ref("queue"), it)
		want = append(want, it)
	}
	if g, w := string(encode(t, listInbox(t, open[1], ref("queue")))), string(encode(t, want)); g != w {
		t.Errorf("inbox:\n got %s\nwant %s", g, w)
	}
}

func sameIDIsOneItem(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "once"))
	other := item("a")
	other.Payload = session.Values{"text": []byte(`"different"`)}
	post(t, st, ref("once"), item("a"))
	post(t, st, ref("once"), other)
	if items := listInbox(t, st, ref("once")); len(items) != 1 || items[0].Payload.String("text") != "about a" {
		t.Errorf("after posting an id twice: %+v, want the first", items)
	}
	s = mustAppend(t, st, withItemTaken(t, s, "a"))
	post(t, st, ref("once"), item("a"))
	wantUnread(t, st, ref("once"))
	save(t, st, s)
	post(t, st, ref("once"), item("a"))
	wantUnread(t, st, ref("once"))
}

func postingNeedsNoLease(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "held"))
	acquire(t, st, ref("held"), "worker")
	post(t, st, ref("held"), item("a"))
	wantUnread(t, st, ref("held"), "a")
}

func itemsAreTakenOnce(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	s := create(t, open[0], newSession(t, "taken"))
	for _, id := range []string{"a", "b", "c"} {
		post(t, open[0], ref("taken"), item(id))
	}
	s = mustAppend(t, open[0], withItemTaken(t, s, "b"))
	wantUnread(t, open[1], ref("taken"), "a", "c")
	_, err := ability[store.Tails](t, open[1]).Append(t.Context(), withItemTaken(t, s, "b"), store.Append{})
	wantErr(t, "taking an item in the tail again", err, session.ErrInvalid)
	_, err = open[1].Save(t.Context(), withItemTaken(t, s, "b"), commit(s, "test"))
	wantErr(t, "saving a second taking", err, session.ErrInvalid)
	s = save(t, open[0], s)
	_, err = ability[store.Tails](t, open[1]).Append(t.Context(), withItemTaken(t, s, "b"), store.Append{})
	wantErr(t, "taking a sealed item again", err, session.ErrInvalid)
	wantUnread(t, d.Open(t), ref("taken"), "a", "c")
}

func saveTakesToo(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "saved"))
	post(t, st, ref("saved"), item("a"))
	post(t, st, ref("saved"), item("b"))
	s = save(t, st, withItemTaken(t, s, "a"))
	wantUnread(t, st, ref("saved"), "b")
	_, err := st.Save(t.Context(), withItemTaken(t, s, "a"), commit(s, "test"))
	wantErr(t, "taking a sealed item again", err, session.ErrInvalid)
	wantSame(t, load(t, st, ref("saved")), s)
}

func refusedTaking(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "all-or-none"))
	post(t, st, ref("all-or-none"), item("a"))
	for what, next := range map[string]session.Session{
		"an item that never came": withItemTaken(t, withItemTaken(t, s, "a"), "never"),
		"one item twice":          withItemTaken(t, withItemTaken(t, s, "a"), "a"),
	} {
		_, err := ability[store.Tails](t, st).Append(t.Context(), next, store.Append{})
		wantErr(t, "taking "+what, err, session.ErrInvalid)
	}
	wantUnread(t, st, ref("all-or-none"), "a")
	wantSame(t, loadTail(t, st, ref("all-or-none")), s)
}

// ofManyTakersOneWins races for one item after another; every round has one
// winner and every item ends in exactly one change.
func ofManyTakersOneWins(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "fought-over"))
	for round := range 4 {
		id := fmt.Sprintf("item-%d", round)
		post(t, st, ref("fought-over"), item(id))
		errs := runTogether(t, d, writers, func(_ int, st store.Store) error {
			for {
				s, err := st.Load(t.Context(), ref("fought-over"), true)
				if err != nil {
					return err
				}
				if _, err = ability[store.Tails](t, st).Append(t.Context(), withItemTaken(t, s, id), store.Append{}); !errors.Is(err, session.ErrConflict) {
					return err
				}
			}
		})
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			wantErr(t, "a losing taker", err, session.ErrInvalid)
		}
		if won != 1 {
			t.Fatalf("item %s was taken %d times", id, won)
		}
	}
	if after := loadTail(t, st, ref("fought-over")); after.Seq() != s.Seq()+4 {
		t.Errorf("%d changes in the tail, want one for each item", after.Seq()-s.Seq())
	}
	wantUnread(t, st, ref("fought-over"))
}

func discardGivesBack(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "returned"))
	for _, id := range []string{"a", "b", "c"} {
		post(t, st, ref("returned"), item(id))
	}
	kept := mustAppend(t, st, withItemTaken(t, s, "a"))
	refused := mustAppend(t, st, withItemTaken(t, kept, "b"))
	wantUnread(t, st, ref("returned"), "c")
	discard(t, st, kept, kept.Seq()+1, refused.Seq())
	wantUnread(t, st, ref("returned"), "b", "c")
	again := mustAppend(t, st, withItemTaken(t, loadTail(t, st, ref("returned")), "b"))
	wantUnread(t, st, ref("returned"), "c")
	save(t, st, again)
	wantUnread(t, st, ref("returned"), "c")
}

func fencedTaker(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "fenced"))
	post(t, st, ref("fenced"), item("a"))
	old := acquire(t, st, ref("fenced"), "old")
	if err := ability[store.Leases](t, st).Release(t.Context(), ref("fenced"), old); err != nil {
		t.Fatalf("release: %v", err)
	}
	newer := acquire(t, st, ref("fenced"), "new")
	_, err := ability[store.Tails](t, st).Append(t.Context(), withItemTaken(t, s, "a"), store.Append{Fence: old.Token})
	wantErr(t, "taking under an old lease", err, session.ErrFenced)
	_, err = ability[store.Tails](t, st).Append(t.Context(), withItemTaken(t, s, "a"), store.Append{})
	wantErr(t, "taking without the lease", err, session.ErrBusy)
	wantUnread(t, st, ref("fenced"), "a")
	if _, err := ability[store.Tails](t, st).Append(t.Context(), withItemTaken(t, s, "a"), store.Append{Fence: newer.Token}); err != nil {
		t.Errorf("taking by the holder: %v", err)
	}
}

func badItems(t testing.TB, d Data) {
	st := d.Open(t)
	inboxes := ability[store.Inboxes](t, st)
	wantErr(t, "post without a session", inboxes.Post(t.Context(), ref("nobody"), item("a")), session.ErrNotFound)
	_, err := inboxes.Inbox(t.Context(), ref("nobody"))
	wantErr(t, "inbox without a session", err, session.ErrNotFound)
	create(t, st, newSession(t, "picky"))
	for what, spoil := range map[string]func(*store.Item){
		"no id":         func(it *store.Item) { it.ID = "" },
		"a long id":     func(it *store.Item) { it.ID = strings.Repeat("x", 256) },
		"a control id":  func(it *store.Item) { it.ID = "a\nb" },
		"no kind":       func(it *store.Item) { it.Kind = "" },
		"another kind":  func(it *store.Item) { it.Kind = "gossip" },
		"a broken body": func(it *store.Item) { it.Payload["text"] = []byte(`{`) },
	} {
		it := item("a")
		spoil(&it)
		wantErr(t, "post of an item with "+what, inboxes.Post(t.Context(), ref("picky"), it), session.ErrInvalid)
	}
	wantUnread(t, st, ref("picky"))
}

func concurrentPosts(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "busy"))
	errs := runTogether(t, d, writers, func(i int, st store.Store) error {
		// Two writers post each id.
		return ability[store.Inboxes](t, st).Post(t.Context(), ref("busy"), item(fmt.Sprintf("item-%02d", i/2)))
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("post: %v", err)
	}
	seen := map[string]bool{}
	items := listInbox(t, st, ref("busy"))
	for _, it := range items {
		seen[it.ID] = true
	}
	if len(items) != writers/2 || len(seen) != writers/2 {
		t.Errorf("%d items with %d ids, want %d", len(items), len(seen), writers/2)
	}
}

func inboxGoesWithItsSession(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "remade"))
	post(t, st, ref("remade"), item("a"))
	if err := st.Delete(t.Context(), ref("remade"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	create(t, st, newSessionFrom(t, session.Identity{ID: "remade", AgentID: "second"}))
	wantUnread(t, st, ref("remade"))
	post(t, st, ref("remade"), item("a"))
	wantUnread(t, st, ref("remade"), "a")
}

func unreadOnesAreListed(t testing.TB, d Data) {
	st := openHandles(t, d, 1)[0]
	inboxes, leases := ability[store.Inboxes](t, st), ability[store.Leases](t, st)
	want := func(ids ...string) {
		t.Helper()
		refs, err := inboxes.Unread(t.Context(), session.DefaultTenant)
		if err != nil {
			t.Fatal(err)
		}
		have := []string{}
		for _, r := range refs {
			have = append(have, r.ID)
		}
		slices.Sort(have)
		if !slices.Equal(have, ids) {
			t.Errorf("unread %v, want %v", have, ids)
		}
	}
	a := create(t, st, newSession(t, "a"))
	create(t, st, newSession(t, "b"))
	create(t, st, newSession(t, "read"))
	want()
	post(t, st, ref("a"), item("1"))
	post(t, st, ref("a"), item("2"))
	post(t, st, ref("b"), item("1"))
	want("a", "b")
	lease, err := leases.Acquire(t.Context(), ref("b"), "somebody", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want("a")
	if err := leases.Release(t.Context(), ref("b"), lease); err != nil {
		t.Fatal(err)
	}
	a = save(t, st, withItemTaken(t, a, "1"))
	want("a", "b")
	save(t, st, withItemTaken(t, a, "2"))
	want("b")
	if refs, err := inboxes.Unread(t.Context(), "another"); err != nil || len(refs) != 0 {
		t.Errorf("of another tenant: %v, %v", refs, err)
	}
	if _, err := inboxes.Unread(t.Context(), "no tenant!"); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("of a bad tenant: %v", err)
	}
}

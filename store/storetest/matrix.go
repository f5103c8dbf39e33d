package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func matrixBehaviours() []behaviour {
	return []behaviour{
		{name: "matrix/createMakesVersionOne", check: createMakesVersionOne},
		{name: "matrix/createRefusesAPresentIDFirst", check: createRefusesAPresentIDFirst},
		{name: "matrix/createCountsCorruptSessionsAsPresent", needs: []string{corruptHook}, check: createCountsCorruptAsPresent},
		{name: "matrix/createRefusesANonzeroVersion", check: createRefusesANonzeroVersion},
		{name: "matrix/saveAddsExactlyOneVersion", check: saveAddsExactlyOneVersion},
		{name: "matrix/saveOfAMissingSessionIsNotFound", check: saveOfAMissingSession},
		{name: "matrix/staleVersionLosesUntilReloaded", check: staleVersionLosesUntilReloaded},
		{name: "matrix/checksRunInOrder", check: checksRunInOrder},
		{name: "matrix/deleteIsForGoodAndMayBeRepeated", check: deleteIsForGood},
		{name: "matrix/badReferencesAreRefused", check: badReferencesAreRefused},
	}
}

func createMakesVersionOne(t testing.TB, d Data) {
	st := d.Open(t)
	fresh := withMessage(t, newSession(t, "one"), "hello")
	created := create(t, st, fresh)
	if created.Version() != 1 || created.Info().Seq != fresh.Seq() || len(session.Unsaved(created)) != 0 || session.Base(created) != fresh.Seq() {
		t.Errorf("version %d, seq %d, base %d with %d pending, want 1, %d, %d and none",
			created.Version(), created.Info().Seq, session.Base(created), len(session.Unsaved(created)), fresh.Seq(), fresh.Seq())
	}
	wantSame(t, load(t, st, ref("one")), created)
	sameInfo(t, info(t, st, ref("one")), created.Info())
}

func createRefusesAPresentIDFirst(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "present"))
	s = save(t, st, withChanges(t, s, session.StatusChanged{Status: session.Deleted}))
	_, err := st.Create(t.Context(), s, commit(s, "create"))
	wantConflict(t, "create of a present id with a version", err, session.ReasonExists)
	other := newSessionFrom(t, session.Identity{ID: "present", AgentID: "another"})
	_, err = st.Create(t.Context(), other, commit(other, "create"))
	wantConflict(t, "create over a deleted session", err, session.ReasonExists)
	wantSame(t, load(t, st, ref("present")), s)
}

func createCountsCorruptAsPresent(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "broken"))
	d.Corrupt(t, ref("broken"))
	again := newSession(t, "broken")
	_, err := st.Create(t.Context(), again, commit(again, "create"))
	wantConflict(t, "create over a corrupt session", err, session.ReasonExists)
}

func createRefusesANonzeroVersion(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "moved"))
	if err := st.Delete(t.Context(), ref("moved"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	_, err := st.Create(t.Context(), s, commit(s, "create"))
	wantConflict(t, "create with version 1", err, session.ReasonNonzeroVersion)
	_, err = st.Load(t.Context(), ref("moved"), false)
	wantErr(t, "load after a refused create", err, session.ErrNotFound)
	if _, err = st.Create(t.Context(), session.Session{}, store.Commit{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("create of the zero session: %v, want InvalidError", err)
	}
}

func saveAddsExactlyOneVersion(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "steps"))
	for want := int64(2); want <= 6; want++ {
		next := s
		for range want % 3 { // also none at all
			next = withMessage(t, next, "more")
		}
		next = save(t, st, next)
		if next.Version() != want || next.Info().Seq != next.Seq() || !next.Info().UpdatedAt.After(s.Info().UpdatedAt) {
			t.Fatalf("version %d at seq %d of %d, updated %s after %s; want version %d",
				next.Version(), next.Info().Seq, next.Seq(), next.Info().UpdatedAt, s.Info().UpdatedAt, want)
		}
		wantSame(t, load(t, st, ref("steps")), next)
		sameInfo(t, info(t, st, ref("steps")), next.Info())
		s = next
	}
}

func saveOfAMissingSession(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "gone"))
	if err := st.Delete(t.Context(), ref("gone"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	c := commit(s, "test")
	c.Fence = 99
	_, err := st.Save(t.Context(), s, c)
	wantErr(t, "save of a deleted session", err, session.ErrNotFound)
	if tails, ok := st.(store.Tails); ok {
		_, err = tails.Append(t.Context(), s, store.Append{Fence: 99})
		wantErr(t, "append to a deleted session", err, session.ErrNotFound)
	}
}

func staleVersionLosesUntilReloaded(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "race"))
	won := save(t, st, withNote(t, s, "winner"))
	loser := withNote(t, s, "loser")
	for range 3 {
		_, err := st.Save(t.Context(), loser, commit(loser, "test"))
		var c *session.ConflictError
		if !errors.As(err, &c) || c.Reason != session.ReasonStale || c.Want != 1 || c.Have != 2 || c.ID != "race" {
			t.Fatalf("save from version 1 at version 2: %v (%+v)", err, c)
		}
	}
	wantSame(t, load(t, st, ref("race")), won)
	save(t, st, withNote(t, load(t, st, ref("race")), "loser"))
}

// wrong is one thing that makes a save lose, in the order of the checks.
type wrong string

const (
	isCorrupt  wrong = "corrupt"
	isBusy     wrong = "busy"
	isFenced   wrong = "fenced"
	isReplaced wrong = "replaced"
	isStale    wrong = "stale"
	hasTail    wrong = "open tail"
)

// checksRunInOrder makes every combination of the things that can be wrong
// and expects the error of the first.
func checksRunInOrder(t testing.TB, d Data) {
	st := d.Open(t)
	var can []wrong
	if d.Corrupt != nil {
		can = append(can, isCorrupt)
	}
	if _, ok := st.(store.Leases); ok {
		can = append(can, isBusy, isFenced)
	}
	can = append(can, isReplaced, isStale)
	if _, ok := st.(store.Tails); ok {
		can = append(can, hasTail)
	}
	for bits := 1; bits < 1<<len(can); bits++ {
		var wrongs []wrong
		for i, w := range can {
			if bits>>i&1 == 1 {
				wrongs = append(wrongs, w)
			}
		}
		if slices.Contains(wrongs, isBusy) && slices.Contains(wrongs, isFenced) {
			continue // one writer has a fence or has none
		}
		refusedInOrder(t, d, st, fmt.Sprintf("order-%d", bits), wrongs)
	}
}

func refusedInOrder(t testing.TB, d Data, st store.Store, id string, wrongs []wrong) {
	t.Helper()
	r := ref(id)
	has := func(w wrong) bool { return slices.Contains(wrongs, w) }
	now := create(t, st, newSession(t, id))
	victim := withNote(t, now, "mine")
	fence := int64(0)
	if has(isFenced) {
		fence = acquire(t, st, r, "me").Token
		if err := ability[store.Leases](t, st).Release(t.Context(), r, store.Lease{Token: fence}); err != nil {
			t.Fatalf("release: %v", err)
		}
	}
	if has(isReplaced) {
		if err := st.Delete(t.Context(), r, 0); err != nil {
			t.Fatalf("delete: %v", err)
		}
		now = create(t, st, newSessionFrom(t, session.Identity{ID: id, AgentID: "another"}))
	}
	if has(isStale) {
		now = save(t, st, withNote(t, now, "theirs"))
	}
	if has(hasTail) {
		mustAppend(t, st, withNote(t, now, "running"))
	}
	if has(isBusy) || has(isFenced) {
		acquire(t, st, r, "other")
	}
	before := info(t, st, r)
	if has(isCorrupt) {
		d.Corrupt(t, r)
	}
	c := commit(victim, "test")
	c.Fence = fence
	_, err := st.Save(t.Context(), victim, c)
	expectFirst(t, fmt.Sprintf("save, with %v wrong", wrongs), err, wrongs[0])
	if tails, ok := st.(store.Tails); ok {
		_, err := tails.Append(t.Context(), victim, store.Append{Fence: fence})
		expectFirst(t, fmt.Sprintf("append, with %v wrong", wrongs), err, wrongs[0])
	}
	if !has(isCorrupt) {
		sameInfo(t, info(t, st, r), before)
	}
}

func expectFirst(t testing.TB, what string, err error, first wrong) {
	t.Helper()
	switch first {
	case isCorrupt:
		wantErr(t, what, err, session.ErrCorrupt)
	case isBusy:
		wantErr(t, what, err, session.ErrBusy)
	case isFenced:
		wantErr(t, what, err, session.ErrFenced)
	case isReplaced:
		wantConflict(t, what, err, session.ReasonReplaced)
	case isStale:
		wantConflict(t, what, err, session.ReasonStale)
	case hasTail:
		wantConflict(t, what, err, session.ReasonOpenTail)
	}
}

func deleteIsForGood(t testing.TB, d Data) {
	st := d.Open(t)
	if err := st.Delete(t.Context(), ref("never"), 0); err != nil {
		t.Errorf("delete of a missing session: %v", err)
	}
	s := create(t, st, withMessage(t, newSession(t, "purged"), "hello"))
	save(t, st, withMessage(t, s, "again"))
	for range 2 {
		if err := st.Delete(t.Context(), ref("purged"), 0); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	_, err := st.Load(t.Context(), ref("purged"), false)
	wantErr(t, "load of a deleted session", err, session.ErrNotFound)
	_, err = st.Info(t.Context(), ref("purged"))
	wantErr(t, "info of a deleted session", err, session.ErrNotFound)
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{IncludeDeleted: true})
	if err != nil || len(page.Items) != 0 {
		t.Errorf("listing after delete: %d sessions, %v", len(page.Items), err)
	}
	again := create(t, st, newSessionFrom(t, session.Identity{ID: "purged", AgentID: "second"}))
	if again.Version() != 1 || load(t, st, ref("purged")).Len() != 0 {
		t.Errorf("made again: version %d with %d messages, want 1 and none", again.Version(), load(t, st, ref("purged")).Len())
	}
}

func badReferencesAreRefused(t testing.TB, d Data) {
	st := d.Open(t)
	for _, r := range []store.Ref{
		{Tenant: session.DefaultTenant},
		{Tenant: session.DefaultTenant, ID: "../etc"},
		{Tenant: session.DefaultTenant, ID: "a/b"},
		{Tenant: session.DefaultTenant, ID: "-x"},
		{Tenant: session.DefaultTenant, ID: "a\x00"},
		{Tenant: "", ID: "good"},
		{Tenant: "..", ID: "good"},
	} {
		what := fmt.Sprintf("%q", r)
		_, err := st.Load(t.Context(), r, false)
		wantErr(t, "load "+what, err, session.ErrInvalid)
		_, err = st.Info(t.Context(), r)
		wantErr(t, "info "+what, err, session.ErrInvalid)
		wantErr(t, "delete "+what, st.Delete(t.Context(), r, 0), session.ErrInvalid)
		if leases, ok := st.(store.Leases); ok {
			_, err = leases.Acquire(t.Context(), r, "me", time.Minute)
			wantErr(t, "acquire "+what, err, session.ErrInvalid)
		}
	}
	_, err := st.List(t.Context(), "../x", store.Query{})
	wantErr(t, "list of a bad tenant", err, session.ErrInvalid)
}

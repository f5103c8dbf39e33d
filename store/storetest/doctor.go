package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func doctorBehaviours() []behaviour {
	needs := []string{Doctors}
	corrupt := []string{Doctors, corruptHook}
	return []behaviour{
		{name: "doctor/findsNothingWhereAllIsWell", needs: needs, check: nothingWhereAllIsWell},
		{name: "doctor/leavesTheHealthyAlone", needs: []string{Doctors, Memories}, check: healthyAreLeftAlone},
		{name: "doctor/looksWhileTheStoreIsInUse", needs: needs, check: looksWhileInUse},
		{name: "doctor/tellsHowFarItIs", needs: needs, check: tellsProgress},
		{name: "doctor/namesTheCorrupt", needs: corrupt, check: namesTheCorrupt},
		{name: "doctor/repairMakesNothingWorse", needs: corrupt, check: repairMakesNothingWorse},
		{name: "doctor/refusesWhenClosedOrEnded", needs: needs, check: doctorRefuses},
	}
}

// fillStore writes everything that a store can keep, in several tenants, and
// returns the sessions.
func fillStore(t testing.TB, st store.Store) []session.Session {
	t.Helper()
	var all []session.Session
	for _, tenant := range []string{session.DefaultTenant, "other"} {
		s := create(t, st, withMessage(t, newSessionFrom(t, session.Identity{ID: "talk", Tenant: tenant, UserID: "ann"}), "tea"))
		for i := range 40 {
			s = save(t, st, withMessage(t, s, fmt.Sprint("message ", i)))
		}
		all = append(all, save(t, st, withChanges(t, s, session.TranscriptCleared{})))
		if _, ok := st.(store.Forks); ok {
			all = append(all, save(t, st, withMessage(t, createFork(t, st, s, "fork"), "in the fork")))
		}
		if _, ok := st.(store.Tails); ok {
			open := create(t, st, newSessionFrom(t, session.Identity{ID: "open", Tenant: tenant}))
			gone := mustAppend(t, st, withMessage(t, open, "refused"))
			open = discard(t, st, open, open.Seq()+1, gone.Seq())
			all = append(all, mustAppend(t, st, withMessage(t, open, "in the tail")))
		}
		if _, ok := st.(store.Leases); ok {
			held := create(t, st, newSessionFrom(t, session.Identity{ID: "held", Tenant: tenant}))
			acquire(t, st, store.RefOf(held), "me")
			all = append(all, held)
		}
		if _, ok := st.(store.Inboxes); ok {
			post(t, st, store.RefOf(s), item("a"))
		}
		if _, ok := st.(store.Memories); ok {
			for _, key := range []string{"kept", "kept", "gone"} {
				mustRemember(t, st, store.Owner{Tenant: tenant, Scope: store.ScopeUser, Name: "ann"}, newMemo(key, `"tea"`))
			}
			forget(t, st, store.Owner{Tenant: tenant, Scope: store.ScopeUser, Name: "ann"}, "gone")
		}
		create(t, st, newSessionFrom(t, session.Identity{ID: "purged", Tenant: tenant}))
		if err := st.Delete(t.Context(), store.Ref{Tenant: tenant, ID: "purged"}, 0); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	return all
}

// loadWithTail loads a session with its tail, if the store has tails.
func loadWithTail(ctx context.Context, st store.Store, r store.Ref) (session.Session, error) {
	_, tails := st.(store.Tails)
	return st.Load(ctx, r, tails)
}

func wantUnharmed(t testing.TB, st store.Store, sessions []session.Session) {
	t.Helper()
	for _, want := range sessions {
		s, err := loadWithTail(t.Context(), st, store.RefOf(want))
		if err != nil {
			t.Errorf("load %s of %s: %v", want.ID(), want.Tenant(), err)
			continue
		}
		wantSame(t, s, want)
	}
}

func checkStore(t testing.TB, st store.Store) []string {
	t.Helper()
	problems, err := ability[store.Doctors](t, st).Check(t.Context(), nil)
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	return problems
}

func repairStore(t testing.TB, st store.Store) []string {
	t.Helper()
	mended, err := ability[store.Doctors](t, st).Repair(t.Context(), nil)
	if err != nil {
		t.Fatalf("repair: %v", err)
	}
	return mended
}

func reindex(t testing.TB, st store.Store) int {
	t.Helper()
	n, err := ability[store.Doctors](t, st).Reindex(t.Context(), nil)
	if err != nil {
		t.Fatalf("reindex: %v", err)
	}
	return n
}

func nothingWhereAllIsWell(t testing.TB, d Data) {
	st := d.Open(t)
	healthy := func(when string) {
		t.Helper()
		if problems := checkStore(t, st); len(problems) != 0 {
			t.Errorf("%s the check found %q", when, problems)
		}
	}
	healthy("in an empty store")
	sessions := fillStore(t, st)
	healthy("in a full store")
	if mended := repairStore(t, st); len(mended) != 0 {
		t.Errorf("mended where nothing was wrong: %q", mended)
	}
	healthy("after a repair")
	reindex(t, st)
	healthy("after a reindex")
	wantUnharmed(t, st, sessions)
	wantUnharmed(t, d.Open(t), sessions)
}

func healthyAreLeftAlone(t testing.TB, d Data) {
	st := d.Open(t)
	sessions := fillStore(t, st)
	q := searchUser("ann", "tea message fork")
	q.Cleared, q.Limit = true, 1000
	want := search(t, st, q)
	if len(want) == 0 {
		t.Fatal("there is nothing to find")
	}
	n := reindex(t, st)
	if n == 0 {
		t.Error("the index is empty")
	}
	for _, look := range []func(){func() {}, func() { repairStore(t, st) }, func() { checkStore(t, st) }} {
		look()
		if have := search(t, st, q); !slices.EqualFunc(have, want, samePassage) {
			t.Errorf("found %+v, before %+v", have, want)
		}
	}
	if again := reindex(t, st); again != n {
		t.Errorf("the index has %d, a second time %d", n, again)
	}
	wantUnharmed(t, st, sessions)
	talk := load(t, st, ref("talk"))
	save(t, st, withMessage(t, talk, "tea after all")) // and is still written to
	wantFound(t, st, searchIn("talk", "tea"), "talk: tea after all")
	wantEntry(t, st, user("ann"), "kept", 1, `"tea"`)
}

// looksWhileInUse checks again and again while others write: what is half
// written elsewhere is no problem.
func looksWhileInUse(t testing.TB, d Data) {
	st := d.Open(t)
	for i := range clients {
		create(t, st, newSession(t, fmt.Sprint("s", i)))
	}
	errs := runTogether(t, d, clients+1, func(i int, st store.Store) error {
		if i == clients {
			for range 5 {
				problems, err := ability[store.Doctors](t, st).Check(t.Context(), nil)
				if err != nil {
					return err
				}
				if len(problems) != 0 {
					return fmt.Errorf("found %q", problems)
				}
			}
			return nil
		}
		s, err := loadWithTail(t.Context(), st, ref(fmt.Sprint("s", i)))
		for n := 0; err == nil && n < 20; n++ {
			next := withMessage(t, s, fmt.Sprint("message ", n))
			if tails, ok := st.(store.Tails); ok && n%2 == 0 {
				s, err = tails.Append(t.Context(), next, store.Append{})
			} else {
				s, err = st.Save(t.Context(), next, commit(next, "test"))
			}
		}
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

func tellsProgress(t testing.TB, d Data) {
	st := d.Open(t)
	fillStore(t, st)
	doctors := ability[store.Doctors](t, st)
	for work, do := range map[string]func(store.Progress) error{
		"check":   func(p store.Progress) error { _, err := doctors.Check(t.Context(), p); return err },
		"reindex": func(p store.Progress) error { _, err := doctors.Reindex(t.Context(), p); return err },
		"repair":  func(p store.Progress) error { _, err := doctors.Repair(t.Context(), p); return err },
	} {
		calls := 0
		err := do(func(done, total int) {
			calls++
			if done < 0 || total < 0 || total > 0 && done > total {
				t.Errorf("%s reported %d of %d", work, done, total)
			}
		})
		if err != nil {
			t.Errorf("%s: %v", work, err)
		}
		if calls == 0 {
			t.Errorf("%s reported no progress", work)
		}
	}
}

// names reports whether one of the texts is about a session.
func names(texts []string, id string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, id) })
}

func namesTheCorrupt(t testing.TB, d Data) {
	st := d.Open(t)
	sessions := fillStore(t, st)
	create(t, st, withMessage(t, newSession(t, "bad"), "hello"))
	d.Corrupt(t, ref("bad"))
	for _, st := range []store.Store{st, d.Open(t)} {
		for range 2 { // looking changes nothing
			problems := checkStore(t, st)
			if !names(problems, "bad") {
				t.Errorf("the corrupt session is not among the problems: %q", problems)
			}
			if names(problems, "talk") {
				t.Errorf("a good session is among the problems: %q", problems)
			}
			doctors := ability[store.Doctors](t, st)
			if problems, err := doctors.CheckSession(t.Context(), ref("bad")); err != nil || !names(problems, "bad") {
				t.Errorf("a check of the corrupt session alone: %q, %v", problems, err)
			}
			if problems, err := doctors.CheckSession(t.Context(), ref("talk")); err != nil || len(problems) > 0 {
				t.Errorf("a check of a good session alone: %q, %v", problems, err)
			}
			_, err := doctors.CheckSession(t.Context(), ref("nobody"))
			wantErr(t, "a check of no session", err, session.ErrNotFound)
		}
	}
	_, err := d.Open(t).Load(t.Context(), ref("bad"), false)
	wantCorrupt(t, "load after a check", err)
	wantUnharmed(t, st, sessions)
}

// repairMakesNothingWorse allows two ends: the session is as it was before it
// was damaged and all is well, or it is as it was after and still named.
func repairMakesNothingWorse(t testing.TB, d Data) {
	st := d.Open(t)
	sessions := fillStore(t, st)
	before := save(t, st, withMessage(t, create(t, st, withMessage(t, newSession(t, "bad"), "hello")), "again"))
	d.Corrupt(t, ref("bad"))
	mended := repairStore(t, st)
	reindex(t, st)
	for _, st := range []store.Store{st, d.Open(t)} {
		problems := checkStore(t, st)
		if names(mended, "bad") {
			wantSame(t, load(t, st, ref("bad")), before)
			if len(problems) != 0 {
				t.Errorf("after the repair %q is wrong", problems)
			}
		} else {
			_, err := d.Open(t).Load(t.Context(), ref("bad"), false)
			wantCorrupt(t, "load after a repair", err)
			if !names(problems, "bad") {
				t.Errorf("what could not be mended is not named: %q", problems)
			}
		}
		wantUnharmed(t, st, sessions)
	}
	if again := repairStore(t, st); len(again) != 0 {
		t.Errorf("a second repair mended %q", again)
	}
}

func doctorRefuses(t testing.TB, d Data) {
	st := d.Open(t)
	fillStore(t, st)
	doctors := ability[store.Doctors](t, st)
	every := func(ctx context.Context) map[string]error {
		errs := map[string]error{}
		_, errs["Check"] = doctors.Check(ctx, nil)
		_, errs["CheckSession"] = doctors.CheckSession(ctx, ref("talk"))
		_, errs["Reindex"] = doctors.Reindex(ctx, nil)
		_, errs["Repair"] = doctors.Repair(ctx, nil)
		return errs
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for call, err := range every(ctx) {
		wantErr(t, call+" with an ended context", err, context.Canceled)
	}
	if err := st.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	for call, err := range every(t.Context()) {
		wantErr(t, call+" after Close", err, session.ErrClosed)
	}
}

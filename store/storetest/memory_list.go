package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// badMemories sends what breaks a rule to every call it can be sent to.
func badMemories(t testing.TB, d Data) {
	st := d.Open(t)
	memories := ability[store.Memories](t, st)
	for _, key := range []string{
		"", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "a/./b", "a\nb", "a\x00b", "a\u0085b", "\xff", strings.Repeat("k", 257),
	} {
		for call, err := range memoryCalls(t.Context(), memories, user("ann"), key) {
			if key == "" && call == "Entries" {
				continue // all of them
			}
			wantErr(t, fmt.Sprintf("%s with key %.20q", call, key), err, session.ErrInvalid)
		}
	}
	good := user("ann")
	for _, o := range []store.Owner{
		{Scope: good.Scope, Name: good.Name}, {Tenant: "no/tenant", Scope: good.Scope, Name: good.Name},
		{Tenant: good.Tenant, Name: good.Name}, {Tenant: good.Tenant, Scope: "session", Name: good.Name},
		user(""), user("a\nb"), user("\xff"), agent(strings.Repeat("n", 257)),
	} {
		errs := memoryCalls(t.Context(), memories, o, "key")
		_, errs["ForgetAll"] = memories.ForgetAll(t.Context(), o, false)
		for call, err := range errs {
			wantErr(t, fmt.Sprintf("%s of owner %v", call, o), err, session.ErrInvalid)
		}
	}
	for _, m := range []store.Memo{
		newMemo("key", `{`), newMemo("key", ``), newMemo("key", `1 2`), newMemo("key", `"`+"\x00"+`"`), newMemo("key", `NaN`),
		{Key: "key", IfVersion: version(-1)}, memoOfCall("no/session", "", "key", "1"), memoOfCall("s", "a\nb", "key", "1"), memoOfCall("s", "\xff", "key", "1"),
	} {
		_, err := memories.Remember(t.Context(), good, m)
		wantErr(t, fmt.Sprintf("remember %+v", m), err, session.ErrInvalid)
	}
	_, err := memories.Entries(t.Context(), good, "", "", -1)
	wantErr(t, "entries with a negative limit", err, session.ErrInvalid)
	if keys := keysOf(t, st, good, "", "", 0); len(keys) != 0 {
		t.Errorf("refused and there all the same: %q", keys)
	}
}

// memoryCalls makes each call about one key once and gathers what it returned.
func memoryCalls(ctx context.Context, memories store.Memories, o store.Owner, key string) map[string]error {
	errs := map[string]error{}
	_, errs["Remember"] = memories.Remember(ctx, o, store.Memo{Key: key, At: start()})
	_, _, errs["Entry"] = memories.Entry(ctx, o, key, 0)
	_, errs["Entries"] = memories.Entries(ctx, o, key, "", 0)
	_, errs["Forget"] = memories.Forget(ctx, o, key, nil)
	return errs
}

// hostileKeys are keys that patterns, quoting, collations, case folding or
// normalisation would mix up, in the order of their bytes.
func hostileKeys() []string {
	keys := []string{
		" ", "  ", " a", "!", `"`, "$1", "%", "%%", "%a", "'", "''", "';--", "*", "-", "--", "?", "A", "Z", "[a-z]", `\`, `\\`, `\%`, "_", "__", "a",
		"a ", "a!", "a%", "a*", "a-b", "a.b", "a/%", "a/_", "a/b", "a/b c", "a/b/c", "a/b/c/d", "a/b_c", "a/bc", "a/bxc", "a0", "aB", "a_b", "ab", "axb", "b",
		"e\u0301", "z", "{}", "~", "\u00e9", "ÿ", "ı", "ß", "İ", "ﬁ", "\uff21", "東京", "\U0001f642", "\ue000", "\u200b", "\u00a0",
	}
	slices.Sort(keys)
	return keys
}

func entriesInOrder(t testing.TB, d Data) {
	st := d.Open(t)
	want := hostileKeys()
	for i, key := range slices.Backward(want) {
		mustRemember(t, st, user("ann"), newMemo(key, fmt.Sprint(i)))
	}
	if keys := keysOf(t, st, user("ann"), "", "", 0); !slices.Equal(keys, want) {
		t.Errorf("keys:\n got %q\nwant %q", keys, want)
	}
	for i, key := range want {
		wantEntry(t, st, user("ann"), key, 0, fmt.Sprint(i))
		if keys := keysOf(t, st, user("ann"), "", key, 3); !slices.Equal(keys, want[i+1:min(len(want), i+4)]) {
			t.Errorf("three after %q: %q", key, keys)
		}
	}
	if keys := keysOf(t, st, user("ann"), "", "a/", 1); !slices.Equal(keys, []string{"a/%"}) {
		t.Errorf("the first after a/: %q", keys)
	}
	for i, key := range want { // each by itself
		if i%2 == 0 && !forget(t, st, user("ann"), key) {
			t.Errorf("%q was not there", key)
		}
	}
	for i, key := range want {
		value := fmt.Sprint(i)
		if i%2 == 0 {
			value = ""
		}
		wantEntry(t, st, user("ann"), key, 0, value)
	}
}

// entriesPages reads page by page while keys are added, altered and removed:
// what is there all the time is seen once.
func entriesPages(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	var lasting []string
	for i := range 20 {
		lasting = append(lasting, fmt.Sprintf("k%02d", i))
		mustRemember(t, open[0], agent("pager"), newMemo(lasting[i], "1"))
	}
	var seen []string
	after := ""
	for round := 0; ; round++ {
		page := keysOf(t, open[0], agent("pager"), "", after, 3)
		if len(page) == 0 {
			break
		}
		if len(page) > 3 {
			t.Fatalf("a page of %d", len(page))
		}
		after = page[len(page)-1]
		for _, key := range page {
			if !strings.HasSuffix(key, "+") {
				seen = append(seen, key)
			}
		}
		mustRemember(t, open[1], agent("pager"), newMemo("a"+fmt.Sprint(round), "1"))
		mustRemember(t, open[1], agent("pager"), newMemo(strings.TrimSuffix(after, "+")+"+", "1"))
		mustRemember(t, open[1], agent("pager"), newMemo(lasting[round%20], "2"))
		if round > 0 {
			forget(t, open[1], agent("pager"), "a"+fmt.Sprint(round-1))
		}
		if round > 40 {
			t.Fatal("the pages have no end")
		}
	}
	if !slices.Equal(seen, lasting) {
		t.Errorf("seen %q, want %q", seen, lasting)
	}
}

func entriesPrefix(t testing.TB, d Data) {
	st := d.Open(t)
	all := hostileKeys()
	for _, key := range all {
		mustRemember(t, st, user("ann"), newMemo(key, "1"))
	}
	for _, prefix := range append(slices.Clone(all), "a/b/c/d/e", "nobody", "A/b", "é", "E\u0301") {
		var want []string
		for _, key := range all {
			if key == prefix || strings.HasPrefix(key, prefix+"/") {
				want = append(want, key)
			}
		}
		if keys := keysOf(t, st, user("ann"), prefix, "", 0); !slices.Equal(keys, want) {
			t.Errorf("under %q: %q, want %q", prefix, keys, want)
		}
	}
	if keys := keysOf(t, st, user("ann"), "a", "a/b", 2); !slices.Equal(keys, []string{"a/b c", "a/b/c"}) {
		t.Errorf("two under a after a/b: %q", keys)
	}
	if keys := keysOf(t, st, user("ann"), "a/b", "z", 0); len(keys) != 0 {
		t.Errorf("under a/b after z: %q", keys)
	}
}

// lookAlikeOwners would be mixed up by a store that joins their parts,
// compares by pattern, folds case or normalises.
func lookAlikeOwners() []store.Owner {
	var owners []store.Owner
	for _, tenant := range []string{"a", "a-b", "a_b", "axb", "A", "b"} {
		for _, scope := range []store.Scope{store.ScopeUser, store.ScopeAgent} {
			for _, name := range []string{"b", "a", "B", "b ", "b/c", "a/b", "%", "_", "user", "agent", "\u00e9", "e\u0301", "b'c", `b"c`, `b\c`} {
				owners = append(owners, store.Owner{Tenant: tenant, Scope: scope, Name: name})
			}
		}
	}
	return owners
}

func ownersNeverMeet(t testing.TB, d Data) {
	st := d.Open(t)
	owners := lookAlikeOwners()
	for i, o := range owners {
		wantEntry(t, st, o, "c", 0, "")
		if e := mustRemember(t, st, o, memoOfCall("s", "call_1", "c", fmt.Sprint(i))); e.Version != 1 {
			t.Errorf("the first of %v is version %d", o, e.Version)
		}
		mustRemember(t, st, o, newMemo(fmt.Sprintf("own-%d", i), "1"))
	}
	check := func(i int, o store.Owner) {
		t.Helper()
		wantEntry(t, st, o, "c", 0, fmt.Sprint(i))
		if keys := keysOf(t, st, o, "", "", 0); !slices.Equal(keys, []string{"c", fmt.Sprintf("own-%d", i)}) {
			t.Errorf("keys of %v: %q", o, keys)
		}
	}
	for i, o := range owners {
		check(i, o)
	}
	gone := store.Owner{Tenant: "a", Scope: store.ScopeUser, Name: "b"}
	if n, err := ability[store.Memories](t, st).ForgetAll(t.Context(), gone, false); n != 2 || err != nil {
		t.Errorf("forget all of %v: %d, %v", gone, n, err)
	}
	forget(t, st, store.Owner{Tenant: "a", Scope: store.ScopeUser, Name: "%"}, "c")
	for i, o := range owners {
		if o.Tenant != "a" || o.Scope != store.ScopeUser || o.Name != "b" && o.Name != "%" {
			check(i, o)
		}
	}
	if keys := keysOf(t, st, gone, "", "", 0); len(keys) != 0 {
		t.Errorf("%v still has %q", gone, keys)
	}
}

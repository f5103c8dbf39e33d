package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func memoryBehaviours() []behaviour {
	needs := []string{Memories}
	return []behaviour{
		{name: "memory/versionsCountAndStayReadable", needs: needs, check: memoryVersions},
		{name: "memory/valuesComeBackAsTheyWere", needs: needs, check: memoryValues},
		{name: "memory/nullIsAValue", needs: needs, check: memoryNull},
		{name: "memory/comparesAndSets", needs: needs, check: memoryCompareAndSet},
		{name: "memory/callWritesOnce", needs: needs, check: callWritesOnce},
		{name: "memory/callIsKnownAfterForgetting", needs: needs, check: callAfterForget},
		{name: "memory/forgottenIsGoneAndVersionsGoOn", needs: needs, check: forgetGoesOn},
		{name: "memory/forgetAllLeavesNothing", needs: needs, check: forgetAll},
		{name: "memory/badRequestsAreRefused", needs: needs, check: badMemories},
		{name: "memory/hasALimitOfSize", needs: needs, check: memorySize},
		{name: "memory/labelsComeBackWithTheirVersion", needs: needs, check: labelsComeBack},
		{name: "memory/expiredEntriesAreListed", needs: needs, check: expiredAreListed},
		{name: "memory/spacesAreOwners", needs: needs, check: spacesAreOwners},
		{name: "memory/listsInOrderOfBytes", needs: needs, check: entriesInOrder},
		{name: "memory/pagesAreStableUnderInserts", needs: needs, check: entriesPages},
		{name: "memory/prefixStandsForWholeSegments", needs: needs, check: entriesPrefix},
		{name: "memory/lookAlikeOwnersNeverMeet", needs: needs, check: ownersNeverMeet},
		{name: "memory/ofManyComparersOneWins", needs: needs, check: ofManyComparersOneWins},
		{name: "memory/ofManyWritersNoneIsLost", needs: needs, check: noMemoryIsLost},
		{name: "memory/ofOneCallManyTimesOneWrites", needs: needs, check: ofOneCallOneWrites},
		{name: "memory/returnedValuesAreCopies", needs: needs, check: entriesAreCopies},
		{name: "memory/survivesReopening", needs: needs, check: memorySurvives},
		{name: "memory/outlivesTheSessionThatWroteIt", needs: needs, check: memoryOutlivesSession},
		{name: "memory/refusesWhenClosedOrEnded", needs: needs, check: memoryRefuses},
		{name: "memory/agreesWithAModel", needs: needs, check: memoryAgreesWithModel},
	}
}

func user(name string) store.Owner {
	return store.Owner{Tenant: session.DefaultTenant, Scope: store.ScopeUser, Name: name}
}

func agent(name string) store.Owner {
	return store.Owner{Tenant: session.DefaultTenant, Scope: store.ScopeAgent, Name: name}
}

func version(v int64) *int64 { return &v }

// minute returns the start of the suite plus n minutes.
func minute(n int) time.Time { return start().Add(time.Duration(n) * time.Minute) }

// mustRemember writes an entry.
func mustRemember(t testing.TB, st store.Store, o store.Owner, m store.Memo) store.Entry {
	t.Helper()
	if m.At.IsZero() {
		m.At = start()
	}
	e, err := ability[store.Memories](t, st).Remember(t.Context(), o, m)
	if err != nil {
		t.Fatalf("remember %q of %v: %v", m.Key, o, err)
	}
	return e
}

func newMemo(key, value string) store.Memo {
	return store.Memo{Key: key, Value: json.RawMessage(value)}
}

// wantEntry fails the test unless a version of a key is there with this value;
// "" means that it is not there.
func wantEntry(t testing.TB, st store.Store, o store.Owner, key string, version int64, value string) store.Entry {
	t.Helper()
	e, found, err := ability[store.Memories](t, st).Entry(t.Context(), o, key, version)
	switch {
	case err != nil:
		t.Errorf("entry %q at %d of %v: %v", key, version, o, err)
	case found != (value != ""):
		t.Errorf("entry %q at %d of %v found: %t", key, version, o, found)
	case found && (string(e.Value) != value || e.Key != key):
		t.Errorf("entry %q at %d of %v is %q with %s, want %s", key, version, o, e.Key, e.Value, value)
	}
	return e
}

// sameEntry fails the test unless two entries agree in everything.
func sameEntry(t testing.TB, got, want store.Entry) {
	t.Helper()
	equal := got.Key == want.Key && bytes.Equal(got.Value, want.Value) && got.Version == want.Version &&
		got.CreatedAt.Equal(want.CreatedAt) && got.UpdatedAt.Equal(want.UpdatedAt) && got.SessionID == want.SessionID && sameLabels(t, got.Labels, want.Labels)
	if !equal {
		t.Errorf("entry %s, want %s", encode(t, got), encode(t, want))
	}
}

// keysOf are the keys of a page.
func keysOf(t testing.TB, st store.Store, o store.Owner, prefix, after string, limit int) []string {
	t.Helper()
	entries, err := ability[store.Memories](t, st).Entries(t.Context(), o, prefix, after, limit)
	if err != nil {
		t.Fatalf("entries of %v under %q after %q: %v", o, prefix, after, err)
	}
	var keys []string
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

func forget(t testing.TB, st store.Store, o store.Owner, key string) bool {
	t.Helper()
	there, err := ability[store.Memories](t, st).Forget(t.Context(), o, key, nil)
	if err != nil {
		t.Fatalf("forget %q of %v: %v", key, o, err)
	}
	return there
}

func memoryVersions(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	for i := 1; i <= 3; i++ {
		m := newMemo("likes/tea", fmt.Sprint(i))
		m.At, m.SessionID = minute(i), fmt.Sprint("session-", i)
		want := store.Entry{
			Key: "likes/tea", Value: m.Value, Version: int64(i), CreatedAt: minute(1), UpdatedAt: minute(i), SessionID: m.SessionID,
		}
		sameEntry(t, mustRemember(t, open[0], user("ann"), m), want)
		sameEntry(t, wantEntry(t, open[1], user("ann"), "likes/tea", 0, fmt.Sprint(i)), want)
	}
	for i := 1; i <= 3; i++ {
		e := wantEntry(t, open[1], user("ann"), "likes/tea", int64(i), fmt.Sprint(i))
		if e.Version != int64(i) || !e.UpdatedAt.Equal(minute(i)) || !e.CreatedAt.Equal(minute(1)) {
			t.Errorf("version %d is now %s", i, encode(t, e))
		}
	}
	wantEntry(t, open[1], user("ann"), "likes/tea", 4, "")
	wantEntry(t, open[1], user("ann"), "likes", 0, "")
	entries, err := ability[store.Memories](t, open[1]).Entries(t.Context(), user("ann"), "", "", 0)
	if err != nil || len(entries) != 1 {
		t.Fatalf("entries: %d, %v", len(entries), err)
	}
	sameEntry(t, entries[0], wantEntry(t, open[1], user("ann"), "likes/tea", 0, "3"))
}

// memoryValues stores what a database column for JSON would alter or refuse.
func memoryValues(t testing.TB, d Data) {
	st := d.Open(t)
	for given, want := range map[string]string{
		`{"b":1,"a":1.0,"a":2}`:                       ``,
		`12345678901234567890123.4567890123456789e-1`: ``,
		`"nul \u0000 and € and 🙂 and \u001f"`:         ``,
		`"' \" \\ % _ * $1 ? :a {} -- ;"`:             ``,
		`[[],{},"",0,-0,false,null]`:                  ``,
		` { "x" : [ 1 , 2 ] } `:                       `{"x":[1,2]}`,
		`"\u00e9\u003c<é"`:                            `"é<<é"`,
	} {
		if want == "" {
			want = given
		}
		e := mustRemember(t, st, agent("keeper"), newMemo("value", given))
		if string(e.Value) != want {
			t.Errorf("remembered %s as %s, want %s", given, e.Value, want)
		}
		wantEntry(t, st, agent("keeper"), "value", 0, want)
	}
	m := newMemo("when", `1`)
	m.At = time.Date(2026, 7, 8, 9, 10, 11, 123456789, time.FixedZone("east", 3600))
	if e := mustRemember(t, st, agent("keeper"), m); !e.UpdatedAt.Equal(session.Instant(m.At)) {
		t.Errorf("updated at %s, want %s", e.UpdatedAt, session.Instant(m.At))
	}
	if e := wantEntry(t, st, agent("keeper"), "when", 0, "1"); !e.UpdatedAt.Equal(session.Instant(m.At)) || !e.CreatedAt.Equal(session.Instant(m.At)) {
		t.Errorf("read back as of %s, want %s", e.UpdatedAt, session.Instant(m.At))
	}
}

func memoryNull(t testing.TB, d Data) {
	st := d.Open(t)
	wantEntry(t, st, user("ann"), "nothing", 0, "")
	mustRemember(t, st, user("ann"), newMemo("nothing", "null"))
	wantEntry(t, st, user("ann"), "nothing", 0, "null")
	mustRemember(t, st, user("ann"), store.Memo{Key: "unset"}) // no value is null
	wantEntry(t, st, user("ann"), "unset", 0, "null")
	if keys := keysOf(t, st, user("ann"), "", "", 0); !slices.Equal(keys, []string{"nothing", "unset"}) {
		t.Errorf("keys with null values: %q", keys)
	}
	if !forget(t, st, user("ann"), "nothing") {
		t.Error("there was no null to forget")
	}
}

func memoryCompareAndSet(t testing.TB, d Data) {
	st := d.Open(t)
	memories := ability[store.Memories](t, st)
	write := func(expected int64, value string) error {
		m := newMemo("plan", value)
		m.IfVersion, m.At = version(expected), start()
		_, err := memories.Remember(t.Context(), user("ann"), m)
		return err
	}
	wantStale(t, "first write over version 1", write(1, `"x"`), "plan", 1, 0)
	wantEntry(t, st, user("ann"), "plan", 0, "")
	if err := write(0, `"first"`); err != nil {
		t.Errorf("write where nothing is: %v", err)
	}
	wantStale(t, "write where something is", write(0, `"x"`), "plan", 0, 1)
	if err := write(1, `"second"`); err != nil {
		t.Errorf("write over version 1: %v", err)
	}
	wantStale(t, "write over an old version", write(1, `"x"`), "plan", 1, 2)
	wantStale(t, "write over a version to come", write(3, `"x"`), "plan", 3, 2)
	wantEntry(t, st, user("ann"), "plan", 0, `"second"`)

	_, err := memories.Forget(t.Context(), user("ann"), "plan", version(1))
	wantStale(t, "forget an old version", err, "plan", 1, 2)
	_, err = memories.Forget(t.Context(), user("ann"), "plan", version(0))
	wantStale(t, "forget where nothing should be", err, "plan", 0, 2)
	wantEntry(t, st, user("ann"), "plan", 0, `"second"`)
	if there, err := memories.Forget(t.Context(), user("ann"), "plan", version(2)); !there || err != nil {
		t.Errorf("forget version 2: %t, %v", there, err)
	}
	_, err = memories.Forget(t.Context(), user("ann"), "plan", version(2))
	wantStale(t, "forget it again", err, "plan", 2, 0)
	if there, err := memories.Forget(t.Context(), user("ann"), "plan", version(0)); there || err != nil {
		t.Errorf("forget nothing: %t, %v", there, err)
	}
	wantStale(t, "write over a forgotten version", write(2, `"x"`), "plan", 2, 0)
	if err := write(0, `"third"`); err != nil {
		t.Errorf("write where all was forgotten: %v", err)
	}
	wantStale(t, "write where it was forgotten and written", write(0, `"x"`), "plan", 0, 3)
}

// wantStale fails the test unless an error says what was wanted and what is
// there.
func wantStale(t testing.TB, what string, err error, key string, want, have int64) {
	t.Helper()
	var c *session.ConflictError
	if !errors.As(err, &c) || c.Reason != session.ReasonStaleEntry || c.ID != key || c.Want != want || c.Have != have {
		t.Errorf("%s: got error %v, want a stale conflict of %q, %d against %d", what, err, key, want, have)
	}
}

// memoOfCall makes a memo that a tool call writes.
func memoOfCall(sessionID, callID, key, value string) store.Memo {
	m := newMemo(key, value)
	m.SessionID, m.CallID = sessionID, callID
	return m
}

func callWritesOnce(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	first := mustRemember(t, open[0], user("ann"), memoOfCall("s", "call_1", "key", `"first"`))
	repeat := memoOfCall("s", "call_1", "key", `"changed its mind"`)
	repeat.At = minute(5)
	sameEntry(t, mustRemember(t, open[1], user("ann"), repeat), first)
	mustRemember(t, open[0], user("ann"), memoOfCall("s", "call_2", "key", `"second"`))
	sameEntry(t, mustRemember(t, open[1], user("ann"), repeat), first)
	repeat.IfVersion = version(0) // as it was asked for when it wrote
	sameEntry(t, mustRemember(t, open[1], user("ann"), repeat), first)
	wantEntry(t, open[1], user("ann"), "key", 0, `"second"`)
	wantEntry(t, open[1], user("ann"), "key", 3, "")

	// Another key, session, owner or call is another writing.
	for i, e := range []store.Entry{
		mustRemember(t, open[0], user("ann"), memoOfCall("s", "call_1", "other", `1`)),
		mustRemember(t, open[0], agent("ann"), memoOfCall("s", "call_1", "key", `1`)),
		mustRemember(t, open[0], user("bob"), memoOfCall("s", "call_1", "key", `1`)),
	} {
		if e.Version != 1 {
			t.Errorf("case %d wrote version %d, want 1", i, e.Version)
		}
	}
	for i, m := range []store.Memo{
		memoOfCall("other", "call_1", "key", `3`), memoOfCall("", "call_1", "key", `4`), memoOfCall("s", "CALL_1", "key", `5`),
		memoOfCall("s", "", "key", `6`), memoOfCall("s", "", "key", `7`), memoOfCall("", "", "key", `8`),
	} {
		if e := mustRemember(t, open[0], user("ann"), m); e.Version != int64(i+3) {
			t.Errorf("call %q of %q wrote version %d, want %d", m.CallID, m.SessionID, e.Version, i+3)
		}
	}
	refused := memoOfCall("s", "late", "key", `9`)
	refused.IfVersion = version(1)
	_, err := ability[store.Memories](t, open[0]).Remember(t.Context(), user("ann"), refused)
	wantStale(t, "a call that comes late", err, "key", 1, 8)
	refused.IfVersion = nil // what was refused has written nothing
	if e := mustRemember(t, open[0], user("ann"), refused); e.Version != 9 {
		t.Errorf("the refused call wrote version %d, want 9", e.Version)
	}
}

func callAfterForget(t testing.TB, d Data) {
	st := d.Open(t)
	first := memoOfCall("s", "call_1", "key", `"first"`)
	mustRemember(t, st, user("ann"), first)
	forget(t, st, user("ann"), "key")
	if e := mustRemember(t, st, user("ann"), first); e.Version != 0 || e.Key != "key" {
		t.Errorf("a call whose entry was forgotten got %s", encode(t, e))
	}
	wantEntry(t, st, user("ann"), "key", 0, "")
	newer := mustRemember(t, st, user("ann"), newMemo("key", `"newer"`))
	sameEntry(t, mustRemember(t, st, user("ann"), first), newer)
	wantEntry(t, st, user("ann"), "key", 0, `"newer"`)
	if _, err := ability[store.Memories](t, st).ForgetAll(t.Context(), user("ann"), false); err != nil {
		t.Fatalf("forget all: %v", err)
	}
	if e := mustRemember(t, st, user("ann"), first); e.Version != 1 || string(e.Value) != `"first"` {
		t.Errorf("a call nobody knows any more wrote %s", encode(t, e))
	}
}

func forgetGoesOn(t testing.TB, d Data) {
	st := d.Open(t)
	for _, value := range []string{"1", "2"} {
		mustRemember(t, st, user("ann"), newMemo("secret", value))
	}
	mustRemember(t, st, user("ann"), newMemo("secret/deeper", "1"))
	if forget(t, st, user("ann"), "missing") || !forget(t, st, user("ann"), "secret") || forget(t, st, user("ann"), "secret") {
		t.Error("forgetting says there was something where nothing was, or the reverse")
	}
	for v := range int64(4) {
		wantEntry(t, st, user("ann"), "secret", v, "")
	}
	if keys := keysOf(t, st, user("ann"), "", "", 0); !slices.Equal(keys, []string{"secret/deeper"}) {
		t.Errorf("keys after forgetting: %q", keys)
	}
	again := newMemo("secret", "3")
	again.At = minute(9)
	e := mustRemember(t, st, user("ann"), again)
	if e.Version != 3 || !e.CreatedAt.Equal(minute(9)) {
		t.Errorf("written again as version %d, created %s", e.Version, e.CreatedAt)
	}
	wantEntry(t, st, user("ann"), "secret", 2, "")
	wantEntry(t, st, user("ann"), "secret", 3, "3")
	forget(t, st, user("ann"), "secret")
	if e := mustRemember(t, st, user("ann"), newMemo("secret", "4")); e.Version != 4 {
		t.Errorf("written a third time as version %d, want 4", e.Version)
	}
}

func forgetAll(t testing.TB, d Data) {
	st := d.Open(t)
	memories := ability[store.Memories](t, st)
	for _, key := range []string{"a", "a", "b/c", "gone"} {
		mustRemember(t, st, user("ann"), newMemo(key, `"forget me"`))
		mustRemember(t, st, agent("ann"), newMemo(key, `1`))
	}
	forget(t, st, user("ann"), "gone")
	all := func(dry bool, want int) {
		t.Helper()
		if n, err := memories.ForgetAll(t.Context(), user("ann"), dry); n != want || err != nil {
			t.Errorf("forget all, dry %t: %d, %v; want %d", dry, n, err, want)
		}
	}
	all(true, 2)
	if keys := keysOf(t, st, user("ann"), "", "", 0); len(keys) != 2 {
		t.Errorf("keys after a dry run: %q", keys)
	}
	all(false, 2)
	all(true, 0)
	all(false, 0)
	if keys := keysOf(t, st, user("ann"), "", "", 0); len(keys) != 0 {
		t.Errorf("keys after all was forgotten: %q", keys)
	}
	wantEntry(t, st, user("ann"), "a", 1, "")
	if keys := keysOf(t, st, agent("ann"), "", "", 0); len(keys) != 3 {
		t.Errorf("the agent of that name has only %q", keys)
	}
	for _, key := range []string{"a", "gone"} {
		if e := mustRemember(t, st, user("ann"), newMemo(key, "1")); e.Version != 1 {
			t.Errorf("%s begins again at version %d", key, e.Version)
		}
	}
}

func memorySize(t testing.TB, d Data) {
	st := d.Open(t)
	most := 256 << 10
	quoted := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	mustRemember(t, st, user("ann"), newMemo("big", quoted(most)))
	wantEntry(t, st, user("ann"), "big", 0, quoted(most))
	_, err := ability[store.Memories](t, st).Remember(t.Context(), user("ann"), newMemo("big", quoted(most+1)))
	wantErr(t, "one byte too many", err, session.ErrInvalid)
	mustRemember(t, st, user("ann"), newMemo("big", quoted(most)+strings.Repeat(" ", 100))) // white space is not kept
	if e := wantEntry(t, st, user("ann"), "big", 0, quoted(most)); e.Version != 2 {
		t.Errorf("version %d, want 2", e.Version)
	}
	long := strings.Repeat("é/", 85) + "é" // 257 bytes
	mustRemember(t, st, user("ann"), newMemo(long[:254]+"xx", "1"))
	_, err = ability[store.Memories](t, st).Remember(t.Context(), user("ann"), newMemo(long, "1"))
	wantErr(t, "a key of 257 bytes", err, session.ErrInvalid)
}

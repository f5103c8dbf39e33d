package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func forksFindShared(t testing.TB, d Data) {
	st := d.Open(t)
	parent := save(t, st, withMessage(t, createOwned(t, st, "parent", "ann"), "tea, shared"))
	child := save(t, st, withMessage(t, createFork(t, st, parent, "child"), "tea, the child's"))
	parent = save(t, st, withMessage(t, parent, "tea, the parent's"))
	grandchild := createFork(t, st, child, "grandchild")
	save(t, st, withMessage(t, grandchild, "tea, the grandchild's"))
	check := func() {
		t.Helper()
		wantFound(t, st, searchIn("child", "tea"), "child: tea, the child's", "child: tea, shared")
		wantFound(t, st, searchIn("grandchild", "tea"),
			"grandchild: tea, the grandchild's", "grandchild: tea, the child's", "grandchild: tea, shared")
	}
	check()
	wantFound(t, st, searchIn("parent", "tea"), "parent: tea, the parent's", "parent: tea, shared")
	gone, err := parent.WithStatus(session.Deleted, "", start().Add(time.Hour))
	if err != nil {
		t.Fatalf("delete: %v", err)
	}
	save(t, st, gone)
	check()
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatalf("purge: %v", err)
	}
	check()
	create(t, st, newSessionFrom(t, session.Identity{ID: "parent", AgentID: "second", UserID: "ann"}))
	check()
	wantFound(t, st, searchIn("parent", "tea"))
	if err := st.Delete(t.Context(), ref("child"), 0); err != nil {
		t.Fatalf("purge: %v", err)
	}
	wantFound(t, st, searchUser("ann", "tea"),
		"grandchild: tea, the grandchild's", "grandchild: tea, the child's", "grandchild: tea, shared")
	if err := st.Delete(t.Context(), ref("grandchild"), 0); err != nil {
		t.Fatalf("purge: %v", err)
	}
	wantFound(t, st, searchUser("ann", "tea"))
}

// forksAreCut forks earlier versions, behind clears and rewinds, and clears
// in a fork what its parent keeps.
func forksAreCut(t testing.TB, d Data) {
	st := d.Open(t)
	s := conversation(t, st, "s", "tea one", "tea two") // versions 2 and 3
	s = save(t, st, withChanges(t, s, session.TranscriptCleared{}))
	s = save(t, st, withMessage(t, s, "tea three"))
	early := createFork(t, st, loadWhole(t, st, ref("s"), 2), "early")
	createFork(t, st, loadWhole(t, st, ref("s"), 3), "before")
	late := createFork(t, st, s, "late")
	wantFound(t, st, searchIn("early", "tea"), "early: tea one")
	wantFound(t, st, searchIn("before", "tea"), "before: tea two", "before: tea one")
	wantFound(t, st, searchIn("late", "tea"), "late: tea three")
	all := searchIn("late", "tea")
	all.Cleared = true
	wantFound(t, st, all, "late: tea three", "late: tea two", "late: tea one")
	all.Session = "early"
	wantFound(t, st, all, "early: tea one")

	save(t, st, withChanges(t, early, session.TranscriptCleared{}))
	wantFound(t, st, searchIn("early", "tea"))
	wantFound(t, st, searchIn("before", "tea"), "before: tea two", "before: tea one")
	back, err := late.Rewound(loadWhole(t, st, ref("late"), 1), start().Add(time.Hour))
	if err != nil {
		t.Fatalf("rewind: %v", err)
	}
	save(t, st, withMessage(t, back, "tea four"))
	wantFound(t, st, searchIn("late", "tea"), "late: tea four", "late: tea three")
	wantFound(t, st, searchIn("s", "tea"), "s: tea three")
}

func rootedForkFinds(t testing.TB, d Data) {
	st := d.Open(t)
	parent := conversation(t, st, "parent", "tea one", "tea two")
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	child := create(t, st, withMessage(t, newFork(t, parent, "child"), "tea three"))
	wantFound(t, st, searchIn("child", "tea"), "child: tea three", "child: tea two", "child: tea one")
	for i, p := range search(t, st, searchIn("child", "tea")) {
		if m := child.Message(2 - i); p.Seq != m.Seq || p.MessageID != m.ID || !p.At.Equal(m.CreatedAt) {
			t.Errorf("passage %+v of message %+v", p, m)
		}
	}
}

func userHasSessionsAndEntries(t testing.TB, d Data) {
	st := d.Open(t)
	names := []string{"ann", "Ann", "ann ", "an", "ann%", "_nn", "ann/tea", "\u00e9", "e\u0301", "a\u00a0b"}
	for i, name := range names {
		for n := range 2 {
			id := fmt.Sprintf("s%d-%d", i, n)
			save(t, st, withMessage(t, createOwned(t, st, id, name), "tea of "+id))
		}
		m := newMemo(fmt.Sprintf("key-%d", i), `"likes tea"`)
		m.At = start().Add(-time.Hour)
		mustRemember(t, st, user(name), m)
		mustRemember(t, st, agent(name), newMemo(fmt.Sprintf("agents-%d", i), `"likes tea"`))
	}
	save(t, st, withMessage(t, createOwned(t, st, "nobodys", ""), "tea"))
	for i, name := range names {
		wantFound(t, st, searchUser(name, "tea"),
			fmt.Sprintf("s%d-0: tea of s%d-0", i, i), fmt.Sprintf("s%d-1: tea of s%d-1", i, i), fmt.Sprintf("key-%d", i))
	}
	wantFound(t, st, searchUser("nobody", "tea"))
}

// everywhereHasAllSessions searches the transcripts of all sessions, whosever
// they are: not the entries, not deleted sessions, not another tenant.
func everywhereHasAllSessions(t testing.TB, d Data) {
	st := d.Open(t)
	everywhere := store.Search{Words: store.Words("tea"), Everywhere: true}
	wantFound(t, st, everywhere)
	save(t, st, withMessage(t, createOwned(t, st, "nobodys", ""), "tea of nobody"))
	parent := save(t, st, withMessage(t, createOwned(t, st, "anns", "ann"), "tea of ann"))
	save(t, st, withMessage(t, createFork(t, st, parent, "fork"), "more tea"))
	gone := save(t, st, withMessage(t, createOwned(t, st, "gone", "ann"), "tea that went"))
	save(t, st, withChanges(t, gone, session.StatusChanged{Status: session.Deleted}))
	create(t, st, withMessage(t, newSessionFrom(t, session.Identity{ID: "theirs", Tenant: "other"}), "tea of others"))
	mustRemember(t, st, user("ann"), newMemo("key", `"likes tea"`))
	wantPassages(t, st, everywhere, "anns: tea of ann", "fork: more tea", "nobodys: tea of nobody")
	everywhere.Words, everywhere.Least = store.Words("tea ann"), 2
	wantPassages(t, st, everywhere, "anns: tea of ann")
	everywhere.User = "ann" // adds the entries and takes nothing away
	everywhere.Words, everywhere.Least = store.Words("tea"), 1
	wantPassages(t, st, everywhere, "anns: tea of ann", "fork: more tea", "key", "nobodys: tea of nobody")
}

// wantPassages fails the test unless a search finds these, given by name.
func wantPassages(t testing.TB, st store.Store, q store.Search, want ...string) {
	t.Helper()
	var have []string
	for _, p := range search(t, st, q) {
		have = append(have, passageLabel(p))
	}
	if slices.Sort(have); !slices.Equal(have, want) {
		t.Errorf("search %+v found %q, want %q", q, have, want)
	}
}

func agentHasEntriesOnly(t testing.TB, d Data) {
	st := d.Open(t)
	s := save(t, st, withMessage(t, createOwned(t, st, "s", "ann"), "tea")) // of the agent tester
	name := s.Info().AgentName
	mustRemember(t, st, user(name), newMemo("users", `"tea"`))
	q := store.Search{Words: store.Words("tea"), Agent: name, Cleared: true, Trace: true}
	wantFound(t, st, q)
	e := mustRemember(t, st, agent(name), newMemo("agents", `"tea"`))
	wantFound(t, st, q, "agents")
	p := search(t, st, q)[0]
	if p != (store.Passage{Owner: agent(name), Key: "agents", Version: 1, Text: "tea", Found: 1, At: p.At}) || !p.At.Equal(e.UpdatedAt) {
		t.Errorf("the passage is %+v", p)
	}
	q.Agent = "Tester"
	wantFound(t, st, q)
}

func foundOnce(t testing.TB, d Data) {
	st := d.Open(t)
	b := save(t, st, withMessage(t, createOwned(t, st, "b", "ann"), "tea, shared"))
	createFork(t, st, b, "c")
	a := createFork(t, st, b, "a")
	save(t, st, withMessage(t, a, "tea, a's"))
	mustRemember(t, st, user("ann"), newMemo("mine", `"tea"`))
	mustRemember(t, st, agent("ann"), newMemo("theirs", `"tea"`))
	q := store.Search{Words: store.Words("tea"), User: "ann", Agent: "ann"}
	wantFound(t, st, q, "a: tea, a's", "a: tea, shared", "theirs", "mine")
	q.Session = "c"
	wantFound(t, st, q, "a: tea, a's", "c: tea, shared", "theirs", "mine")
	q.Session = "b"
	wantFound(t, st, q, "a: tea, a's", "b: tea, shared", "theirs", "mine")
	q.User, q.Session = "", "c"
	wantFound(t, st, q, "c: tea, shared", "theirs")

	// What one of them cleared is found where another still has it.
	save(t, st, withChanges(t, load(t, st, ref("a")), session.TranscriptCleared{}))
	q = searchUser("ann", "shared")
	wantFound(t, st, q, "b: tea, shared")
	q.Session = "a"
	wantFound(t, st, q, "b: tea, shared")
	q.Cleared = true
	wantFound(t, st, q, "a: tea, shared")
}

func newestEntryFound(t testing.TB, d Data) {
	st := d.Open(t)
	q := func(text string) store.Search { return searchUser("ann", text) }
	mustRemember(t, st, user("ann"), newMemo("drinks/favourite", `"green tea"`))
	wantFound(t, st, q("TEA"), "drinks/favourite")
	wantFound(t, st, q("favourite"), "drinks/favourite") // the key is searched too
	second := newMemo("drinks/favourite", `{"name":"coffee","cups":[3]}`)
	second.At = minute(1)
	mustRemember(t, st, user("ann"), second)
	wantFound(t, st, q("tea"))
	for _, text := range []string{"coffee", "cups", "3", "drinks"} {
		wantFound(t, st, q(text), "drinks/favourite")
	}
	if p := search(t, st, q("coffee"))[0]; p.Version != 2 || p.Text != string(second.Value) || !p.At.Equal(minute(1)) || p.SessionID != "" {
		t.Errorf("the passage is %+v", p)
	}
	mustRemember(t, st, user("ann"), newMemo("nothing", `null`))
	mustRemember(t, st, user("ann"), newMemo("odd", `"nul\u0000tea"`))
	wantFound(t, st, q("null"), "nothing")
	wantFound(t, st, q("odd"), "odd")
	forget(t, st, user("ann"), "drinks/favourite")
	wantFound(t, st, q("coffee"))
	wantFound(t, st, q("drinks"))
	mustRemember(t, st, user("ann"), newMemo("drinks/favourite", `"milk"`))
	wantFound(t, st, q("drinks"), "drinks/favourite")
	if _, err := ability[store.Memories](t, st).ForgetAll(t.Context(), user("ann"), false); err != nil {
		t.Fatalf("forget all: %v", err)
	}
	wantFound(t, st, q("drinks milk null"))
}

func ranksAndLimits(t testing.TB, d Data) {
	st := d.Open(t)
	at := func(s session.Session, text string, when time.Time) session.Session {
		m := session.Message{ID: fmt.Sprint("m", s.Seq()), Role: session.RoleUser, Content: session.Text(text), CreatedAt: when}
		return withChanges(t, s, session.MessageAdded{Message: m})
	}
	s := createOwned(t, st, "s", "ann")
	s = at(at(s, "hot tea late", minute(9)), "hot tea with milk", minute(1)) // the order of writing is not that of time
	save(t, st, at(at(s, "tea again", minute(5)), "tea again", minute(5)))
	save(t, st, at(createOwned(t, st, "r", "ann"), "tea again", minute(5)))
	for _, key := range []string{"b", "a"} {
		m := newMemo(key, `"tea again"`)
		m.At = minute(5)
		mustRemember(t, st, user("ann"), m)
		mustRemember(t, st, agent("ann"), m)
	}
	q := store.Search{Words: store.Words("Tea hot MILK tea"), User: "ann", Agent: "ann"}
	want := []string{
		"s: hot tea with milk", "s: hot tea late", "r: tea again", "s: tea again", "s: tea again",
		"a", "b", "a", "b", // the agent's before the user's
	}
	wantFound(t, st, q, want...)
	all := search(t, st, q)
	if all[3].Seq >= all[4].Seq || all[5].Owner != agent("ann") || all[8].Owner != user("ann") {
		t.Errorf("equals are not in order: %+v", all[3:])
	}
	for i, found := range []int{3, 2, 1} {
		if all[i].Found != found {
			t.Errorf("%q holds %d words, want %d", all[i].Text, all[i].Found, found)
		}
	}
	for n := 1; n <= len(want); n++ {
		q.Limit = n
		wantFound(t, st, q, want[:n]...)
	}
	many := createOwned(t, st, "many", "bob")
	for range 60 {
		many = withMessage(t, many, "tea")
	}
	save(t, st, many)
	if n := len(search(t, st, searchUser("bob", "tea"))); n != 50 {
		t.Errorf("%d found without a limit, want 50", n)
	}
	q = searchUser("bob", "tea")
	q.Limit = 1000
	if n := len(search(t, st, q)); n != 60 {
		t.Errorf("%d found with a limit of 1000, want all 60", n)
	}
}

func leastWords(t testing.TB, d Data) {
	st := d.Open(t)
	conversation(t, st, "s", "one", "one two", "one two three", "one one one", "four")
	for least, want := range [][]string{
		{"s: one two three", "s: one two", "s: one one one", "s: one"},
		{"s: one two three", "s: one two", "s: one one one", "s: one"},
		{"s: one two three", "s: one two"},
		{"s: one two three"},
		nil,
	} {
		q := searchIn("s", "one two three")
		q.Least = least
		wantFound(t, st, q, want...)
	}
	q := store.Search{Words: []string{"one", "one", "two"}, Session: "s", Least: 2} // a word twice is one word
	wantFound(t, st, q, "s: one two three", "s: one two")
}

func foldsCase(t testing.TB, d Data) {
	st := d.Open(t)
	for i, c := range []struct{ text, query string }{
		{"STRASSE", "Straße"}, {"ΟΔΥΣΣΕΥΣ", "οδυσσευς"}, {"Привет Мир", "привет"}, {"東京タワー", "東"}, {"안녕하세요", "안녕하세요"},
		{"שלום עולם", "עולם"}, {"مرحبا بالعالم", "مرحبا"}, {"สวัสดี", "สวัสดี"}, {"ＦＵＬＬ width", "ｆｕｌｌ"}, {"İstanbul", "İSTANBUL"},
		{"don't", "DON'T"}, {"v1.5", "V1.5"}, {"№ ¹²³ x", "x"}, {"👩‍👩‍👧 family", "family"}, {"e\u0301clair", "E\u0301CLAIR"},
	} {
		id := fmt.Sprint("s", i)
		conversation(t, st, id, c.text)
		q := searchIn(id, c.query)
		q.Least = len(q.Words)
		wantFound(t, st, q, id+": "+c.text)
	}
	wantFound(t, st, searchIn("s14", "\u00e9clair"), "s14: e\u0301clair") // composed or not, it is the same word
	wantFound(t, st, searchIn("s14", "eclairs"), "s14: e\u0301clair")     // so it is without its accent, or inflected
	wantFound(t, st, searchIn("s13", "👩‍👩‍👧"), "s13: 👩‍👩‍👧 family")
	wantFound(t, st, searchIn("s0", "stras")) // a part is not the word
}

// wordsAreNoPatterns sends words that mean something to search engines,
// patterns and statements.
func wordsAreNoPatterns(t testing.TB, d Data) {
	st := d.Open(t)
	conversation(t, st, "s", "cats and dogs or not near a_b 100", "axb", "dog")
	mustRemember(t, st, user("ann"), newMemo(`k%_*'"\`, `"x%_*'\"\\"`))
	for _, word := range []string{
		"*", "%", "_", "'", `"`, `\`, "dog*", "%dog%", `"dog"`, "'dog'", "cat*", "cat:*", "dogs OR dog", "dogs & dog", "!dogs", "-dogs", "NOT", "AND", "NEAR", "text:dogs", "^cats",
		"(", ")", "a%", "do_s", "'; drop table sessions; --", "$1", "?", ":a", "{dogs}", "dog s", "\\", "\n", "💥", strings.Repeat("x", 5000),
	} {
		wantFound(t, st, store.Search{Words: []string{word}, Session: "s", User: "ann"})
	}
	first := "s: cats and dogs or not near a_b 100"
	for _, word := range []string{"and", "or", "not", "near", "a_b", "100"} {
		wantFound(t, st, store.Search{Words: []string{word}, Session: "s"}, first)
	}
	wantFound(t, st, store.Search{Words: []string{"near", "*", "or dog", "\""}, Session: "s"}, first)
	wantFound(t, st, searchUser("ann", "k x"), `k%_*'"\`)
}

func textsAndResults(t testing.TB, d Data) {
	st := d.Open(t)
	call := session.ToolCall{ID: "c1", Name: "kettle", Arguments: []byte(`{"what":"argument"}`)}
	create(t, st, withChanges(t, newSession(t, "s"),
		session.MessageAdded{Message: session.Message{ID: "parts", Role: session.RoleUser, Name: "named", Content: session.Content{
			{Type: session.PartText, Text: "first"}, {Type: session.PartText, Text: "second nul\x00 part"},
		}}},
		session.MessageAdded{Message: session.Message{ID: "call", Role: session.RoleAssistant, ToolCalls: []session.ToolCall{call}}},
		session.MessageAdded{Message: session.Message{ID: "result", Role: session.RoleTool,
			ToolResult: &session.ToolResult{CallID: "c1", ToolName: "kettle", Content: "brewed"}}},
	))
	for query, id := range map[string]string{"first": "parts", "second": "parts", "part": "parts", "brewed": "result"} {
		if found := search(t, st, searchIn("s", query)); len(found) != 1 || found[0].MessageID != id {
			t.Errorf("%q found %+v, want %s", query, found, id)
		}
	}
	if p := search(t, st, searchIn("s", "first"))[0]; p.Text != "first\nsecond nul\x00 part" {
		t.Errorf("the text is %q", p.Text)
	}
	for _, query := range []string{"kettle", "argument", "named", "user", "text"} {
		wantFound(t, st, searchIn("s", query))
	}
}

func longTexts(t testing.TB, d Data) {
	st := d.Open(t)
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "word%d ", i)
	}
	text.WriteString(strings.Repeat("x", 70) + " " + strings.Repeat("é", 40) + strings.Repeat(" tail", 5_000))
	long := text.String()
	save(t, st, withMessage(t, createOwned(t, st, "s", "ann"), long))
	mustRemember(t, st, user("ann"), newMemo("long", string(quote(t, long))))
	words := []string{"word0", "word1999", "tail", strings.Repeat("x", 70), strings.Repeat("é", 40)}
	for _, word := range words {
		found := search(t, st, searchUser("ann", word))
		if len(found) != 2 || found[0].Text != long || found[1].Text != long {
			t.Errorf("%.20q is found in %d passages, want 2 whole ones", word, len(found))
		}
	}
	q := searchUser("ann", strings.Join(words, " "))
	q.Least = len(words)
	if found := search(t, st, q); len(found) != 2 || found[0].Found != len(words) {
		t.Errorf("all of them are found in %d passages, want 2", len(found))
	}
	q = searchUser("ann", long)
	if found := search(t, st, q); len(found) != 2 || found[0].Found != len(q.Words) {
		t.Errorf("%d words are found in %d passages, want 2", len(q.Words), len(found))
	}
	if !slices.Contains(q.Words, strings.Repeat("x", 64)) {
		t.Errorf("a word too long is not cut")
	}
}

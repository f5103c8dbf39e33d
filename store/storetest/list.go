package storetest

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func listBehaviours() []behaviour {
	return []behaviour{
		{name: "list/filtersByEveryField", check: filtersByEveryField},
		{name: "list/findsSessionsWithPendingCalls", check: findsPending},
		{name: "list/ordersWithTheIDAsTieBreak", check: ordersWithTieBreak},
		{name: "list/pagesAreStableUnderInserts", check: pagesAreStable},
		{name: "list/foreignAndAlteredCursorsAreRefused", check: foreignCursors},
		{name: "list/badQueriesAreRefused", check: badQueries},
		{name: "list/hasLimits", check: listHasLimits},
		{name: "list/showsHeadersAsSaved", check: listShowsHeaders},
		{name: "list/findsMetadataAsItIs", check: metadataIsFoundAsItIs},
		{name: "list/findsMetadataOfTheTailOnceSealed", needs: []string{Tails}, check: metadataOfTheTail},
		{name: "list/findsMetadataOfForks", needs: []string{Forks}, check: metadataOfForks},
		{name: "list/findsAnyOfManyKeys", check: manyKeys},
	}
}

// find lists and returns the ids.
func find(t testing.TB, st store.Store, q store.Query) []string {
	t.Helper()
	page, err := st.List(t.Context(), session.DefaultTenant, q)
	if err != nil {
		t.Fatalf("list %+v: %v", q, err)
	}
	ids := []string{}
	for _, i := range page.Items {
		ids = append(ids, i.ID)
	}
	return ids
}

// storedAt creates a session whose header was created and updated at a moment.
func storedAt(t testing.TB, st store.Store, b session.Identity, def session.Definition, at time.Time, changes ...session.Change) {
	t.Helper()
	b.AgentID = "agent-of-" + b.ID
	s, err := session.New(b, def, session.Seed{}, at)
	if err != nil {
		t.Fatalf("make %s: %v", b.ID, err)
	}
	if s, err = s.With(at, changes...); err != nil {
		t.Fatalf("change %s: %v", b.ID, err)
	}
	c := commit(s, "create")
	c.At = at
	if _, err := st.Create(t.Context(), s, c); err != nil {
		t.Fatalf("create %s: %v", b.ID, err)
	}
}

// findsPending: a session is found while calls of its last version wait.
func findsPending(t testing.TB, d Data) {
	st := d.Open(t)
	def := session.Definition{Name: "tester"}
	waits := func(id string) []session.Change {
		return []session.Change{
			session.ExecutionStarted{ExecutionID: "e-" + id}, session.InferenceAnswered{StepID: "s"},
			session.CallPending{Call: session.PendingCall{ID: "p-" + id, Kind: session.PendingQuestion, CallID: "c", StepID: "s"}},
			session.ExecutionWaiting{},
		}
	}
	storedAt(t, st, session.Identity{ID: "idle", Name: `"pending":`}, def, start())
	storedAt(t, st, session.Identity{ID: "first", UserID: "ann"}, def, start().Add(time.Hour), waits("first")...)
	storedAt(t, st, session.Identity{ID: "second", UserID: "bob"}, def, start().Add(2*time.Hour), waits("second")...)
	for _, c := range []struct {
		q    store.Query
		want []string
	}{
		{store.Query{Pending: true}, []string{"second", "first"}},
		{store.Query{Pending: true, UserID: "ann"}, []string{"first"}},
		{store.Query{Pending: true, Order: store.IDAsc}, []string{"first", "second"}},
		{store.Query{}, []string{"second", "first", "idle"}},
	} {
		if have := find(t, st, c.q); !slices.Equal(have, c.want) {
			t.Errorf("%+v found %v, want %v", c.q, have, c.want)
		}
	}
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{Pending: true, Limit: 1})
	if err != nil || len(page.Items) != 1 || page.Items[0].Pending != 1 || page.Next == "" {
		t.Fatalf("first page %+v, %v", page, err)
	}
	if have := find(t, st, store.Query{Pending: true, Limit: 1, Cursor: page.Next}); !slices.Equal(have, []string{"first"}) {
		t.Errorf("second page %v", have)
	}
	change := func(id string, hours int, changes ...session.Change) {
		s, err := st.Load(t.Context(), store.Ref{Tenant: session.DefaultTenant, ID: id}, false)
		if err == nil {
			s, err = s.With(start().Add(time.Duration(hours)*time.Hour), changes...)
		}
		if err == nil {
			_, err = st.Save(t.Context(), s, commit(s, "change-"+id))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change("first", 3, session.CallResponded{Response: session.Response{PendingID: "p-first", Action: session.RespondAnswer, Text: "yes"}})
	if have := find(t, st, store.Query{Pending: true}); !slices.Equal(have, []string{"second"}) {
		t.Errorf("after the response: %v", have)
	}
	change("idle", 4, waits("idle")...)
	if have := find(t, st, store.Query{Pending: true, Order: store.IDAsc}); !slices.Equal(have, []string{"idle", "second"}) {
		t.Errorf("after another one began to wait: %v", have)
	}
}

func filtersByEveryField(t testing.TB, d Data) {
	st := d.Open(t)
	at := func(hours int) time.Time { return start().Add(time.Duration(hours) * time.Hour) }
	def := session.Definition{Name: "tester"}
	hostile := `%_'"\ ☃`
	storedAt(t, st, session.Identity{ID: "plain"}, def, at(0))
	storedAt(t, st, session.Identity{ID: "named", Name: hostile, UserID: "ann"}, def, at(1))
	storedAt(t, st, session.Identity{ID: "child", ParentID: "plain", Origin: session.OriginSubagent, Depth: 1, UserID: "bob"}, def, at(2))
	storedAt(t, st, session.Identity{ID: "task", Kind: session.KindTask}, def, at(3), session.TaskRowChanged{Task: session.TaskRow{Status: "running"}})
	storedAt(t, st, session.Identity{ID: "flow", Kind: session.KindWorkflow}, def, at(4), session.WorkflowRowChanged{Workflow: session.WorkflowRow{Status: "failed"}})
	storedAt(t, st, session.Identity{ID: "policy", Kind: session.KindPolicy}, def, at(5))
	storedAt(t, st, session.Identity{ID: "done"}, def, at(6), session.StatusChanged{Status: session.Completed})
	storedAt(t, st, session.Identity{ID: "hidden"}, def, at(7), session.StatusChanged{Status: session.Deleted})
	storedAt(t, st, session.Identity{ID: "other"}, session.Definition{Name: "other-agent"}, at(8))
	storedAt(t, st, session.Identity{ID: "tagged"}, def, at(9),
		session.MetadataWritten{Key: "k'1", Value: quote(t, hostile)}, session.MetadataWritten{Key: "empty", Value: quote(t, "")},
		session.MetadataWritten{Key: "null", Value: []byte("null")}, session.MetadataWritten{Key: "number", Value: []byte("7")})

	all := []string{"child", "done", "flow", "named", "other", "plain", "tagged", "task"}
	for _, c := range []struct {
		name string
		q    store.Query
		want []string
	}{
		{"nothing", store.Query{}, all},
		{"kind", store.Query{Kinds: []session.Kind{session.KindTask, session.KindPolicy}}, []string{"policy", "task"}},
		{"status", store.Query{Statuses: []session.Status{session.Completed}}, []string{"done"}},
		{"deleted status", store.Query{Statuses: []session.Status{session.Deleted, session.Completed}}, []string{"done", "hidden"}},
		{"include deleted", store.Query{IncludeDeleted: true}, append(slices.Clone(all), "hidden")},
		{"task status", store.Query{TaskStatuses: []string{"running", "x"}}, []string{"task"}},
		{"other task status", store.Query{TaskStatuses: []string{"failed"}}, nil},
		{"workflow status", store.Query{WorkflowStatuses: []string{"failed"}}, []string{"flow"}},
		{"agent", store.Query{Agent: "other-agent"}, []string{"other"}},
		{"parent", store.Query{ParentID: "plain"}, []string{"child"}},
		{"origin", store.Query{Origin: session.OriginSubagent}, []string{"child"}},
		{"user", store.Query{UserID: "ann"}, []string{"named"}},
		{"name", store.Query{Name: hostile}, []string{"named"}},
		{"part of a name", store.Query{Name: "%"}, nil},
		{"created after", store.Query{CreatedAfter: at(8)}, []string{"tagged"}},
		{"created before", store.Query{CreatedBefore: at(1)}, []string{"plain"}},
		{"updated after", store.Query{UpdatedAfter: at(8).Add(-time.Microsecond)}, []string{"other", "tagged"}},
		{"updated before", store.Query{UpdatedBefore: at(1).Add(time.Microsecond)}, []string{"named", "plain"}},
		{"metadata", store.Query{Metadata: map[string]string{"k'1": hostile}}, []string{"tagged"}},
		{"two metadata keys", store.Query{Metadata: map[string]string{"k'1": hostile, "empty": "x"}}, nil},
		{"empty metadata", store.Query{Metadata: map[string]string{"empty": ""}}, []string{"tagged"}},
		{"null is no string", store.Query{Metadata: map[string]string{"null": ""}}, nil},
		{"a number is no string", store.Query{Metadata: map[string]string{"number": "7"}}, nil},
		{"missing metadata", store.Query{Metadata: map[string]string{"none": ""}}, nil},
		{"all at once", store.Query{
			Kinds: []session.Kind{session.KindChat}, Statuses: []session.Status{session.Active}, Agent: "tester", UserID: "ann",
			Name: hostile, Origin: session.OriginRoot, CreatedAfter: at(0), CreatedBefore: at(2), UpdatedAfter: at(0), UpdatedBefore: at(2),
		}, []string{"named"}},
	} {
		c.q.Order = store.IDAsc
		slices.Sort(c.want)
		if have := find(t, st, c.q); !slices.Equal(have, c.want) && len(have)+len(c.want) > 0 {
			t.Errorf("by %s: %v, want %v", c.name, have, c.want)
		}
	}
}

func ordersWithTieBreak(t testing.TB, d Data) {
	st := d.Open(t)
	def := session.Definition{Name: "tester"}
	for _, id := range []string{"b", "a", "B", "A", "a-1", "a_1", "10", "9"} {
		storedAt(t, st, session.Identity{ID: id}, def, start())
	}
	storedAt(t, st, session.Identity{ID: "newer"}, def, start().Add(time.Microsecond))
	storedAt(t, st, session.Identity{ID: "older"}, def, start().Add(-time.Microsecond))
	tied := []string{"10", "9", "A", "B", "a", "a-1", "a_1", "b"} // by bytes, on every store
	byTime := slices.Concat([]string{"newer"}, tied, []string{"older"})
	for order, want := range map[store.Order][]string{
		"": byTime, store.UpdatedDesc: byTime, store.CreatedDesc: byTime,
		store.IDAsc: {"10", "9", "A", "B", "a", "a-1", "a_1", "b", "newer", "older"},
	} {
		if have := find(t, st, store.Query{Order: order}); !slices.Equal(have, want) {
			t.Errorf("order %q: %v, want %v", order, have, want)
		}
	}
	s := load(t, st, ref("older"))
	c := commit(s, "touch")
	c.At = start().Add(time.Hour)
	if _, err := st.Save(t.Context(), s, c); err != nil {
		t.Fatalf("save: %v", err)
	}
	if have := find(t, st, store.Query{Limit: 1}); !slices.Equal(have, []string{"older"}) {
		t.Errorf("last updated: %v, want older", have)
	}
	if have := find(t, st, store.Query{Limit: 1, Order: store.CreatedDesc}); !slices.Equal(have, []string{"newer"}) {
		t.Errorf("last created: %v, want newer", have)
	}
}

// pagesAreStable reads pages while sessions come and go: what was there all
// the time is read once, in order.
func pagesAreStable(t testing.TB, d Data) {
	for _, order := range []store.Order{store.UpdatedDesc, store.CreatedDesc, store.IDAsc} {
		st := d.Open(t)
		tenant := "pages-" + strings.ReplaceAll(string(order), "_", "-")
		def := session.Definition{Name: "tester"}
		add := func(id string, at time.Time) { storedAt(t, st, session.Identity{ID: id, Tenant: tenant}, def, at) }
		var want []string
		for i := range 23 {
			add(fmt.Sprintf("s%02d", i), start().Add(time.Duration(i/3)*time.Second))
			want = append(want, fmt.Sprintf("s%02d", i))
		}
		var have []string
		q := store.Query{Order: order, Limit: 5}
		for page := 0; ; page++ {
			p, err := st.List(t.Context(), tenant, q)
			if err != nil {
				t.Fatalf("page %d by %s: %v", page, order, err)
			}
			if len(p.Items) > 5 {
				t.Fatalf("a page of %d", len(p.Items))
			}
			for _, i := range p.Items {
				if strings.HasPrefix(i.ID, "s") {
					have = append(have, i.ID)
				}
			}
			if q.Cursor = p.Next; q.Cursor == "" {
				break
			}
			// One before everything, one after, one in the middle; one that was read goes.
			add(fmt.Sprintf("a-%d", page), start().Add(time.Hour+time.Duration(page)*time.Second))
			add(fmt.Sprintf("z-%d", page), start().Add(-time.Hour))
			add(fmt.Sprintf("m-%d", page), start().Add(4*time.Second))
			if err := st.Delete(t.Context(), store.Ref{Tenant: tenant, ID: have[0]}, 0); err != nil {
				t.Fatalf("delete: %v", err)
			}
		}
		inOrder := slices.Clone(have)
		slices.Sort(inOrder)
		if !slices.Equal(inOrder, want) {
			t.Errorf("by %s: read %v, want each of %v once", order, have, want)
		}
	}
}

func foreignCursors(t testing.TB, d Data) {
	st := d.Open(t)
	for i := range 6 {
		create(t, st, newSession(t, fmt.Sprintf("s%d", i)))
	}
	q := store.Query{Limit: 2, UserID: ""}
	page, err := st.List(t.Context(), session.DefaultTenant, q)
	if err != nil || page.Next == "" {
		t.Fatalf("first page: next %q, %v", page.Next, err)
	}
	refuse := func(what string, q store.Query) {
		t.Helper()
		_, err := st.List(t.Context(), session.DefaultTenant, q)
		wantErr(t, what, err, session.ErrInvalid)
	}
	raw, err := base64.RawURLEncoding.DecodeString(page.Next)
	if err != nil {
		raw = []byte(page.Next) // an opaque cursor may be anything
	}
	for what, cursor := range map[string]string{
		"nonsense":          "nonsense!",
		"a cut cursor":      page.Next[:len(page.Next)-2],
		"a longer cursor":   page.Next + "AA",
		"an altered cursor": base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(raw), "s", "t", 1))),
		"a padded cursor":   base64.RawURLEncoding.EncodeToString(append(slices.Clone(raw), ' ')),
		"a flipped cursor":  flipCharacter(page.Next),
	} {
		refuse(what, store.Query{Limit: 2, Cursor: cursor})
	}
	refuse("a cursor of another order", store.Query{Limit: 2, Order: store.IDAsc, Cursor: page.Next})
	refuse("a cursor of another filter", store.Query{Limit: 2, Agent: "tester", Cursor: page.Next})
	refuse("a cursor of another metadata filter", store.Query{Limit: 2, Metadata: map[string]string{"a": "b"}, Cursor: page.Next})
	if have := find(t, st, store.Query{Limit: 4, Cursor: page.Next}); len(have) != 4 { // the limit may change
		t.Errorf("second page: %v", have)
	}
}

// flipCharacter changes one character in the middle.
func flipCharacter(cursor string) string {
	b := []byte(cursor)
	i := len(b) / 2
	if b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

func badQueries(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "one"))
	for what, q := range map[string]store.Query{
		"a negative limit":  {Limit: -1},
		"too high a limit":  {Limit: 1001},
		"an unknown order":  {Order: "random"},
		"an unknown kind":   {Kinds: []session.Kind{"x"}},
		"an unknown status": {Statuses: []session.Status{"x"}},
	} {
		_, err := st.List(t.Context(), session.DefaultTenant, q)
		wantErr(t, "a query with "+what, err, session.ErrInvalid)
	}
}

func listHasLimits(t testing.TB, d Data) {
	st := d.Open(t)
	for i := range 53 {
		create(t, st, newSession(t, fmt.Sprintf("s%02d", i)))
	}
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{})
	if err != nil || len(page.Items) != 50 || page.Next == "" {
		t.Errorf("by default: %d sessions, next %q, %v; want 50 and a next page", len(page.Items), page.Next, err)
	}
	page, err = st.List(t.Context(), session.DefaultTenant, store.Query{Limit: 53})
	if err != nil || len(page.Items) != 53 || page.Next != "" {
		t.Errorf("with limit 53: %d sessions, next %q, %v; want all and no next page", len(page.Items), page.Next, err)
	}
	page, err = st.List(t.Context(), "nobody", store.Query{})
	if err != nil || len(page.Items) != 0 || page.Next != "" || string(encode(t, page)) != `{"items":[]}` {
		t.Errorf("of an unknown tenant: %s, %v", encode(t, page), err)
	}
}

func listShowsHeaders(t testing.TB, d Data) {
	st := d.Open(t)
	s := taskSession(t, st, "shown")
	s = save(t, st, withChanges(t, withMessage(t, s, "hello"), session.NameChanged{Name: "A name"}))
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("list: %d, %v", len(page.Items), err)
	}
	sameInfo(t, page.Items[0], s.Info())
}

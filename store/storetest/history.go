package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func historyBehaviours() []behaviour {
	needs := []string{Logs}
	return []behaviour{
		{name: "history/everyVersionLoads", needs: needs, check: everyVersionLoads},
		{name: "history/versionsOutsideAreRefused", needs: needs, check: versionsOutside},
		{name: "history/logHasNoGapAndNoRepeat", needs: needs, check: logHasNoGap},
		{name: "history/logFollowsALiveWriter", needs: []string{Logs, Tails}, check: logFollowsAWriter},
		{name: "history/discardedChangesStayInTheLog", needs: []string{Logs, Tails}, check: discardedStayInLog},
		{name: "history/commitsAreAnAudit", needs: needs, check: commitsAreAnAudit},
		{name: "history/prunedMessagesStayReadable", needs: needs, check: prunedStayReadable},
		{name: "history/movedWindowsShowTheirMessages", needs: needs, check: movedWindowsShow},
		{name: "history/rewindsKeepEveryVersion", needs: needs, check: rewindsKeepVersions},
		{name: "history/missingSessionsAreNotFound", needs: needs, check: historyOfNobody},
	}
}

// allEntries reads a log in pages.
func allEntries(t testing.TB, st store.Store, r store.Ref, page int) []session.LogEntry {
	t.Helper()
	var all []session.LogEntry
	after := int64(0)
	for {
		entries, err := ability[store.Logs](t, st).Log(t.Context(), r, after, page)
		if err != nil {
			t.Fatalf("log of %s after %d: %v", r.ID, after, err)
		}
		if page > 0 && len(entries) > page {
			t.Fatalf("a page of %d where %d were asked for", len(entries), page)
		}
		if len(entries) == 0 {
			return all
		}
		all = append(all, entries...)
		after = entries[len(entries)-1].Seq
	}
}

// everyVersionLoads saves past several snapshots, with clears, window moves
// and empty versions among them, and loads each version again.
func everyVersionLoads(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "long"))
	versions := []session.Session{s}
	for i := range 210 {
		next := s
		switch {
		case i%41 == 40:
			next = withChanges(t, next, session.TranscriptCleared{})
		case i%17 == 16:
			next = withChanges(t, next, session.WindowMoved{Strategy: session.PruneSliding, To: next.Seq() - 3, Keep: []int64{}})
		case i%7 == 6: // a version without a change
		default:
			next = withMessage(t, next, fmt.Sprintf("message %d", i))
		}
		s = save(t, st, next)
		versions = append(versions, s)
	}
	for i, want := range versions {
		v := int64(i + 1)
		at, err := ability[store.Logs](t, st).LoadAt(t.Context(), ref("long"), v)
		if err != nil {
			t.Fatalf("load version %d: %v", v, err)
		}
		wantSame(t, at, want)
		if i%25 == 0 {
			sameWhole(t, loadWhole(t, st, ref("long"), v), want)
		}
	}
	sameWhole(t, loadWhole(t, st, ref("long"), 0), s)
}

func versionsOutside(t testing.TB, d Data) {
	st := d.Open(t)
	conversation(t, st, "short", "one")
	logs := ability[store.Logs](t, st)
	for _, v := range []int64{-1, 3, 1 << 40} {
		_, err := logs.LoadAt(t.Context(), ref("short"), v)
		wantErr(t, fmt.Sprintf("load version %d of 2", v), err, session.ErrInvalid)
		_, err = logs.LoadWhole(t.Context(), ref("short"), v)
		wantErr(t, fmt.Sprintf("load version %d of 2 whole", v), err, session.ErrInvalid)
	}
	_, err := logs.LoadAt(t.Context(), ref("short"), 0)
	wantErr(t, "load version 0", err, session.ErrInvalid)
	_, err = logs.Log(t.Context(), ref("short"), 0, -1)
	wantErr(t, "log with a negative limit", err, session.ErrInvalid)
	_, err = logs.Commits(t.Context(), ref("short"), 0, -1)
	wantErr(t, "commits with a negative limit", err, session.ErrInvalid)
}

func logHasNoGap(t testing.TB, d Data) {
	st := d.Open(t)
	s := conversation(t, st, "logged", "one", "two", "three", "four", "five")
	for _, page := range []int{0, 1, 2, 100} {
		entries := allEntries(t, st, ref("logged"), page)
		if len(entries) != int(s.Seq()) {
			t.Fatalf("%d entries in pages of %d, want %d", len(entries), page, s.Seq())
		}
		for i, e := range entries {
			if e.Seq != int64(i+1) || e.Version != int64(i+1) || e.Discarded || e.At.IsZero() {
				t.Errorf("entry %d: seq %d, version %d, discarded %t, at %s", i, e.Seq, e.Version, e.Discarded, e.At)
			}
		}
		records := make([]session.Record, len(entries))
		for i, e := range entries {
			records[i] = e.Record
		}
		folded, err := session.Fold(records)
		if err != nil {
			t.Fatalf("fold the log: %v", err)
		}
		wantTexts(t, folded, "one", "two", "three", "four", "five")
	}
	if entries, err := ability[store.Logs](t, st).Log(t.Context(), ref("logged"), s.Seq()+10, 0); err != nil || len(entries) != 0 {
		t.Errorf("log after its end: %d entries, %v", len(entries), err)
	}
}

// logFollowsAWriter reads while another handle appends, saves and discards:
// the reader sees every change once and in order.
func logFollowsAWriter(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "followed"))
	const rounds = 25
	last := s.Seq() + 3*rounds
	var seen []int64
	errs := runTogether(t, d, 2, func(i int, st store.Store) error {
		if i == 0 {
			return followLog(t, st, last, &seen)
		}
		for range rounds {
			flushed, err := ability[store.Tails](t, st).Append(t.Context(), withNote(t, withNote(t, s, "a"), "b"), store.Append{})
			if err != nil {
				return err
			}
			next := withNote(t, flushed, "c")
			if s, err = st.Save(t.Context(), next, commit(next, "test")); err != nil {
				return err
			}
		}
		return nil
	})
	for i, err := range errs {
		if err != nil {
			t.Errorf("worker %d: %v", i, err)
		}
	}
	for i, seq := range seen {
		if seq != int64(i+1) {
			t.Fatalf("the reader saw seq %d in place of %d", seq, i+1)
		}
	}
	if int64(len(seen)) != last {
		t.Errorf("the reader saw %d changes of %d", len(seen), last)
	}
}

func followLog(t testing.TB, st store.Store, last int64, seen *[]int64) error {
	after := int64(0)
	for after < last {
		entries, err := ability[store.Logs](t, st).Log(t.Context(), ref("followed"), after, 7)
		if err != nil {
			return err
		}
		for _, e := range entries {
			*seen = append(*seen, e.Seq)
			after = e.Seq
		}
	}
	return nil
}

func discardedStayInLog(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "marked"))
	worked := mustAppend(t, st, withMessage(t, withNote(t, s, "x"), "refused"))
	discard(t, st, s, s.Seq()+1, worked.Seq())
	check := func(version int64) {
		t.Helper()
		entries := allEntries(t, st, ref("marked"), 0)
		for i, e := range entries[s.Seq():] {
			refused := e.Seq <= worked.Seq()
			if e.Discarded != refused || e.Version != version {
				t.Errorf("entry %d of the tail, %s: discarded %t at version %d, want %t at %d", i, e.Change.Kind(), e.Discarded, e.Version, refused, version)
			}
		}
		if len(entries) != int(worked.Seq())+1 {
			t.Errorf("%d entries, want %d", len(entries), worked.Seq()+1)
		}
	}
	check(0)
	sealed := save(t, st, loadTail(t, st, ref("marked")))
	check(2)
	sameWhole(t, loadWhole(t, st, ref("marked"), 0), sealed)
	save(t, st, withMessage(t, sealed, "later"))
	again, err := ability[store.Logs](t, st).LoadAt(t.Context(), ref("marked"), 2)
	if err != nil {
		t.Fatalf("load version 2: %v", err)
	}
	wantSame(t, again, sealed)
}

func commitsAreAnAudit(t testing.TB, d Data) {
	st := d.Open(t)
	fresh := newSession(t, "audited")
	want := []store.CommitInfo{{ID: "c1", Version: 1, FirstSeq: 1, LastSeq: 1, Action: "create", Actor: "ann", At: start()}}
	s, err := st.Create(t.Context(), fresh, store.Commit{ID: "c1", Action: "create", Actor: "ann", At: start()})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	for i, next := range []int{2, 0, 1} { // how many changes each save brings
		at := start().Add(time.Duration(i+1) * time.Minute)
		changed := s
		for range next {
			changed = withNote(t, changed, "x")
		}
		c := store.Commit{ID: fmt.Sprintf("c%d", i+2), Action: fmt.Sprintf("Action%d", i), Actor: "it's \"bob\"", At: at}
		want = append(want, store.CommitInfo{
			ID: c.ID, Version: s.Version() + 1, FirstSeq: s.Seq() + 1, LastSeq: changed.Seq(), Action: c.Action, Actor: c.Actor, At: at,
		})
		if s, err = st.Save(t.Context(), changed, c); err != nil {
			t.Fatalf("save: %v", err)
		}
	}
	have, err := ability[store.Logs](t, st).Commits(t.Context(), ref("audited"), 0, 0)
	if g, w := string(encode(t, have)), string(encode(t, want)); err != nil || g != w {
		t.Errorf("commits: %v\n got %s\nwant %s", err, g, w)
	}
	have, err = ability[store.Logs](t, st).Commits(t.Context(), ref("audited"), 1, 2)
	if g, w := string(encode(t, have)), string(encode(t, want[1:3])); err != nil || g != w {
		t.Errorf("commits after 1, at most 2: %v\n got %s\nwant %s", err, g, w)
	}
	if have, err = ability[store.Logs](t, st).Commits(t.Context(), ref("audited"), 99, 0); err != nil || len(have) != 0 {
		t.Errorf("commits after the last: %v, %v", have, err)
	}
}

func prunedStayReadable(t testing.TB, d Data) {
	st := d.Open(t)
	s := conversation(t, st, "pruned", "one", "two", "three", "four")
	kept := s.Message(0).Seq
	s = save(t, st, withChanges(t, s, session.WindowMoved{
		Strategy: session.PruneSummary, To: s.Message(3).Seq, Keep: []int64{kept},
		Summary: &session.Summary{Text: "they counted", FromSeq: kept, ToSeq: s.Message(2).Seq, CreatedAt: start()},
	}))
	loaded := load(t, st, ref("pruned"))
	wantSame(t, loaded, s)
	if shown := loaded.WindowMessages(); len(shown) != 2 || shown[0].Content.Text() != "one" || shown[1].Content.Text() != "four" {
		t.Errorf("the window shows %d messages, want the kept one and the last", len(shown))
	}
	wantTexts(t, loadWhole(t, st, ref("pruned"), 0), "one", "two", "three", "four")
	wantTexts(t, loadWhole(t, st, ref("pruned"), 3), "one", "two")
	s = save(t, st, withChanges(t, s, session.TranscriptCleared{}))
	wantTexts(t, load(t, st, ref("pruned")))
	wantTexts(t, loadWhole(t, st, ref("pruned"), s.Version()))
	wantTexts(t, loadWhole(t, st, ref("pruned"), 5), "one", "two", "three", "four")
}

// movedWindowsShow writes with values that hold less than the whole transcript.
func movedWindowsShow(t testing.TB, d Data) {
	st := d.Open(t)
	s := conversation(t, st, "moved", "one", "two", "three", "four", "five", "six")
	seq := func(i int) int64 { return loadWhole(t, st, ref("moved"), 0).Message(i).Seq }
	move := func(w session.WindowMoved, texts ...string) {
		t.Helper()
		save(t, st, withChanges(t, load(t, st, ref("moved")), w))
		var shown []string
		for _, m := range load(t, st, ref("moved")).WindowMessages() {
			shown = append(shown, m.Content.Text())
		}
		if !slices.Equal(shown, texts) {
			t.Errorf("the window shows %q, want %q", shown, texts)
		}
	}
	move(session.WindowMoved{To: seq(4), Keep: []int64{seq(1)}}, "two", "five", "six")
	move(session.WindowMoved{To: seq(5), Keep: []int64{seq(1), seq(4)}}, "two", "five", "six")
	move(session.WindowMoved{To: seq(5), Keep: []int64{seq(0)}}, "one", "six")
	move(session.WindowMoved{To: seq(2), Keep: []int64{}}, "three", "four", "five", "six")
	move(session.WindowMoved{To: seq(5), Keep: []int64{}}, "six")
	move(session.WindowMoved{Keep: []int64{}}, "one", "two", "three", "four", "five", "six")
	move(session.WindowMoved{To: seq(5), Keep: []int64{}}, "six")

	last := load(t, st, ref("moved"))
	last = save(t, st, withChanges(t, last, session.NameChanged{Name: "still six"}))
	back, err := last.Rewound(session.WithoutMessages(loadWhole(t, st, ref("moved"), s.Version())), start().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	save(t, st, back)
	wantTexts(t, load(t, st, ref("moved")), "one", "two", "three", "four", "five", "six")
}

func rewindsKeepVersions(t testing.TB, d Data) {
	st := d.Open(t)
	s := conversation(t, st, "rewound", "one", "two", "three")
	rewind := func(to int64) {
		t.Helper()
		back, err := s.Rewound(loadWhole(t, st, ref("rewound"), to), start().Add(time.Hour))
		if err != nil {
			t.Fatalf("rewind to %d: %v", to, err)
		}
		s = save(t, st, back)
		wantSame(t, load(t, st, ref("rewound")), s)
	}
	rewind(2)
	wantTexts(t, load(t, st, ref("rewound")), "one")
	s = save(t, st, withMessage(t, s, "instead"))
	wantTexts(t, load(t, st, ref("rewound")), "one", "instead")
	rewind(4)
	wantTexts(t, load(t, st, ref("rewound")), "one", "two", "three")
	rewind(6)
	wantTexts(t, load(t, st, ref("rewound")), "one", "instead")
	for v, texts := range map[int64][]string{
		1: nil, 2: {"one"}, 3: {"one", "two"}, 4: {"one", "two", "three"}, 5: {"one"}, 6: {"one", "instead"},
		7: {"one", "two", "three"}, 8: {"one", "instead"},
	} {
		wantTexts(t, loadWhole(t, st, ref("rewound"), v), texts...)
	}
}

func historyOfNobody(t testing.TB, d Data) {
	logs := ability[store.Logs](t, d.Open(t))
	_, err := logs.Log(t.Context(), ref("nobody"), 0, 0)
	wantErr(t, "log", err, session.ErrNotFound)
	_, err = logs.Commits(t.Context(), ref("nobody"), 0, 0)
	wantErr(t, "commits", err, session.ErrNotFound)
	_, err = logs.LoadAt(t.Context(), ref("nobody"), 1)
	wantErr(t, "load a version", err, session.ErrNotFound)
	_, err = logs.LoadWhole(t.Context(), ref("nobody"), 0)
	wantErr(t, "load whole", err, session.ErrNotFound)
}

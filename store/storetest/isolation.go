package storetest

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func isolationBehaviours() []behaviour {
	return []behaviour{
		{name: "isolation/headersAreCopies", check: headersAreCopies},
		{name: "isolation/listedHeadersAreCopies", check: listedHeadersAreCopies},
		{name: "isolation/loadedValuesAreCopies", check: loadedValuesAreCopies},
		{name: "isolation/logEntriesAreCopies", needs: []string{Logs}, check: logEntriesAreCopies},
		{name: "isolation/inboxItemsAreCopies", needs: []string{Inboxes}, check: inboxItemsAreCopies},
	}
}

// taskSession is stored with a header that has everything a pointer leads to.
func taskSession(t testing.TB, st store.Store, id string) session.Session {
	t.Helper()
	expires := start().Add(time.Hour)
	s := newSessionFrom(t, session.Identity{ID: id, Kind: session.KindTask, ExpiresAt: &expires})
	return create(t, st, withChanges(t, s, session.TaskRowChanged{Task: session.TaskRow{Title: "title", Status: "running"}}))
}

// overwriteHeader overwrites everything that a header refers to.
func overwriteHeader(i session.Info) {
	*i.ExpiresAt = time.Time{}
	i.Task.Title = "scribbled"
}

func headersAreCopies(t testing.TB, d Data) {
	st := d.Open(t)
	s := taskSession(t, st, "header")
	overwriteHeader(info(t, st, ref("header")))
	sameInfo(t, info(t, st, ref("header")), s.Info())
	wantSame(t, load(t, st, ref("header")), s)
}

func listedHeadersAreCopies(t testing.TB, d Data) {
	st := d.Open(t)
	s := taskSession(t, st, "listed")
	for range 2 {
		page, err := st.List(t.Context(), session.DefaultTenant, store.Query{})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("list: %d sessions, %v", len(page.Items), err)
		}
		sameInfo(t, page.Items[0], s.Info())
		overwriteHeader(page.Items[0])
	}
	sameInfo(t, info(t, st, ref("listed")), s.Info())
}

func loadedValuesAreCopies(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, withMessage(t, withNote(t, newSession(t, "value"), "kept"), "hello"))
	loaded := load(t, st, ref("value"))
	scribbled := loaded.State()
	scribbled.Metadata["note"][1] = 'X'
	scribbled.Messages[0].Content[0].Text = "scribbled"
	changed := withMessage(t, loaded, "never saved")
	if changed.Len() != 2 {
		t.Fatalf("%d messages after a change", changed.Len())
	}
	wantSame(t, load(t, st, ref("value")), s)
}

func logEntriesAreCopies(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, withMessage(t, withNote(t, newSession(t, "entries"), "kept"), "hello"))
	read := func() []session.LogEntry {
		entries, err := ability[store.Logs](t, st).Log(t.Context(), ref("entries"), 0, 0)
		if err != nil {
			t.Fatalf("log: %v", err)
		}
		return entries
	}
	first := read()
	before := string(encode(t, first))
	for _, e := range first {
		switch c := e.Change.(type) {
		case session.MetadataWritten:
			c.Value[1] = 'X'
		case session.MessageAdded:
			c.Message.Content[0].Text = "scribbled"
		case session.SessionCreated:
			c.State.Metadata["scribbled"] = quote(t, "x")
		}
	}
	if after := string(encode(t, read())); after != before {
		t.Errorf("the log changed:\n got %s\nwant %s", after, before)
	}
}

func inboxItemsAreCopies(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "box"))
	mine := item("one")
	post(t, st, ref("box"), mine)
	want := string(encode(t, listInbox(t, st, ref("box"))))
	mine.Payload["text"][1] = 'X'
	items := listInbox(t, st, ref("box"))
	items[0].Payload["text"][1] = 'Y'
	items[0].Payload["more"] = quote(t, "x")
	if got := string(encode(t, listInbox(t, st, ref("box")))); got != want {
		t.Errorf("the inbox changed:\n got %s\nwant %s", got, want)
	}
}

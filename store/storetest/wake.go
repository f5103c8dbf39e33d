package storetest

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func wakeBehaviours() []behaviour {
	return []behaviour{
		{name: "wake/bellRingsAfterEveryWrite", needs: []string{Wakes}, check: bellRings},
		{name: "wake/oneRingWaits", needs: []string{Wakes}, check: oneRingWaits},
		{name: "wake/stoppedSubscriberIsSilent", needs: []string{Wakes}, check: stoppedSubscriber},
		{name: "wake/wokenReaderFindsTheChange", needs: []string{Wakes, Logs, Tails}, check: wokenReaderFinds},
	}
}

// patience bounds the wait for news that must come.
const patience = 30 * time.Second

// wantNews fails the test unless news come soon.
func wantNews(t testing.TB, what string, news <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
		t.Errorf("no news after %s", what)
	}
}

// drainNews empties a channel after all signals have arrived.
func drainNews(news <-chan struct{}) {
	select {
	case <-news:
	default:
	}
}

func bellRings(t testing.TB, d Data) {
	st := d.Open(t)
	news, stop := ability[store.Wakes](t, st).Subscribe(ref("watched"))
	defer stop()
	second, stopSecond := ability[store.Wakes](t, st).Subscribe(ref("watched"))
	defer stopSecond()
	after := func(what string) {
		t.Helper()
		wantNews(t, what, news)
		wantNews(t, what+", second news", second)
	}
	s := create(t, st, newSession(t, "watched"))
	after("create")
	s = save(t, st, withNote(t, s, "x"))
	after("save")
	if _, ok := st.(store.Tails); ok {
		s = mustAppend(t, st, withNote(t, s, "y"))
		after("append")
	}
	if _, ok := st.(store.Inboxes); ok {
		post(t, st, ref("watched"), item("a"))
		after("post")
	}
	if leases, ok := st.(store.Leases); ok {
		l := acquire(t, st, ref("watched"), "me")
		after("acquire")
		if err := leases.Release(t.Context(), ref("watched"), l); err != nil {
			t.Fatalf("release: %v", err)
		}
		after("release")
	}
	if err := st.Delete(t.Context(), ref("watched"), 0); err != nil {
		t.Fatalf("delete %s: %v", s.ID(), err)
	}
	after("delete")
}

func oneRingWaits(t testing.TB, d Data) {
	st := d.Open(t)
	news, stop := ability[store.Wakes](t, st).Subscribe(ref("slow"))
	defer stop()
	s := create(t, st, newSession(t, "slow"))
	for range 5 { // nobody listens, nobody blocks
		s = save(t, st, withNote(t, s, "x"))
	}
	wantNews(t, "six writes", news)
	if cap(news) != 1 {
		t.Errorf("the channel holds %d signals, want 1", cap(news))
	}
}

func stoppedSubscriber(t testing.TB, d Data) {
	st := d.Open(t)
	news, stop := ability[store.Wakes](t, st).Subscribe(ref("quiet"))
	other, stopOther := ability[store.Wakes](t, st).Subscribe(ref("quiet"))
	defer stopOther()
	s := create(t, st, newSession(t, "quiet"))
	wantNews(t, "create", news)
	wantNews(t, "create", other)
	stop()
	stop()
	drainNews(news)
	save(t, st, withNote(t, s, "x"))
	wantNews(t, "save, other news", other)
	select {
	case _, ok := <-news:
		if ok {
			t.Error("a stopped subscriber was told")
		}
	default:
	}
}

// wokenReaderFinds waits for news only: after each the log has what the
// writer wrote before it.
func wokenReaderFinds(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "live"))
	news, stop := ability[store.Wakes](t, st).Subscribe(ref("live"))
	defer stop()
	const rounds = 20
	wrote := make(chan error, 1)
	go func() {
		var err error
		for range rounds {
			if s, err = ability[store.Tails](t, st).Append(t.Context(), withNote(t, s, "x"), store.Append{}); err != nil {
				break
			}
		}
		wrote <- err
	}()
	after, want := int64(1), int64(1+rounds)
	for after < want {
		entries, err := ability[store.Logs](t, st).Log(t.Context(), ref("live"), after, 0)
		if err != nil {
			t.Errorf("log: %v", err)
			break
		}
		for _, e := range entries {
			if e.Seq != after+1 || e.Change.Kind() != (session.MetadataWritten{}).Kind() {
				t.Errorf("seq %d (%s) after %d", e.Seq, e.Change.Kind(), after)
			}
			after = e.Seq
		}
		if len(entries) > 0 {
			continue
		}
		if wantNews(t, "an append", news); t.Failed() {
			break
		}
	}
	if err := <-wrote; err != nil {
		t.Errorf("append: %v", err)
	}
}

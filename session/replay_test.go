package session_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

// A log that is replayed is pending word for word: a store that writes it has
// the same log, and the value is the one that made it.
func TestReplay_recordsAreKeptAsTheyAre(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		h.flush()
		replayed, err := session.Replay(session.Session{}, throughJSON(t, h.log), 0)
		if err != nil {
			t.Fatal(err)
		}
		sameRecords(t, session.Unsaved(replayed), h.log)
		sameBytes(t, "the replayed session", unversioned(t, replayed), unversioned(t, h.now))
		if replayed.Version() != 0 || session.Base(replayed) != 0 {
			t.Fatalf("version %d and base %d of a session nobody has stored", replayed.Version(), session.Base(replayed))
		}
	})
}

// The last version is taken from one store, a part of the tail is in it
// already, and the rest follows.
func TestReplay_continuesAnOpenTail(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		h.flush()
		saved, tail := h.versions[len(h.versions)-1], h.log[h.tail:]
		for _, r := range tail {
			if _, ok := r.Change.(session.SessionRewound); ok {
				t.Skip("rewinds are saved, never left in a tail")
			}
		}
		durable := saved.Seq() + int64(property.IntRange(0, len(tail)).Draw(t, "durable"))
		replayed, err := session.Replay(saved, tail, durable)
		if err != nil {
			t.Fatal(err)
		}
		if session.Base(replayed) != durable || replayed.Version() != saved.Version() {
			t.Fatalf("base %d and version %d, want %d and %d", session.Base(replayed), replayed.Version(), durable, saved.Version())
		}
		sameRecords(t, session.Unsaved(replayed), tail[durable-saved.Seq():])
		flushed := session.Flush(replayed)
		sameBytes(t, "the continued session", document(t, flushed), document(t, h.now))
		if flushed.HasTail() != h.now.HasTail() || session.Base(flushed) != session.Base(h.now) {
			t.Fatalf("tail in force %t and base %d, want %t and %d", flushed.HasTail(), session.Base(flushed), h.now.HasTail(), session.Base(h.now))
		}
	})
}

func TestReplay_forkKnowsItsParent(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		h.seal(t)
		fork, err := h.now.Fork("s-2", "agent-2", moment().Draw(t, "at"))
		if err != nil {
			t.Fatal(err)
		}
		own := session.Unsaved(fork)
		onParent, err := session.Replay(h.now, own, 0)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := session.Replay(session.Session{}, append(h.log, own...), 0)
		if err != nil {
			t.Fatal(err)
		}
		sameRecords(t, session.Unsaved(onParent), own)
		for _, s := range []session.Session{onParent, whole} {
			sameBytes(t, "the replayed fork", unversioned(t, s), unversioned(t, fork))
			if session.ForkedFrom(s) != "agent-1" || s.Version() != 0 {
				t.Fatalf("forked from %q at version %d", session.ForkedFrom(s), s.Version())
			}
		}
	})
}

// A tail that was discarded is not in force, however much of it is durable.
func TestReplay_discardedTailIsNotInForce(t *testing.T) {
	t.Parallel()
	s, err := session.New(session.Identity{ID: "s-1", AgentID: "agent-1"}, session.Definition{Name: "agent"}, session.Seed{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	saved := session.Seal(s, noon)
	acting, err := saved.WithName("refused", noon)
	if err != nil {
		t.Fatal(err)
	}
	back, err := session.DiscardTail(saved, acting.Seq(), acting.Seq(), noon)
	if err != nil {
		t.Fatal(err)
	}
	tail := append(session.Unsaved(acting), session.Unsaved(back)...)
	for durable := saved.Seq(); durable <= back.Seq(); durable++ {
		replayed, err := session.Replay(saved, tail, durable)
		if err != nil {
			t.Fatal(err)
		}
		if replayed.HasTail() || session.Flush(replayed).HasTail() || replayed.Info().Name != "" {
			t.Errorf("durable up to %d: the refused change is in force: %t, %t, name %q",
				durable, replayed.HasTail(), session.Flush(replayed).HasTail(), replayed.Info().Name)
		}
	}
}

func TestReplay_refusesWhatDoesNotFollow(t *testing.T) {
	t.Parallel()
	s, err := session.New(session.Identity{ID: "s-1", AgentID: "agent-1"}, session.Definition{Name: "agent"}, session.Seed{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	saved := session.Seal(s, noon)
	next, err := saved.WithName("a", noon)
	if err != nil {
		t.Fatal(err)
	}
	gap := session.Unsaved(next)[0]
	gap.Seq++
	late := session.Record{Seq: 2, At: noon, Change: session.TailDiscarded{From: 1, To: 1}}
	for name, refused := range map[string]func() (session.Session, error){
		"nothing":            func() (session.Session, error) { return session.Replay(session.Session{}, nil, 0) },
		"no beginning":       func() (session.Session, error) { return session.Replay(session.Session{}, session.Unsaved(next), 0) },
		"a gap":              func() (session.Session, error) { return session.Replay(saved, []session.Record{gap}, 0) },
		"a late discard":     func() (session.Session, error) { return session.Replay(saved, []session.Record{late}, 0) },
		"changes in waiting": func() (session.Session, error) { return session.Replay(next, nil, 0) },
	} {
		if _, err := refused(); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
}

func sameRecords(t failer, have, want []session.Record) {
	t.Helper()
	if len(have) == 0 && len(want) == 0 {
		return
	}
	if !reflect.DeepEqual(throughJSON(t, have), throughJSON(t, want)) {
		t.Fatalf("records differ\nhave %+v\nwant %+v", have, want)
	}
}

package session_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

// history is a session with everything a store with a log would have of it.
type history struct {
	now      session.Session
	log      []session.Record  // durable, the open tail included
	versions []session.Session // as saved
	tail     int               // where in log the open tail begins
}

// newHistory is born, saved, and lives through some steps.
func newHistory(t *property.T) *history {
	kind := property.SampledFrom([]session.Kind{session.KindChat, session.KindTask}).Draw(t, "kind")
	s, err := session.New(
		session.Identity{ID: "s-1", AgentID: "agent-1", UserID: "ana", Kind: kind, ExpiresAt: optional(moment()).Draw(t, "expires")},
		definition().Draw(t, "definition"),
		session.Seed{
			SystemPrompt: text().Draw(t, "seedPrompt"), Model: text().Draw(t, "seedModel"), Metadata: values().Draw(t, "seedMetadata"),
			ModelParams: optional(params()).Draw(t, "seedParams"), ResponseFormat: optional(format()).Draw(t, "seedFormat"),
			Variables: property.MapOfN(name(), jsonValue(), 0, 2).Draw(t, "seedVariables"),
		}, moment().Draw(t, "born"))
	if err != nil {
		t.Skip(err) // a value that is not JSON
	}
	h := &history{now: s}
	h.seal(t)
	for range t.Repeat(5, 40) {
		h.step(t)
	}
	return h
}

func (h *history) step(t *property.T) {
	switch property.IntRange(0, 11).Draw(t, "step") {
	case 0:
		h.seal(t)
	case 1:
		h.flush()
	case 2:
		h.refuse(t)
	case 3:
		h.rewind(t)
	default:
		h.now = h.grow(t, h.now)
	}
}

// grow applies one change; one that is refused must leave the value as it was.
func (h *history) grow(t *property.T, s session.Session) session.Session {
	next, err := s.With(moment().Draw(t, "at"), change(s).Draw(t, "change"))
	if err != nil && !reflect.DeepEqual(next, s) {
		t.Fatalf("refused with %v, but the value returned is another", err)
	}
	return next
}

func (h *history) flush() {
	h.log = append(h.log, session.Unsaved(h.now)...)
	h.now = session.Flush(h.now)
}

func (h *history) seal(t *property.T) {
	h.log = append(h.log, session.Unsaved(h.now)...)
	h.now = session.Seal(h.now, moment().Draw(t, "saved"))
	h.versions = append(h.versions, h.now)
	h.tail = len(h.log)
}

// refuse appends some changes to the tail and takes them back.
func (h *history) refuse(t *property.T) {
	h.flush()
	loaded, acting := h.now, h.now
	for range t.Repeat(1, 4) {
		acting = h.grow(t, acting)
	}
	records := session.Unsaved(acting)
	if len(records) == 0 {
		return
	}
	h.log = append(h.log, records...)
	back, err := session.DiscardTail(loaded, records[0].Seq, acting.Seq(), moment().Draw(t, "at"))
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, "state after a discarded tail", document(t, back), document(t, loaded))
	if back.HasTail() != loaded.HasTail() {
		t.Fatalf("a discarded tail is in force: %t, before %t", back.HasTail(), loaded.HasTail())
	}
	h.now = back
	h.flush()
}

func (h *history) rewind(t *property.T) {
	target := property.SampledFrom(h.versions).Draw(t, "target")
	back, err := h.now.Rewound(target, moment().Draw(t, "at"))
	if err != nil {
		t.Fatal(err)
	}
	sameMessages(t, back.Messages(), target.Messages())
	h.now = back
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func document(t failer, s session.Session) []byte {
	t.Helper()
	raw, err := s.MarshalJSON()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return raw
}

// unversioned is a document without what only a store's saves can know.
func unversioned(t failer, s session.Session) []byte {
	t.Helper()
	var whole, header map[string]json.RawMessage
	if err := json.Unmarshal(document(t, s), &whole); err != nil {
		t.Fatalf("decode: %v", err)
	}
	if err := json.Unmarshal(whole["header"], &header); err != nil {
		t.Fatalf("decode: %v", err)
	}
	for _, key := range []string{"version", "updatedAt", "seq"} {
		delete(header, key)
	}
	raw, err := json.Marshal([]any{header, whole["definition"], whole["state"], s.Seq(), session.Spans(s)})
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return raw
}

func sameBytes(t failer, what string, have, want []byte) {
	t.Helper()
	if !bytes.Equal(have, want) {
		t.Fatalf("%s differs\nhave %s\nwant %s", what, have, want)
	}
}

func sameMessages(t failer, have, want []session.Message) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Fatalf("messages differ\nhave %+v\nwant %+v", have, want)
	}
}

func TestFold_logMakesTheValue(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		h.flush()
		folded, err := session.Fold(h.log)
		if err != nil {
			t.Fatal(err)
		}
		sameBytes(t, "the fold of the log", unversioned(t, folded), unversioned(t, h.now))

		decoded := throughJSON(t, h.log)
		if folded, err = session.Fold(decoded); err != nil {
			t.Fatal(err)
		}
		sameBytes(t, "the fold of the decoded log", unversioned(t, folded), unversioned(t, h.now))
	})
}

// A store with a log reads a transcript by asking only which numbers lie in
// the spans; what was discarded, cleared or rewound must not lie in them.
func TestSpans_pickTheTranscriptFromTheLog(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		h.flush()
		picked := []session.Message{}
		for _, r := range h.log {
			if added, ok := r.Change.(session.MessageAdded); ok && session.Holds(session.Spans(h.now), r.Seq) {
				picked = append(picked, added.Message)
			}
		}
		sameMessages(t, picked, h.now.Messages())
	})
}

// throughJSON writes and reads records, and checks that writing again gives the same bytes.
func throughJSON(t failer, records []session.Record) []session.Record {
	t.Helper()
	decoded := make([]session.Record, len(records))
	for i, r := range records {
		raw, err := r.MarshalJSON()
		if err != nil {
			t.Fatalf("encode change %d: %v", r.Seq, err)
		}
		if err := json.Unmarshal(raw, &decoded[i]); err != nil {
			t.Fatalf("decode %s: %v", raw, err)
		}
		again, err := decoded[i].MarshalJSON()
		if err != nil {
			t.Fatalf("encode change %d again: %v", r.Seq, err)
		}
		sameBytes(t, "a record's second encoding", again, raw)
	}
	return decoded
}

func TestFoldFrom_prefixAndRestMakeTheWhole(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		h.flush()
		cut := property.IntRange(1, len(h.log)).Draw(t, "cut")
		for _, r := range h.log[cut:] { // a discard must see what it discards, a rewind what it brings back
			switch c := r.Change.(type) {
			case session.TailDiscarded:
				if c.From <= h.log[cut-1].Seq {
					t.Skip("the cut lies inside a discarded range")
				}
			case session.SessionRewound:
				t.Skip("rewinds may need messages of the prefix that a clear removed")
			}
		}
		prefix, err := session.Fold(h.log[:cut])
		if err != nil {
			t.Fatal(err)
		}
		both, err := session.FoldFrom(prefix, h.log[cut:])
		if err != nil {
			t.Fatal(err)
		}
		sameBytes(t, "prefix and rest", unversioned(t, both), unversioned(t, h.now))
	})
}

func TestWithTail_reloadedSessionEqualsTheOneInMemory(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		h.flush()
		saved := h.versions[len(h.versions)-1]
		for _, r := range h.log[h.tail:] {
			if _, ok := r.Change.(session.SessionRewound); ok {
				t.Skip("rewinds are saved, never left in a tail")
			}
		}
		reloaded, err := session.ApplyTail(saved, throughJSON(t, h.log[h.tail:]))
		if err != nil {
			t.Fatal(err)
		}
		sameBytes(t, "the session with its tail", document(t, reloaded), document(t, h.now))
		if reloaded.HasTail() != h.now.HasTail() || session.Base(reloaded) != session.Base(h.now) || reloaded.Seq() != h.now.Seq() {
			t.Fatalf("reloaded tail %t base %d seq %d, in memory %t %d %d",
				reloaded.HasTail(), session.Base(reloaded), reloaded.Seq(), h.now.HasTail(), session.Base(h.now), h.now.Seq())
		}
	})
}

func TestDocument_encodeDecodeCyclesAreStable(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		h.seal(t)
		first := document(t, h.now)
		for range 3 {
			decoded, err := session.Decode(document(t, h.now))
			if err != nil {
				t.Fatalf("%v in %s", err, first)
			}
			sameBytes(t, "a decoded document", document(t, decoded), first)
			sameParts(t, decoded, h.now)
			h.now = decoded
		}
		// The standard encoder escapes more; values must not show it.
		escaped, err := json.Marshal(h.now)
		if err != nil {
			t.Fatal(err)
		}
		var decoded session.Session
		if err := json.Unmarshal(escaped, &decoded); err != nil {
			t.Fatal(err)
		}
		sameBytes(t, "a document that passed the standard encoder", document(t, decoded), first)
	})
}

func sameParts(t failer, have, want session.Session) {
	t.Helper()
	if !reflect.DeepEqual(have.Info(), want.Info()) {
		t.Fatalf("header\nhave %+v\nwant %+v", have.Info(), want.Info())
	}
	if !reflect.DeepEqual(have.Definition(), want.Definition()) {
		t.Fatalf("definition\nhave %#v\nwant %#v", have.Definition(), want.Definition())
	}
	if !reflect.DeepEqual(have.State(), want.State()) {
		t.Fatalf("state\nhave %#v\nwant %#v", have.State(), want.State())
	}
}

func TestHead_withItsMessagesIsTheSession(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		h.seal(t)
		head, err := session.EncodeHead(h.now)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := session.DecodeHead(head, h.now.Messages())
		if err != nil {
			t.Fatal(err)
		}
		sameBytes(t, "head and messages", document(t, whole), document(t, h.now))
		sameParts(t, whole, h.now)
		again, err := session.EncodeHead(whole)
		if err != nil {
			t.Fatal(err)
		}
		sameBytes(t, "the head's second encoding", again, head)

		bare, err := session.DecodeHead(head, nil)
		if err != nil {
			t.Fatal(err)
		}
		if bare.Partial() != (h.now.Len() > 0) {
			t.Fatalf("a head without its %d messages says partial %t", h.now.Len(), bare.Partial())
		}
		if _, err := session.Decode(head); err == nil {
			t.Fatal("a head was read as a document")
		}
	})
}

func TestRooted_forkHasALogOfItsOwn(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		h.seal(t)
		fork, err := h.now.Fork("s-2", "agent-2", moment().Draw(t, "at"))
		if err != nil {
			t.Fatal(err)
		}
		rooted, err := session.Detach(fork)
		if err != nil {
			t.Fatal(err)
		}
		folded, err := session.Fold(throughJSON(t, session.Unsaved(rooted)))
		if err != nil {
			t.Fatal(err)
		}
		sameBytes(t, "the fold of a rooted fork", unversioned(t, folded), unversioned(t, rooted))
		sameShown(t, rooted, fork)
		a, b := rooted.Info(), fork.Info()
		if a.ParentID != "s-1" || *a.Fork != *b.Fork || a.Origin != session.OriginFork || a.MessageCount != b.MessageCount {
			t.Fatalf("rooted header %+v\nfork's %+v", a, b)
		}
	})
}

// sameShown compares transcripts and windows of sessions with different numbers.
func sameShown(t failer, have, want session.Session) {
	t.Helper()
	strip := func(messages []session.Message) []session.Message {
		for i := range messages {
			messages[i].Seq = 0
		}
		return messages
	}
	sameMessages(t, strip(have.Messages()), strip(want.Messages()))
	sameMessages(t, strip(have.WindowMessages()), strip(want.WindowMessages()))
	if a, b := have.Window().Summary, want.Window().Summary; (a == nil) != (b == nil) || a != nil && (a.Text != b.Text || a.Usage != b.Usage) {
		t.Fatalf("summary\nhave %+v\nwant %+v", a, b)
	}
}

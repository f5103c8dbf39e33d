package holdfast_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/file"
)

const (
	requestOne   = "7a0f8f0e-1111-4a4a-9a9a-000000000001"
	requestTwo   = "7a0f8f0e-2222-4a4a-9a9a-000000000002"
	requestThree = "7a0f8f0e-3333-4a4a-9a9a-000000000003"
)

func (h *house) request(s session.Session, format string, args ...any) session.Request {
	h.t.Helper()
	r, err := h.DecodeRequest(fmt.Appendf(nil, `{"requestId":%q,"sessionId":%q,"rootRequestId":%q,"payload":%s}`,
		requestOne, s.ID(), requestTwo, fmt.Sprintf(format, args...)))
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func TestSubmit_sendsWhatItHoldsUnderItsOwnName(t *testing.T) {
	for _, payload := range []string{`{"text":"hi","lang":"en"}`, `{"message":{"id":"other","content":"hi"}}`} {
		h := open(t, nil)
		got, err := h.Submit(t.Context(), h.request(h.create(), "%s", payload))
		if err != nil {
			t.Fatal(err)
		}
		m := got.Message(0)
		if m.ID != requestOne || m.RequestID != requestOne || m.RootRequestID != requestTwo || m.Content.Text() != "hi" || got.Reply() != "hello" {
			t.Errorf("%s: %+v, reply %q", payload, m, got.Reply())
		}
		if got.Execution().ID == "" || got.Version() != 2 {
			t.Errorf("version %d", got.Version())
		}
	}
}

// The request that it came from, and what is said about it, are part of the
// stored message. What the message says of itself stays.
func TestSubmit_keepsParentAndMetadata(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	r, err := h.request(s, `{}`).Child(requestTwo, session.Values{"message": json.RawMessage(`{"content":"hi","metadata":{"lang":"en"}}`)},
		session.Values{"lang": json.RawMessage(`"de"`), "screen": json.RawMessage(`"home"`)}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Submit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	page, err := h.memory(s.ID()).History(t.Context(), memory.HistoryOptions{Order: memory.Oldest})
	if err != nil {
		t.Fatal(err)
	}
	m := page.Messages[0]
	if m.RequestID != requestTwo || m.ParentRequestID != requestOne || m.RootRequestID != requestTwo {
		t.Errorf("request %q, parent %q, root %q", m.RequestID, m.ParentRequestID, m.RootRequestID)
	}
	if m.Metadata.String("lang") != "en" || m.Metadata.String("screen") != "home" {
		t.Errorf("metadata %v", m.Metadata)
	}
}

// What came of a request is read by its id, by that of the request it came from,
// and by what is said about it.
func TestHistory_ofRequests(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	first := h.request(s, `{"text":"first"}`)
	child, err := first.Child(requestThree, session.Values{"text": json.RawMessage(`"second"`)}, session.Values{"screen": json.RawMessage(`"home"`)}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []session.Request{first, child} {
		if _, err := h.Submit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	h.do(s.ID(), holdfast.SendMessage{Text: "third"})
	for _, pruned := range []bool{false, true} { // the second time read from the log
		if pruned {
			h.do(s.ID(), holdfast.PruneSession{Strategy: session.PruneSliding, Limit: 1})
		}
		for _, c := range []struct {
			options memory.HistoryOptions
			want    []string
		}{
			{memory.HistoryOptions{Request: requestThree}, []string{"second", "hello"}},
			{memory.HistoryOptions{Request: requestOne}, []string{"first", "hello", "second", "hello"}}, // the parent
			{memory.HistoryOptions{Request: requestTwo}, []string{"first", "hello", "second", "hello"}}, // the root
			{memory.HistoryOptions{Request: requestTwo, Limit: 1}, []string{"first"}},
			{memory.HistoryOptions{Request: "unknown"}, nil},
			{memory.HistoryOptions{Metadata: map[string]string{"screen": "home"}}, []string{"second", "hello"}},
			{memory.HistoryOptions{Metadata: map[string]string{"screen": ""}}, nil},
			{memory.HistoryOptions{Request: requestOne, Metadata: map[string]string{"screen": "home"}}, []string{"second", "hello"}},
		} {
			c.options.Order = memory.Oldest
			page, err := h.memory(s.ID()).History(t.Context(), c.options)
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, m := range page.Messages {
				said = append(said, m.Content.Text())
			}
			if !slices.Equal(said, c.want) || c.options.Limit == 0 && page.Total != len(c.want) || c.options.Limit == 1 && (page.Total != 4 || page.Next == 0) {
				t.Errorf("pruned %t, %+v: %q, %d in all, next %d", pruned, c.options, said, page.Total, page.Next)
			}
		}
	}
}

func TestSubmit_twiceRunsOnce(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	r := h.request(s, `{"text":"hi"}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, err := h.Submit(t.Context(), r); err != nil || got.Version() != 2 {
				t.Errorf("version %d, %v", got.Version(), err)
			}
		})
	}
	wg.Wait()
	if got := h.stored(s.ID()); got.Version() != 2 || got.Len() != 2 || len(h.model.Requests()) != 1 {
		t.Errorf("version %d, %d messages, %d requests", got.Version(), got.Len(), len(h.model.Requests()))
	}
	other := h.request(s, `{"text":"something else"}`)
	var conflict *session.ConflictError
	if _, err := h.Submit(t.Context(), other); !errors.As(err, &conflict) || conflict.Reason != session.ReasonKeyReused {
		t.Errorf("the same id for something else: %v", err)
	}
}

func TestSubmit_otherPayloadsNeedAMapping(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	_, err := h.Submit(t.Context(), h.request(s, `{"rename":"tea"}`))
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("without a mapping: %v", err)
	}
	h = open(t, func(c *holdfast.Config) {
		c.Requests = func(r session.Request) (holdfast.Action, error) {
			name := r.Payload().String("rename")
			if name == "" {
				return nil, errBoom
			}
			return holdfast.RenameSession{To: name}, nil
		}
	})
	s = h.create()
	for range 2 {
		if got, err := h.Submit(t.Context(), h.request(s, `{"rename":"tea"}`)); err != nil || got.Info().Name != "tea" || got.Version() != 2 {
			t.Errorf("%q at version %d, %v", got.Info().Name, got.Version(), err)
		}
	}
	if _, err := h.Submit(t.Context(), h.request(s, `{"what":1}`)); !errors.Is(err, errBoom) {
		t.Errorf("the mapping's own error: %v", err)
	}
}

func TestSubmit_badRequestsChangeNothing(t *testing.T) {
	h := open(t, func(c *holdfast.Config) { c.MaxRequestBytes = 1000 })
	s := h.create()
	for _, payload := range []string{`{"text":3}`, `{"text":null}`, `{"text":"a","message":{"content":"b"}}`, `{"message":7}`, `{"text":" "}`, `{"message":{"role":"assistant","content":"x"}}`} {
		if _, err := h.Submit(t.Context(), h.request(s, "%s", payload)); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", payload, err)
		}
	}
	large := fmt.Sprintf(`{"sessionId":%q,"payload":{"text":%q}}`, s.ID(), strings.Repeat("x", 1000))
	if _, err := h.DecodeRequest([]byte(large)); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
	r, err := session.NewRequest(session.RequestFields{ID: requestOne, SessionID: s.ID(), Payload: session.Values{"text": json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Submit(t.Context(), r); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
	h.unchanged(s)
}

func TestSubmit_needsAStoreThatRemembersKeys(t *testing.T) {
	st, err := file.Open(t.TempDir(), file.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, func(c *holdfast.Config) { c.Store = st })
	s := h.create()
	if _, err := h.Submit(t.Context(), h.request(s, `{"text":"hi"}`)); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	h.unchanged(s)
}

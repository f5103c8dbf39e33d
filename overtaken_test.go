package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// overtake calls other at the moment of the first write, before it.
func (m *meddling) overtake(t *testing.T, id string, other func(s session.Session) error) {
	m.append = func(n int) error {
		if n > 1 {
			return nil
		}
		s, err := m.Load(t.Context(), store.Ref{Tenant: session.DefaultTenant, ID: id}, true)
		if err == nil {
			err = other(s)
		}
		if err != nil {
			t.Error(err)
		}
		return nil
	}
}

func TestSendMessage_overtakenByASaveBeginsAgain(t *testing.T) {
	h, m := openMeddling(t, nil)
	s := h.create()
	h.heard.forget()
	m.overtake(t, s.ID(), func(s session.Session) error {
		s, err := s.With(time.Now(), session.MetadataWritten{Key: "first", Value: json.RawMessage("true")})
		if err != nil {
			return err
		}
		_, err = m.Save(t.Context(), s, store.Commit{ID: "other", Action: "WriteMetadata", At: time.Now()})
		return err
	})
	got := h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	if got.Version() != 3 || !slices.Equal(texts(got), []string{"hi", "hello"}) || got.Metadata()["first"] == nil {
		t.Errorf("version %d, said %q, metadata %v", got.Version(), texts(got), got.Metadata())
	}
	loaded := 0
	for _, e := range h.heard.all() {
		if _, ok := e.(holdfast.SessionLoaded); ok {
			loaded++
		}
	}
	if loaded != 1 {
		t.Errorf("SessionLoaded was told %d times", loaded)
	}
	if n := len(h.model.Requests()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestSendMessage_overtakenByALeaseDoesAsItWasTold(t *testing.T) {
	lease := func(m *meddling) func(session.Session) error {
		return func(s session.Session) error {
			_, err := m.Acquire(t.Context(), store.RefOf(s), "somebody", time.Minute)
			return err
		}
	}
	t.Run("reject", func(t *testing.T) {
		h, m := openMeddling(t, nil)
		s := h.create()
		m.overtake(t, s.ID(), lease(m))
		h.heard.forget()
		_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}, holdfast.OnBusy(holdfast.Reject))
		var busy *session.BusyError
		if !errors.As(err, &busy) || busy.Holder != "somebody" {
			t.Errorf("%v", err)
		}
		wantEvents(t, h, "SessionLoaded", "SessionActionFailed")
		h.unchanged(s)
	})
	t.Run("enqueue", func(t *testing.T) {
		h, m := openMeddling(t, nil)
		s := h.create()
		m.overtake(t, s.ID(), lease(m))
		_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}, holdfast.OnBusy(holdfast.Enqueue))
		if !errors.Is(err, session.ErrQueued) {
			t.Errorf("%v", err)
		}
		if items, err := m.Inbox(t.Context(), store.RefOf(s)); err != nil || len(items) != 1 {
			t.Errorf("inbox %v, %v", items, err)
		}
	})
	t.Run("wait", func(t *testing.T) {
		h, m := openMeddling(t, nil)
		s := h.create()
		m.overtake(t, s.ID(), func(s session.Session) error {
			l, err := m.Acquire(t.Context(), store.RefOf(s), "somebody", time.Minute)
			time.AfterFunc(20*time.Millisecond, func() { _ = m.Release(t.Context(), store.RefOf(s), l) })
			return err
		})
		if got := h.do(s.ID(), holdfast.SendMessage{Text: "hi"}); got.Reply() != "hello" {
			t.Errorf("said %q", texts(got))
		}
	})
}

func TestContinueExecution_withNothingToWriteStillTakesTheLease(t *testing.T) {
	h, m := openMeddling(t, nil)
	s := h.create()
	err := h.Hold(t.Context(), s.ID(), func(ctx context.Context, hold *holdfast.Hold) error {
		_, err := hold.Append(ctx, session.MetadataWritten{Key: "open", Value: json.RawMessage("1")})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	m.acquired = 0
	got := h.do(s.ID(), holdfast.ContinueExecution{}) // only seals what is open
	if got.Version() != 2 || got.HasTail() || got.Metadata()["open"] == nil {
		t.Errorf("version %d, tail %t, metadata %v", got.Version(), got.HasTail(), got.Metadata())
	}
	if m.acquired != 1 {
		t.Errorf("the lease was taken %d times", m.acquired)
	}
	if _, live, err := m.Holding(t.Context(), store.RefOf(s)); live || err != nil {
		t.Errorf("lease left behind: %t, %v", live, err)
	}
}

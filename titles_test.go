package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// titler answers questions for titles and everything else apart.
type titler struct {
	title  func(context.Context) (llm.Response, error)
	answer func() // called before an answer is given

	mu    sync.Mutex // guards asked
	asked []llm.Request
}

func (m *titler) Infer(ctx context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	if !strings.HasPrefix(r.System, "Write a title") {
		if m.answer != nil {
			m.answer()
		}
		return llm.Response{Content: session.Text("hello"), FinishReason: "stop", Usage: session.Usage{Input: 10, Output: 1}, Cost: 100}, nil
	}
	m.mu.Lock()
	m.asked = append(m.asked, r)
	m.mu.Unlock()
	return m.title(ctx)
}

// localTitler is a titler that works offline.
type localTitler struct{ *titler }

func (localTitler) WorksOffline() {}

// requests returns the questions for titles.
func (m *titler) requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

func says(text string) func(context.Context) (llm.Response, error) {
	return func(context.Context) (llm.Response, error) {
		return llm.Response{Content: session.Text(text), FinishReason: "stop", Usage: session.Usage{Input: 30, Output: 3}, Cost: 7}, nil
	}
}

// titled is what of a session's log is about titles.
func (h *house) titled(id string) (all []session.SessionTitled) {
	h.t.Helper()
	for entry, err := range h.Log(h.t.Context(), id, 0) {
		if err != nil {
			h.t.Fatal(err)
		}
		if c, ok := entry.Change.(session.SessionTitled); ok {
			all = append(all, c)
		}
	}
	return all
}

// withTitles runs a test in a bubble, so that it can wait until nobody works any
// more. With inTime an answer waits until the title is there.
func withTitles(t *testing.T, m *titler, inTime bool, st store.Store, test func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if inTime {
			m.answer = synctest.Wait
		}
		h := open(t, func(c *holdfast.Config) {
			c.Models, c.Titles = llm.Map{"demo": m}, true
			if st != nil {
				c.Store = st
			}
		})
		test(t, h)
	})
}

func TestTitles_areSavedWithTheFirstTurn(t *testing.T) {
	t.Parallel()
	m := &titler{title: says("\"Tea in Oslo.\"\n")}
	withTitles(t, m, true, nil, func(t *testing.T, h *house) {
		long := "Where do I get tea in Oslo? " + strings.Repeat("Please. ", 1000)
		s := h.create()
		got := h.do(s.ID(), holdfast.SendMessage{Text: long})
		if got.Info().Name != "Tea in Oslo" || got.Version() != 2 || got.Reply() != "hello" {
			t.Errorf("name %q, version %d, reply %q", got.Info().Name, got.Version(), got.Reply())
		}
		if usage, cost := got.Usage(); usage.Input != 40 || usage.Output != 4 || cost != 107 {
			t.Errorf("the session used %+v for %d", usage, cost)
		}
		if e := got.Execution(); e.Usage.Input != 10 || e.Cost != 100 {
			t.Errorf("the turn used %+v for %d", e.Usage, e.Cost)
		}
		h.do(s.ID(), holdfast.SendMessage{Text: "And coffee?"})
		h.do(s.ID(), holdfast.RenameSession{})
		if got = h.do(s.ID(), holdfast.SendMessage{Text: "And cake?"}); got.Info().Name != "" {
			t.Errorf("a name that was taken away is back as %q", got.Info().Name)
		}
		asked := m.requests()
		if len(asked) != 1 || len(h.titled(s.ID())) != 1 {
			t.Fatalf("asked %d times, %d in the log", len(asked), len(h.titled(s.ID())))
		}
		text := asked[0].Messages[0].Content.Text()
		if len(asked[0].Messages) != 1 || !strings.Contains(text, "tea in Oslo?") || len(text) > 2100 || len(asked[0].Tools) > 0 ||
			asked[0].Params.MaxOutputTokens == nil || *asked[0].Params.MaxOutputTokens > 200 {
			t.Errorf("asked %d messages, %d bytes, %+v", len(asked[0].Messages), len(text), asked[0].Params)
		}
	})
}

// A fork is a chat of its own. Going back is none: the question was paid for.
func TestTitles_ofForksAndAfterGoingBack(t *testing.T) {
	t.Parallel()
	m := &titler{title: says("Tea in Oslo")}
	withTitles(t, m, true, nil, func(t *testing.T, h *house) {
		s := h.create()
		h.do(s.ID(), holdfast.SendMessage{Text: "Where do I get tea?"})
		h.do(s.ID(), holdfast.RenameSession{})
		h.do(s.ID(), holdfast.RewindSession{To: 1})
		if got := h.do(s.ID(), holdfast.SendMessage{Text: "And coffee?"}); got.Info().Name != "" || len(m.requests()) != 1 {
			t.Errorf("after going back it is named %q, asked %d times", got.Info().Name, len(m.requests()))
		}
		fork, err := h.Fork(t.Context(), s.ID())
		if err != nil {
			t.Fatal(err)
		}
		if got := h.do(fork.ID(), holdfast.SendMessage{Text: "And cake?"}); got.Info().Name != "Tea in Oslo" || len(m.requests()) != 2 {
			t.Errorf("the fork is named %q, asked %d times", got.Info().Name, len(m.requests()))
		}
	})
}

func TestTitles_comeWithTheNextSaveWhereTheyAreLate(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		next holdfast.Action
		want string
	}{
		"another change":       {holdfast.WriteMetadata{Key: "k", Value: []byte(`1`)}, "Tea in Oslo"},
		"another turn":         {holdfast.SendMessage{Text: "And coffee?"}, "Tea in Oslo"},
		"a name":               {holdfast.RenameSession{To: "mine"}, "mine"},
		"no name, as was said": {holdfast.RenameSession{}, ""},
	} {
		m := &titler{}
		withTitles(t, m, false, nil, func(t *testing.T, h *house) {
			saved := make(chan struct{})
			m.title = func(ctx context.Context) (llm.Response, error) {
				<-saved
				return says("Tea in Oslo")(ctx)
			}
			s := h.create()
			first := h.do(s.ID(), holdfast.SendMessage{Text: "Where do I get tea in Oslo?"})
			close(saved)
			synctest.Wait()
			now, err := h.Get(t.Context(), s.ID())
			if err != nil || now.Info().Name != "" || now.Version() != first.Version() {
				t.Fatalf("%s: after the turn: name %q, version %d, %v", what, now.Info().Name, now.Version(), err)
			}
			got := h.do(s.ID(), c.next)
			if got.Info().Name != c.want || got.Version() != first.Version()+1 || !got.Titled() {
				t.Errorf("%s: name %q, version %d", what, got.Info().Name, got.Version())
			}
			if _, cost := got.Usage(); cost%100 != 7 {
				t.Errorf("%s: the session cost %d", what, cost)
			}
			h.do(s.ID(), holdfast.SendMessage{Text: "And cake?"})
			if len(m.requests()) != 1 || len(h.titled(s.ID())) != 1 {
				t.Errorf("%s: asked %d times, %d in the log", what, len(m.requests()), len(h.titled(s.ID())))
			}
		})
	}
}

func TestTitles_areNotAskedForWhereNobodyWantsThem(t *testing.T) {
	t.Parallel()
	m := &titler{title: says("Tea in Oslo")}
	withTitles(t, m, true, nil, func(t *testing.T, h *house) {
		s := h.create(holdfast.WithName("mine"))
		if got := h.do(s.ID(), holdfast.SendMessage{Text: "hi"}); got.Info().Name != "mine" || len(m.requests()) != 0 {
			t.Errorf("name %q, asked %d times", got.Info().Name, len(m.requests()))
		}
	})
	off := open(t, func(c *holdfast.Config) { c.Models = llm.Map{"demo": m} })
	s := off.create()
	m.answer = nil
	off.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	local := open(t, func(c *holdfast.Config) { c.Models, c.Titles = llm.Map{"demo": localTitler{m}}, true })
	local.do(local.create().ID(), holdfast.SendMessage{Text: "hi"})
	if err := local.Close(); err != nil { // whoever is asked has been
		t.Error(err)
	}
	if len(m.requests()) != 0 {
		t.Errorf("asked %d times", len(m.requests()))
	}
}

// An answer that is no title is paid for and not asked for again; a failure is
// tried again. Neither is of any concern to the turn.
func TestTitles_thatFailHarmNoTurn(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		title func(context.Context) (llm.Response, error)
		again bool
	}{
		"empty":   {says(" \n"), false},
		"refused": {says("I’m sorry, but I can't help with that."), false},
		"chatty":  {says(strings.Repeat("Tea is sold in many places. ", 20)), false},
		"filtered": {func(context.Context) (llm.Response, error) {
			return llm.Response{Content: session.Text("Te"), FinishReason: "content_filter", Cost: 7}, nil
		}, false},
		"failing":   {func(context.Context) (llm.Response, error) { return llm.Response{}, errors.New("away") }, true},
		"panicking": {func(context.Context) (llm.Response, error) { panic("oh") }, true},
	} {
		m := &titler{title: c.title}
		withTitles(t, m, true, nil, func(t *testing.T, h *house) {
			s := h.create()
			h.do(s.ID(), holdfast.SendMessage{Text: "Where do I get tea?"})
			got := h.do(s.ID(), holdfast.SendMessage{Text: "And coffee?"})
			want := 1
			if c.again {
				want = 2
			}
			if _, cost := got.Usage(); got.Info().Name != "" || len(m.requests()) != want || got.Titled() == c.again || !c.again && cost != 207 {
				t.Errorf("%s: name %q, asked %d times, titled %v, cost %d", what, got.Info().Name, len(m.requests()), got.Titled(), cost)
			}
		})
	}
}

// TestTitles_areWrittenOnceWhateverFails lets each call of a turn to the store
// fail, or happen without an answer. The same process or another one goes on.
func TestTitles_areWrittenOnceWhateverFails(t *testing.T) {
	t.Parallel()
	for _, what := range []fault{fails, lost} {
		for _, dies := range []bool{false, true} {
			for n, over := 1, false; !over; n++ {
				m := &titler{title: says("Tea in Oslo")}
				st := newFaultyStore()
				withTitles(t, m, true, st, func(t *testing.T, h *house) { over = titledOnce(t, h, m, st, what, n, dies) })
			}
		}
	}
}

// titledOnce reports whether the turn was over before anything failed.
func titledOnce(t *testing.T, h *house, m *titler, st *faultyStore, what fault, n int, dies bool) (over bool) {
	t.Helper()
	s := h.create()
	st.inject(func(call int, _ store.Ref) fault {
		if call == n {
			return what
		}
		return works
	})
	_, failed := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "Where do I get tea?"})
	over = st.counted() < n
	st.inject(nil)
	st.pass() // the lease may be held, and nobody knows
	rt := h.Runtime
	if dies {
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		next, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": m}, DefaultModel: "demo", Titles: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := next.Close(); err != nil {
				t.Error(err)
			}
		}()
		rt = next
	}
	var got session.Session
	for _, text := range []string{"And coffee?", "And cake?"} {
		var err error
		if got, err = rt.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: text}); err != nil {
			t.Fatalf("call %d, fault %d, dies %v: %v, then %v", n, what, dies, failed, err)
		}
	}
	titles := 0
	for entry, err := range rt.Log(t.Context(), s.ID(), 0) {
		if _, ok := entry.Change.(session.SessionTitled); ok && err == nil {
			titles++
		}
	}
	if got.Info().Name != "Tea in Oslo" || titles != 1 || len(m.requests()) > 2 {
		t.Errorf("call %d, fault %d, dies %v: name %q, %d titles, asked %d times", n, what, dies, got.Info().Name, titles, len(m.requests()))
	}
	return over
}

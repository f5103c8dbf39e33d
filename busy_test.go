package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// slow is a model whose first answer waits at a gate; it answers with what it
// was last told.
func slow(g *gate) llm.Model {
	var once sync.Once
	return modelFunc(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		var err error
		once.Do(func() { err = g.pass(ctx) })
		return llm.Response{Content: session.Text("re: " + r.Messages[len(r.Messages)-1].Content.Text()), FinishReason: "stop"}, err
	})
}

func openSlow(t *testing.T, adjust func(*holdfast.Config)) (*house, *gate) {
	t.Helper()
	g := newGate()
	return open(t, func(c *holdfast.Config) {
		c.Models = llm.Map{"demo": slow(g)}
		if adjust != nil {
			adjust(c)
		}
	}), g
}

// background sends a message that will wait at the gate, and returns when it does.
func (h *house) background(id string, g *gate) (wait func() (session.Session, error)) {
	type end struct {
		s   session.Session
		err error
	}
	done := make(chan end, 1)
	go func() {
		s, err := h.Execute(h.t.Context(), id, holdfast.SendMessage{Text: "first"})
		done <- end{s, err}
	}()
	<-g.reached
	return func() (session.Session, error) {
		e := <-done
		return e.s, e.err
	}
}

func texts(s session.Session) []string {
	var said []string
	for _, m := range s.Messages() {
		said = append(said, m.Content.Text())
	}
	return said
}

func TestSendMessage_twentyAtOnceAreAllThere(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: fmt.Sprint("message ", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := h.stored(s.ID())
	if got.Version() != 21 || got.Len() != 40 {
		t.Fatalf("version %d with %d messages", got.Version(), got.Len())
	}
	seen := map[string]bool{}
	for i, m := range got.Messages() {
		if want := []session.Role{session.RoleUser, session.RoleAssistant}[i%2]; m.Role != want {
			t.Fatalf("message %d is a %s's: turns were mixed", i, m.Role)
		}
		if m.Role == session.RoleUser {
			seen[m.Content.Text()] = true
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d of 20 messages are there", len(seen))
	}
}

func TestExecute_shortActionsStandInLine(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if _, err := h.Execute(t.Context(), s.ID(), holdfast.WriteMetadata{Key: fmt.Sprint("k", i), Value: i}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := h.stored(s.ID()); len(got.Metadata()) != 50 || got.Version() != 51 {
		t.Errorf("%d keys at version %d", len(got.Metadata()), got.Version())
	}
}

func TestOnBusy_waitThenAct(t *testing.T) {
	h, g := openSlow(t, nil)
	s := h.create()
	first := h.background(s.ID(), g)
	renamed := make(chan error, 1)
	go func() {
		_, err := h.Execute(t.Context(), s.ID(), holdfast.RenameSession{To: "later"})
		renamed <- err
	}()
	close(g.open)
	if _, err := first(); err != nil {
		t.Fatal(err)
	}
	if err := <-renamed; err != nil {
		t.Fatal(err)
	}
	if got := h.stored(s.ID()); got.Info().Name != "later" || got.Len() != 2 || got.Version() != 3 {
		t.Errorf("name %q, %d messages, version %d", got.Info().Name, got.Len(), got.Version())
	}
}

func TestOnBusy_waitEnds(t *testing.T) {
	h, g := openSlow(t, func(c *holdfast.Config) { c.BusyWait = 20 * time.Millisecond })
	s := h.create()
	first := h.background(s.ID(), g)
	for _, a := range []holdfast.Action{holdfast.SendMessage{Text: "x"}, holdfast.RenameSession{To: "x"}} {
		_, err := h.Execute(t.Context(), s.ID(), a)
		var busy *session.BusyError
		if !errors.As(err, &busy) || busy.Holder == "" {
			t.Errorf("%s: %v", a.Name(), err)
		}
	}
	close(g.open)
	if _, err := first(); err != nil {
		t.Fatal(err)
	}
}

func TestOnBusy_rejectAtOnce(t *testing.T) {
	h, g := openSlow(t, nil)
	s := h.create()
	first := h.background(s.ID(), g)
	for _, a := range []holdfast.Action{holdfast.SendMessage{Text: "x"}, holdfast.RenameSession{To: "x"}} {
		if _, err := h.Execute(t.Context(), s.ID(), a, holdfast.OnBusy(holdfast.Reject)); !errors.Is(err, session.ErrBusy) {
			t.Errorf("%s: %v", a.Name(), err)
		}
	}
	close(g.open)
	if got, err := first(); err != nil || got.Version() != 2 {
		t.Errorf("the first ended with %v", err)
	}
}

func TestOnBusy_enqueueIsDeliveredOnceInOrder(t *testing.T) {
	h, g := openSlow(t, nil)
	s := h.create()
	first := h.background(s.ID(), g)
	h.heard.forget()
	for _, text := range []string{"second", "third"} {
		got, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: text}, holdfast.OnBusy(holdfast.Enqueue))
		var queued *session.QueuedError
		if !errors.As(err, &queued) || queued.InboxID == "" || !got.IsZero() {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if kinds := h.heard.kinds(); len(kinds) != 0 {
		t.Errorf("queueing emitted %v", kinds)
	}
	close(g.open)
	got, err := first()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"first", "re: first", "second", "third", "re: third"}; !slices.Equal(texts(got), want) {
		t.Errorf("transcript %v, want %v", texts(got), want)
	}
	items, err := h.store.(store.Inboxes).Inbox(t.Context(), store.RefOf(s))
	if err != nil || len(items) != 0 {
		t.Errorf("the inbox still holds %v, %v", items, err)
	}
	if got.Version() != 2 {
		t.Errorf("version %d: late messages prolong an execution", got.Version())
	}
}

func TestOnBusy_enqueueOnAFreeSessionJustSends(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	if got := h.do(s.ID(), holdfast.SendMessage{Text: "hi"}, holdfast.OnBusy(holdfast.Enqueue)); got.Reply() != "hello" {
		t.Errorf("reply %q", got.Reply())
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.ClearSession{}, holdfast.OnBusy(holdfast.Enqueue)); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("only messages can be queued: %v", err)
	}
}

// postsLate is a store in whose inbox a message arrives in the last moment:
// after the loop's last look and before the save.
type postsLate struct {
	*inmem.Store
	once sync.Once
	post func()
}

func (p *postsLate) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	if c.Action == "SendMessage" {
		p.once.Do(p.post)
	}
	return p.Store.Save(ctx, s, c)
}

func TestEnqueue_betweenLastLookAndSaveIsNotLost(t *testing.T) {
	late := &postsLate{Store: inmem.New(inmem.Config{})}
	h := open(t, func(c *holdfast.Config) { c.Store = late })
	s := h.create()
	late.post = func() {
		_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "late"}, holdfast.OnBusy(holdfast.Enqueue))
		if !errors.Is(err, session.ErrQueued) {
			t.Errorf("got %v", err)
		}
	}
	got := h.do(s.ID(), holdfast.SendMessage{Text: "early"})
	if want := []string{"early", "hello", "late", "hello"}; !slices.Equal(texts(got), want) {
		t.Errorf("transcript %v, want %v", texts(got), want)
	}
}

func TestEnqueue_undeliverableDoesNotHideWhatWasSaved(t *testing.T) {
	late := &postsLate{Store: inmem.New(inmem.Config{})}
	h := open(t, func(c *holdfast.Config) {
		c.Store = late
		c.Hooks = holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
			if stage == session.BeforeSave && s.Len() > 0 {
				return s.WithStatus(session.Suspended, "one turn each", s.State().UpdatedAt)
			}
			return s, nil
		})
	})
	s := h.create()
	late.post = func() {
		_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "late"}, holdfast.OnBusy(holdfast.Enqueue))
		if !errors.Is(err, session.ErrQueued) {
			t.Errorf("got %v", err)
		}
	}
	got := h.do(s.ID(), holdfast.SendMessage{Text: "early"})
	if got.Reply() != "hello" || got.Version() != 2 {
		t.Errorf("reply %q at version %d", got.Reply(), got.Version())
	}
	if items, err := h.store.(store.Inboxes).Inbox(t.Context(), store.RefOf(s)); err != nil || len(items) != 1 {
		t.Errorf("the late message is gone: %v, %v", items, err)
	}
}

func TestOnBusy_interruptStopsTheOther(t *testing.T) {
	waits := make(chan struct{})
	spin := toolFunc{spec: tool.Spec{Name: "spin"}, call: func(context.Context, tool.Call) (tool.Result, error) {
		<-waits
		return tool.Result{Content: "ok"}, nil
	}}
	h := open(t, func(c *holdfast.Config) {
		c.Tools = toolSet(t, spin)
		script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "spin")}}, scripted.Reply{Text: "after"})
	})
	s := h.create()
	started := make(chan struct{})
	holdfast.On(h.Runtime, func(holdfast.ToolStarted) { close(started) }, 0)
	first := make(chan session.Session, 1)
	go func() {
		got, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "first"})
		if err != nil {
			t.Error(err)
		}
		first <- got
	}()
	<-started
	second := make(chan session.Session, 1)
	go func() {
		got, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "second"}, holdfast.OnBusy(holdfast.Interrupt))
		if err != nil {
			t.Error(err)
		}
		second <- got
	}()
	news, stop := h.store.(store.Wakes).Subscribe(store.RefOf(s))
	defer stop()
	for { // the cancel is in the inbox: let the tool end, a safe point follows
		items, err := h.store.(store.Inboxes).Inbox(t.Context(), store.RefOf(s))
		if err != nil {
			t.Fatal(err)
		}
		if len(items) > 0 {
			break
		}
		<-news
	}
	close(waits)
	if e := (<-first).Execution(); e.Status != session.ExecutionStopped || e.Stop.Reason != session.StopUserRequested {
		t.Errorf("the first ended as %s, %v", e.Status, e.Stop)
	}
	if got := <-second; got.Reply() != "after" || got.Execution().Status != session.ExecutionCompleted {
		t.Errorf("the second answered %q", got.Reply())
	}
}

func TestCancel(t *testing.T) {
	t.Run("nothing runs", func(t *testing.T) {
		h := open(t, nil)
		s := h.create()
		if err := h.Cancel(t.Context(), s.ID()); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("got %v", err)
		}
		if err := h.Cancel(t.Context(), "nobody"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("broken off", func(t *testing.T) {
		h := open(t, nil)
		s := h.create()
		h.interrupt(s.ID())
		if err := h.Cancel(t.Context(), s.ID()); err != nil {
			t.Fatal(err)
		}
		if e := h.stored(s.ID()).Execution(); e.Status != session.ExecutionStopped || e.Stop.Reason != session.StopUserRequested {
			t.Errorf("ended as %+v", e)
		}
	})
	t.Run("a late cancel does not hit the next execution", func(t *testing.T) {
		h := open(t, nil)
		s := h.create()
		raw, err := session.JSON("some earlier execution")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Post(t.Context(), s.ID(), store.Item{Kind: store.ItemCancel, Payload: session.Values{"executionId": raw}}); err != nil {
			t.Fatal(err)
		}
		if got := h.do(s.ID(), holdfast.SendMessage{Text: "hi"}); got.Reply() != "hello" {
			t.Errorf("reply %q, execution %+v", got.Reply(), got.Execution())
		}
	})
}

func TestIdempotencyKey(t *testing.T) {
	h := open(t, func(c *holdfast.Config) { script(c, scripted.Reply{Text: "one"}, scripted.Reply{Text: "two"}) })
	s := h.create()
	key := holdfast.IdempotencyKey("k-1")
	first := h.do(s.ID(), holdfast.SendMessage{Text: "hi"}, key)
	h.do(s.ID(), holdfast.SendMessage{Text: "other"})
	h.heard.forget()
	again := h.do(s.ID(), holdfast.SendMessage{Text: "hi"}, key)
	if document(t, again) != document(t, first) {
		t.Errorf("a repetition returned version %d with %q", again.Version(), again.Reply())
	}
	if events := h.heard.all(); len(events) != 0 {
		t.Errorf("nothing may run, but: %v", events)
	}
	if v := h.stored(s.ID()).Version(); v != 3 {
		t.Errorf("stored version %d", v)
	}
	_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "something else"}, key)
	var conflict *session.ConflictError
	if !errors.As(err, &conflict) || conflict.Reason != session.ReasonKeyReused {
		t.Errorf("the key for another action: %v", err)
	}
	for _, bad := range []string{"", "tab\t", string(make([]byte, 256))} {
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.ClearSession{}, holdfast.IdempotencyKey(bad)); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("key %q: %v", bad, err)
		}
	}
}

func TestIdempotencyKey_duplicatesAtOnceRunOnce(t *testing.T) {
	for name, action := range map[string]holdfast.Action{
		"long":  holdfast.SendMessage{Text: "hi"},
		"short": holdfast.WriteMetadata{Key: "k", Value: 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, nil)
			s := h.create()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					got, err := h.Execute(t.Context(), s.ID(), action, holdfast.IdempotencyKey("same"))
					if err != nil || got.Version() != 2 {
						t.Errorf("got version %d, %v", got.Version(), err)
					}
				})
			}
			wg.Wait()
			if v := h.stored(s.ID()).Version(); v != 2 {
				t.Errorf("stored version %d", v)
			}
		})
	}
}

func TestIdempotencyKey_ofABrokenOffTurnContinuesIt(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	ctx, cancel := context.WithCancel(t.Context())
	stop := holdfast.On(h.Runtime, func(holdfast.StepStarted) { cancel() }, 0)
	send, key := holdfast.SendMessage{Text: "once"}, holdfast.IdempotencyKey("k")
	if _, err := h.Execute(ctx, s.ID(), send, key); !errors.Is(err, session.ErrInterrupted) {
		t.Fatal(err)
	}
	stop()
	got := h.do(s.ID(), send, key)
	if want := []string{"once", "hello"}; !slices.Equal(texts(got), want) {
		t.Errorf("transcript %v, want %v", texts(got), want)
	}
}

func TestIdempotencyKey_isWrittenWithItsMessage(t *testing.T) {
	work := &counting{nature: tool.Once}
	h := open(t, func(c *holdfast.Config) {
		c.Tools = toolSet(t, work)
		script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("c1", "work"), callOf("c2", "work")}}, scripted.Reply{Text: "done"})
	})
	s := h.create()
	cutOff := func(a holdfast.Action, opts ...holdfast.Option) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		work.cut = cancel
		if _, err := h.Execute(ctx, s.ID(), a, opts...); !errors.Is(err, session.ErrInterrupted) {
			t.Fatal(err)
		}
	}
	send, key := holdfast.SendMessage{Text: "well?"}, holdfast.IdempotencyKey("k")
	cutOff(holdfast.SendMessage{Text: "go"}) // in the first tool
	cutOff(send, key)                        // in the second, before its message is written
	got := h.do(s.ID(), send, key)
	if n := len(slices.DeleteFunc(texts(got), func(text string) bool { return text != "well?" })); n != 1 || got.Reply() != "done" {
		t.Errorf("the message is there %d times, reply %q", n, got.Reply())
	}
}

func TestSendMessage_sameMessageIDIsSentOnce(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	send := func() holdfast.SendMessage {
		return holdfast.SendMessage{Message: &session.Message{ID: "m-1", Content: session.Text("hi")}}
	}
	first := h.do(s.ID(), send())
	if again := h.do(s.ID(), send()); again.Version() != first.Version() || h.stored(s.ID()).Len() != 2 {
		t.Errorf("sent twice: version %d", again.Version())
	}
}

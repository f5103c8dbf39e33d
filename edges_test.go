package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// meddling is a store in which something happens at a moment of the test's
// choice.
type meddling struct {
	*inmem.Store
	swept  func()
	append func(n int) error
	writes int
	renew  func(ctx context.Context) error

	acquired int
}

func (m *meddling) Acquire(ctx context.Context, r store.Ref, holder string, length time.Duration) (store.Lease, error) {
	m.acquired++
	return m.Store.Acquire(ctx, r, holder, length)
}

func (m *meddling) Sweepable(ctx context.Context, tenant string, r store.Retention, now time.Time) ([]session.Info, error) {
	found, err := m.Store.Sweepable(ctx, tenant, r, now)
	if m.swept != nil {
		m.swept()
	}
	return found, err
}

func (m *meddling) Append(ctx context.Context, s session.Session, a store.Append) (session.Session, error) {
	m.writes++
	if m.append != nil {
		if err := m.append(m.writes); err != nil {
			return session.Session{}, err
		}
	}
	return m.Store.Append(ctx, s, a)
}

func (m *meddling) Start(ctx context.Context, s session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	m.writes++
	if m.append != nil {
		if err := m.append(m.writes); err != nil {
			return session.Session{}, store.Lease{}, err
		}
	}
	return m.Store.Start(ctx, s, b)
}

func (m *meddling) Renew(ctx context.Context, r store.Ref, l store.Lease, length time.Duration) (store.Lease, error) {
	if m.renew != nil {
		return store.Lease{}, m.renew(ctx)
	}
	return m.Store.Renew(ctx, r, l, length)
}

func openMeddling(t *testing.T, adjust func(*holdfast.Config)) (*house, *meddling) {
	t.Helper()
	m := &meddling{Store: inmem.New(inmem.Config{})}
	return open(t, func(c *holdfast.Config) {
		c.Store = m
		if adjust != nil {
			adjust(c)
		}
	}), m
}

func TestSweep_leavesWhatWasUsedMeanwhile(t *testing.T) {
	for _, purge := range []bool{true, false} {
		now := time.Now()
		h, m := openMeddling(t, func(c *holdfast.Config) { c.Now = func() time.Time { return now } })
		s := h.create()
		now = now.Add(48 * time.Hour)
		m.swept = func() { h.do(s.ID(), holdfast.SendMessage{Text: "still here"}) }
		swept, err := h.Sweep(t.Context(), holdfast.Retention{IdleFor: 24 * time.Hour, Purge: purge})
		if err != nil || len(swept) != 0 {
			t.Errorf("purge %v: swept %v, %v", purge, swept, err)
		}
		if got := h.stored(s.ID()); got.Len() != 2 || got.Status() != session.Active {
			t.Errorf("purge %v: %d messages, %s", purge, got.Len(), got.Status())
		}
		m.swept = nil
		now = now.Add(48 * time.Hour)
		if swept, err := h.Sweep(t.Context(), holdfast.Retention{IdleFor: 24 * time.Hour, Purge: purge}); err != nil || len(swept) != 1 {
			t.Errorf("purge %v: an idle session stays: %v, %v", purge, swept, err)
		}
	}
}

func TestPost_refusesFollowUpsThatCannotBeSent(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	for name, raw := range map[string]string{
		"none": ``, "no message": `"hi"`, "blank": `{"content":" "}`, "a tool's": `{"role":"tool","content":"x"}`,
	} {
		payload := session.Values{}
		if raw != "" {
			payload["message"] = []byte(raw)
		}
		if _, err := h.Post(t.Context(), s.ID(), store.Item{Kind: store.ItemFollowUp, Payload: payload}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// One that got in another way must not silence the session for ever.
	bad := store.Item{ID: "bad", Kind: store.ItemFollowUp, Payload: session.Values{"message": []byte(`"nonsense"`)}, At: time.Now()}
	if err := h.store.(store.Inboxes).Post(t.Context(), store.RefOf(s), bad); err != nil {
		t.Fatal(err)
	}
	good, err := h.Post(t.Context(), s.ID(), store.Item{Kind: store.ItemFollowUp, Payload: session.Values{"message": []byte(`{"content":"and this"}`)}})
	if err != nil || good.ID == "" {
		t.Fatal(err)
	}
	got := h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	if want := []string{"hi", "and this", "hello"}; !slices.Equal(texts(got), want) {
		t.Errorf("transcript %v, want %v", texts(got), want)
	}
	if items, err := h.store.(store.Inboxes).Inbox(t.Context(), store.RefOf(s)); err != nil || len(items) != 0 {
		t.Errorf("the inbox still holds %v, %v", items, err)
	}
}

func TestEnqueue_sameKeyIsSaidOnce(t *testing.T) {
	h, g := openSlow(t, nil)
	s := h.create()
	first := h.background(s.ID(), g)
	key, enqueue := holdfast.IdempotencyKey("k"), holdfast.OnBusy(holdfast.Enqueue)
	for range 2 {
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "once"}, key, enqueue); !errors.Is(err, session.ErrQueued) {
			t.Fatal(err)
		}
	}
	close(g.open)
	if _, err := first(); err != nil {
		t.Fatal(err)
	}
	got := h.do(s.ID(), holdfast.SendMessage{Text: "once"}, key)
	if want := []string{"first", "re: first", "once", "re: once"}; !slices.Equal(texts(got), want) {
		t.Errorf("transcript %v, want %v", texts(got), want)
	}
}

func TestIdempotencyKey_ofATurnThatAnotherActionSealed(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	ctx, cancel := context.WithCancel(t.Context())
	stop := holdfast.On(h.Runtime, func(holdfast.StepStarted) { cancel() }, 0)
	send, key := holdfast.SendMessage{Text: "once"}, holdfast.IdempotencyKey("k")
	if _, err := h.Execute(ctx, s.ID(), send, key); !errors.Is(err, session.ErrInterrupted) {
		t.Fatal(err)
	}
	stop()
	h.do(s.ID(), holdfast.RenameSession{To: "x"}) // seals the tail
	for range 2 {
		got := h.do(s.ID(), send, key)
		if want := []string{"once", "hello"}; !slices.Equal(texts(got), want) || got.Running() {
			t.Errorf("transcript %v, running %v", texts(got), got.Running())
		}
	}
}

func TestIdempotencyKey_mayBeLong(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	key := holdfast.IdempotencyKey(strings.Repeat("é", 255))
	first := h.do(s.ID(), holdfast.SendMessage{Text: "hi"}, key)
	if again := h.do(s.ID(), holdfast.SendMessage{Text: "hi"}, key); again.Version() != first.Version() {
		t.Errorf("version %d", again.Version())
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.ClearSession{}, holdfast.IdempotencyKey(strings.Repeat("é", 256))); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("256 characters: %v", err)
	}
}

func TestSendMessage_afterAnAnswerThatWasCutOff(t *testing.T) {
	b := &breaking{Store: inmem.New(inmem.Config{})}
	var model *scripted.Model
	h := open(t, func(c *holdfast.Config) {
		c.Store = b
		model = script(c, scripted.Reply{Text: "half", FinishReason: "length"}, scripted.Reply{Text: "whole"})
	})
	s := h.create()
	b.save = errBoom
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "first"}); !errors.Is(err, errBoom) || !contains(err.Error(), "can be continued") {
		t.Fatal(err)
	}
	b.save = nil
	got := h.do(s.ID(), holdfast.SendMessage{Text: "second"})
	if got.Reply() != "whole" || len(model.Requests()) != 2 {
		t.Errorf("reply %q after %d model calls", got.Reply(), len(model.Requests()))
	}
}

func TestLease_thatCannotBeRenewedEndsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, m := openMeddling(t, func(c *holdfast.Config) {
			c.Models = llm.Map{"demo": modelFunc(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
				<-ctx.Done()
				return llm.Response{}, ctx.Err()
			})}
		})
		s := h.create()
		m.renew = func(ctx context.Context) error { // a store that hangs
			<-ctx.Done()
			return ctx.Err()
		}
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}); !errors.Is(err, session.ErrFenced) {
			t.Errorf("got %v", err)
		}
	})
}

func TestInterrupt_ofWorkThatIsNoExecutionLeavesNothingBehind(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	g := newGate()
	done := make(chan error, 1)
	go func() {
		_, err := h.Execute(t.Context(), s.ID(), custom{name: "Long", leased: true, run: func(ctx context.Context, s session.Session) (session.Session, error) {
			return s, g.pass(ctx)
		}})
		done <- err
	}()
	<-g.reached
	if err := h.Cancel(t.Context(), s.ID()); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("cancelled what is no execution: %v", err)
	}
	sent := make(chan session.Session, 1)
	go func() {
		got, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}, holdfast.OnBusy(holdfast.Interrupt))
		if err != nil {
			t.Error(err)
		}
		sent <- got
	}()
	close(g.open)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := <-sent; got.Reply() != "hello" {
		t.Errorf("the interrupter stopped itself: %+v", got.Execution())
	}
}

func TestExecute_failingJournalKeepsWhatWasWritten(t *testing.T) {
	paid := 0
	pay := toolFunc{spec: tool.Spec{Name: "pay"}, call: func(context.Context, tool.Call) (tool.Result, error) {
		paid++
		return tool.Result{Content: "paid"}, nil
	}}
	h, m := openMeddling(t, func(c *holdfast.Config) {
		c.Tools = toolSet(t, pay)
		script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "pay")}}, scripted.Reply{Text: "done"})
	})
	s := h.create()
	m.append = func(n int) error {
		if n == 3 { // the tool has run
			return errBoom
		}
		return nil
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "go"}); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	got := h.do(s.ID(), holdfast.ContinueExecution{})
	if paid != 1 || got.Reply() != "done" || !got.Message(2).ToolResult.Synthetic {
		t.Errorf("paid %d times, reply %q", paid, got.Reply())
	}
}

func TestPurge_cascadeEndsWhereParentsGoInACircle(t *testing.T) {
	h := open(t, nil)
	for id, parent := range map[string]string{"self": "self", "left": "right", "right": "left"} {
		s, err := session.New(session.Identity{ID: id, AgentID: "agent-" + id, ParentID: parent, Origin: session.OriginImport}, agentDef, session.Seed{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Import(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"self", "left"} {
		if err := h.Purge(t.Context(), id, holdfast.Cascade()); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if n := count(t, h); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestSecrets_maskOnlyText(t *testing.T) {
	if _, err := holdfast.New(holdfast.Config{Store: inmem.New(inmem.Config{}), Secrets: map[string]string{"PIN": "2026"}}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a secret that stands everywhere: %v", err)
	}
	h := open(t, func(c *holdfast.Config) {
		c.Secrets = map[string]string{"NUMBER": "12345678"}
		script(c, scripted.Reply{Err: errors.New("key 12345678 is not valid")})
	})
	s := h.create()
	got := h.do(s.ID(), holdfast.WriteMetadata{Key: "k", Value: map[string]any{"n": 12345678, "t": "it is 12345678", "12345678": nil}})
	if raw := string(got.Metadata()["k"]); raw != `{"[secret:NUMBER]":null,"n":12345678,"t":"it is [secret:NUMBER]"}` {
		t.Errorf("metadata %s", raw)
	}
	_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"})
	if !errors.Is(err, session.ErrExecutionFailed) || contains(err.Error(), "12345678") || !contains(err.Error(), "[secret:NUMBER]") {
		t.Errorf("the error says %v", err)
	}
}

func TestCreate_findsSecretsAtAnyDepth(t *testing.T) {
	h := open(t, nil)
	def := agentDef
	def.ModelParams = &session.ModelParams{Options: session.Values{"extra": []byte(`[{"headers":{"authorization":"x"}}]`)}}
	if _, err := h.Create(t.Context(), def); !errors.Is(err, session.ErrSecret) {
		t.Errorf("create: %v", err)
	}
	s := h.create()
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.ChangeModel{Model: "demo", Params: def.ModelParams}); !errors.Is(err, session.ErrSecret) {
		t.Errorf("change model: %v", err)
	}
	foreign, err := session.New(session.Identity{ID: "foreign", AgentID: "a"}, def, session.Seed{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Import(t.Context(), foreign); !errors.Is(err, session.ErrSecret) {
		t.Errorf("import: %v", err)
	}
}

func TestCreate_aCostLimitNeedsAPriceOfTheDefaultModelToo(t *testing.T) {
	h := open(t, nil)
	limit := session.Dollars(1)
	if _, err := h.Create(t.Context(), session.Definition{Name: "x", Budget: &session.Budget{MaxCost: &limit}}); !errors.Is(err, session.ErrDefinition) {
		t.Errorf("got %v", err)
	}
}

func TestExecute_panickingSummaryIsAFailedPrune(t *testing.T) {
	limit := 1
	def := agentDef
	def.Memory = &session.MemoryPolicy{Strategy: session.PruneSummary, Limit: &limit, SummaryPrompt: "Sum up.", SummaryModel: "wild", Slack: new(int)}
	h := open(t, func(c *holdfast.Config) {
		c.Models = llm.Map{"demo": scripted.New(), "wild": modelFunc(func(context.Context, llm.Request) (llm.Response, error) { panic("boom") })}
	})
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	h.heard.forget()
	h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	wantEvents(t, h, "SessionLoaded", "MemoryPruneFailed", "SessionActionExecuted", "SessionSaved")
}

func TestHold_sessionCanBeReadInsideAnAction(t *testing.T) {
	h := open(t, nil)
	s := h.create(holdfast.WithKind(session.KindTask))
	err := h.Hold(t.Context(), s.ID(), func(ctx context.Context, hold *holdfast.Hold) error {
		_, err := hold.Execute(ctx, custom{name: "Look", run: func(_ context.Context, s session.Session) (session.Session, error) {
			if hold.Session().ID() != s.ID() {
				t.Error("another session")
			}
			return s, nil
		}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestHold_aRefusedActionLeavesItsOwnTailOpenToo(t *testing.T) {
	h := open(t, nil)
	s := h.create(holdfast.WithKind(session.KindTask))
	err := h.Hold(t.Context(), s.ID(), func(ctx context.Context, hold *holdfast.Hold) error {
		_, err := hold.Execute(ctx, custom{name: "Fail", leased: true, run: func(ctx context.Context, s session.Session) (session.Session, error) {
			s, err := s.WithName("half", holdfast.Env(ctx).Now())
			if err == nil {
				_, err = holdfast.Env(ctx).Append(ctx, s)
			}
			return s, errors.Join(err, errBoom)
		}})
		if !errors.Is(err, errBoom) || hold.Session().Info().Name != "half" {
			t.Errorf("name %q, %v", hold.Session().Info().Name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLog_canBeReadTwice(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	log := h.Log(t.Context(), s.ID(), 0)
	for range 2 {
		n := 0
		for _, err := range log {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%d changes", n)
		}
	}
}

func TestOnBusy_rejectDoesNotWaitBehindAShortAction(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	g := newGate()
	done := make(chan error, 1)
	go func() {
		_, err := h.Execute(t.Context(), s.ID(), custom{name: "Slow", run: func(ctx context.Context, s session.Session) (session.Session, error) {
			return s, g.pass(ctx)
		}})
		done <- err
	}()
	<-g.reached
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}, holdfast.OnBusy(holdfast.Reject)); !errors.Is(err, session.ErrBusy) {
		t.Errorf("got %v", err) // and it came while the gate was closed
	}
	close(g.open)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

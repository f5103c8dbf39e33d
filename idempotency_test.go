package holdfast_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// userMessages counts the messages of users in a session.
func userMessages(s session.Session) map[string]int {
	said := map[string]int{}
	for i := range s.Len() {
		if m := s.Message(i); m.Role == session.RoleUser {
			said[m.Content.Text()]++
		}
	}
	return said
}

// openWaiting opens a house whose model waits at the gate with its first answer.
func openWaiting(t *testing.T) (*house, *gate) {
	g := newGate()
	first := true
	return open(t, func(c *holdfast.Config) {
		c.Models = llm.Map{"demo": modelFunc(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
			if first {
				first = false
				if err := g.pass(ctx); err != nil {
					return llm.Response{}, err
				}
			}
			return llm.Response{Content: session.Text("done")}, nil
		})}
	}), g
}

// The same request while the first is at work, in each way that it can arrive,
// runs once.
func TestIdempotency_theSameRequestWhileTheFirstIsAtWork(t *testing.T) {
	message := session.Message{ID: "m1", Role: session.RoleUser, Content: session.Text("buy it")}
	payload, err := session.JSON(message)
	if err != nil {
		t.Fatal(err)
	}
	byKey := func(h *house, id string, opts ...holdfast.Option) error {
		_, err := h.Execute(t.Context(), id, holdfast.SendMessage{Text: "buy it"}, append(opts, holdfast.IdempotencyKey("k"))...)
		return err
	}
	byID := func(h *house, id string, opts ...holdfast.Option) error {
		_, err := h.Execute(t.Context(), id, holdfast.SendMessage{Message: &message}, opts...)
		return err
	}
	post := func(h *house, id string, opts ...holdfast.Option) error {
		_, err := h.Post(t.Context(), id, store.Item{Kind: store.ItemFollowUp, Payload: session.Values{"message": payload}})
		return err
	}
	for name, c := range map[string]struct {
		first, again func(*house, string, ...holdfast.Option) error
	}{
		"key":              {byKey, byKey},
		"message id":       {byID, byID},
		"message and post": {byID, post},
	} {
		t.Run(name, func(t *testing.T) {
			h, g := openWaiting(t)
			s := h.create()
			done := make(chan error, 1)
			go func() { done <- c.first(h, s.ID()) }()
			<-g.reached
			for range 2 {
				if err := c.again(h, s.ID(), holdfast.OnBusy(holdfast.Enqueue)); err != nil && !errors.Is(err, session.ErrQueued) {
					t.Errorf("while the first is at work: %v", err)
				}
			}
			close(g.open)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if said := userMessages(h.stored(s.ID())); said["buy it"] != 1 {
				t.Errorf("it ran %d times", said["buy it"])
			}
			if err := c.again(h, s.ID(), holdfast.OnBusy(holdfast.Enqueue)); err != nil {
				t.Errorf("after the first: %v", err)
			}
			if said := userMessages(h.stored(s.ID())); said["buy it"] != 1 {
				t.Errorf("afterwards it ran %d times", said["buy it"])
			}
		})
	}
}

// Messages that wait in the inbox under one key are one message, whichever item
// they are in.
func TestIdempotency_queuedMessagesRunOnce(t *testing.T) {
	h, g := openWaiting(t)
	s := h.create()
	done := make(chan error, 1)
	go func() {
		_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "first"})
		done <- err
	}()
	<-g.reached
	queue := func(m session.Message, opts ...holdfast.Option) error {
		_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Message: &m}, append(opts, holdfast.OnBusy(holdfast.Enqueue))...)
		return err
	}
	m := session.Message{ID: "m1", Content: session.Text("next")}
	for _, opts := range [][]holdfast.Option{{holdfast.IdempotencyKey("k")}, {holdfast.IdempotencyKey("k")}, nil, nil} {
		if err := queue(m, opts...); !errors.Is(err, session.ErrQueued) {
			t.Errorf("not queued: %v", err)
		}
	}
	other := session.Message{ID: "m2", Content: session.Text("something else")}
	var conflict *session.ConflictError
	if err := queue(other, holdfast.IdempotencyKey("k")); !errors.As(err, &conflict) || conflict.Reason != session.ReasonKeyReused {
		t.Errorf("another message under the same key: %v", err)
	}
	close(g.open)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if said := userMessages(h.stored(s.ID())); said["first"] != 1 || said["next"] != 1 || len(said) != 2 {
		t.Errorf("said %v", said)
	}
	if items, err := h.Inbox(t.Context(), s.ID()); err != nil || len(items) != 0 {
		t.Errorf("left in the inbox: %v, %v", items, err)
	}
}

func TestIdempotency_createAndFork(t *testing.T) {
	h := open(t, nil)
	create := func(name string) (session.Session, error) {
		return h.Create(t.Context(), agentDef, holdfast.WithName(name), holdfast.IdempotencyKey("k"))
	}
	first, err := create("one")
	if err != nil {
		t.Fatal(err)
	}
	h.do(first.ID(), holdfast.SendMessage{Text: "hi"})
	again, err := create("one")
	if err != nil || again.ID() != first.ID() || again.Version() != 1 || count(t, h) != 1 {
		t.Errorf("created %s again as %s, %v", first.ID(), again.ID(), err)
	}
	fork := func(key string, opts ...holdfast.Option) (session.Session, error) {
		return h.Fork(t.Context(), first.ID(), append(opts, holdfast.IdempotencyKey(key))...)
	}
	branch, err := fork("f")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Purge(t.Context(), first.ID()); err != nil {
		t.Fatal(err)
	}
	h.heard.forget()
	if same, err := fork("f"); err != nil || same.ID() != branch.ID() || count(t, h) != 1 {
		t.Errorf("forked %s again as %s, %v", branch.ID(), same.ID(), err)
	}
	wantEvents(t, h)
	for name, call := range map[string]func() (session.Session, error){
		"another fork": func() (session.Session, error) { return fork("f", holdfast.At(1)) },
		"a session":    func() (session.Session, error) { return h.Create(t.Context(), agentDef, holdfast.IdempotencyKey("f")) },
	} {
		var conflict *session.ConflictError
		if _, err := call(); !errors.As(err, &conflict) || conflict.Reason != session.ReasonKeyReused {
			t.Errorf("%s under the same key: %v", name, err)
		}
	}
	if _, err := h.Create(t.Context(), agentDef, holdfast.WithID("x"), holdfast.IdempotencyKey("k")); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("with an id as well: %v", err)
	}
}

var errKey = errors.New("401: the key is not valid")

// A request whose turn failed returns that failure when it is repeated, and runs
// again when that is asked for: with the message it had, and without a second
// run of its tools.
func TestRetryExecution_runsAFailedTurnAgain(t *testing.T) {
	work := &counting{}
	h := open(t, func(c *holdfast.Config) {
		script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "work")}}, scripted.Reply{Err: errKey}, scripted.Reply{Err: errKey},
			scripted.Reply{Text: "done"}, scripted.Reply{Text: "you are welcome"})
		c.Tools = toolSet(t, work)
	})
	s := h.create()
	send := func() (session.Session, error) {
		return h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "do it"}, holdfast.IdempotencyKey("k"))
	}
	failedAt := func(got session.Session, err error, version int64) {
		t.Helper()
		var failed *session.ExecutionError
		if !errors.As(err, &failed) || failed.Version != version || got.Version() != version || !contains(err.Error(), errKey.Error()) {
			t.Errorf("version %d, want %d: %v", got.Version(), version, err)
		}
	}
	got, err := send()
	failedAt(got, err, 2)
	got, err = send()
	failedAt(got, err, 2)
	got, err = h.Execute(t.Context(), s.ID(), holdfast.RetryExecution{})
	failedAt(got, err, 3)
	got, err = send()
	failedAt(got, err, 3)

	got = h.do(s.ID(), holdfast.RetryExecution{})
	if got.Reply() != "done" || len(userMessages(got)) != 1 || userMessages(got)["do it"] != 1 || work.runs != 1 || got.Execution().Status != session.ExecutionCompleted {
		t.Errorf("after the retry: %q, asked %v, the tool ran %d times", got.Reply(), userMessages(got), work.runs)
	}
	if again, err := send(); err != nil || again.Version() != got.Version() || again.Reply() != "done" {
		t.Errorf("repeated after the retry: version %d, %v", again.Version(), err)
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.RetryExecution{}); !errors.Is(err, session.ErrNothingToDo) {
		t.Errorf("with nothing to retry: %v", err)
	}
	if got = h.do(s.ID(), holdfast.SendMessage{Text: "thanks"}); got.Reply() != "you are welcome" || got.Execution().Number != 2 {
		t.Errorf("the next turn: %q", got.Reply())
	}
}

// A failure belongs to the request that ran it.
func TestIdempotency_anotherActionAfterAFailureSucceeded(t *testing.T) {
	h := open(t, func(c *holdfast.Config) { script(c, scripted.Reply{Err: errKey}) })
	s := h.create()
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "do it"}); !errors.Is(err, session.ErrExecutionFailed) {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := h.Execute(t.Context(), s.ID(), holdfast.RenameSession{To: "x"}, holdfast.IdempotencyKey("k")); err != nil || got.Version() != 3 {
			t.Errorf("version %d, %v", got.Version(), err)
		}
	}
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

// shop is an agent that charges money with a tool that must not run twice, by
// itself or through a subagent.
type shop struct {
	*house
	store   *faultyStore
	charged atomic.Int64

	mu    sync.Mutex // guards the rest
	hooks int
	trip  func(n int) (session.Session, error, bool)
}

// hook counts the hooks and lets trip decide about each.
func (p *shop) hook(_ context.Context, _ session.Stage, s session.Session) (session.Session, error) {
	p.mu.Lock()
	p.hooks++
	n, trip := p.hooks, p.trip
	p.mu.Unlock()
	if trip != nil {
		if out, err, tripped := trip(n); tripped {
			return out, err
		}
	}
	return s, nil
}

func (p *shop) watchHooks(trip func(n int) (session.Session, error, bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks, p.trip = 0, trip
}

// openShop opens a shop and returns the session to buy in.
func openShop(t *testing.T, agent string) (*shop, string) {
	p := &shop{store: newFaultyStore()}
	charge := toolFunc{spec: tool.Spec{Name: "charge"}, call: func(context.Context, tool.Call) (tool.Result, error) {
		p.charged.Add(1)
		return tool.Result{Content: "charged"}, nil
	}}
	definitions := staff{
		"clerk": {Name: "clerk", Model: "demo"},
		"boss":  {Name: "boss", Model: "demo", Subagents: []string{"clerk"}},
	}
	p.house = open(t, func(c *holdfast.Config) {
		c.Store, c.Tools, c.Definitions = p.store, toolSet(t, charge), definitions
		c.Models = llm.Map{"demo": modelFunc(buying)}
		c.Hooks = holdfast.HookFunc(p.hook)
	})
	s, err := p.Create(t.Context(), definitions[agent])
	if err != nil {
		t.Fatal(err)
	}
	return p, s.ID()
}

// buying answers what was done last, and has it done before that. A subagent
// that failed is given the work again.
func buying(_ context.Context, r llm.Request) (llm.Response, error) {
	last := r.Messages[len(r.Messages)-1]
	if last.Role == session.RoleTool && (r.Agent != "boss" || !last.ToolResult.IsError) {
		return llm.Response{Content: session.Text("done: " + last.ToolResult.Content)}, nil
	}
	call := session.ToolCall{ID: "pay", Name: "charge"}
	if r.Agent == "boss" {
		call = spawning("clerk", "charge it")
	}
	return llm.Response{ToolCalls: []session.ToolCall{call}}, nil
}

func (p *shop) buy(ctx context.Context, id string) (session.Session, error) {
	return p.Execute(ctx, id, holdfast.SendMessage{Text: "buy it"}, holdfast.IdempotencyKey("order 1"))
}

// settled repeats the request until it has an answer, and checks that the
// customer was charged once, or told that nobody knows.
func (p *shop) settled(t *testing.T, id string) {
	t.Helper()
	p.store.inject(nil)
	p.watchHooks(nil)
	p.store.pass()
	s, err := p.buy(t.Context(), id)
	if err != nil {
		t.Fatalf("the repeated request failed: %v", err)
	}
	said := 0
	for i := range s.Len() {
		if s.Message(i).Role == session.RoleUser {
			said++
		}
	}
	unknown := strings.Contains(s.Reply(), session.UnknownOutcome)
	if n := p.charged.Load(); n > 1 || n == 0 && !unknown || said != 1 || !strings.HasPrefix(s.Reply(), "done: ") {
		t.Errorf("charged %d times, asked %d times, reply %q", n, said, s.Reply())
	}
}

// Whatever fails or refuses, at whichever moment, repeating the request does
// not run the tool again.
func TestOnce_aToolRunsOnceWhateverRefuses(t *testing.T) {
	for _, agent := range []string{"clerk", "boss"} {
		p, id := openShop(t, agent)
		p.store.inject(nil)
		p.watchHooks(nil)
		if _, err := p.buy(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		calls, hooks := p.store.counted(), p.hooks
		if calls < 8 || hooks < 4 {
			t.Fatalf("only %d calls and %d hooks were counted", calls, hooks)
		}
		for n := 1; n <= calls+2; n++ {
			p := fmt.Sprintf("%s/call %d", agent, n)
			testStoreFault(t, p+" fails", agent, func(at int, _ store.Ref) fault { return when(at == n, fails) })
			testStoreFault(t, p+" is lost", agent, func(at int, _ store.Ref) fault { return when(at == n, lost) })
			testStoreFault(t, p+" and all after it fail", agent, func(at int, _ store.Ref) fault { return when(at >= n, fails) })
			testTakeOver(t, p+" finds the lease taken", agent, n)
			testCancel(t, p+" finds the context cancelled", agent, n)
		}
		for n := 1; n <= hooks; n++ {
			p := fmt.Sprintf("%s/hook %d", agent, n)
			testHook(t, p+" refuses", agent, n, func() (session.Session, error) { return session.Session{}, errors.New("not now") })
			testHook(t, p+" panics", agent, n, func() (session.Session, error) { panic("oh") })
			testHook(t, p+" returns nothing", agent, n, func() (session.Session, error) { return session.Session{}, nil })
		}
	}
}

func when(now bool, f fault) fault {
	if now {
		return f
	}
	return works
}

func testStoreFault(t *testing.T, name, agent string, decide func(n int, ref store.Ref) fault) {
	t.Run(name, func(t *testing.T) {
		p, id := openShop(t, agent)
		p.store.inject(decide)
		_, _ = p.buy(t.Context(), id)
		p.settled(t, id)
	})
}

func testTakeOver(t *testing.T, name, agent string, n int) {
	t.Run(name, func(t *testing.T) {
		p, id := openShop(t, agent)
		p.store.inject(func(at int, ref store.Ref) fault {
			if at == n {
				p.store.takeOver(ref)
			}
			return works
		})
		_, _ = p.buy(t.Context(), id)
		p.settled(t, id)
	})
}

func testCancel(t *testing.T, name, agent string, n int) {
	t.Run(name, func(t *testing.T) {
		p, id := openShop(t, agent)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p.store.inject(func(at int, _ store.Ref) fault {
			if at == n {
				cancel()
			}
			return works
		})
		_, _ = p.buy(ctx, id)
		p.settled(t, id)
	})
}

func testHook(t *testing.T, name, agent string, n int, refuse func() (session.Session, error)) {
	t.Run(name, func(t *testing.T) {
		p, id := openShop(t, agent)
		p.watchHooks(func(at int) (session.Session, error, bool) {
			if at != n {
				return session.Session{}, nil, false
			}
			s, err := refuse()
			return s, err, true
		})
		_, _ = p.buy(t.Context(), id)
		p.settled(t, id)
	})
}

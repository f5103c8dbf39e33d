package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

var limitedAgent = session.Definition{Name: "a", SystemPrompt: "Be short.", Model: "m"}

// limited is a runtime with small limits and a session.
func limited(t *testing.T, l holdfast.Limits) (*holdfast.Runtime, session.Session) {
	t.Helper()
	rt, err := holdfast.New(holdfast.Config{Store: inmem.New(inmem.Config{}), Models: llm.Map{"m": scripted.New()}, Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	s, err := rt.Create(t.Context(), limitedAgent, holdfast.WithID("s"))
	if err != nil {
		t.Fatal(err)
	}
	return rt, s
}

// Whatever is too large is refused at every entry, with the limit and the
// setting that raises it, and nothing is changed. What just fits is not.
func TestLimits_atEveryEntry(t *testing.T) {
	t.Parallel()
	limits := holdfast.Limits{Message: 1000, Attachment: 500, Document: 3000, Metadata: 400}
	text := func(n int) string { return strings.Repeat("x", n) }
	message := func(n int) session.Message {
		return session.Message{ID: fmt.Sprint("m", n), Role: session.RoleUser, Content: session.Text(text(n))}
	}
	file := func(n int) session.Message {
		return session.Message{Role: session.RoleUser, Content: session.Content{{Type: session.PartFile, Data: text(n)}}}
	}
	create := func(opts ...holdfast.Option) func(context.Context, *holdfast.Runtime) error {
		return func(ctx context.Context, rt *holdfast.Runtime) error {
			_, err := rt.Create(ctx, limitedAgent, opts...)
			return err
		}
	}
	execute := func(a holdfast.Action) func(context.Context, *holdfast.Runtime) error {
		return func(ctx context.Context, rt *holdfast.Runtime) error {
			_, err := rt.Execute(ctx, "s", a)
			return err
		}
	}
	send := func(m session.Message) func(context.Context, *holdfast.Runtime) error {
		return execute(holdfast.SendMessage{Message: &m})
	}
	seed := func(messages ...session.Message) holdfast.Option {
		return holdfast.WithSeed(session.Seed{Messages: messages})
	}
	for name, c := range map[string]struct {
		field string
		limit int
		do    func(n int) func(context.Context, *holdfast.Runtime) error // with n bytes
	}{
		"a text": {"Message", 1000, func(n int) func(context.Context, *holdfast.Runtime) error {
			return execute(holdfast.SendMessage{Text: text(n)})
		}},
		"a text by a pointer": {"Message", 1000, func(n int) func(context.Context, *holdfast.Runtime) error {
			return execute(&holdfast.SendMessage{Text: text(n)})
		}},
		"a message":       {"Message", 1000, func(n int) func(context.Context, *holdfast.Runtime) error { return send(message(n)) }},
		"an attachment":   {"Attachment", 500, func(n int) func(context.Context, *holdfast.Runtime) error { return send(file(n)) }},
		"a first message": {"Message", 1000, func(n int) func(context.Context, *holdfast.Runtime) error { return create(seed(message(n))) }},
		"several messages": {"Document", 3000, func(n int) func(context.Context, *holdfast.Runtime) error {
			rest := n - len(limitedAgent.SystemPrompt) - 1999
			return create(seed(message(1000), message(999), message(rest)))
		}},
		"a change": {"Message", 1000, func(n int) func(context.Context, *holdfast.Runtime) error {
			return create(holdfast.WithChanges(session.MessageAdded{Message: message(n)}))
		}},
		"metadata": {"Metadata", 400, func(n int) func(context.Context, *holdfast.Runtime) error {
			return execute(holdfast.WriteMetadata{Key: "k", Value: text(n - 3)}) // the key and two quotes
		}},
		"first metadata": {"Metadata", 400, func(n int) func(context.Context, *holdfast.Runtime) error {
			return create(holdfast.WithSeed(session.Seed{Metadata: session.Values{"k": json.RawMessage(`"` + text(n-3) + `"`)}}))
		}},
		"an inbox item": {"Message", 1000, func(n int) func(context.Context, *holdfast.Runtime) error {
			return func(ctx context.Context, rt *holdfast.Runtime) error {
				_, err := rt.Post(ctx, "s", store.Item{Kind: store.ItemCancel, Payload: session.Values{"k": json.RawMessage(`"` + text(n-3) + `"`)}})
				return err
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt, _ := limited(t, limits)
			var over *session.LimitError
			if err := c.do(c.limit)(t.Context(), rt); errors.As(err, &over) {
				t.Errorf("%d bytes: %v", c.limit, err)
			}
			rt, before := limited(t, limits)
			err := c.do(c.limit+1)(t.Context(), rt)
			if !errors.As(err, &over) || !errors.Is(err, session.ErrTooLarge) || over.Size != c.limit+1 || over.Limit != c.limit || over.Field != "Config.Limits."+c.field {
				t.Fatalf("%d bytes: %v", c.limit+1, err)
			}
			page, err := rt.List(t.Context(), store.Query{})
			if err != nil || len(page.Items) != 1 || page.Items[0].Version != before.Version() {
				t.Errorf("afterwards: %+v, %v", page.Items, err)
			}
			if items, err := rt.Inbox(t.Context(), "s"); err != nil || len(items) != 0 {
				t.Errorf("the inbox has %d items, %v", len(items), err)
			}
		})
	}
}

// A message that is too large is not copied before it is refused.
func TestLimits_refuseBeforeCopying(t *testing.T) { //nolint:paralleltest // it counts bytes
	rt, _ := limited(t, holdfast.Limits{})
	const size = 64 << 20
	huge := strings.Repeat("x", size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := rt.Execute(t.Context(), "s", holdfast.SendMessage{Text: huge})
	runtime.ReadMemStats(&after)
	if !errors.Is(err, session.ErrTooLarge) {
		t.Fatal(err)
	}
	if copied := after.TotalAlloc - before.TotalAlloc; copied > size/2 {
		t.Errorf("%d bytes were allocated to refuse %d", copied, size)
	}
}

// A request that no model should get fails the turn, and says why.
func TestLimits_ofARequestToAModel(t *testing.T) {
	t.Parallel()
	rt, _ := limited(t, holdfast.Limits{Request: 100})
	_, err := rt.Execute(t.Context(), "s", holdfast.SendMessage{Text: strings.Repeat("x", 200)})
	if !errors.Is(err, session.ErrTooLarge) || !strings.Contains(err.Error(), "Config.Limits.Request") {
		t.Errorf("it says %v", err)
	}
}

// Forks of forks go as deep as the limit says.
func TestLimits_ofForks(t *testing.T) {
	t.Parallel()
	rt, s := limited(t, holdfast.Limits{Forks: 2})
	for range 3 { // the first has none above it
		var err error
		if s, err = rt.Fork(t.Context(), s.ID()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := rt.Fork(t.Context(), s.ID())
	var deep *session.DepthError
	if !errors.As(err, &deep) || deep.Depth != 3 || deep.Max != 2 {
		t.Errorf("the fourth fork: %v", err)
	}
}

func TestLimits_areNotNegative(t *testing.T) {
	t.Parallel()
	_, err := holdfast.New(holdfast.Config{Store: inmem.New(inmem.Config{}), Limits: holdfast.Limits{Message: -1}})
	if !errors.Is(err, session.ErrInvalid) {
		t.Error(err)
	}
}

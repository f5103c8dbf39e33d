package holdfast_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// awayInbox is a store whose inbox cannot be read for a while.
type awayInbox struct {
	*inmem.Store
	away *atomic.Bool
}

var errAway = errors.New("the database is away")

func (s awayInbox) Inbox(ctx context.Context, r store.Ref) ([]store.Item, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Store.Inbox(ctx, r)
}

// Whatever refuses a turn after a tool has started, repeating the request does
// not run the tool again.
func TestOnce_aToolRunsOnceWhateverRefuses(t *testing.T) {
	for name, refuse := range map[string]func(c *holdfast.Config, failing *atomic.Bool){
		"the inbox cannot be read": func(c *holdfast.Config, failing *atomic.Bool) {
			c.Store = awayInbox{inmem.New(inmem.Config{}), failing}
		},
		"a hook refuses the save": func(c *holdfast.Config, failing *atomic.Bool) {
			c.Hooks = holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
				if stage == session.BeforeSave && failing.Load() {
					return s, errors.New("not now")
				}
				return s, nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var failing atomic.Bool
			var runs sync.Map
			h := open(t, func(c *holdfast.Config) {
				script(c, scripted.Reply{ToolCalls: []session.ToolCall{{ID: "pay", Name: "charge"}}}, scripted.Reply{Text: "paid"})
				charge, err := tool.Func(tool.Spec{Name: "charge"}, func(context.Context, struct{}) (string, error) {
					n, _ := runs.LoadOrStore("pay", 0)
					runs.Store("pay", n.(int)+1)
					failing.Store(true) // from here on everything fails
					return "charged", nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if c.Tools, err = tool.NewSet(charge); err != nil {
					t.Fatal(err)
				}
				refuse(c, &failing)
			})
			s := h.create()
			send := func() (session.Session, error) {
				return h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "buy it"}, holdfast.IdempotencyKey("order 1"))
			}
			if _, err := send(); err == nil {
				t.Fatal("nothing failed")
			}
			failing.Store(false)
			got, err := send()
			if err != nil || got.Reply() != "paid" || ran(&runs, "pay") != 1 {
				t.Errorf("reply %q, the tool ran %d times, %v", got.Reply(), ran(&runs, "pay"), err)
			}
		})
	}
}

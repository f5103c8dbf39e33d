package chaostest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// books are what the clients know.
type books struct {
	requests     []request
	acknowledged map[string]bool
	retries      int64
}

// account is what came of all requests.
type account struct {
	sent, acknowledged int
	retries            int64
	lost               []string // acknowledged, and not in the store or not done
	twice              []string // in the store more than once
	again              []string // whose tool ran more than once
	damaged            []string // what the store's own check finds
	unknown            int      // calls of which nobody knows the outcome
}

// found is what the store holds of a key.
type found struct {
	recorded int // messages, tasks or runs
	unknown  bool
}

// account compares what the clients know with the store and with the effects.
func (c *cluster) account(b books) (account, error) {
	a := account{sent: len(b.requests), acknowledged: len(b.acknowledged), retries: b.retries}
	effects, err := c.effects()
	if err != nil {
		return a, err
	}
	err = c.withRuntime(func(rt *holdfast.Runtime, st store.Store) error {
		inStore, err := readAll(c.ctx, rt)
		if err != nil {
			return err
		}
		a.settle(b, inStore, effects)
		if d, ok := st.(store.Doctors); ok {
			a.damaged, err = d.Check(c.ctx, nil)
		}
		return err
	})
	return a, err
}

// settle compares the books.
func (a *account) settle(b books, inStore map[string]found, effects map[string]int) {
	for _, q := range b.requests {
		f := inStore[q.Key]
		// In a chat that two clients share, a message may come before the answer
		// to the one before, and is then answered instead.
		missing := effects[q.Key] == 0 && !f.unknown && q.Session != shared
		if b.acknowledged[q.Key] && (f.recorded == 0 || missing) {
			a.lost = append(a.lost, q.Key)
		}
		if f.recorded > 1 {
			a.twice = append(a.twice, q.Key)
		}
		if effects[q.Key] > 1 {
			a.again = append(a.again, q.Key)
		}
		if f.unknown {
			a.unknown++
		}
	}
}

// effects counts how often the tool ran for each key.
func (c *cluster) effects() (map[string]int, error) {
	raw, err := os.ReadFile(filepath.Join(c.dir, effectsFile))
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for line := range bytes.Lines(raw) {
		counts[strings.TrimSpace(string(line))]++
	}
	return counts, nil
}

// readAll reads what the store holds of every key.
func readAll(ctx context.Context, rt *holdfast.Runtime) (map[string]found, error) {
	all := map[string]found{}
	for info, err := range rt.Sessions(ctx, store.Query{}) {
		if err != nil {
			return nil, err
		}
		s, err := rt.Get(ctx, info.ID, holdfast.Whole(), holdfast.WithTail())
		if err != nil {
			return nil, err
		}
		if info.Kind != session.KindChat {
			f := all[info.ID]
			f.recorded++
			all[info.ID] = f
		}
		for _, m := range s.Messages() {
			key := keyPattern.FindString(m.Content.Text())
			if m.ToolResult != nil && strings.Contains(m.ToolResult.Content, session.UnknownOutcome) {
				key = keyPattern.FindString(m.ToolResult.CallID)
				f := all[key]
				f.unknown = true
				all[key] = f
			} else if info.Kind == session.KindChat && m.Role == session.RoleUser {
				f := all[key]
				f.recorded++
				all[key] = f
			}
		}
	}
	return all, nil
}

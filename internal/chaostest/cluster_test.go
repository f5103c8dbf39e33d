package chaostest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/internal/pgserver"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// setup is a store and what may go wrong with it.
type setup struct {
	store, url string
	wire       *wire            // nil: there is none
	server     *pgserver.Server // nil: there is none
	nodes      int
	short      []planned
	faults     []fault // those to draw from; one that is there twice comes twice as often
}

// The conversations: each of the first clients has one of its own, the others
// share one.
const (
	chatters = 6
	sharers  = 2
	shared   = "chat-shared"
)

func chatOf(client int) string {
	if client >= chatters-sharers {
		return shared
	}
	return fmt.Sprint("chat-", client)
}

// cluster is the nodes and the store they share.
type cluster struct {
	setup
	t     *testing.T
	ctx   context.Context //nolint:containedctx // of all processes
	dir   string
	key   string // of the server's API
	nodes []*node

	mu     sync.Mutex
	errors map[string]int // guarded by mu: why requests were refused
}

// node is one worker process after the other.
type node struct {
	name string

	mu      sync.Mutex
	child   *child.Child // set by the injector alone
	address string       // guarded by mu; empty while it starts
}

func newCluster(t *testing.T, ctx context.Context, s setup) *cluster { //nolint:revive // the test comes first
	t.Helper()
	c := &cluster{setup: s, t: t, ctx: ctx, dir: t.TempDir(), errors: map[string]int{}}
	if err := os.WriteFile(filepath.Join(c.dir, specFile), []byte(specText), 0o600); err != nil {
		t.Fatal(err)
	}
	err := c.withRuntime(func(rt *holdfast.Runtime, _ store.Store) (err error) {
		if _, c.key, err = apikey.New(rt, nil).Create(ctx, apikey.Key{Scopes: []apikey.Scope{apikey.Read, apikey.Write}}, "test"); err != nil {
			return err
		}
		for i := range chatters - sharers + 1 {
			if _, err := rt.Create(ctx, session.Definition{Name: "clerk", Model: "m"}, holdfast.WithID(chatOf(i))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.nodes {
		c.nodes = append(c.nodes, &node{name: fmt.Sprint("node-", i)})
	}
	return c
}

// withRuntime opens the store as a node would, while nothing is wrong.
func (c *cluster) withRuntime(do func(*holdfast.Runtime, store.Store) error) error {
	st, err := crashtest.Open(c.ctx, c.store, c.url, nil)
	if err != nil {
		return err
	}
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"m": clerk{}}})
	if err == nil {
		err = errors.Join(do(rt, st), rt.Close())
	}
	return errors.Join(err, st.Close())
}

// startAll starts every node and waits until they serve.
func (c *cluster) startAll() error {
	for _, n := range c.nodes {
		if err := c.start(n); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		<-n.child.Ready
	}
	return nil
}

// start starts a node, again if it was killed.
func (c *cluster) start(n *node) (err error) {
	n.serveAt("")
	n.child, err = child.Start(c.ctx, child.Config{Program: "node", Job: job{c.store, c.url, c.dir}, OnReport: func(raw json.RawMessage) {
		var address string
		if json.Unmarshal(raw, &address) == nil {
			n.serveAt(address)
		}
	}})
	return err
}

func (n *node) serveAt(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.address = address
}

func (n *node) servesAt() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.address
}

// wait waits until all processes have ended.
func (c *cluster) wait() {
	for _, n := range c.nodes {
		if n.child != nil {
			<-n.child.Gone
		}
	}
}

// stopAll ends every node in order: runtime and store must close.
func (c *cluster) stopAll(limit time.Duration) error {
	for _, n := range c.nodes {
		if err := n.child.GoOn(); err != nil {
			return err
		}
	}
	late := time.After(limit)
	for _, n := range c.nodes {
		select {
		case <-n.child.Gone:
		case <-late:
			return fmt.Errorf("%s does not close", n.name)
		}
		if _, err := n.child.Wait(); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
	}
	return nil
}

// restWithin waits until nobody works on anything and nothing waits to be
// continued.
func (c *cluster) restWithin(limit time.Duration) error {
	return c.withRuntime(func(rt *holdfast.Runtime, _ store.Store) error {
		for late := time.Now().Add(limit); ; pause(c.ctx, 100*time.Millisecond) {
			busy, err := c.restless(rt)
			if err != nil || len(busy) == 0 {
				return err
			}
			if time.Now().After(late) {
				return fmt.Errorf("these do not come to rest: %v", busy)
			}
		}
	})
}

// restless lists the sessions that are not done.
func (c *cluster) restless(rt *holdfast.Runtime) (busy []string, err error) {
	for info, err := range rt.Sessions(c.ctx, store.Query{}) {
		if err != nil {
			return nil, err
		}
		s, err := rt.Get(c.ctx, info.ID, holdfast.WithTail())
		if err != nil {
			return nil, err
		}
		_, held, err := rt.Holder(c.ctx, info.ID)
		if err != nil {
			return nil, err
		}
		switch {
		case s.HasTail() || s.Running() || held:
			busy = append(busy, info.ID)
		case info.Task != nil && info.Task.Status != "completed", info.Workflow != nil && info.Workflow.Status != "completed":
			busy = append(busy, info.ID)
		}
	}
	return busy, nil
}

// complain keeps why a request was refused.
func (c *cluster) complain(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors[keyPattern.ReplaceAllString(text, "KEY")]++
}

// complaints lists why requests were refused.
func (c *cluster) complaints() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for text, n := range c.errors {
		fmt.Fprintf(&b, "%6d %s\n", n, text)
	}
	return b.String()
}

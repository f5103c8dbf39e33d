// Package node tells which processes work on a store, and how busy they are.
//
// A node is one session in a tenant of its own, which the process holds as long
// as it lives: its lease is the heartbeat, and a node whose lease is over is
// gone. It is for people and for balancing. Nothing else depends on it: who
// works on a session is decided by that session's lease.
package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/worker"
)

// Tenant is the tenant that nodes are kept in.
const Tenant = "holdfast-nodes"

const (
	lookEvery  = 5 * time.Second // how often a node looks whether its load has changed
	mostWrites = 500             // of one session, before a new one takes its place
	goneAfter  = time.Minute     // after which the session of a dead node is removed
	variable   = "node"          // where a session keeps its node
	drainKey   = "draining"      // in the payload of an inbox item
)

// Node is a process that works on a store.
type Node struct {
	ID          string        `json:"id"`
	Address     string        `json:"address,omitempty"` // where other nodes reach it; "": nowhere
	Version     string        `json:"version,omitempty"`
	StartedAt   time.Time     `json:"startedAt"`
	HeartbeatAt time.Time     `json:"heartbeatAt"`
	Loads       []worker.Load `json:"loads"`    // of its worker, a few seconds old; empty: it only answers requests
	Draining    bool          `json:"draining"` // it takes no new work
}

// stored is a node as its session keeps it.
type stored struct {
	Node
	Lease time.Duration `json:"lease"` // how long it lives without a heartbeat
}

// Nodes lists the nodes of a store. It is safe for concurrent use.
type Nodes struct {
	rt  *holdfast.Runtime
	now func() time.Time
}

// New returns the nodes of the runtime's store. Now may be nil.
func New(rt *holdfast.Runtime, now func() time.Time) *Nodes {
	if now == nil {
		now = time.Now
	}
	return &Nodes{rt: rt, now: now}
}

func (n *Nodes) as(actor string) *holdfast.Runtime {
	return n.rt.For(holdfast.Identity{Tenant: Tenant, Actor: actor})
}

// List returns the nodes that live, the oldest first. Those that died a while
// ago are removed on the way.
func (n *Nodes) List(ctx context.Context) ([]Node, error) {
	rt, list := n.as("node"), []Node{}
	for info, err := range rt.Sessions(ctx, store.Query{Kinds: []session.Kind{session.KindPolicy}, Order: store.IDAsc}) {
		if err != nil {
			return nil, fmt.Errorf("list the nodes: %w", err)
		}
		lease, live, err := rt.Holder(ctx, info.ID)
		if errors.Is(err, session.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the nodes: %w", err)
		}
		if !live {
			if n.now().Sub(info.UpdatedAt) > goneAfter {
				_ = rt.Purge(ctx, info.ID) // it came back, or another was faster
			}
			continue
		}
		kept, err := n.read(ctx, info.ID)
		if errors.Is(err, session.ErrNotFound) { // it has no say yet, or has gone
			continue
		}
		if err != nil {
			return nil, err
		}
		kept.HeartbeatAt = lease.Until.Add(-kept.Lease).UTC()
		list = append(list, kept.Node)
	}
	slices.SortFunc(list, func(a, b Node) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// read returns what a node said last.
func (n *Nodes) read(ctx context.Context, id string) (stored, error) {
	var kept stored
	s, err := n.as("node").Get(ctx, id)
	if err != nil {
		return kept, err
	}
	v, ok := s.Variables()[variable]
	if !ok {
		return kept, &session.NotFoundError{What: "node", ID: id}
	}
	if err := json.Unmarshal(v.Value, &kept); err != nil {
		return kept, &session.CorruptError{ID: id, Reason: fmt.Sprintf("the node cannot be read: %v", err)}
	}
	return kept, nil
}

// Drain asks a node to take no new work, or to take work again. What it works on
// it finishes. The node shows it a moment later.
func (n *Nodes) Drain(ctx context.Context, id string, draining bool, actor string) error {
	rt := n.as(actor)
	_, live, err := rt.Holder(ctx, id)
	if err != nil || !live {
		if err == nil || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInvalid) {
			err = &session.NotFoundError{What: "node", ID: id}
		}
		return err
	}
	value, err := session.JSON(draining)
	if err != nil {
		return err
	}
	_, err = rt.Post(ctx, id, store.Item{Kind: store.ItemSetting, Payload: session.Values{drainKey: value}})
	return err
}

// Self is this process as a node.
type Self struct {
	ID      string // required, and unlike that of every other node
	Address string
	Version string
	Loads   func() []worker.Load // nil: it only answers requests
	Log     *slog.Logger         // nil: silent

	draining atomic.Bool
}

// Draining reports whether the node takes no new work.
func (s *Self) Draining() bool { return s.draining.Load() }

// Drain has the node take no new work: it is about to end.
func (s *Self) Drain() { s.draining.Store(true) }

// errWritten ends a session that has been written to often.
var errWritten = errors.New("the node's session is replaced by a new one")

// Run shows this process as a node until the context ends. A store that fails
// is tried again: nothing else needs it.
func (n *Nodes) Run(ctx context.Context, self *Self) {
	log := cmp.Or(self.Log, slog.New(slog.DiscardHandler))
	started := session.Instant(n.now())
	for ctx.Err() == nil {
		err := n.live(ctx, self, started)
		if errors.Is(err, errWritten) {
			continue
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("this process is not listed among the nodes", "node", self.ID, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// live holds the node's session and keeps it up to date. At the end the session
// is removed, so that the node is gone at once.
func (n *Nodes) live(ctx context.Context, self *Self, started time.Time) (err error) {
	rt := n.as("node:" + self.ID)
	_, err = rt.Create(ctx, session.Definition{Name: "node"}, holdfast.WithID(self.ID), holdfast.WithKind(session.KindPolicy))
	if err != nil && !errors.Is(err, session.ErrConflict) {
		return err
	}
	err = rt.Hold(ctx, self.ID, func(ctx context.Context, h *holdfast.Hold) error {
		lease, _, err := rt.Holder(ctx, self.ID)
		if err != nil {
			return err
		}
		one := &alive{h: h, self: self, said: stored{
			Node:  Node{ID: self.ID, Address: self.Address, Version: self.Version, StartedAt: started},
			Lease: lease.Until.Sub(n.now()).Round(time.Second),
		}}
		return one.run(ctx)
	})
	if ctx.Err() != nil || errors.Is(err, errWritten) {
		finishing, done := store.Finish(ctx)
		defer done()
		err = errors.Join(err, rt.Purge(finishing, self.ID))
	}
	return err
}

// alive is a node that holds its session.
type alive struct {
	h      *holdfast.Hold
	self   *Self
	said   stored
	writes int
}

// run says what changes, and listens, until the context ends.
func (a *alive) run(ctx context.Context) error {
	asked, failed := make(chan store.Item), make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() { stop(); <-ended }()
	taken := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			item, err := a.h.Arrived(ctx, func(i store.Item) bool { return i.Kind == store.ItemSetting })
			if err != nil {
				failed <- err
				return
			}
			select {
			case asked <- item:
				<-taken
			case <-ctx.Done():
				return
			}
		}
	}()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	if err := a.say(ctx, true); err != nil {
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err = <-failed:
		case item := <-asked:
			err = a.take(ctx, item)
			taken <- struct{}{}
		case <-look.C:
			err = a.say(ctx, false)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case a.writes >= mostWrites:
			return errWritten
		}
	}
}

// take does what an item asks for.
func (a *alive) take(ctx context.Context, item store.Item) error {
	var draining bool
	if json.Unmarshal(item.Payload[drainKey], &draining) == nil {
		a.self.draining.Store(draining)
	}
	if _, err := a.h.Append(ctx, session.InboxTaken{ItemID: item.ID, ItemKind: string(item.Kind)}); err != nil {
		return err
	}
	return a.say(ctx, true)
}

// say writes what the node is, if that has changed.
func (a *alive) say(ctx context.Context, always bool) error {
	now := a.said
	now.Loads, now.Draining = []worker.Load{}, a.self.Draining()
	if a.self.Loads != nil {
		now.Loads = append(now.Loads, a.self.Loads()...)
	}
	if !always && slices.Equal(now.Loads, a.said.Loads) && now.Draining == a.said.Draining {
		return nil
	}
	if _, err := a.h.Execute(ctx, holdfast.StoreVariable{Key: variable, Value: now}); err != nil {
		return err
	}
	a.said = now
	a.writes++
	return nil
}

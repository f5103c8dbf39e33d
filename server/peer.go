package server

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/client"
)

// peerHeader marks the request of another node, which is answered with what
// this node has.
const peerHeader = "Holdfast-Peer"

// How long to wait before looking who works on a session.
const (
	peerPause = 250 * time.Millisecond
	peerRetry = 2 * time.Second // after a node has refused
	peerDial  = 2 * time.Second // for a connection to be made
)

// addPeer adds the pieces of answers from the node that works on a session to
// the updates of this node, which has the records itself. Without that node, or
// when it cannot be reached, there are the records alone. What comes out obeys
// Follow: the pieces of an answer end with its record or with Dropped.
func (s *Server) addPeer(ctx context.Context, c caller, secret, id string, seq int64, local <-chan update) <-chan update {
	merged := make(chan update)
	go func() {
		defer close(merged)
		p := &peer{
			server: s, caller: c, secret: secret, id: id, seq: seq, out: merged,
			open: map[holdfast.Attempt]bool{}, ended: map[holdfast.Attempt]bool{},
		}
		p.merge(ctx, local)
	}()
	return merged
}

// peer is what one follower gets from the node that works on its session.
type peer struct {
	server *Server
	caller caller
	secret string
	id     string
	seq    int64 // of the last record that was sent
	out    chan<- update

	address string // of the node whose updates come; "": none
	updates chan holdfast.Update
	stop    context.CancelFunc
	open    map[holdfast.Attempt]bool // answers of which pieces were sent
	ended   map[holdfast.Attempt]bool // steps whose records were sent lately
}

// merge sends what comes from both sides, until this node's side ends.
func (p *peer) merge(ctx context.Context, local <-chan update) {
	defer func() { p.stop() }()
	p.stop = func() {}
	look := time.NewTimer(0) // who works on it now?
	defer look.Stop()
	due := true
	for {
		var ok bool
		select {
		case <-look.C:
			due = false
			ok = p.connect(ctx)
		case u, more := <-local:
			if !more {
				return
			}
			if !due { // a record may mean that another works on it
				due = true
				look.Reset(peerPause)
			}
			ok = p.record(ctx, u)
		case u, more := <-p.updates:
			if !more {
				ok = p.disconnect(ctx)
				due = true
				look.Reset(peerRetry)
				break
			}
			ok = p.piece(ctx, u)
		}
		if !ok {
			return
		}
	}
}

func (p *peer) send(ctx context.Context, u update) bool {
	select {
	case p.out <- u:
		return true
	case <-ctx.Done():
		return false
	}
}

// record sends what this node knows itself. The record of an answer ends its
// pieces.
func (p *peer) record(ctx context.Context, u update) bool {
	if r := u.Record; r != nil {
		p.seq = r.Seq
		if unit, step := holdfast.AnsweredStep(r.Change); step != "" {
			p.end(unit, step)
		}
	}
	return p.send(ctx, u)
}

// mostEnded bounds the steps that are remembered: pieces of earlier ones do not
// come any more.
const mostEnded = 100

// end notes that the record of a step was sent.
func (p *peer) end(unit, step string) {
	if len(p.ended) >= mostEnded {
		clear(p.ended)
	}
	p.ended[holdfast.Attempt{Unit: unit, StepID: step}] = true
	for a := range p.open {
		if a.StepID == step && a.Unit == unit {
			delete(p.open, a)
		}
	}
}

// piece sends a piece of an answer that goes on.
func (p *peer) piece(ctx context.Context, u holdfast.Update) bool {
	switch {
	case u.Delta != nil && p.ended[holdfast.Attempt{Unit: u.Delta.Unit, StepID: u.Delta.StepID}]:
		return true // its record was faster
	case u.Delta != nil:
		p.open[u.Delta.Attempt] = true
	case u.Dropped != nil && p.ended[holdfast.Attempt{Unit: u.Dropped.Unit, StepID: u.Dropped.StepID}]:
		return true
	case u.Dropped != nil:
		delete(p.open, u.Dropped.Attempt)
	}
	return p.send(ctx, update{Update: u})
}

// connect follows the node that holds the session now, if it is another one.
func (p *peer) connect(ctx context.Context) bool {
	lease, live, err := p.caller.rt.Holder(ctx, p.id)
	address := holdfast.AddressOf(lease)
	if err != nil || !live || address == p.server.config.Address {
		address = ""
	}
	if address == p.address {
		return true
	}
	if !p.disconnect(ctx) {
		return false
	}
	if address == "" {
		return true
	}
	c, err := client.New(client.Config{URL: address, Key: p.secret, HTTP: &http.Client{Transport: peerTransport{p.server.peers}}})
	if err != nil {
		return true // it cannot be reached so
	}
	ctx, stop := context.WithCancel(ctx)
	updates := make(chan holdfast.Update)
	p.address, p.updates, p.stop = address, updates, stop
	after := p.seq
	go func() {
		defer close(updates)
		for u, err := range c.Follow(ctx, p.id, after) {
			if err != nil {
				return
			}
			if u.Record != nil { // this node has the records itself
				continue
			}
			select {
			case updates <- u:
			case <-ctx.Done():
				return
			}
		}
	}()
	return true
}

// disconnect ends what comes from another node. Answers that it had begun are
// void.
func (p *peer) disconnect(ctx context.Context) bool {
	p.stop()
	p.address, p.updates, p.stop = "", nil, func() {}
	for a := range p.open {
		delete(p.open, a)
		if !p.send(ctx, update{Update: holdfast.Update{Dropped: &holdfast.Dropped{Attempt: a}}}) {
			return false
		}
	}
	return true
}

// peerTransport marks requests to other nodes.
type peerTransport struct{ http.RoundTripper }

func (t peerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(peerHeader, "1")
	return t.RoundTripper.RoundTrip(r)
}

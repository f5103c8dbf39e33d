package chaostest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/session"
)

// patience is how long a client waits for an answer before it asks another node.
const patience = 8 * time.Second

// clients send requests one after the other, each again until it is
// acknowledged, by whatever node.
type clients struct {
	cluster *cluster
	done    sync.WaitGroup
	ending  chan struct{} // closed: no new requests
	retries atomic.Int64

	mu           sync.Mutex
	requests     []request       // guarded by mu: all that were sent
	acknowledged map[string]bool // guarded by mu, by key
}

// startClients starts clients for every kind of work.
func (c *cluster) startClients() *clients {
	cs := &clients{cluster: c, ending: make(chan struct{}), acknowledged: map[string]bool{}}
	kinds := slices.Repeat([]session.Kind{session.KindChat}, chatters)
	kinds = append(kinds, session.KindTask, session.KindTask, session.KindWorkflow, session.KindWorkflow)
	for i, kind := range kinds {
		cs.done.Go(func() { cs.work(c.ctx, i, kind) })
	}
	return cs
}

// work sends one request after the other.
func (cs *clients) work(ctx context.Context, number int, kind session.Kind) {
	for i := 0; ; i++ {
		select {
		case <-cs.ending:
			return
		case <-ctx.Done():
			return
		default:
		}
		q := request{Kind: kind, Key: fmt.Sprintf("%s-c%d-%d", kind, number, i)}
		if kind == session.KindChat {
			q.Session = chatOf(number)
		}
		cs.mu.Lock()
		cs.requests = append(cs.requests, q)
		cs.mu.Unlock()
		cs.insist(ctx, q)
		pause(ctx, 50*time.Millisecond)
	}
}

// insist sends a request until it is acknowledged.
func (cs *clients) insist(ctx context.Context, q request) {
	for ctx.Err() == nil {
		if err := cs.send(ctx, q); err != nil {
			cs.retries.Add(1)
			cs.cluster.complain(err.Error())
			pause(ctx, 100*time.Millisecond)
			continue
		}
		cs.mu.Lock()
		cs.acknowledged[q.Key] = true
		cs.mu.Unlock()
		return
	}
}

// send sends a request once, to any node.
func (cs *clients) send(ctx context.Context, q request) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n := cs.cluster.nodes[rand.IntN(len(cs.cluster.nodes))]
	address := n.servesAt()
	if address == "" {
		return fmt.Errorf("%s starts", n.name)
	}
	if q.Kind == session.KindChat {
		return cs.chat(ctx, address, q)
	}
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(asked)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close() // it was read
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", q.Kind, text)
	}
	return err
}

// chat sends a message as users of the server do.
func (cs *clients) chat(ctx context.Context, address string, q request) error {
	c, err := client.New(client.Config{URL: "http://" + address, Key: cs.cluster.key, Retries: -1})
	if err != nil {
		return err
	}
	_, err = c.Execute(ctx, q.Session, holdfast.SendMessage{Text: q.Key}, holdfast.IdempotencyKey(q.Key))
	return err
}

// stop lets clients finish what they have begun.
func (cs *clients) stop() { close(cs.ending) }

// wait waits until all clients are done and returns the requests that are not
// acknowledged.
func (cs *clients) wait(limit time.Duration) (left []string) {
	done := make(chan struct{})
	go func() { cs.done.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, q := range cs.requests {
		if !cs.acknowledged[q.Key] {
			left = append(left, q.Key)
		}
	}
	return left
}

// sent returns the clients' own books.
func (cs *clients) sent() books {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return books{requests: cs.requests, acknowledged: cs.acknowledged, retries: cs.retries.Load()}
}

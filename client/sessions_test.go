package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
)

// An execution whose caller goes away is interrupted, and what it wrote is the
// tail that WithTail reads.
func TestExecute_theEndOfTheContextInterrupts(t *testing.T) {
	t.Parallel()
	c := newNode(t, llm.Map{offline.Name: offline.Model{Pace: time.Hour}}).client(t)
	made := create(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Execute(ctx, made.ID, holdfast.SendMessage{Text: "hello"})
		failed <- err
	}()
	limit, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for u, err := range c.Follow(limit, made.ID, made.Seq) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Delta != nil {
			break
		}
	}
	if _, held, err := c.Holder(limit, made.ID); err != nil || !held {
		t.Errorf("held is %t, %v", held, err)
	}
	cancel()
	var interrupted *session.InterruptedError
	if err := <-failed; !errors.As(err, &interrupted) || interrupted.ID != made.ID {
		t.Fatalf("%T %v", err, err)
	}
	s, err := c.Get(limit, made.ID, holdfast.WithTail())
	if err != nil || !s.HasTail() || !s.Running() || s.Version() != 1 || s.Seq() != interrupted.Seq {
		t.Fatalf("%+v at change %d, %v", s.Info(), s.Seq(), err)
	}
	if s, err := c.Get(limit, made.ID); err != nil || s.HasTail() || s.Seq() != made.Seq {
		t.Errorf("%+v, %v", s.Info(), err)
	}
	open := 0
	for entry, err := range c.Log(limit, made.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if entry.Version == 0 {
			open++
		}
	}
	if want := s.Seq() - made.Seq; int64(open) != want {
		t.Errorf("%d changes of the log are open, want %d", open, want)
	}
}

// slowModel is a model that waits in the middle of its answer.
type slowModel struct{ asked, half, rest chan struct{} }

func (m slowModel) Infer(ctx context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	m.asked <- struct{}{}
	emit(llm.Delta{Text: "one "})
	close(m.half)
	select {
	case <-m.rest:
	case <-ctx.Done():
		return llm.Response{}, ctx.Err()
	}
	emit(llm.Delta{Text: "two"})
	return llm.Response{Content: session.Text("one two"), FinishReason: "stop"}, nil
}

// A connection breaks in the middle of an answer: the repetition joins the turn
// that is at work, and the model is asked once.
func TestExecute_aBrokenConnectionJoinsItsTurn(t *testing.T) {
	t.Parallel()
	model := slowModel{make(chan struct{}, 10), make(chan struct{}), make(chan struct{})}
	n := newNode(t, llm.Map{offline.Name: model})
	made := create(t, n.client(t))
	p := newProxy(t, n.url)
	c, err := client.New(client.Config{URL: p.url, Key: n.key, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		s   session.Session
		err error
	}
	ended := make(chan result, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only so that a test that fails ends
	defer cancel()
	go func() {
		s, err := c.Execute(ctx, made.ID, holdfast.SendMessage{Text: "hello"})
		ended <- result{s, err}
	}()
	<-model.half
	<-p.opened
	p.cut()
	<-n.ended  // the server knows
	<-p.opened // the repetition is on its way
	close(model.rest)
	got := <-ended
	if got.err != nil || got.s.Reply() != "one two" || got.s.Version() != 2 {
		t.Fatalf("%q at version %d, %v", got.s.Reply(), got.s.Version(), got.err)
	}
	if len(model.asked) != 1 {
		t.Errorf("the model was asked %d times", len(model.asked))
	}
}

// proxy passes connections on, and can cut them.
type proxy struct {
	url    string
	opened chan struct{} // one for each connection

	mu   sync.Mutex
	open []net.Conn // guarded by mu
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{url: "http://" + l.Addr().String(), opened: make(chan struct{}, 100)}
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
	})
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(to, "http://"))
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, in, out)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(out, in) }()
			go func() { _, _ = io.Copy(in, out) }()
			p.opened <- struct{}{}
		}
	}()
	return p
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.open {
		_ = conn.Close()
	}
	p.open = nil
}

func TestPurge_cascades(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := newNode(t, llm.Map{offline.Name: offline.Model{}}).client(t)
	made := create(t, c)
	child, err := c.Fork(ctx, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Purge(ctx, made.ID, holdfast.Cascade()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Info(ctx, child.ID()); !errors.Is(err, session.ErrNotFound) {
		t.Error(err)
	}
}

// What a server cannot do for an option is refused here, by its name.
func TestOptions_thatAServerDoesNotTake(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := newNode(t, nil).client(t)
	made := create(t, c)
	for name, call := range map[string]func() error{
		"Stream": func() error {
			_, err := c.Execute(ctx, made.ID, holdfast.ClearSession{}, holdfast.Stream(nil))
			return err
		},
		"WithKind":    func() error { _, err := c.Create(ctx, echo, holdfast.WithKind(session.KindTask)); return err },
		"tail and at": func() error { _, err := c.Get(ctx, made.ID, holdfast.WithTail(), holdfast.At(1)); return err },
		"version 0":   func() error { _, err := c.Get(ctx, made.ID, holdfast.At(0)); return err },
		"fork at 0":   func() error { _, err := c.Fork(ctx, made.ID, holdfast.At(0)); return err },
		"no id":       func() error { _, err := c.Resolve(ctx, ""); return err },
		"nothing":     func() error { _, err := c.Execute(ctx, made.ID, holdfast.ContinueExecution{}); return err },
	} {
		if err := call(); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var nothing *session.NothingToDoError
	if _, err := c.Execute(ctx, made.ID, holdfast.ContinueExecution{}); !errors.As(err, &nothing) || nothing.What != "continue" {
		t.Errorf("%T %v", err, err)
	}
}

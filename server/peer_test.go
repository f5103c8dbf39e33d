package server_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// ownAddress stands for the address of the node that gets it.
const ownAddress = "http://own"

// gated says one piece, waits, and says another.
type gated struct {
	begun chan struct{}
	let   chan struct{}
}

func (g gated) Infer(ctx context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	emit(llm.Delta{Text: "one "})
	g.begun <- struct{}{}
	select {
	case <-g.let:
	case <-ctx.Done():
		return llm.Response{}, ctx.Err()
	}
	emit(llm.Delta{Text: "two"})
	return llm.Response{Content: session.Text("one two"), FinishReason: "stop"}, nil
}

// newPeers starts two nodes on one database; the model is that of the first.
func newPeers(t *testing.T, model llm.Model) (first, second *node) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shared.db")
	open := func(m llm.Model) *node {
		st, err := sqlite.Open(context.Background(), path, sqlite.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return newNodeOn(t, st, func(h *holdfast.Config, _ *server.Config) {
			h.Address, h.Models, h.DefaultModel = ownAddress, llm.Map{offline.Name: m}, offline.Name
		})
	}
	return open(model), open(offline.Model{})
}

// watch follows a session on a node and returns what it sends.
func (n *node) watch(id string) <-chan holdfast.Update {
	n.t.Helper()
	c, err := client.New(client.Config{URL: n.http.URL, Key: n.admin, Backoff: 10 * time.Millisecond})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(n.t.Context()))
	updates, ended := make(chan holdfast.Update, 1000), make(chan struct{})
	n.t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		for u, err := range c.Follow(ctx, id, 0) {
			if err != nil {
				return
			}
			updates <- u
		}
	}()
	return updates
}

// collect collects updates until one is the wanted one.
func collect(t *testing.T, updates <-chan holdfast.Update, what string, wanted func(holdfast.Update) bool) (got []holdfast.Update) {
	t.Helper()
	for over := time.After(time.Minute); ; {
		select {
		case u := <-updates:
			if got = append(got, u); wanted(u) {
				return got
			}
		case <-over:
			t.Fatalf("no %s after %d updates", what, len(got))
		}
	}
}

func isText(text string) func(holdfast.Update) bool {
	return func(u holdfast.Update) bool { return u.Delta != nil && strings.Contains(u.Delta.Text, text) }
}

func isAnswer(u holdfast.Update) bool {
	if u.Record == nil {
		return false
	}
	_, step := holdfast.AnsweredStep(u.Record.Change)
	return step != ""
}

func isFinished(u holdfast.Update) bool {
	if u.Record == nil {
		return false
	}
	_, ok := u.Record.Change.(session.ExecutionFinished)
	return ok
}

// sendTo sends a message to a session in the background.
func (n *node) sendTo(id string) <-chan reply {
	done := make(chan reply, 1)
	go func() {
		done <- n.do("POST", "/v1/sessions/"+id+"/messages", request{body: map[string]any{"text": "hello"}})
	}()
	return done
}

// The pieces of an answer reach followers on a node that does not give it, and
// records come from that node itself.
func TestPeers_piecesReachFollowersOfOtherNodes(t *testing.T) {
	t.Parallel()
	model := gated{begun: make(chan struct{}, 1), let: make(chan struct{})}
	first, second := newPeers(t, model)
	chat := first.create(request{})
	updates := second.watch(chat.ID)
	done := first.sendTo(chat.ID)
	<-model.begun
	collect(t, updates, "first piece", isText("one"))
	close(model.let)
	rest := collect(t, updates, "end", isFinished)
	if got := <-done; got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	answered, seqs := false, map[int64]bool{}
	for _, u := range rest {
		if isAnswer(u) {
			answered = true
		}
		if u.Delta != nil && answered {
			t.Error("a piece came after the record of its answer")
		}
		if u.Record != nil {
			if seqs[u.Record.Seq] {
				t.Errorf("record %d came twice", u.Record.Seq)
			}
			seqs[u.Record.Seq] = true
		}
	}
	if !answered {
		t.Error("the record of the answer did not come")
	}
}

// A node that goes away in the middle of an answer voids its pieces; records go
// on.
func TestPeers_aNodeThatGoesAwayVoidsItsPieces(t *testing.T) {
	t.Parallel()
	model := gated{begun: make(chan struct{}, 1), let: make(chan struct{})}
	first, second := newPeers(t, model)
	chat := first.create(request{})
	updates := second.watch(chat.ID)
	// The turn is the runtime's own, so that it outlives the server.
	turn := make(chan error, 1)
	go func() {
		_, err := first.rt.Execute(context.WithoutCancel(t.Context()), chat.ID, holdfast.SendMessage{Text: "hello"})
		turn <- err
	}()
	<-model.begun
	collect(t, updates, "first piece", isText("one"))
	first.http.CloseClientConnections()
	_ = first.http.Listener.Close()
	collect(t, updates, "void piece", func(u holdfast.Update) bool { return u.Dropped != nil })
	close(model.let)
	if err := <-turn; err != nil {
		t.Fatal(err)
	}
	collect(t, updates, "end", isFinished)
}

// A node that cannot be reached at all is no reason to send nothing.
func TestPeers_recordsComeWithoutTheOtherNode(t *testing.T) {
	t.Parallel()
	model := gated{begun: make(chan struct{}, 1), let: make(chan struct{})}
	first, second := newPeers(t, model)
	chat := first.create(request{})
	_ = first.http.Listener.Close()
	updates := second.watch(chat.ID)
	turn := make(chan error, 1)
	go func() {
		_, err := first.rt.Execute(context.WithoutCancel(t.Context()), chat.ID, holdfast.SendMessage{Text: "hello"})
		turn <- err
	}()
	<-model.begun
	close(model.let)
	if err := <-turn; err != nil {
		t.Fatal(err)
	}
	for _, u := range collect(t, updates, "end", isFinished) {
		if u.Delta != nil {
			t.Error("a piece came from nowhere")
		}
	}
}

package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// node is a real server, and what stands between it and its clients.
type node struct {
	rt  *holdfast.Runtime
	api *server.Server
	url string
	key string
	cut atomic.Int64 // how many answers to lose after they were made

	ended chan struct{} // one for each message whose request is over
}

func newNode(t *testing.T, models llm.Models) *node {
	t.Helper()
	st, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "test.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: models, DefaultModel: offline.Name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	keys := apikey.New(rt, nil)
	api, err := server.New(server.Config{
		Runtime: rt, Keys: keys, JoinWait: time.Hour,
		Tasks: &server.Tasks{Executor: func(rt *holdfast.Runtime) (*task.Executor, error) { return task.New(rt, task.Config{}) }},
		Runs: &server.Runs{Host: func(*holdfast.Runtime) (workflow.Host, error) {
			return workflow.Host{Env: spec.Env{Providers: []string{"offline"}}, Models: func(spec.Model) (string, llm.Model, error) {
				model, err := models.Model(offline.Name)
				return offline.Name, model, err
			}}, nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{rt: rt, api: api, ended: make(chan struct{}, 1000)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && n.cut.Add(-1) >= 0 {
			api.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler) // it was carried out, but the answer is lost
		}
		if strings.HasSuffix(r.URL.Path, "/messages") {
			context.AfterFunc(r.Context(), func() { n.ended <- struct{}{} })
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { api.Close(); s.Close() })
	n.url = s.URL
	if _, n.key, err = keys.Create(context.Background(), apikey.Key{Scopes: []apikey.Scope{apikey.Admin}}, "test"); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: n.url, Key: n.key, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var echo = session.Definition{Name: "echo"}

func create(t *testing.T, c *client.Client, opts ...holdfast.Option) session.Info {
	t.Helper()
	s, err := c.Create(context.Background(), echo, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s.Info()
}

func TestClient_theVerbsOfARuntime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := newNode(t, llm.Map{offline.Name: offline.Model{}}).client(t)
	made := create(t, c, holdfast.WithName("trip"), holdfast.WithUser("ann"))
	turn, err := c.Execute(ctx, "trip", holdfast.SendMessage{Text: "hello"}, holdfast.IfVersion(1))
	if err != nil || turn.Reply() == "" || turn.Version() != 2 {
		t.Fatalf("%+v, %v", turn.Info(), err)
	}
	if turn, err = c.Execute(ctx, made.ID, holdfast.RenameSession{To: "tour"}); err != nil || turn.Info().Name != "tour" {
		t.Fatalf("%+v, %v", turn.Info(), err)
	}
	s, err := c.Get(ctx, made.ID, holdfast.At(2))
	if err != nil || s.Version() != 2 || s.Len() != 2 || s.Reply() == "" {
		t.Fatalf("%+v, %v", s.Info(), err)
	}
	child, err := c.Fork(ctx, made.ID, holdfast.At(1), holdfast.WithName("other"))
	if err != nil || child.Info().Fork == nil || child.Info().Fork.Version != 1 || child.Info().Name != "other" {
		t.Fatalf("%+v, %v", child.Info(), err)
	}
	page, err := c.List(ctx, store.Query{UserID: "ann", Kinds: []session.Kind{session.KindChat, session.KindTask}, CreatedAfter: time.Unix(0, 0), Order: store.IDAsc, Limit: 10})
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	if err := c.Purge(ctx, child.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Info(ctx, child.ID()); !errors.Is(err, session.ErrNotFound) {
		t.Error(err)
	}
	if err := c.Cancel(ctx, made.ID); err != nil && !errors.Is(err, session.ErrInvalid) {
		t.Error(err)
	}
}

func TestClient_errorsHaveTheTypesOfTheRuntime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	n := newNode(t, llm.Map{offline.Name: scripted.New(scripted.Reply{Err: errors.New("no money")})})
	c := n.client(t)
	made := create(t, c)
	var (
		missing  *session.NotFoundError
		conflict *session.ConflictError
		failed   *session.ExecutionError
		invalid  *session.InvalidError
	)
	if _, err := c.Info(ctx, "nobody"); !errors.As(err, &missing) || missing.ID != "nobody" {
		t.Error(err)
	}
	if _, err := c.Execute(ctx, made.ID, holdfast.ClearSession{}, holdfast.IfVersion(7)); !errors.As(err, &conflict) || conflict.Reason != session.ReasonStale || conflict.Have != 1 {
		t.Error(err)
	}
	if _, err := c.Execute(ctx, made.ID, holdfast.SendMessage{Text: " "}); !errors.As(err, &invalid) || invalid.Field != "message" {
		t.Error(err)
	}
	turn, err := c.Execute(ctx, made.ID, holdfast.SendMessage{Text: "hello"})
	if !errors.As(err, &failed) || failed.Version != 2 || turn.Version() != 2 || !strings.Contains(err.Error(), "no money") {
		t.Errorf("%+v, %v", turn.Info(), err)
	}
	bad, err := client.New(client.Config{URL: n.url, Key: "hf_wrong"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Info(ctx, made.ID); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Error(err)
	}
	for _, c := range []client.Config{{URL: "localhost:1", Key: "k"}, {URL: "ftp://x", Key: "k"}, {URL: n.url}} {
		if _, err := client.New(c); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Requests whose answers are lost take effect once.
func TestClient_lostAnswersAreAskedForAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	n := newNode(t, llm.Map{offline.Name: offline.Model{}})
	c := n.client(t)
	n.cut.Store(2)
	made := create(t, c)
	n.cut.Store(2)
	turn, err := c.Execute(ctx, made.ID, holdfast.SendMessage{Text: "hello"})
	if err != nil || turn.Version() != 2 || turn.Info().MessageCount != 2 || turn.Reply() == "" {
		t.Fatalf("%+v, %v", turn.Info(), err)
	}
	n.cut.Store(1)
	if _, err := c.Fork(ctx, made.ID); err != nil {
		t.Error(err)
	}
	n.cut.Store(1)
	if err := c.Purge(ctx, made.ID); err != nil {
		t.Error(err)
	}
	if page, err := c.List(ctx, store.Query{}); err != nil || len(page.Items) != 1 {
		t.Errorf("%d sessions, %v", len(page.Items), err)
	}
	n.cut.Store(100)
	if _, err := c.Create(ctx, echo); err == nil || !strings.Contains(err.Error(), "reach the server") {
		t.Error(err)
	}
}

// A follower whose connection breaks again and again misses nothing and sees
// nothing twice.
func TestFollow_goesOnAfterBreaks(t *testing.T) {
	t.Parallel()
	n := newNode(t, llm.Map{offline.Name: offline.Model{}})
	c := n.client(t)
	made := create(t, c)
	breaks := httptest.NewServer(breaking(n.api))
	t.Cleanup(breaks.Close)
	weak, err := client.New(client.Config{URL: breaks.URL, Key: n.key, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	const turns = 5
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range turns {
			if _, err := c.Execute(context.Background(), made.ID, holdfast.SendMessage{Text: "message " + strconv.Itoa(i)}); err != nil {
				t.Error(err)
			}
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	last, saved := int64(0), 0
	for u, err := range weak.Follow(ctx, made.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Record == nil {
			continue
		}
		if u.Record.Seq != last+1 {
			t.Fatalf("%d follows %d", u.Record.Seq, last)
		}
		last = u.Record.Seq
		if m, ok := u.Record.Change.(session.MessageAdded); ok && m.Message.Role == session.RoleAssistant {
			if saved++; saved == turns {
				break
			}
		}
	}
	sending.Wait()
	if saved != turns {
		t.Errorf("%d of %d answers were seen", saved, turns)
	}
}

// breaking serves events but breaks every stream after its third flush.
func breaking(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&breakingWriter{ResponseWriter: w}, r)
	})
}

type breakingWriter struct {
	http.ResponseWriter
	writes int
}

func (w *breakingWriter) Write(data []byte) (int, error) {
	if w.writes++; w.writes > 5 {
		panic(http.ErrAbortHandler)
	}
	return w.ResponseWriter.Write(data)
}

func (w *breakingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestFollow_aMissingSessionIsAnError(t *testing.T) {
	t.Parallel()
	c := newNode(t, nil).client(t)
	for _, err := range c.Follow(context.Background(), "nobody", 0) {
		if !errors.Is(err, session.ErrNotFound) {
			t.Error(err)
		}
		return
	}
	t.Error("nothing was yielded")
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// house is a runtime under test with everything that can be seen of it.
type house struct {
	*holdfast.Runtime
	t     *testing.T
	store store.Store
	model *scripted.Model
	heard *recorder
}

// open builds a runtime on a fresh in-memory store. Adjust may change the
// configuration before.
func open(t *testing.T, adjust func(*holdfast.Config)) *house {
	t.Helper()
	h := &house{t: t, model: scripted.New(scripted.Reply{Text: "hello"}), heard: &recorder{}}
	retries := 0
	c := holdfast.Config{
		Store: inmem.New(inmem.Config{}), DefaultModel: "demo", Poll: 5 * time.Millisecond, ModelRetries: &retries,
	}
	if adjust != nil {
		adjust(&c)
	}
	if c.Models == nil {
		c.Models = llm.Map{"demo": h.model}
	}
	rt, err := holdfast.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(rt.Close(), c.Store.Close()); err != nil {
			t.Error(err)
		}
	})
	h.Runtime, h.store = rt, c.Store
	rt.Wiretap(h.heard.hear)
	return h
}

// script replaces the model's script.
func script(c *holdfast.Config, replies ...scripted.Reply) *scripted.Model {
	m := scripted.New(replies...)
	c.Models = llm.Map{"demo": m}
	return m
}

var agentDef = session.Definition{Name: "tester", SystemPrompt: "Be brief."}

// create makes a session and forgets the events of it.
func (h *house) create(opts ...holdfast.Option) session.Session {
	h.t.Helper()
	s, err := h.Create(h.t.Context(), agentDef, opts...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.heard.forget()
	return s
}

// do executes an action that must succeed.
func (h *house) do(id string, a holdfast.Action, opts ...holdfast.Option) session.Session {
	h.t.Helper()
	s, err := h.Execute(h.t.Context(), id, a, opts...)
	if err != nil {
		h.t.Fatalf("%s: %v", a.Name(), err)
	}
	return s
}

// stored is what a fresh load sees.
func (h *house) stored(id string) session.Session {
	h.t.Helper()
	s, err := h.store.Load(h.t.Context(), store.Ref{Tenant: session.DefaultTenant, ID: id}, false)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// unchanged fails unless the stored session is still the given one and no
// tail is in force.
func (h *house) unchanged(s session.Session) {
	h.t.Helper()
	if got, want := document(h.t, h.stored(s.ID())), document(h.t, s); got != want {
		h.t.Errorf("the stored session changed\n got %s\nwant %s", got, want)
	}
	tailed, err := h.store.Load(h.t.Context(), store.RefOf(s), true)
	if err != nil {
		h.t.Fatal(err)
	}
	if tailed.HasTail() {
		h.t.Error("an open tail was left behind")
	}
}

func document(t *testing.T, s session.Session) string {
	t.Helper()
	raw, err := s.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// recorder remembers events.
type recorder struct {
	mu     sync.Mutex
	events []holdfast.Event
}

func (r *recorder) hear(e holdfast.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = nil
}

func (r *recorder) all() []holdfast.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// kinds are the names of the session events, those of executions left out.
func (r *recorder) kinds() []string {
	var names []string
	for _, e := range r.all() {
		name := strings.TrimPrefix(fmt.Sprintf("%T", e), "holdfast.")
		if strings.HasPrefix(name, "Session") || strings.HasPrefix(name, "Memory") {
			names = append(names, name)
		}
	}
	return names
}

func wantEvents(t *testing.T, h *house, want ...string) {
	t.Helper()
	if got := h.heard.kinds(); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// custom is an action made of a function.
type custom struct {
	name   string
	run    func(ctx context.Context, s session.Session) (session.Session, error)
	leased bool
}

func (c custom) Name() string { return c.name }
func (c custom) Leased() bool { return c.leased }
func (c custom) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return c.run(ctx, s)
}

// gate lets a test stop something in the middle: it tells when it is reached
// and waits to be opened.
type gate struct{ reached, open chan struct{} }

func newGate() *gate { return &gate{reached: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) pass(ctx context.Context) error {
	close(g.reached)
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// modelFunc is a model made of a function.
type modelFunc func(ctx context.Context, r llm.Request) (llm.Response, error)

func (f modelFunc) Infer(ctx context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	return f(ctx, r)
}

// toolFunc is a tool made of a function.
type toolFunc struct {
	spec tool.Spec
	call func(ctx context.Context, c tool.Call) (tool.Result, error)
}

func (f toolFunc) Spec() tool.Spec { return f.spec }
func (f toolFunc) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	return f.call(ctx, c)
}

func toolSet(t *testing.T, tools ...tool.Tool) tool.Set {
	t.Helper()
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func callOf(id, name string) session.ToolCall {
	return session.ToolCall{ID: id, Name: name, Arguments: []byte("{}")}
}

func TestNew_needsAStore(t *testing.T) {
	_, err := holdfast.New(holdfast.Config{})
	var bad *session.InvalidError
	if !errors.As(err, &bad) || bad.Field != "Config.Store" {
		t.Errorf("got %v", err)
	}
}

func TestClose_refusesAndInterrupts(t *testing.T) {
	g := newGate()
	h := open(t, func(c *holdfast.Config) {
		c.Models = llm.Map{"demo": modelFunc(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
			return llm.Response{}, g.pass(ctx)
		})}
	})
	s := h.create()
	failed := make(chan error, 1)
	go func() {
		_, err := h.Execute(context.WithoutCancel(t.Context()), s.ID(), holdfast.SendMessage{Text: "hi"})
		failed <- err
	}()
	<-g.reached
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, session.ErrInterrupted) {
		t.Errorf("a running turn ended with %v, want an interruption", err)
	}
	if _, err := h.Get(t.Context(), s.ID()); !errors.Is(err, session.ErrClosed) {
		t.Errorf("after Close Get says %v", err)
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.ClearSession{}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("after Close Execute says %v", err)
	}
}

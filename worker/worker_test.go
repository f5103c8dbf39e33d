package worker_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/worker"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// node is a process with a store and a runtime.
type node struct {
	*testing.T
	rt    *holdfast.Runtime
	store store.Store
	model llm.Model
}

// newNode opens a node on a database that others may have open too.
func newNode(t *testing.T, path string, model llm.Model) *node {
	t.Helper()
	st, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": model}, DefaultModel: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return &node{T: t, rt: rt, store: st, model: model}
}

// work runs a worker until the test ends.
func (n *node) work(c worker.Config) *worker.Worker {
	n.Helper()
	c.Runtime, c.Store, c.Poll, c.Grace = n.rt, n.store, 100*time.Millisecond, cmp.Or(c.Grace, time.Nanosecond)
	if c.Kinds == nil {
		c.Kinds = map[session.Kind]worker.Kind{session.KindChat: worker.Chats(4)}
	}
	w, err := worker.New(c)
	if err != nil {
		n.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(n.Context()))
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	n.Cleanup(func() { stop(); <-done })
	return w
}

func (n *node) of(tenant string) *holdfast.Runtime {
	return n.rt.For(holdfast.Identity{Tenant: tenant})
}

func (n *node) create(tenant, id string) {
	n.Helper()
	if _, err := n.of(tenant).Create(n.Context(), session.Definition{Name: "a"}, holdfast.WithID(id)); err != nil {
		n.Fatal(err)
	}
}

func (n *node) post(tenant, id, text string) {
	n.Helper()
	message, err := session.JSON(session.Message{ID: "m-" + text, Role: session.RoleUser, Content: session.Text(text)})
	if err != nil {
		n.Fatal(err)
	}
	if _, err := n.of(tenant).Post(n.Context(), id, store.Item{ID: text, Kind: store.ItemFollowUp, Payload: session.Values{"message": message}}); err != nil {
		n.Fatal(err)
	}
}

// eventually waits until something is so.
func (n *node) eventually(what string, so func() bool) {
	n.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			n.Fatalf("not within a minute: %s", what)
		}
	}
}

func (n *node) replied(tenant, id string) bool {
	n.Helper()
	s, err := n.of(tenant).Get(n.Context(), id)
	if err != nil {
		n.Fatal(err)
	}
	return s.Reply() != "" && !s.Running()
}

func path(t *testing.T) string { return filepath.Join(t.TempDir(), "sessions.db") }

// counting counts how often each message is answered.
type counting struct {
	mu    sync.Mutex
	asked map[string]int
}

func (c *counting) Infer(_ context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	text := r.Messages[len(r.Messages)-1].Content.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]int{}
	}
	c.asked[text]++
	return llm.Response{Content: session.Text("answer to " + text), FinishReason: "stop"}, nil
}

// Messages in inboxes are answered once, in every tenant, by whichever of
// several workers comes first.
func TestWorker_answersEachMessageOnce(t *testing.T) {
	t.Parallel()
	db, model := path(t), &counting{}
	client := newNode(t, db, model)
	for range 3 {
		newNode(t, db, model).work(worker.Config{})
	}
	for i := range 8 {
		for _, tenant := range []string{"t1", "t2"} {
			id := fmt.Sprintf("s%d", i)
			client.create(tenant, id)
			client.post(tenant, id, tenant+id)
		}
	}
	for i := range 8 {
		for _, tenant := range []string{"t1", "t2"} {
			client.eventually("an answer", func() bool { return client.replied(tenant, fmt.Sprintf("s%d", i)) })
		}
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	if len(model.asked) != 16 {
		t.Errorf("%d messages were answered, want 16", len(model.asked))
	}
	for text, times := range model.asked {
		if times != 1 {
			t.Errorf("%s was answered %d times", text, times)
		}
	}
}

// An interrupted turn is continued.
func TestWorker_continuesAnInterruptedTurn(t *testing.T) {
	t.Parallel()
	db := path(t)
	client := newNode(t, db, scripted.New(scripted.Reply{Text: "late", Delay: time.Hour}))
	client.create("default", "s")
	ctx, cancel := context.WithCancel(t.Context())
	stop := holdfast.On(client.rt, func(holdfast.StepStarted) { cancel() }, 0)
	defer stop()
	if _, err := client.rt.Execute(ctx, "s", holdfast.SendMessage{Text: "hello"}); !errors.Is(err, session.ErrInterrupted) {
		t.Fatal(err)
	}
	newNode(t, db, scripted.New(scripted.Reply{Text: "done"})).work(worker.Config{})
	client.eventually("the answer", func() bool { return client.replied("default", "s") })
}

// blocking models answer when they are let go, and count how many wait.
type blocking struct {
	waiting atomic.Int64
	let     chan struct{}
}

func (b *blocking) Infer(ctx context.Context, _ llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	select {
	case <-b.let:
	case <-ctx.Done():
		return llm.Response{}, ctx.Err()
	}
	return llm.Response{Content: session.Text("ok"), FinishReason: "stop"}, nil
}

func TestWorker_keepsToItsSlotsAndTenantLimit(t *testing.T) {
	t.Parallel()
	model := &blocking{let: make(chan struct{})}
	n := newNode(t, path(t), model)
	for i := range 6 {
		n.create("many", fmt.Sprintf("s%d", i))
		n.post("many", fmt.Sprintf("s%d", i), fmt.Sprintf("m%d", i))
	}
	n.create("one", "s")
	n.post("one", "s", "m")
	w := n.work(worker.Config{TenantLimit: 2, Kinds: map[session.Kind]worker.Kind{session.KindChat: worker.Chats(5)}})
	n.eventually("what may be at work is", func() bool { return model.waiting.Load() == 3 })
	n.create("late", "s") // it is taken by a later look, which had free slots for the others
	n.post("late", "s", "m")
	n.eventually("the late one is at work", func() bool { return model.waiting.Load() == 4 })
	if loads := w.Loads(); len(loads) != 1 || loads[0].Running != 4 || loads[0].Slots != 5 {
		t.Errorf("loads: %+v", loads)
	}
	atWork := func(tenant string) (held int) {
		for i, err := range n.of(tenant).Sessions(t.Context(), store.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			if _, live, err := n.store.(store.Leases).Holding(t.Context(), store.Ref{Tenant: tenant, ID: i.ID}); err == nil && live {
				held++
			}
		}
		return held
	}
	if many, one := atWork("many"), atWork("one"); many != 2 || one != 1 {
		t.Errorf("%d of one tenant and %d of the other are at work, want 2 and 1", many, one)
	}
	close(model.let)
	for i := range 6 {
		n.eventually("an answer", func() bool { return n.replied("many", fmt.Sprintf("s%d", i)) })
	}
}

// No more is at work than there are slots.
func TestWorker_keepsToItsSlots(t *testing.T) {
	t.Parallel()
	model := &blocking{let: make(chan struct{})}
	n := newNode(t, path(t), model)
	for i := range 5 {
		n.create("default", fmt.Sprintf("s%d", i))
		n.post("default", fmt.Sprintf("s%d", i), fmt.Sprintf("m%d", i))
	}
	executor := func(rt *holdfast.Runtime) (*task.Executor, error) { return task.New(rt, task.Config{}) }
	w := n.work(worker.Config{Kinds: map[session.Kind]worker.Kind{
		session.KindChat: worker.Chats(2), session.KindTask: worker.Tasks(2, executor), // slots of one kind are not another's
	}})
	n.eventually("the slots are used", func() bool { return model.waiting.Load() == 2 })
	x, err := executor(n.rt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Create(t.Context(), task.Spec{Prompt: "do it", PlanMode: task.PlanNone}); err != nil {
		t.Fatal(err)
	}
	n.eventually("a later look has taken the task", func() bool { return model.waiting.Load() == 3 })
	if loads := w.Loads(); loads[0].Running != 2 || loads[1].Running != 1 {
		t.Errorf("loads: %+v", loads)
	}
	close(model.let)
}

// Tasks are left to whoever created them for a while.
func TestWorker_leavesNewTasksToTheirCreator(t *testing.T) {
	t.Parallel()
	n := newNode(t, path(t), scripted.New(scripted.Reply{Text: "ok"}))
	executor := func(rt *holdfast.Runtime) (*task.Executor, error) { return task.New(rt, task.Config{}) }
	x, err := executor(n.rt)
	if err != nil {
		t.Fatal(err)
	}
	job, err := x.Create(t.Context(), task.Spec{Prompt: "do it", PlanMode: task.PlanNone})
	if err != nil {
		t.Fatal(err)
	}
	n.work(worker.Config{Grace: time.Hour, Kinds: map[session.Kind]worker.Kind{
		session.KindChat: worker.Chats(1), session.KindTask: worker.Tasks(1, executor),
	}})
	for _, id := range []string{"a", "b"} { // two looks, one after the other
		n.create("default", id)
		n.post("default", id, "to-"+id)
		n.eventually("the chat is answered", func() bool { return n.replied("default", id) })
	}
	if row, err := x.Get(t.Context(), job.ID); err != nil || row.Status != task.Pending {
		t.Errorf("the task is %s (%v)", row.Status, err)
	}
}

// At the end what is at work is interrupted, and another worker continues it.
func TestWorker_leavesItsWorkToOthers(t *testing.T) {
	t.Parallel()
	db, model := path(t), &blocking{let: make(chan struct{})}
	first := newNode(t, db, model)
	first.create("default", "s")
	first.post("default", "s", "hello")
	w, err := worker.New(worker.Config{Runtime: first.rt, Store: first.store, Kinds: map[session.Kind]worker.Kind{session.KindChat: worker.Chats(1)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	first.eventually("it is at work", func() bool { return model.waiting.Load() == 1 })
	stop()
	<-done
	if first.replied("default", "s") {
		t.Fatal("it was answered")
	}
	newNode(t, db, scripted.New(scripted.Reply{Text: "done"})).work(worker.Config{})
	first.eventually("the answer", func() bool { return first.replied("default", "s") })
}

// What fails is tried again later, and holds up nothing else.
func TestWorker_putsOffWhatFails(t *testing.T) {
	t.Parallel()
	n := newNode(t, path(t), scripted.New(scripted.Reply{Text: "ok"}))
	for _, id := range []string{"bad", "good"} {
		n.create("default", id)
		n.post("default", id, "to-"+id)
	}
	var tries, clock atomic.Int64
	chats := worker.Chats(1)
	now := func() time.Time { return time.Unix(1e9+clock.Load(), 0) }
	n.work(worker.Config{Now: now, Kinds: map[session.Kind]worker.Kind{session.KindChat: {Slots: 1, Do: func(ctx context.Context, rt *holdfast.Runtime, id string) (bool, error) {
		if id == "bad" && tries.Add(1) < 3 {
			return false, errors.New("not today")
		}
		return chats.Do(ctx, rt, id)
	}}}})
	for _, id := range []string{"good", "later"} {
		if id == "later" { // another look
			n.create("default", id)
			n.post("default", id, "to-"+id)
		}
		n.eventually("the good one is answered", func() bool { return n.replied("default", id) })
	}
	if got := tries.Load(); got != 1 {
		t.Errorf("it was tried %d times before its time", got)
	}
	for wait := range int64(2) {
		clock.Add(wait + 2) // longer than it is put off
		n.eventually("it is tried again", func() bool { return tries.Load() == wait+2 })
	}
	n.eventually("the bad one is answered", func() bool { return n.replied("default", "bad") })
	if got := tries.Load(); got != 3 {
		t.Errorf("it was tried %d times, want 3", got)
	}
}

func TestWorker_runsTasks(t *testing.T) {
	t.Parallel()
	n := newNode(t, path(t), scripted.New(scripted.Reply{Text: "all done"}))
	executor := func(rt *holdfast.Runtime) (*task.Executor, error) { return task.New(rt, task.Config{}) }
	x, err := executor(n.of("other"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := x.Create(t.Context(), task.Spec{Prompt: "do it", PlanMode: task.PlanNone})
	if err != nil {
		t.Fatal(err)
	}
	never := false
	left, err := x.Create(t.Context(), task.Spec{Prompt: "do it", PlanMode: task.PlanNone, AutoResume: &never})
	if err != nil {
		t.Fatal(err)
	}
	n.work(worker.Config{Kinds: map[session.Kind]worker.Kind{session.KindTask: worker.Tasks(2, executor)}})
	n.eventually("the task ends", func() bool {
		row, err := x.Get(t.Context(), job.ID)
		if err != nil {
			t.Fatal(err)
		}
		return row.Status == task.Completed
	})
	if row, err := x.Get(t.Context(), left.ID); err != nil || row.Status != task.Pending {
		t.Errorf("a task that waits to be resumed by hand is %s (%v)", row.Status, err)
	}
}

const asking = `
version: 1
name: ask
runtime: {provider: offline, model_id: echo}
agents:
  host: {prompt: You make tea.}
pattern:
  type: chain
  config:
    steps:
      - {agent: host, input: "one"}
      - {type: hitl, prompt: "go on?", timeout_seconds: 3600}
      - {agent: host, input: "two"}
`

// A run whose question was answered goes on.
func TestWorker_continuesAnsweredRuns(t *testing.T) {
	t.Parallel()
	n := newNode(t, path(t), scripted.New(scripted.Reply{Text: "ok"}))
	rt := n.of("other")
	host := workflow.Host{
		Env:    spec.Env{Providers: []string{"offline"}},
		Models: func(spec.Model) (string, llm.Model, error) { return "offline/echo", n.model, nil },
	}
	parsed, err := spec.Loader{}.Parse(spec.Source{Path: "ask.yaml", Data: []byte(asking)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	run, err := workflow.Start(t.Context(), rt, parsed, workflow.RunOptions{Host: host, Out: t.TempDir()})
	if err != nil || run.Question == nil {
		t.Fatalf("%+v, %v", run, err)
	}
	n.work(worker.Config{Kinds: map[session.Kind]worker.Kind{session.KindWorkflow: worker.Runs(2, func(*holdfast.Runtime) (workflow.ResumeOptions, error) {
		return workflow.ResumeOptions{Host: host, Out: t.TempDir()}, nil
	})}})
	page, err := rt.Pending(t.Context(), holdfast.PendingQuery{})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	if err := rt.Respond(t.Context(), run.SessionID, session.Response{PendingID: page.Items[0].ID, Action: session.RespondAnswer, Text: "yes"}); err != nil {
		t.Fatal(err)
	}
	n.eventually("the run ends", func() bool {
		i, err := rt.Info(t.Context(), run.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		return i.Workflow.Status == string(workflow.StatusCompleted)
	})
}

func TestNew_refuses(t *testing.T) {
	t.Parallel()
	n := newNode(t, path(t), scripted.New())
	good := worker.Config{Runtime: n.rt, Store: n.store, Kinds: map[session.Kind]worker.Kind{session.KindChat: worker.Chats(1)}}
	for field, change := range map[string]func(*worker.Config){
		"Runtime": func(c *worker.Config) { c.Runtime = nil },
		"Store":   func(c *worker.Config) { c.Store = struct{ store.Store }{n.store} },
		"Kinds":   func(c *worker.Config) { c.Kinds = map[session.Kind]worker.Kind{session.KindChat: worker.Chats(0)} },
	} {
		bad := good
		change(&bad)
		if _, err := worker.New(bad); !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// What a schedule sends is answered.
func TestWorker_firesSchedules(t *testing.T) {
	t.Parallel()
	n := newNode(t, path(t), scripted.New(scripted.Reply{Text: "good morning"}))
	n.create("default", "s")
	var clock atomic.Int64
	clock.Store(time.Date(2026, 1, 1, 6, 59, 59, 0, time.UTC).UnixNano())
	schedules := schedule.New(n.rt, func() time.Time { return time.Unix(0, clock.Load()) }, nil)
	if _, err := schedules.Create(t.Context(), schedule.Schedule{Cron: "0 7 * * *", SessionID: "s", Text: "wake up"}, "test"); err != nil {
		t.Fatal(err)
	}
	n.work(worker.Config{Fire: func(ctx context.Context) (time.Time, error) {
		defer clock.Add(int64(time.Second))
		_, err := schedules.Fire(ctx)
		return time.Now(), err // look again at once
	}})
	n.eventually("the answer", func() bool { return n.replied("default", "s") })
	if s, err := n.rt.Get(t.Context(), "s"); err != nil || s.Len() != 2 {
		t.Errorf("%d messages (%v), want the question and its answer", s.Len(), err)
	}
}

// A worker that is paused takes nothing new, and goes on afterwards.
func TestWorker_takesNothingWhilePaused(t *testing.T) {
	t.Parallel()
	db, model := path(t), &counting{}
	n := newNode(t, db, model)
	n.create("t1", "s")
	var paused atomic.Bool
	var looked atomic.Int64
	paused.Store(true)
	n.work(worker.Config{Paused: func() bool { looked.Add(1); return paused.Load() }})
	n.post("t1", "s", "hello")
	n.eventually("it has looked", func() bool { return looked.Load() > 3 })
	if n.replied("t1", "s") {
		t.Error("a paused worker has answered")
	}
	paused.Store(false)
	n.eventually("an answer", func() bool { return n.replied("t1", "s") })
}

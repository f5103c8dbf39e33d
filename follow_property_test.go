package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/tool"
)

// storyCall is one call of the model in a story: what it streams and how it ends.
// Text is in small letters, reasoning in capitals.
type storyCall struct {
	pieces []string
	end    string // tool, answer, fail or hang, which interrupts the turn
}

// story is a turn with everything that can happen to its answers. It streams
// call by call and remembers what was streamed under which name.
type story struct {
	said
	calls     []storyCall
	interrupt func()

	mu      sync.Mutex // guards the rest
	next    int
	step    string // the one being answered
	shuffle *rand.Rand
}

func drawStory(t *property.T) *story {
	piece := property.OneOf(property.StringOf("abcdefghijklmnopqrstuvwxyz", 1, 4), property.StringOf("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 1, 3))
	call := func(ends ...string) property.Generator[storyCall] {
		return property.Custom(func(t *property.T) storyCall {
			return storyCall{property.SliceOfN(piece, 0, 8).Draw(t, "pieces"), property.SampledFrom(ends).Draw(t, "end")}
		})
	}
	s := &story{said: said{streamed: map[string]string{}}, shuffle: rand.New(rand.NewPCG(property.Uint64().Draw(t, "seed"), 1))}
	s.calls = append(property.SliceOfN(call("tool", "fail", "hang"), 0, 5).Draw(t, "calls"), call("answer").Draw(t, "last"))
	return s
}

// pause lets others run for a while.
func (s *story) pause() {
	s.mu.Lock()
	n := s.shuffle.IntN(30)
	s.mu.Unlock()
	for range n {
		runtime.Gosched()
	}
}

func key(stepID string, attempt int) string { return fmt.Sprintf("%s/%d", stepID, attempt) }

func (s *story) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	s.mu.Lock()
	call, name := s.calls[s.next], key(s.step, r.Attempt)
	s.next++
	s.mu.Unlock()
	var content session.Content
	say := func(d llm.Delta, text string) {
		s.add(name, text)
		emit(d)
		s.pause()
	}
	for _, p := range call.pieces {
		if strings.ToLower(p) == p {
			content = append(content, session.Part{Type: session.PartText, Text: p})
			say(llm.Delta{Text: p}, p)
		} else {
			say(llm.Delta{Reasoning: p}, p)
		}
	}
	response := llm.Response{Content: content, FinishReason: "stop"}
	switch call.end {
	case "fail":
		return llm.Response{}, &llm.TransientError{Err: errors.New("broken off")}
	case "hang":
		s.interrupt()
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	case "tool":
		asked := callOf(fmt.Sprint("c", s.next), "work")
		say(llm.Delta{ToolCall: &asked}, "#"+asked.ID)
		response.ToolCalls = []session.ToolCall{asked}
	}
	return response, nil
}

// said has what was streamed, by step and attempt.
type said struct {
	mu       sync.Mutex // guards streamed
	streamed map[string]string
}

func (s *said) add(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streamed[name] += text
}

func (s *said) of(a holdfast.Attempt) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streamed[key(a.StepID, a.Number)]
}

// watcher follows a session, leaves and comes back, and checks what it sees.
type watcher struct {
	said    *said
	dice    *rand.Rand
	last    func(session.Change) bool
	records []int64
	shown   map[string]*shownAnswer // by unit
	trouble error

	answered, dropped, together int // answers that were shown while they were given; how often several were
}

type shownAnswer struct {
	holdfast.Attempt
	text string
}

func (w *watcher) fail(format string, args ...any) bool {
	w.trouble = fmt.Errorf(format, args...)
	return false
}

// see takes one update; it says whether to go on.
func (w *watcher) see(u holdfast.Update) bool {
	switch {
	case u.Delta != nil:
		return w.delta(*u.Delta)
	case u.Dropped != nil:
		shown := w.shown[u.Dropped.Unit]
		if shown == nil {
			return true // it failed before its first piece was read
		}
		if shown.Attempt != u.Dropped.Attempt {
			return w.fail("%+v was dropped and %+v was shown", *u.Dropped, shown)
		}
		w.dropped++
		delete(w.shown, u.Dropped.Unit)
		return true
	default:
		return w.record(*u.Record)
	}
}

func (w *watcher) delta(d holdfast.Delta) bool {
	shown := w.shown[d.Unit]
	if shown == nil {
		shown = &shownAnswer{Attempt: d.Attempt}
		w.shown[d.Unit] = shown
	}
	if shown.Attempt != d.Attempt {
		return w.fail("%+v begins before the end of %+v", d.Attempt, shown.Attempt)
	}
	if len(w.shown) > 1 {
		w.together++
	}
	shown.text += d.Text + d.Reasoning
	if d.ToolCall != nil {
		shown.text += "#" + d.ToolCall.ID
	}
	if all := w.said.of(d.Attempt); !strings.HasPrefix(all, shown.text) {
		return w.fail("shown %q of %q", shown.text, all)
	}
	return true
}

// record checks that an answer ends with its own record: of its unit no other
// comes before the end.
func (w *watcher) record(e session.LogEntry) bool {
	w.records = append(w.records, e.Seq)
	unit, change := unitOf(e.Change)
	if shown := w.shown[unit]; shown != nil {
		answered, ok := change.(session.InferenceAnswered)
		if !ok || answered.StepID != shown.StepID {
			return w.fail("%s follows %+v", change.Kind(), shown.Attempt)
		}
		if all := w.said.of(shown.Attempt); shown.text != all {
			return w.fail("answered with %q, and %q was shown", all, shown.text)
		}
		w.answered++
		delete(w.shown, unit)
	}
	return !w.last(e.Change)
}

// unitOf is the unit that a change belongs to, and what it says of it.
func unitOf(c session.Change) (string, session.Change) {
	switch c := c.(type) {
	case session.UnitAdvanced:
		return c.Unit, c.Change
	case session.UnitFailed:
		return c.Unit, c
	case session.MessageAdded:
		return c.Message.Unit, c
	}
	return "", c
}

// watch follows to the end of the turn, with pauses and absences.
func (w *watcher) watch(ctx context.Context, rt *holdfast.Runtime, id string, after int64) {
	for w.trouble == nil {
		w.shown = map[string]*shownAnswer{} // whoever comes back gets an answer from its beginning
		stay, finished := 1+w.dice.IntN(20), false
		for u, err := range rt.Follow(ctx, id, after) {
			if err != nil {
				w.trouble = err
				break
			}
			if u.Record != nil {
				after = u.Record.Seq
			}
			if finished = !w.see(u); finished {
				break
			}
			for range w.dice.IntN(30) {
				runtime.Gosched()
			}
			if stay--; stay == 0 {
				break
			}
		}
		if finished || ctx.Err() != nil {
			return
		}
	}
}

// play runs the turn, taking it up again whenever it was interrupted.
func (s *story) play(ctx context.Context, rt *holdfast.Runtime, id string) error {
	var action holdfast.Action = holdfast.SendMessage{Text: "go"}
	for {
		work, cancel := context.WithCancel(ctx)
		s.interrupt = cancel
		_, err := rt.Execute(work, id, action)
		cancel()
		if !errors.Is(err, session.ErrInterrupted) {
			return err
		}
		action = holdfast.ContinueExecution{}
	}
}

// watched plays the story on a store before an audience, and counts the answers
// and the void ones that were seen while they were given.
func (s *story) watched(ctx context.Context, t *property.T, st store.Store, tools tool.Set) (answered, dropped int) {
	retries := len(s.calls)
	rt, err := holdfast.New(holdfast.Config{
		Store: st, Models: llm.Map{"demo": s}, DefaultModel: "demo", Tools: tools,
		ModelRetries: &retries, Backoff: func(int) time.Duration { return time.Nanosecond }, Poll: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rt.Close() }()
	holdfast.On(rt, func(e holdfast.StepStarted) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.step = e.StepID
	}, 0)
	made, err := rt.Create(ctx, agentDef)
	if err != nil {
		t.Fatal(err)
	}
	watchers := make([]*watcher, property.IntRange(1, 4).Draw(t, "watchers"))
	var wg sync.WaitGroup
	for i := range watchers {
		w := &watcher{said: &s.said, dice: rand.New(rand.NewPCG(property.Uint64().Draw(t, "dice"), 2)), last: func(c session.Change) bool {
			_, over := c.(session.ExecutionFinished)
			return over
		}}
		watchers[i] = w
		wg.Go(func() { w.watch(ctx, rt, made.ID(), 0) })
	}
	if err := s.play(ctx, rt, made.ID()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	var log []int64
	for e, err := range rt.Log(ctx, made.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, e.Seq)
	}
	for i, w := range watchers {
		answered, dropped = answered+w.answered, dropped+w.dropped
		if w.trouble != nil || !slices.Equal(w.records, log) {
			t.Errorf("watcher %d: %v; saw %v of %v", i, w.trouble, w.records, log)
		}
	}
	return answered, dropped
}

// watchedStores are the stores that stories are told on.
func watchedStores(t *testing.T) map[string]store.Store {
	t.Helper()
	onDisk, err := sqlite.Open(t.Context(), t.TempDir()+"/sessions.db", sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	stores := map[string]store.Store{"inmem": inmem.New(inmem.Config{}), "sqlite": onDisk}
	t.Cleanup(func() {
		for _, st := range stores {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return stores
}

// Whatever happens to the answers of a turn and however its watchers come, go
// and dawdle: each sees every record once and in order, and of every answer it
// sees any of, all that was streamed, then the record or that it is void.
func TestFollow_property(t *testing.T) {
	t.Parallel()
	stores := watchedStores(t)
	tools := toolSet(t, toolFunc{spec: tool.Spec{Name: "work"}, call: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: "ok"}, nil
	}})
	var answered, dropped int
	property.Check(t, func(rt *property.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // only so that a test that fails ends
		defer cancel()
		st := stores[property.SampledFrom([]string{"inmem", "sqlite"}).Draw(rt, "store")]
		whole, void := drawStory(rt).watched(ctx, rt, st, tools)
		answered, dropped = answered+whole, dropped+void
	})
	if answered == 0 || dropped == 0 {
		t.Errorf("nothing was tested: %d answers and %d dropped ones were seen", answered, dropped)
	}
}

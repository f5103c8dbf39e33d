package holdfast_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// unitStory is what the units of a run stream, each a list of calls, all at the
// same time.
type unitStory struct {
	said
	units map[string][]storyCall
	seed  uint64
}

func drawUnits(t *property.T) *unitStory {
	call := property.Custom(func(t *property.T) storyCall {
		return storyCall{
			property.SliceOfN(property.StringOf("abcdefghijklmnopqrstuvwxyz", 1, 4), 0, 8).Draw(t, "pieces"),
			property.SampledFrom([]string{"answer", "answer", "fail", "give up", "leave"}).Draw(t, "end"),
		}
	})
	s := &unitStory{said: said{streamed: map[string]string{}}, units: map[string][]storyCall{}, seed: property.Uint64().Draw(t, "seed")}
	for i := range t.Repeat(1, 5) {
		s.units[fmt.Sprint("unit", i)] = property.SliceOfN(call, 1, 5).Draw(t, "calls")
	}
	return s
}

// work streams the calls of one unit and writes what becomes of them.
func (s *unitStory) work(ctx context.Context, h *holdfast.Hold, unit string, dice *rand.Rand) error {
	answers := h.Answers(unit)
	defer func() { answers.Close() }()
	step, attempt := 0, 0
	for _, call := range s.units[unit] {
		id := fmt.Sprintf("%s-%d", unit, step)
		if attempt == 0 {
			answers.Begin(unit, id, 0)
		}
		for _, text := range call.pieces {
			s.add(key(id, attempt), text)
			answers.Emit(llm.Delta{Text: text})
			for range dice.IntN(30) {
				runtime.Gosched()
			}
		}
		if call.end == "fail" {
			answers.Drop(agent.Notice{})
			attempt++
			continue
		}
		var change session.Change
		switch call.end {
		case "answer":
			change = session.UnitAdvanced{Unit: unit, Change: session.InferenceAnswered{StepID: id}}
		case "give up":
			change = session.UnitFailed{Unit: unit}
		default:
			answers.Close()
			answers = h.Answers(unit)
		}
		if change != nil {
			if _, err := h.Append(ctx, change); err != nil {
				return err
			}
		}
		step, attempt = step+1, 0
	}
	return nil
}

func (s *unitStory) play(ctx context.Context, rt *holdfast.Runtime, id string) error {
	return rt.Hold(ctx, id, func(ctx context.Context, h *holdfast.Hold) error {
		failed := make(chan error, len(s.units))
		for unit := range s.units {
			go func() { failed <- s.work(ctx, h, unit, rand.New(rand.NewPCG(s.seed, uint64(unit[4])))) }()
		}
		for range s.units {
			if err := <-failed; err != nil {
				return err
			}
		}
		_, err := h.Append(ctx, session.BudgetWarned{Budget: "the end"})
		return err
	})
}

// However many units answer at the same time, and whatever becomes of their
// answers: every watcher sees every record once and in order, and of every
// answer it sees any of, all that was streamed, then its record or that it is
// void.
func TestFollow_unitsThatAnswerAtTheSameTime(t *testing.T) {
	t.Parallel()
	stores := watchedStores(t)
	var answered, dropped, together int
	property.Check(t, func(rt *property.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // only so that a test that fails ends
		defer cancel()
		s := drawUnits(rt)
		r, err := holdfast.New(holdfast.Config{Store: stores[property.SampledFrom([]string{"inmem", "sqlite"}).Draw(rt, "store")], Poll: 50 * time.Millisecond})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		made, err := r.Create(ctx, agentDef, holdfast.WithKind(session.KindWorkflow), holdfast.WithChanges(
			session.WorkflowBegun{Spec: []byte("{}"), Runtime: []byte("{}")}))
		if err != nil {
			rt.Fatal(err)
		}
		last := func(c session.Change) bool { _, over := c.(session.BudgetWarned); return over }
		watchers := make([]*watcher, property.IntRange(1, 4).Draw(rt, "watchers"))
		var wg sync.WaitGroup
		for i := range watchers {
			w := &watcher{said: &s.said, dice: rand.New(rand.NewPCG(s.seed, uint64(i))), last: last}
			watchers[i] = w
			wg.Go(func() { w.watch(ctx, r, made.ID(), 0) })
		}
		if err := s.play(ctx, r, made.ID()); err != nil {
			rt.Error(err)
		}
		wg.Wait()
		var log []int64
		for e, err := range r.Log(ctx, made.ID(), 0) {
			if err != nil {
				rt.Fatal(err)
			}
			log = append(log, e.Seq)
		}
		for i, w := range watchers {
			answered, dropped, together = answered+w.answered, dropped+w.dropped, together+w.together
			if w.trouble != nil || !slices.Equal(w.records, log) {
				rt.Errorf("watcher %d: %v; saw %v of %v", i, w.trouble, w.records, log)
			}
		}
	})
	if answered == 0 || dropped == 0 || together == 0 {
		t.Errorf("nothing was tested: %d answers and %d dropped ones were seen, %d deltas beside another answer's", answered, dropped, together)
	}
}

// A stream that was closed or not begun takes anything and shows nothing.
func TestAnswers_outsideOfAnAnswer(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	s := h.create()
	err := h.Hold(t.Context(), s.ID(), func(_ context.Context, hold *holdfast.Hold) error {
		answers := hold.Answers("")
		answers.Emit(llm.Delta{Text: "too early"})
		answers.Drop(agent.Notice{})
		answers.Close()
		answers.Close()
		answers.Begin("e", "s", 0)
		answers.Emit(llm.Delta{Text: "too late"})
		again := hold.Answers("")
		defer again.Close()
		again.Begin("e", "s", 0)
		again.Emit(llm.Delta{Text: "in time"})
		h.follow(s.ID(), s.Info().Seq).sees("…in time") //nolint:contextcheck // it follows for as long as the test runs
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/file"
)

// concepts is an embedder that knows a few words that mean the same.
type concepts struct {
	broken atomic.Bool
	calls  atomic.Int64
	texts  atomic.Int64
}

var meanings = [][]string{{"ferry", "boat", "ship"}, {"tea", "drink", "coffee"}, {"dog", "puppy", "hound"}}

func (c *concepts) Name() string { return "concepts/1" }

func (c *concepts) Embed(_ context.Context, texts []string) ([][]float32, error) {
	c.calls.Add(1)
	c.texts.Add(int64(len(texts)))
	if c.broken.Load() {
		return nil, errBoom
	}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		v := make([]float32, len(meanings))
		length := 0.0
		for k, words := range meanings {
			for _, word := range words {
				v[k] += float32(strings.Count(strings.ToLower(text), word))
			}
			length += float64(v[k]) * float64(v[k])
		}
		for k := range v {
			if length > 0 {
				v[k] /= float32(math.Sqrt(length))
			}
		}
		vectors[i] = v
	}
	return vectors, nil
}

func openConcepts(t *testing.T, adjust func(*holdfast.Config)) (*house, *concepts) {
	t.Helper()
	c := &concepts{}
	return open(t, func(config *holdfast.Config) {
		config.Embedder = c
		if adjust != nil {
			adjust(config)
		}
	}), c
}

func TestRecall_byMeaning(t *testing.T) {
	h, _ := openConcepts(t, func(c *holdfast.Config) { script(c, scripted.Reply{Text: "ok"}) })
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "The ferry leaves at nine"})
	h.do(s.ID(), holdfast.SendMessage{Text: "I had a puppy once"})
	m := h.memory(s.ID())
	keep(t, m, memory.ScopeSession, "pets", "two hounds")
	keep(t, m, memory.ScopeAgent, "menu", "coffee only")
	if _, err := h.Embed(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		query string
		mode  memory.Mode
		want  []string
	}{
		{"a boat", memory.Semantic, []string{"The ferry leaves at nine"}},
		{"a boat", memory.Hybrid, []string{"The ferry leaves at nine"}},
		{"a boat", memory.Keyword, nil},
		{"dog", memory.Semantic, []string{"I had a puppy once", "two hounds"}},
		{"some drink", memory.Semantic, []string{"coffee only"}},
		{"leaves at nine", memory.Hybrid, []string{"The ferry leaves at nine"}},
		{"mountain", memory.Semantic, nil},
	} {
		hits, err := m.Recall(t.Context(), c.query, memory.RecallOptions{Mode: c.mode, Scopes: []memory.Scope{memory.ScopeSession, memory.ScopeAgent}})
		if err != nil {
			t.Fatalf("%s %q: %v", c.mode, c.query, err)
		}
		var got []string
		for _, hit := range hits {
			got = append(got, hit.Text)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %q found %q, want %q", c.mode, c.query, got, c.want)
		}
	}
}

func TestRecall_failingEmbedderCostsHitsAndNothingElse(t *testing.T) {
	h, c := openConcepts(t, nil)
	c.broken.Store(true)
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "The ferry leaves at nine"})
	m := h.memory(s.ID())
	hits, err := m.Recall(t.Context(), "ferry leaves", memory.RecallOptions{})
	if err != nil || len(hits) != 1 {
		t.Errorf("by words: %v, %v", hits, err)
	}
	if _, err := m.Recall(t.Context(), "boat", memory.RecallOptions{Mode: memory.Semantic}); !errors.Is(err, errBoom) {
		t.Errorf("by meaning: %v", err)
	}
	if _, err := h.Embed(t.Context()); !errors.Is(err, errBoom) {
		t.Errorf("embed: %v", err)
	}
	c.broken.Store(false)
	if _, err := h.Embed(t.Context()); err != nil { // beside the background, whoever is faster
		t.Errorf("embed again: %v", err)
	}
	if hits, err = m.Recall(t.Context(), "boat", memory.RecallOptions{}); err != nil || len(hits) != 1 {
		t.Errorf("afterwards: %v, %v", hits, err)
	}
	if n, err := h.Embed(t.Context()); err != nil || n != 0 {
		t.Errorf("embedded again: %d, %v", n, err)
	}
}

func TestEmbed_happensInTheBackground(t *testing.T) {
	h, c := openConcepts(t, nil)
	s := h.create()
	before := c.calls.Load()
	h.do(s.ID(), holdfast.SendMessage{Text: "The ferry leaves at nine"})
	m := h.memory(s.ID())
	for { // ends with the test's own time
		hits, err := m.Recall(t.Context(), "boat", memory.RecallOptions{Mode: memory.Semantic})
		if err != nil {
			t.Fatal(err)
		}
		if len(hits) == 1 {
			break
		}
	}
	if c.calls.Load() == before {
		t.Error("nobody embedded anything")
	}
}

func TestPrune_vectorStoreQuotesWhatLeftTheWindow(t *testing.T) {
	model := scripted.New(scripted.Reply{Text: "noted"})
	h, _ := openConcepts(t, func(c *holdfast.Config) { c.Models = llm.Map{"demo": model} })
	limit, threshold := 2, 0.5
	def := agentDef
	def.Memory = &session.MemoryPolicy{Strategy: session.PruneVector, Limit: &limit, Recall: &session.Recall{Limit: 2, Threshold: &threshold}}
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	h.do(s.ID(), holdfast.SendMessage{Text: "The ferry leaves at nine"})
	for i := range 3 {
		h.do(s.ID(), holdfast.SendMessage{Text: fmt.Sprint("something else ", i)})
	}
	got := h.do(s.ID(), holdfast.SendMessage{Text: "When does the boat go?"})
	requests := model.Requests()
	last := requests[len(requests)-1]
	if !strings.Contains(last.System, "The ferry leaves at nine") || strings.Contains(last.System, "something else") {
		t.Errorf("system prompt %q", last.System)
	}
	for _, m := range last.Messages {
		if strings.Contains(m.Content.Text(), "ferry") {
			t.Error("the window still has it")
		}
	}
	step := got.Execution().Steps[0]
	if len(step.Recalled) != 1 || len(step.Reasons) != 1 || step.Reasons[0].Score < threshold || step.Reasons[0].Meaning == 0 {
		t.Errorf("recorded %v, because of %+v", step.Recalled, step.Reasons)
	}
	sent, err := h.SentRequest(t.Context(), s.ID(), got.Version(), 0)
	if err != nil || !slices.Equal(sent.Recalled, step.Recalled) || !reflect.DeepEqual(sent.Reasons, step.Reasons) {
		t.Errorf("read later: %v, because of %+v (%v)", sent.Recalled, sent.Reasons, err)
	}
}

func TestCreate_vectorStoreNeedsAnEmbedderAndAStoreWithVectors(t *testing.T) {
	limit := 2
	def := agentDef
	def.Memory = &session.MemoryPolicy{Strategy: session.PruneVector, Limit: &limit}
	if _, err := open(t, nil).Create(t.Context(), def); !errors.Is(err, session.ErrDefinition) {
		t.Errorf("without an embedder: %v", err)
	}
	st, err := file.Open(t.TempDir(), file.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := openConcepts(t, func(c *holdfast.Config) { c.Store = st })
	if _, err := h.Create(t.Context(), def); !errors.Is(err, session.ErrDefinition) {
		t.Errorf("on a store without vectors: %v", err)
	}
}

func TestEmbed_newWritesDoNotShortenTheBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		h := open(t, func(c *holdfast.Config) {
			c.Embedder = embedderFunc(func() error {
				calls.Add(1)
				return &llm.TransientError{After: time.Hour, Err: errBoom}
			})
		})
		s := h.create()
		h.do(s.ID(), holdfast.SendMessage{Text: "The ferry leaves at nine"})
		synctest.Wait()
		if calls.Load() == 0 {
			t.Fatal("nothing was embedded")
		}
		before := calls.Load()
		for range 20 {
			h.do(s.ID(), holdfast.SendMessage{Text: "again"})
			synctest.Wait()
		}
		if n := calls.Load() - before; n != 0 {
			t.Errorf("called %d times within the hour it asked for", n)
		}
		time.Sleep(time.Hour + time.Second) // the bubble's clock
		synctest.Wait()
		if n := calls.Load() - before; n != 1 {
			t.Errorf("called %d times after the hour, want once", n)
		}
	})
}

// A session with vector_store waits for its own passages alone: that those of
// another tenant cannot be embedded is nothing to it.
func TestPrune_vectorStoreEmbedsItsOwnSessionOnly(t *testing.T) {
	h, _ := openConcepts(t, func(c *holdfast.Config) { c.Embedder = &choosy{} })
	other, err := h.For(holdfast.Identity{Tenant: "other"}).Create(t.Context(), agentDef)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.For(holdfast.Identity{Tenant: "other"}).Execute(t.Context(), other.ID(), toldTexts("m", "a backlog of another tenant")); err != nil {
		t.Fatal(err)
	}
	limit := 1
	def := agentDef
	def.Memory = &session.MemoryPolicy{Strategy: session.PruneVector, Limit: &limit}
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	h.do(s.ID(), holdfast.SendMessage{Text: "The ferry leaves at nine"})
	got := h.do(s.ID(), holdfast.SendMessage{Text: "a dog"})
	if shown := len(got.WindowMessages()); shown != 1 {
		t.Errorf("the window shows %d messages, want 1", shown)
	}
	hits, err := h.memory(s.ID()).Recall(t.Context(), "ship", memory.RecallOptions{Mode: memory.Semantic})
	if err != nil || len(hits) != 1 || hits[0].Text != "The ferry leaves at nine" {
		t.Errorf("found %+v, %v", hits, err)
	}
}

// choosy fails for passages that speak of a backlog.
type choosy struct{ concepts }

func (c *choosy) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	for _, text := range texts {
		if strings.Contains(text, "backlog") {
			return nil, errBoom
		}
	}
	return c.concepts.Embed(ctx, texts)
}

// embedderFunc is an embedder that always fails.
type embedderFunc func() error

func (embedderFunc) Name() string { return "failing/1" }

func (f embedderFunc) Embed(context.Context, []string) ([][]float32, error) { return nil, f() }

package holdfast_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

// say adds messages of a user with given ids.
type say []session.Message

func (say) Name() string { return "Say" }

func (a say) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	var changes []session.Change
	for _, m := range a {
		m.Role, m.CreatedAt = session.RoleUser, holdfast.Env(ctx).Now()
		changes = append(changes, session.MessageAdded{Message: m})
	}
	return s.With(holdfast.Env(ctx).Now(), changes...)
}

func toldTexts(prefix string, texts ...string) say {
	var all say
	for i, text := range texts {
		all = append(all, session.Message{ID: fmt.Sprintf("%s-%d", prefix, i+1), Content: session.Text(text)})
	}
	return all
}

func TestRecall_sameTextIsOneHit(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	h.do(s.ID(), toldTexts("m", "green tea", "green  tea", "green tea", "black tea, then green tea"))
	got := recall(t, h.memory(s.ID()), "green tea")
	if len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// An id belongs to its session: two sessions may use the same.
func TestRecall_sessionsMayShareIds(t *testing.T) {
	h := open(t, nil)
	ann := h.For(holdfast.Identity{UserID: "ann"})
	var last session.Session
	for _, text := range []string{"green tea in Kyoto", "green tea in Oslo"} {
		s, err := ann.Create(t.Context(), session.Definition{Name: "host", Model: "demo"})
		if err != nil {
			t.Fatal(err)
		}
		if last, err = ann.Execute(t.Context(), s.ID(), toldTexts("m", text)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := ann.Memory(t.Context(), last.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := recall(t, m, "green tea", memory.ScopeUser); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

func TestRecall_saysWhatMatchedAndWhatStoodAround(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	filler := strings.Repeat("The morning was foggy and nobody was in the street. ", 20)
	h.do(s.ID(), toldTexts("m", "first", "second", filler+"The ferry leaves at nine. "+filler, "fourth", "fifth"))
	hits, err := h.memory(s.ID()).Recall(t.Context(), "When do ferries leave?", memory.RecallOptions{Neighbours: 1})
	if err != nil || len(hits) != 1 {
		t.Fatalf("%d hits, %v", len(hits), err)
	}
	match := hits[0].Match
	if !slices.Equal(match.Words, []string{"ferri", "leav"}) || !strings.Contains(match.Passage, "ferry leaves") || len(match.Passage) > 400 {
		t.Errorf("%+v", match)
	}
	if len(hits[0].Before) != 1 || hits[0].Before[0].ID != "m-2" || len(hits[0].After) != 1 || hits[0].After[0].ID != "m-4" {
		t.Errorf("before %v, after %v", hits[0].Before, hits[0].After)
	}
	h.do(s.ID(), holdfast.ClearSession{})
	h.do(s.ID(), toldTexts("n", "The ferry leaves at ten."))
	if hits, err = h.memory(s.ID()).Recall(t.Context(), "When do ferries leave?", memory.RecallOptions{Neighbours: 2}); err != nil || len(hits) != 1 || len(hits[0].Before) > 0 {
		t.Errorf("what was cleared is a neighbour: %+v, %v", hits, err)
	}
}

// stretched gives vectors of length 10.
type stretched struct{ concepts }

func (e *stretched) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := e.concepts.Embed(ctx, texts)
	for _, v := range vectors {
		for i := range v {
			v[i] *= 10
		}
	}
	return vectors, err
}

func TestRecall_normalisesVectors(t *testing.T) {
	h := open(t, func(c *holdfast.Config) { c.Embedder = &stretched{} })
	s := h.create()
	h.do(s.ID(), toldTexts("m", "a ship and a drink", "the hound"))
	if _, err := h.Embed(t.Context()); err != nil {
		t.Fatal(err)
	}
	hits, err := h.memory(s.ID()).Recall(t.Context(), "boat", memory.RecallOptions{Mode: memory.Semantic})
	if err != nil || len(hits) != 1 || hits[0].Score < 0.7 || hits[0].Score > 0.72 {
		t.Errorf("%+v, %v", hits, err)
	}
}

// What a session remembers for itself is embedded once, with its key.
func TestRecall_ownEntriesAreEmbeddedOnce(t *testing.T) {
	h, c := openConcepts(t, nil)
	s := h.create()
	m := h.memory(s.ID())
	keep(t, m, memory.ScopeSession, "puppy", "Rex")
	for i := range 3 {
		before := c.texts.Load()
		hits, err := m.Recall(t.Context(), "hound", memory.RecallOptions{Mode: memory.Semantic})
		if err != nil || len(hits) != 1 || hits[0].Key != "puppy" {
			t.Fatalf("%+v, %v", hits, err)
		}
		if n := c.texts.Load() - before; i > 0 && n > 0 {
			t.Errorf("recall %d embedded %d texts", i+1, n)
		}
	}
}

func TestEmbed_embedsNothingTwice(t *testing.T) {
	h, c := openConcepts(t, func(c *holdfast.Config) { script(c, scripted.Reply{Text: "ok"}) })
	s := h.create()
	var many []string
	for i := range 80 {
		many = append(many, fmt.Sprintf("ferry %d", i))
	}
	h.do(s.ID(), toldTexts("m", many...))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := h.Embed(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := c.texts.Load(); n != 80 {
		t.Errorf("%d texts were embedded for 80 messages", n)
	}
}

// What a user has said is found by nobody once it is forgotten with the
// transcripts, whatever was forgotten before. It stays in the sessions.
func TestForget_transcriptsOnlyOnRequest(t *testing.T) {
	h := open(t, nil)
	ann := h.For(holdfast.Identity{UserID: "ann"})
	s, err := ann.Create(t.Context(), session.Definition{Name: "host", Model: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	say := func(id, text string) {
		t.Helper()
		if _, err := ann.Execute(t.Context(), s.ID(), toldTexts(id, text)); err != nil {
			t.Fatal(err)
		}
	}
	find := func() int {
		t.Helper()
		hits, err := h.memory(s.ID()).Recall(t.Context(), "green tea", memory.RecallOptions{Scopes: []memory.Scope{memory.ScopeSession, memory.ScopeUser}, IncludeCleared: true})
		if err != nil {
			t.Fatal(err)
		}
		return len(hits)
	}
	forget := func(f memory.Forgetting, want memory.Forgotten) {
		t.Helper()
		f.Scope, f.Owner = memory.ScopeUser, "ann"
		if n, err := h.Forget(t.Context(), f); n != want || err != nil {
			t.Errorf("%+v forgot %+v, %v, want %+v", f, n, err, want)
		}
	}
	say("m", "green tea in Kyoto")
	forget(memory.Forgetting{}, memory.Forgotten{})
	forget(memory.Forgetting{Transcripts: true, DryRun: true}, memory.Forgotten{Sessions: 1})
	if n := find(); n != 1 {
		t.Errorf("%d passages are found before", n)
	}
	forget(memory.Forgetting{Transcripts: true}, memory.Forgotten{Sessions: 1})
	if n := find(); n != 0 {
		t.Errorf("%d passages are found after", n)
	}
	say("n", "green tea in Oslo")
	if n := find(); n != 1 {
		t.Errorf("%d passages of what was said later are found", n)
	}
	page, err := h.memory(s.ID()).History(t.Context(), memory.HistoryOptions{})
	if err != nil || page.Total != 2 {
		t.Errorf("the history has %d messages, %v", page.Total, err)
	}
}

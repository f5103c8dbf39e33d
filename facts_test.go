package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// withFacts is an agent whose turns are looked at for facts by another model.
func withFacts() session.Definition {
	def := agentDef
	def.Memory = &session.MemoryPolicy{Strategy: session.PruneAll, Scopes: []string{"session", "user"}, Facts: &session.Facts{Model: "finder"}}
	return def
}

// factModels answers "ok" as the agent. As the finder of facts it answers what
// the last message of the user says after "find ", and counts.
func factModels(asked *atomic.Int64) llm.Map {
	return llm.Map{
		"demo": modelFunc(func(context.Context, llm.Request) (llm.Response, error) {
			return llm.Response{Content: session.Text("ok")}, nil
		}),
		"finder": modelFunc(func(_ context.Context, r llm.Request) (llm.Response, error) {
			asked.Add(1)
			text := r.Messages[0].Content.Text()
			_, said, _ := strings.Cut(text, "Messages.")
			_, answer, ok := strings.Cut(said, "find ")
			if !ok {
				return llm.Response{Content: session.Text("nothing to say")}, nil
			}
			answer, _, _ = strings.Cut(answer, "\n")
			if number := strings.Index(text, "] Ann lives in Oslo."); number > 0 { // of the known fact that it may replace
				answer = strings.ReplaceAll(answer, "KNOWN", text[strings.LastIndex(text[:number], "[")+1:number])
			}
			return llm.Response{Content: session.Text("```json\n" + answer + "\n```")}, nil
		}),
	}
}

const (
	saysOslo   = `I live in Oslo. find {"facts":[{"fact":"Ann lives in Oslo.","message":1},{"fact":"","message":1},{"fact":"nobody said it","message":9}]}`
	saysBergen = `We moved to Bergen. find {"facts":[{"fact":"Ann lives in Bergen.","message":1,"replaces":KNOWN,"validFrom":"2026-02-01"}]}`
)

func TestFacts_areAddedAndSupersededWithTheirSource(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		var asked atomic.Int64
		h := open(t, func(c *holdfast.Config) { c.Store, c.Models = st, factModels(&asked) })
		s := h.ofAnn(withFacts())
		h.do(s.ID(), holdfast.SendMessage{Text: saysOslo})
		awaitFacts(t, h, s.ID())
		h.do(s.ID(), holdfast.SendMessage{Text: saysBergen})
		awaitFacts(t, h, s.ID())
		said := h.stored(s.ID())

		other := h.memory(h.ofAnn(withFacts()).ID())
		find := func(which memory.FactTime) map[string]memory.Fact {
			hits, err := other.Recall(t.Context(), "where does Ann live in Oslo or Bergen", memory.RecallOptions{Scopes: []memory.Scope{memory.ScopeUser}, Prefix: "facts", Facts: which})
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]memory.Fact{}
			for _, hit := range hits {
				if hit.Fact == nil || hit.Fact.Text != hit.Text {
					t.Fatalf("%+v is no fact", hit)
				}
				found[hit.Text] = *hit.Fact
			}
			return found
		}
		now, all := find(memory.FactsNow), find(memory.FactsAll)
		oslo, bergen := all["Ann lives in Oslo."], all["Ann lives in Bergen."]
		if len(now) != 1 || now["Ann lives in Bergen."].Text == "" || len(all) != 2 {
			t.Errorf("true now: %v, of all: %v", now, all)
		}
		moved := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
		if oslo.ReplacedBy != bergen.Key || bergen.Replaces != oslo.Key || oslo.ValidTo == nil || !oslo.ValidTo.Equal(moved) || !bergen.ValidFrom.Equal(moved) {
			t.Errorf("%+v is not superseded by %+v", oslo, bergen)
		}
		if want := (memory.FactSource{SessionID: s.ID(), MessageID: said.Message(0).ID, Seq: said.Message(0).Seq}); oslo.Source != want {
			t.Errorf("said in %+v, want %+v", oslo.Source, want)
		}
		if n, err := h.ExtractFacts(t.Context(), s.ID()); n != 0 || err != nil || asked.Load() != 2 {
			t.Errorf("%d turns again, %v; the model was asked %d times", n, err, asked.Load())
		}

		// What is forgotten is not found in old turns again.
		if _, err := h.Forget(t.Context(), memory.Forgetting{Scope: memory.ScopeUser, Owner: "ann"}); err != nil {
			t.Fatal(err)
		}
		h.do(s.ID(), holdfast.SendMessage{Text: "hello"})
		awaitFacts(t, h, s.ID())
		if left := find(memory.FactsAll); len(left) != 0 || asked.Load() != 3 {
			t.Errorf("after forgetting: %v, asked %d times", left, asked.Load())
		}
		if hits, err := other.Recall(t.Context(), "facts forgottenAt found executionId", memory.RecallOptions{Scopes: []memory.Scope{memory.ScopeUser}, Prefix: "facts"}); err != nil || len(hits) != 0 {
			t.Errorf("notes of the extraction are found: %+v, %v", hits, err)
		}
	})
}

// Forgetting a user while a model looks for facts leaves none, whether it was the
// first time or there were facts before.
func TestFacts_areNotFoundWhileTheirOwnerIsForgotten(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		var count atomic.Int64
		models := factModels(&count)
		find, asked, answer := models["finder"], make(chan struct{}), make(chan struct{})
		models["finder"] = modelFunc(func(ctx context.Context, r llm.Request) (llm.Response, error) {
			asked <- struct{}{}
			<-answer
			return find.Infer(ctx, r, nil)
		})
		h := open(t, func(c *holdfast.Config) { c.Store, c.Models = st, models })
		s := h.ofAnn(withFacts())
		for range 2 {
			h.do(s.ID(), holdfast.SendMessage{Text: saysOslo})
			<-asked
			if _, err := h.Forget(t.Context(), memory.Forgetting{Scope: memory.ScopeUser, Owner: "ann"}); err != nil {
				t.Fatal(err)
			}
			answer <- struct{}{}
			awaitFacts(t, h, s.ID())
			left, err := st.(store.Memories).Entries(t.Context(), factsOfAnn, "facts", "", 0)
			if err != nil || len(left) != 1 || left[0].Key != "facts" {
				t.Errorf("after forgetting there are %d entries (%v), want the mark alone", len(left), err)
			}
		}
	})
}

// awaitFacts waits until every turn of a session was looked at.
func awaitFacts(t *testing.T, h *house, id string) {
	t.Helper()
	if _, err := h.ExtractFacts(t.Context(), id); err != nil { // beside the background, whoever is faster
		t.Fatal(err)
	}
}

func TestFacts_wrongDefinitionsAreRefused(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	for want, facts := range map[string]session.Facts{
		"memory.facts.scope": {Scope: "session"},
		"memory.facts.model": {Model: "nobody"},
	} {
		def := agentDef
		def.Memory = &session.MemoryPolicy{Strategy: session.PruneAll, Facts: &facts}
		if _, err := h.Create(t.Context(), def); !errors.Is(err, session.ErrDefinition) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if n, err := h.ExtractFacts(t.Context(), h.create().ID()); n != 0 || err != nil {
		t.Errorf("a session without facts: %d, %v", n, err)
	}
}

// A process that dies before or after any of its writes leaves a turn whose
// facts the next one stores: each once, by the answer of the model that was
// written first.
func TestFacts_areStoredOnceWhereverTheProcessDies(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			what := fmt.Sprintf("killed at write %d (after it: %t)", at, after)
			var dead atomic.Bool
			var count, before, later atomic.Int64
			inner := inmem.New(inmem.Config{})
			id := saysWhereSheLives(t, inner, what)
			st := storetest.Faulty(inner, func(call string, _ int) error {
				if dead.Load() || call == "Remember" && count.Add(1) == int64(at) {
					if !dead.Swap(true) && after {
						return storetest.After(errKilled)
					}
					return errKilled
				}
				return nil
			})
			extractOnce(t, st, id, &before)
			killed := dead.Load()
			extractOnce(t, inner, id, &later)
			answers := int64(2)
			if at == 2 && !after || at == 6 && !after { // before the answer about a turn was written
				answers = 3
			}
			if !killed {
				if at < 5 {
					t.Errorf("%s: there were only %d writes", what, count.Load())
				}
			} else if n := before.Load() + later.Load(); n != answers {
				t.Errorf("%s: the model was asked %d times, want %d", what, n, answers)
			}
			checkFacts(t, inner, what)
			if !killed {
				break
			}
		}
	}
}

// saysWhereSheLives makes a session with two turns that nobody has looked at.
func saysWhereSheLives(t *testing.T, st storetest.Full, what string) string {
	t.Helper()
	var none atomic.Int64
	notes := storetest.Faulty(st, func(call string, _ int) error { // the background comes to nothing
		if call == "Remember" {
			return errAway
		}
		return nil
	})
	rt, err := holdfast.New(holdfast.Config{Store: notes, DefaultModel: "demo", Models: factModels(&none)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.For(holdfast.Identity{UserID: "ann"}).Create(t.Context(), withFacts())
	for _, text := range []string{saysOslo, saysBergen} {
		if err == nil {
			_, err = rt.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: text})
		}
	}
	if err = errors.Join(err, rt.Close()); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return s.ID()
}

// extractOnce is a process that extracts facts, as far as it comes.
func extractOnce(t *testing.T, st store.Store, id string, asked *atomic.Int64) {
	t.Helper()
	rt, err := holdfast.New(holdfast.Config{Store: st, DefaultModel: "demo", Models: factModels(asked)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = rt.ExtractFacts(t.Context(), id); err != nil && !errors.Is(err, errKilled) {
		t.Error(err)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
}

var factsOfAnn = store.Owner{Tenant: session.DefaultTenant, Scope: store.ScopeUser, Name: "ann"}

func checkFacts(t *testing.T, st store.Memories, what string) {
	t.Helper()
	entries, err := st.Entries(t.Context(), factsOfAnn, "facts", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var facts []memory.Fact
	for _, e := range entries {
		if f, ok := memory.FactOf(memory.Entry{Key: e.Key, Value: e.Value}); ok {
			facts = append(facts, f)
			if replaced := f.ReplacedBy != ""; replaced && e.Version != 2 || !replaced && e.Version != 1 {
				t.Errorf("%s: %q was written %d times", what, f.Text, e.Version)
			}
		}
	}
	current := 0
	for _, f := range facts {
		if f.Valid(time.Now()) {
			current++
		}
	}
	if len(facts) != 2 || current != 1 || len(entries) != 4 {
		t.Errorf("%s: %d entries, %d facts of which %d are true now: %+v", what, len(entries), len(facts), current, facts)
	}
}

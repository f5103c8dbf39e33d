package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func spendingBehaviours() []behaviour {
	return []behaviour{
		{name: "spending/everyAnswerOnce", needs: []string{Spends, Tails, Forks}, check: everyAnswerOnce},
		{name: "spending/betweenTwoTimes", needs: []string{Spends, Tails}, check: answersBetweenTwoTimes},
		{name: "spending/whatEndedInNothingToo", needs: []string{Spends, Tails}, check: discardedAnswersCount},
		{name: "spending/refusesWhatItCannotGroup", needs: []string{Spends}, check: spendingIsChecked},
	}
}

// wantSpent compares what was spent, each group as "group: sessions, answers,
// tokens in and out, cost".
func wantSpent(t testing.TB, st store.Store, q store.SpendingQuery, want ...string) {
	t.Helper()
	got, err := ability[store.Spends](t, st).Spending(t.Context(), session.DefaultTenant, q)
	if err != nil {
		t.Fatalf("spending: %v", err)
	}
	have := []string{}
	for _, g := range got.Groups {
		have = append(have, fmt.Sprintf("%s: %d %d %d/%d %d", g.Group, g.Sessions, g.Answers, g.Usage.Input, g.Usage.Output, g.Cost))
	}
	if !slices.Equal(have, want) || got.Unreadable != 0 {
		t.Errorf("by %q from %v to %v: %q, %d unreadable, want %q", q.By, q.From, q.To, have, got.Unreadable, want)
	}
}

// answered is an answer that used a hundred tokens and some.
func answered(step, model string, cost session.Cost) session.Change {
	return session.InferenceAnswered{StepID: step, Model: model, Usage: session.Usage{Input: 100, Output: 10}, Cost: cost}
}

var begun = session.ExecutionStarted{ExecutionID: "e"}

func everyAnswerOnce(t testing.TB, d Data) {
	st := d.Open(t)
	a := create(t, st, withChanges(t, newSessionFrom(t, session.Identity{ID: "a", UserID: "ann"}), begun, answered("1", "m/one", 5)))
	a = save(t, st, withChanges(t, a, answered("2", "m/two", 7)))
	a = save(t, st, withChanges(t, a, session.WindowMoved{
		Strategy: session.PruneSummary, To: a.Seq(), Keep: []int64{},
		Summary: &session.Summary{Text: "so far", Model: "m/one", Usage: session.Usage{Input: 1000}, Cost: 1},
	}))
	a = save(t, st, withChanges(t, a, session.SessionTitled{Title: "what it was", Model: "m/two", Usage: session.Usage{Input: 100, Output: 10}, Cost: 3}))
	fork := createFork(t, st, a, "fork")
	save(t, st, withChanges(t, fork, begun, answered("3", "m/one", 11)))
	mustAppend(t, st, withChanges(t, a, answered("4", "m/one", 13))) // an open tail counts
	task := newSessionFrom(t, session.Identity{ID: "task", UserID: "bob", Kind: session.KindTask})
	create(t, st, withChanges(t, task, begun, answered("1", "m/two", 17), // counted by the event
		session.TaskEvent{Name: "llm_usage", Data: []byte(`{"providerType":"m","modelId":"two","delta":{"inputTokens":100,"outputTokens":10,"cachedTokens":0,"cost":0.000017},"totals":{}}`)}))
	run := newSessionFrom(t, session.Identity{ID: "run", Kind: session.KindWorkflow})
	create(t, st, withChanges(t, run, session.WorkflowBegun{Spec: []byte(`{}`), Runtime: []byte(`{}`), Extra: []byte(`{}`)},
		session.WorkflowRowChanged{Workflow: session.WorkflowRow{Name: "flow", Pattern: "chain", Status: "running"}},
		session.UnitStarted{Unit: "step/0", Lane: "main", Agent: "writer"},
		session.UnitAdvanced{Unit: "step/0", Agent: "writer", Change: answered("1", "m/one", 19)}))
	other := newSessionFrom(t, session.Identity{ID: "a", Tenant: "other"})
	create(t, st, withChanges(t, other, begun, answered("1", "m/one", 1000)))

	day := start().UTC().Format(time.DateOnly)
	wantSpent(t, st, store.SpendingQuery{}, day+": 4 8 1700/70 76")
	wantSpent(t, d.Open(t), store.SpendingQuery{By: store.ByAgent}, "tester: 3 7 1600/60 57", "writer: 1 1 100/10 19")
	wantSpent(t, st, store.SpendingQuery{By: store.ByModel}, "m/one: 3 5 1400/40 49", "m/two: 2 3 300/30 27")
	wantSpent(t, st, store.SpendingQuery{By: store.ByUser}, "ann: 2 6 1500/50 40", ": 1 1 100/10 19", "bob: 1 1 100/10 17")
	wantSpent(t, st, store.SpendingQuery{By: store.BySession}, "a: 1 5 1400/40 29", "run: 1 1 100/10 19", "task: 1 1 100/10 17", "fork: 1 1 100/10 11")
	if err := st.Delete(t.Context(), ref("a"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	wantSpent(t, st, store.SpendingQuery{By: store.BySession}, "run: 1 1 100/10 19", "task: 1 1 100/10 17", "fork: 1 1 100/10 11")
}

func answersBetweenTwoTimes(t testing.TB, d Data) {
	st := d.Open(t)
	at := func(hours int) time.Time { return start().Add(time.Duration(hours) * time.Hour) }
	storedAt(t, st, session.Identity{ID: "s"}, session.Definition{Name: "tester"}, at(0), begun, answered("1", "m", 1))
	for i := range 2 { // the second stays in the tail
		s := load(t, st, ref("s"))
		next, err := s.With(at(24*(i+1)), answered(fmt.Sprint(i+2), "m", session.Cost(10+90*i)))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			save(t, st, next)
		} else {
			mustAppend(t, st, next)
		}
	}
	days := make([]string, 3)
	for i := range days {
		days[i] = at(24 * i).UTC().Format(time.DateOnly)
	}
	wantSpent(t, st, store.SpendingQuery{By: store.ByDay}, days[0]+": 1 1 100/10 1", days[1]+": 1 1 100/10 10", days[2]+": 1 1 100/10 100")
	wantSpent(t, st, store.SpendingQuery{From: at(24)}, days[1]+": 1 1 100/10 10", days[2]+": 1 1 100/10 100")
	wantSpent(t, st, store.SpendingQuery{From: at(48)}, days[2]+": 1 1 100/10 100")
	wantSpent(t, st, store.SpendingQuery{From: at(1), To: at(48)}, days[1]+": 1 1 100/10 10")
	wantSpent(t, st, store.SpendingQuery{From: at(49)})
}

// An answer that was discarded was paid for.
func discardedAnswersCount(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, withChanges(t, newSession(t, "s"), begun))
	worked := mustAppend(t, st, withChanges(t, s, answered("1", "m", 3)))
	discard(t, st, s, worked.Seq(), worked.Seq())
	wantSpent(t, d.Open(t), store.SpendingQuery{By: store.BySession}, "s: 1 1 100/10 3")
}

func spendingIsChecked(t testing.TB, d Data) {
	spends := ability[store.Spends](t, d.Open(t))
	for _, q := range []store.SpendingQuery{{By: "colour"}, {From: start(), To: start()}} {
		if _, err := spends.Spending(t.Context(), session.DefaultTenant, q); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%+v: %v, want an InvalidError", q, err)
		}
	}
}

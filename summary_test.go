package holdfast_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func TestSummary_modelSeesEverythingThatLeaves(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		var requests []llm.Request
		writer := modelFunc(func(_ context.Context, r llm.Request) (llm.Response, error) {
			requests = append(requests, r)
			if len(requests) == 1 {
				return llm.Response{Content: session.Text("First summary."), Usage: session.Usage{Input: 70, Output: 7}, Cost: 9}, nil
			}
			return llm.Response{Content: session.Text("Second summary.")}, nil
		})
		model := scripted.New(scripted.Reply{Text: "ok"})
		h := open(t, func(c *holdfast.Config) { c.Store, c.Models = st, llm.Map{"demo": model, "writer": writer} })
		def := remembering(session.PruneSummary, 2)
		slack := 0
		def.Memory.SummaryPrompt, def.Memory.SummaryModel, def.Memory.Slack = "Sum up.", "writer", &slack
		s := h.started(def)
		h.do(s.ID(), holdfast.SendMessage{Text: "one"})
		got := h.do(s.ID(), holdfast.SendMessage{Text: "two"})
		sum := got.Window().Summary
		if sum == nil || sum.Text != "First summary." || sum.Model != "writer" || sum.Usage.Input != 70 || sum.CreatedAt.IsZero() {
			t.Fatalf("%+v", sum)
		}
		if usage, cost := got.Usage(); usage.Input != 70 || cost != 9 || got.Execution().Usage.Input != 0 || got.Execution().Cost != 0 {
			t.Errorf("the session used %+v for %v, the execution %+v", usage, cost, got.Execution().Usage)
		}
		got = h.do(s.ID(), holdfast.SendMessage{Text: "three"})
		if got.Window().Summary.Text != "Second summary." || got.Window().Summary.FromSeq != sum.FromSeq {
			t.Errorf("%+v after %+v", got.Window().Summary, sum)
		}
		for i, want := range [][]string{{"one", "ok", "Sum up."}, {"First summary.", "two", "ok", "Sum up."}} {
			said := requests[i].Messages
			if len(said) != len(want) {
				t.Fatalf("request %d has %d messages, want %d", i, len(said), len(want))
			}
			for k, m := range said {
				if !strings.Contains(m.Content.Text(), want[k]) {
					t.Errorf("request %d says %q, want %q", i, m.Content.Text(), want[k])
				}
			}
		}
		sent := model.Requests()
		if first := sent[len(sent)-1].Messages[0]; first.Role != session.RoleUser || !strings.Contains(first.Content.Text(), "First summary.") {
			t.Errorf("the turn began with %+v", first)
		}
		// Forks and earlier versions keep the summary they had.
		fork, err := h.Fork(t.Context(), s.ID(), holdfast.At(3))
		if err != nil || fork.Window().Summary.Text != "First summary." {
			t.Errorf("%+v, %v", fork.Window(), err)
		}
	})
}

// An answer that leaves alone, without the question before it, is summed up
// and not forgotten.
func TestSummary_answerThatLeavesAloneIsTold(t *testing.T) {
	writer := scripted.New(scripted.Reply{Text: "Summary."})
	h := open(t, func(c *holdfast.Config) {
		c.Models = llm.Map{"demo": scripted.New(scripted.Reply{Text: "the answer is 42"}, scripted.Reply{Text: "ok"}), "writer": writer}
	})
	limit := 100
	def := remembering(session.PruneSummary, limit)
	def.Memory.SummaryPrompt, def.Memory.SummaryModel = "Sum up.", "writer"
	s := h.started(def)
	h.do(s.ID(), holdfast.SendMessage{Text: "what is it?"})
	h.do(s.ID(), holdfast.PruneSession{Strategy: session.PruneSliding, Limit: 1})
	h.do(s.ID(), holdfast.SendMessage{Text: "thanks"})
	h.do(s.ID(), holdfast.PruneSession{Strategy: session.PruneSummary, Limit: 2})
	r := writer.Requests()[0]
	if err := session.ValidTranscript(r.Messages); err != nil || !slices.ContainsFunc(r.Messages, func(m session.Message) bool { return m.Content.Text() == "the answer is 42" }) {
		t.Errorf("the model was told %+v, %v", r.Messages, err)
	}
}

func TestSummary_waitsUntilItPays(t *testing.T) {
	writer := scripted.New(scripted.Reply{Text: "Summary."})
	h := open(t, func(c *holdfast.Config) {
		c.Models = llm.Map{"demo": scripted.New(scripted.Reply{Text: "ok"}), "writer": writer}
	})
	def := remembering(session.PruneSummary, 2) // and as many again before it is worth a call
	def.Memory.SummaryPrompt, def.Memory.SummaryModel = "Sum up.", "writer"
	s := h.started(def)
	for turn, want := range []int{0, 0, 1, 1, 2} {
		h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
		if n := len(writer.Requests()); n != want {
			t.Errorf("%d summaries after turn %d, want %d", n, turn+1, want)
		}
	}
}

// The window leaves room for what introduces a summary and for messages that
// stay; a request that could be made to fit is not refused.
func TestFit_countsWhatIsSentBesideTheWindow(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		models := llm.Map{"writer": scripted.New(scripted.Reply{Text: fifty("brief")})}
		for most := 120; most < 200; most += 7 {
			models[fmt.Sprint(most)] = narrow{scripted.New(scripted.Reply{Text: "ok"}), most}
		}
		h := open(t, func(c *holdfast.Config) { c.Store, c.Models = st, models })
		for name, model := range models {
			model, ok := model.(narrow)
			if !ok {
				continue
			}
			def := remembering(session.PruneSummary, 1000)
			def.Model, def.SystemPrompt, def.Memory.SummaryPrompt, def.Memory.SummaryModel = name, "", "Sum up.", "writer"
			s := h.started(def)
			h.do(s.ID(), holdfast.SendMessage{Text: "early"})
			h.do(s.ID(), holdfast.PruneSession{Strategy: session.PruneSummary, Limit: 0})
			for i := range 6 {
				h.do(s.ID(), holdfast.SendMessage{Text: fmt.Sprint("a message of some length, and one more like it ", i)})
			}
			for _, r := range model.Requests() {
				tokens := 0
				for _, m := range r.Messages {
					tokens += memory.Estimate(m)
				}
				if tokens > model.most {
					t.Errorf("%d tokens were sent to a model that takes %d", tokens, model.most)
				}
			}
		}
	})
}

// A model that never answers delays a turn, and does not hold it up for ever: the
// window stays as it is.
func TestSummary_hangingModelIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writer := modelFunc(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
			<-ctx.Done()
			return llm.Response{}, ctx.Err()
		})
		h := open(t, func(c *holdfast.Config) {
			c.Models = llm.Map{"demo": scripted.New(scripted.Reply{Text: "ok"}), "writer": writer}
		})
		def := remembering(session.PruneSummary, 1)
		slack := 0
		def.Memory.SummaryPrompt, def.Memory.SummaryModel, def.Memory.Slack = "Sum up.", "writer", &slack
		s := h.started(def)
		got := h.do(s.ID(), holdfast.SendMessage{Text: "one"})
		if got.Window().Summary != nil || len(got.WindowMessages()) != 2 {
			t.Errorf("%+v", got.Window())
		}
	})
}

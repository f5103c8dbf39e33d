package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// narrow is a model that takes in only so many tokens.
type narrow struct {
	*scripted.Model
	most int
}

func (n narrow) ContextLength() int { return n.most }

// fifty is a text of fifty tokens, by the estimate.
func fifty(word string) string { return strings.Repeat(word+" ", 50) }

func openNarrow(t *testing.T, most int, replies ...scripted.Reply) (*house, *scripted.Model) {
	t.Helper()
	model := scripted.New(replies...)
	return open(t, func(c *holdfast.Config) { c.Models = llm.Map{"demo": narrow{model, most}} }), model
}

func TestSendMessage_requestThatDoesNotFitFailsWithoutAPolicy(t *testing.T) {
	for _, policy := range []*session.MemoryPolicy{nil, {Strategy: session.PruneAll}} {
		h, model := openNarrow(t, 110, scripted.Reply{Text: "ok"})
		def := agentDef
		def.SystemPrompt, def.Memory = "", policy
		s, err := h.Create(t.Context(), def)
		if err != nil {
			t.Fatal(err)
		}
		h.do(s.ID(), holdfast.SendMessage{Text: fifty("one")})
		got, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: fifty("two")})
		var tooLong *session.ContextLengthError
		if !errors.As(err, &tooLong) || tooLong.Max != 110 || tooLong.Have <= 110 {
			t.Fatalf("%v", err)
		}
		if got.Execution().Status != session.ExecutionFailed || len(model.Requests()) != 1 || got.Window().FromSeq != 0 {
			t.Errorf("status %s, %d requests, window from %d", got.Execution().Status, len(model.Requests()), got.Window().FromSeq)
		}
	}
}

// tokenCounter is a narrow model that notes how often it counts a message.
type tokenCounter struct {
	narrow
	counted *atomic.Int64
}

func (c tokenCounter) CountTokens(session.Message) (tokens int, counter string) {
	c.counted.Add(1)
	return 1, "one for each"
}

// Counting is slow, so it is left to requests that may be too long: a text has
// no more tokens than bytes, and other parts of a message have a few.
func TestSendMessage_requestThatSurelyFitsIsNotCounted(t *testing.T) {
	image := session.Content{{Type: session.PartImage, URL: "https://example.org/1.png"}}
	for _, c := range []struct {
		name    string
		most    int
		content session.Content
		counts  bool
	}{
		{"a capacity that nobody knows", 0, session.Text(fifty("one")), false},
		{"fewer bytes than tokens", 1000, session.Text(fifty("one")), false},
		{"more bytes than tokens", 120, session.Text(fifty("one")), true},
		{"an image", 1000, image, true},
	} {
		model := tokenCounter{narrow{scripted.New(scripted.Reply{Text: "ok"}), c.most}, new(atomic.Int64)}
		h := open(t, func(c *holdfast.Config) { c.Models = llm.Map{"demo": model} })
		def := agentDef
		def.SystemPrompt = ""
		s, err := h.Create(t.Context(), def)
		if err != nil {
			t.Fatal(err)
		}
		h.do(s.ID(), holdfast.SendMessage{Message: &session.Message{Content: c.content}})
		if n := model.counted.Load(); (n > 0) != c.counts {
			t.Errorf("%s: %d messages were counted", c.name, n)
		}
	}
}

func TestSendMessage_policyMovesTheWindowUntilTheRequestFits(t *testing.T) {
	h, model := openNarrow(t, 170, scripted.Reply{Text: "ok"})
	limit := 100
	def := agentDef
	def.SystemPrompt, def.Memory = "", &session.MemoryPolicy{Strategy: session.PruneSliding, Limit: &limit}
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"one", "two", "three"} {
		h.do(s.ID(), holdfast.SendMessage{Text: fifty(word)})
	}
	requests := model.Requests()
	last := requests[len(requests)-1].Messages
	if first := last[0].Content.Text(); !strings.HasPrefix(first, "two") || last[len(last)-1].Content.Text() != fifty("three") {
		t.Errorf("sent from %.10q on", first)
	}
	if !slices.Contains(h.heard.kinds(), "MemoryPruned") {
		t.Error("nobody was told")
	}
	if got := h.stored(s.ID()); got.Len() != 6 && !got.Partial() {
		t.Errorf("%d messages are left", got.Len())
	}
	_, err = h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: strings.Repeat(fifty("long"), 4)})
	if !errors.Is(err, session.ErrContextLength) {
		t.Errorf("one message that is too long by itself: %v", err)
	}
}

func TestSendMessage_runningExecutionIsSentWhole(t *testing.T) {
	shout := toolFunc{spec: tool.Spec{Name: "shout"}, call: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: fifty("loud")}, nil
	}}
	model := scripted.New(scripted.Reply{Text: "ok"}, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "shout")}}, scripted.Reply{Text: "done"})
	h := open(t, func(c *holdfast.Config) {
		c.Models, c.Tools = llm.Map{"demo": narrow{model, 150}}, toolSet(t, shout)
	})
	limit := 100
	def := agentDef
	def.SystemPrompt, def.Memory = "", &session.MemoryPolicy{Strategy: session.PruneSliding, Limit: &limit}
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	h.do(s.ID(), holdfast.SendMessage{Text: fifty("early")})
	got := h.do(s.ID(), holdfast.SendMessage{Text: fifty("late")})
	requests := model.Requests()
	last := requests[len(requests)-1].Messages
	if len(last) != 3 || !strings.HasPrefix(last[0].Content.Text(), "late") || got.Reply() != "done" {
		t.Errorf("%d messages from %.10q on, reply %q", len(last), last[0].Content.Text(), got.Reply())
	}
}

// A provider that does not say what it used cannot make a budget void.
func TestBudget_countsWhatAProviderDoesNotTell(t *testing.T) {
	h := open(t, func(c *holdfast.Config) {
		script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "look")}}) // for ever
		c.Tools = toolSet(t, tool.Fake("look", "", strings.Repeat("word ", 100)))
	})
	tokens := int64(1000)
	def := agentDef
	def.Budget = &session.Budget{MaxTokens: &tokens}
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "look around"})
	if err != nil {
		t.Fatal(err)
	}
	e := got.Execution()
	if e.Stop == nil || e.Stop.Reason != session.StopTokens || e.Usage.Input < 900 || e.Usage.Output < 1 {
		t.Errorf("stopped by %+v after %+v", e.Stop, e.Usage)
	}
}

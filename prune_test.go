package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/tool"
)

// onStores runs a test on each store that loads no more than the window.
func onStores(t *testing.T, test func(t *testing.T, st store.Store)) {
	t.Helper()
	t.Run("inmem", func(t *testing.T) {
		t.Parallel()
		test(t, inmem.New(inmem.Config{}))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
		if err != nil {
			t.Fatal(err)
		}
		test(t, st)
	})
}

// remembering is an agent with a memory policy.
func remembering(strategy session.Strategy, limit int) session.Definition {
	def := agentDef
	def.Memory = &session.MemoryPolicy{Strategy: strategy, Limit: &limit}
	return def
}

// started is a session of a definition.
func (h *house) started(def session.Definition) session.Session {
	h.t.Helper()
	s, err := h.Create(h.t.Context(), def)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// wordy is a model that counts one token for each word, or with no name for its
// counter cannot count.
type wordy struct {
	*scripted.Model
	name string
}

func (c wordy) CountTokens(m session.Message) (int, string) {
	if c.name == "" {
		return 1 << 20, "" // not a count
	}
	n := len(strings.Fields(m.Content.Text()))
	if m.ToolResult != nil {
		n += len(strings.Fields(m.ToolResult.Content))
	}
	return n, c.name
}

func shownTexts(s session.Session) []string {
	var all []string
	for _, m := range s.WindowMessages() {
		all = append(all, m.Content.Text())
	}
	return all
}

func TestTokenBuffer_countsAsTheModelDoes(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		h := open(t, func(c *holdfast.Config) {
			c.Store, c.Models = st, llm.Map{"demo": wordy{scripted.New(scripted.Reply{Text: "ok"}), "words/1"}}
		})
		s := h.started(remembering(session.PruneTokens, 6))
		h.do(s.ID(), holdfast.SendMessage{Text: "one two three four"})
		got := h.do(s.ID(), holdfast.SendMessage{Text: "antidisestablishmentarianism five"}) // 2 tokens, by bytes many more
		if want := []string{"ok", "antidisestablishmentarianism five", "ok"}; !slices.Equal(shownTexts(got), want) {
			t.Errorf("shown %q, want %q", shownTexts(got), want)
		}
		got = h.do(s.ID(), holdfast.SendMessage{Text: "a b c d e f g"}) // with its answer more than the limit
		if want := []string{"ok"}; !slices.Equal(shownTexts(got), want) {
			t.Errorf("shown %q, want %q", shownTexts(got), want)
		}
	})
}

func TestTokenBuffer_modelThatCannotCountIsEstimated(t *testing.T) {
	h := open(t, func(c *holdfast.Config) {
		c.Models = llm.Map{"demo": wordy{scripted.New(scripted.Reply{Text: "ok"}), ""}}
	})
	got := h.do(h.started(remembering(session.PruneTokens, 100)).ID(), holdfast.SendMessage{Text: "hi"})
	if got.Window().FromSeq != 0 || len(got.WindowMessages()) != 2 {
		t.Errorf("the window moved to %+v", got.Window())
	}
}

// A system message stays in sight when its group leaves, so that its tokens
// are spent wherever the window begins.
func TestTokenBuffer_messagesThatStayAreCounted(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		h := open(t, func(c *holdfast.Config) {
			c.Store, c.Models = st, llm.Map{"demo": wordy{scripted.New(), "words/1"}}
		})
		s := h.create(holdfast.WithSeed(session.Seed{Messages: []session.Message{
			{Role: session.RoleSystem, Content: session.Text("three words here")},
			{Role: session.RoleUser, Content: session.Text("a b")},
			{Role: session.RoleDeveloper, Content: session.Text("two more")},
			{Role: session.RoleAssistant, Content: session.Text("c d")},
			{Role: session.RoleUser, Content: session.Text("e f")},
		}}))
		for _, c := range []struct {
			limit int
			want  []string
		}{
			{11, []string{"three words here", "a b", "two more", "c d", "e f"}},
			{10, []string{"three words here", "two more", "c d", "e f"}},
			{8, []string{"three words here", "two more", "e f"}},
			{6, []string{"three words here", "two more"}}, // too much by itself, and no room for anything else
		} {
			got := h.do(s.ID(), holdfast.PruneSession{Strategy: session.PruneTokens, Limit: c.limit})
			if !slices.Equal(shownTexts(got), c.want) {
				t.Errorf("%d tokens show %q, want %q", c.limit, shownTexts(got), c.want)
			}
		}
		if whole, err := h.Get(t.Context(), s.ID(), holdfast.Whole()); err != nil || whole.Len() != 5 {
			t.Errorf("%d messages are left, %v", whole.Len(), err)
		}
	})
}

// What the model is sent after any prune by any limit is what it accepts, and
// calls stand with their results.
func TestPrune_neverPartsCallsFromResults(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		look := toolFunc{spec: tool.Spec{Name: "look"}, call: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Content: "seen it"}, nil
		}}
		var replies []scripted.Reply
		for i := range 40 {
			replies = append(replies,
				scripted.Reply{Text: "looking", ToolCalls: []session.ToolCall{callOf(fmt.Sprint("a", i), "look"), callOf(fmt.Sprint("b", i), "look")}},
				scripted.Reply{ToolCalls: []session.ToolCall{callOf("again", "look")}}, // the same id every time
				scripted.Reply{Text: "done"})
		}
		model := scripted.New(replies...)
		h := open(t, func(c *holdfast.Config) {
			c.Store, c.Models, c.Tools = st, llm.Map{"demo": wordy{model, "words/1"}}, toolSet(t, look)
		})
		for _, strategy := range []session.Strategy{session.PruneSliding, session.PruneTokens} {
			for limit := range 8 {
				s := h.started(agentDef)
				h.do(s.ID(), holdfast.SendMessage{Text: "first"})
				h.do(s.ID(), holdfast.SendMessage{Text: "second"})
				pruned := h.do(s.ID(), holdfast.PruneSession{Strategy: strategy, Limit: limit})
				messages := pruned.WindowMessages()
				for _, g := range session.Groups(messages) {
					if g.Open || messages[g.From].ToolResult != nil {
						t.Errorf("%s to %d: a group of %+v", strategy, limit, messages[g.From])
					}
				}
				before := len(model.Requests())
				h.do(s.ID(), holdfast.SendMessage{Text: "third"})
				for _, r := range model.Requests()[before:] {
					if err := session.ValidTranscript(r.Messages); err != nil {
						t.Errorf("%s to %d: %v", strategy, limit, err)
					}
				}
			}
		}
	})
}

// A turn that was broken off is continued with all it said, whatever was
// pruned meanwhile.
func TestPruneSession_leavesAnOpenExecutionWhole(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		var h *house
		look := toolFunc{spec: tool.Spec{Name: "look", Nature: tool.ReadOnly}, call: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Content: "seen"}, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		var last llm.Request
		h = open(t, func(c *holdfast.Config) {
			c.Store, c.Tools = st, toolSet(t, look)
			c.Models = llm.Map{"demo": modelFunc(func(ctx context.Context, r llm.Request) (llm.Response, error) {
				asked++
				last = r
				switch asked {
				case 2:
					return llm.Response{ToolCalls: []session.ToolCall{callOf("1", "look")}}, nil
				case 3:
					cancel()
					return llm.Response{}, ctx.Err()
				}
				return llm.Response{Content: session.Text("ok")}, nil
			})}
		})
		s := h.create()
		h.do(s.ID(), holdfast.SendMessage{Text: "early"})
		if _, err := h.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "look at it"}); !errors.Is(err, session.ErrInterrupted) {
			t.Fatalf("not interrupted: %v", err)
		}
		pruned := h.do(s.ID(), holdfast.PruneSession{Strategy: session.PruneSliding, Limit: 0})
		if !slices.Equal(shownTexts(pruned), []string{"look at it", "", ""}) {
			t.Errorf("shown %q", shownTexts(pruned))
		}
		h.do(s.ID(), holdfast.ContinueExecution{})
		if len(last.Messages) != 3 || last.Messages[0].Content.Text() != "look at it" || last.Messages[2].ToolResult == nil {
			t.Errorf("continued with %+v", last.Messages)
		}
	})
}

// The table of limits, in a direct call.
func TestPruneSession_limits(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		h, _ := openConcepts(t, func(c *holdfast.Config) {
			c.Store, c.Models = st, llm.Map{"demo": scripted.New(scripted.Reply{Text: "ok"}), "short": scripted.New(scripted.Reply{Text: "In short."})}
		})
		def := agentDef
		limit := 1000
		def.Memory = &session.MemoryPolicy{Strategy: session.PruneSummary, Limit: &limit, SummaryPrompt: "Sum up.", SummaryModel: "short"}
		for _, strategy := range session.Strategies() {
			for limit, keepsAll := range map[int]bool{-1: false, 0: false, 1_000_000: true} {
				s := h.started(def)
				empty := h.do(s.ID(), holdfast.PruneSession{Strategy: strategy, Limit: limit})
				if empty.Window().FromSeq != 0 || empty.Window().Summary != nil {
					t.Errorf("%s to %d moves the window of nothing: %+v", strategy, limit, empty.Window())
				}
				before := h.do(s.ID(), holdfast.SendMessage{Text: "hello"})
				got := h.do(s.ID(), holdfast.PruneSession{Strategy: strategy, Limit: limit})
				want := 0
				if keepsAll || strategy == session.PruneAll {
					want = 2
				}
				if n := len(got.WindowMessages()); n != want {
					t.Errorf("%s to %d shows %d messages, want %d", strategy, limit, n, want)
				}
				if moved := want == 0; moved != got.State().UpdatedAt.After(before.State().UpdatedAt) || (strategy == session.PruneSummary && moved) != (got.Window().Summary != nil) {
					t.Errorf("%s to %d: updated at %v after %v, %+v", strategy, limit, got.State().UpdatedAt, before.State().UpdatedAt, got.Window())
				}
			}
		}
		s := h.create()
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.PruneSession{Strategy: "Sliding_Window", Limit: 1}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("a strategy in another spelling: %v", err)
		}
		h.unchanged(s)
	})
}

// Hooks before the save see the pruned session; the prune is part of the
// turn's version and told.
func TestPrune_isPartOfTheTurn(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		var seen []int
		h := open(t, func(c *holdfast.Config) {
			c.Store = st
			c.Hooks = holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
				if stage == session.AfterAction || stage == session.BeforeSave {
					seen = append(seen, len(s.WindowMessages()))
				}
				return s, nil
			})
		})
		s := h.started(remembering(session.PruneSliding, 2))
		h.do(s.ID(), holdfast.SendMessage{Text: "one"})
		seen = nil
		h.heard.forget()
		got := h.do(s.ID(), holdfast.SendMessage{Text: "two"})
		if !slices.Equal(seen, []int{4, 2}) || got.Version() != 3 {
			t.Errorf("hooks saw %v, version %d", seen, got.Version())
		}
		wantEvents(t, h, "SessionLoaded", "MemoryPruned", "SessionActionExecuted", "SessionSaved")
		for _, e := range h.heard.all() {
			if pruned, ok := e.(holdfast.MemoryPruned); ok && (pruned.Groups != 2 || pruned.Strategy != session.PruneSliding || pruned.To != got.Window().FromSeq || pruned.Tokens == 0) {
				t.Errorf("%+v", pruned)
			}
		}
		// Nothing is pruned by what adds no message, and by nobody without a policy.
		h.heard.forget()
		h.do(s.ID(), holdfast.WidenWindow{})
		h.do(s.ID(), holdfast.WriteMetadata{Key: "k", Value: 1})
		if got := h.stored(s.ID()); len(got.WindowMessages()) != 4 || slices.Contains(h.heard.kinds(), "MemoryPruned") {
			t.Errorf("%d messages shown", len(got.WindowMessages()))
		}
		fork, err := h.Fork(t.Context(), s.ID(), holdfast.At(3))
		if err != nil || len(fork.WindowMessages()) != 2 {
			t.Errorf("the fork shows %d messages, %v", len(fork.WindowMessages()), err)
		}
		if cleared := h.do(s.ID(), holdfast.ClearSession{}); len(cleared.WindowMessages()) != 0 {
			t.Error("a cleared session shows something")
		}
	})
}

func TestWidenWindow_undoesAPruneToTheGroup(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		look := toolFunc{spec: tool.Spec{Name: "look"}, call: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Content: "seen"}, nil
		}}
		h := open(t, func(c *holdfast.Config) {
			c.Store, c.Tools = st, toolSet(t, look)
			script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "look")}}, scripted.Reply{Text: "done"})
		})
		s := h.create()
		whole := h.do(s.ID(), holdfast.SendMessage{Text: "look"}) // user, call, result, answer
		result := whole.Message(2).Seq
		h.do(s.ID(), holdfast.PruneSession{Strategy: session.PruneSliding, Limit: 0})
		got := h.do(s.ID(), holdfast.WidenWindow{FromSeq: result})
		if got.Window().FromSeq != whole.Message(1).Seq || len(got.WindowMessages()) != 3 {
			t.Errorf("from %d with %d messages: a result without its call", got.Window().FromSeq, len(got.WindowMessages()))
		}
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.WidenWindow{FromSeq: result + 100}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("widening that narrows: %v", err)
		}
		if got := h.do(s.ID(), holdfast.WidenWindow{}); len(got.WindowMessages()) != 4 {
			t.Errorf("%d messages", len(got.WindowMessages()))
		}
	})
}

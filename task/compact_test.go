package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// narrow is a model with a small context, in which each message is as long as
// its text says.
type narrow struct {
	*scripted.Model
	room int
}

func (n narrow) ContextLength() int { return n.room }
func (n narrow) CountTokens(m session.Message) (int, string) {
	size := 0
	text := m.Content.Text()
	if m.ToolResult != nil {
		text = m.ToolResult.Content
	}
	if _, err := fmt.Sscanf(text, "%d tokens", &size); err != nil {
		return 1, "test"
	}
	return size, "test"
}

// talk fills a task with exchanges: a call about a file and its result, of so
// many tokens.
func (s *site) talk(id string, n, size int) {
	s.t.Helper()
	var changes []session.Change
	for i := range n {
		call := callOf(fmt.Sprintf("old%d", i), "file_read", fmt.Sprintf(`{"path":"f%d.go"}`, i))
		changes = append(changes,
			session.MessageAdded{Message: session.Message{ID: fmt.Sprintf("a%d", i), Role: session.RoleAssistant, StepID: "old", ToolCalls: []session.ToolCall{call}}},
			session.MessageAdded{Message: session.Message{ID: fmt.Sprintf("b%d", i), Role: session.RoleTool, StepID: "old", ToolResult: &session.ToolResult{
				CallID: call.ID, ToolName: call.Name, Content: fmt.Sprintf("%d tokens of f%d.go", size, i),
			}}})
	}
	s.write(id, changes...)
}

func (s *site) step(id string) (task.Outcome, error) {
	s.t.Helper()
	var out task.Outcome
	var err error
	s.with(id, func(r *task.Run) {
		out, err = r.RunStep(context.Background(), task.StepInput{StepID: "s1"})
	})
	return out, err
}

// A window that is nearly full is emptied before the model is asked, and what
// leaves is summarised. The log keeps all of it.
func TestCompaction_beforeATurn(t *testing.T) {
	t.Parallel()
	model := scripted.New(scripted.Reply{Text: "400 tokens of summary"}, reply("it is done"))
	s := newSite(t, task.Config{}, narrow{model, 10_000})
	id := s.working(oneStep())
	s.talk(id, 9, 900) // 8100 and some: not 85 %
	if out, err := s.step(id); err != nil || out.StopReason != task.StopCompleted || len(model.Requests()) != 1 {
		t.Fatalf("%s, %v after %d requests", out.StopReason, err, len(model.Requests()))
	}
	if n := s.state(id).Loop.Compactions; n != 0 {
		t.Fatalf("compacted %d times at 81 %%", n)
	}

	model = scripted.New(scripted.Reply{Text: "400 tokens of summary"}, reply("it is done"))
	s = newSite(t, task.Config{}, narrow{model, 10_000})
	id = s.working(oneStep())
	s.talk(id, 10, 900)
	whole := len(s.messages(id))
	if out, err := s.step(id); err != nil || out.StopReason != task.StopCompleted {
		t.Fatal(out.StopReason, err)
	}
	state := s.state(id)
	l := state.Loop
	if l.Compactions != 1 || l.TokensBefore < 9000 || l.TokensAfter > 7400 || l.CompactedAt == 0 {
		t.Errorf("compacted %d times, from %d to %d tokens", l.Compactions, l.TokensBefore, l.TokensAfter)
	}
	now, err := s.rt.Get(t.Context(), id, holdfast.WithTail())
	if err != nil {
		t.Fatal(err)
	}
	if b := now.Window().Summary; b == nil || b.Text != "400 tokens of summary" || b.ToSeq <= b.FromSeq || b.CreatedAt.IsZero() {
		t.Errorf("the summary is %+v", b)
	}
	if got := len(s.messages(id)); got != whole+1 {
		t.Errorf("the log has %d messages, want %d", got, whole+1)
	}
	asked := model.Requests()[1]
	if err := session.ValidTranscript(asked.Messages); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(asked.Messages[0].Content.Text(), "Summary of the conversation so far:") || asked.Messages[1].Content.Text() != "do it" {
		t.Errorf("the request begins with %q, %q", asked.Messages[0].Content.Text(), asked.Messages[1].Content.Text())
	}
	if most := *model.Requests()[0].Params.MaxOutputTokens; most < 800 || most > 4000 {
		t.Errorf("the summary may have %d tokens", most)
	}
	if l.LifetimeTurns != 2 {
		t.Errorf("%d turns are counted, want the summary's too", l.LifetimeTurns)
	}
}

// What speaks of files in use stays, though newer things leave.
func TestCompaction_keepsWhatNamesFilesInUse(t *testing.T) {
	t.Parallel()
	model := scripted.New(scripted.Reply{Text: "10 tokens of summary"}, reply("it is done"))
	s := newSite(t, task.Config{}, narrow{model, 10_000})
	id := s.working(oneStep())
	s.talk(id, 12, 800)
	again := callOf("now", "file_read", `{"path":"f1.go"}`)
	s.write(id,
		session.MessageAdded{Message: session.Message{ID: "x", Role: session.RoleAssistant, StepID: "old", ToolCalls: []session.ToolCall{again}}},
		session.MessageAdded{Message: session.Message{ID: "y", Role: session.RoleTool, StepID: "old", ToolResult: &session.ToolResult{CallID: "now", ToolName: "file_read", Content: "again"}}})
	if _, err := s.step(id); err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, m := range model.Requests()[1].Messages {
		for _, c := range m.ToolCalls {
			shown = append(shown, c.ID)
		}
	}
	if !slices.Contains(shown, "old1") || slices.Contains(shown, "old2") || !slices.Contains(shown, "now") {
		t.Errorf("shown are %v; want old1, which names the file in use, and not old2", shown)
	}
}

// A summary that cannot be had leaves the window as it was, and the task goes
// on.
func TestCompaction_failureChangesNothing(t *testing.T) {
	t.Parallel()
	calls := 0
	model := modelFunc(func(_ context.Context, r llm.Request) (llm.Response, error) {
		if calls++; len(r.Tools) == 0 {
			return llm.Response{}, errors.New("no summary today")
		}
		return llm.Response{Content: session.Text("it is done")}, nil
	})
	s := newSite(t, task.Config{}, sized{model, 10_000})
	id := s.working(oneStep())
	s.talk(id, 10, 900)
	if out, err := s.step(id); err != nil || out.StopReason != task.StopCompleted || calls != 2 {
		t.Fatalf("%s, %v after %d calls", out.StopReason, err, calls)
	}
	if l := s.state(id).Loop; l.Compactions != 0 {
		t.Error("a failure counts as a compaction")
	}
	if len(s.events(id, "window_moved")) != 0 {
		t.Error("the window was moved")
	}
}

type sized struct {
	modelFunc
	room int
}

func (n sized) ContextLength() int { return n.room }
func (n sized) CountTokens(m session.Message) (int, string) {
	return narrow{}.CountTokens(m)
}

func TestCompaction_beforeAContinuation(t *testing.T) {
	t.Parallel()
	idle := func(s *site, id string) {
		var changes []session.Change
		for i := range 6 {
			call := callOf(fmt.Sprintf("i%d", i), "look", `{}`)
			changes = append(changes,
				session.MessageAdded{Message: session.Message{ID: call.ID + "a", Role: session.RoleAssistant, StepID: "old", ToolCalls: []session.ToolCall{call}}},
				session.MessageAdded{Message: session.Message{ID: call.ID + "b", Role: session.RoleTool, StepID: "old", ToolResult: &session.ToolResult{CallID: call.ID, ToolName: "look", Content: "100 tokens"}}})
		}
		s.write(id, changes...)
	}
	for name, c := range map[string]struct {
		fill   func(s *site, id string)
		fails  bool
		off    bool
		ratio  float64
		events []string
	}{
		"rather full":        {fill: func(s *site, id string) { s.talk(id, 5, 1600) }, events: []string{"started", "completed"}},
		"not so full":        {fill: func(s *site, id string) { s.talk(id, 5, 1400) }},
		"a ratio of its own": {fill: func(s *site, id string) { s.talk(id, 5, 1400) }, ratio: 0.6, events: []string{"started", "completed"}},
		"in circles":         {fill: idle, events: []string{"started", "completed"}},
		"switched off":       {fill: idle, off: true},
		"no summary":         {fill: func(s *site, id string) { s.talk(id, 5, 1600) }, fails: true, events: []string{"started", "failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := modelFunc(func(_ context.Context, r llm.Request) (llm.Response, error) {
				if len(r.Tools) == 0 && c.fails {
					return llm.Response{}, errors.New("no summary today")
				}
				return llm.Response{Content: session.Text("10 tokens")}, nil
			})
			s := newSite(t, task.Config{}, sized{model, 10_000})
			sp := spec()
			sp.Budget = &task.Budget{CompactionRatio: c.ratio, Compaction: ptr(!c.off)}
			sp.Plan.Steps[0].Status = "completed"
			id := s.working(sp)
			c.fill(s, id)
			s.with(id, func(r *task.Run) {
				if err := r.Continue(context.Background(), task.ContinueManual, task.ContinueOptions{}); err != nil {
					t.Fatal(err)
				}
			})
			var got []string
			for _, e := range s.events(id, "context_compaction_started", "context_compaction_completed", "context_compaction_failed") {
				got = append(got, strings.TrimPrefix(e.Kind, "context_compaction_"))
				if e.Data["tokensBefore"].(float64) == 0 || e.Data["continuationWindow"] != 1.0 {
					t.Errorf("%v", e.Data)
				}
			}
			if !slices.Equal(got, c.events) {
				t.Errorf("events %v, want %v", got, c.events)
			}
			if n, want := s.state(id).Loop.Compactions, map[bool]int{true: 1}[slices.Contains(c.events, "completed")]; n != want {
				t.Errorf("%d compactions are counted, want %d", n, want)
			}
		})
	}
}

// A provider that finds a request too large is met twice in a step, and not a
// third time.
func TestCompaction_providerFindsItTooLarge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		refusals int
		want     task.StopReason
	}{{1, task.StopCompleted}, {2, task.StopCompleted}, {3, task.StopContext}} {
		refused := 0
		model := modelFunc(func(_ context.Context, r llm.Request) (llm.Response, error) {
			if len(r.Tools) > 0 && refused < c.refusals {
				refused++
				return llm.Response{}, &llm.ProviderError{Provider: "test", Status: 400, Code: "context_length_exceeded", Message: "too long"}
			}
			return llm.Response{Content: session.Text("10 tokens done")}, nil
		})
		s := newSite(t, task.Config{}, model) // which does not know how much it takes
		id := s.working(oneStep())
		s.talk(id, 150, 100)
		out, err := s.step(id)
		if out.StopReason != c.want || (err == nil) != (c.want == task.StopCompleted) {
			t.Fatalf("after %d refusals: %s, %v; want %s", c.refusals, out.StopReason, err, c.want)
		}
		started, done := s.events(id, "context_capacity_recovery_started"), s.events(id, "context_capacity_recovery_completed")
		if n := min(c.refusals, 2); len(started) != n || len(done) != n || s.state(id).Loop.Compactions != n {
			t.Errorf("after %d refusals: %d started, %d completed", c.refusals, len(started), len(done))
		}
		if failed := s.events(id, "context_capacity_recovery_failed"); (len(failed) == 1) != (c.refusals == 3) {
			t.Errorf("after %d refusals: %d failed", c.refusals, len(failed))
		}
		d := done[0].Data
		if d["attempt"] != 1.0 || d["maxAttempts"] != 2.0 || d["phase"] != "step" || d["stepId"] != "s1" || d["tokensAfter"].(float64) >= d["tokensBefore"].(float64)/2 {
			t.Errorf("%v", d)
		}
		if said, _ := d["providerError"].(string); !strings.Contains(said, "too long") {
			t.Errorf("what the provider said is not told: %v", d)
		}
	}
}

package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// rig is a loop whose journal lives in memory and may break.
type rig struct {
	t       *testing.T
	now     time.Time
	ids     int
	log     []session.Record // what is durable
	writes  int
	breakAt int // the write that fails, 0 for none
	tools   tool.Set
	config  agent.Config
	mu      sync.Mutex // guards inbox where a test adds to it from outside
	inbox   []agent.Incoming
	taken   []string
	notices []agent.NoticeKind
	memory  *session.MemoryPolicy // of the definition
}

var errCrash = errors.New("crash")

func newRig(t *testing.T, model llm.Model, tools ...tool.Tool) *rig {
	t.Helper()
	r := &rig{t: t, now: start}
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	r.tools = set
	r.config = agent.Config{
		Journal: r, Inbox: r, Now: func() time.Time { return r.now },
		NewID:   func() string { r.ids++; return fmt.Sprintf("id-%d", r.ids) },
		Model:   func(session.Session) (string, llm.Model, error) { return "demo", model, nil },
		Tools:   func(context.Context, session.Session) (tool.Set, error) { return r.tools, nil },
		Backoff: func(int) time.Duration { return time.Nanosecond },
		Notify:  func(n agent.Notice) { r.notices = append(r.notices, n.Kind) },
	}
	return r
}

// Append keeps what is pending, unless this is the write that breaks.
func (r *rig) Append(ctx context.Context, s session.Session) (session.Session, error) {
	r.writes++
	if err := ctx.Err(); err != nil {
		return s, err
	}
	if r.writes == r.breakAt {
		return s, errCrash
	}
	for _, record := range session.Unsaved(s) {
		raw, err := json.Marshal(record)
		if err != nil {
			r.t.Fatal(err)
		}
		var kept session.Record
		if err := json.Unmarshal(raw, &kept); err != nil {
			r.t.Fatal(err)
		}
		if took, ok := kept.Change.(session.InboxTaken); ok {
			r.taken = append(r.taken, took.ItemID)
			r.mu.Lock()
			r.inbox = slices.DeleteFunc(r.inbox, func(i agent.Incoming) bool { return i.ID == took.ItemID })
			r.mu.Unlock()
		}
		r.log = append(r.log, kept)
	}
	return session.Flush(s), nil
}

func (r *rig) Waiting(context.Context) ([]agent.Incoming, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.inbox), nil
}

// begin is a session with an execution just started.
func (r *rig) begin(budget *session.Budget) session.Session {
	r.t.Helper()
	s, err := session.New(session.Identity{ID: "s", AgentID: "a"}, session.Definition{Name: "tester", Memory: r.memory}, session.Seed{}, r.now)
	if err == nil {
		s, err = s.With(r.now,
			session.MessageAdded{Message: session.Message{ID: "m", Role: session.RoleUser, Content: session.Text("go"), ExecutionID: "e"}},
			session.ExecutionStarted{ExecutionID: "e", Budget: budget})
	}
	if err == nil {
		s, err = r.Append(r.t.Context(), s)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// reload is the session as the journal has it.
func (r *rig) reload() session.Session {
	r.t.Helper()
	s, err := session.Fold(r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) run(s session.Session) session.Session {
	r.t.Helper()
	s, err := (agent.Loop{}).Run(r.t.Context(), r.config, s)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func call(id, name string) session.ToolCall { return session.ToolCall{ID: id, Name: name} }

// counter is a tool that counts its runs by call.
type counter struct {
	name   string
	nature tool.Nature
	runs   map[string]int
	do     func(ctx context.Context) (tool.Result, error)
}

func (c *counter) Spec() tool.Spec { return tool.Spec{Name: c.name, Nature: c.nature} }

func (c *counter) Call(ctx context.Context, k tool.Call) (tool.Result, error) {
	if c.runs == nil {
		c.runs = map[string]int{}
	}
	c.runs[k.ID]++
	if c.do != nil {
		return c.do(ctx)
	}
	return tool.Result{Content: "result of " + k.ID}, nil
}

func TestRun_toolsThenAnswer(t *testing.T) {
	work := &counter{name: "work"}
	model := scripted.New(
		scripted.Reply{Text: "let me see", ToolCalls: []session.ToolCall{call("a", "work"), call("b", "work")}, Usage: session.Usage{Input: 10, Output: 5}},
		scripted.Reply{Text: "done", Usage: session.Usage{Input: 20, Output: 1}, Cost: session.Dollars(0.5)})
	r := newRig(t, model, work)
	s := r.run(r.begin(nil))
	e := s.Execution()
	if s.Reply() != "done" || e.Status != session.ExecutionCompleted || e.Usage != (session.Usage{Input: 30, Output: 6}) || e.Cost != session.Dollars(0.5) {
		t.Errorf("reply %q, execution %+v", s.Reply(), e)
	}
	if len(e.Steps) != 2 || e.Steps[0].Type != session.StepTools || len(e.Steps[0].ToolExecutions) != 2 || len(e.Steps[0].MessageIDs) != 3 || e.Steps[1].Type != session.StepFinal {
		t.Errorf("steps %+v", e.Steps)
	}
	sent := model.Requests()[1].Messages
	if err := session.ValidTranscript(sent); err != nil || len(sent) != 4 || sent[2].ToolResult.Content != "result of a" {
		t.Errorf("second request %+v, %v", sent, err)
	}
	if !s.Message(1).Trace || s.Message(4).Trace {
		t.Error("trace marks the messages of steps that are no final response")
	}
	want := []agent.NoticeKind{
		agent.StepStarted, agent.ToolStarted, agent.ToolFinished, agent.ToolStarted, agent.ToolFinished, agent.StepFinished,
		agent.StepStarted, agent.StepFinished, agent.ExecutionFinished,
	}
	if !slices.Equal(r.notices, want) {
		t.Errorf("notices %v, want %v", r.notices, want)
	}
}

// A turn of three model calls and four tool calls is broken at every write and
// taken up again: each answer is asked for once, each finished tool runs once,
// and the end is that of an undisturbed run.
func TestRun_brokenAtEveryWriteRepeatsNothing(t *testing.T) {
	build := func() (*rig, *scripted.Model, []*counter) {
		tools := []*counter{{name: "read", nature: tool.ReadOnly}, {name: "write", nature: tool.Idempotent}}
		model := scripted.New(
			scripted.Reply{ToolCalls: []session.ToolCall{call("a", "read"), call("b", "write")}},
			scripted.Reply{ToolCalls: []session.ToolCall{call("c", "write"), call("d", "read")}},
			scripted.Reply{Text: "done"})
		return newRig(t, model, tools[0], tools[1]), model, tools
	}
	calm, _, _ := build()
	whole := calm.run(calm.begin(nil))
	writes := calm.writes
	for n := 2; n <= writes; n++ {
		r, model, tools := build()
		s := r.begin(nil)
		r.breakAt = n
		if _, err := (agent.Loop{}).Run(t.Context(), r.config, s); !errors.Is(err, errCrash) {
			t.Fatalf("write %d: %v", n, err)
		}
		answered := 0
		for _, record := range r.log {
			if _, ok := record.Change.(session.InferenceAnswered); ok {
				answered++
			}
		}
		asked := len(model.Requests())
		finished := map[string]bool{}
		for _, m := range r.reload().Messages() {
			if m.ToolResult != nil {
				finished[m.ToolResult.CallID] = true
			}
		}
		before := map[string]int{}
		for _, c := range tools {
			for id, runs := range c.runs {
				before[id] = runs
			}
		}
		again := r.run(r.reload())
		if got, want := len(model.Requests())-asked, 3-answered; got != want {
			t.Errorf("broken at write %d: %d model calls after, want %d", n, got, want)
		}
		for _, c := range tools {
			for id, runs := range c.runs {
				if finished[id] && runs != before[id] {
					t.Errorf("broken at write %d: tool call %s was finished and ran again", n, id)
				}
			}
		}
		if got, want := transcript(again), transcript(whole); !slices.Equal(got, want) {
			t.Errorf("broken at write %d:\n got %v\nwant %v", n, got, want)
		}
		if again.Execution().Status != session.ExecutionCompleted || len(again.Execution().Steps) != 3 {
			t.Errorf("broken at write %d: execution %+v", n, again.Execution())
		}
	}
	if writes != 1+3+4 {
		t.Errorf("%d writes: want one for the start and one for each answer and each tool", writes)
	}
}

// transcript is what was said, without ids and times.
func transcript(s session.Session) []string {
	var lines []string
	for _, m := range s.Messages() {
		line := string(m.Role) + ":" + m.Content.Text()
		for _, c := range m.ToolCalls {
			line += " call " + c.ID
		}
		if m.ToolResult != nil {
			line += fmt.Sprintf(" %s=%s", m.ToolResult.CallID, m.ToolResult.Content)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestRun_callIDsAreMadeDistinct(t *testing.T) {
	work := &counter{name: "work"}
	r := newRig(t, scripted.New(
		scripted.Reply{ToolCalls: []session.ToolCall{call("", "work"), call("x", "work"), call("x", "work")}}, scripted.Reply{Text: "done"}), work)
	s := r.run(r.begin(nil))
	if len(work.runs) != 3 {
		t.Errorf("runs %v, want three calls of their own", work.runs)
	}
	if err := session.ValidTranscript(s.Messages()); err != nil {
		t.Error(err)
	}
}

func TestRun_followUpsEnterBetweenSteps(t *testing.T) {
	model := scripted.New(scripted.Reply{ToolCalls: []session.ToolCall{call("a", "work")}}, scripted.Reply{Text: "one"}, scripted.Reply{Text: "two"})
	work := &counter{name: "work"}
	r := newRig(t, model, work)
	work.do = func(context.Context) (tool.Result, error) {
		for _, id := range []string{"f1", "f2"} {
			m := session.Message{ID: id, Role: session.RoleUser, Content: session.Text(id)}
			r.inbox = append(r.inbox, agent.Incoming{ID: id, Kind: "follow_up", Message: &m})
		}
		return tool.Result{Content: "ok"}, nil
	}
	s := r.run(r.begin(nil))
	want := []string{"user:go", "assistant: call a", "tool: a=ok", "user:f1", "user:f2", "assistant:one"}
	if got := transcript(s); !slices.Equal(got, want) {
		t.Errorf("transcript %v, want %v", got, want)
	}
	if !slices.Equal(r.taken, []string{"f1", "f2"}) {
		t.Errorf("taken %v", r.taken)
	}
}

func TestRun_cancelStopsAtTheNextSafePoint(t *testing.T) {
	work := &counter{name: "work"}
	r := newRig(t, scripted.New(scripted.Reply{ToolCalls: []session.ToolCall{call("a", "work")}}), work)
	work.do = func(context.Context) (tool.Result, error) {
		r.inbox = append(r.inbox,
			agent.Incoming{ID: "old", Kind: "cancel", Cancel: true, ExecutionID: "another"},
			agent.Incoming{ID: "stop", Kind: "cancel", Cancel: true, ExecutionID: "e"})
		return tool.Result{Content: "ok"}, nil
	}
	s, err := r.Append(t.Context(), r.run(r.begin(nil))) // what a save does
	if err != nil {
		t.Fatal(err)
	}
	if e := s.Execution(); e.Status != session.ExecutionStopped || e.Stop.Reason != session.StopUserRequested || len(e.Steps) != 1 {
		t.Errorf("execution %+v", e)
	}
	if s.Message(2).ToolResult.Content != "ok" || len(r.inbox) != 0 {
		t.Errorf("the tool's result is lost, or the inbox still holds %v", r.inbox)
	}
}

func TestRun_retriesTransientErrorsOnly(t *testing.T) {
	passing := &llm.TransientError{Err: errors.New("busy")}
	final := errors.New("no such model")
	for name, row := range map[string]struct {
		attempts []scripted.Reply
		asked    int
		reason   session.StopReason
		reply    string
	}{
		"passes":      {[]scripted.Reply{{Err: passing}, {Err: passing}, {Text: "ok"}}, 3, session.StopCompleted, "ok"},
		"never":       {[]scripted.Reply{{Err: passing}}, 3, session.StopRetries, ""},
		"final error": {[]scripted.Reply{{Err: final}, {Text: "ok"}}, 1, session.StopError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			model := scripted.New(scripted.Reply{Attempts: row.attempts})
			r := newRig(t, model)
			r.config.Retries = 2
			s, err := (agent.Loop{}).Run(t.Context(), r.config, r.begin(nil))
			e := s.Execution()
			if len(model.Requests()) != row.asked || e.Stop.Reason != row.reason || s.Reply() != row.reply {
				t.Errorf("%d attempts, stop %+v, reply %q", len(model.Requests()), e.Stop, s.Reply())
			}
			if s.InferenceCount() != 1 {
				t.Errorf("%d inferences: attempts are not inferences", s.InferenceCount())
			}
			if failed := row.reply == ""; failed != errors.Is(err, session.ErrExecutionFailed) || failed != (e.Status == session.ExecutionFailed) || failed != (len(e.Errors) > 0) {
				t.Errorf("error %v, status %s, errors %v", err, e.Status, e.Errors)
			}
		})
	}
}

func TestRun_budgets(t *testing.T) {
	ptr := func(n int64) *int64 { return &n }
	seconds := func(n float64) *float64 { return &n }
	cost := session.Dollars(0.02)
	later := start.Add(25 * time.Second)
	loops := scripted.Reply{ToolCalls: []session.ToolCall{call("a", "work")}, Usage: session.Usage{Input: 60, Output: 40}, Cost: session.Dollars(0.01)}
	for name, row := range map[string]struct {
		budget session.Budget
		steps  int
		reason session.StopReason
	}{
		"steps":    {session.Budget{MaxSteps: ptr(3)}, 3, session.StopSteps},
		"no steps": {session.Budget{MaxSteps: ptr(0)}, 0, session.StopSteps},
		"tokens":   {session.Budget{MaxTokens: ptr(200)}, 2, session.StopTokens},
		"seconds":  {session.Budget{MaxSeconds: seconds(20)}, 2, session.StopTime},
		"cost":     {session.Budget{MaxCost: &cost}, 2, session.StopCost},
		"deadline": {session.Budget{Deadline: &later}, 3, session.StopDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			work := &counter{name: "work"}
			r := newRig(t, scripted.New(loops), work)
			work.do = func(context.Context) (tool.Result, error) {
				r.now = r.now.Add(10 * time.Second)
				return tool.Result{Content: "ok"}, nil
			}
			s := r.run(r.begin(&row.budget))
			e := s.Execution()
			if e.Status != session.ExecutionStopped || e.Stop.Reason != row.reason || len(e.Steps) != row.steps {
				t.Errorf("%d steps, status %s, stop %+v", len(e.Steps), e.Status, e.Stop)
			}
			if len(e.Stop.Context["used"]) == 0 || len(e.Stop.Context["limit"]) == 0 {
				t.Errorf("the signal does not say what was used: %v", e.Stop.Context)
			}
			if err := session.ValidTranscript(s.Messages()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRun_aBudgetIsNotRefilledByAResume(t *testing.T) {
	work := &counter{name: "work"}
	r := newRig(t, scripted.New(scripted.Reply{ToolCalls: []session.ToolCall{call("a", "work")}}), work)
	r.config.NewID = func() string { r.ids++; return fmt.Sprint("id", r.ids) }
	work.do = func(context.Context) (tool.Result, error) {
		r.now = r.now.Add(8 * time.Second)
		return tool.Result{Content: "ok"}, nil
	}
	limit := 20.0
	s := r.begin(&session.Budget{MaxSeconds: &limit})
	r.breakAt = r.writes + 3 // when the second tool is about to run
	if _, err := (agent.Loop{}).Run(t.Context(), r.config, s); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	r.now = r.now.Add(24 * time.Hour) // the time between is not active time
	s = r.run(r.reload())
	e := s.Execution()
	if e.Stop.Reason != session.StopTime || e.ActiveSeconds < 20 || e.ActiveSeconds > 40 {
		t.Errorf("active for %v s, stop %+v", e.ActiveSeconds, e.Stop)
	}
	if n := len(work.runs); n != 3 { // each call has an id of its own, though the model repeats one
		t.Errorf("%d tools of 8 s in a budget of 20 s", n)
	}
}

func TestRun_timeBoundsARunningTool(t *testing.T) {
	waits := func(ctx context.Context) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}
	limit := 20.0
	synctest.Test(t, func(t *testing.T) { // time passes when everybody waits: the tool has begun then
		work := &counter{name: "work", do: waits}
		r := newRig(t, scripted.New(scripted.Reply{ToolCalls: []session.ToolCall{call("a", "work")}}, scripted.Reply{Text: "late"}), work)
		r.config.Now = time.Now
		s := r.run(r.begin(&session.Budget{MaxSeconds: &limit}))
		if result := s.Message(2).ToolResult; !result.IsError || s.Execution().Stop.Reason != session.StopTime {
			t.Errorf("result %+v, stop %+v", result, s.Execution().Stop)
		}
	})
}

func TestRun_cutOffAnswersAreCompleted(t *testing.T) {
	r := newRig(t, scripted.New(scripted.Reply{Text: "half an ans", FinishReason: "length"}))
	s := r.run(r.begin(nil))
	if e := s.Execution(); e.Status != session.ExecutionCompleted || e.Stop.Reason != session.StopFinishReason {
		t.Errorf("execution %+v", e)
	}
}

func TestRun_endedContextWritesWhatWasPaidFor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	model := modelFunc(func(context.Context, llm.Request) (llm.Response, error) {
		cancel() // the answer arrives all the same
		return llm.Response{Content: session.Text("paid"), FinishReason: "stop"}, nil
	})
	r := newRig(t, model)
	_, err := (agent.Loop{}).Run(ctx, r.config, r.begin(nil))
	if !errors.Is(err, session.ErrInterrupted) {
		t.Fatal(err)
	}
	if s := r.reload(); s.Len() != 2 || s.Message(1).Content.Text() != "paid" {
		t.Errorf("the answer is lost: %v", transcript(s))
	}
}

func TestRun_endedContextKeepsWhatAToolDid(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	work := &counter{name: "work", do: func(context.Context) (tool.Result, error) {
		cancel() // it is done all the same
		return tool.Result{Content: "did it"}, nil
	}}
	r := newRig(t, scripted.New(scripted.Reply{ToolCalls: []session.ToolCall{call("a", "work")}}, scripted.Reply{Text: "done"}), work)
	_, err := (agent.Loop{}).Run(ctx, r.config, r.begin(nil))
	var interrupted *session.InterruptedError
	if !errors.As(err, &interrupted) {
		t.Fatal(err)
	}
	s := r.reload()
	if s.Len() != 3 || s.Message(2).ToolResult.Content != "did it" || interrupted.Seq != s.Seq() {
		t.Errorf("the result is lost: %v, interrupted after %d of %d", transcript(s), interrupted.Seq, s.Seq())
	}
	if again := r.run(s); again.Reply() != "done" || work.runs["a"] != 1 {
		t.Errorf("reply %q after %d runs", again.Reply(), work.runs["a"])
	}
}

type modelFunc func(context.Context, llm.Request) (llm.Response, error)

func (f modelFunc) Infer(ctx context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	return f(ctx, r)
}

func TestRun_panickingModelIsAnError(t *testing.T) {
	r := newRig(t, modelFunc(func(context.Context, llm.Request) (llm.Response, error) { panic("boom") }))
	s, err := (agent.Loop{}).Run(t.Context(), r.config, r.begin(nil))
	if !errors.Is(err, session.ErrPanic) || s.Execution().Status != session.ExecutionFailed {
		t.Errorf("got %v, %+v", err, s.Execution())
	}
}

func TestRun_needsAnOpenExecution(t *testing.T) {
	r := newRig(t, scripted.New())
	s := r.run(r.begin(nil))
	if _, err := (agent.Loop{}).Run(t.Context(), r.config, s); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestSettle_answersEveryCallAndAsksNothing(t *testing.T) {
	work := &counter{name: "work"}
	model := scripted.New(scripted.Reply{ToolCalls: []session.ToolCall{call("a", "work"), call("b", "work")}})
	r := newRig(t, model, work)
	s := r.begin(nil)
	r.breakAt = r.writes + 2 // when the first tool has run and nobody knows
	if _, err := (agent.Loop{}).Run(t.Context(), r.config, s); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	settled, err := (agent.Loop{}).Settle(t.Context(), r.config, r.reload())
	if err != nil || session.ValidTranscript(settled.Messages()) != nil || len(model.Requests()) != 1 {
		t.Errorf("%v, transcript %v, %d model calls", err, transcript(settled), len(model.Requests()))
	}
	if first := settled.Message(2).ToolResult; !first.Synthetic || work.runs["a"] != 1 || work.runs["b"] != 1 {
		t.Errorf("first result %+v, runs %v", first, work.runs)
	}
}

func TestTranscript_beginsWithTheSummary(t *testing.T) {
	r := newRig(t, scripted.New())
	s := r.run(r.begin(nil))
	s, err := s.With(r.now, session.WindowMoved{
		Strategy: session.PruneSummary, To: s.Seq() + 1, Summary: &session.Summary{Text: "we met", FromSeq: 2, ToSeq: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	sent := agent.Transcript(s)
	if len(sent) != 1 || sent[0].Role != session.RoleUser || session.ValidTranscript(sent) != nil {
		t.Errorf("sent %+v", sent)
	}
}

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
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

// funcTool is a tool made of its parts.
type funcTool struct {
	spec tool.Spec
	do   func(ctx context.Context, c tool.Call) (tool.Result, error)
}

func (f funcTool) Spec() tool.Spec { return f.spec }
func (f funcTool) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	return f.do(ctx, c)
}

// asking is a model that asks for calls and then says done.
func asking(calls ...session.ToolCall) *scripted.Model {
	return scripted.New(scripted.Reply{ToolCalls: calls}, scripted.Reply{Text: "done"})
}

// answers are the contents of tool results in the order they were written.
func answers(s session.Session) []string {
	var said []string
	for _, m := range s.Messages() {
		if m.ToolResult != nil {
			said = append(said, m.ToolResult.Content)
		}
	}
	return said
}

func TestRun_callsThatDoNoHarmRunTogether(t *testing.T) {
	for _, spec := range []tool.Spec{{Name: "meet", Nature: tool.ReadOnly}, {Name: "meet", Parallel: true}} {
		var here sync.WaitGroup
		here.Add(3)
		meet := funcTool{spec: spec, do: func(_ context.Context, c tool.Call) (tool.Result, error) {
			here.Done()
			here.Wait() // for all three
			return tool.Result{Content: c.ID}, nil
		}}
		model := asking(call("a", "meet"), call("b", "meet"), call("c", "meet"))
		r := newRig(t, model, meet)
		r.run(r.begin(nil))
		var sent []string
		requests := model.Requests()
		for _, m := range requests[len(requests)-1].Messages {
			if m.ToolResult != nil {
				sent = append(sent, m.ToolResult.Content)
			}
		}
		if !slices.Equal(sent, []string{"a", "b", "c"}) {
			t.Errorf("%+v: sent in the order %v", spec, sent)
		}
	}
}

func TestRun_otherCallsRunOneAfterAnother(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, text)
	}
	change := funcTool{spec: tool.Spec{Name: "change"}, do: func(_ context.Context, c tool.Call) (tool.Result, error) {
		note("begin " + c.ID)
		note("end " + c.ID)
		return tool.Result{}, nil
	}}
	look := funcTool{spec: tool.Spec{Name: "look", Nature: tool.ReadOnly}, do: func(_ context.Context, c tool.Call) (tool.Result, error) {
		note("look " + c.ID)
		return tool.Result{}, nil
	}}
	r := newRig(t, asking(call("1", "change"), call("2", "look"), call("3", "change"), call("4", "change")), change, look)
	r.run(r.begin(nil))
	want := []string{"begin 1", "end 1", "look 2", "begin 3", "end 3", "begin 4", "end 4"}
	if !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestRun_resultsOfCallsThatRunTogetherAreWrittenAsTheyCome(t *testing.T) {
	first := make(chan struct{})
	var r *rig
	tools := []tool.Tool{
		funcTool{spec: tool.Spec{Name: "slow", Nature: tool.ReadOnly}, do: func(context.Context, tool.Call) (tool.Result, error) {
			<-first
			return tool.Result{Content: "slow"}, nil
		}},
		funcTool{spec: tool.Spec{Name: "quick", Nature: tool.ReadOnly}, do: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Content: "quick"}, nil
		}},
	}
	r = newRig(t, asking(call("1", "slow"), call("2", "quick")), tools...)
	s := r.begin(nil)
	journal := r.config.Journal
	r.config.Journal = journalFunc(func(ctx context.Context, s session.Session) (session.Session, error) {
		next, err := journal.Append(ctx, s)
		if len(answers(s)) == 1 {
			close(first) // the quick one is durable
		}
		return next, err
	})
	if got := answers(r.run(s)); !slices.Equal(got, []string{"quick", "slow"}) {
		t.Errorf("written in the order %v", got)
	}
}

type journalFunc func(ctx context.Context, s session.Session) (session.Session, error)

func (f journalFunc) Append(ctx context.Context, s session.Session) (session.Session, error) {
	return f(ctx, s)
}

func TestRun_togetherBrokenAtEveryWriteRepeatsNothingThatIsWritten(t *testing.T) {
	for breakAt := 2; ; breakAt++ {
		var mu sync.Mutex
		runs := map[string]int{}
		pay := funcTool{spec: tool.Spec{Name: "pay", Parallel: true}, do: func(_ context.Context, c tool.Call) (tool.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			runs[c.ID]++
			return tool.Result{Content: "paid " + c.ID}, nil
		}}
		var calls []session.ToolCall
		for i := range 4 {
			calls = append(calls, call(fmt.Sprint(i), "pay"))
		}
		r := newRig(t, asking(calls...), pay)
		r.breakAt = breakAt
		_, err := (agent.Loop{}).Run(t.Context(), r.config, r.begin(nil))
		if err == nil {
			if breakAt < 5 {
				t.Fatalf("only %d writes", breakAt-1)
			}
			return
		}
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		got := r.run(r.reload())
		for id, n := range runs {
			if n != 1 {
				t.Errorf("broken at write %d: call %s ran %d times", breakAt, id, n)
			}
		}
		if len(answers(got)) != len(calls) || got.Reply() != "done" {
			t.Errorf("broken at write %d: %d answers, reply %q", breakAt, len(answers(got)), got.Reply())
		}
	}
}

func TestRun_toolThatDoesNotEndIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		hang := funcTool{spec: tool.Spec{Name: "hang", Timeout: time.Second}, do: func(context.Context, tool.Call) (tool.Result, error) {
			<-free
			return tool.Result{Content: "too late"}, nil
		}}
		r := newRig(t, asking(call("1", "hang")), hang)
		got := answers(r.run(r.begin(nil)))
		if len(got) != 1 || !strings.Contains(got[0], "given up") {
			t.Errorf("answers %q", got)
		}
		close(free)
	})
}

func TestRun_toolThatEndsItsGoroutineIsAnError(t *testing.T) {
	exits := funcTool{spec: tool.Spec{Name: "exits"}, do: func(context.Context, tool.Call) (tool.Result, error) {
		runtime.Goexit()
		return tool.Result{}, nil
	}}
	r := newRig(t, asking(call("1", "exits")), exits)
	if got := answers(r.run(r.begin(nil))); len(got) != 1 || !strings.Contains(got[0], "without a result") {
		t.Errorf("answers %q", got)
	}
}

// A tool that returns more than a session can hold does not take the session
// with it.
func TestRun_longResultsAreCutOff(t *testing.T) {
	long := funcTool{spec: tool.Spec{Name: "long"}, do: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: strings.Repeat("é", 5<<20)}, nil
	}}
	for most, want := range map[int]int{0: 256 << 10, 1001: 1000} {
		r := newRig(t, asking(call("1", "long")), long)
		r.config.MaxResult = most
		got := answers(r.run(r.begin(nil)))
		if len(got) != 1 || !strings.HasPrefix(got[0], strings.Repeat("é", want/2)+"\n") || !strings.Contains(got[0], fmt.Sprintf("first %d of %d bytes", want, 10<<20)) {
			t.Errorf("at most %d: %d bytes, %q", most, len(got[0]), got[0][max(0, len(got[0])-60):])
		}
	}
}

func TestRun_togetherEndedContextKeepsWhatWasDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tools := []tool.Tool{
		funcTool{spec: tool.Spec{Name: "done", Parallel: true}, do: func(context.Context, tool.Call) (tool.Result, error) {
			cancel()
			return tool.Result{Content: "done"}, nil
		}},
		funcTool{spec: tool.Spec{Name: "cut", Parallel: true}, do: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}},
	}
	r := newRig(t, asking(call("1", "done"), call("2", "cut")), tools...)
	_, err := (agent.Loop{}).Run(ctx, r.config, r.begin(nil))
	if !errors.Is(err, session.ErrInterrupted) {
		t.Fatal(err)
	}
	if got := answers(r.reload()); !slices.Equal(got, []string{"done"}) {
		t.Errorf("kept %v", got)
	}
	if got := answers(r.run(r.reload())); !slices.Equal(got, []string{"done", session.UnknownOutcome}) {
		t.Errorf("after resuming %v", got)
	}
}

func TestRun_toolInFlightThatIsGoneHasAnUnknownOutcome(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cut := funcTool{spec: tool.Spec{Name: "cut", Nature: tool.Idempotent}, do: func(context.Context, tool.Call) (tool.Result, error) {
		cancel()
		return tool.Result{}, ctx.Err()
	}}
	r := newRig(t, asking(call("1", "cut")), cut)
	if _, err := (agent.Loop{}).Run(ctx, r.config, r.begin(nil)); !errors.Is(err, session.ErrInterrupted) {
		t.Fatal(err)
	}
	r.tools = tool.Set{} // the next program does not have it
	if got := answers(r.run(r.reload())); !slices.Equal(got, []string{session.UnknownOutcome}) {
		t.Errorf("the model is told %q", got)
	}
}

func TestTail_toolsWriteToTheLogWhileTheyRun(t *testing.T) {
	write := funcTool{spec: tool.Spec{Name: "write", Parallel: true}, do: func(ctx context.Context, c tool.Call) (tool.Result, error) {
		s, err := agent.WriterOf(ctx).Write(ctx, session.VariableStored{Key: "note/" + c.ID, Value: []byte(`true`)})
		if err != nil {
			return tool.Result{}, err
		}
		if _, ok := s.Variables()["note/"+c.ID]; !ok {
			return tool.Result{}, errors.New("what was written is not there")
		}
		_, err = agent.WriterOf(ctx).Write(ctx, session.VariableStored{Key: "../bad", Value: []byte(`true`)})
		return tool.Result{Content: fmt.Sprint(errors.Is(err, session.ErrInvalid))}, nil
	}}
	r := newRig(t, asking(call("1", "write"), call("2", "write"), call("3", "write")), write)
	got := r.run(r.begin(nil))
	if vars := r.reload().Variables(); len(vars) != 3 {
		t.Errorf("durable: %v", vars)
	}
	if !slices.Equal(answers(got), []string{"true", "true", "true"}) || got.Reply() != "done" {
		t.Errorf("answers %v, reply %q", answers(got), got.Reply())
	}
	if agent.WriterOf(t.Context()) != nil {
		t.Error("there is a tail outside a tool")
	}
}

func TestTail_endsWithItsCall(t *testing.T) {
	var kept agent.Writer
	keep := funcTool{spec: tool.Spec{Name: "keep"}, do: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		kept = agent.WriterOf(ctx)
		return tool.Result{}, nil
	}}
	r := newRig(t, asking(call("1", "keep")), keep)
	before := r.run(r.begin(nil))
	if _, err := kept.Write(t.Context(), session.VariableStored{Key: "late", Value: []byte(`1`)}); err == nil {
		t.Error("a call that is over can write")
	}
	if len(before.Variables()) != 0 {
		t.Errorf("%v", before.Variables())
	}
}

func TestTranscript_leavesOutEarlierToolExchangesWhereAsked(t *testing.T) {
	look := funcTool{spec: tool.Spec{Name: "look", Nature: tool.ReadOnly}, do: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: "seen"}, nil
	}}
	for trace, want := range map[string][]string{"": {"go", "", "seen", "done", "more"}, "current": {"go", "done", "more"}} {
		r := newRig(t, asking(call("1", "look")), look)
		r.memory = &session.MemoryPolicy{Strategy: session.PruneAll, ToolTrace: trace}
		s := r.run(r.begin(nil))
		s, err := s.With(r.now, session.MessageAdded{Message: session.Message{ID: "m2", Role: session.RoleUser, Content: session.Text("more"), ExecutionID: "e2"}},
			session.ExecutionStarted{ExecutionID: "e2"})
		if err != nil {
			t.Fatal(err)
		}
		var sent []string
		for _, m := range agent.Transcript(s) {
			text := m.Content.Text()
			if m.ToolResult != nil {
				text = m.ToolResult.Content
			}
			sent = append(sent, text)
		}
		if !slices.Equal(sent, want) {
			t.Errorf("%q: sent %q, want %q", trace, sent, want)
		}
	}
}

func TestTranscript_reachesBackToAUser(t *testing.T) {
	r := newRig(t, asking())
	s := r.run(r.begin(nil))
	s, err := s.With(r.now, session.WindowMoved{Strategy: session.PruneSliding, Limit: 1, To: s.Message(s.Len() - 1).Seq, Keep: []int64{}})
	if err != nil {
		t.Fatal(err)
	}
	if sent := agent.Transcript(s); len(sent) != 2 || sent[0].Content.Text() != "go" {
		t.Errorf("%+v", sent)
	}
}

func TestRun_whatMemoryAddsIsAskedOncePerMessageAndRecorded(t *testing.T) {
	look := funcTool{spec: tool.Spec{Name: "look", Nature: tool.ReadOnly}, do: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: "seen"}, nil
	}}
	model := asking(call("1", "look"))
	r := newRig(t, model, look)
	var asked []string
	r.config.Recall = func(_ context.Context, _ session.Session, m session.Message) agent.Recollection {
		asked = append(asked, m.Content.Text())
		return agent.Recollection{Text: "Quoted: tea.", IDs: []string{"m-7"}, Reasons: []session.RecallReason{{Score: 0.7, Words: []string{"tea"}}}}
	}
	got := r.run(r.begin(nil))
	if !slices.Equal(asked, []string{"go"}) {
		t.Errorf("asked about %q", asked)
	}
	for i, request := range model.Requests() {
		if request.System != "Quoted: tea." || !slices.Equal(got.Execution().Steps[i].Recalled, []string{"m-7"}) {
			t.Errorf("request %d: system %q, recorded %v", i, request.System, got.Execution().Steps[i].Recalled)
		}
		if why := got.Execution().Steps[i].Reasons; len(why) != 1 || why[0].Score != 0.7 || !slices.Equal(why[0].Words, []string{"tea"}) {
			t.Errorf("request %d: recorded as the reason %+v", i, why)
		}
	}
	for _, m := range got.Messages() {
		if strings.Contains(m.Content.Text(), "Quoted") {
			t.Error("it entered the transcript")
		}
	}
}

func TestRun_doesNotWaitForAModelThatAsksForHours(t *testing.T) {
	model := scripted.New(scripted.Reply{Err: &llm.TransientError{After: time.Hour, Err: errors.New("quota")}})
	r := newRig(t, model)
	r.config.Retries = 5
	got, err := (agent.Loop{}).Run(t.Context(), r.config, r.begin(nil))
	if !errors.Is(err, session.ErrExecutionFailed) || len(model.Requests()) != 1 || !strings.Contains(fmt.Sprint(err), "1h0m0s") {
		t.Errorf("%d attempts, %v, %+v", len(model.Requests()), err, got.Execution().Stop)
	}
}

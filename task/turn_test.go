package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

// oneStep is a job of a single step.
func oneStep() task.Spec {
	sp := spec()
	sp.Plan = planOf("only")
	return sp
}

// run starts a job and expects it to complete.
func (s *site) run(sp task.Spec) task.Row {
	s.t.Helper()
	row, err := s.x.Start(context.Background(), sp)
	if err != nil || row.Status != task.Completed {
		s.t.Fatalf("%s: %s %v, %v; want it completed", row.Status, row.Error, row.StopReasons, err)
	}
	return row
}

// results are what the calls of a task came to, by their ids.
func (s *site) results(id string) map[string]session.ToolResult {
	found := map[string]session.ToolResult{}
	for _, m := range s.messages(id) {
		if m.ToolResult != nil {
			found[m.ToolResult.CallID] = *m.ToolResult
		}
	}
	return found
}

// A page that was read is remembered with the title and the day that the tool shows before
// its body, not with a line of the body.
func TestTurn_remembersPagesWithTheirTitlesAndDays(t *testing.T) {
	t.Parallel()
	get := toolOf("get", tool.Network, tool.ReadOnly, func(_ context.Context, c tool.Call) (tool.Result, error) {
		if strings.Contains(string(c.Arguments), "named") {
			return tool.Result{Content: "Status: 200\nURL: https://b.example/\nTitle: A fair: part 2\nPublished: 2026-01-02\nBody:\nPublished: 1999-01-01\nhello"}, nil
		}
		return tool.Result{Content: "Status: 200\nBody:\nTitle: not this"}, nil
	})
	s := newSite(t, task.Config{Registry: kit{get}}, scripted.New(
		replyCalls(callOf("c1", "get", `{"url":"https://a.example/named"}`)), replyCalls(callOf("c2", "get", `{"url":"https://a.example/"}`)), reply("all done")))
	row := s.run(oneStep())
	var got []string
	for _, p := range s.state(row.ID).Tools.Pages {
		got = append(got, p.URL+" "+p.Title+" "+p.Published)
	}
	if want := []string{"https://a.example/named A fair: part 2 2026-01-02", "https://a.example/  "}; !slices.Equal(got, want) {
		t.Errorf("remembered %q, want %q", got, want)
	}
}

// Within a turn the answer is written before a call begins, that it began
// before it runs, and its result before the model is asked again.
func TestTurn_orderOfWrites(t *testing.T) {
	t.Parallel()
	var s *site
	var seen []string
	look := func(at string) {
		var kinds []string
		for _, e := range s.events("job", "message_added", "tool_call", "tool_result") {
			kinds = append(kinds, e.Kind)
		}
		seen = append(seen, at+": "+strings.Join(kinds[1:], " "))
	}
	spy := toolOf("spy", tool.Write, tool.Once, func(context.Context, tool.Call) (tool.Result, error) {
		look("tool")
		return tool.Result{Content: "ok"}, nil
	})
	s = newSite(t, task.Config{Registry: kit{spy}}, watched{scripted.New(replyCalls(callOf("c1", "spy", `{}`)), reply("all done")), func() { look("model") }})
	row := s.run(oneStep())
	const step = "message_added"
	want := []string{
		"model: " + step,
		"tool: " + step + " message_added tool_call",
		"model: " + step + " message_added tool_call message_added tool_result",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
	if c := s.state(row.ID).Tools; len(c.Started) != 0 || c.Counts.ToolCalls != 1 {
		t.Errorf("afterwards %v are started and %d counted", c.Started, c.Counts.ToolCalls)
	}
}

// watched is a model that says when it is asked.
type watched struct {
	llm.Model
	asked func()
}

func (w watched) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	w.asked()
	return w.Model.Infer(ctx, r, emit)
}

func TestTurn_callsThatAreNotRun(t *testing.T) {
	t.Parallel()
	ran := &atomic.Int32{}
	work := toolOf("work", tool.Write, tool.Once, func(context.Context, tool.Call) (tool.Result, error) {
		ran.Add(1)
		return tool.Result{Content: "ok"}, nil
	})
	s := newSite(t, task.Config{Registry: kit{work}}, scripted.New(
		replyCalls(callOf("c1", "nothing", `{}`), callOf("c2", "work", `{"a":1}`), callOf("c2", "work", `{"a":2}`), callOf("", "work", `{"a":3}`)), reply("all done")))
	id := s.working(oneStep())
	s.alter(id, func(st *session.TaskState) { st.Loop.Blocked = &session.Signature{Tool: "work", Input: `{"a":1}`} }, nil)
	s.with(id, func(r *task.Run) {
		out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"})
		if out.StopReason != task.StopCompleted || err != nil {
			t.Fatalf("%s, %v", out.StopReason, err)
		}
	})
	if ran.Load() != 2 {
		t.Errorf("%d calls ran, want the two that are not blocked", ran.Load())
	}
	got := s.results(id)
	if len(got) != 4 {
		t.Errorf("%d results, want one for each of four calls with ids of their own: %v", len(got), got)
	}
	if r := got["c1"]; !r.IsError || !strings.Contains(r.Content, `unknown tool "nothing"`) {
		t.Errorf("an unknown tool says %q", r.Content)
	}
	if r := got["c2"]; !r.IsError {
		t.Errorf("a blocked call says %q", r.Content)
	}
}

// A call that was running when the process ended runs again only where this
// does no harm.
func TestTurn_startedCallsAfterACrash(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		nature tool.Nature
		again  bool
	}{{tool.Once, false}, {tool.Idempotent, true}, {tool.ReadOnly, true}} {
		ran := &atomic.Int32{}
		work := toolOf("work", tool.Write, c.nature, func(context.Context, tool.Call) (tool.Result, error) {
			ran.Add(1)
			return tool.Result{Content: "ok"}, nil
		})
		model := scripted.New(reply("never"), reply("all done"))
		s := newSite(t, task.Config{Registry: kit{work}}, model)
		id := s.working(oneStep())
		s.write(id,
			session.ExecutionStarted{ExecutionID: "e"}, session.InferenceAnswered{StepID: "i"},
			session.MessageAdded{Message: session.Message{ID: "a", Role: session.RoleAssistant, ExecutionID: "e", StepID: "i", ToolCalls: []session.ToolCall{
				callOf("c1", "work", `{}`), callOf("c2", "work", `{}`), callOf("c3", "work", `{}`),
			}}},
			session.MessageAdded{Message: session.Message{ID: "b", Role: session.RoleTool, ExecutionID: "e", StepID: "i", ToolResult: &session.ToolResult{CallID: "c1", ToolName: "work", Content: "done"}}},
			session.ToolFinished{StepID: "i", CallID: "c1", ToolName: "work"}, session.ToolStarted{StepID: "i", CallID: "c2", ToolName: "work"},
		)
		s.alter(id, func(st *session.TaskState) {
			st.Loop.LifetimeTurns = 1
			st.Steps.Counts = &session.StepCounts{StepID: "s1", Iterations: 1, LLMCalls: 1}
		}, nil)
		s.with(id, func(r *task.Run) {
			out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"})
			if out.StopReason != task.StopCompleted || err != nil || out.LLMCalls != 2 {
				t.Fatalf("%s after %d calls, %v", out.StopReason, out.LLMCalls, err)
			}
		})
		want := int32(1) // c3 had not begun
		if c.again {
			want = 2
		}
		if ran.Load() != want {
			t.Errorf("%q: %d calls ran, want %d", c.nature, ran.Load(), want)
		}
		got := s.results(id)
		if r := got["c2"]; r.IsError == c.again || !c.again && (r.Content != session.UnknownOutcome || !r.Synthetic) {
			t.Errorf("%q: the call that was running came to %+v", c.nature, r)
		}
		if got["c1"].Content != "done" || len(model.Requests()) != 1 {
			t.Errorf("%q: what was there was done again: %v, %d requests", c.nature, got["c1"], len(model.Requests()))
		}
		if n := len(s.events(id, "tool_call")); n != 1 {
			t.Errorf("%q: %d calls are told of, want the one that began now", c.nature, n)
		}
	}
}

// An answer that ended a step before the process did is not asked for again.
func TestTurn_finalAnswerInTheTailIsUsed(t *testing.T) {
	t.Parallel()
	model := scripted.New()
	s := newSite(t, task.Config{}, model)
	id := s.working(oneStep())
	s.write(id, session.ExecutionStarted{ExecutionID: "e"}, session.InferenceAnswered{StepID: "i"},
		session.MessageAdded{Message: session.Message{ID: "a", Role: session.RoleAssistant, ExecutionID: "e", StepID: "i", Content: session.Text("it is done")}},
		session.StepFinished{StepID: "i", Type: session.StepFinal})
	s.alter(id, func(st *session.TaskState) {
		st.Steps.Counts = &session.StepCounts{StepID: "s1", Iterations: 1, LLMCalls: 1}
	}, nil)
	s.with(id, func(r *task.Run) {
		out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"})
		if out.StopReason != task.StopCompleted || err != nil || len(model.Requests()) != 0 {
			t.Errorf("%s, %v after %d requests; want the answer that is there", out.StopReason, err, len(model.Requests()))
		}
	})
}

func TestTurn_readsThatRepeatAreAnsweredFromMemory(t *testing.T) {
	t.Parallel()
	var s *site
	reads := &atomic.Int32{}
	read := toolOf("file_read", tool.Read, tool.ReadOnly, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: fmt.Sprintf("read %d", reads.Add(1))}, nil
	})
	list := toolOf("file_list", tool.Read, tool.ReadOnly, func(context.Context, tool.Call) (tool.Result, error) {
		reads.Add(1)
		return tool.Result{Content: "a b"}, nil
	})
	write := toolOf("file_write", tool.Write, tool.Once, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: "written"}, nil
	})
	wait := sleeperOf("wait", func(c tool.Call) {
		var in struct{ Seconds int }
		_ = json.Unmarshal(c.Arguments, &in)
		s.pass(time.Duration(in.Seconds) * time.Second)
	})
	file, dir := `{"path":"d/a.go"}`, `{"path":"d"}`
	var replies []scripted.Reply
	for i, c := range []struct{ name, args string }{
		{"file_read", file}, {"file_read", file}, {"file_read", file}, // the third is remembered
		{"file_read", `{"path":"d/b.go"}`},
		{"file_write", file}, {"file_read", file}, {"file_read", file}, {"file_read", file}, // remembered again
		{"wait", `{"Seconds":30}`}, {"file_read", file}, // 30 s are over
		{"file_list", dir}, {"file_list", dir}, {"wait", `{"Seconds":59}`}, {"file_list", dir}, {"wait", `{"Seconds":1}`}, {"file_list", dir},
	} {
		replies = append(replies, replyCalls(callOf(fmt.Sprintf("c%d", i), c.name, c.args)))
	}
	s = newSite(t, task.Config{Registry: kit{read, list, write, wait}}, scripted.New(append(replies, reply("all done"))...))
	sp := oneStep()
	sp.Workspace.Root = t.TempDir()
	id := s.run(sp).ID
	got := s.results(id)
	for i, want := range map[int]bool{0: false, 1: false, 2: true, 3: false, 5: false, 6: false, 7: true, 9: false, 10: false, 11: false, 13: true, 15: false} {
		r := got[fmt.Sprintf("c%d", i)]
		if strings.HasPrefix(r.Content, "[REMEMBERED]") != want || r.IsError {
			t.Errorf("call %d came to %q; remembered should be %v", i, r.Content, want)
		}
	}
	if !strings.HasSuffix(got["c2"].Content, "read 2") {
		t.Errorf("remembered is %q, want the last result", got["c2"].Content)
	}
	state := s.state(id)
	if n := state.Tools.Counts.DuplicatesBlocked; n != 3 {
		t.Errorf("%d duplicates are counted, want 3", n)
	}
	if f, ok := state.Files.Read.Get("d/a.go"); !ok || f.Step != "s1" {
		t.Errorf("the file that was read is kept as %+v", f)
	}
	_, wasRead := state.Files.Read.Get("d/b.go")
	if _, listed := state.Files.Listings.Get("d"); !wasRead || !listed {
		t.Errorf("the files are %+v", state.Files)
	}
}

func sleeperOf(name string, wait func(tool.Call)) tool.Tool {
	return toolOf(name, tool.Network, tool.ReadOnly, func(_ context.Context, c tool.Call) (tool.Result, error) {
		wait(c)
		return tool.Result{Content: "waited"}, nil
	})
}

func TestTurn_filesThatWereWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write := toolOf("put", tool.Write, tool.Once, func(_ context.Context, c tool.Call) (tool.Result, error) {
		var in struct{ Path string }
		_ = json.Unmarshal(c.Arguments, &in)
		return tool.Result{Content: "ok"}, os.WriteFile(filepath.Join(dir, in.Path), []byte("text"), 0o600)
	})
	remove := toolOf("rm", tool.Delete, tool.Once, func(_ context.Context, c tool.Call) (tool.Result, error) {
		return tool.Result{Content: "ok"}, os.Remove(filepath.Join(dir, "old"))
	})
	s := newSite(t, task.Config{Registry: kit{write, remove}}, scripted.New(
		replyCalls(callOf("c1", "put", `{"path":"new"}`)), replyCalls(callOf("c2", "put", `{"path":"old"}`)),
		replyCalls(callOf("c3", "rm", `{"path":"old"}`)), reply("all done")))
	sp := oneStep()
	sp.Workspace = task.Workspace{Root: dir, Capabilities: map[string]bool{"delete": true}}
	id := s.run(sp).ID
	var got []string
	for _, e := range s.events(id, "file_created", "file_modified", "file_deleted") {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Data["path"]))
	}
	if want := []string{"file_created new", "file_modified old", "file_deleted old"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if made := s.state(id).Files.Created; !slices.Contains(made, "new") {
		t.Errorf("created are %v", made)
	}
}

// A tool that is off is not offered and not run, also by a process that starts
// later, until its time is over.
func TestTools_offUntilTheirTimeIsOver(t *testing.T) {
	t.Parallel()
	works := &atomic.Bool{}
	fetch := toolOf("fetch", tool.Network, tool.ReadOnly, func(context.Context, tool.Call) (tool.Result, error) {
		if works.Load() {
			return tool.Result{Content: "page"}, nil
		}
		return tool.Result{}, &session.UnsupportedError{Store: "fetch", Ability: "this"}
	})
	model := scripted.New(replyCalls(callOf("c1", "fetch", `{"url":"u"}`)), reply("first done, at length"),
		replyCalls(callOf("c2", "fetch", `{"url":"u"}`)), reply("second done, at length"),
		replyCalls(callOf("c3", "fetch", `{"url":"u"}`)), reply("third done, at length"))
	c := task.Config{Registry: kit{fetch}}
	s := newSite(t, c, model)
	sp := spec()
	sp.Plan = planOf("one", "two", "three")
	id := s.working(sp)
	step := func(name string) {
		s.open(c) // another process
		s.with(id, func(r *task.Run) {
			if out, err := r.RunStep(context.Background(), task.StepInput{StepID: name}); err != nil {
				t.Fatal(out.StopReason, err)
			}
		})
	}
	offered := func(i int) bool {
		return slices.ContainsFunc(model.Requests()[i].Tools, func(l llm.Tool) bool { return l.Name == "fetch" })
	}
	step("s1")
	told := s.only(id, "tool_error").Data
	if told["disabled"] != true || told["disabledScope"] != "global" {
		t.Errorf("%v", told)
	}
	if row, _ := s.x.Get(context.Background(), id); row.ToolDisabledScope != "global" {
		t.Errorf("the row says %q", row.ToolDisabledScope)
	}
	if !offered(0) || offered(1) {
		t.Errorf("offered %v then %v, want true then false", offered(0), offered(1))
	}
	s.pass(2*time.Minute - time.Millisecond)
	works.Store(true)
	step("s2")
	if r := s.results(id)["c2"]; !r.IsError || !strings.Contains(r.Content, "is off") || offered(2) {
		t.Errorf("before its time it is offered (%v) or run: %q", offered(2), r.Content)
	}
	s.pass(time.Millisecond)
	step("s3")
	if r := s.results(id)["c3"]; r.IsError || !offered(4) {
		t.Errorf("after its time it is not offered (%v) or not run: %q", offered(4), r.Content)
	}
	if n := s.state(id).Tools.Failures.Len(); n != 0 {
		t.Error("a success did not clear the failures")
	}
}

func TestTools_deferredOnesAreFoundBySearch(t *testing.T) {
	t.Parallel()
	hidden := answers("rare_tool", tool.Read, "rare").(fakeTool)
	hidden.spec.Deferred = true
	model := scripted.New(replyCalls(callOf("c1", "tool_search", `{"query":"RARE things"}`)), replyCalls(callOf("c2", "rare_tool", `{}`)), reply("all done"))
	s := newSite(t, task.Config{Registry: kit{hidden}}, model)
	id := s.run(oneStep()).ID
	has := func(i int, name string) bool {
		return slices.ContainsFunc(model.Requests()[i].Tools, func(l llm.Tool) bool { return l.Name == name })
	}
	if has(0, "rare_tool") || !has(0, "tool_search") || !has(1, "rare_tool") {
		t.Error("a deferred tool is offered before it was found, or not after")
	}
	if !s.state(id).Tools.Found.Has("rare_tool") || s.results(id)["c2"].Content != "rare" {
		t.Error("what was found is not kept or not run")
	}
}

func TestTurn_answersThatAreCutOffOrEmpty(t *testing.T) {
	t.Parallel()
	cut := scripted.Reply{Text: "one ", FinishReason: "length"}
	s := newSite(t, task.Config{}, scripted.New(cut, scripted.Reply{Text: "two ", FinishReason: "max_tokens"}, reply("three")))
	id := s.run(oneStep()).ID
	if out := s.state(id).Said.Answer; out == nil || *out != "one two three" {
		t.Errorf("the parts come to %v", *out)
	}
	if k := s.state(id).Steps.Counts; k != nil && k.MaxTokenRecoveries != 2 {
		t.Errorf("%d cuts are counted, want 2", k.MaxTokenRecoveries)
	}

	s = newSite(t, task.Config{}, scripted.New(scripted.Reply{}, scripted.Reply{FinishReason: "length"}, scripted.Reply{Text: " \n"}, reply("never asked")))
	row, err := s.x.Start(context.Background(), oneStep())
	if err != nil || !slices.Contains(row.StopReasons, "max_empty_responses") {
		t.Errorf("after three empty answers: %v, %v", row.StopReasons, err)
	}
	for _, r := range s.model.(*scripted.Model).Requests() {
		if err := session.ValidTranscript(r.Messages); err != nil || slices.ContainsFunc(r.Messages, func(m session.Message) bool {
			return m.Role == session.RoleAssistant && m.Content.Blank()
		}) {
			t.Errorf("an empty answer was sent back, or %v", err)
		}
	}
}

func TestTurn_retriesAreNoTurns(t *testing.T) {
	t.Parallel()
	down := func(err error) scripted.Reply {
		return scripted.Reply{Err: &llm.TransientError{After: time.Nanosecond, Err: err}}
	}
	busy := down(&llm.ProviderError{Status: 429, Message: "slow down"})
	s := newSite(t, task.Config{}, scripted.New(scripted.Reply{Attempts: []scripted.Reply{busy, busy, busy, busy, busy, reply("all done")}}))
	id := s.run(oneStep()).ID
	if n := len(s.events(id, "llm_retry")); n != 5 || s.state(id).Loop.LifetimeTurns != 1 {
		t.Errorf("%d retries and %d turns, want 5 and 1", n, s.state(id).Loop.LifetimeTurns)
	}

	for name, c := range map[string]struct {
		err   error
		asked int
	}{
		"six times":       {&llm.TransientError{After: time.Nanosecond, Err: errors.New("down")}, 6},
		"no money":        {&llm.TransientError{After: time.Nanosecond, Err: &llm.ProviderError{Status: 429, Code: "insufficient_quota"}}, 1},
		"for good":        {&llm.ProviderError{Status: 401, Message: "who are you"}, 1},
		"patience is out": {&llm.TransientError{After: time.Hour, Err: errors.New("come back later")}, 1},
	} {
		model := scripted.New(scripted.Reply{Err: c.err})
		s := newSite(t, task.Config{}, model)
		id := s.working(oneStep())
		s.with(id, func(r *task.Run) {
			out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"})
			if out.StopReason != task.StopProvider || !errors.Is(err, c.err) {
				t.Errorf("%s: %s, %v", name, out.StopReason, err)
			}
		})
		if n := len(model.Requests()); n != c.asked || len(s.events(id, "llm_error")) != 1 {
			t.Errorf("%s: asked %d times, want %d", name, n, c.asked)
		}
	}
}

func TestTools_countsAreHalvedAfterFiftyCalls(t *testing.T) {
	t.Parallel()
	var many []session.ToolCall
	for i := range 49 {
		many = append(many, callOf(fmt.Sprintf("c%d", i), "work", fmt.Sprintf(`{"n":%d}`, i)))
	}
	s := newSite(t, task.Config{Registry: kit{answers("work", tool.Network, "ok"), answers("rare", tool.Network, "ok")}},
		scripted.New(replyCalls(many...), replyCalls(callOf("r", "rare", `{}`)), reply("all done")))
	tooling := s.state(s.run(oneStep()).ID).Tools
	if n, _ := tooling.Calls.Get("work"); n != 24 || tooling.Halvings != 1 || tooling.SinceHalved != 0 {
		t.Errorf("%d uses in epoch %d after %d more, want 24 in epoch 1", n, tooling.Halvings, tooling.SinceHalved)
	}
	if _, kept := tooling.Calls.Get("rare"); kept {
		t.Error("a count of nothing is kept")
	}
	if n := len(tooling.Results); n != 50 {
		t.Errorf("%d results are remembered, want 50", n)
	}
}

// Two reads in any thirty seconds are allowed, wherever the seconds begin.
func TestTurn_readsFarEnoughApartAreRun(t *testing.T) {
	t.Parallel()
	var s *site
	wait := sleeperOf("wait", func(tool.Call) { s.pass(20 * time.Second) })
	read := answers("file_read", tool.Read, "text")
	var replies []scripted.Reply
	for i, name := range []string{"file_read", "wait", "file_read", "wait", "file_read"} {
		replies = append(replies, replyCalls(callOf(fmt.Sprintf("c%d", i), name, `{"path":"a"}`)))
	}
	s = newSite(t, task.Config{Registry: kit{read, wait}}, scripted.New(append(replies, reply("all done"))...))
	sp := oneStep()
	sp.Workspace.Root = t.TempDir()
	if got := s.results(s.run(sp).ID)["c4"].Content; got != "text" {
		t.Errorf("the third read in 40 seconds came to %q", got)
	}
}

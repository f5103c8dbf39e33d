package task_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/task"
)

const (
	whichPort   = `call:q1:request_user_input:{"question":"Which port?"}`
	whichColour = `call:q1:request_user_input:{"question":"Which colour?","options":["red","blue"]}`
)

// questioned is a house whose task waits for the answer to a question.
func questioned(t *testing.T, question string, change ...func(*task.Config)) *house {
	t.Helper()
	h := newHouse(t, script(question, "done"), change...)
	h.start(job())
	h.asks()
	return h
}

// asks fails where the task does not wait for the answer to a question.
func (h *house) asks() {
	h.Helper()
	h.stands("paused", "needs_user_action", "")
	if row := h.row(); row.AwaitingUserInputReasonCode != "user_input" || row.PendingApprovals != 1 || row.Error != "" {
		h.Errorf("the row is %+v", row)
	}
}

func (h *house) tell(id, text string) (task.Row, error) {
	return h.x.Respond(context.Background(), "t1", replyTo(id, text), task.RespondOptions{})
}

func replyTo(id, text string) session.Response {
	return session.Response{PendingID: id, Action: session.RespondAnswer, Text: text, By: "ann"}
}

// answers are the results of the question, from first to last.
func (h *house) answers() []session.ToolResult {
	h.Helper()
	s, err := h.rt.Get(context.Background(), "t1")
	if err != nil {
		h.Fatal(err)
	}
	var found []session.ToolResult
	for _, m := range s.Messages() {
		if m.ToolResult != nil && m.ToolResult.CallID == "q1" {
			found = append(found, *m.ToolResult)
		}
	}
	return found
}

// told fails where the question has not this one good result.
func (h *house) told(text string) {
	h.Helper()
	if got := h.answers(); len(got) != 1 || got[0].Content != text || got[0].IsError || got[0].Synthetic {
		h.Errorf("the results are %+v, want %q once", got, text)
	}
}

// unchanged fails where fn writes or queues something.
func (h *house) unchanged(fn func()) {
	h.Helper()
	before := h.seq()
	fn()
	if h.seq() != before {
		h.Error("something was written")
	}
	if items, err := h.rt.Inbox(context.Background(), "t1"); err != nil || len(items) != 0 {
		h.Errorf("the inbox has %v, %v", items, err)
	}
}

func TestInput_theQuestionIsDurableAndNobodyWaits(t *testing.T) {
	t.Parallel()
	h := questioned(t, whichPort)
	a := h.open()
	if a.Kind != session.PendingQuestion || a.CallID != "q1" || a.Prompt != "Which port?" || len(a.Choices) != 0 || a.AskedAt.IsZero() || a.ExpiresAt != nil {
		t.Errorf("the record is %+v", a)
	}
	if a.Tool != "request_user_input" || string(a.Arguments) != `{"question":"Which port?"}` {
		t.Errorf("the call is %s %s", a.Tool, a.Arguments)
	}
	if _, live, err := h.rt.Holder(context.Background(), "t1"); err != nil || live {
		t.Errorf("the lease is held: %v %v", live, err)
	}
	s, err := h.rt.Get(context.Background(), "t1")
	if err != nil || s.Info().Task.Status != "paused" || s.Info().Task.PendingApprovals != 1 {
		t.Errorf("the version says %+v, %v", s.Info().Task, err)
	}
	if step := h.state().Plan.Steps[0]; step.Status != "in_progress" || !slices.Contains(h.row().StopReasons, "awaiting_user_input") {
		t.Errorf("the step is %s, reasons are %v", step.Status, h.row().StopReasons)
	}
	h.unchanged(func() {
		if _, err := h.x.Resume(context.Background(), "t1"); !errors.Is(err, session.ErrNotResumable) {
			t.Errorf("resumed: %v", err)
		}
	})
}

func TestInput_theAnswerIsTheResultOfTheCallAndTheTaskGoesOn(t *testing.T) {
	t.Parallel()
	h := questioned(t, whichPort)
	reply, err := h.tell(h.open().ID, "8080, I think")
	if err != nil || reply.Status != "completed" {
		t.Fatalf("%+v, %v", reply, err)
	}
	h.stands("completed", "ok", "")
	h.told("8080, I think")
	if row := h.row(); row.AwaitingUserInputReasonCode != "" || row.PendingApprovals != 0 || row.Projection.BudgetUsage.ToolCalls != 1 {
		t.Errorf("the row is %+v", row)
	}
	last := h.asked[1].Messages
	if r := last[len(last)-1].ToolResult; h.calls() != 2 || r == nil || r.Content != "8080, I think" {
		t.Errorf("asked %d times, the model was told %+v", h.calls(), last[len(last)-1])
	}
	if got := h.responded(); len(got) != 1 || got[0].Action != session.RespondAnswer || got[0].Text != "8080, I think" || got[0].By != "ann" {
		t.Errorf("the responses are %+v", got)
	}
	for _, name := range []string{"tool_call", "tool_result", "task_resumed"} {
		if n := h.count(name); n != 1 {
			t.Errorf("%s happened %d times", name, n)
		}
	}
}

func TestInput_answeredFromAnotherProcess(t *testing.T) {
	t.Parallel()
	st := inmem.New(inmem.Config{})
	one := houseOn(t, st, script(whichPort))
	one.start(job())
	other := houseOn(t, st, script("done"))
	if found, err := other.x.Recover(context.Background()); err != nil || len(found) != 0 {
		t.Errorf("recovered %+v, %v", found, err)
	}
	other.asks()
	reply, err := other.tell(one.open().ID, "8080")
	if err != nil || reply.Status != "completed" || other.calls() != 1 {
		t.Errorf("%+v, %v; asked %d times", reply, err, other.calls())
	}
	other.told("8080")
}

// Killed when the answer was posted: whoever looks next takes it.
func TestInput_anAnswerThatWasOnlyPostedIsTakenByWhoeverLooksNext(t *testing.T) {
	t.Parallel()
	st := inmem.New(inmem.Config{})
	one := houseOn(t, st, script(whichPort))
	one.start(job())
	a := one.open()
	if err := one.rt.Respond(context.Background(), "t1", replyTo(a.ID, "8080")); err != nil {
		t.Fatal(err)
	}
	other := houseOn(t, st, script("done"))
	if reply, err := other.tell(a.ID, "9090"); !errors.Is(err, session.ErrResponded) {
		t.Errorf("another answer: %+v, %v", reply, err)
	}
	if err := other.rt.Respond(context.Background(), "t1", replyTo(a.ID, "8080")); err != nil {
		t.Errorf("the same again: %v", err)
	}
	result, err := other.x.Resume(context.Background(), "t1")
	if err != nil || result.Row.Status != "completed" || other.calls() != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	other.told("8080")
}

// Killed when the answer was taken and the work had not begun again: it is in
// the transcript, and any resume goes on from there.
func TestInput_anAnswerThatWasTakenOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	st := inmem.New(inmem.Config{})
	one := houseOn(t, st, script(whichPort))
	one.start(job())
	a := one.open()
	ctx, kill := context.WithCancel(context.Background())
	dying := houseOn(t, st, func(ctx context.Context, _ int, _ llm.Request) (llm.Response, error) {
		kill()
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	})
	if _, err := dying.x.Respond(ctx, "t1", replyTo(a.ID, "8080"), task.RespondOptions{}); err == nil {
		t.Error("the answer was not broken off")
	}
	dying.told("8080")
	other := houseOn(t, st, script("done"))
	result, err := other.x.Resume(context.Background(), "t1")
	if err != nil || result.Row.Status != "completed" || other.calls() != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	other.told("8080")
	if n := len(other.responded()); n != 1 {
		t.Errorf("answered %d times", n)
	}
}

func TestInput_theFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	h := newHouse(t, script(whichPort, `call:q2:request_user_input:{"question":"And the host?"}`))
	h.start(job())
	first := h.open()
	if reply, err := h.tell(first.ID, "8080"); err != nil {
		t.Fatalf("%+v, %v", reply, err)
	}
	h.asks() // for the host
	h.unchanged(func() {
		if reply, err := h.tell(first.ID, "8080"); err != nil {
			t.Errorf("the same again: %+v, %v", reply, err)
		}
		_, err := h.tell(first.ID, "9090")
		var resolved *session.RespondedError
		if !errors.As(err, &resolved) || resolved.Response.Text != "8080" || resolved.Response.PendingID != first.ID {
			t.Errorf("another answer: %v", err)
		}
		if reply, err := h.tell("nobody", "8080"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("an unknown one: %+v, %v", reply, err)
		}
	})
	h.told("8080")
}

func TestInput_ofManyAnswersOneCounts(t *testing.T) {
	t.Parallel()
	h := questioned(t, whichPort)
	id := h.open().ID
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		handled []string
	)
	for _, text := range []string{"1", "2", "3", "4", "5", "6"} {
		wg.Go(func() {
			reply, err := h.tell(id, text)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				handled = append(handled, text)
			} else if !errors.Is(err, session.ErrResponded) && !errors.Is(err, session.ErrTaskTerminal) {
				t.Errorf("%s: %+v, %v", text, reply, err)
			}
		})
	}
	wg.Wait()
	if len(handled) != 1 {
		t.Fatalf("these count: %v", handled)
	}
	h.told(handled[0])
}

func TestInput_onlyWhatTheQuestionTakesIsAnAnswer(t *testing.T) {
	t.Parallel()
	h := questioned(t, whichColour)
	a := h.open()
	if len(a.Choices) != 2 || a.Choices[0].Value != "red" || a.Choices[1].Value != "blue" {
		t.Errorf("the question is %+v", a)
	}
	h.unchanged(func() {
		for _, text := range []string{"green", "Red", "", "  "} {
			if _, err := h.tell(a.ID, text); !errors.Is(err, session.ErrInvalid) {
				t.Errorf("%q: %v", text, err)
			}
		}
		for _, action := range []string{"allow_once", "deny_once", "answered"} {
			if _, err := h.respond(a.ID, action, task.RespondOptions{}); !errors.Is(err, session.ErrInvalid) {
				t.Errorf("%s: %v", action, err)
			}
		}
	})
	h.asks()
	if reply, err := h.tell(a.ID, "blue"); err != nil || reply.Status != "completed" {
		t.Errorf("%+v, %v", reply, err)
	}
	h.told("blue")
}

func TestInput_aPermissionIsNotAnswered(t *testing.T) {
	t.Parallel()
	h, c := asked(t)
	h.unchanged(func() {
		if _, err := h.tell(h.open().ID, "yes"); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("answered: %v", err)
		}
	})
	if c.ran() != 0 {
		t.Error("the tool ran")
	}
}

func TestInput_endsWithTheTask(t *testing.T) {
	t.Parallel()
	h := questioned(t, whichPort)
	a := h.open()
	row, err := h.x.Cancel(context.Background(), "t1")
	if err != nil || row.Status != "cancelled" || row.PendingApprovals != 0 || row.AwaitingUserInputReasonCode != "" {
		t.Fatalf("%+v, %v", row, err)
	}
	if got := h.responded(); len(got) != 1 || got[0].Action != session.RespondCancel {
		t.Errorf("the responses are %+v", got)
	}
	h.unchanged(func() {
		if _, err := h.tell(a.ID, "8080"); !errors.Is(err, session.ErrTaskTerminal) {
			t.Errorf("a late answer: %v", err)
		}
	})
}

func TestInput_expiresLikeAnApproval(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	h := questioned(t, whichPort, func(c *task.Config) {
		c.Clock, c.PendingTimeout = func() time.Time { return now }, time.Minute
	})
	a := h.open()
	now = now.Add(time.Minute)
	_, err := h.tell(a.ID, "8080")
	var resolved *session.RespondedError
	if !errors.As(err, &resolved) || resolved.Response.Action != session.RespondExpire {
		t.Errorf("a late answer: %v", err)
	}
	h.stands("paused", "needs_user_action", "")
	if row := h.row(); row.Error != "Approval request timed out" || row.AwaitingUserInputReasonCode != "" || row.PendingApprovals != 0 {
		t.Errorf("the row is %+v", row)
	}
	if got := h.answers(); len(got) != 1 || !got[0].IsError {
		t.Errorf("the results are %+v", got)
	}
	if result, err := h.x.Resume(context.Background(), "t1"); err != nil || result.Row.Status != "completed" {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestInput_isOfferedInEveryModeButChat(t *testing.T) {
	t.Parallel()
	for mode, offered := range map[string]bool{"execute": true, "plan": true, "analyze": true, "verified": true, "debug": true, "chat": false} {
		h := newHouse(t, script(whichPort, "done"))
		s := job()
		s.ExecutionMode = mode
		h.start(s)
		shown := slices.ContainsFunc(h.asked[0].Tools, func(d llm.Tool) bool { return d.Name == "request_user_input" })
		if status := h.row().Status; shown != offered || (status == "paused") != offered {
			t.Errorf("%s: offered %t, the task is %s", mode, shown, status)
		}
	}
}

func TestInput_aQuestionThatCannotBeAnsweredIsNotAsked(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{`{}`, `{"question":" "}`, `{"question":7}`, `{"question":"Which?","options":["a",""]}`} {
		h := newHouse(t, script("call:q1:request_user_input:"+arguments, "done"))
		h.start(job())
		h.stands("completed", "ok", "")
		if got := h.answers(); len(got) != 1 || !got[0].IsError || len(h.waiting()) != 0 {
			t.Errorf("%s: %+v", arguments, got)
		}
	}
}

func TestInput_askedInAnswerToAMessage(t *testing.T) {
	t.Parallel()
	h := newHouse(t, script("all is well", whichPort, "it is 8080"))
	h.start(job())
	if _, err := h.x.QueueFollowUp(context.Background(), "t1", session.FollowUp{Message: "open a port"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.x.Resume(context.Background(), "t1"); err != nil {
		t.Fatal(err)
	}
	h.asks()
	reply, err := h.tell(h.open().ID, "8080")
	if err != nil || reply.Status != "completed" || reply.ResultSummary != "it is 8080" {
		t.Errorf("%+v, %v", reply, err)
	}
	h.told("8080")
}

// Killed when the question was written and the task had not come to rest: it
// waits all the same, and is asked once.
func TestInput_aQuestionOutlivesTheProcessThatAskedIt(t *testing.T) {
	t.Parallel()
	asked := 0
	model := modelFunc(func(context.Context, llm.Request) (llm.Response, error) {
		if asked++; asked == 1 {
			return line(whichPort), nil
		}
		return says("done"), nil
	})
	s := newSite(t, task.Config{}, model)
	sp := oneStep()
	sp.Plan.Steps[0].Status = "in_progress"
	id := s.working(sp)
	if out, err := s.step(id); out.StopReason != task.StopUserInput || err != nil {
		t.Fatalf("%s, %v", out.StopReason, err)
	}
	s.open(task.Config{}) // nobody brought the task to rest
	if found, err := s.x.Recover(context.Background()); err != nil || len(found) != 0 {
		t.Errorf("recovered %+v, %v", found, err)
	}
	if _, err := s.x.Resume(context.Background(), id); !errors.Is(err, session.ErrNotResumable) {
		t.Errorf("resumed: %v", err)
	}
	reply, err := s.x.Respond(context.Background(), id, replyTo("q1", "8080"), task.RespondOptions{})
	if err != nil || reply.Status != "completed" || asked != 2 || len(s.events(id, "call_pending")) != 1 {
		t.Errorf("%+v, %v; the model was asked %d times", reply, err, asked)
	}
}

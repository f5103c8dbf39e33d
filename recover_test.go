package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

// A message that was queued, and whose session is idle because whoever was to
// take it is gone, is delivered.
func TestRecover_deliversWhatWaitsInAnInbox(t *testing.T) {
	h := open(t, nil)
	s, idle := h.create(), h.create()
	payload, err := session.JSON(session.Message{Content: session.Text("are you there?")})
	if err != nil {
		t.Fatal(err)
	}
	for id, item := range map[string]store.Item{
		s.ID():    {ID: "1", Kind: store.ItemFollowUp, Payload: session.Values{"message": payload}},
		idle.ID(): {ID: "1", Kind: store.ItemCancel}, // it asks for nothing
	} {
		if _, err := h.Post(t.Context(), id, item); err != nil {
			t.Fatal(err)
		}
	}
	done, err := h.Recover(t.Context())
	if err != nil || len(done) != 1 || done[0].ID != s.ID() || done[0].Err != nil {
		t.Fatalf("recovered %+v, %v", done, err)
	}
	if got := h.stored(s.ID()); got.Reply() != "hello" || userMessages(got)["are you there?"] != 1 {
		t.Errorf("reply %q to %v", got.Reply(), userMessages(got))
	}
	if done, err := h.Recover(t.Context()); err != nil || len(done) != 0 {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// recoverAndDie recovers as a process that is interrupted with the model's call.
func recoverAndDie(t *testing.T, h *house) []holdfast.Recovered {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := holdfast.On(h.Runtime, func(holdfast.StepStarted) { cancel() }, 0)
	defer stop()
	done, err := h.Recover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// An execution that never ends, however often it is recovered, is set aside, and
// continues when somebody asks for it.
func TestRecover_setsAsideWhatNeverEnds(t *testing.T) {
	for name, ask := range map[string]holdfast.Action{"continue": holdfast.ContinueExecution{}, "retry": holdfast.RetryExecution{}} {
		t.Run(name, func(t *testing.T) {
			h := open(t, func(c *holdfast.Config) { c.RecoverLimit = 2 })
			s := h.create()
			h.interrupt(s.ID())
			for i := range 2 {
				if done := recoverAndDie(t, h); len(done) != 1 || !errors.Is(done[0].Err, session.ErrInterrupted) {
					t.Fatalf("recovery %d: %+v", i, done)
				}
			}
			done := recoverAndDie(t, h)
			var aside *session.SetAsideError
			if len(done) != 1 || done[0].Version != 2 || !errors.As(done[0].Err, &aside) || aside.Recoveries != 2 {
				t.Fatalf("at the limit: %+v", done)
			}
			if got := h.stored(s.ID()); !got.SetAside() || got.Status() != session.Suspended || got.Execution().Recoveries != 2 {
				t.Errorf("status %s, %d recoveries", got.Status(), got.Execution().Recoveries)
			}
			if done, err := h.Recover(t.Context()); err != nil || len(done) != 0 {
				t.Errorf("once it is set aside: %+v, %v", done, err)
			}
			if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}); !errors.Is(err, session.ErrStatus) {
				t.Errorf("a message: %v", err)
			}
			byHand := h.create()
			h.interrupt(byHand.ID())
			h.do(byHand.ID(), holdfast.SuspendSession{})
			if _, err := h.Execute(t.Context(), byHand.ID(), ask); !errors.Is(err, session.ErrStatus) {
				t.Errorf("one that was suspended on purpose: %v", err)
			}
			if got := h.do(s.ID(), ask); got.Status() != session.Active || got.Reply() != "hello" || got.Execution().Recoveries != 0 {
				t.Errorf("on request: %s, %q", got.Status(), got.Reply())
			}
		})
	}
}

// A turn that kills its process is set aside by the process after the last that
// may try: the count is written before each try.
func TestCrash_aTurnThatKillsItsProcessIsSetAside(t *testing.T) {
	t.Parallel()
	place := crashtest.NewPlace(t, crashtest.Config{Store: "sqlite", Protocol: "openai"})
	r, err := place.MustRehearse(t, turnScenario("sqlite", "openai")).NewRun(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for life := range 6 { // the first sends the message, five recover
		if killed, err := r.Live(t.Context(), crashtest.Kill{Request: answerKey(2)}); err != nil || killed == "" {
			t.Fatalf("process %d was killed by %q, %v", life, killed, err)
		}
		job := r.Job.(turnJob)
		job.TakeUp = onlyRecover
		r.Job = job
	}
	if killed, err := r.Live(t.Context(), crashtest.Kill{Request: answerKey(2)}); killed != "" || err == nil || !strings.Contains(err.Error(), "set aside") {
		t.Errorf("the seventh process was killed by %q, %v", killed, err)
	}
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := r.Last.State.(session.Session); !s.SetAside() || s.Execution().Recoveries != 5 {
		t.Errorf("status %s, %d recoveries", s.Status(), s.Execution().Recoveries)
	}
}

// busyCook never comes to an end by itself: each step uses a tool.
func busyCook(_ context.Context, r llm.Request) (llm.Response, error) {
	if r.Agent == "boss" && len(r.Messages) == 1 {
		var calls []session.ToolCall
		for i := range 6 {
			call := spawning("cook", fmt.Sprint("dish ", i))
			call.ID = fmt.Sprint(i)
			calls = append(calls, call)
		}
		return llm.Response{ToolCalls: calls}, nil
	}
	if r.Agent == "boss" {
		return llm.Response{Content: session.Text("done")}, nil
	}
	return llm.Response{ToolCalls: []session.ToolCall{callOf("", "stove")}}, nil
}

// priced is a model whose every answer costs two cents.
type priced struct{ modelFunc }

func (priced) Cost(session.Usage) session.Cost { return 20_000 }

// Subagents that work at the same time share what their parent has left.
func TestSubagent_parallelOnesShareTheBudget(t *testing.T) {
	steps, cost := int64(5), session.Cost(100_000)
	for name, budget := range map[string]*session.Budget{"steps": {MaxSteps: &steps}, "cost": {MaxCost: &cost}} {
		t.Run(name, func(t *testing.T) {
			h, _ := openKitchen(t, nil, session.Definition{Name: "cook", Model: "demo"}, nil, func(c *holdfast.Config) {
				c.Models = llm.Map{"demo": priced{modelFunc(busyCook)}}
			})
			def := boss()
			def.Budget = budget
			s, err := h.Create(t.Context(), def)
			if err != nil {
				t.Fatal(err)
			}
			got := h.do(s.ID(), holdfast.SendMessage{Text: "cook six dishes"})
			e := got.Execution()
			if taken := len(e.Steps) + e.ChildSteps; budget.MaxSteps != nil && (int64(taken) > steps || taken < 5) {
				t.Errorf("%d steps of %d", taken, steps)
			}
			if budget.MaxCost != nil && (e.Cost > cost || e.Cost < 80_000) {
				t.Errorf("spent %d of %d", e.Cost, cost)
			}
			if n := len(children(t, h, s.ID())); n != 6 {
				t.Errorf("%d children", n)
			}
		})
	}
}

// openHangingCook has a boss whose cook waits in a tool until its context ends.
func openHangingCook(t *testing.T, budget *session.Budget) (h *house, s session.Session, working chan struct{}) {
	working = make(chan struct{}, 8)
	hang := toolFunc{spec: tool.Spec{Name: "stove", Nature: tool.ReadOnly}, call: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		working <- struct{}{}
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}}
	h, _ = openKitchen(t, nil, session.Definition{Name: "cook", Model: "demo"}, nil, func(c *holdfast.Config) {
		c.Tools = toolSet(t, hang)
		c.Models = llm.Map{"demo": modelFunc(func(_ context.Context, r llm.Request) (llm.Response, error) {
			if r.Agent == "boss" {
				return llm.Response{ToolCalls: []session.ToolCall{spawning("cook", "soup")}}, nil
			}
			return llm.Response{ToolCalls: []session.ToolCall{callOf("1", "stove")}}, nil
		})}
	})
	def := boss()
	def.Budget = budget
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	return h, s, working
}

// wantEnded fails unless the only child has ended and nothing is left to recover.
func wantEnded(t *testing.T, h *house, parent string) {
	t.Helper()
	infos := children(t, h, parent)
	if len(infos) != 1 {
		t.Fatalf("%d children", len(infos))
	}
	child, err := h.Get(t.Context(), infos[0].ID, holdfast.WithTail())
	if err != nil || child.Running() || child.Execution().Status != session.ExecutionStopped {
		t.Errorf("the child is %+v, %v", child.Execution(), err)
	}
	if done, err := h.Recover(t.Context()); err != nil || len(done) != 0 {
		t.Errorf("recovered %+v, %v", done, err)
	}
}

func TestSubagent_endsWhenItsParentsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // time passes when everybody waits: the child has begun then
		seconds := 15.0
		h, s, _ := openHangingCook(t, &session.Budget{MaxSeconds: &seconds})
		got := h.do(s.ID(), holdfast.SendMessage{Text: "cook"})
		if stop := got.Execution().Stop; stop == nil || stop.Reason != session.StopTime {
			t.Errorf("the parent stopped by %+v", stop)
		}
		wantEnded(t, h, s.ID())
	})
}

// interruptCook interrupts the boss while the cook works.
func interruptCook(t *testing.T, h *house, id string, working <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := h.Execute(ctx, id, holdfast.SendMessage{Text: "cook"})
		done <- err
	}()
	<-working
	cancel()
	if err := <-done; !errors.Is(err, session.ErrInterrupted) {
		t.Fatal(err)
	}
}

func TestSubagent_endsWhenItsParentIsAbandoned(t *testing.T) {
	h, s, working := openHangingCook(t, nil)
	interruptCook(t, h, s.ID(), working)
	h.do(s.ID(), holdfast.AbandonExecution{})
	wantEnded(t, h, s.ID())
}

// A child whose parent is gone is ended, not run.
func TestRecover_endsOrphans(t *testing.T) {
	h, s, working := openHangingCook(t, nil)
	interruptCook(t, h, s.ID(), working)
	if err := h.store.Delete(t.Context(), store.RefOf(s), 0); err != nil {
		t.Fatal(err)
	}
	done, err := h.Recover(t.Context())
	if err != nil || len(done) != 1 || done[0].Err != nil {
		t.Fatalf("recovered %+v, %v", done, err)
	}
	wantEnded(t, h, s.ID())
	if len(working) != 0 {
		t.Error("the orphan ran")
	}
}

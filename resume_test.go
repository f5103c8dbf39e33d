package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

func TestContinueExecution_asksOnlyWhatWasNotAnswered(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	h.interrupt(s.ID())
	got := h.do(s.ID(), holdfast.ContinueExecution{})
	if want := []string{"first", "hello"}; !slices.Equal(texts(got), want) || got.Version() != 2 {
		t.Errorf("transcript %v at version %d", texts(got), got.Version())
	}
	if e := got.Execution(); e.Number != 1 || e.Status != session.ExecutionCompleted {
		t.Errorf("execution %+v: a continuation is not a new one", e)
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.ContinueExecution{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("with nothing to continue: %v", err)
	}
}

func TestSendMessage_onABrokenOffTurnContinuesIt(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	h.interrupt(s.ID())
	got := h.do(s.ID(), holdfast.SendMessage{Text: "second"})
	if want := []string{"first", "second", "hello"}; !slices.Equal(texts(got), want) {
		t.Errorf("transcript %v, want %v", texts(got), want)
	}
	if e := got.Execution(); e.Number != 1 {
		t.Errorf("execution number %d", e.Number)
	}
}

func TestSendMessage_settlesOpenCallsBeforeItSpeaks(t *testing.T) {
	work := &counting{nature: tool.Once}
	h := open(t, func(c *holdfast.Config) {
		c.Tools = toolSet(t, work)
		script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("c1", "work"), callOf("c2", "work")}}, scripted.Reply{Text: "done"})
	})
	s := h.create()
	ctx, cancel := context.WithCancel(t.Context())
	work.cut = cancel
	if _, err := h.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "go"}); !errors.Is(err, session.ErrInterrupted) {
		t.Fatal(err)
	}
	got := h.do(s.ID(), holdfast.SendMessage{Text: "well?"})
	var roles []session.Role
	for _, m := range got.Messages() {
		roles = append(roles, m.Role)
	}
	want := []session.Role{session.RoleUser, session.RoleAssistant, session.RoleTool, session.RoleTool, session.RoleUser, session.RoleAssistant}
	if !slices.Equal(roles, want) || session.ValidTranscript(got.Messages()) != nil {
		t.Errorf("roles %v, want %v", roles, want)
	}
	if work.runs != 2 || !got.Message(2).ToolResult.Synthetic || got.Message(3).ToolResult.Content != "worked" {
		t.Errorf("%d runs, results %+v, %+v", work.runs, got.Message(2).ToolResult, got.Message(3).ToolResult)
	}
}

func TestExecute_otherActionsSealABrokenOffTurn(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	h.interrupt(s.ID())
	sealed := h.do(s.ID(), holdfast.RenameSession{To: "x"})
	if !sealed.Running() || sealed.Len() != 1 || sealed.Version() != 2 {
		t.Errorf("running %v, %d messages, version %d", sealed.Running(), sealed.Len(), sealed.Version())
	}
	if got := h.do(s.ID(), holdfast.ContinueExecution{}); got.Reply() != "hello" || got.Version() != 3 {
		t.Errorf("reply %q at version %d", got.Reply(), got.Version())
	}
}

func TestAbandonExecution(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	h.interrupt(s.ID())
	asked := len(h.model.Requests())
	got := h.do(s.ID(), holdfast.AbandonExecution{})
	if e := got.Execution(); e.Status != session.ExecutionStopped || e.Stop.Reason != session.StopInterrupted {
		t.Errorf("ended as %+v", e)
	}
	if len(h.model.Requests()) != asked {
		t.Error("the model was asked")
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.AbandonExecution{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("twice: %v", err)
	}
}

// counting is a tool that counts its runs and ends a context in the middle of
// the first.
type counting struct {
	nature tool.Nature
	runs   int
	cut    context.CancelFunc
}

func (c *counting) Spec() tool.Spec { return tool.Spec{Name: "work", Nature: c.nature} }

func (c *counting) Call(ctx context.Context, _ tool.Call) (tool.Result, error) {
	c.runs++
	if c.cut != nil {
		c.cut()
		c.cut = nil
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}
	return tool.Result{Content: "worked"}, nil
}

func TestResume_toolInFlightFollowsItsNature(t *testing.T) {
	for _, row := range []struct {
		nature    tool.Nature
		runs      int
		result    string
		synthetic bool
	}{
		{tool.ReadOnly, 2, "worked", false},
		{tool.Idempotent, 2, "worked", false},
		{tool.Once, 1, session.UnknownOutcome, true},
	} {
		t.Run("nature "+string(row.nature), func(t *testing.T) {
			work := &counting{nature: row.nature}
			var model *scripted.Model
			h := open(t, func(c *holdfast.Config) {
				c.Tools = toolSet(t, work)
				model = script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("c1", "work")}}, scripted.Reply{Text: "done"})
			})
			s := h.create()
			ctx, cancel := context.WithCancel(t.Context())
			work.cut = cancel
			if _, err := h.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "go"}); !errors.Is(err, session.ErrInterrupted) {
				t.Fatal(err)
			}
			got := h.do(s.ID(), holdfast.ContinueExecution{})
			result := got.Message(2).ToolResult
			if work.runs != row.runs || result.Content != row.result || result.Synthetic != row.synthetic {
				t.Errorf("%d runs, result %+v", work.runs, result)
			}
			if got.Reply() != "done" || len(model.Requests()) != 2 {
				t.Errorf("reply %q after %d model calls", got.Reply(), len(model.Requests()))
			}
			if e := got.Execution().Steps[0].ToolExecutions; len(e) != 1 || e[0].CompletedAt == nil {
				t.Errorf("tool executions %+v", e)
			}
		})
	}
}

func TestRecover_continuesWhatWasBrokenOff(t *testing.T) {
	h := open(t, nil)
	broken, whole, suspended := h.create(), h.create(), h.create()
	h.interrupt(broken.ID())
	h.do(whole.ID(), holdfast.SendMessage{Text: "hi"})
	h.interrupt(suspended.ID())
	h.do(suspended.ID(), holdfast.SuspendSession{})
	done, err := h.Recover(t.Context())
	if err != nil || len(done) != 1 || done[0].ID != broken.ID() || done[0].Err != nil || done[0].Version != 2 {
		t.Fatalf("recovered %+v, %v", done, err)
	}
	if got := h.stored(broken.ID()); got.Reply() != "hello" {
		t.Errorf("reply %q", got.Reply())
	}
}

func TestHold_manyActionsUnderOneLease(t *testing.T) {
	h := open(t, nil)
	s := h.create(holdfast.WithKind(session.KindTask))
	err := h.Hold(t.Context(), s.ID(), func(ctx context.Context, hold *holdfast.Hold) error {
		if _, err := h.Execute(ctx, s.ID(), holdfast.RenameSession{To: "x"}, holdfast.OnBusy(holdfast.Reject)); !errors.Is(err, session.ErrBusy) {
			t.Errorf("another got in: %v", err)
		}
		if _, err := hold.Append(ctx, session.TaskRowChanged{Task: session.TaskRow{Title: "fix it", Status: "executing"}}); err != nil {
			return err
		}
		if info, err := h.Info(ctx, s.ID()); err != nil || info.Task == nil || info.Task.Status != "executing" || info.Version != 1 {
			t.Errorf("the row is not seen at once: %+v, %v", info.Task, err)
		}
		got, err := hold.Execute(ctx, holdfast.WriteMetadata{Key: "k", Value: 1})
		if err != nil || got.Version() != 2 || got.Info().Task == nil {
			t.Errorf("version %d, %v", got.Version(), err)
		}
		if _, err := hold.Append(ctx, session.VariableStored{Key: "v", Value: []byte("1")}); err != nil {
			return err
		}
		_, err = hold.Execute(ctx, custom{name: "Fail", run: func(_ context.Context, s session.Session) (session.Session, error) { return s, errBoom }})
		if !errors.Is(err, errBoom) || hold.Session().Variables()["v"].Version != 1 {
			t.Errorf("a refused action took the tail with it: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tailed, err := h.Get(t.Context(), s.ID(), holdfast.WithTail())
	if err != nil || !tailed.HasTail() || tailed.Version() != 2 {
		t.Errorf("the end of a hold seals nothing: tail %v at version %d, %v", tailed.HasTail(), tailed.Version(), err)
	}
	if got := h.do(s.ID(), holdfast.RenameSession{To: "free"}); got.Variables()["v"].Version != 1 || got.Version() != 3 {
		t.Errorf("version %d, variables %v", got.Version(), got.Variables())
	}
}

func TestHold_concurrentAppendsAndSealsStandInLine(t *testing.T) {
	h := open(t, nil)
	s := h.create(holdfast.WithKind(session.KindWorkflow))
	const units = 8
	err := h.Hold(t.Context(), s.ID(), func(ctx context.Context, hold *holdfast.Hold) error {
		errs := make(chan error, units)
		for i := range units {
			go func() {
				key := string(rune('a' + i))
				_, err := hold.Append(ctx, session.VariableStored{Key: key, Value: []byte("1")})
				if err == nil {
					_, err = hold.Execute(ctx, holdfast.WriteMetadata{Key: key, Value: true})
				}
				errs <- err
			}()
		}
		for range units {
			if err := <-errs; err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.stored(s.ID()); got.Version() != 1+units || len(got.Variables()) != units || len(got.Metadata()) != units {
		t.Errorf("version %d, %d variables, %d keys", got.Version(), len(got.Variables()), len(got.Metadata()))
	}
}

func TestWatch_replaysThenFollows(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "one"})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // only so that a test that fails ends
	defer cancel()
	var last int64
	replayed := h.stored(s.ID()).Info().Seq
	sent := false
	var turn sync.WaitGroup
	for e, err := range h.Watch(ctx, s.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != last+1 {
			t.Fatalf("change %d follows %d", e.Seq, last)
		}
		last = e.Seq
		if last == replayed && !sent {
			sent = true
			turn.Go(func() {
				if _, err := h.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "two"}); err != nil {
					t.Error(err)
				}
			})
		}
		if _, ok := e.Change.(session.ExecutionFinished); ok && last > replayed {
			break
		}
	}
	if last <= replayed {
		t.Errorf("stopped at %d", last)
	}
	turn.Wait()
	h.do(s.ID(), holdfast.RenameSession{To: "x"})
	for e, err := range h.Watch(ctx, s.ID(), last) {
		if err != nil || e.Seq != last+1 {
			t.Fatalf("going on from %d gave %d, %v", last, e.Seq, err)
		}
		break
	}
}

func TestWatch_endsWithTheContextAndWithTheSession(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range h.Watch(ctx, s.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	var got error
	for _, err := range h.Watch(t.Context(), "nobody", 0) {
		got = err
	}
	if !errors.Is(got, session.ErrNotFound) {
		t.Errorf("watching nobody: %v", got)
	}
}

func TestDiff_listsTheChangesBetween(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	h.do(s.ID(), holdfast.RenameSession{To: "a"})
	h.do(s.ID(), holdfast.WriteMetadata{Key: "k", Value: 1})
	h.do(s.ID(), holdfast.RenameSession{To: "b"})
	changes, err := h.Diff(t.Context(), s.ID(), 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, c := range changes {
		kinds = append(kinds, c.Change.Kind())
	}
	if want := []string{"metadata_written", "name_changed"}; !slices.Equal(kinds, want) {
		t.Errorf("changes %v, want %v", kinds, want)
	}
	for _, v := range [][2]int64{{3, 2}, {0, 2}, {1, 9}} {
		if _, err := h.Diff(t.Context(), s.ID(), v[0], v[1]); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%v: %v", v, err)
		}
	}
}

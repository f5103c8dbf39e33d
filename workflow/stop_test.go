package workflow_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow"
)

const threeCalls = head + `
agents: {a: {prompt: A.}}
pattern: {type: chain, config: {steps: [{agent: a, input: one}, {agent: a, input: two}, {agent: a, input: three}]}}`

// inFlight is a scene whose second call begins and does not end until it is let
// go. The run ends into the channel.
func inFlight(t *testing.T, hold bool) (s *scene, let chan struct{}, ended chan error) {
	t.Helper()
	begun := make(chan struct{})
	let, ended = make(chan struct{}), make(chan error, 1)
	first := true
	s = newScene(t, func(r llm.Request) (llm.Response, error) {
		if input(r) != "two" || !first {
			return echo(r)
		}
		first = false
		close(begun)
		if hold {
			return said(""), errWait // until the caller gives up
		}
		<-let
		return echo(r)
	})
	s.id = workflow.NewSessionID()
	made, id := load(t, threeCalls, nil), s.id
	go func() {
		_, err := workflow.Start(t.Context(), s.rt, made, workflow.RunOptions{Host: s.host, ID: id, Out: s.out})
		ended <- err
	}()
	<-begun
	return s, let, ended
}

func TestCancel_endsALiveRunForGood(t *testing.T) {
	t.Parallel()
	s, _, ended := inFlight(t, true)
	if pending, err := workflow.Cancel(t.Context(), s.rt, s.id); err != nil || !pending {
		t.Fatalf("pending %t (%v)", pending, err)
	}
	var cancelled *workflow.CancelledError
	if err := <-ended; !errors.As(err, &cancelled) || cancelled.ID != s.id || !errors.Is(err, context.Canceled) {
		t.Fatalf("the run ended with %v", err)
	}
	if st := s.state(); st.Metadata.Status != workflow.StatusCancelled {
		t.Errorf("the run is %s", st.Metadata.Status)
	}
	var status *session.StatusError
	if _, err := s.resume(workflow.ResumeOptions{}); !errors.As(err, &status) || status.Status != "cancelled" {
		t.Errorf("resume: %v", err)
	}
	for name, stop := range map[string]func() (bool, error){
		"cancel":  func() (bool, error) { return workflow.Cancel(t.Context(), s.rt, s.id) },
		"suspend": func() (bool, error) { return workflow.Suspend(t.Context(), s.rt, s.id) },
	} {
		if _, err := stop(); !errors.Is(err, session.ErrStatus) {
			t.Errorf("%s a second time: %v", name, err)
		}
	}
	s.completes("re: three")(s.resume(workflow.ResumeOptions{Reopen: true}))
	s.wantInputs("one", "two", "two", "three")
}

func TestCancel_withdrawsWhatWaits(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("ok?")(s.start(head + `
agents: {a: {prompt: A.}}
pattern: {type: chain, config: {steps: [{agent: a, input: x}, {type: hitl, prompt: "ok?"}, {agent: a, input: "{{ hitl_response }}"}]}}`))
	if pending, err := workflow.Cancel(t.Context(), s.rt, s.id); err != nil || pending {
		t.Fatalf("pending %t (%v)", pending, err)
	}
	info, err := s.rt.Info(t.Context(), s.id)
	if err != nil || info.Pending != 0 || info.Workflow.Status != "cancelled" {
		t.Errorf("the header is %+v (%v)", info, err)
	}
	s.pauses("ok?")(s.resume(workflow.ResumeOptions{Reopen: true}))
	s.completes("re: yes")(s.answer("yes"))
}

// A run that has ended is refused, and nothing is left in its inbox, also while
// who worked on it has not let go of it.
func TestCancel_refusesARunThatHasJustEnded(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("re: x")(s.start(head + `
agents: {a: {prompt: A.}}
pattern: {type: chain, config: {steps: [{agent: a, input: x}]}}`))
	err := s.rt.Hold(t.Context(), s.id, func(ctx context.Context, _ *holdfast.Hold) error {
		for name, stop := range map[string]func(context.Context, *holdfast.Runtime, string) (bool, error){"cancel": workflow.Cancel, "suspend": workflow.Suspend} {
			if _, err := stop(ctx, s.rt, s.id); !errors.Is(err, session.ErrStatus) {
				t.Errorf("%s: %v", name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if items, err := s.rt.Inbox(t.Context(), s.id); err != nil || len(items) != 0 {
		t.Errorf("the inbox has %v, %v", items, err)
	}
}

// A request that nobody took, because who worked on the run died, counts later.
func TestCancel_countsWhenItIsFoundLater(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("ok?")(s.start(head + `
agents: {a: {prompt: A.}}
pattern: {type: chain, config: {steps: [{type: hitl, prompt: "ok?"}, {agent: a, input: x}]}}`))
	if _, err := s.rt.Post(t.Context(), s.id, store.Item{Kind: store.ItemCancel}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.answer("yes"); !errors.Is(err, context.Canceled) {
		t.Errorf("resume: %v", err)
	}
	if st := s.state(); st.Metadata.Status != workflow.StatusCancelled || s.calls() != 0 {
		t.Errorf("the run is %s after %d calls", st.Metadata.Status, s.calls())
	}
}

func TestSuspend_letsTheCallInFlightFinish(t *testing.T) {
	t.Parallel()
	s, let, ended := inFlight(t, false)
	if pending, err := workflow.Suspend(t.Context(), s.rt, s.id); err != nil || !pending {
		t.Fatalf("pending %t (%v)", pending, err)
	}
	close(let)
	switch err := <-ended; {
	case errors.Is(err, session.ErrInterrupted):
		s.completes("re: three")(s.resume(workflow.ResumeOptions{}))
	case err != nil: // it may also have come to its end before it heard of the request
		t.Fatalf("the run ended with %v", err)
	}
	s.wantInputs("one", "two", "three") // no call was made twice
}

func TestSuspend_theSecondBreaksOff(t *testing.T) {
	t.Parallel()
	s, _, ended := inFlight(t, true)
	for range 2 { // the second may find that the run has stopped already
		if _, err := workflow.Suspend(t.Context(), s.rt, s.id); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; !errors.Is(err, session.ErrInterrupted) {
		t.Fatalf("the run ended with %v", err)
	}
	items, err := s.rt.Inbox(t.Context(), s.id)
	if err != nil || len(items) != 0 {
		t.Errorf("the inbox still holds %v (%v)", items, err)
	}
	s.completes("re: three")(s.resume(workflow.ResumeOptions{}))
}

func TestStop_letsCallsInFlightFinishAndBeginsNothing(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		if input(r) == "two" {
			close(stop)
		}
		return echo(r)
	})
	s.host.Stop = stop
	res, err := s.start(threeCalls)
	if !errors.Is(err, session.ErrInterrupted) || res.Status != workflow.StatusPaused {
		t.Fatalf("the run is %+v (%v)", res, err)
	}
	s.wantInputs("one", "two")
	if res.LastResponse != "" || len(s.state().Agents) != 1 {
		t.Errorf("the run is %+v", res)
	}
	s.host.Stop = nil
	s.completes("re: three")(s.resume(workflow.ResumeOptions{}))
	s.wantInputs("one", "two", "three")
}

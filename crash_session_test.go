package holdfast_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// What a crashed turn has to be, besides what every crash test checks.

// loadTurn reads what the log holds of the turn.
func loadTurn(ctx context.Context, r *crashtest.Run, st store.Store) (crashtest.Found, error) {
	s, err := st.Load(ctx, store.Ref{Tenant: r.ID, ID: r.ID}, true)
	f := crashtest.Found{Answers: map[string]bool{}, Started: map[string]bool{}, Results: map[string]bool{}, State: s}
	if err != nil || s.Execution() == nil {
		return f, err
	}
	for i, step := range s.Execution().Steps {
		f.Answers[answerKey(i+1)] = true
		for _, e := range step.ToolExecutions {
			f.Started[e.CallID] = true
			if e.CompletedAt != nil {
				f.Results[e.CallID] = true
			}
		}
	}
	return f, nil
}

// nothingLost fails where something happened that relied on what the log does
// not hold: a tool runs when its answer is there, an answer is asked for when
// all results before it are.
func nothingLost(r *crashtest.Run) (faults []error) {
	effects, err := r.Effects()
	if err != nil {
		return []error{err}
	}
	now := r.Last
	for _, e := range effects {
		if e.What != crashtest.Asked {
			if step, _ := callOrigin(e.Key); step > len(now.Answers) || !now.Started[e.Key] {
				faults = append(faults, fmt.Errorf("call %s ran, but the log holds %d answers and the begin of %v", e.Key, len(now.Answers), now.Started))
			}
			continue
		}
		step := answerStep(e.Key)
		if step > len(now.Answers)+1 {
			faults = append(faults, fmt.Errorf("%s was asked for with %d in the log", e.Key, len(now.Answers)))
		}
		for _, call := range slices.Concat(crashCalls[:step-1]...) {
			if !now.Results[call.ID] {
				faults = append(faults, fmt.Errorf("%s was asked for without the result of %s in the log", e.Key, call.ID))
			}
		}
	}
	return faults
}

// sameRequests compares all requests with those of an undisturbed run.
func sameRequests(r, undisturbed *crashtest.Run) (faults []error) {
	effects, err := r.Effects()
	wanted, undisturbedErr := undisturbed.Effects()
	if err != nil || undisturbedErr != nil {
		return []error{err, undisturbedErr}
	}
	bodies := map[string]string{}
	for _, e := range wanted {
		bodies[e.Key] = e.Detail
	}
	for _, e := range effects {
		if e.What != crashtest.Asked {
			continue
		}
		if err := sameRequest(e, bodies[e.Key], r.Lives[e.Life].Unknown); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// sameRequest compares a request with that of an undisturbed run. They differ
// only where the model is told of unknown outcomes, and then it is told.
func sameRequest(e crashtest.Effect, want string, unknown map[string]bool) error {
	told := 0
	for call := range unknown {
		if step, _ := callOrigin(call); step < answerStep(e.Key) {
			told++
		}
	}
	if n := strings.Count(e.Detail, session.UnknownOutcome); n != told {
		return fmt.Errorf("the request for %s tells of %d unknown outcomes, want %d", e.Key, n, told)
	}
	if told == 0 && e.Detail != want {
		return fmt.Errorf("the request for %s is not that of an undisturbed run\n got %s\nwant %s", e.Key, e.Detail, want)
	}
	return nil
}

// What is sent after a crash is compared with what is sent without one.
func TestCrashAccount_seesAnotherRequest(t *testing.T) {
	t.Parallel()
	for body, good := range map[string][2]bool{ // with all outcomes known, and with one unknown
		"as ever":                         {true, false},
		"something else":                  {false, false},
		"it is " + session.UnknownOutcome: {false, true},
	} {
		for i, unknown := range []map[string]bool{nil, {"pay": true}} {
			err := sameRequest(crashtest.Effect{What: crashtest.Asked, Key: answerKey(3), Detail: body}, "as ever", unknown)
			if (err == nil) != good[i] {
				t.Errorf("%q with %v unknown: %v", body, unknown, err)
			}
		}
	}
}

// sameSession compares the session with that of an undisturbed run, in which
// the calls of unknown outcome are shown as such.
func sameSession(r, undisturbed *crashtest.Run) []error {
	unknown := r.Lives[len(r.Lives)-1].Unknown
	got := crashtest.Parts{"the session": picture(r.Last.State.(session.Session), nil)}
	return got.Differ(crashtest.Parts{"the session": picture(undisturbed.Last.State.(session.Session), unknown)})
}

func withoutID(text, id string) string { return strings.ReplaceAll(text, id, "ID") }

// picture is everything of a session that does not differ from run to run:
// all but ids of our own, times, and in which order results came that were
// worked for side by side. Calls in unknown are shown as such.
func picture(s session.Session, unknown map[string]bool) string {
	var b strings.Builder
	line := func(parts ...any) { fmt.Fprintln(&b, parts...) }
	info, state := s.Info(), s.State()
	line("version", info.Version, info.Status, "messages", info.MessageCount, "tail", s.HasTail())
	line("executions", state.ExecutionCount, "inferences", state.InferenceCount, "used", plain(state.Usage), state.Cost)
	var results []string // of one step, to be shown in the order of their call ids
	show := func() {
		slices.Sort(results)
		b.WriteString(strings.Join(results, ""))
		results = nil
	}
	for _, m := range s.Messages() {
		if m.ToolResult != nil {
			result := *m.ToolResult
			if unknown[result.CallID] {
				result.Content, result.IsError, result.Synthetic = session.UnknownOutcome, true, true
			}
			results = append(results, fmt.Sprintf("%s %s %+v\n", result.CallID, m.Role, result))
			continue
		}
		show()
		line(m.Role, m.Name, m.Trace, plain(m.Content), plain(m.ToolCalls))
	}
	show()
	e := s.Execution()
	if e == nil {
		return b.String() + "no execution"
	}
	line("execution", e.Number, e.Status, plain(e.Stop), plain(e.Signals), plain(e.Usage), e.Cost, e.Errors)
	for _, step := range e.Steps {
		line("step", step.Number, step.Type, step.Model, step.FinishReason, plain(step.Usage), step.Errors, len(step.MessageIDs), step.CompletedAt != nil)
		for _, x := range step.ToolExecutions {
			isUnknown := unknown[x.CallID]
			line(x.CallID, x.ToolName, x.CompletedAt != nil, x.IsError || isUnknown, x.Synthetic || isUnknown)
		}
	}
	return withoutID(b.String(), s.ID())
}

// plain is a value as JSON; those of a session always encode.
func plain(v any) string {
	raw, err := session.JSON(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

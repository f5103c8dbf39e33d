package workflow_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/workflow"
)

// patience runs a spec with a failure policy against a model that is busy for
// some calls, and tells when each call came, in seconds.
func patience(t *testing.T, policy string, busy int, after time.Duration) (at []time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var s *scene
		var began time.Time
		s = newScene(t, func(r llm.Request) (llm.Response, error) {
			at = append(at, time.Since(began))
			if len(at) <= busy {
				return llm.Response{}, &llm.TransientError{After: after, Err: errors.New("busy")}
			}
			return echo(r)
		})
		began = time.Now()
		_, err = s.start(strings.Replace(head, ", failure_policy: {wait_min: 0, wait_max: 0}", policy, 1) + `
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a, input: x}]}}
`)
	})
	return at, err
}

func TestRetry_waitsAsThePolicySays(t *testing.T) {
	t.Parallel()
	second := time.Second
	for _, c := range []struct {
		name, policy string
		busy         int
		after        time.Duration
		want         []time.Duration
	}{
		{"no policy", "", 2, 0, []time.Duration{0, second, 3 * second}},
		{"exponential", ", failure_policy: {retries: 4, wait_min: 0, wait_max: 5}", 4, 0, []time.Duration{0, second, 3 * second, 7 * second, 12 * second}},
		{"at least wait_min", ", failure_policy: {retries: 2, wait_min: 3}", 2, 0, []time.Duration{0, 3 * second, 6 * second}},
		{"constant", ", failure_policy: {retries: 3, backoff: constant, wait_min: 2}", 3, 0, []time.Duration{0, 2 * second, 4 * second, 6 * second}},
		{"a server asks for more", ", failure_policy: {retries: 1, wait_max: 10}", 1, 7 * second, []time.Duration{0, 7 * second}},
		{"a server asks for too much", ", failure_policy: {retries: 1, wait_max: 10}", 1, time.Hour, []time.Duration{0, 10 * second}},
		{"a server asks for less", ", failure_policy: {retries: 1, wait_min: 4, wait_max: 10}", 1, second, []time.Duration{0, 4 * second}},
		{"longer than two minutes", ", failure_policy: {retries: 1, wait_min: 200, wait_max: 300}", 1, 0, []time.Duration{0, 200 * second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at, err := patience(t, c.policy, c.busy, c.after)
			if err != nil || len(at) != len(c.want) {
				t.Fatalf("calls at %v (%v), want %v", at, err, c.want)
			}
			for i := range at {
				if at[i].Round(time.Millisecond) != c.want[i] {
					t.Errorf("calls at %v, want %v", at, c.want)
					break
				}
			}
		})
	}
}

func TestRetry_jitteredStaysBetweenItsBounds(t *testing.T) {
	t.Parallel()
	at, err := patience(t, ", failure_policy: {retries: 5, backoff: jittered, wait_min: 1, wait_max: 8}", 5, 0)
	if err != nil || len(at) != 6 {
		t.Fatalf("calls at %v (%v)", at, err)
	}
	for i, most := range []float64{1, 2, 4, 8, 8} {
		if wait := at[i+1] - at[i]; wait < time.Second || wait.Seconds() > most {
			t.Errorf("wait %d was %s", i+1, wait)
		}
	}
}

func TestRetry_givesUpAfterAllTriesAndGoesOnWithTheSameMessage(t *testing.T) {
	t.Parallel()
	var busy atomic.Bool
	busy.Store(true)
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		if busy.Load() && input(r) == "b re: a" {
			return llm.Response{}, &llm.TransientError{Err: errors.New("busy")}
		}
		return echo(r)
	})
	var voids []string
	s.host.OnUpdate = func(u holdfast.Update) {
		if u.Dropped != nil {
			voids = append(voids, u.Dropped.Unit)
		}
	}
	s.fails(workflow.KindProvider, "step/1", "3 attempts failed", "busy")(s.start(head + `
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a, input: a}, {agent: a, input: "b {{ steps[0].response }}"}]}}
`))
	if strings.Join(voids, ",") != "step/1,step/1,step/1" {
		t.Errorf("void: %q", voids)
	}
	if st := s.state(); *st.Metadata.Error != "ProviderError: step/1: 3 attempts failed: busy" {
		t.Errorf("the error is %q", *st.Metadata.Error)
	}
	busy.Store(false)
	s.completes("re: b re: a")(s.resume(workflow.ResumeOptions{}))
	s.wantInputs("a", "b re: a", "b re: a", "b re: a", "b re: a")
	if got := len(s.asked[4].Messages); got != 3 {
		t.Errorf("the message of the resumed unit is there %d times", got-2)
	}
}

func TestRetry_otherErrorsFailAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(llm.Request) (llm.Response, error) { return llm.Response{}, errors.New("bad key") })
	s.fails(workflow.KindProvider, "step/0", "bad key")(s.start(head + `
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a, input: a}]}}
`))
	if s.calls() != 1 {
		t.Errorf("%d calls", s.calls())
	}
}

func TestUsage_isEstimatedWhereAProviderTellsNone(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		response := said("one two three")
		if r.Agent == "b" {
			response.Usage.Input, response.Usage.Output = 0, 0
		}
		return response, nil
	})
	s.completes("one two three")(s.start(head + `
agents: {a: {prompt: A}, b: {prompt: B}}
pattern: {type: chain, config: {steps: [{agent: a, input: "x y"}, {agent: b, input: "x y"}]}}
`))
	st := s.state()
	if st.Agents["a"].Estimated || !st.Agents["b"].Estimated || st.Usage.ByAgent["a"] != 15 || st.Usage.ByAgent["b"] != 5 || st.Usage.Input != 12 || st.Usage.Output != 8 {
		t.Errorf("used %+v, %+v", st.Usage, st.Agents)
	}
}

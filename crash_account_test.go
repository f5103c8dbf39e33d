package holdfast_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// crashCounts is what many runs come to.
type crashCounts struct {
	kills         int
	found         [5]int // kills by how many answers the log held then
	answersAgain  int    // requests for an answer that was in the log: must be 0
	finishedAgain int    // runs of a tool whose result was in the log: must be 0
	onceAgain     int    // second runs of a tool that must not run twice: must be 0
	lostAnswers   int    // requests for an answer that no log had, though it was asked for before
	harmlessAgain int    // second runs of read-only and idempotent tools cut off by a kill
	unknown       int    // calls told to the model as of unknown outcome
}

func (c *crashCounts) add(o crashCounts) {
	c.kills += o.kills
	for i, n := range o.found {
		c.found[i] += n
	}
	c.answersAgain += o.answersAgain
	c.finishedAgain += o.finishedAgain
	c.onceAgain += o.onceAgain
	c.lostAnswers += o.lostAnswers
	c.harmlessAgain += o.harmlessAgain
	c.unknown += o.unknown
}

func (c crashCounts) String() string {
	return fmt.Sprintf("%d kills (%d with 0 to 4 answers in the log): %d durable answers asked for again, %d finished tools run again, %d tools run twice that must not; "+
		"%d answers asked for again that were not written yet, %d harmless tools run again, %d calls told as of unknown outcome",
		c.kills, c.found, c.answersAgain, c.finishedAgain, c.onceAgain, c.lostAnswers, c.harmlessAgain, c.unknown)
}

// account compares what each process of a run did with what it found in the
// log, and the session in the end with that of an undisturbed run.
func (r *crashRun) account() (crashCounts, error) {
	c := r.killed
	traces, err := r.traces()
	if err != nil {
		return c, err
	}
	asks := r.requests()
	var faults []error
	for i := range r.lives {
		faults = append(faults, r.accountAsks(&c, i, asks)...)
		faults = append(faults, r.accountTools(&c, i, traces)...)
	}
	for step := range crashCalls {
		if !slices.ContainsFunc(asks, func(a ask) bool { return a.step == step+1 }) {
			faults = append(faults, fmt.Errorf("answer %d was never asked for", step+1))
		}
	}
	c.unknown = len(r.lives[len(r.lives)-1].told)
	return c, errors.Join(append(faults, r.sameSession())...)
}

// accountAsks finds requests of one life for answers that were in the log. Of
// the others at most one may have been asked for before: the one a kill cut off.
func (r *crashRun) accountAsks(c *crashCounts, life int, asks []ask) (faults []error) {
	found, lost, mine := r.lives[life].found, 0, map[int]bool{}
	for _, a := range asks {
		if a.life != life {
			continue
		}
		switch {
		case a.step <= found.answers || mine[a.step]:
			c.answersAgain++
			faults = append(faults, fmt.Errorf("answer %d was asked for again, with %d in the log", a.step, found.answers))
		case slices.ContainsFunc(asks, func(o ask) bool { return o.step == a.step && o.life < life }):
			lost++
		}
		mine[a.step] = true
		if err := r.sameRequest(a); err != nil {
			faults = append(faults, err)
		}
	}
	c.lostAnswers += lost
	if lost > 1 {
		faults = append(faults, fmt.Errorf("%d answers were lost in one crash", lost))
	}
	return faults
}

// sameRequest compares a request with that of an undisturbed run. They differ
// only where the model is told of unknown outcomes, and then it is told.
func (r *crashRun) sameRequest(a ask) error {
	told := 0
	for call := range r.lives[a.life].told {
		if step, _ := callOrigin(call); step < a.step {
			told++
		}
	}
	if n := strings.Count(a.body, session.UnknownOutcome); n != told {
		return fmt.Errorf("request %d tells of %d unknown outcomes, want %d", a.step, n, told)
	}
	if want := r.site.bodies[a.step]; told == 0 && want != "" && a.body != want {
		return fmt.Errorf("request %d is not that of an undisturbed run\n got %s\nwant %s", a.step, a.body, want)
	}
	return nil
}

// accountTools finds runs of tools in one life that should not have been.
func (r *crashRun) accountTools(c *crashCounts, life int, traces []trace) (faults []error) {
	found, mine := r.lives[life].found, map[string]bool{}
	for _, t := range traces {
		if t.what != "began" || t.life != life {
			continue
		}
		_, nature := callOrigin(t.call)
		again := slices.ContainsFunc(traces, func(o trace) bool { return o.call == t.call && o.life < life })
		switch {
		case found.finished[t.call] || mine[t.call]:
			c.finishedAgain++
			faults = append(faults, fmt.Errorf("call %s ran again after its result was written", t.call))
		case nature == tool.Once && (again || found.started[t.call]):
			c.onceAgain++
			faults = append(faults, fmt.Errorf("call %s ran again, which it must not", t.call))
		case again:
			c.harmlessAgain++
		}
		mine[t.call] = true
	}
	return faults
}

// sameSession compares the session with that of an undisturbed run, in which
// the calls of unknown outcome are told as such.
func (r *crashRun) sameSession() error {
	told := r.lives[len(r.lives)-1].told
	if got, want := picture(r.after, nil), r.site.picture(told); got != want {
		return fmt.Errorf("the session is not that of an undisturbed run with %v unknown\n got %s\nwant %s", slices.Collect(maps.Keys(told)), got, want)
	}
	return nil
}

// picture is everything of a session that does not differ from run to run:
// all but ids of our own, times, and in which order results came that were
// worked for side by side. Calls in told are shown as of unknown outcome.
func picture(s session.Session, told map[string]bool) string {
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
			if told[result.CallID] {
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
			unknown := told[x.CallID]
			line(x.CallID, x.ToolName, x.CompletedAt != nil, x.IsError || unknown, x.Synthetic || unknown)
		}
	}
	return strings.ReplaceAll(b.String(), s.ID(), "ID")
}

// plain is a value as JSON; those of a session always encode.
func plain(v any) string {
	raw, err := session.JSON(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

package task

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
)

// Names of hints in the counters of a step: each is given once.
const (
	hintRepeated   = "repeated_call"
	hintTarget     = "same_target"
	hintEscalation = "low_progress"
	hintCalls      = "tool_stops"
	hintCut        = "token_stops"
	hintWrapUp     = "wrap_up"
)

const (
	equalCalls    = 5
	mixedCalls    = 12
	targetCalls   = 6
	targetOf8     = 8
	callsInRow    = 6
	cutsInRow     = 2
	escalateAfter = 3 // calls since the first hint about a target
)

// hint says to the model what it should know before its next turn: that turns
// run out, and that it turns in circles.
func (w *work) hint(ctx context.Context) error {
	if text, landing, due := w.r.softLanding(w.mode); due {
		m := w.r.fresh(session.Message{Role: session.RoleUser, Trace: true, Content: session.Text(text)})
		err := w.r.append(ctx, edit{
			changes: []session.Change{session.MessageAdded{Message: m}, landing},
			state:   func(s *session.TaskState) { s.Loop.LandingNoted = true },
		})
		if err != nil {
			return err
		}
	}
	name, text := circles(w.history(), w.counts().Notes)
	if name == "" {
		return nil
	}
	return w.note(ctx, name, text, nil)
}

const hintKey = "hint" // in a message's metadata: which one it gives

// used is a call as circles are found in.
type used struct {
	tool, target, input string
	use                 use
}

// history is what a step has done, as far as the window shows it.
type history struct {
	calls []used
	stops int // answers in a row, at the end, that called tools and said nothing
	cuts  int // answers in a row, at the end, that were cut off
	since int // calls since the hint about a target
}

// history reads what the running execution has done.
func (w *work) history() history {
	var h history
	s := w.r.session()
	finish := map[string]string{}
	for _, step := range s.Execution().Steps {
		finish[step.ID] = step.FinishReason
	}
	for _, m := range s.WindowMessages() {
		if m.ExecutionID != s.Execution().ID {
			continue
		}
		if m.Metadata.String(hintKey) == hintTarget {
			h.since = 0
		}
		if m.Role != session.RoleAssistant {
			continue
		}
		for _, call := range m.ToolCalls {
			u := used{tool: call.Name, target: targetOf(call), input: sortedInput(call.Arguments), use: useOf(call.Name, w.r.specOf(call.Name).Effects)}
			h.calls = append(h.calls, u)
			h.since++
		}
		h.stops = inRow(h.stops, len(m.ToolCalls) > 0 && m.Content.Blank())
		h.cuts = inRow(h.cuts, cutOff(finish[m.StepID]))
	}
	return h
}

func inRow(n int, again bool) int {
	if again {
		return n + 1
	}
	return 0
}

// circles is the hint that is due, "" for none.
func circles(h history, given session.Set) (name, text string) {
	if n := len(h.calls); n > 0 && !given.Has(hintRepeated) {
		last := h.calls[n-1]
		if equal := equalAtEnd(h.calls); equal >= equalCalls && !mixed(h.calls[max(0, n-mixedCalls):]) {
			return hintRepeated, fmt.Sprintf(repeatedCallText, last.tool, last.target, equal)
		}
	}
	if b := busiest(h.calls); b.calls >= targetCalls && b.tools >= 2 && b.inputs >= 3 {
		if !given.Has(hintTarget) {
			return hintTarget, fmt.Sprintf(sameTargetText, b.target)
		}
		if !given.Has(hintEscalation) && h.since >= escalateAfter {
			return hintEscalation, fmt.Sprintf(escalationText, b.target)
		}
	}
	if h.stops >= callsInRow && !given.Has(hintCalls) {
		return hintCalls, manyCallsText
	}
	if h.cuts >= cutsInRow && !given.Has(hintCut) {
		return hintCut, shorterText
	}
	return "", ""
}

// equalAtEnd is how many of the last calls have one tool and one target.
func equalAtEnd(calls []used) int {
	n := 0
	for i := len(calls) - 1; i >= 0; i-- {
		if calls[i].tool != calls[len(calls)-1].tool || calls[i].target != calls[len(calls)-1].target {
			break
		}
		n++
	}
	return n
}

// mixed reports calls of which some read and some write: work, not a circle.
func mixed(calls []used) bool {
	reads, writes := false, false
	for _, c := range calls {
		reads = reads || c.use == usesRead || c.use == usesList || c.use == usesSearch
		writes = writes || c.use == usesWrite
	}
	return reads && writes
}

// busy is a target and how the last calls were about it.
type busy struct {
	target               string
	calls, tools, inputs int
}

// busiest is the target that most of the last eight calls were about.
func busiest(calls []used) busy {
	last := calls[max(0, len(calls)-targetOf8):]
	var best busy
	for _, c := range last {
		b := busy{target: c.target}
		tools, inputs := map[string]bool{}, map[string]bool{}
		for _, o := range last {
			if o.target == c.target {
				b.calls++
				tools[o.tool], inputs[o.input] = true, true
			}
		}
		if b.tools, b.inputs = len(tools), len(inputs); b.calls > best.calls {
			best = b
		}
	}
	return best
}

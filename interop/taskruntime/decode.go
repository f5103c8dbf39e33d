package taskruntime

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// decoded is a snapshot that was read.
type decoded struct {
	state    State
	turns    []passage
	summary  *planSummary
	used     bool // it says what was used
	warnings []string
}

func (d *decoded) warn(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

// decode reads a snapshot into a state of its own: all of it, or a fieldError.
func (c candidate) decode() (*decoded, error) {
	d := &decoded{state: newState()}
	value, ok := c.object.get("conversationHistory")
	if !ok {
		return nil, &fieldError{"conversationHistory", "is missing"}
	}
	var err error
	if d.turns, err = readHistory(value); err != nil {
		return nil, err
	}
	if err := d.readBuckets(c); err != nil {
		return nil, err
	}
	if err := d.readRest(c); err != nil {
		return nil, err
	}
	if value, ok := c.object.get("truncated"); ok && string(value) != "[]" && string(value) != "null" {
		d.warn("%s: parts of its history were cut when it was exported", c.where)
	}
	return d, nil
}

// readBuckets reads the buckets; of those that a snapshot of an older form has
// not, the defaults stay.
func (d *decoded) readBuckets(c candidate) error {
	for _, b := range buckets {
		if c.legacy && b.name != "trackerState" {
			continue
		}
		value, ok := c.object.get(b.name)
		switch {
		case !ok && b.required:
			return &fieldError{b.name, "is missing"}
		case !ok, string(value) == "null" && !b.required:
			continue
		}
		if err := d.readBucket(b, value); err != nil {
			return err
		}
	}
	return d.readSignal()
}

func (d *decoded) readBucket(b bucket, value json.RawMessage) error {
	if err := b.read(value, &d.state, d.keep); err != nil {
		return err
	}
	for _, path := range altered(b.name, value, b.write(&d.state).value) {
		d.warn("%s: not kept as it came", path)
	}
	return nil
}

const signalKey = "queues.stepFeedbackSignal"

// readSignal puts the feedback that stands alone before the rest.
func (d *decoded) readSignal() error {
	value, ok := d.state.Imported.Get(signalKey)
	if !ok {
		return nil
	}
	var first session.StepFeedback
	if err := json.Unmarshal(value, &first); err != nil {
		return &fieldError{signalKey, reasonOf(err)}
	}
	q := &d.state.Queues
	q.Feedback = append([]session.StepFeedback{first}, q.Feedback...)
	d.state.Imported = d.state.Imported.Without(signalKey)
	return nil
}

// keep keeps what nobody here knows, without credentials.
func (d *decoded) keep(key string, value json.RawMessage) {
	last := key[strings.LastIndexByte(key, '.')+1:]
	if session.SecretKey(last) {
		d.warn("%s: looks like a credential and is left out", key)
		return
	}
	clean, left := withoutSecrets(key, value)
	for _, path := range left {
		d.warn("%s: looks like a credential and is left out", path)
	}
	d.state.Imported = d.state.Imported.With(key, clean)
}

// readTotals reads the totals and keeps what stands beside them.
func (d *decoded) readTotals(m member, t *usageTotals) error {
	o, err := readObject(m.value)
	if err != nil && string(m.value) != "null" {
		return &fieldError{m.key, err.Error()}
	}
	known := map[string]any{"inputTokens": &t.InputTokens, "outputTokens": &t.OutputTokens, "cost": &t.Cost}
	for _, part := range o {
		into, ok := known[part.key]
		if !ok {
			d.keep(m.key+"."+part.key, part.value)
		} else if err := json.Unmarshal(part.value, into); err != nil {
			return &fieldError{m.key + "." + part.key, reasonOf(err)}
		}
	}
	return nil
}

// readRest reads what is not in a bucket. What the format knows nothing of is
// kept as it came.
func (d *decoded) readRest(c candidate) error {
	s := &d.state
	var totals usageTotals
	split := false
	for _, m := range c.object {
		var into any
		switch m.key {
		case "plan":
			into = &s.Plan
		case "approvals":
			into = &s.Approvals
		case "usage":
			split = string(m.value) != "null"
			continue
		case "usageTotals":
			if err := d.readTotals(m, &totals); err != nil {
				return err
			}
			continue
		case "planSummary":
			into = &d.summary
			d.state.Imported = d.state.Imported.With(m.key, m.value)
		case "explicitChatSummaryBlock", "explicitChatSummaryCreatedAt", "explicitChatSummarySourceMessageCount":
			if !c.legacy {
				d.keep(m.key, m.value)
				continue
			}
			d.keep("transcript."+m.key, m.value)
			continue
		case "modelId", "modelKey", "llmProfileUsed", "resolvedModelKey":
			d.state.Imported = d.state.Imported.With(m.key, m.value)
			continue
		default:
			switch {
			case inBucket(m.key):
				d.warn("%s: has the name of a part of another field and is left out", m.key)
			case !known(m.key):
				d.keep(m.key, m.value)
			}
			continue
		}
		if err := json.Unmarshal(m.value, into); err != nil {
			return &fieldError{m.key, reasonOf(err)}
		}
	}
	if !split {
		s.Usage = session.TaskUsage{Input: totals.InputTokens, Output: totals.OutputTokens, Cost: totals.Cost}
	}
	d.used = s.Usage != session.TaskUsage{}
	return d.checkPlan()
}

func (d *decoded) checkPlan() error {
	if d.state.Plan == nil {
		return nil
	}
	seen := map[string]bool{}
	for i, step := range d.state.Plan.Steps {
		if step.ID == "" || seen[step.ID] {
			return &fieldError{fmt.Sprintf("plan.steps[%d].id", i), fmt.Sprintf("%q is not its own", step.ID)}
		}
		seen[step.ID] = true
	}
	return nil
}

// fillOutputs takes what was said last from the history, where the snapshot
// does not say; those of older forms do not say what the user said either.
func (d *decoded) fillOutputs(legacy bool) {
	t := &d.state.Said
	for i := len(d.turns) - 1; i >= 0; i-- {
		words := d.turns[i].words()
		if strings.TrimSpace(words) == "" || words == takenNoteText { // which is no answer
			continue
		}
		if d.turns[i].role == roleAssistant {
			for _, out := range []**string{&t.Answer, &t.Result, &t.Shown} {
				if *out == nil {
					*out = &words
				}
			}
			break
		}
	}
	for i := len(d.turns) - 1; legacy && i >= 0 && t.User == ""; i-- {
		if d.turns[i].role == roleUser {
			t.User = d.turns[i].words()
		}
	}
}

const previousContext = "PREVIOUS TASK CONTEXT"

// withContext begins a history with what is known of a plan that is gone.
func withContext(turns []passage, s planSummary) []passage {
	if len(turns) == 0 || turns[0].role != roleUser || strings.Contains(turns[0].words(), previousContext) {
		return turns
	}
	lines := []string{previousContext + ":", "Task plan: " + s.Description}
	if len(s.CompletedSteps) > 0 {
		lines = append(lines, "Completed steps:")
		for _, step := range s.CompletedSteps {
			lines = append(lines, "  - "+step)
		}
	}
	if len(s.FailedSteps) > 0 {
		lines = append(lines, "Failed steps:")
		for _, step := range s.FailedSteps {
			lines = append(lines, fmt.Sprintf("  - %s (%s)", step.Description, step.Error))
		}
	}
	context := strings.Join(append(lines, ""), "\n")
	first := passage{role: roleUser}
	if turns[0].text != nil {
		text := context + "\n" + *turns[0].text
		first.text = &text
	} else {
		first.blocks = append([]block{textBlock(context)}, turns[0].blocks...)
	}
	return append([]passage{first}, turns[1:]...)
}

// withoutSecrets takes out members that by their names are credentials, and
// names them.
func withoutSecrets(path string, value json.RawMessage) (json.RawMessage, []string) {
	if o, err := readObject(value); err == nil {
		var kept object
		var left []string
		for _, m := range o {
			at := path + "." + m.key
			if session.SecretKey(m.key) {
				left = append(left, at)
				continue
			}
			inner, more := withoutSecrets(at, m.value)
			kept, left = append(kept, member{m.key, inner}), append(left, more...)
		}
		if len(left) == 0 {
			return value, nil
		}
		return kept.JSON(), left
	}
	list, ok := array(value)
	if !ok {
		return value, nil
	}
	out := []byte{'['}
	var left []string
	for i := range list {
		inner, more := withoutSecrets(fmt.Sprintf("%s[%d]", path, i), list[i])
		if i > 0 {
			out = append(out, ',')
		}
		out, left = append(out, inner...), append(left, more...)
	}
	if len(left) == 0 {
		return value, nil
	}
	return append(out, ']'), left
}

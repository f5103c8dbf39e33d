package taskruntime

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// decoded is the content of a snapshot.
type decoded struct {
	state    session.TaskState
	history  []historyMessage
	summary  *planSummary
	hasUsage bool // the snapshot has usage totals
	warnings []string
}

func (d *decoded) warn(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

// decode reads the whole snapshot, or returns a fieldError.
func (c candidate) decode() (*decoded, error) {
	d := &decoded{state: session.NewTaskState()}
	value, ok := c.object.get("conversationHistory")
	if !ok {
		return nil, &fieldError{"conversationHistory", "is missing"}
	}
	var err error
	if d.history, err = readHistory(value); err != nil {
		return nil, err
	}
	if err := d.readBuckets(c); err != nil {
		return nil, err
	}
	if err := d.readRest(c); err != nil {
		return nil, err
	}
	if value, ok := c.object.get("truncated"); ok && string(value) != "[]" && string(value) != "null" {
		d.warn("%s: its history was cut by a compact export", c.where)
	}
	return d, nil
}

// readBuckets reads the buckets. A snapshot of an older format has only
// trackerState; the other buckets keep their defaults.
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
	for _, path := range differences(b.name, value, b.write(&d.state).value) {
		d.warn("%s: the value was changed to one that a task can keep", path)
	}
	return nil
}

const signalKey = "queues.stepFeedbackSignal"

// readSignal puts the feedback that has a field of its own first in the queue.
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

// keep stores an unknown field for the next export, without credentials.
func (d *decoded) keep(key string, value json.RawMessage) {
	last := key[strings.LastIndexByte(key, '.')+1:]
	if session.SecretKey(last) {
		d.warn("%s: looks like a credential and is left out", key)
		return
	}
	clean, left := removeSecrets(key, value)
	for _, path := range left {
		d.warn("%s: looks like a credential and is left out", path)
	}
	d.state.Imported = d.state.Imported.With(key, clean)
}

// readTotals reads the totals and keeps unknown fields beside them.
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

// readRest reads the fields outside buckets and keeps unknown ones.
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
			key := m.key
			if c.legacy {
				key = "transcript." + key
			}
			d.keep(key, m.value)
			continue
		case "modelId", "modelKey", "llmProfileUsed", "resolvedModelKey":
			d.state.Imported = d.state.Imported.With(m.key, m.value)
			continue
		default:
			switch {
			case inBucket(m.key):
				d.warn("%s: has the name of a field inside a bucket and is left out", m.key)
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
	d.hasUsage = s.Usage != session.TaskUsage{}
	return d.checkPlan()
}

func (d *decoded) checkPlan() error {
	if d.state.Plan == nil {
		return nil
	}
	seen := map[string]bool{}
	for i, step := range d.state.Plan.Steps {
		if step.ID == "" || seen[step.ID] {
			return &fieldError{fmt.Sprintf("plan.steps[%d].id", i), fmt.Sprintf("%q is empty or a duplicate", step.ID)}
		}
		seen[step.ID] = true
	}
	return nil
}

// fillOutputs takes the last answers from the history where the snapshot does
// not have them. Older formats do not have the last user message either.
func (d *decoded) fillOutputs(legacy bool) {
	t := &d.state.Said
	for _, m := range slices.Backward(d.history) {
		words := m.plainText()
		if strings.TrimSpace(words) == "" || words == acknowledgement {
			continue
		}
		if m.role == roleAssistant {
			for _, out := range []**string{&t.Answer, &t.Result, &t.Shown} {
				if *out == nil {
					*out = &words
				}
			}
			break
		}
	}
	for i := len(d.history) - 1; legacy && i >= 0 && t.User == ""; i-- {
		if d.history[i].role == roleUser {
			t.User = d.history[i].plainText()
		}
	}
}

const previousContext = "PREVIOUS TASK CONTEXT"

// prependPlanSummary puts the summary of a lost plan before the history.
func prependPlanSummary(history []historyMessage, s planSummary) []historyMessage {
	if len(history) == 0 || history[0].role != roleUser || strings.Contains(history[0].plainText(), previousContext) {
		return history
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
	first := historyMessage{role: roleUser}
	if history[0].text != nil {
		text := context + "\n" + *history[0].text
		first.text = &text
	} else {
		first.blocks = append([]block{textBlock(context)}, history[0].blocks...)
	}
	return append([]historyMessage{first}, history[1:]...)
}

// removeSecrets removes members whose names say that they are credentials, and
// returns their paths.
func removeSecrets(path string, value json.RawMessage) (json.RawMessage, []string) {
	var left []string
	if o, err := readObject(value); err == nil {
		var kept object
		for _, m := range o {
			at := path + "." + m.key
			if session.SecretKey(m.key) {
				left = append(left, at)
				continue
			}
			inner, more := removeSecrets(at, m.value)
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
	for i := range list {
		inner, more := removeSecrets(fmt.Sprintf("%s[%d]", path, i), list[i])
		list[i], left = inner, append(left, more...)
	}
	if len(left) == 0 {
		return value, nil
	}
	return rawJSON(list), left
}

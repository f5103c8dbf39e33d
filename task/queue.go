package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	followUpKey = "followUp"
	feedbackKey = "feedback"

	// CurrentStep stands for the step that runs, or the next one to.
	CurrentStep = "current"
)

// What feedback asks for.
const (
	FeedbackRetry = "retry"
	FeedbackSkip  = "skip"
	FeedbackStop  = "stop"
	FeedbackDrift = "drift"
)

// followUpItem is a follow-up as the inbox keeps it, all of it. One that says
// nothing and shows nothing is refused.
func followUpItem(f session.FollowUp) (store.Item, error) {
	m, err := followUpMessage(f, "")
	if err != nil {
		return store.Item{}, err
	}
	m.ID = cmp.Or(f.ID, "follow-up")
	return store.Item{ID: f.ID, Kind: store.ItemFollowUp, Payload: session.Values{"message": raw(m), followUpKey: raw(f)}}, nil
}

// feedbackItem is feedback as the inbox keeps it.
func feedbackItem(f session.StepFeedback) (store.Item, error) {
	if !slices.Contains([]string{FeedbackRetry, FeedbackSkip, FeedbackStop, FeedbackDrift}, f.Action) {
		return store.Item{}, &session.InvalidError{Field: "action", Reason: fmt.Sprintf("%q is none of retry, skip, stop, drift", f.Action)}
	}
	if f.StepID == "" {
		return store.Item{}, &session.InvalidError{Field: "stepId", Reason: "is missing; current is the running step"}
	}
	return store.Item{ID: f.ID, Kind: store.ItemStepFeedback, Payload: session.Values{feedbackKey: raw(f)}}, nil
}

// followUpOf reads a follow-up from the inbox. A message that was queued by
// other means is one too.
func followUpOf(item store.Item) session.FollowUp {
	var f session.FollowUp
	if data, ok := item.Payload[followUpKey]; !ok || json.Unmarshal(data, &f) != nil {
		var m session.Message
		if json.Unmarshal(item.Payload["message"], &m) == nil {
			f.Message = m.Content.Text()
		}
	}
	f.ID = item.ID
	if f.QueuedAt == 0 {
		f.QueuedAt = millis(item.At)
	}
	return f
}

func feedbackOf(item store.Item) session.StepFeedback {
	var f session.StepFeedback
	_ = json.Unmarshal(item.Payload[feedbackKey], &f) // what cannot be read asks for nothing and is told so
	f.ID = item.ID
	return f
}

// items lists what is in the inbox, without what was taken and is not durable
// yet.
func (r *Run) items(ctx context.Context) ([]store.Item, error) {
	items, err := r.x.rt.Inbox(ctx, r.ID())
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, record := range session.Unsaved(r.session()) {
		if c, ok := record.Change.(session.InboxTaken); ok {
			taken[c.ItemID] = true
		}
	}
	return slices.DeleteFunc(items, func(i store.Item) bool { return taken[i.ID] }), nil
}

// queues is what waits in an inbox.
func queues(items []store.Item) session.TaskQueues {
	q := session.TaskQueues{FollowUps: []session.FollowUp{}, Feedback: []session.StepFeedback{}}
	for _, item := range items {
		switch item.Kind {
		case store.ItemFollowUp:
			q.FollowUps = append(q.FollowUps, followUpOf(item))
		case store.ItemStepFeedback:
			q.Feedback = append(q.Feedback, feedbackOf(item))
		}
	}
	return q
}

// followUpMessage is what the model is told, with a beginning that says where
// it comes from.
func followUpMessage(f session.FollowUp, prefix string) (session.Message, error) {
	text := strings.TrimSpace(f.Message)
	var images []struct {
		MediaType string `json:"mimeType"`
		Data      string `json:"data"`
		URL       string `json:"url"`
		Name      string `json:"filename"`
	}
	if len(f.Images) > 0 {
		if err := json.Unmarshal(f.Images, &images); err != nil {
			return session.Message{}, &session.InvalidError{Field: "images", Reason: err.Error()}
		}
	}
	if text == "" && len(images) == 0 {
		return session.Message{}, &session.InvalidError{Field: "message", Reason: "is empty"}
	}
	if quote := textOf(f.QuotedAssistantMessage); quote != "" {
		text = "About your words: " + quote + "\n\n" + text
	}
	m := session.Message{Role: session.RoleUser, Metadata: session.Values{}, Content: session.Text(prefix + text)}
	for _, i := range images {
		m.Content = append(m.Content, session.Part{Type: session.PartImage, MediaType: i.MediaType, Data: i.Data, URL: i.URL, Name: i.Name})
	}
	if len(f.AgentConfigOverride) > 0 {
		m.Metadata[overrideKey] = f.AgentConfigOverride
	}
	if len(f.IntegrationMentions) > 0 {
		m.Metadata["integrationMentions"] = f.IntegrationMentions
	}
	return m, nil
}

// textOf is the text of a quoted message: a string, or an object that has one.
func textOf(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(data, &m) == nil {
		for _, key := range []string{"message", "text", "content"} {
			if json.Unmarshal(m[key], &text) == nil && text != "" {
				return text
			}
		}
	}
	return ""
}

// delivery takes a follow-up from the inbox and says it, in one write.
func (r *Run) delivery(f session.FollowUp, prefix string) []session.Change {
	taken := session.InboxTaken{ItemID: f.ID, ItemKind: string(store.ItemFollowUp)}
	m, err := followUpMessage(f, prefix)
	if err != nil { // it must not keep the task from ever going on
		r.x.c.Warn("follow-up %s of task %s is dropped: %v", f.ID, r.ID(), err)
		return []session.Change{taken}
	}
	return []session.Change{taken, session.MessageAdded{Message: r.fresh(m)}, event("follow_up_delivered", delivered{ID: f.ID})}
}

// followUps are those that were handed out to be answered one by one.
type followUps struct {
	mu  sync.Mutex // guards ids
	ids map[string]bool
}

func (h *followUps) has(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ids[id]
}

func (h *followUps) add(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ids == nil {
		h.ids = map[string]bool{}
	}
	h.ids[id] = true
}

// DrainFollowUps returns the follow-ups that wait, in order, and keeps them for
// this run: a step does not take them. They leave the inbox when RunFollowUp
// delivers them; those that were not delivered are still queued when the lease
// ends.
func (r *Run) DrainFollowUps(ctx context.Context) ([]session.FollowUp, error) {
	items, err := r.items(ctx)
	if err != nil {
		return nil, ofStore(err)
	}
	waiting := queues(items).FollowUps
	for _, f := range waiting {
		r.held.add(f.ID)
	}
	return waiting, nil
}

// drain takes what has arrived: settings, feedback, then follow-ups. The loop itself takes cancels and responses.
func (w *work) drain(ctx context.Context) error {
	r := w.r
	items, err := r.items(ctx)
	if err != nil {
		return err
	}
	if err := r.x.applySettings(ctx, r, items); err != nil {
		return err
	}
	running := ""
	if w.mode == modeStep {
		running = w.id
	}
	reason, err := r.takeFeedback(ctx, items, running)
	if err != nil {
		return err
	}
	if reason != "" {
		return stop(reason, nil)
	}
	return w.deliver(ctx, items)
}

// deliver says the follow-ups that arrived during a step.
func (w *work) deliver(ctx context.Context, items []store.Item) error {
	prefix := "USER UPDATE: "
	if w.mode == modeFollowUp {
		prefix = ""
	}
	for _, f := range queues(items).FollowUps {
		if w.r.held.has(f.ID) {
			continue
		}
		err := w.r.append(ctx, edit{changes: w.r.delivery(f, prefix), state: func(s *session.TaskState) {
			s.Said.User = f.Message
			s.Loop.FollowUpRetries = 0
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// takeFeedback acts on feedback in the order it came, but a stop comes first.
// Running is the step that runs, "" for none. A reason says that the running
// step ends.
func (r *Run) takeFeedback(ctx context.Context, items []store.Item, running string) (StopReason, error) {
	waiting := queues(items).Feedback
	slices.SortStableFunc(waiting, func(a, b session.StepFeedback) int {
		return boolInt(b.Action == FeedbackStop) - boolInt(a.Action == FeedbackStop)
	})
	for _, f := range waiting {
		if f.StepID == CurrentStep && running == "" {
			continue // it is for the step that starts next
		}
		reason, err := r.applyFeedback(ctx, f, running)
		if err != nil || reason != "" {
			return reason, err
		}
	}
	return "", nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// feedbackWaiting takes feedback when no loop is running.
func (r *Run) feedbackWaiting(ctx context.Context) (StopReason, error) {
	items, err := r.items(ctx)
	if err != nil {
		return "", ofStore(err)
	}
	return r.takeFeedback(ctx, items, "")
}

// applyFeedback takes one piece of feedback and does what it asks for, in one
// write.
func (r *Run) applyFeedback(ctx context.Context, f session.StepFeedback, running string) (StopReason, error) {
	id, current := f.StepID, f.StepID == CurrentStep || f.StepID == running
	if id == CurrentStep {
		id = running
	}
	step, known := r.state().Plan.Step(id)
	m, reason := edit{}, StopReason("")
	ignored := ""
	switch {
	case !known && (!current || f.Action != FeedbackDrift):
		ignored = "there is no such step"
	case f.Action == FeedbackSkip:
		switch {
		case step.Status == stepFailed && !step.Waived:
			m = r.waived(step)
		case step.Status != stepInProgress && step.Status != stepPending:
			ignored = "the step is over"
		default:
			m, reason = r.skipped(step), StopFeedbackSkip
		}
	case f.Action == FeedbackStop:
		m, reason = r.stoppedByUser(step), StopFeedbackStop
		current = true // it ends the run, whichever step it names
	case f.Action == FeedbackRetry:
		if step.Status == stepPending {
			ignored = "the step has not begun"
			break
		}
		m, reason = r.retried(step, f.Message), StopFeedbackRetry
	case f.Action == FeedbackDrift:
		if current {
			m = r.say("[USER FEEDBACK]: " + f.Message)
		} else {
			m = r.say(fmt.Sprintf("[STEP FEEDBACK - Step %q]: %s", id, f.Message))
		}
	default:
		ignored = "there is no such action"
	}
	payload := feedbackEvent{ID: f.ID, StepID: id, Action: f.Action, Message: f.Message, Reason: ignored}
	name := "step_feedback"
	if ignored != "" {
		name, m, reason = "step_feedback_ignored", edit{}, ""
	}
	taken := []session.Change{session.InboxTaken{ItemID: f.ID, ItemKind: string(store.ItemStepFeedback)}, event(name, payload)}
	m.changes = append(taken, m.changes...)
	if !current {
		reason = ""
	}
	return reason, r.append(ctx, m)
}

// say says something to the model before its next turn.
func (r *Run) say(text string) edit {
	m := r.fresh(session.Message{Role: session.RoleUser, Content: session.Text(text)})
	return edit{changes: []session.Change{session.MessageAdded{Message: m}}, state: func(s *session.TaskState) { s.Said.User = text }}
}

func (r *Run) skipped(step session.PlanStep) edit {
	step.Status, step.CompletedAt, step.Error = stepSkipped, millis(r.x.c.Clock()), ""
	return edit{changes: []session.Change{event("step_skipped", stepEvent{Step: step})}, state: forgetStep(step.ID)}
}

// waived lets a task complete without a step that failed.
func (r *Run) waived(step session.PlanStep) edit {
	step.Waived = true
	return edit{
		changes: []session.Change{event("plan_revised", planEvent{Plan: revised(r.state().Plan, step), Reason: string(StopFeedbackSkip)})},
		state:   failedVerification(step),
	}
}

// failedVerification notes a verification step that failed: the task may
// complete with it only if it is waived.
func failedVerification(step session.PlanStep) func(*session.TaskState) {
	return func(s *session.TaskState) {
		f := &s.Steps
		switch {
		case step.Kind != "verification" || step.Status != stepFailed:
		case step.Waived:
			f.FailedOptional, f.FailedRequired = f.FailedOptional.With(step.ID), f.FailedRequired.Without(step.ID)
		case !f.FailedOptional.Has(step.ID):
			f.FailedRequired = f.FailedRequired.With(step.ID)
		}
	}
}

func (r *Run) stoppedByUser(step session.PlanStep) edit {
	step.Status, step.CompletedAt, step.Error = stepFailed, millis(r.x.c.Clock()), stoppedByUser
	return edit{
		changes: []session.Change{event("step_failed", stepEvent{Step: step, Error: stoppedByUser})},
		state:   forgetStep(step.ID),
		row: func(t *session.TaskRow) {
			t.Status, t.TerminalStatus, t.Error = Paused, TerminalNeedsUser, stoppedByUser
		},
	}
}

// retried puts a step back: its counts begin anew, and an end that stood for
// it stands no more.
func (r *Run) retried(step session.PlanStep, message string) edit {
	m := edit{changes: []session.Change{event("plan_revised", planEvent{Plan: revised(r.state().Plan, untried(step)), Reason: string(StopFeedbackRetry)})}}
	if message != "" {
		m = m.and(r.say("[RETRY CONTEXT]: " + message))
	}
	return m.and(edit{state: func(s *session.TaskState) {
		forgetStep(step.ID)(s)
		s.Recovery.Recovered = s.Recovery.Recovered.Without(step.ID)
		s.Steps.FailedOptional = s.Steps.FailedOptional.Without(step.ID)
	}})
}

// forgetStep takes back the counts of a step.
func forgetStep(id string) func(*session.TaskState) {
	return func(s *session.TaskState) {
		if s.Steps.Counts != nil && s.Steps.Counts.StepID == id {
			s.Steps.Counts = nil
		}
	}
}

package task

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

const (
	createTool = "task_list_create"
	updateTool = "task_list_update"
	listTool   = "task_list_list"
)

// The limits of a checklist.
const (
	MaxItems     = 100
	MaxItemTitle = 500 // characters
	MaxItemID    = 128 // characters
)

// ItemInput is a line of a checklist as it is given. An empty kind is
// implementation; an empty id gets one.
type ItemInput struct {
	ID     string `json:"id,omitempty" jsonschema:"of an item that is there already"`
	Title  string `json:"title"`
	Kind   string `json:"kind,omitempty" jsonschema:"implementation, verification or other"`
	Status string `json:"status" jsonschema:"pending, in_progress, completed or blocked"`
}

// CreateChecklist makes the checklist of a task that has none. A ChecklistError
// says what is wrong, and nothing was changed.
func (r *Run) CreateChecklist(ctx context.Context, items []ItemInput) (session.Checklist, error) {
	if len(r.state().Checklist.Items) > 0 {
		return session.Checklist{}, &session.ChecklistError{Message: createTool + " failed: a session checklist already exists."}
	}
	return r.writeChecklist(ctx, "task_list_created", items)
}

// UpdateChecklist replaces the checklist. Items that are known by their id keep
// the time they were made at; a ChecklistError changes nothing.
func (r *Run) UpdateChecklist(ctx context.Context, items []ItemInput) (session.Checklist, error) {
	if len(r.state().Checklist.Items) == 0 {
		return session.Checklist{}, &session.ChecklistError{Message: updateTool + " failed: no session checklist exists yet."}
	}
	return r.writeChecklist(ctx, "task_list_updated", items)
}

func (r *Run) writeChecklist(ctx context.Context, name string, inputs []ItemInput) (session.Checklist, error) {
	state := r.state()
	before := state.Checklist
	items, err := r.checklistItems(before.Items, inputs)
	if err != nil {
		return session.Checklist{}, err
	}
	next := before
	next.Items, next.UpdatedAt = items, millis(r.x.c.Clock())
	next = nudged(next, state.Plan, r.row().ExecutionMode)
	if err := r.append(ctx, edit{changes: checklistEvents(name, before, next)}); err != nil {
		return session.Checklist{}, err
	}
	return r.Checklist(), nil
}

// checklistEvents tell of a checklist, and of a nudge that was raised with it.
func checklistEvents(name string, before, after session.Checklist) []session.Change {
	told := []session.Change{event(name, checklistEvent{Checklist: after})}
	if after.VerificationNudgeNeeded && !before.VerificationNudgeNeeded {
		told = append(told, event("task_list_verification_nudged", checklistEvent{Checklist: after}))
	}
	return told
}

// checklistItems are the inputs as a checklist keeps them, or the first thing wrong
// with them.
func (r *Run) checklistItems(before []session.ChecklistItem, inputs []ItemInput) ([]session.ChecklistItem, error) {
	inputs = slices.Clone(inputs)
	if err := checkItems(inputs); err != nil {
		return nil, err
	}
	now := millis(r.x.c.Clock())
	items := make([]session.ChecklistItem, len(inputs))
	for i, in := range inputs {
		item := session.ChecklistItem{ID: in.ID, Title: in.Title, Kind: in.Kind, Status: in.Status, CreatedAt: now, UpdatedAt: now}
		if item.ID == "" {
			item.ID = "task_item_" + r.x.c.NewID()
		}
		if at := slices.IndexFunc(before, func(b session.ChecklistItem) bool { return b.ID == item.ID }); at >= 0 {
			known := before[at]
			item.CreatedAt = known.CreatedAt
			if known.Title == item.Title && known.Kind == item.Kind && known.Status == item.Status {
				item.UpdatedAt = known.UpdatedAt
			}
		}
		items[i] = item
	}
	return items, nil
}

// checkItems trims the inputs and refuses what cannot be a checklist.
func checkItems(inputs []ItemInput) error {
	refuse := func(format string, args ...any) error {
		return &session.ChecklistError{Message: fmt.Sprintf(format, args...)}
	}
	if len(inputs) == 0 {
		return refuse("Session checklist must contain at least one item.")
	}
	if len(inputs) > MaxItems {
		return refuse("Session checklist may contain at most %d items.", MaxItems)
	}
	ids, working := map[string]bool{}, 0
	for i := range inputs {
		in := &inputs[i]
		in.ID, in.Title = strings.TrimSpace(in.ID), strings.TrimSpace(in.Title)
		in.Kind = cmp.Or(in.Kind, "implementation")
		switch {
		case in.Title == "":
			return refuse("Checklist item %d is missing a title.", i+1)
		case utf8.RuneCountInString(in.Title) > MaxItemTitle:
			return refuse("Checklist item %d has a title longer than %d characters.", i+1, MaxItemTitle)
		case !slices.Contains([]string{"pending", "in_progress", "completed", "blocked"}, in.Status):
			return refuse("Checklist item %q has an invalid status.", in.Title)
		case !slices.Contains([]string{"implementation", "verification", "other"}, in.Kind):
			return refuse("Checklist item %q has an invalid kind.", in.Title)
		case utf8.RuneCountInString(in.ID) > MaxItemID:
			return refuse("Checklist item %q has an id longer than %d characters.", in.Title, MaxItemID)
		case in.ID != "" && ids[in.ID]:
			return refuse("Checklist contains duplicate item id %q.", in.ID)
		}
		ids[in.ID] = true
		working += boolInt(in.Status == "in_progress")
	}
	if working > 1 {
		return refuse("Session checklist may contain at most one item with status in_progress.")
	}
	return nil
}

// nudged is a checklist with its nudge as it has to be. Raising it arms the
// reminder, lowering it disarms.
func nudged(c session.Checklist, plan *session.Plan, mode string) session.Checklist {
	needed := nudgeNeeded(c, plan, mode)
	switch {
	case needed && !c.VerificationNudgeNeeded:
		c.VerificationNudgeNeeded, c.NudgeReason, c.ReminderArmed = true, new(nudgeText), true
	case !needed:
		c.VerificationNudgeNeeded, c.NudgeReason, c.ReminderArmed = false, nil, false
	}
	return c
}

// nudgeNeeded reports work that is done and that nobody is going to verify.
func nudgeNeeded(c session.Checklist, plan *session.Plan, mode string) bool {
	if mode == "verified" || verifies(plan) || len(c.Items) == 0 {
		return false
	}
	work := 0
	for _, item := range c.Items {
		switch {
		case item.Kind == "verification", item.Kind == "implementation" && item.Status != "completed":
			return false
		case item.Kind == "implementation":
			work++
		}
	}
	return work > 0 && c.NudgeClearedFor != itemsHash(c.Items)
}

// verifies reports a plan with a step that verifies and is not skipped.
func verifies(plan *session.Plan) bool {
	return slices.ContainsFunc(orPlan(plan).Steps, func(s session.PlanStep) bool {
		if s.Status == stepSkipped {
			return false
		}
		text := strings.ToLower(strings.TrimSpace(s.Description))
		return s.Kind == "verification" || text == "verify" || text == "verification" ||
			strings.HasPrefix(text, "verify:") || strings.HasPrefix(text, "verify ") ||
			strings.HasPrefix(text, "verification:") || strings.HasPrefix(text, "verification ")
	})
}

// itemsHash tells one content of a checklist from another.
func itemsHash(items []session.ChecklistItem) string {
	var content [][4]string
	for _, i := range items {
		content = append(content, [4]string{i.ID, i.Title, i.Kind, i.Status})
	}
	sum := sha256.Sum256(raw(content))
	return hex.EncodeToString(sum[:])
}

// renudge is the events of a checklist whose nudge a change of the plan or the
// mode moved.
func renudge(c session.Checklist, plan *session.Plan, mode string, now int64) []session.Change {
	next := nudged(c, plan, mode)
	if next.VerificationNudgeNeeded == c.VerificationNudgeNeeded {
		return nil
	}
	next.UpdatedAt = now
	return checklistEvents("task_list_updated", c, next)
}

// ClearVerificationNudge takes a nudge back until the items change. Where none
// stands it does nothing.
func (r *Run) ClearVerificationNudge(ctx context.Context) error {
	c := r.state().Checklist
	if !c.VerificationNudgeNeeded {
		return nil
	}
	c.VerificationNudgeNeeded, c.NudgeReason, c.ReminderArmed = false, nil, false
	c.NudgeClearedFor, c.UpdatedAt = itemsHash(c.Items), millis(r.x.c.Clock())
	return r.append(ctx, edit{changes: []session.Change{event("task_list_updated", checklistEvent{Checklist: c})}})
}

// ChecklistItems lists the items of the checklist.
func (r *Run) ChecklistItems() []session.ChecklistItem { return r.state().Checklist.Items }

// Checklist is the checklist and its nudge.
func (r *Run) Checklist() session.Checklist { return r.state().Checklist }

func checklistTool(name string) bool {
	return name == createTool || name == updateTool || name == listTool
}

func checklistMode(mode string) bool {
	return mode == "" || mode == "execute" || mode == "verified" || mode == "debug"
}

// ChecklistTools let an agent keep its checklist. Without a run they say that
// there is none to keep.
func ChecklistTools(r *Run) []tool.Tool {
	type list struct {
		Items []ItemInput `json:"items"`
	}
	type none struct{}
	use := func(name string, do func() (session.Checklist, error)) (json.RawMessage, error) {
		if r == nil {
			return nil, &session.ChecklistError{Message: noRunText}
		}
		if !checklistMode(r.row().ExecutionMode) {
			return nil, &session.ChecklistError{Message: fmt.Sprintf(modeOnlyText, name)}
		}
		c, err := do()
		if err != nil {
			return nil, err
		}
		return checklistResult(c), nil
	}
	create, err := tool.Func(tool.Spec{
		Name:        createTool,
		Description: "Write down what has to be done, as a checklist. At most one item is in progress.",
	}, func(ctx context.Context, in list) (json.RawMessage, error) {
		return use(createTool, func() (session.Checklist, error) { return r.CreateChecklist(ctx, in.Items) })
	})
	update, failed := tool.Func(tool.Spec{
		Name: updateTool, Nature: tool.Idempotent,
		Description: "Replace the checklist by this one. Give the ids of items that are there already.",
	}, func(ctx context.Context, in list) (json.RawMessage, error) {
		return use(updateTool, func() (session.Checklist, error) { return r.UpdateChecklist(ctx, in.Items) })
	})
	show, broken := tool.Func(tool.Spec{Name: listTool, Nature: tool.ReadOnly, Description: "Show the checklist."},
		func(context.Context, none) (json.RawMessage, error) {
			return use(listTool, func() (session.Checklist, error) { return r.Checklist(), nil })
		})
	if err := errors.Join(err, failed, broken); err != nil {
		panic("task: " + err.Error()) // their arguments are structs
	}
	return []tool.Tool{create, update, show}
}

// checklistResult is the checklist as a tool shows it, with the reminder while
// the nudge stands.
func checklistResult(c session.Checklist) json.RawMessage {
	shown := struct {
		session.Checklist
		ImmediateReminder string `json:"immediateReminder,omitempty"`
	}{Checklist: c}
	if c.VerificationNudgeNeeded && c.NudgeReason != nil {
		shown.ImmediateReminder = reminderText + *c.NudgeReason
	}
	return raw(shown)
}

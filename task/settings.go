package task

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// setting is a change of a task's permissions or place, as the inbox keeps it
// for whoever works on the task.
type setting struct {
	Mode      string         `json:"mode,omitempty"`
	AddRule   *session.Rule  `json:"addRule,omitempty"`
	DropRule  *session.Rule  `json:"dropRule,omitempty"`
	GrantKey  string         `json:"grantKey,omitempty"`
	Grant     *session.Grant `json:"grant,omitempty"`
	Workspace *Workspace     `json:"workspace,omitempty"`
}

const settingKey = "setting"

// SetMode sets the permission mode of a task, also while somebody works on it.
func (x *Executor) SetMode(ctx context.Context, id, mode string) error {
	if err := session.CheckPermissionMode(mode); err != nil {
		return err
	}
	return x.set(ctx, id, setting{Mode: mode})
}

// AddRule adds a rule to a task's session. A RuleError changes nothing.
func (x *Executor) AddRule(ctx context.Context, id string, rule session.Rule) error {
	rule.Source = session.SourceSession
	if rule.CreatedAt == 0 {
		rule.CreatedAt = millis(x.c.Clock())
	}
	rule, err := permission.CheckRule(rule)
	if err != nil {
		return err
	}
	s, err := x.load(ctx, id)
	if err != nil {
		return err
	}
	if _, _, err := s.Permissions().WithRule(rule); err != nil {
		return err
	}
	return x.set(ctx, id, setting{AddRule: &rule})
}

// RemoveRule takes a rule of a task's session back.
func (x *Executor) RemoveRule(ctx context.Context, id string, rule session.Rule) error {
	rule.Source = session.SourceSession
	rule, err := rule.Normal()
	if err != nil {
		return err
	}
	return x.set(ctx, id, setting{DropRule: &rule})
}

// GrantOptions say how long a grant lasts.
type GrantOptions struct {
	For             time.Duration // 0: 15 minutes; at most 24 hours
	SurvivesRestart bool          // it counts in other executors too
}

// Grant permits a scope for a while, or with permission.BundleKey the shell
// calls of the running step.
func (x *Executor) Grant(ctx context.Context, id, key string, o GrantOptions) error {
	if key == "" || o.For < 0 {
		return &session.InvalidError{Field: "grant", Reason: "needs a key, and a time that is not negative"}
	}
	now := millis(x.c.Clock())
	g := session.Grant{GrantedAt: now, Instance: x.instance, SurvivesRestart: o.SurvivesRestart}
	if o.For > 0 {
		g.ExpiresAt = now + o.For.Milliseconds()
	}
	g.ExpiresAt = g.End()
	return x.set(ctx, id, setting{GrantKey: key, Grant: &g})
}

// SetWorkspace makes a task work somewhere else, with the executor's registry.
func (x *Executor) SetWorkspace(ctx context.Context, id string, w Workspace) error {
	w, err := w.Resolved()
	if err != nil {
		return err
	}
	return x.set(ctx, id, setting{Workspace: &w})
}

// set makes a change at once, or leaves it to whoever works on the task.
func (x *Executor) set(ctx context.Context, id string, c setting) error {
	row, err := x.Get(ctx, id)
	if err != nil {
		return err
	}
	if Ended(row.TaskRow) {
		return endedError(id, row.TaskRow)
	}
	err = x.hold(ctx, id, func(ctx context.Context, r *Run) error {
		return errors.Join(x.apply(ctx, r, c, nil), r.sealed(ctx, "task.setting"))
	})
	if errors.Is(err, session.ErrBusy) {
		_, err = x.rt.Post(ctx, id, store.Item{Kind: store.ItemSetting, Payload: session.Values{settingKey: raw(c)}})
	}
	return err
}

// apply makes a change, and takes the item it came with in the same write.
func (x *Executor) apply(ctx context.Context, r *Run, c setting, taken []session.Change) error {
	m := edit{changes: taken}
	if c.Mode != "" && c.Mode != r.session().Permissions().Mode {
		m.changes = append(m.changes, session.PermissionModeChanged(c.Mode))
	}
	if c.AddRule != nil {
		_, added, err := r.session().Permissions().WithRule(*c.AddRule)
		if err != nil {
			return errors.Join(err, r.append(ctx, m))
		}
		if added {
			m.changes = append(m.changes, session.PermissionRuleAdded(*c.AddRule))
		}
	}
	if c.DropRule != nil {
		if _, had := r.session().Permissions().WithoutRule(c.DropRule.Fingerprint()); had {
			m.changes = append(m.changes, event("permission_rule_removed", ruleEvent{c.DropRule}))
		}
	}
	if c.Grant != nil {
		m.changes = append(m.changes, event("permission_granted", granted{c.GrantKey, c.Grant}))
	}
	if len(m.changes) > 0 {
		if err := r.append(ctx, m); err != nil {
			return err
		}
	}
	if c.Workspace != nil {
		return r.ApplyWorkspace(ctx, *c.Workspace, nil)
	}
	return nil
}

// takeSettings applies the settings that have arrived.
func (x *Executor) takeSettings(ctx context.Context, r *Run) error {
	items, err := r.items(ctx)
	if err != nil || Ended(r.row()) {
		return err
	}
	if !slices.ContainsFunc(items, func(i store.Item) bool { return i.Kind == store.ItemSetting }) {
		return nil
	}
	return errors.Join(x.applySettings(ctx, r, items), r.sealed(ctx, "task.setting"))
}

// applySettings applies the settings among some items. One that is refused is
// taken and reported.
func (x *Executor) applySettings(ctx context.Context, r *Run, items []store.Item) error {
	for _, item := range items {
		if item.Kind != store.ItemSetting {
			continue
		}
		var c setting
		_ = json.Unmarshal(item.Payload[settingKey], &c) // what cannot be read is taken and does nothing
		err := x.apply(ctx, r, c, []session.Change{taken(item)})
		var stored *storeError
		if errors.Is(err, session.ErrTaskTerminal) || errors.Is(err, session.ErrFenced) || errors.As(err, &stored) {
			return err
		}
		if err != nil {
			x.c.Warn("a setting of task %s was not made: %v", r.ID(), err)
		}
	}
	return nil
}

// QueueFollowUp leaves a message for a task, from any process, and returns
// its name. The same id twice is one message. On a task that has ended it opens
// another run, which is executing and waits for somebody to resume it.
func (x *Executor) QueueFollowUp(ctx context.Context, id string, f session.FollowUp) (string, error) {
	row, err := x.Get(ctx, id)
	if err != nil {
		return "", err
	}
	if f.ID == "" {
		f.ID = x.c.NewID()
	}
	if f.QueuedAt == 0 {
		f.QueuedAt = millis(x.c.Clock())
	}
	item, err := followUpItem(f)
	if err != nil {
		return "", err
	}
	if item, err = x.rt.Post(ctx, id, item); err != nil {
		return "", err
	}
	for Ended(row.TaskRow) {
		err := x.hold(ctx, id, func(ctx context.Context, r *Run) error { return x.reopen(ctx, r, item.ID) })
		if !errors.Is(err, session.ErrBusy) {
			return item.ID, err
		}
		if err := pause(ctx); err != nil {
			return item.ID, err
		}
		if row, err = x.Get(ctx, id); err != nil {
			return item.ID, err
		}
	}
	return item.ID, nil
}

// reopen begins another run for a message that still waits.
func (x *Executor) reopen(ctx context.Context, r *Run, itemID string) error {
	items, err := r.items(ctx)
	if err != nil || !Ended(r.row()) {
		return err
	}
	for _, item := range items {
		if item.ID == itemID {
			m, err := x.newRun(ctx, r)
			if err != nil {
				return err
			}
			return r.seal(ctx, "task.reopen", m)
		}
	}
	return nil
}

// SetStepFeedback says something about a step of the plan, or about "current",
// from any process. Where nobody works on the task it takes effect at once.
// ErrNotFound for a step there is not.
func (x *Executor) SetStepFeedback(ctx context.Context, id string, f session.StepFeedback) (string, error) {
	s, err := x.load(ctx, id)
	if err != nil {
		return "", err
	}
	if row := *s.Info().Task; Ended(row) {
		return "", endedError(id, row)
	}
	state, current := stateOf(s), f.StepID == CurrentStep
	if current && state.Steps.Current != nil {
		f.StepID = *state.Steps.Current
	}
	item, err := feedbackItem(f)
	if err != nil {
		return "", err
	}
	if _, known := state.Plan.Step(f.StepID); !known && !current {
		return "", &session.NotFoundError{What: "step", ID: f.StepID, Available: stepIDs(state.Plan)}
	}
	if item, err = x.rt.Post(ctx, id, item); err != nil {
		return "", err
	}
	err = x.hold(ctx, id, func(ctx context.Context, r *Run) error {
		if status := r.row().Status; status != Paused && status != Blocked {
			return nil // whoever resumes it takes it
		}
		_, err := r.feedbackWaiting(ctx)
		return errors.Join(err, r.sealed(ctx, "task.feedback"))
	})
	if errors.Is(err, session.ErrBusy) {
		err = nil
	}
	return item.ID, err
}

func stepIDs(p *session.Plan) []string {
	ids := []string{}
	for _, s := range orPlan(p).Steps {
		ids = append(ids, s.ID)
	}
	return ids
}

package session

import (
	"encoding/json"
	"slices"
)

// permissionFolds has the changes of permissions, which sessions of every kind
// may have.
var permissionFolds = map[string]func(*Permissions, json.RawMessage) error{
	"permission_rule_added": foldRuleAdded, "permission_rule_removed": foldRuleRemoved, "permission_mode_changed": foldMode,
	"permission_granted": foldGrant, "permission_grants_dropped": foldGrantsDropped,
}

// PermissionModeChanged sets what becomes of calls that no rule decides.
func PermissionModeChanged(mode string) Change {
	return permissionChange("permission_mode_changed", map[string]string{"mode": mode})
}

// ChangedPermissionMode returns the mode that a change sets. Others set none.
func ChangedPermissionMode(c Change) (mode string, ok bool) {
	e, ok := c.(TaskEvent)
	if !ok || e.Name != "permission_mode_changed" {
		return "", false
	}
	var data struct {
		Mode string `json:"mode"`
	}
	err := json.Unmarshal(e.Data, &data)
	return data.Mode, err == nil
}

// PermissionRuleAdded adds a rule. Rules of other sources than the session are
// recorded and kept elsewhere.
func PermissionRuleAdded(r Rule) Change {
	return permissionChange("permission_rule_added", map[string]Rule{"rule": r})
}

// PermissionNote is what became of a call.
type PermissionNote string

// The notes.
const (
	NoteExecuted PermissionNote = "executed"
	NoteDenied   PermissionNote = "denied"
	NoteAnswered PermissionNote = "answered"
	NoteTainted  PermissionNote = "tainted"
)

// PermissionNoted notes what became of a call of a scope: it ran, the mode
// denied it, or a person answered about it. The last note is that it reads what
// taints the session.
type PermissionNoted struct {
	Scope string         `json:"scope"` // a fingerprint
	Note  PermissionNote `json:"note"`
}

// Kind is permission_noted.
func (PermissionNoted) Kind() string { return "permission_noted" }

func (c PermissionNoted) normal() (Change, error) {
	cleanAll(&c.Scope)
	return c, oneOf("note", c.Note, []PermissionNote{NoteExecuted, NoteDenied, NoteAnswered, NoteTainted})
}

func (c PermissionNoted) fold(b *body, _ recordTime) error {
	next := b.permissions()
	switch c.Note {
	case NoteExecuted:
		next = next.WithExecuted(c.Scope)
	case NoteDenied:
		next = next.WithDenial(c.Scope)
	case NoteAnswered:
		next = next.WithAnswer(c.Scope)
	case NoteTainted:
		next.Tainted = true
	}
	b.setPermissions(next)
	return nil
}

func permissionChange(name string, data any) Change {
	raw, err := JSON(data)
	if err != nil {
		panic("session: " + name + " is no JSON: " + err.Error()) // it is made of texts
	}
	return TaskEvent{Name: name, Data: raw}
}

// Permissions is what the session may do unasked. Without any it is in default
// mode.
func (s Session) Permissions() Permissions { return s.b.permissions().Clone() }

func (b *body) permissions() Permissions {
	if b.st.Permissions != nil {
		return *b.st.Permissions
	}
	return Permissions{Mode: PermissionDefault}
}

func (b *body) foldPermission(fold func(*Permissions, json.RawMessage) error, e TaskEvent, t recordTime) error {
	next := b.permissions()
	if err := fold(&next, e.Data); err != nil {
		return err
	}
	b.setPermissions(next)
	if e.Name == "permission_mode_changed" && b.info.Kind == KindTask {
		task := b.taskState()
		task.Settings.ModeSeq = t.seq
		b.setTask(task)
	}
	return nil
}

func (b *body) setPermissions(p Permissions) {
	p.SessionRules, p.DenialTracking = listOf(p.SessionRules), latest(p.DenialTracking, MaxDenials)
	b.st.Permissions = &p
}

func foldRuleAdded(p *Permissions, data json.RawMessage) error {
	rule, err := part[Rule](data, "rule")
	if err != nil {
		return err
	}
	if rule.Source != SourceSession { // others are kept elsewhere
		return nil
	}
	*p, _, err = p.WithRule(*rule)
	return err
}

func foldRuleRemoved(p *Permissions, data json.RawMessage) error {
	rule, err := part[Rule](data, "rule")
	if err != nil {
		return err
	}
	p.SessionRules = slices.DeleteFunc(slices.Clone(p.SessionRules), func(r Rule) bool {
		return r.Effect == rule.Effect && r.Scope == rule.Scope
	})
	return nil
}

func foldMode(p *Permissions, data json.RawMessage) error {
	var e struct {
		Mode string `json:"mode"`
	}
	if err := readEvent(data, &e); err != nil {
		return err
	}
	if err := CheckPermissionMode(e.Mode); err != nil {
		return err
	}
	p.Mode = e.Mode
	return nil
}

func foldGrant(p *Permissions, data json.RawMessage) error {
	var e struct {
		Key   string `json:"key"`
		Grant *Grant `json:"grant"`
	}
	if err := readEvent(data, &e); err != nil {
		return err
	}
	if e.Key == "" || e.Grant == nil {
		return invalid("grant", "is missing")
	}
	p.TemporaryGrants = p.TemporaryGrants.With(e.Key, *e.Grant)
	return nil
}

func foldGrantsDropped(p *Permissions, data json.RawMessage) error {
	var e struct {
		Keys []string `json:"keys"`
	}
	if err := readEvent(data, &e); err != nil {
		return err
	}
	for _, key := range e.Keys {
		p.TemporaryGrants = p.TemporaryGrants.Without(key)
	}
	return nil
}

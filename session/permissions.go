package session

import (
	"cmp"
	"fmt"
	"slices"
)

// How much of permissions a session keeps.
const (
	MaxSessionRules = 500 // one more is refused
	MaxDenials      = 500 // the scope denied first is forgotten
)

// Permissions is what a session may do unasked, and what was answered about it.
// It is a value: its methods return another one and leave this one as it is.
type Permissions struct {
	Mode            string        `json:"mode"`
	SessionRules    []Rule        `json:"sessionRules"`
	TemporaryGrants Pairs[Grant]  `json:"temporaryGrants"`
	DenialTracking  Pairs[Denial] `json:"denialTracking"`
	// Tainted says that the session has read secrets or texts of strangers: it
	// may be led to send data out.
	Tainted bool `json:"tainted,omitempty"`
}

// Clone is a deep copy.
func (p Permissions) Clone() Permissions {
	rules := make([]Rule, len(p.SessionRules))
	for i, r := range p.SessionRules {
		rules[i] = r.Clone()
	}
	p.SessionRules = rules
	p.TemporaryGrants, p.DenialTracking = p.TemporaryGrants.Clone(), p.DenialTracking.Clone()
	return p
}

// normal is a copy as a session keeps it.
func (p Permissions) normal() (Permissions, error) {
	p.Mode = cmp.Or(p.Mode, PermissionDefault)
	if err := CheckPermissionMode(p.Mode); err != nil {
		return Permissions{}, err
	}
	rules := p.SessionRules
	p.SessionRules = make([]Rule, 0, len(rules))
	for _, r := range rules {
		var err error
		if p, _, err = p.WithRule(r); err != nil {
			return Permissions{}, err
		}
	}
	for key, d := range p.DenialTracking.All() {
		if d.ConsecutiveDenials < 0 || d.TotalDenials < 0 || d.PromptedAtTotal < 0 {
			return Permissions{}, invalid("denialTracking", "%s has a negative count", quoted(key))
		}
	}
	p.DenialTracking = latest(p.DenialTracking, MaxDenials)
	return p, nil
}

// latest drops what came first until at most most pairs are left.
func latest[V any](p Pairs[V], most int) Pairs[V] {
	if p.Len() <= most {
		return p
	}
	return Pairs[V]{slices.Clone(p.list[p.Len()-most:])}
}

// Restricted keeps what limits a session and drops what lets it do something
// unasked: a mode that does more than default, rules that allow, and grants. A
// file from elsewhere may bring no more than that. Dropped names the rest.
func (p Permissions) Restricted() (kept Permissions, dropped []string) {
	kept = p.Clone()
	if p.Mode != PermissionDefault && p.Mode != PermissionPlan && p.Mode != "" {
		kept.Mode = PermissionDefault
		dropped = append(dropped, "permissions.mode: "+p.Mode+"; it is default now")
	}
	kept.SessionRules = []Rule{}
	for _, r := range p.SessionRules {
		if r.Effect != EffectDeny && r.Effect != EffectAsk {
			dropped = append(dropped, "permissions.sessionRules: "+r.Fingerprint())
			continue
		}
		kept.SessionRules = append(kept.SessionRules, r.Clone())
	}
	for key := range p.TemporaryGrants.All() {
		kept.TemporaryGrants = kept.TemporaryGrants.Without(key)
		dropped = append(dropped, "permissions.temporaryGrants: "+key)
	}
	return kept, dropped
}

// WithRule adds a rule of the session; its source is made so. A rule that says
// what another says already is not added, and false is returned. A bad rule,
// and one beyond MaxSessionRules, is a RuleError.
func (p Permissions) WithRule(r Rule) (Permissions, bool, error) {
	r.Source = SourceSession
	r, err := r.Normal()
	if err != nil {
		return p, false, err
	}
	mark := r.Fingerprint()
	if slices.ContainsFunc(p.SessionRules, func(have Rule) bool { return have.Fingerprint() == mark }) {
		return p, false, nil
	}
	if len(p.SessionRules) >= MaxSessionRules {
		return p, false, &RuleError{Field: "sessionRules", Reason: fmt.Sprintf("there are %d already; remove one first", MaxSessionRules)}
	}
	p.SessionRules = append(slices.Clip(p.SessionRules), r)
	return p, true, nil
}

// WithoutRule takes away the rule of a fingerprint; false says there is none.
func (p Permissions) WithoutRule(fingerprint string) (Permissions, bool) {
	i := slices.IndexFunc(p.SessionRules, func(r Rule) bool { return r.Fingerprint() == fingerprint })
	if i < 0 {
		return p, false
	}
	p.SessionRules = slices.Delete(slices.Clone(p.SessionRules), i, i+1)
	return p, true
}

// WithGrant gives the scope of a fingerprint a permission for a while. The
// grant is kept with its end.
func (p Permissions) WithGrant(key string, g Grant) Permissions {
	g.ExpiresAt = g.End()
	p.TemporaryGrants = p.TemporaryGrants.With(clean(key), g)
	return p
}

// WithoutDeadGrants drops the grants that no longer count, and names them.
func (p Permissions) WithoutDeadGrants(now int64, instance string) (Permissions, []string) {
	var dead []string
	for key, g := range p.TemporaryGrants.All() {
		if !g.Live(now, instance) {
			dead = append(dead, key)
		}
	}
	for _, key := range dead {
		p.TemporaryGrants = p.TemporaryGrants.Without(key)
	}
	return p, dead
}

// WithDenial counts one more denial of a scope by the mode. Denials by rules,
// guardrails, capabilities and people are not counted.
func (p Permissions) WithDenial(fingerprint string) Permissions {
	d, _ := p.DenialTracking.Get(fingerprint)
	d.ConsecutiveDenials++
	d.TotalDenials++
	p.DenialTracking = latest(p.DenialTracking.With(clean(fingerprint), d), MaxDenials)
	return p
}

// WithExecuted notes that a call of a scope ran: its denials begin anew, their
// total stays.
func (p Permissions) WithExecuted(fingerprint string) Permissions {
	if d, ok := p.DenialTracking.Get(fingerprint); ok && d.ConsecutiveDenials > 0 {
		d.ConsecutiveDenials = 0
		p.DenialTracking = p.DenialTracking.With(fingerprint, d)
	}
	return p
}

// WithAnswer notes that a person answered a prompt about a scope: the next one
// comes after as many denials as the first.
func (p Permissions) WithAnswer(fingerprint string) Permissions {
	if d, ok := p.DenialTracking.Get(fingerprint); ok {
		d.ConsecutiveDenials, d.PromptedAtTotal = 0, d.TotalDenials
		p.DenialTracking = p.DenialTracking.With(fingerprint, d)
	}
	return p
}

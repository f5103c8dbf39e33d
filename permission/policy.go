package permission

import (
	"fmt"
	"path"

	"github.com/holdfast-dev/holdfast/session"
)

// Policy is an index of rules: the cost of a decision depends only on how many
// rules are about the same thing. It is immutable.
type Policy struct {
	tools, servers, domains map[string][]rule
	paths, commands         map[string][]rule // that are allowed
	restrictedPaths         []rule            // that are denied or asked about
	restrictedCommands      []rule

	closed []string // paths that programs must not reach

	broken   string
	warnings []string
}

// Compile makes a policy. An invalid rule is left out with a warning. A cause
// means that rules could not be loaded: the engine then asks for everything but
// reading.
func Compile(rules []session.Rule, cause error) *Policy {
	p := &Policy{
		tools: map[string][]rule{}, paths: map[string][]rule{}, commands: map[string][]rule{},
		servers: map[string][]rule{}, domains: map[string][]rule{},
	}
	if cause != nil {
		p.broken = cause.Error()
		p.warnings = append(p.warnings, p.broken)
	}
	for i, given := range rules {
		normal, err := given.Normal()
		if err == nil {
			err = p.add(rule{Rule: &normal})
		}
		if err == nil && closes(&normal) {
			p.closed = append(p.closed, normal.Scope.Path)
		}
		if err != nil {
			p.warnings = append(p.warnings, fmt.Sprintf("rule %d of %s is left out: %v", i+1, given.Source, err))
		}
	}
	return p
}

func (p *Policy) add(r rule) error {
	s := r.Scope
	switch s.Kind {
	case session.ScopeTool:
		p.tools[s.ToolName] = append(p.tools[s.ToolName], r)
	case session.ScopePath:
		if r.Effect != session.EffectAllow {
			p.restrictedPaths = append(p.restrictedPaths, r)
			break
		}
		p.paths[s.Path] = append(p.paths[s.Path], r)
	case session.ScopeCommandPrefix:
		r.words = prefixWords(r.Rule)
		if len(r.words) == 0 {
			return &session.RuleError{Field: "scope.prefix", Reason: "is not the beginning of one plain command"}
		}
		if r.Effect != session.EffectAllow {
			p.restrictedCommands = append(p.restrictedCommands, r)
			break
		}
		p.commands[r.words[0]] = append(p.commands[r.words[0]], r)
	case session.ScopeMCPServer:
		p.servers[s.ServerName] = append(p.servers[s.ServerName], r)
	case session.ScopeDomain:
		p.domains[s.Domain] = append(p.domains[s.Domain], r)
	}
	return nil
}

// CheckRule refuses a rule that would never apply: an invalid one, and a prefix
// that is not one plain command.
func CheckRule(r session.Rule) (session.Rule, error) {
	r, err := r.Normal()
	if err == nil && r.Scope.Kind == session.ScopeCommandPrefix && len(prefixWords(&r)) == 0 {
		err = &session.RuleError{Field: "scope.prefix", Reason: "is not the beginning of one plain command"}
	}
	if err != nil {
		return session.Rule{}, err
	}
	return r, nil
}

// Warnings lists the rules that were left out and why.
func (p *Policy) Warnings() []string { return p.warnings }

// each yields the rules that may apply to a call, or to one command of it.
func (p *Policy) each(f *facts, c command, yield func(r *rule)) {
	if p == nil {
		return
	}
	all := func(rules []rule) {
		for i := range rules {
			yield(&rules[i])
		}
	}
	if len(c) > 0 {
		all(p.commands[c[0].text])
		all(p.restrictedCommands)
	}
	all(p.tools[f.q.Tool])
	if f.server != "" {
		all(p.servers[f.server])
	}
	if f.domain != "" {
		all(p.domains[f.domain])
	}
	if !f.hasPath {
		return
	}
	all(p.restrictedPaths)
	if len(p.paths) == 0 {
		return
	}
	eachParent(f.path, func(dir string) { all(p.paths[dir]) })
	eachParent(f.resolved, func(dir string) { all(p.paths[dir]) })
}

// eachParent yields a path and all folders above it.
func eachParent(p string, yield func(dir string)) {
	for p != "" {
		yield(p)
		up := path.Dir(p)
		if up == p || up == "." {
			return
		}
		p = up
	}
}

package permission

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// checkDenied looks in a command line for what rules deny: a path that it names,
// or a path or command that it may reach in a way that cannot be ruled out. The
// first is denied. The second is asked about, in every mode, unless a person has
// allowed the very command.
func (f *facts) checkDenied(v verdict) verdict {
	if !f.isCommand {
		return v
	}
	var named, possible rule
	f.eachDenied(func(r *rule) {
		is, may := false, false
		switch r.Scope.Kind {
		case session.ScopePath:
			is, may = f.reaches(path.Clean(r.Scope.Path))
		case session.ScopeCommandPrefix:
			may = f.mayStart(r)
		}
		switch {
		case is && (r.Scope.ToolName == "" || r.Scope.ToolName == f.q.Tool):
			if r.beats(&named) {
				named = *r
			}
		case (is || may) && r.beats(&possible):
			possible = *r
		}
	})
	switch {
	case named.Rule != nil && (v.decision != session.EffectDeny || v.rule != nil && named.beats(&rule{Rule: v.rule})):
		return ruleVerdict(named.Rule)
	case possible.Rule != nil && v.decision == session.EffectAllow:
		return possibleVerdict(possible.Rule)
	}
	return v
}

// eachDenied yields the rules that deny a path or a command.
func (f *facts) eachDenied(yield func(r *rule)) {
	for i := range f.own {
		if r := &f.own[i]; r.Effect == session.EffectDeny && (r.Scope.Kind != session.ScopePath || session.Absolute(r.Scope.Path)) {
			yield(r)
		}
	}
	if f.q.Policy == nil {
		return
	}
	for _, rules := range [][]rule{f.q.Policy.restrictedPaths, f.q.Policy.restrictedCommands} {
		for i := range rules {
			if rules[i].Effect == session.EffectDeny {
				yield(&rules[i])
			}
		}
	}
}

// folder returns where commands run.
func (f *facts) folder() string {
	if root := f.q.Workspace.Root; session.Absolute(root) {
		return cmp.Or(f.path, path.Clean(root))
	}
	return f.path
}

// reaches reports a line that names a path or something below it, and one that
// may read or change it otherwise.
func (f *facts) reaches(denied string) (named, possible bool) {
	at := f.folder()
	names := func(text string) bool {
		return slices.ContainsFunc(pathsIn(text), func(p string) bool { return withinFold(denied, absolute(at, p)) })
	}
	for _, commands := range [][]command{f.line.commands, f.line.hidden} {
		for _, c := range commands {
			named = named || slices.ContainsFunc(c, func(w word) bool { return names(w.text) })
		}
	}
	named = named || slices.ContainsFunc(f.line.writes, names) || slices.ContainsFunc(f.line.reads, names)
	if !withinFold(at, denied) && !withinFold(denied, at) {
		return named, false
	}
	possible = f.line.opaque != ""
	for i, c := range f.line.commands {
		possible = possible || !f.vouched(i) && mayReach(c, at, denied)
	}
	return named, possible
}

// pathsIn returns what may be a path in a word: all of it, or the value of an
// option or of an object's name.
func pathsIn(text string) []string {
	found := []string{text}
	if strings.HasPrefix(text, "-") && len(text) > 2 {
		found = append(found, text[2:])
	}
	for _, sep := range []string{"=", ":", "@"} {
		if _, value, ok := strings.Cut(text, sep); ok {
			found = append(found, value)
		}
	}
	return found
}

// mayReach reports a command that may work on a path without naming it: by a
// folder above it, by a pattern, or in a way that is not understood.
func mayReach(c command, at, denied string) bool {
	p, understood := c.understood()
	name := path.Base(c[0].text)
	switch {
	case name == "git":
		return len(c) < 2 || !slices.Contains([]string{"status", "rev-parse", "ls-files", "--version"}, c[1].text)
	case !understood && (c.starts() || mentions(c, path.Base(denied))):
		return true
	}
	deep, given := p.deep || !understood || name == "grep" && recursive(c[1:]), 0
	for _, w := range c[1:] {
		if strings.HasPrefix(w.text, "-") {
			continue
		}
		given++
		full := absolute(at, w.text)
		if w.glob && matchesPath(full, denied) || !w.glob && deep && withinFold(full, denied) {
			return true
		}
	}
	return understood && deep && given <= p.terms
}

func recursive(args []word) bool {
	return slices.ContainsFunc(args, func(w word) bool {
		return strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "recur") || strings.HasPrefix(w.text, "-") && strings.ContainsAny(w.text, "rRd")
	})
}

// matchesPath reports a pattern that may match a path or a folder above it.
func matchesPath(pattern, p string) bool {
	wanted, have := strings.Split(strings.ToLower(pattern), "/"), strings.Split(strings.ToLower(p), "/")
	for i := range min(len(wanted), len(have)) {
		if matched, err := path.Match(wanted[i], have[i]); err == nil && !matched {
			return false
		}
	}
	return true
}

// mayStart reports a line that may start a denied command in a way that is not
// seen.
func (f *facts) mayStart(r *rule) bool {
	words := r.prefix()
	if len(words) == 0 {
		return false
	}
	name := path.Base(words[0])
	all := true
	for i, c := range f.line.commands {
		if f.vouched(i) {
			continue
		}
		all = false
		if _, understood := c.understood(); !understood && (c.starts() || mentions(c, name)) {
			return true
		}
	}
	if f.line.opaque == "" {
		return !all && slices.ContainsFunc(f.line.hidden, command.starts)
	}
	unread := f.line.opaque == opaqueUnparsable || f.line.opaque == opaqueDialect
	return unread || slices.ContainsFunc(f.line.hidden, command.starts) || hasToken(strings.NewReplacer(`\`, "", `'`, "", `"`, "").Replace(f.line.text), name)
}

func mentions(c command, name string) bool {
	return slices.ContainsFunc(c[1:], func(w word) bool { return hasToken(w.text, name) })
}

// hasToken finds a name in a text, between characters that names have not.
func hasToken(text, name string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool {
		return r < 0x80 && !isLetter(byte(r)) && (r < '0' || r > '9') && !strings.ContainsRune("_.-+", r)
	}), func(token string) bool { return strings.EqualFold(token, name) })
}

package permission

import (
	"cmp"
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/holdfast-dev/holdfast/session"
)

// rule is a session.Rule with its parsed prefix.
type rule struct {
	*session.Rule
	words []string // of a command prefix; nil: not parsed yet
}

// specificity says how narrow a rule is: the narrowest match decides.
func specificity(s *session.Scope) int {
	switch s.Kind {
	case session.ScopeDomain:
		n := 4500 + len(s.Domain)
		if s.ToolName != "" {
			n += 1000
		}
		if s.ToolPrefix != "" {
			n += 750
		}
		return n
	case session.ScopePath:
		n := 4000 + len(s.Path)
		if s.ToolName != "" {
			n += 1000
		}
		return n
	case session.ScopeCommandPrefix:
		return 3000 + len(s.Prefix)
	case session.ScopeMCPServer:
		return 2000 + len(s.ServerName)
	}
	return 1000 + len(s.ToolName)
}

func sourceRank(source string) int {
	switch source {
	case session.SourceSession:
		return 600
	case session.SourceWorkspaceDB:
		return 500
	case session.SourceWorkspaceManifest:
		return 400
	case session.SourceProfile:
		return 300
	case session.SourceLegacyGuardrails:
		return 200
	case session.SourceLegacySettings:
		return 100
	}
	return 0
}

func effectRank(effect string) int {
	switch effect {
	case session.EffectDeny:
		return 30
	case session.EffectAsk:
		return 20
	case session.EffectAllow:
		return 10
	}
	return 0
}

// beats orders rules that match the same call. Equal ones are ordered by their
// text, so that the order of the input does not matter.
func (r *rule) beats(o *rule) bool {
	if o.Rule == nil {
		return true
	}
	d := cmp.Or(
		specificity(&r.Scope)-specificity(&o.Scope), sourceRank(r.Source)-sourceRank(o.Source), effectRank(r.Effect)-effectRank(o.Effect),
		cmp.Compare(r.CreatedAt, o.CreatedAt),
	)
	return d > 0 || d == 0 && r.text() > o.text()
}

func (r *rule) text() string {
	raw, err := session.JSON(r.Rule)
	if err != nil {
		return r.Fingerprint() + r.ID
	}
	return string(raw)
}

// matches reports whether a rule applies to a call, or to one command of it. The
// rule may be unchecked: an empty scope matches nothing.
func (r *rule) matches(f *facts, c command) bool {
	s := &r.Scope
	switch s.Kind {
	case session.ScopeTool:
		return s.ToolName != "" && s.ToolName == f.q.Tool
	case session.ScopePath:
		return f.hasPath && (s.ToolName == "" || s.ToolName == f.q.Tool) && r.covers(f)
	case session.ScopeCommandPrefix:
		return len(c) > 0 && r.hasPrefix(c)
	case session.ScopeMCPServer:
		return f.server != "" && serverName(s.ServerName) == f.server
	case session.ScopeDomain:
		return f.domain != "" && host(s.Domain) == f.domain && (s.ToolName == "" || s.ToolName == f.q.Tool) && strings.HasPrefix(f.q.Tool, s.ToolPrefix)
	}
	return false
}

// covers reports whether the call's path is at or below the rule's. To allow, the
// named and the resolved path must be; to deny or ask, one of them.
func (r *rule) covers(f *facts) bool {
	if !session.Absolute(r.Scope.Path) {
		return false
	}
	root := path.Clean(r.Scope.Path)
	named, resolved := within(root, f.path), within(root, f.resolved)
	if r.Effect == session.EffectAllow {
		return named && resolved
	}
	return named || resolved
}

// within reports whether a clean path is root or below it; never for an empty
// path.
func within(root, p string) bool {
	if p == "" || root == "" || !strings.HasPrefix(p, root) {
		return false
	}
	return len(p) == len(root) || root[len(root)-1] == '/' || p[len(root)] == '/'
}

// hasPrefix reports whether the command starts with the words of the rule.
func (r *rule) hasPrefix(c command) bool {
	words := r.words
	if words == nil {
		prefix := r.Scope.Prefix
		if len(prefix) == 0 || isLetter(prefix[0]) && !strings.HasPrefix(c[0].text, prefix[:1]) {
			return false // fast path: most rules are about other commands
		}
		if !strings.ContainsFunc(prefix, func(r rune) bool { return r != ' ' && !unquoted(r) }) {
			return hasPlainPrefix(prefix, c)
		}
		words = prefixWords(r.Rule)
	}
	if len(words) == 0 || len(words) > len(c) {
		return false
	}
	for i, w := range words {
		if !c[i].literal || c[i].text != w {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// unquoted reports a character without a special meaning in any shell.
func unquoted(r rune) bool {
	return r < 0x80 && (isLetter(byte(r)) || r >= '0' && r <= '9' || strings.ContainsRune("_./:@+-", r))
}

// hasPlainPrefix is hasPrefix for a prefix without quotes, without allocations.
func hasPlainPrefix(prefix string, c command) bool {
	for i := 0; ; i++ {
		prefix = strings.TrimLeft(prefix, " ")
		if prefix == "" {
			return i > 0
		}
		w, rest, _ := strings.Cut(prefix, " ")
		if i >= len(c) || !c[i].literal || c[i].text != w {
			return false
		}
		prefix = rest
	}
}

// prefixWords returns the words of a command prefix, never nil. A prefix that is
// not one plain command allows nothing; to deny or ask it is split at spaces.
func prefixWords(r *session.Rule) []string {
	if file, err := parse(r.Scope.Prefix, syntax.LangBash); err == nil {
		l := line{}
		reader{line: &l}.stmts(file.Stmts, true)
		if c, ok := l.plain(); ok {
			words := make([]string, len(c))
			for i, w := range c {
				words[i] = w.text
			}
			return words
		}
	}
	if r.Effect == session.EffectAllow {
		return []string{}
	}
	return append([]string{}, strings.Fields(r.Scope.Prefix)...)
}

func serverName(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

func host(domain string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(domain)), ".")
}

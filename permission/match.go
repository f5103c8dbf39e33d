package permission

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/holdfast-dev/holdfast/session"
)

// rule is a rule ready to be matched and compared.
type rule struct {
	*session.Rule
	words []string // of a command prefix, where they are known
}

// specificity is how narrow a rule is: the narrowest that matches decides.
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

// beats orders rules that match one call. Rules that are equal in all that
// counts are ordered by their text, so that the order they came in has no say.
func (r *rule) beats(o *rule) bool {
	if o.Rule == nil {
		return true
	}
	for _, d := range [...]int{
		specificity(&r.Scope) - specificity(&o.Scope), sourceRank(r.Source) - sourceRank(o.Source), effectRank(r.Effect) - effectRank(o.Effect),
	} {
		if d != 0 {
			return d > 0
		}
	}
	if r.CreatedAt != o.CreatedAt {
		return r.CreatedAt > o.CreatedAt
	}
	return r.text() > o.text()
}

func (r *rule) text() string {
	raw, err := session.JSON(r.Rule)
	if err != nil {
		return r.Fingerprint() + r.ID
	}
	return string(raw)
}

// matches reports whether a rule is about a call, or about one command of it.
// It holds for any rule, checked or not: an empty scope matches nothing.
func (r *rule) matches(f *facts, c command) bool {
	s := &r.Scope
	switch s.Kind {
	case session.ScopeTool:
		return s.ToolName != "" && s.ToolName == f.q.Tool
	case session.ScopePath:
		return f.hasPath && (s.ToolName == "" || s.ToolName == f.q.Tool) && r.covers(f)
	case session.ScopeCommandPrefix:
		return len(c) > 0 && r.begins(c)
	case session.ScopeMCPServer:
		return f.server != "" && serverName(s.ServerName) == f.server
	case session.ScopeDomain:
		return f.domain != "" && host(s.Domain) == f.domain && (s.ToolName == "" || s.ToolName == f.q.Tool) && strings.HasPrefix(f.q.Tool, s.ToolPrefix)
	}
	return false
}

// covers reports whether a path lies at or below that of the rule. To allow,
// it must do so however it is looked at; to deny and ask, in any way.
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

// within reports whether a clean path is root or below it. The empty path is
// nowhere.
func within(root, p string) bool {
	if p == "" || root == "" || !strings.HasPrefix(p, root) {
		return false
	}
	return len(p) == len(root) || root[len(root)-1] == '/' || p[len(root)] == '/'
}

// begins reports whether the words of the rule are the first of the command.
func (r *rule) begins(c command) bool {
	words := r.words
	if words == nil {
		prefix := r.Scope.Prefix
		if len(prefix) == 0 || isLetter(prefix[0]) && !strings.HasPrefix(c[0].text, prefix[:1]) {
			return false // as most rules are about other commands
		}
		if !strings.ContainsFunc(prefix, func(r rune) bool { return r != ' ' && !unquoted(r) }) {
			return beginsWith(prefix, c)
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

// unquoted reports a character that means only itself to every shell.
func unquoted(r rune) bool {
	return r < 0x80 && (isLetter(byte(r)) || r >= '0' && r <= '9' || strings.ContainsRune("_./:@+-", r))
}

// beginsWith is begins for a prefix that only spaces part, without taking it
// apart.
func beginsWith(prefix string, c command) bool {
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

// prefixWords are the words of a rule about commands, never nil. A prefix that
// is more than one plain command allows nothing; to deny and ask it is taken
// word by word.
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

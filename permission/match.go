package permission

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// rule is a session.Rule with its parsed prefix.
type rule struct {
	*session.Rule
	words []string // of a command prefix; nil: not parsed yet
}

// specificity says how narrow a rule is.
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

// beats orders rules that match the same call. One that denies beats all others;
// of the rest the narrowest decides. Equal ones are ordered by their text, so that
// the order of the input does not matter.
func (r *rule) beats(o *rule) bool {
	if o.Rule == nil {
		return true
	}
	denies := func(r *rule) int { return max(effectRank(r.Effect)-effectRank(session.EffectAsk), 0) }
	d := cmp.Or(
		denies(r)-denies(o), specificity(&r.Scope)-specificity(&o.Scope), sourceRank(r.Source)-sourceRank(o.Source), effectRank(r.Effect)-effectRank(o.Effect),
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
		return len(c) > 0 && r.isAbout(c)
	case session.ScopeMCPServer:
		return f.server != "" && serverName(s.ServerName) == f.server
	case session.ScopeDomain:
		return f.domain != "" && host(s.Domain) == f.domain && (s.ToolName == "" || s.ToolName == f.q.Tool) && strings.HasPrefix(f.q.Tool, s.ToolPrefix)
	}
	return false
}

// covers reports whether a rule is about the call's path. To allow, the named and
// the resolved path must be at or below the rule's. To deny or ask, one of them is
// enough, upper and lower case are the same, and a call on everything below a
// folder is also about what the rule protects in there.
func (r *rule) covers(f *facts) bool {
	if !session.Absolute(r.Scope.Path) {
		return false
	}
	root := path.Clean(r.Scope.Path)
	if r.Effect == session.EffectAllow {
		return within(root, f.path) && within(root, f.resolved)
	}
	return withinFold(root, f.path) || withinFold(root, f.resolved) || f.deep && (withinFold(f.path, root) || withinFold(f.resolved, root))
}

// withinFold is within for file systems on which A and a are one name.
func withinFold(root, p string) bool {
	return root != "" && len(p) >= len(root) && strings.EqualFold(p[:len(root)], root) && within(root, root+p[len(root):])
}

// within reports whether a clean path is root or below it; never for an empty
// path.
func within(root, p string) bool {
	if p == "" || root == "" || !strings.HasPrefix(p, root) {
		return false
	}
	return len(p) == len(root) || root[len(root)-1] == '/' || p[len(root)] == '/'
}

// isAbout reports whether a rule covers a command. One that allows covers commands
// that start with its words, but of a program that is not understood only the
// very command: behind env or sudo anything could follow. One that denies or asks
// also covers other spellings.
func (r *rule) isAbout(c command) bool {
	if !r.startsLike(c[0]) {
		return false
	}
	if r.Effect != session.EffectAllow {
		return r.restricts(c)
	}
	words := r.prefix()
	if len(words) == 0 || len(words) > len(c) {
		return false
	}
	for i, w := range words {
		if !c[i].literal || c[i].glob || c[i].text != w {
			return false
		}
	}
	_, understood := c.understood()
	return understood || len(words) == len(c)
}

// startsLike compares the first letters: most rules are about other commands, and
// need not be parsed.
func (r *rule) startsLike(w word) bool {
	p := r.Scope.Prefix
	if len(p) == 0 || !isLetter(p[0]) || !w.literal || w.glob || strings.Contains(p, "/") {
		return true
	}
	name := path.Base(w.text)
	return name[0]|0x20 == p[0]|0x20
}

// prefix returns the words of the rule.
func (r *rule) prefix() []string {
	if r.words == nil {
		r.words = prefixWords(r.Rule)
	}
	return r.words
}

// restricts reports a command that is, or with the file system as it may be could
// be, one that the rule restricts.
func (r *rule) restricts(c command) bool {
	words := r.prefix()
	return len(words) > 0 && c[0].literal && c[0].mayBe(path.Base(words[0]), path.Base(c[0].text)) && restrictsArguments(words[1:], c[1:])
}

// mayBe reports whether a word, written so, can mean a name.
func (w word) mayBe(name, text string) bool {
	if w.glob {
		matched, err := path.Match(strings.ToLower(text), strings.ToLower(name))
		return matched || err != nil && strings.EqualFold(text, name)
	}
	return strings.EqualFold(text, name)
}

// maxArguments limits the search for the words of a rule among others.
const maxArguments = 100

// restrictsArguments finds the words of a rule in their order, with options and
// their values between them. An option of the rule may stand anywhere.
func restrictsArguments(want []string, have []word) bool {
	if len(want) == 0 {
		return true
	}
	has := func(text string) bool {
		return slices.ContainsFunc(have, func(w word) bool {
			return w.mayBe(text, w.text) || strings.HasPrefix(text, "--") && len(w.text) > 3 && strings.HasPrefix(text, w.text)
		})
	}
	if len(have) > maxArguments {
		return !slices.ContainsFunc(want, func(text string) bool { return !has(text) })
	}
	if strings.HasPrefix(want[0], "-") {
		return has(want[0]) && restrictsArguments(want[1:], have)
	}
	for i, w := range have {
		if w.literal && w.mayBe(want[0], w.text) && restrictsArguments(want[1:], have[i+1:]) {
			return true
		}
		option := strings.HasPrefix(w.text, "-")
		value := i > 0 && strings.HasPrefix(have[i-1].text, "-")
		if !option && !value {
			return false
		}
	}
	return false
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// unquoted reports a character without a special meaning in any shell.
func unquoted(r rune) bool {
	return r < 0x80 && (isLetter(byte(r)) || r >= '0' && r <= '9' || strings.ContainsRune("_./:@+-", r))
}

// prefixWords returns the words of a command prefix, never nil. A prefix that is
// not one plain command allows nothing; to deny or ask it is split at spaces.
func prefixWords(r *session.Rule) []string {
	if plain, ok := scanPlain(r.Scope.Prefix); ok && len(plain) == 1 && !slices.ContainsFunc(plain[0], func(w word) bool { return w.glob }) {
		words := make([]string, len(plain[0]))
		for i, w := range plain[0] {
			words[i] = w.text
		}
		return words
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

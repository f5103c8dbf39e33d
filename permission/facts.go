package permission

import (
	"path"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// BundleKey is the grant for the shell calls of the running step.
const BundleKey = "run_command:single_bundle"

// facts is what a request comes to.
type facts struct {
	q    *Request
	mode string

	hasPath        bool
	path, resolved string // clean and absolute; empty where that is not to be had
	inside         bool   // in the workspace, however it is looked at

	server, domain string

	isCommand bool
	line      line

	unknown  bool
	export   bool
	location bool

	offered session.Scope
}

func gather(q *Request) facts {
	f := facts{
		q:         q,
		mode:      q.Mode,
		hasPath:   q.Path != "" || q.ResolvedPath != "",
		server:    serverName(q.Server),
		domain:    host(q.Domain),
		isCommand: q.Effects.Has(Shell) || q.Command != "",
		unknown:   !q.Known || q.Effects == 0,
		export:    q.Effects.Has(Export) || q.Type == "data_export",
		location:  q.Effects.Has(Location) || q.Type == "location_access",
	}
	if session.CheckPermissionMode(f.mode) != nil {
		f.mode = session.PermissionDefault
	}
	if f.hasPath {
		f.place()
	}
	if f.isCommand {
		f.line = readLine(q.Command)
	}
	f.offered = f.offer()
	return f
}

// place finds out where the path is.
func (f *facts) place() {
	root := f.q.Workspace.Root
	if session.Absolute(root) {
		root = path.Clean(root)
	} else {
		root = ""
	}
	f.path, f.resolved = absolute(root, f.q.Path), absolute("", f.q.ResolvedPath)
	f.inside = within(root, f.path) && within(root, f.resolved)
}

// absolute is a clean path, from root where it is relative. It is empty for
// what is no path.
func absolute(root, p string) string {
	switch {
	case p == "" || strings.IndexByte(p, 0) >= 0:
		return ""
	case session.Absolute(p):
		return path.Clean(p)
	case root == "":
		return ""
	}
	return path.Join(root, p)
}

// mcp reports a tool of an MCP server.
func (f *facts) mcp() bool { return f.q.Effects.Has(MCP) || f.server != "" }

// reads reports a call that declares to look and do nothing else.
func (f *facts) reads() bool {
	return !f.unknown && !f.isCommand && !f.export && !f.mcp() && f.q.Effects.Within(Read|Network)
}

// edits reports a call that changes a file in the workspace.
func (f *facts) edits() bool {
	return !f.unknown && !f.isCommand && !f.export && !f.mcp() && f.inside && f.q.Effects.Within(Read|Write|Network)
}

// rules hands over those that may be about the call or one command of it.
func (f *facts) rules(c command, yield func(r *rule)) {
	var r rule
	for i := range f.q.Rules {
		r.Rule = &f.q.Rules[i]
		yield(&r)
	}
	f.q.Policy.each(f, c, yield)
}

// best is the rule that decides. Rules that allow do not count for what
// nobody can see through, and none but rules about paths for what lies
// outside the workspace.
func (f *facts) best(c command) *session.Rule {
	var best rule
	f.rules(c, func(r *rule) {
		if !r.matches(f, c) {
			return
		}
		if r.Effect == session.EffectAllow && !f.mayAllow(&r.Scope) {
			return
		}
		if effectRank(r.Effect) > 0 && r.beats(&best) {
			best = *r
		}
	})
	return best.Rule
}

func (f *facts) mayAllow(s *session.Scope) bool {
	if f.isCommand && f.line.opaque != "" {
		return false
	}
	return !f.hasPath || f.inside || s.Kind == session.ScopePath
}

// bestHidden is the rule about a command that is not in plain sight.
func (f *facts) bestHidden(c command) *session.Rule {
	var best rule
	f.rules(c, func(r *rule) {
		strict := r.Effect == session.EffectDeny || r.Effect == session.EffectAsk
		if strict && r.Scope.Kind == session.ScopeCommandPrefix && r.matches(f, c) && r.beats(&best) {
			best = *r
		}
	})
	return best.Rule
}

// granted reports a live grant for the call, or for one command of it.
func (f *facts) granted(c command) (string, bool) {
	if f.q.Grants.Len() == 0 || f.isCommand && f.line.opaque != "" {
		return "", false
	}
	if f.hasPath && !f.inside && (f.offered.Kind != session.ScopePath || f.path != f.resolved) {
		return "", false // a link may lead elsewhere than it did when it was granted
	}
	keys := []string{f.offered.Fingerprint()}
	if f.isCommand {
		keys = keys[:0]
		if c.literal() && len(c) > 0 {
			keys = append(keys, session.Scope{Kind: session.ScopeCommandPrefix, Prefix: c.prefix()}.Fingerprint())
		}
		if f.q.Effects.Has(Shell) {
			keys = append(keys, BundleKey)
		}
	}
	for _, key := range keys {
		if g, ok := f.q.Grants.Get(key); ok && g.Live(f.q.Now, f.q.Instance) {
			return key, true
		}
	}
	return "", false
}

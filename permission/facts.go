package permission

import (
	"path"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// BundleKey is the key of the grant for all shell calls of the running step.
const BundleKey = "run_command:single_bundle"

// facts holds everything that is derived from a request.
type facts struct {
	q    *Request
	mode string

	hasPath        bool
	path, resolved string // clean and absolute; empty if unknown
	inside         bool   // both paths are in the workspace
	deep           bool   // the call is about everything below the path

	server, domain string

	isCommand bool
	line      line
	exact     []bool // by command: a person allowed just this

	unknown  bool
	export   bool
	location bool

	own   []rule // Rules of the request
	scope session.Scope

	unsandboxed bool // a command could do anything
}

func readFacts(q *Request) facts {
	f := facts{
		q:         q,
		mode:      q.Mode,
		hasPath:   q.Path != "" || q.ResolvedPath != "",
		deep:      q.Deep || !q.Effects.Within(tool.Read|tool.Network),
		server:    serverName(q.Server),
		domain:    host(q.Domain),
		isCommand: q.Effects.Has(tool.Shell) || q.Command != "",
		unknown:   !q.Known || q.Effects == 0,
		export:    q.Effects.Has(tool.Export) || q.Type == "data_export",
		location:  q.Effects.Has(tool.Location) || q.Type == "location_access",
	}
	if session.CheckPermissionMode(f.mode) != nil {
		f.mode = session.PermissionDefault
	}
	f.own = make([]rule, len(q.Rules))
	for i := range q.Rules {
		f.own[i].Rule = &q.Rules[i]
	}
	if f.hasPath {
		f.resolvePaths()
	}
	if f.isCommand {
		f.line = readLine(q.Command)
	}
	f.scope = f.answerScope()
	return f
}

// resolvePaths sets path, resolved and inside.
func (f *facts) resolvePaths() {
	root := f.q.Workspace.Root
	if session.Absolute(root) {
		root = path.Clean(root)
	} else {
		root = ""
	}
	f.path, f.resolved = absolute(root, f.q.Path), absolute("", f.q.ResolvedPath)
	f.inside = within(root, f.path) && within(root, f.resolved)
}

// absolute returns a clean path; a relative one starts at root. It is empty for
// an invalid path.
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

// mcp reports whether the tool is one of an MCP server.
func (f *facts) mcp() bool { return f.q.Effects.Has(tool.MCP) || f.server != "" }

// reads reports a call that declares only reading.
func (f *facts) reads() bool {
	return !f.unknown && !f.isCommand && !f.export && !f.mcp() && f.q.Effects.Within(tool.Read|tool.Network)
}

// edits reports a call that changes a file in the workspace.
func (f *facts) edits() bool {
	return !f.unknown && !f.isCommand && !f.export && !f.mcp() && f.inside && f.q.Effects.Within(tool.Read|tool.Write|tool.Network)
}

// rules yields the rules that may apply to the call or to one command of it.
func (f *facts) rules(c command, yield func(r *rule)) {
	for i := range f.own {
		yield(&f.own[i])
	}
	f.q.Policy.each(f, c, yield)
}

// best returns the rule that decides. Rules that allow do not count for opaque
// lines; outside the workspace only those about paths count.
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

// bestHidden returns the strict rule for a hidden command.
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

// vouched reports whether a person has allowed just this command of the line.
func (f *facts) vouched(i int) bool { return i < len(f.exact) && f.exact[i] }

// granted returns the key of a valid grant for the call or one command of it.
func (f *facts) granted(c command) (string, bool) {
	if f.q.Grants.Len() == 0 || f.isCommand && f.line.opaque != "" {
		return "", false
	}
	if f.hasPath && !f.inside && (f.scope.Kind != session.ScopePath || f.path != f.resolved) {
		return "", false // a link may have changed since the grant
	}
	keys := []string{f.scope.Fingerprint()}
	if f.isCommand {
		keys = keys[:0]
		if c.fixed() && len(c) > 0 {
			keys = append(keys, session.Scope{Kind: session.ScopeCommandPrefix, Prefix: c.prefix()}.Fingerprint())
		}
		if f.q.Effects.Has(tool.Shell) {
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

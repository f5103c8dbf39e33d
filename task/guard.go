package task

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// verdict is whether a call may run.
type verdict struct {
	allow  bool
	result *tool.Result      // of a call that is denied: what the model is told
	ask    *session.Approval // the call waits for this; it is appended already

	// with goes into the same append as what follows: that the call started,
	// or its result.
	with move
}

// and is two moves made as one.
func (m move) and(n move) move {
	both := move{changes: append(slices.Clone(m.changes), n.changes...), state: m.state, row: m.row}
	if n.state != nil {
		both.state = func(s *session.TaskState) {
			if m.state != nil {
				m.state(s)
			}
			n.state(s)
		}
	}
	if n.row != nil {
		both.row = func(row *session.TaskRow) {
			if m.row != nil {
				m.row(row)
			}
			n.row(row)
		}
	}
	return both
}

// authorize decides about a call. A call that a person has allowed runs unless
// what nobody may allow forbids it; one that a person has denied does not. A
// call that has to be asked about leaves the task blocked: the question is
// durable when authorize returns.
func (r *Run) authorize(ctx context.Context, call session.ToolCall, t Tool, known bool) (verdict, error) {
	requests, err := r.requests(ctx, call, t, known)
	if err != nil {
		return verdict{}, err
	}
	request, decided := r.x.strictest(requests)
	mark := decided.Scope.Fingerprint()
	if asked, ok := approvalFor(r.state().Approvals, call.ID); ok {
		switch asked.Status {
		case approvalPending:
			return verdict{ask: &asked}, nil
		case approvalDenied, approvalExpired:
			return denied(call, session.PermissionReason{Type: asked.Status, Summary: deniedByUserText}), nil
		case approvalApproved:
			if decided.Decision == session.EffectDeny && !decided.Soft() {
				return denied(call, decided.Reason), nil
			}
			return verdict{allow: true, with: move{state: func(s *session.TaskState) { s.Permissions = s.Permissions.WithExecuted(mark) }}}, nil
		}
	}
	switch decided.Decision {
	case session.EffectAllow:
		return verdict{allow: true, with: move{state: func(s *session.TaskState) { s.Permissions = s.Permissions.WithExecuted(mark) }}}, nil
	case session.EffectDeny:
		v := denied(call, decided.Reason)
		if decided.Soft() {
			v.with.state = func(s *session.TaskState) { s.Permissions = s.Permissions.WithDenial(mark) }
		}
		return v, nil
	}
	approval, err := r.askFor(ctx, call, request, decided)
	if err != nil {
		return verdict{}, err
	}
	return verdict{ask: &approval}, nil
}

// denied is a call that does not run.
func denied(call session.ToolCall, why session.PermissionReason) verdict {
	refused := &session.PermissionDeniedError{Reason: why.Summary}
	return verdict{
		result: &tool.Result{Content: refused.Error(), IsError: true},
		with:   move{changes: []session.Change{event("tool_blocked", map[string]any{"tool": call.Name, "callId": call.ID, "reason": why})}},
	}
}

// strictest decides about each request and is the one that decides the call.
func (x *Executor) strictest(requests []permission.Request) (permission.Request, permission.Result) {
	rank := func(decision string) int {
		return slices.Index([]string{session.EffectAllow, session.EffectAsk, session.EffectDeny}, decision)
	}
	first, decided := requests[0], x.c.Engine.Evaluate(requests[0])
	for _, q := range requests[1:] {
		if v := x.c.Engine.Evaluate(q); rank(v.Decision) > rank(decided.Decision) {
			first, decided = q, v
		}
	}
	return first, decided
}

// requests are what permissions are asked about a call: one request, or one
// for each path it names.
func (r *Run) requests(ctx context.Context, call session.ToolCall, t Tool, known bool) ([]permission.Request, error) {
	state, w := r.state(), r.workspace()
	def := r.session().Definition()
	var policy *permission.Policy
	if r.x.c.Rules != nil {
		var err error
		if policy, err = r.x.c.Rules.Policy(ctx, w); err != nil {
			return nil, err
		}
		r.x.warn(policy)
	}
	rules := state.Permissions.SessionRules
	if w.Root != "" && !t.Effects.Within(permission.Read|permission.Network) { // who may write the rules may do everything
		rules = append(slices.Clip(rules), session.Rule{
			Source: session.SourceSession, Effect: session.EffectAsk, Scope: session.Scope{Kind: session.ScopePath, Path: path.Join(w.Root, path.Dir(permission.ManifestPath))},
		})
	}
	named := argumentsOf(call.Arguments)
	q := permission.Request{
		Tool: call.Name, Known: known, Effects: t.Effects, Input: call.Arguments, Server: t.Server,
		Workspace: w, Mode: state.Permissions.Mode, Instance: r.x.instance,
		Restrictions: permission.Restrictions{Allowed: def.Tools, Denied: def.ToolsDeny},
		Rules:        rules, Policy: policy,
		Grants: state.Permissions.TemporaryGrants, Denials: state.Permissions.DenialTracking,
		AllowPersistence: true, Now: millis(r.x.c.Clock()),
	}
	if t.Effects.Has(permission.Network) && t.Effects.Has(permission.Export) {
		// What a tool for HTTP requests does depends on the request.
		q.Effects = q.Effects&^(permission.Network|permission.Export) |
			permission.OfHTTP(orText(named.text("method"), "GET"), named.given("body", "data"), named.given("headers"))
	}
	if t.Effects.Has(permission.Shell) {
		q.Command = named.text("command", "cmd", "script")
	}
	q.Domain = named.host()
	q.Type = approvalType(q.Effects, known)
	paths := named.paths()
	if len(paths) == 0 || q.Effects.Within(permission.Network|permission.Export|permission.Shell) {
		return []permission.Request{q}, nil
	}
	requests := make([]permission.Request, len(paths))
	for i, p := range paths {
		requests[i] = q
		requests[i].Path, requests[i].ResolvedPath = filepath.ToSlash(p), resolvedPath(w.Root, p)
	}
	return requests, nil
}

// approvalType is what kind of approval a call needs.
func approvalType(e permission.Effects, known bool) string {
	switch {
	case !known || e == 0:
		return "tool"
	case e.Has(permission.Location):
		return "location_access"
	case e.Has(permission.Export):
		return "data_export"
	case e.Has(permission.Shell):
		return "run_command"
	case e.Has(permission.Delete):
		return "delete_file"
	case e.Has(permission.Interact):
		return "computer_use"
	case e.Has(permission.External | permission.MCP):
		return "external_service"
	case e.Has(permission.Network):
		return "network_access"
	}
	return "tool"
}

// arguments are those of a call, by name.
type arguments map[string]json.RawMessage

func argumentsOf(raw json.RawMessage) arguments {
	var named arguments
	if json.Unmarshal(raw, &named) != nil {
		return nil
	}
	return named
}

// text is the first of some arguments that is a text.
func (a arguments) text(names ...string) string {
	for _, name := range names {
		var s string
		if json.Unmarshal(a[name], &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

// given reports an argument that says something.
func (a arguments) given(names ...string) bool {
	for _, name := range names {
		switch text := strings.TrimSpace(string(a[name])); text {
		case "", "null", `""`, "{}", "[]":
		default:
			return true
		}
	}
	return false
}

// pathNames are what tools call the paths they work on.
var pathNames = []string{
	"path", "file_path", "filePath", "file", "filename", "dir", "directory", "folder",
	"from", "to", "source", "destination", "src", "dst", "old_path", "new_path", "oldPath", "newPath", "paths", "files_to_delete",
}

// paths are all paths that the arguments name.
func (a arguments) paths() []string {
	var found []string
	for _, name := range pathNames {
		if p := a.text(name); p != "" {
			found = append(found, p)
			continue
		}
		var several []string
		if raw, ok := a[name]; ok && json.Unmarshal(raw, &several) == nil {
			found = append(found, several...)
		}
	}
	return found
}

// host is the host that the arguments name.
func (a arguments) host() string {
	if u, err := url.Parse(a.text("url", "uri", "href", "endpoint")); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return a.text("domain", "host")
}

// resolvedPath is where a path leads with every symbolic link followed, empty
// where nobody can say. What does not exist yet leads where its folder does.
func resolvedPath(root, p string) string {
	if !filepath.IsAbs(p) {
		if root == "" {
			return ""
		}
		p = filepath.FromSlash(root) + string(filepath.Separator) + p
	}
	if strings.Contains(p, "..") { // a link on the way decides where up is
		if led, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.ToSlash(led)
		}
	}
	p = filepath.Clean(p)
	rest := ""
	for {
		led, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.ToSlash(filepath.Join(led, rest))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		if _, err := os.Lstat(p); err == nil { // a link that leads nowhere yet
			return ""
		}
		up := filepath.Dir(p)
		if up == p {
			return ""
		}
		p, rest = up, filepath.Join(filepath.Base(p), rest)
	}
}

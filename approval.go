package holdfast

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// permitFor returns what a call may do beyond its workspace and its host, once
// it is admitted: use the paths it names, and follow redirects to where it
// could go without asking.
func (g gate) permitFor(spec tool.Spec, requests []permission.Request) tool.Permit {
	p := tool.Permit{}
	if spec.Effects.Has(tool.Shell) {
		p.Denied = requests[0].DeniedPaths()
	}
	for _, q := range requests {
		if q.Path == "" || q.ResolvedPath == "" || !outside(q.Workspace.Root, q.Path) && !outside(q.Workspace.Root, q.ResolvedPath) {
			continue
		}
		if p.Outside == nil {
			p.Outside = map[string]string{}
		}
		p.Outside[q.Path] = q.ResolvedPath
	}
	if !spec.Effects.Has(tool.Network) && !spec.Effects.Has(tool.Export) {
		return p
	}
	p.Host = func(host string) error {
		hop := requests[0] // a redirected request takes neither headers nor a body along
		hop.Domain, hop.Effects, hop.Type = host, tool.Network, ""
		if decided := g.p.Engine.Evaluate(hop); decided.Decision != session.EffectAllow {
			return &session.PermissionDeniedError{Reason: decided.Reason.Summary}
		}
		return nil
	}
	return p
}

// outside reports a path that does not lie below root. Relative ones start
// there.
func outside(root, p string) bool {
	if root == "" {
		return true
	}
	root = path.Clean(root)
	if !path.IsAbs(p) {
		p = path.Join(root, p)
	}
	p = path.Clean(p)
	return p != root && !strings.HasPrefix(p, strings.TrimSuffix(root, "/")+"/")
}

// describeCall adds to an approval what the arguments alone do not show: what
// the call would change, or why that cannot be shown.
func describeCall(ctx context.Context, p *session.PendingCall, call agent.Call, permit tool.Permit) {
	show := call.Tool.Spec().Diff
	if show == nil {
		return
	}
	diff, err := show(tool.WithPermit(ctx, permit), tool.Call{ID: call.ID, Arguments: call.Arguments})
	if err != nil {
		p.Context = "What it would change cannot be shown: " + err.Error()
	}
	p.Diff = diff
}

// askedFor says in words what a call that needs an approval does: the whole
// command or address where it has one, for a rule may cover less than that.
func askedFor(q permission.Request, decided permission.Result) string {
	var named struct {
		URL    string `json:"url"`
		Method string `json:"method"`
	}
	switch {
	case q.Command != "":
		return q.Tool + ": " + q.Command
	case json.Unmarshal(q.Input, &named) == nil && named.URL != "":
		return fmt.Sprintf("%s: %s %s", q.Tool, cmp.Or(strings.ToUpper(named.Method), "GET"), named.URL)
	case q.Server != "":
		return fmt.Sprintf("%s of MCP server %s", q.Tool, q.Server)
	}
	return decided.ScopePreview
}

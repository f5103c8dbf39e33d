package permission

import (
	"path"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// protectedNames are files and folders from which other programs run code or take
// orders: version control, shells, editors, build services and Holdfast itself.
var protectedNames = strings.Fields(`
	.holdfast .git .gitmodules .gitconfig .hg .svn .husky .githooks .pre-commit-config.yaml lefthook.yml lefthook.yaml
	.envrc .profile .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zprofile .zshenv .zlogin .zlogout .kshrc .mkshrc
	.cshrc .tcshrc .login .inputrc config.fish .ssh .gnupg .netrc .npmrc .yarnrc .yarnrc.yml
	.vscode .idea .fleet .zed .devcontainer .vim .vimrc .exrc .gvimrc .nvimrc .nvim.lua .emacs .emacs.d .dir-locals.el
	.cursor .claude .codex .mcp.json
	.github .gitlab .gitlab-ci.yml .gitea .forgejo .circleci .buildkite .woodpecker .woodpecker.yml .drone.yml .travis.yml
	azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml .appveyor.yml jenkinsfile`)

// protected reports a path that is, or is in, a protected place. Upper and lower
// case are the same, as on many file systems.
func protected(p string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToLower(p), "/"), func(name string) bool {
		return slices.Contains(protectedNames, name) || strings.HasSuffix(name, ".code-workspace")
	})
}

// askIfProtected asks before a change of a protected place, whatever rules and
// grants allow.
func (f *facts) askIfProtected(v verdict) verdict {
	if v.decision != session.EffectAllow || f.mode == session.PermissionBypass {
		return v
	}
	if where := f.changesProtected(); where != "" {
		return newVerdict(session.EffectAsk, ReasonProtected, session.ReasonDetails{Path: where}, textProtected, where)
	}
	return v
}

// changesProtected returns a protected place that the call may change.
func (f *facts) changesProtected() string {
	if f.isCommand {
		return f.line.changesProtected(f.folder())
	}
	if !f.hasPath || f.q.Effects.Within(tool.Read|tool.Network) {
		return ""
	}
	root := f.q.Workspace.Root
	for _, p := range []string{f.path, f.resolved} {
		below := strings.TrimPrefix(p, path.Clean(root))
		if !within(path.Clean(root), p) {
			below = p
		}
		if protected(below) || below == "" && p != "" {
			return p // the workspace itself has protected places in it
		}
	}
	return ""
}

// changesProtected returns a protected place in the words of a command that does
// more than read.
func (l *line) changesProtected(at string) string {
	for _, c := range l.commands {
		if p, ok := c.understood(); ok && !p.writes {
			continue
		}
		for _, w := range c[1:] {
			for _, p := range pathsIn(w.text) {
				full := absolute(at, p)
				if below := strings.TrimPrefix(full, at); protected(below) || w.glob && strings.Contains(below, "/.") {
					return full
				}
			}
		}
	}
	return ""
}

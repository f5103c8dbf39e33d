package permission

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// safeCommand is the prefix of commands that only read. takes reports whether
// its arguments keep it so; nil: all do.
type safeCommand struct {
	words []string
	takes func(args []word) bool
}

// safeCommands lists what the mode dangerous_only runs without asking. A command
// with options that write files or start programs accepts only harmless ones;
// an argument outside the workspace always needs an answer.
var safeCommands = []safeCommand{
	{[]string{"pwd"}, nil},
	{[]string{"ls"}, nil},
	{[]string{"cat"}, nil},
	{[]string{"head"}, nil},
	{[]string{"tail"}, nil},
	{[]string{"grep"}, nil},
	{[]string{"tree"}, all(notGlob, without("-o", "--output"))},
	{[]string{"rg"}, all(notGlob, without("--pre", "--hostname-bin", "--search-zip", "-z"))},
	{[]string{"find"}, all(notGlob, without("-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from"))},
	{[]string{"sed", "-n"}, sedPrintsOnly},

	{[]string{"git", "status"}, gitReadOnly},
	{[]string{"git", "diff"}, gitReadOnly},
	{[]string{"git", "log"}, gitReadOnly},
	{[]string{"git", "show"}, gitReadOnly},
	{[]string{"git", "rev-parse"}, gitReadOnly},
	{[]string{"git", "ls-files"}, gitReadOnly},

	{[]string{"go", "test"}, onlyOptions("-v", "-race", "-short", "-run", "-count", "-timeout", "-cover", "-failfast", "-bench", "-benchmem", "-parallel")},
	{[]string{"go", "vet"}, onlyOptions()},
	{[]string{"npm", "test"}, none},
	{[]string{"npm", "run", "test"}, none},
	{[]string{"npm", "run", "lint"}, none},
	{[]string{"pnpm", "test"}, none},
	{[]string{"pnpm", "lint"}, none},
	{[]string{"yarn", "test"}, none},
	{[]string{"yarn", "lint"}, none},
	{[]string{"pytest"}, onlyOptions("-v", "-vv", "-q", "-x", "-s", "-k", "-m", "--tb", "--maxfail", "--lf")},
	{[]string{"cargo", "test"}, onlyOptions("--all", "--workspace", "--release", "--quiet", "-q", "--lib")},
	{[]string{"cargo", "check"}, onlyOptions("--all", "--workspace", "--quiet", "-q")},
	{[]string{"cargo", "clippy"}, onlyOptions("--all", "--workspace", "--quiet", "-q")},
	{[]string{"make", "test"}, none},
	{[]string{"make", "check"}, none},
	{[]string{"make", "lint"}, none},

	{[]string{"golangci-lint", "run"}, onlyOptions("-v")},
	{[]string{"eslint"}, onlyOptions("--ext", "--quiet", "--max-warnings")},
	{[]string{"ruff", "check"}, onlyOptions("--quiet", "-q")},
	{[]string{"flake8"}, onlyOptions()},
	{[]string{"tsc", "--noEmit"}, none},

	{[]string{"go", "version"}, none},
	{[]string{"go", "--version"}, none},
	{[]string{"git", "--version"}, none},
	{[]string{"node", "--version"}, none},
	{[]string{"npm", "--version"}, none},
	{[]string{"pnpm", "--version"}, none},
	{[]string{"yarn", "--version"}, none},
	{[]string{"python", "--version"}, none},
	{[]string{"python3", "--version"}, none},
	{[]string{"pip", "--version"}, none},
	{[]string{"cargo", "--version"}, none},
	{[]string{"rustc", "--version"}, none},
	{[]string{"java", "--version"}, none},
	{[]string{"make", "--version"}, none},
	{[]string{"docker", "--version"}, none},
}

// safe reports a command of the list whose arguments stay in the workspace.
// Links inside the workspace are not followed: arguments are only text.
func (f *facts) safe(c command) bool {
	declares := f.q.Effects.Has(Shell) && f.q.Effects.Within(Shell|Read|Write|Delete|Network)
	if !declares || f.mcp() || f.line.opaque != "" || !c.literal() {
		return false
	}
	for _, s := range safeCommands {
		if (&rule{words: s.words}).hasPrefix(c) {
			args := c[len(s.words):]
			return (s.takes == nil || s.takes(args)) && !slices.ContainsFunc(args, f.leavesWorkspace)
		}
	}
	return false
}

// leavesWorkspace reports an argument that may name a path outside the workspace,
// also in an option: -f/etc/passwd, --file=/etc/passwd.
func (f *facts) leavesWorkspace(w word) bool {
	text := w.text
	if strings.HasPrefix(text, "-") {
		if i := strings.IndexAny(text, "/~"); i > 0 {
			text = text[i:]
		}
		if _, value, ok := strings.Cut(w.text, "="); ok {
			text = value
		}
	}
	dots := slices.Contains(strings.Split(text, "/"), "..")
	if !dots && !session.Absolute(text) && !strings.HasPrefix(text, "~") {
		return false
	}
	root := f.q.Workspace.Root
	if !session.Absolute(root) || strings.HasPrefix(text, "~") {
		return true
	}
	root = path.Clean(root)
	return !within(root, absolute(cmp.Or(f.path, root), text))
}

func all(checks ...func([]word) bool) func([]word) bool {
	return func(args []word) bool {
		for _, check := range checks {
			if !check(args) {
				return false
			}
		}
		return true
	}
}

func none(args []word) bool { return len(args) == 0 }

// notGlob refuses a pattern that could match a file named like an option.
func notGlob(args []word) bool {
	return !slices.ContainsFunc(args, func(w word) bool { return w.glob && strings.IndexByte("*?[-", w.text[0]) >= 0 })
}

// without refuses options by their beginning: -exec also means -execdir.
func without(options ...string) func([]word) bool {
	return func(args []word) bool {
		return !slices.ContainsFunc(args, func(w word) bool {
			return slices.ContainsFunc(options, func(o string) bool { return refuses(o, w.text) })
		})
	}
}

// refuses also finds a short option among others and an abbreviated long one.
func refuses(option, text string) bool {
	if strings.HasPrefix(text, option) {
		return true
	}
	if strings.HasPrefix(option, "--") {
		name, _, _ := strings.Cut(text, "=")
		return len(name) > 3 && strings.HasPrefix(option, name)
	}
	short := len(option) == 2 && strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--")
	return short && strings.IndexByte(text, option[1]) > 0
}

// gitReadOnly refuses options with which git writes files or starts programs.
func gitReadOnly(args []word) bool {
	return all(notGlob, without("--output", "--ext-diff", "--textconv", "--no-index", "--exec-path", "--upload-pack"))(args)
}

// onlyOptions accepts the listed options, with or without =value, and all other
// arguments.
func onlyOptions(options ...string) func([]word) bool {
	return all(notGlob, func(args []word) bool {
		return !slices.ContainsFunc(args, func(w word) bool {
			name, _, _ := strings.Cut(w.text, "=")
			return strings.HasPrefix(w.text, "-") && !slices.Contains(options, name)
		})
	})
}

// address matches a sed script that only prints lines.
var address = regexp.MustCompile(`^(?:(?:\d+|\$)(?:,(?:\+?\d+|\$))?)?p$`)

// sedPrintsOnly accepts a script that only prints, and no option after it, which
// could add another script.
func sedPrintsOnly(args []word) bool {
	if len(args) == 0 || !address.MatchString(args[0].text) {
		return false
	}
	return notGlob(args[1:]) && !slices.ContainsFunc(args[1:], func(w word) bool { return strings.HasPrefix(w.text, "-") })
}

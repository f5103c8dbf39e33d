package permission

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// safeCommand is the beginning of commands that only look. takes says which
// arguments leave it so; nil takes any.
type safeCommand struct {
	words []string
	takes func(args []word) bool
}

// safeCommands lists what dangerous_only runs unasked. A command that could
// be told to write a file or start a program takes only the options known not
// to; an argument outside the workspace is asked about in any case.
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
	{[]string{"sed", "-n"}, prints},

	{[]string{"git", "status"}, looks},
	{[]string{"git", "diff"}, looks},
	{[]string{"git", "log"}, looks},
	{[]string{"git", "show"}, looks},
	{[]string{"git", "rev-parse"}, looks},
	{[]string{"git", "ls-files"}, looks},

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
// Links inside the workspace are not followed: a command's arguments are text.
func (f *facts) safe(c command) bool {
	declares := f.q.Effects.Has(Shell) && f.q.Effects.Within(Shell|Read|Write|Delete|Network)
	if !declares || f.mcp() || f.line.opaque != "" || !c.literal() {
		return false
	}
	for _, s := range safeCommands {
		if (&rule{words: s.words}).begins(c) {
			args := c[len(s.words):]
			return (s.takes == nil || s.takes(args)) && !slices.ContainsFunc(args, f.leaves)
		}
	}
	return false
}

// leaves reports an argument that may name something outside the workspace,
// also behind an option: -f/etc/passwd, --file=/etc/passwd.
func (f *facts) leaves(w word) bool {
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
	from := root
	if f.path != "" {
		from = f.path
	}
	return !within(root, absolute(from, text))
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

// notGlob refuses an argument that a file called like an option could become.
func notGlob(args []word) bool {
	return !slices.ContainsFunc(args, func(w word) bool { return w.glob && strings.IndexByte("*?[-", w.text[0]) >= 0 })
}

// without refuses options by how they begin: -exec is -execdir too.
func without(options ...string) func([]word) bool {
	return func(args []word) bool {
		return !slices.ContainsFunc(args, func(w word) bool {
			return slices.ContainsFunc(options, func(o string) bool { return refuses(o, w.text) })
		})
	}
}

// refuses also finds a short option among others, and a long one cut short.
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

// looks are the options with which git writes nothing and starts nothing.
func looks(args []word) bool {
	return all(notGlob, without("--output", "--ext-diff", "--textconv", "--no-index", "--exec-path", "--upload-pack"))(args)
}

// onlyOptions takes the options listed, alone or with =value, and any other
// arguments.
func onlyOptions(options ...string) func([]word) bool {
	return all(notGlob, func(args []word) bool {
		return !slices.ContainsFunc(args, func(w word) bool {
			name, _, _ := strings.Cut(w.text, "=")
			return strings.HasPrefix(w.text, "-") && !slices.Contains(options, name)
		})
	})
}

// address is a script of sed that prints lines and does nothing else.
var address = regexp.MustCompile(`^(?:(?:\d+|\$)(?:,(?:\+?\d+|\$))?)?p$`)

// prints reports a script that only prints, with no option after -n: a later
// one could bring another script.
func prints(args []word) bool {
	if len(args) == 0 || !address.MatchString(args[0].text) {
		return false
	}
	return notGlob(args[1:]) && !slices.ContainsFunc(args[1:], func(w word) bool { return strings.HasPrefix(w.text, "-") })
}

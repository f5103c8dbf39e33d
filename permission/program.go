package permission

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// program is what is known of a program that starts no other and writes only to
// the files it is given. An option that is not listed may do more.
type program struct {
	writes bool   // it changes files
	deep   bool   // it works on everything below a folder
	terms  int    // leading arguments that are no paths
	most   int    // of arguments besides options; 0: any number
	any    bool   // no option of it writes or starts anything
	short  string // options of one letter, which may be joined
	valued string // those of them that take a value
	long   string // long options, with or without a value
	takes  func(args []word) bool
}

// programs lists the programs that are understood. What else a line may run is
// not known: it is never allowed by the beginning of a command.
var programs = map[string]program{
	"pwd": {any: true}, "echo": {any: true}, "printf": {any: true}, "true": {any: true}, "false": {any: true},
	"ls": {any: true}, "cat": {any: true}, "head": {any: true}, "tail": {any: true}, "nl": {any: true}, "tac": {any: true},
	"cut": {any: true}, "tr": {any: true}, "basename": {any: true}, "dirname": {any: true}, "whoami": {any: true},
	"grep":     {any: true, terms: 1},
	"wc":       {short: "clmwL"},
	"sort":     {short: "bdfgihMnRrVcCmsuzkt", valued: "kt", long: "--reverse --unique --numeric-sort --key --field-separator --ignore-case"},
	"uniq":     {short: "cdDiuzfsw", valued: "fsw", most: 1},
	"stat":     {short: "Lftc", valued: "c", long: "--format --printf --terse"},
	"diff":     {short: "qrsuabBiwEtTyNcU", valued: "U", long: "--unified --brief --recursive --color --side-by-side --ignore-all-space", deep: true},
	"cmp":      {short: "bls"},
	"realpath": {short: "emsz"}, "readlink": {short: "emfnz"},
	"du":   {short: "acdhkmSsx0", valued: "d", long: "--max-depth --summarize --human-readable --all --apparent-size", deep: true},
	"date": {takes: formatsDate}, "uname": {short: "amnoprsv"},
	"tree": {short: "adfiLIPshDFrtCQpugAn", valued: "LIP", long: "--noreport --dirsfirst --prune --gitignore --filelimit --charset", deep: true},
	"rg": {short: "ivwnclFPUNHhoxuSsg.0ABCtTmejfM", valued: "ABCgtTmejfM", deep: true, terms: 1,
		long: "--files --hidden --no-ignore --glob --type --line-number --no-line-number --count --files-with-matches --fixed-strings --ignore-case --smart-case --word-regexp --multiline --context --after-context --before-context --max-count --max-depth --color --heading --no-heading --sort --json --stats --only-matching"},
	"find": {takes: findsOnly, deep: true},
	"sed":  {takes: printsOnly, terms: 1},
	"git":  {takes: asksGit, deep: true},

	"mkdir": {writes: true, short: "pv", long: "--parents --verbose"},
	"rmdir": {writes: true, short: "pv"},
	"touch": {writes: true, short: "acm"},
	"mv":    {writes: true, short: "finvT", long: "--force --no-clobber --verbose", deep: true},
	"cp":    {writes: true, short: "afinprRTuv", long: "--recursive --archive --force --no-clobber --verbose", deep: true},
	"rm":    {writes: true, short: "dfirRv", long: "--recursive --force --verbose --dir", deep: true},

	"node": {takes: saysVersion}, "python": {takes: saysVersion}, "python3": {takes: saysVersion},
	"make": {takes: saysVersion}, "docker": {takes: saysVersion},
}

// understood returns what is known of a command, if its program and all its
// options are.
func (c command) understood() (program, bool) {
	if len(c) == 0 || !c.literal() || c[0].glob {
		return program{}, false
	}
	p, ok := programs[c[0].text]
	if ok && p.takes != nil {
		ok = p.takes(c[1:])
	} else if ok {
		ok = p.any || p.accepts(c[1:])
	}
	return p, ok
}

// accepts reports whether all options are listed.
func (p program) accepts(args []word) bool {
	plain, value, ended := 0, false, false
	for _, w := range args {
		switch text := w.text; {
		case value:
			value = false
		case ended || text == "-" || !strings.HasPrefix(text, "-"):
			if w.glob && (p.most > 0 || !ended && mayBeOption(w)) {
				return false
			}
			plain++
		case text == "--":
			ended = true
		case strings.HasPrefix(text, "--"):
			name, _, _ := strings.Cut(text, "=")
			if !slices.Contains(strings.Fields(p.long), name) {
				return false
			}
		default:
			last := p.letters(text[1:])
			if last < 0 {
				return false
			}
			value = last > 0
		}
	}
	return p.most == 0 || plain <= p.most
}

// letters checks joined options. It returns 1 if the last needs a value, -1 if
// one is not listed.
func (p program) letters(text string) int {
	if strings.Trim(text, "0123456789") == "" && strings.Contains(p.valued, "U") {
		return 0 // -3
	}
	for i := range len(text) {
		switch {
		case strings.IndexByte(p.short, text[i]) < 0:
			return -1
		case strings.IndexByte(p.valued, text[i]) >= 0:
			if i+1 < len(text) {
				return 0
			}
			return 1
		}
	}
	return 0
}

// mayBeOption reports a pattern that could match a file named like an option.
func mayBeOption(w word) bool { return strings.IndexByte("*?-", w.text[0]) >= 0 }

func saysVersion(args []word) bool { return len(args) == 1 && args[0].text == "--version" }

// formatsDate refuses what sets the clock.
func formatsDate(args []word) bool {
	return !slices.ContainsFunc(args, func(w word) bool {
		return !strings.HasPrefix(w.text, "+") && !slices.Contains([]string{"-u", "-R", "-I", "--utc", "--iso-8601"}, w.text)
	})
}

var (
	findTests   = strings.Fields("-name -iname -path -ipath -type -maxdepth -mindepth -size -mtime -mmin -newer -regex -iregex -perm -user -group")
	findOptions = strings.Fields("-empty -not -o -a -and -or -print -print0 -prune -ls -L -H -P ! ( )")
)

// findsOnly accepts the tests of find and no action but printing.
func findsOnly(args []word) bool {
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case w.glob:
			return false
		case slices.Contains(findTests, w.text):
			i++
			if i < len(args) && args[i].glob {
				return false
			}
		case strings.HasPrefix(w.text, "-") && !slices.Contains(findOptions, w.text):
			return false
		}
	}
	return true
}

// address matches a sed script that only prints lines.
var address = regexp.MustCompile(`^(?:(?:\d+|\$)(?:,(?:\+?\d+|\$))?)?p$`)

// printsOnly accepts sed -n with a script that only prints, and no option after
// it, which could add another script.
func printsOnly(args []word) bool {
	if len(args) < 2 || args[0].text != "-n" || !address.MatchString(args[1].text) {
		return false
	}
	return !slices.ContainsFunc(args[2:], func(w word) bool { return strings.HasPrefix(w.text, "-") || w.glob && mayBeOption(w) })
}

// gitQuestions are the commands of git that only answer, and gitOptions those of
// their options that write and start nothing.
var (
	gitQuestions = strings.Fields("status diff log show rev-parse ls-files")
	gitOptions   = program{
		short: "0123456789abcdgilmnpqrstuvwzEFGLMRSU", valued: "nGLSU",
		long: `--stat --shortstat --numstat --name-only --name-status --oneline --graph --all --decorate --no-decorate --cached --staged --short
			--porcelain --branch --untracked-files --ignored --pretty --format --date --since --until --after --before --author --committer --grep
			--max-count --reverse --follow --patch --no-patch --raw --word-diff --color --no-color --minimal --histogram --abbrev --abbrev-commit
			--abbrev-ref --no-renames --find-renames --merges --no-merges --first-parent --tags --branches --remotes --show-toplevel --show-prefix
			--is-inside-work-tree --verify --git-dir --others --modified --deleted --exclude-standard --stage --full-name --unified
			--ignore-space-change --ignore-all-space --summary --compact-summary --exit-code --quiet --diff-filter --topo-order --date-order --text`,
	}
)

// asksGit accepts a question to git. A format with a signature starts gpg.
func asksGit(args []word) bool {
	if len(args) == 0 || !slices.Contains(gitQuestions, args[0].text) {
		return saysVersion(args)
	}
	return gitOptions.accepts(args[1:]) && !slices.ContainsFunc(args, func(w word) bool { return strings.Contains(w.text, "%G") })
}

// safe reports a command that only looks, in the workspace alone: what the mode
// dangerous_only runs without asking. Links inside the workspace are not
// followed: arguments are only text.
func (f *facts) safe(c command) bool {
	p, ok := c.understood()
	return ok && !p.writes && f.staysInside(c)
}

// staysInside reports a command of a local shell that names nothing outside the
// workspace.
func (f *facts) staysInside(c command) bool {
	declares := f.q.Effects.Has(tool.Shell) && f.q.Effects.Within(tool.Shell|tool.Read|tool.Write|tool.Delete|tool.Network)
	return declares && !f.mcp() && f.line.opaque == "" && !slices.ContainsFunc(c[1:], f.leavesWorkspace)
}

// leavesWorkspace reports an argument that may name a path outside the workspace,
// also in an option: -f/etc/passwd, --file=/etc/passwd.
func (f *facts) leavesWorkspace(w word) bool {
	text := w.text
	if strings.HasPrefix(text, "-") {
		if strings.Contains(text, "..") {
			return true
		}
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

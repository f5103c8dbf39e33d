package permission

import (
	"path"
	"slices"
	"strings"
)

// wrappers run the command in their arguments, after so many arguments of their
// own.
var wrappers = map[string]int{
	"sudo": 0, "env": 0, "nohup": 0, "time": 0, "nice": 0, "command": 0, "exec": 0, "xargs": 0, "doas": 0, "builtin": 0, "setsid": 0,
	"timeout": 1, "gtimeout": 1, "stdbuf": 0, "ionice": 0, "chrt": 1, "taskset": 1, "flock": 1, "watch": 0, "parallel": 0, "unbuffer": 0,
	"busybox": 0, "toybox": 0, "chroot": 1, "unshare": 0, "nsenter": 0, "runuser": 0, "systemd-run": 0, "pkexec": 0, "strace": 0,
	"ltrace": 0, "setarch": 1, "prlimit": 0, "fakeroot": 0, "dbus-run-session": 0, "caffeinate": 0, "ssh": 1, "su": 1, "entr": 0, "chpst": 0,
	"softlimit": 0, "setpriv": 0, "capsh": 0, "firejail": 0, "bwrap": 0, "proot": 0, "tsocks": 0, "torsocks": 0, "catchsegv": 0, "setuidgid": 1,
}

// shells run the text after -c.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "mksh": true, "ash": true, "fish": true, "csh": true, "tcsh": true, "rbash": true}

// starters run programs, or code, that is in their arguments or their input.
var starters = strings.Fields("eval . source trap awk gawk mawk nawk sed ed ex vi vim nvim emacs tar rsync scp sftp ssh script expect find gdb socat nc ncat at batch crontab tmux screen")

// interpreters run code after one of these options.
var (
	interpreters = strings.Fields("python python2 python3 perl ruby node nodejs deno bun php lua luajit tclsh guile Rscript osascript pwsh powershell")
	codeOptions  = strings.Fields("-c -e -E -r -p -m -Command --eval --print --execute eval")
)

// starts reports a command of which it is known that it can start any other
// program by what stands in its arguments.
func (c command) starts() bool {
	if _, ok := c.understood(); ok {
		return false
	}
	name := path.Base(c[0].text)
	_, wraps := wrappers[name]
	switch {
	case !c[0].literal || c[0].glob || wraps || shells[name]:
		return true
	case name == "git":
		return gitStarts(c[1:])
	case slices.Contains(interpreters, name):
		return slices.ContainsFunc(c[1:], func(w word) bool {
			return slices.ContainsFunc(codeOptions, func(o string) bool { return strings.HasPrefix(w.text, o) })
		})
	}
	return slices.Contains(starters, name)
}

// gitOwn are commands of git that start nothing but git and its hooks.
var gitOwn = strings.Fields("add am apply archive bisect blame branch cat-file checkout cherry-pick clean clone commit describe diff fetch gc init log ls-files ls-tree merge mv pull push reset restore rev-list rev-parse revert rm show stash status switch tag worktree")

// gitStarts reports options before the command of git, which can name programs,
// and commands that may be aliases.
func gitStarts(args []word) bool {
	for i := 0; i < len(args); i++ {
		switch text := args[i].text; text {
		case "-C":
			i++
		case "--no-pager", "-P", "--no-optional-locks", "--version":
		default:
			return !slices.Contains(gitOwn, text)
		}
	}
	return false
}

// hide adds a hidden command and what it wraps.
func (l *line) hide(c command, depth int) {
	if len(c) == 0 {
		return
	}
	l.hidden = append(l.hidden, c)
	l.unwrap(c, depth)
}

// unwrap adds the commands that a command runs, and those that these run.
func (l *line) unwrap(c command, depth int) {
	behind := []command{c}
	for i := 0; i < len(behind); i++ {
		if i > maxWraps || len(l.hidden) > maxHidden {
			l.tooNested = true
			return
		}
		for _, next := range l.unwrapOnce(behind[i], depth) {
			l.hidden = append(l.hidden, next)
			behind = append(behind, next)
		}
	}
}

// unwrapOnce removes one wrapper. If an argument may belong to an option or be
// the command, both readings are returned.
func (l *line) unwrapOnce(c command, depth int) []command {
	name := path.Base(c[0].text)
	if c[0].text != "" && name != c[0].text && c[0].literal {
		return []command{append(command{{text: name, literal: true, glob: c[0].glob}}, c[1:]...)} // /bin/rm is rm too
	}
	own, wraps := wrappers[name]
	switch {
	case name == "eval" || name == "trap" || name == "watch":
		l.markOpaque(opaqueEval)
		l.script(textsOf(c[1:]), depth)
	case shells[name] || name == "su" || name == "runuser" || name == "script" || name == "flock":
		if script, ok := scriptOf(c[1:]); ok {
			l.script(script, depth)
		}
	case name == "env":
		if script, ok := splitOf(c[1:]); ok {
			l.script(script, depth)
		}
	case name == "find":
		return behindActions(c[1:])
	case !c[0].literal || c[0].glob: // any program, perhaps a wrapper
		own, wraps = 1, len(c) < maxWraps
	}
	if !wraps {
		return nil
	}
	var found []command
	for i := 1; i < len(c); i++ {
		text := c[i].text
		if strings.HasPrefix(text, "-") || (name == "env" || name == "sudo") && strings.Contains(text, "=") {
			continue
		}
		found = append(found, c[i:])
		if !strings.HasPrefix(c[i-1].text, "-") {
			own--
		}
		if own < 0 || len(found) > maxWraps {
			break
		}
	}
	return found
}

// behindActions returns the commands that find runs.
func behindActions(args []word) []command {
	var found []command
	for i, w := range args {
		if slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, w.text) && i+1 < len(args) && len(found) < maxWraps {
			found = append(found, command(args[i+1:]))
		}
	}
	return found
}

// splitOf returns the text that env splits into words.
func splitOf(args []word) (string, bool) {
	const long = "--split-string"
	for i, a := range args {
		if text, ok := strings.CutPrefix(a.text, long+"="); ok {
			return text, true
		}
		at := strings.IndexByte(a.text, 'S')
		joined := at > 0 && strings.HasPrefix(a.text, "-") && !strings.HasPrefix(a.text, "--")
		switch {
		case joined && at+1 < len(a.text):
			return a.text[at+1:] + " " + textsOf(args[i+1:]), true
		case joined || strings.HasPrefix(a.text, "--s") && strings.HasPrefix(long, a.text):
			return textsOf(args[i+1:]), true
		}
	}
	return "", false
}

func (l *line) script(text string, depth int) {
	if depth >= maxDepth {
		l.tooNested = true
		return
	}
	l.read(text, depth+1, false)
}

// scriptOf returns the script of a shell: the first argument after -c that is
// not an option.
func scriptOf(args []word) (string, bool) {
	found := false
	for _, a := range args {
		switch {
		case strings.HasPrefix(a.text, "--command="):
			return strings.TrimPrefix(a.text, "--command="), true
		case strings.HasPrefix(a.text, "--"), strings.HasPrefix(a.text, "+"):
			found = found || a.text == "--command"
		case strings.HasPrefix(a.text, "-"):
			found = found || strings.Contains(a.text, "c")
		case found:
			return a.text, true
		}
	}
	return "", false
}

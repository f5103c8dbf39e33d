package permission

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// What the built-in guardrails deny.
const (
	harmDelete   = "it deletes the root folder, the home folder or everything"
	harmRights   = "it changes the owner or the rights of everything"
	harmFormat   = "it makes a file system"
	harmDevice   = "it writes to a device"
	harmForkBomb = "it is a fork bomb: it starts itself without end"
	harmShutdown = "it stops the machine"
	harmExcess   = "it nests commands too deeply to check them"
)

// start matches where a command can start in unparsed text.
const start = "(?:^|[;&|({`\\n]|\\bsudo\\s|\\bdo\\s|\\bthen\\s)\\s*"

// textHarm is searched in the text of the line: it finds harm inside quotes and
// in lines that cannot be parsed. The name of a command alone counts only in the
// latter: elsewhere it may be harmless text.
var textHarm = []struct {
	harm           string
	unparsableOnly bool     // only in lines that cannot be parsed
	names          []string // one of them is in every match
	pattern        *regexp.Regexp
}{
	{harmDelete, false, []string{"rm"}, regexp.MustCompile(`\brm\s+(?:-\S+\s+)*(?:-[A-Za-z]*[rR][A-Za-z]*|--recursive)\s+(?:-\S+\s+)*["']?(?:(?:/|~/?|\$HOME/?|\$\{HOME\}/?)["']?\*?|(?:\./)?\*)["']?(?:$|[\s;&|)}"'` + "`" + `])`)},
	{harmFormat, true, []string{"mkfs"}, regexp.MustCompile(start + `(?:/\S*/)?mkfs(?:\.\w+)?\s`)},
	{harmDevice, false, []string{"/dev/"}, regexp.MustCompile(`\bdd\b[^;&|\n]*\bof=["']?/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper|loop|md|dm-)|>\s*["']?/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper|loop|md|dm-|mem|kmem)`)},
	{harmForkBomb, false, []string{":"}, regexp.MustCompile(`:\s*\(\s*\)\s*\{\s*:\s*\|\s*:\s*&?\s*\}\s*;?\s*:`)},
	{harmShutdown, true, []string{"shutdown", "reboot", "poweroff", "halt"}, regexp.MustCompile(start + `(?:/\S*/)?(?:shutdown|reboot|poweroff|halt)(?:$|[\s;&|)}"'` + "`" + `])`)},
}

// checkGuardrails checks the line and each command in it.
func (e Engine) checkGuardrails(f *facts) (verdict, bool) {
	if !f.isCommand {
		return verdict{}, false
	}
	if harm := e.harm(&f.line); harm != "" {
		return newVerdict(session.EffectDeny, ReasonGuardrail, session.ReasonDetails{Guardrail: harm}, textGuardrail, harm), true
	}
	return verdict{}, false
}

func (e Engine) harm(l *line) string {
	switch {
	case l.forkBomb:
		return harmForkBomb
	case l.tooNested:
		return harmExcess
	}
	for _, raw := range textHarm {
		if raw.unparsableOnly && l.opaque != opaqueUnparsable {
			continue
		}
		named := slices.ContainsFunc(raw.names, func(n string) bool { return strings.Contains(l.text, n) })
		if named && raw.pattern.MatchString(l.text) {
			return raw.harm
		}
	}
	if slices.ContainsFunc(l.writes, device) {
		return harmDevice
	}
	if harm := e.configured(l.text); harm != "" {
		return harm
	}
	for _, commands := range [][]command{l.commands, l.hidden} {
		for _, c := range commands {
			if harm := harmOf(c); harm != "" {
				return harm
			}
			if len(e.guardrails) > 0 {
				if harm := e.configured(textsOf(c)); harm != "" {
					return harm
				}
			}
		}
	}
	return ""
}

func (e Engine) configured(text string) string {
	for _, g := range e.guardrails {
		if g.MatchString(text) {
			return "it matches " + g.String()
		}
	}
	return ""
}

// harmOf is what one command, taken as it is, would do. A pattern in the place of
// the program may be any that it matches, and an expansion may be rm.
func harmOf(c command) string {
	for _, known := range harms {
		for _, name := range known.names {
			if c[0].is(name) || !c[0].literal && name == "rm" {
				if known.by == nil || known.by(c[1:]) {
					return known.harm
				}
			}
		}
	}
	if strings.HasPrefix(path.Base(c[0].text), "mkfs.") {
		return harmFormat
	}
	return harmBehind(c)
}

// is reports a word that runs a program of that name.
func (w word) is(name string) bool { return w.literal && w.mayBe(name, path.Base(w.text)) }

// harmBehind looks for a recursive delete of everything behind any other program:
// it may be one that starts its arguments.
func harmBehind(c command) string {
	for i := 1; i < len(c) && i < maxArguments; i++ {
		if c[i].literal && !c[i].glob && path.Base(c[i].text) == "rm" && deletesEverything(c[i+1:]) {
			return harmDelete
		}
	}
	return ""
}

// harms lists programs with the arguments that make them harmful; nil: any.
var harms = []struct {
	harm  string
	names []string
	by    func(args []word) bool
}{
	{harmDelete, []string{"rm"}, deletesEverything},
	{harmDelete, []string{"find"}, findDeletesEverything},
	{harmRights, []string{"chmod", "chown", "chgrp"}, func(args []word) bool {
		return hasOption(args, "R", "--recursive") && slices.ContainsFunc(args, everything)
	}},
	{harmFormat, []string{"mkfs", "mke2fs", "mkswap"}, nil},
	{harmDevice, []string{"dd"}, func(args []word) bool {
		return slices.ContainsFunc(args, func(w word) bool { to, ok := strings.CutPrefix(w.text, "of="); return ok && device(to) })
	}},
	{harmDevice, []string{"tee", "shred", "wipefs", "blkdiscard", "fdisk", "sfdisk", "sgdisk", "parted", "badblocks"}, func(args []word) bool {
		return slices.ContainsFunc(args, func(w word) bool { return device(w.text) })
	}},
	{harmDevice, []string{"cp", "mv"}, func(args []word) bool { return len(args) > 0 && device(args[len(args)-1].text) }},
	{harmShutdown, []string{"shutdown", "reboot", "poweroff", "halt"}, nil},
	{harmShutdown, []string{"systemctl", "loginctl", "init", "telinit"}, func(args []word) bool {
		return slices.ContainsFunc(args, func(w word) bool {
			return slices.Contains([]string{"reboot", "poweroff", "halt", "kexec", "0", "6"}, w.text)
		})
	}},
}

func deletesEverything(args []word) bool {
	return hasOption(args, "rR", "--recursive") && slices.ContainsFunc(args, everything) || hasOption(args, "", "--no-preserve-root")
}

// findDeletesEverything looks at where find starts: its arguments before the
// first test, options such as -L left out.
func findDeletesEverything(args []word) bool {
	all := false
	for i, w := range args {
		switch text := w.text; {
		case text == "-L" || text == "-H" || text == "-P" || strings.HasPrefix(text, "-O") || text == "-D":
		case strings.HasPrefix(text, "-") || text == "!" || text == "(":
			return all && removes(args[i:])
		default:
			all = all || everything(w)
		}
	}
	return false
}

// removes reports tests and actions of find that remove files.
func removes(actions []word) bool {
	return slices.ContainsFunc(actions, func(w word) bool { return w.text == "-delete" }) ||
		slices.ContainsFunc(behindActions(actions), func(c command) bool { return c[0].is("rm") || c[0].is("shred") || c[0].is("unlink") })
}

// hasOption finds a long option, also abbreviated, or a short one among others:
// -rf has r.
func hasOption(args []word, short, long string) bool {
	return slices.ContainsFunc(args, func(w word) bool {
		if strings.HasPrefix(w.text, "--") {
			return len(w.text) > 2 && strings.HasPrefix(long, w.text)
		}
		return strings.HasPrefix(w.text, "-") && strings.ContainsAny(w.text, short)
	})
}

// systemFolders are those without which no system runs.
var systemFolders = strings.Fields("/bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /sbin /sys /usr /var /Users /System /Library /Applications")

// everything reports the root folder, a folder of the system, the home folder or
// all of a folder.
func everything(w word) bool {
	if w.text == "" {
		return false
	}
	clean := path.Clean(w.text)
	all := strings.TrimRight(clean, "*/")
	if all == "" || all == "~" || all == "$HOME" || slices.Contains(systemFolders, all) {
		return true
	}
	return w.glob && strings.Count(clean, "/") == 1 && clean[0] == '/' // /?*
}

// device reports a path in /dev that is not a stream, and the kernel's own
// switch.
func device(p string) bool {
	p = path.Clean(p)
	if p == "/proc/sysrq-trigger" {
		return true
	}
	name, ok := strings.CutPrefix(p, "/dev/")
	if !ok {
		return false
	}
	switch name {
	case "null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr":
		return false
	}
	for _, streams := range []string{"fd/", "pts/", "tcp/", "udp/", "shm/"} {
		if strings.HasPrefix(name, streams) {
			return false
		}
	}
	return true
}

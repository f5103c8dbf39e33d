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
		return newVerdict(session.EffectDeny, ReasonGuardrail, map[string]any{"guardrail": harm}, textGuardrail, harm), true
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

// harmOf is what one command, taken as it is, would do.
func harmOf(c command) string {
	name, args := path.Base(c[0].text), c[1:]
	switch {
	case name == "rm":
		if hasOption(args, "rR", "--recursive") && slices.ContainsFunc(args, everything) {
			return harmDelete
		}
	case name == "find":
		if len(args) > 0 && everything(args[0]) && hasOption(args[1:], "", "-delete") {
			return harmDelete
		}
	case name == "mkfs" || strings.HasPrefix(name, "mkfs."):
		return harmFormat
	case name == "dd":
		if slices.ContainsFunc(args, func(w word) bool { to, ok := strings.CutPrefix(w.text, "of="); return ok && device(to) }) {
			return harmDevice
		}
	case name == "tee" || name == "shred" || name == "wipefs":
		if slices.ContainsFunc(args, func(w word) bool { return device(w.text) }) {
			return harmDevice
		}
	case name == "cp" || name == "mv":
		if len(args) > 0 && device(args[len(args)-1].text) {
			return harmDevice
		}
	case name == "shutdown" || name == "reboot" || name == "poweroff" || name == "halt":
		return harmShutdown
	case name == "systemctl" || name == "init" || name == "telinit":
		if slices.ContainsFunc(args, func(w word) bool { return slices.Contains([]string{"reboot", "poweroff", "halt", "0", "6"}, w.text) }) {
			return harmShutdown
		}
	}
	return ""
}

// hasOption finds a long option or a short one among others: -rf has r.
func hasOption(args []word, short, long string) bool {
	return slices.ContainsFunc(args, func(w word) bool {
		if w.text == long {
			return true
		}
		return strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.ContainsAny(w.text, short)
	})
}

// everything reports the root folder, the home folder or all of a folder.
func everything(w word) bool {
	if w.text == "" {
		return false
	}
	all := strings.TrimRight(path.Clean(w.text), "*/")
	return all == "" || all == "~" || all == "$HOME"
}

// device reports a path in /dev that is not a stream.
func device(p string) bool {
	p = path.Clean(p)
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

package permission

import (
	"path"
	"strings"
)

// wrappers run the command in their arguments.
var wrappers = map[string]bool{
	"sudo": true, "env": true, "nohup": true, "time": true, "nice": true, "command": true, "exec": true, "xargs": true,
	"doas": true, "builtin": true, "setsid": true,
}

// shells run the text after -c.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "ash": true}

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
		return []command{append(command{{text: name, literal: true}}, c[1:]...)} // /bin/rm is rm too
	}
	switch {
	case name == "eval":
		l.markOpaque(opaqueEval)
		l.script(textsOf(c[1:]), depth)
	case shells[name]:
		if script, ok := scriptOf(c[1:]); ok {
			l.script(script, depth)
		}
	case wrappers[name]:
		var found []command
		for i := 1; i < len(c); i++ {
			text := c[i].text
			if strings.HasPrefix(text, "-") || (name == "env" || name == "sudo") && strings.Contains(text, "=") {
				continue
			}
			found = append(found, c[i:])
			if !strings.HasPrefix(c[i-1].text, "-") || len(found) > maxWraps {
				break
			}
		}
		return found
	}
	return nil
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
		case strings.HasPrefix(a.text, "--"), strings.HasPrefix(a.text, "+"):
		case strings.HasPrefix(a.text, "-"):
			found = found || strings.Contains(a.text, "c")
		case found:
			return a.text, true
		}
	}
	return "", false
}

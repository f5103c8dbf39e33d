package permission

import (
	"path"
	"strings"
)

// wrappers run the command that their arguments are.
var wrappers = map[string]bool{
	"sudo": true, "env": true, "nohup": true, "time": true, "nice": true, "command": true, "exec": true, "xargs": true,
	"doas": true, "builtin": true, "setsid": true,
}

// shells run the text that follows -c.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "ash": true}

// hide keeps a command for those who deny and ask, and what it wraps.
func (l *line) hide(c command, depth int) {
	if len(c) == 0 {
		return
	}
	l.hidden = append(l.hidden, c)
	l.unwrap(c, depth)
}

// unwrap looks behind a command that runs another one, and behind that one.
func (l *line) unwrap(c command, depth int) {
	behind := []command{c}
	for i := 0; i < len(behind); i++ {
		if i > maxWraps || len(l.hidden) > maxHidden {
			l.excess = true
			return
		}
		for _, next := range l.peel(behind[i], depth) {
			l.hidden = append(l.hidden, next)
			behind = append(behind, next)
		}
	}
}

// peel takes one wrapper off. Which argument belongs to an option and which is
// the command is not always to be told: then both are looked at.
func (l *line) peel(c command, depth int) []command {
	name := path.Base(c[0].text)
	if c[0].text != "" && name != c[0].text && c[0].literal {
		return []command{append(command{{text: name, literal: true}}, c[1:]...)} // /bin/rm is rm too
	}
	switch {
	case name == "eval":
		l.obscure(opaqueEval)
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
		l.excess = true
		return
	}
	l.read(text, depth+1, false)
}

// scriptOf finds the text a shell is told to run: the first argument after -c
// that is no option.
func scriptOf(args []word) (string, bool) {
	told := false
	for _, a := range args {
		switch {
		case strings.HasPrefix(a.text, "--"), strings.HasPrefix(a.text, "+"):
		case strings.HasPrefix(a.text, "-"):
			told = told || strings.Contains(a.text, "c")
		case told:
			return a.text, true
		}
	}
	return "", false
}

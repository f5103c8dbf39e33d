package definition

import (
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

const fence = "---"

// markdown reads front matter between two fences; the trimmed rest is the prompt.
func (r *reader) markdown(file string, d *session.Definition) error {
	file = strings.ReplaceAll(file, "\r\n", "\n")
	first, rest, _ := strings.Cut(file, "\n")
	if strings.TrimRight(first, " \t") != fence {
		return r.refuse("has no front matter: its first line must be ---")
	}
	matter, body, ok := cutFence(rest)
	if !ok {
		return r.refuse("has no line --- that ends the front matter")
	}
	r.body, r.part = &body, "front matter"
	return r.yaml(matter, 1, d)
}

// cutFence splits at the first line that is a fence.
func cutFence(s string) (before, after string, found bool) {
	for at := 0; at < len(s); {
		line, _, more := strings.Cut(s[at:], "\n")
		if strings.TrimRight(line, " \t") == fence {
			end := at + len(line)
			if more {
				end++
			}
			return s[:at], s[end:], true
		}
		if !more {
			break
		}
		at += len(line) + 1
	}
	return "", "", false
}

// prompt takes the body of a Markdown file as the system prompt.
func (r *reader) prompt(root *node, d *session.Definition) {
	if r.body == nil {
		return
	}
	for _, e := range root.entries {
		if e.key == "systemPrompt" {
			r.problem("systemPrompt", e.line, "stands in the front matter, but the text below it is the prompt; remove the key")
			return
		}
	}
	if d.SystemPrompt = strings.TrimSpace(*r.body); d.SystemPrompt == "" {
		r.problem("systemPrompt", 0, "is missing: there is no text below the front matter")
	}
}

package tools

import (
	"html"
	"strings"
)

// element is a tag of a page: <a href="x"> or </a>. A comment, and a tag that
// never ends, has no name.
type element struct {
	name    string // lower case
	closing bool
	inside  string // attributes, as written
}

// nextElement reads a tag or a comment at the beginning of a page. Where there
// is neither ok is false. It is no parser of HTML: what is not well formed
// gives something, never an error.
func nextElement(page string) (e element, rest string, ok bool) {
	if strings.HasPrefix(page, "<!--") {
		_, rest, _ = strings.Cut(page[4:], "-->")
		return element{}, rest, true
	}
	if strings.HasPrefix(page, "<!") || strings.HasPrefix(page, "<?") {
		_, rest, _ = strings.Cut(page, ">")
		return element{}, rest, true
	}
	body, closing := strings.CutPrefix(strings.TrimPrefix(page, "<"), "/")
	n := 0
	for n < len(body) && (letter(body[n]) || n > 0 && (body[n] >= '0' && body[n] <= '9' || body[n] == '-')) {
		n++
	}
	if n == 0 {
		return element{}, page, false
	}
	e = element{name: strings.ToLower(body[:n]), closing: closing}
	// The end is the first > that is not inside quotes.
	quote := byte(0)
	for i := n; i < len(body); i++ {
		switch c := body[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '>':
			e.inside = body[n:i]
			return e, body[i+1:], true
		}
	}
	return element{}, "", true // it never ends
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// attribute is the value of an attribute, "" where there is none.
func (e element) attribute(name string) string {
	rest := e.inside
	for {
		rest = strings.TrimLeft(rest, " \t\r\n\f/")
		if rest == "" {
			return ""
		}
		n := strings.IndexAny(rest, "= \t\r\n\f/")
		if n < 0 {
			return ""
		}
		key := rest[:n]
		rest = strings.TrimLeft(rest[n:], " \t\r\n\f")
		assigned, has := strings.CutPrefix(rest, "=")
		if !has {
			continue
		}
		var value string
		value, rest = attributeValue(strings.TrimLeft(assigned, " \t\r\n\f"))
		if strings.EqualFold(key, name) {
			return html.UnescapeString(value)
		}
	}
}

// attributeValue reads a value, in quotes or not.
func attributeValue(text string) (value, rest string) {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		value, rest, _ = strings.Cut(text[1:], text[:1])
		return value, rest
	}
	n := strings.IndexAny(text, " \t\r\n\f")
	if n < 0 {
		return text, ""
	}
	return text[:n], text[n:]
}

// afterElement is what follows the end of an element whose beginning was read,
// over those of its name inside; nothing if it has none.
func afterElement(page, name string) string {
	for depth := 1; ; {
		i := strings.IndexByte(page, '<')
		if i < 0 {
			return ""
		}
		e, rest, ok := nextElement(page[i:])
		switch {
		case !ok:
			rest = page[i+1:]
		case e.name == name && e.closing:
			if depth--; depth == 0 {
				return rest
			}
		case e.name == name:
			depth++
		}
		page = rest
	}
}

// afterRaw is afterElement for scripts and the like, in which nothing but
// their end is a tag.
func afterRaw(page, name string) string {
	for {
		_, rest, ok := strings.Cut(page, "</")
		if !ok {
			return ""
		}
		if len(rest) >= len(name) && strings.EqualFold(rest[:len(name)], name) {
			_, rest, _ = strings.Cut(rest, ">")
			return rest
		}
		page = rest
	}
}

// mainPart is what is inside the page's main element; the page, where it has
// none.
func mainPart(page string) string {
	for rest := page; ; {
		i := strings.IndexByte(rest, '<')
		if i < 0 {
			return page
		}
		e, after, ok := nextElement(rest[i:])
		switch {
		case !ok:
			after = rest[i+1:]
		case e.name == "main" && !e.closing:
			end := afterElement(after, "main")
			return after[:len(after)-len(end)]
		case !e.closing && isRaw(e.name):
			after = afterRaw(after, e.name)
		}
		rest = after
	}
}

func isRaw(name string) bool {
	switch name {
	case "script", "style", "textarea", "title", "noscript", "iframe", "xmp":
		return true
	}
	return false
}

package web

import (
	"html"
	"slices"
	"strings"
)

// Elements whose content is not for readers, and elements that begin a line.
var (
	unread = []string{"script", "style", "template", "noscript", "svg", "iframe", "object", "textarea", "select"}
	blocks = []string{
		"address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "details", "div", "dl", "dt", "fieldset", "figure", "footer",
		"form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "td",
		"th", "title", "tr", "ul",
	}
)

// pageText is the text of an HTML page as a person would read it: headings and
// list items are marked, links are not, and what is not for readers is gone.
// It is no parser: what is not well formed gives some text, never an error.
func pageText(page string) string {
	w := pageWriter{}
	for page != "" {
		open := strings.IndexByte(page, '<')
		if open < 0 {
			break
		}
		w.text(page[:open])
		page = page[open:]
		name, closing, rest := tag(page)
		switch {
		case name == "": // no tag, only a sign
			w.text(page[:1])
			page = page[1:]
			continue
		case !closing && slices.Contains(unread, name):
			rest = after(rest, name)
		case slices.Contains(blocks, name):
			w.block(name, closing)
		}
		page = rest
	}
	w.text(page)
	return strings.TrimSpace(w.String())
}

// tag reads a tag or a comment at the beginning of a page: its name in lower
// case and what follows. A comment is called !.
func tag(page string) (name string, closing bool, rest string) {
	if strings.HasPrefix(page, "<!--") {
		_, rest, _ = strings.Cut(page[4:], "-->")
		return "!", false, rest
	}
	if len(page) > 1 && (page[1] == '!' || page[1] == '?') {
		_, rest, _ = strings.Cut(page, ">")
		return "!", false, rest
	}
	i := 1
	if closing = strings.HasPrefix(page, "</"); closing {
		i = 2
	}
	start := i
	for i < len(page) && (page[i] >= 'a' && page[i] <= 'z' || page[i] >= 'A' && page[i] <= 'Z' || i > start && page[i] >= '0' && page[i] <= '9') {
		i++
	}
	if i == start {
		return "", false, page
	}
	name = strings.ToLower(page[start:i])
	// The end is the first > that is not inside quotes.
	for quote := byte(0); i < len(page); i++ {
		switch c := page[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '>':
			return name, closing, page[i+1:]
		}
	}
	return name, closing, ""
}

// after is what follows the end of an element; nothing if it has none.
func after(page, name string) string {
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

// pageWriter joins pieces of text as a browser would.
type pageWriter struct {
	strings.Builder
	space, line bool // a space, or a new line, is due before the next word
	verbatim    bool // inside pre
}

func (w *pageWriter) text(raw string) {
	text := strings.ReplaceAll(html.UnescapeString(raw), "\u00a0", " ")
	if w.verbatim {
		w.due()
		w.WriteString(text)
		return
	}
	if text != "" && strings.TrimSpace(text[:1]) == "" {
		w.space = true
	}
	for i, word := range strings.Fields(text) {
		w.space = w.space || i > 0
		w.due()
		w.WriteString(word)
	}
	if text != "" && strings.TrimSpace(text[len(text)-1:]) == "" {
		w.space = true
	}
}

// due writes the white space that separates what comes from what was.
func (w *pageWriter) due() {
	switch {
	case w.Len() == 0:
	case w.line:
		w.WriteString("\n")
	case w.space:
		w.WriteString(" ")
	}
	w.space, w.line = false, false
}

func (w *pageWriter) block(name string, closing bool) {
	if name == "td" || name == "th" { // cells share the line of their row
		w.space = true
		return
	}
	w.line = true
	switch {
	case name == "pre":
		w.verbatim = !closing
	case closing:
	case name == "li":
		w.due()
		w.WriteString("- ")
	case len(name) == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6':
		w.due()
		w.WriteString(strings.Repeat("#", int(name[1]-'0')) + " ")
	}
}

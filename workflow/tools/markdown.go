package tools

import (
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
)

// markdown is the main part of an HTML page as Markdown: headings, paragraphs,
// lists, quotations, code, tables, links and emphasis. What is not for readers
// is gone, and so is what surrounds the text of a page. Links are made
// absolute by the page's address.
func markdown(page string, base *url.URL) string {
	w := &pageWriter{base: base}
	page = mainPart(page)
	for page != "" {
		i := strings.IndexByte(page, '<')
		if i < 0 {
			break
		}
		w.text(page[:i])
		e, rest, ok := nextElement(page[i:])
		switch {
		case !ok: // no tag, only a sign
			w.text("<")
			rest = page[i+1:]
		case !e.closing && isRaw(e.name):
			rest = afterRaw(rest, e.name)
		case !e.closing && slices.Contains(surroundings, e.name):
			rest = afterElement(rest, e.name)
		default:
			w.element(e)
		}
		page = rest
	}
	w.text(page)
	return strings.TrimSpace(w.out.String())
}

// surroundings are elements whose content is not what a page is about.
var surroundings = []string{"nav", "footer", "aside", "form", "select", "template", "svg", "object", "button"}

// pageWriter writes Markdown while it is told of the elements of a page.
type pageWriter struct {
	out   strings.Builder
	base  *url.URL
	lines int  // line ends due before the next word
	space bool // a space is due
	fresh bool // right after a sign that opens something: no space belongs here

	verbatim bool     // inside pre
	lists    []list   // those we are in, the innermost last
	quotes   int      // quotations we are in
	links    []string // targets of the links we are in
	row      int      // cells of the table row so far
	rows     int      // rows of the table so far
}

type list struct {
	ordered bool
	items   int
}

func (w *pageWriter) text(raw string) {
	text := strings.ReplaceAll(html.UnescapeString(raw), "\u00a0", " ")
	if w.verbatim {
		w.fresh = false
		if w.lines > 0 {
			text = strings.TrimPrefix(text, "\n") // it belongs to the tag
		}
		if text != "" {
			w.due()
			w.out.WriteString(strings.ReplaceAll(text, "\n", "\n"+w.margin()))
		}
		return
	}
	if w.fresh {
		if text = strings.TrimLeft(text, " \t\r\n\f"); text == "" {
			return
		}
		w.fresh = false
	}
	if text != "" && strings.TrimSpace(text[:1]) == "" {
		w.space = true
	}
	for i, word := range strings.Fields(text) {
		w.space = w.space || i > 0
		w.due()
		w.out.WriteString(word)
	}
	if text != "" && strings.TrimSpace(text[len(text)-1:]) == "" {
		w.space = true
	}
}

// mark writes a sign of Markdown that belongs to the next word or the last.
func (w *pageWriter) mark(sign string, opens bool) {
	if opens {
		w.due()
	}
	w.fresh = opens
	w.out.WriteString(sign)
}

// due writes the white space that separates what comes from what was.
func (w *pageWriter) due() {
	switch {
	case w.out.Len() == 0:
		w.out.WriteString(w.margin())
	case w.lines > 0:
		margin := w.margin()
		w.out.WriteString(strings.Repeat("\n"+strings.TrimRight(margin, " "), w.lines-1) + "\n" + margin)
	case w.space:
		w.out.WriteString(" ")
	}
	w.lines, w.space = 0, false
}

// maxMargin is how deep lists and quotations are shown. A page may nest them
// as deep as it likes.
const maxMargin = 12

// margin is what every line begins with here.
func (w *pageWriter) margin() string {
	indent := ""
	for _, l := range w.lists[:min(max(0, len(w.lists)-1), maxMargin)] {
		indent += strings.Repeat(" ", len(l.bullet()))
	}
	return strings.Repeat("> ", min(w.quotes, maxMargin)) + indent
}

func (l list) bullet() string {
	if l.ordered {
		return fmt.Sprintf("%d. ", max(l.items, 1))
	}
	return "- "
}

// apart asks for a new line, or with two for a blank one in between. A row of
// a table is one line whatever is in its cells.
func (w *pageWriter) apart(lines int) {
	if w.row > 0 {
		w.space = true
		return
	}
	w.lines, w.space, w.fresh = max(w.lines, lines), false, false
}

func (w *pageWriter) element(e element) {
	switch e.name {
	case "h1", "h2", "h3", "h4", "h5", "h6":
		w.apart(2)
		if !e.closing {
			w.mark(strings.Repeat("#", int(e.name[1]-'0'))+" ", true)
		}
	case "p", "dl", "figure", "details":
		w.apart(2)
	case "div", "section", "article", "header", "body", "html", "head", "address", "dt", "dd", "caption", "figcaption", "summary", "br":
		w.apart(1)
	case "hr":
		w.apart(2)
		w.mark("---", true)
		w.apart(2)
	case "ul", "ol":
		w.list(e)
	case "li":
		w.item(e)
	case "blockquote":
		w.apart(2)
		w.quotes = max(0, w.quotes+sign(!e.closing))
	case "pre":
		w.code(e)
	case "table", "tr", "td", "th":
		w.table(e)
	default:
		w.inline(e)
	}
}

func sign(positive bool) int {
	if positive {
		return 1
	}
	return -1
}

func (w *pageWriter) list(e element) {
	if e.closing {
		w.lists = w.lists[:max(0, len(w.lists)-1)]
	}
	w.apart(2)
	if len(w.lists) > 0 {
		w.lines = 1 // inside another list
	}
	if !e.closing {
		w.lists = append(w.lists, list{ordered: e.name == "ol"})
	}
}

func (w *pageWriter) item(e element) {
	w.apart(1)
	if e.closing {
		return
	}
	if len(w.lists) == 0 {
		w.lists = append(w.lists, list{})
	}
	inner := &w.lists[len(w.lists)-1]
	inner.items++
	w.mark(inner.bullet(), true)
}

// code is a fenced block.
func (w *pageWriter) code(e element) {
	if w.verbatim != e.closing { // a second beginning, or an end without one
		return
	}
	if e.closing {
		w.verbatim = false
		if !strings.HasSuffix(w.out.String(), "\n") {
			w.apart(1)
		}
		w.mark("```", true)
		w.apart(2)
		return
	}
	w.apart(2)
	w.mark("```", true)
	w.apart(1)
	w.verbatim = true
}

// table writes rows as | a | b |, with a line under the first.
func (w *pageWriter) table(e element) {
	switch {
	case e.name == "table":
		w.endRow()
		w.apart(2)
		w.rows = 0
	case e.name == "tr":
		w.endRow()
	case !e.closing:
		if w.row == 0 {
			w.apart(1)
			w.mark("|", true)
		} else {
			w.mark(" |", false)
		}
		w.row++
		w.lines, w.space = 0, true
	}
}

func (w *pageWriter) endRow() {
	if w.row == 0 {
		return
	}
	cells := w.row
	w.mark(" |", false)
	w.row = 0
	if w.rows == 0 {
		w.apart(1)
		w.mark("|"+strings.Repeat(" --- |", cells), true)
	}
	w.rows++
	w.apart(1)
}

func (w *pageWriter) inline(e element) {
	switch e.name {
	case "strong", "b":
		w.mark("**", !e.closing)
	case "em", "i":
		w.mark("*", !e.closing)
	case "code", "kbd", "samp":
		if !w.verbatim {
			w.mark("`", !e.closing)
		}
	case "a":
		w.link(e)
	case "img":
		if src := w.target(e.attribute("src")); src != "" {
			w.due()
			w.mark(fmt.Sprintf("![%s](%s)", strings.Join(strings.Fields(e.attribute("alt")), " "), src), false)
		}
	}
}

func (w *pageWriter) link(e element) {
	if e.closing {
		if n := len(w.links); n > 0 {
			if to := w.links[n-1]; to != "" {
				w.mark("]("+to+")", false)
			}
			w.links = w.links[:n-1]
		}
		return
	}
	to := w.target(e.attribute("href"))
	w.links = append(w.links, to)
	if to != "" {
		w.mark("[", true)
	}
}

// target is where a link leads, "" for one that leads to no page.
func (w *pageWriter) target(written string) string {
	written = strings.TrimSpace(written)
	if written == "" || strings.HasPrefix(written, "#") {
		return ""
	}
	to, err := w.base.Parse(written)
	if err != nil || (to.Scheme != "http" && to.Scheme != "https" && to.Scheme != "mailto") {
		return ""
	}
	return strings.NewReplacer("(", "%28", ")", "%29").Replace(to.String())
}

package web

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/holdfast-dev/holdfast/tool"
)

// skipped are elements whose content is not what a page is about, or not for
// readers.
var skipped = []string{
	"nav", "footer", "aside", "form", "select", "template", "svg", "object", "button",
	"script", "style", "textarea", "title", "noscript", "iframe", "xmp",
}

// Markdown returns an HTML page as Markdown: headings, paragraphs, lists,
// quotations, code, tables, links and emphasis. Of a page with a main element
// it shows that one only. Links become absolute by base, the page's address.
// A malformed page gives some text, never an error.
func Markdown(page string, base *url.URL) string {
	w := &pageWriter{base: base}
	var skip open // the element whose content is skipped
	var main open
	for z := html.NewTokenizer(strings.NewReader(page)); z.Next() != html.ErrorToken; {
		switch t := z.Token(); t.Type {
		case html.TextToken:
			if skip.depth == 0 {
				w.text(t.Data)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			switch {
			case t.Data == "main" && main.depth == 0:
				w, skip, main = &pageWriter{base: base}, open{}, open{"main", 1}
			case main.begin(t.Data) || skip.begin(t.Data):
			case skip.depth == 0 && slices.Contains(skipped, t.Data):
				skip = open{t.Data, 1}
			case skip.depth == 0:
				w.element(element{Token: t})
			}
		case html.EndTagToken:
			if main.end(t.Data) {
				if main.depth == 0 {
					return w.String()
				}
			} else if !skip.end(t.Data) && skip.depth == 0 {
				w.element(element{Token: t, closing: true})
			}
		}
	}
	return w.String()
}

// describe returns what the head of an HTML page says about it: its title and the
// day on which it was published, "" where it does not say.
func describe(page string) (title, published string) {
	inside := false
	for z := html.NewTokenizer(strings.NewReader(page)); z.Next() != html.ErrorToken; {
		switch t := z.Token(); {
		case inside:
			title, inside = strings.Join(strings.Fields(tool.Plain(t.Data)), " "), false
		case t.Type == html.StartTagToken && t.Data == "body", t.Type == html.EndTagToken && t.Data == "head":
			return title, published
		case t.Data == "meta" && published == "":
			published = publishedIn(t.Attr)
		case t.Type == html.StartTagToken:
			inside = t.Data == "title" && title == ""
		}
	}
	return title, published
}

// dateNames are the names under which pages say when they were published.
var dateNames = []string{"article:published_time", "datepublished", "date", "dc.date", "dc.date.issued"}

// publishedIn returns the day that a meta element gives, "" for none.
func publishedIn(attributes []html.Attribute) (day string) {
	named := false
	for _, a := range attributes {
		switch a.Key {
		case "name", "property", "itemprop":
			named = named || slices.Contains(dateNames, strings.ToLower(a.Val))
		case "content":
			day, _, _ = strings.Cut(strings.TrimSpace(a.Val), "T")
		}
	}
	if _, err := time.Parse(time.DateOnly, day); err != nil || !named {
		return ""
	}
	return day
}

// open is an element that has begun, and how many of its name there are inside
// each other.
type open struct {
	name  string
	depth int
}

func (o *open) begin(name string) bool {
	if o.depth == 0 || o.name != name {
		return false
	}
	o.depth++
	return true
}

func (o *open) end(name string) bool {
	if o.depth == 0 || o.name != name {
		return false
	}
	o.depth--
	return true
}

// element is the tag at the beginning or the end of an element.
type element struct {
	html.Token
	closing bool
}

func (e element) attribute(name string) string {
	for _, a := range e.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// pageWriter writes Markdown from the tags and texts of a page in their order.
type pageWriter struct {
	out   strings.Builder
	base  *url.URL
	lines int  // line ends to write before the next word
	space bool // write a space before the next word
	fresh bool // a mark has just opened something: drop white space

	verbatim bool     // inside pre
	lists    []list   // open lists, the innermost last
	quotes   int      // open quotations
	links    []string // targets of the open links
	row      int      // cells of the table row so far
	rows     int      // rows of the table so far
}

func (w *pageWriter) String() string { return strings.TrimSpace(tool.Plain(w.out.String())) }

type list struct {
	ordered bool
	items   int
}

func (w *pageWriter) text(text string) {
	text = strings.ReplaceAll(text, "\u00a0", " ")
	if w.verbatim {
		w.fresh = false
		if w.lines > 0 {
			text = strings.TrimPrefix(text, "\n") // it belongs to the tag
		}
		if text != "" {
			w.separate()
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
		w.separate()
		w.out.WriteString(word)
	}
	if text != "" && strings.TrimSpace(text[len(text)-1:]) == "" {
		w.space = true
	}
}

// mark writes a mark of Markdown. One that opens something belongs to the next
// word, any other to the last.
func (w *pageWriter) mark(sign string, opens bool) {
	if opens {
		w.separate()
	}
	w.fresh = opens
	w.out.WriteString(sign)
}

// separate writes the white space between the last word and the next.
func (w *pageWriter) separate() {
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

// maxMargin bounds how deep lists and quotations are shown; a page may nest them
// without end.
const maxMargin = 12

// margin returns what every line begins with here.
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

// breakLine asks for a new line, or with two for a blank one in between. A row
// of a table is one line whatever is in its cells.
func (w *pageWriter) breakLine(lines int) {
	if w.row > 0 {
		w.space = true
		return
	}
	w.lines, w.space, w.fresh = max(w.lines, lines), false, false
}

func (w *pageWriter) element(e element) {
	switch e.Data {
	case "h1", "h2", "h3", "h4", "h5", "h6":
		w.breakLine(2)
		if !e.closing {
			w.mark(strings.Repeat("#", int(e.Data[1]-'0'))+" ", true)
		}
	case "p", "dl", "figure", "details":
		w.breakLine(2)
	case "div", "section", "article", "header", "body", "html", "head", "address", "dt", "dd", "caption", "figcaption", "summary", "br":
		w.breakLine(1)
	case "hr":
		w.breakLine(2)
		w.mark("---", true)
		w.breakLine(2)
	case "ul", "ol":
		w.list(e)
	case "li":
		w.item(e)
	case "blockquote":
		w.breakLine(2)
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
	w.breakLine(2)
	if len(w.lists) > 0 {
		w.lines = 1 // inside another list
	}
	if !e.closing {
		w.lists = append(w.lists, list{ordered: e.Data == "ol"})
	}
}

func (w *pageWriter) item(e element) {
	w.breakLine(1)
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
			w.breakLine(1)
		}
		w.mark("```", true)
		w.breakLine(2)
		return
	}
	w.breakLine(2)
	w.mark("```", true)
	w.breakLine(1)
	w.verbatim = true
}

// table writes rows as | a | b |, with a line under the first.
func (w *pageWriter) table(e element) {
	switch {
	case e.Data == "table":
		w.endRow()
		w.breakLine(2)
		w.rows = 0
	case e.Data == "tr":
		w.endRow()
	case !e.closing:
		if w.row == 0 {
			w.breakLine(1)
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
		w.breakLine(1)
		w.mark("|"+strings.Repeat(" --- |", cells), true)
	}
	w.rows++
	w.breakLine(1)
}

func (w *pageWriter) inline(e element) {
	switch e.Data {
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
			w.separate()
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

// target returns where a link leads, "" for one that leads to no page.
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

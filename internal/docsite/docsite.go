// Package docsite shows the documentation to browsers: its pages, and a search
// through them. Everything is part of the binary. There are no scripts.
package docsite

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"

	"github.com/holdfast-dev/holdfast/docs"
)

// root is the path below which the documentation is served.
const root = "/docs/"

// policy lets a page load its style and its pictures from this server, and
// nothing else.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// order is the order of the pages; others follow.
var order = []string{
	"agents.md", "embedding.md", "memory.md", "tasks.md", "workflows.md", "permissions.md", "security.md", "server.md", "clients.md", "testing.md",
	"interchange.md", "reference.md", "design.md", "durability.md", "performance.md", "rough-edges.md",
}

//go:embed style.css page.html
var own embed.FS

var frame = template.Must(template.ParseFS(own, "page.html"))

// Site serves the documentation.
type Site struct {
	next     http.Handler
	pages    []*page
	files    map[string][]byte // by name: pictures, the style
	sections []*section
	indexed  sync.Once // of the sections, for searches
}

// page is a page as it is sent.
type page struct {
	Name, Title, Intro string
	body               template.HTML
	anchors            []string
}

// New renders the pages. Next serves every path outside of /docs/.
func New(next http.Handler) (*Site, error) {
	s := &Site{next: next, files: map[string][]byte{}}
	names, err := fs.Glob(docs.Files, "*")
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(names, func(a, b string) int { return place(a) - place(b) })
	for _, name := range names {
		raw, err := docs.Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if path.Ext(name) != ".md" {
			s.files[name] = raw
			continue
		}
		if err := s.add(name, raw); err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
	}
	s.files["style.css"], err = own.ReadFile("style.css")
	return s, err
}

func place(name string) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

// add renders a page and takes it into the index.
func (s *Site) add(name string, source []byte) error {
	m := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	tree, sections := read(m, name, source)
	var body bytes.Buffer
	if err := m.Renderer().Render(&body, source, tree); err != nil {
		return err
	}
	p := &page{Name: name, body: template.HTML(body.String())} //nolint:gosec // our own pages, and raw HTML in them is left out
	if len(sections) > 0 {
		p.Title, p.Intro = sections[0].Title, firstParagraph(tree, source)
	}
	for _, found := range sections {
		p.anchors = append(p.anchors, found.Anchor)
	}
	s.pages, s.sections = append(s.pages, p), append(s.sections, sections...)
	return nil
}

// ServeHTTP serves a page, a picture or the answer to a search.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, below := strings.CutPrefix(r.URL.Path, root)
	switch {
	case r.URL.Path+"/" == root:
		http.Redirect(w, r, root, http.StatusPermanentRedirect)
		return
	case !below:
		s.next.ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the documentation is only read", http.StatusMethodNotAllowed)
	case name == "":
		s.show(w, http.StatusOK, view{Title: "Documentation"})
	case name == "search":
		s.show(w, http.StatusOK, view{Title: "Search", Query: query, Found: s.Search(query), Searched: true})
	case s.files[name] != nil:
		h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
		h.Set("Content-Length", strconv.Itoa(len(s.files[name])))
		if r.Method == http.MethodGet {
			_, _ = w.Write(s.files[name]) // nobody is left to tell
		}
	default:
		i := slices.IndexFunc(s.pages, func(p *page) bool { return p.Name == name })
		if i < 0 {
			s.show(w, http.StatusNotFound, view{Title: "There is no such page"})
			return
		}
		s.show(w, http.StatusOK, view{Title: s.pages[i].Title, Name: name, Body: s.pages[i].body})
	}
}

// view is what the frame shows.
type view struct {
	Title, Name, Query string
	Body               template.HTML
	Found              []Hit
	Searched           bool
	Pages              []*page
}

func (s *Site) show(w http.ResponseWriter, status int, v view) {
	v.Pages = s.pages
	var out bytes.Buffer
	if err := frame.Execute(&out, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes())
}

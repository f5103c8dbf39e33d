package docsite

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/docs"
)

var newSite = sync.OnceValues(func() (*Site, error) {
	return New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
})

func site(t *testing.T) *Site {
	t.Helper()
	s, err := newSite()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	site(t).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

func TestSite_everyPageIsThere(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(docs.Files, "*.md")
	if err != nil || len(names) < 10 {
		t.Fatalf("%q, %v", names, err)
	}
	index := get(t, "/docs/").Body.String()
	for _, name := range names {
		w := get(t, "/docs/"+name)
		body := w.Body.String()
		if w.Code != http.StatusOK || !strings.Contains(body, "<h1") {
			t.Errorf("%s: %d", name, w.Code)
		}
		if !strings.Contains(index, `href="`+name+`"`) {
			t.Errorf("%s is not on the first page", name)
		}
	}
	for _, name := range order {
		if !slices.Contains(names, name) {
			t.Errorf("the page %s is gone", name)
		}
	}
}

// Every link leads to a page, a heading, a picture or a file of the repository.
func TestSite_linksResolve(t *testing.T) {
	t.Parallel()
	s := site(t)
	links := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	checked := 0
	for _, p := range s.pages {
		for _, m := range links.FindAllStringSubmatch(string(p.body), -1) {
			checked++
			link := m[1]
			if file, ok := strings.CutPrefix(link, repository); ok {
				file, _, _ = strings.Cut(file, "#")
				if _, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(file))); err != nil {
					t.Errorf("%s: %s is not in the repository", p.Name, file)
				}
				continue
			}
			name, anchor, ok := local(link)
			if !ok {
				continue
			}
			if name == "" {
				name = p.Name
			}
			i := slices.IndexFunc(s.pages, func(q *page) bool { return q.Name == name })
			switch {
			case i < 0 && s.files[name] == nil:
				t.Errorf("%s: there is no %s", p.Name, name)
			case i >= 0 && anchor != "" && !slices.Contains(s.pages[i].anchors, anchor):
				t.Errorf("%s: %s has no heading %q", p.Name, name, anchor)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links were found", checked)
	}
}

func TestSite_loadsNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/docs/", "/docs/design.md", "/docs/search?q=lease", "/docs/nothing.md", "/docs/style.css", "/docs/stores.svg"} {
		w := get(t, path)
		if got := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'; style-src 'self'; img-src 'self';") || strings.Contains(got, "script-src") {
			t.Errorf("%s: %q", path, got)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Content-Type") == "" {
			t.Errorf("%s: %v", path, w.Header())
		}
		if body := w.Body.String(); strings.Contains(body, "<script") || regexp.MustCompile(`(?:src|link[^>]*href)="(?:https?:)?//`).MatchString(body) {
			t.Errorf("%s loads something", path)
		}
	}
	if w := get(t, "/docs/nothing.md"); w.Code != http.StatusNotFound {
		t.Errorf("a page that is not there: %d", w.Code)
	}
	if w := get(t, "/docs"); w.Header().Get("Location") != "/docs/" {
		t.Errorf("without the slash: %d %v", w.Code, w.Header())
	}
	for _, path := range []string{"/", "/sessions", "/docsx"} {
		if w := get(t, path); w.Code != http.StatusTeapot {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	site(t).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/docs/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestSearch_finds(t *testing.T) {
	t.Parallel()
	s := site(t)
	for query, want := range map[string]string{
		"fencing leases":      "design.md#leases-and-fencing", // titles first, any order
		"exit code":           "reference.md#exit-codes",
		"replaying":           "testing.md#what-is-replayed", // inflected
		"REPLAY":              "testing.md#what-is-replayed",
		"holdfasttest":        "testing.md#in-a-go-test", // in code and prose
		"HostFromCatalog":     "embedding.md#a-workflow",
		"spawn_subagent call": "design.md#one-way-to-wait",
	} {
		hits := s.Search(query)
		if !slices.ContainsFunc(hits, func(h Hit) bool { return h.Page+"#"+h.Anchor == want && h.Excerpt != "" }) {
			t.Errorf("%q found %+v, not %s", query, hits, want)
		}
	}
	if best := s.Search("fencing leases"); len(best) == 0 || best[0].Anchor != "leases-and-fencing" {
		t.Errorf("the best is %+v", best)
	}
	for _, query := range []string{"", " ", "…", "zyzzyva", "lease zyzzyva"} {
		if hits := s.Search(query); len(hits) > 0 {
			t.Errorf("%q found %+v", query, hits)
		}
	}
	body := get(t, "/docs/search?q=%3Cscript%3Elease").Body.String()
	if !strings.Contains(body, "&lt;script&gt;lease") || strings.Contains(body, "<script") {
		t.Error("a query is not shown as text")
	}
	if body := get(t, "/docs/search?q=fencing").Body.String(); !strings.Contains(body, `href="design.md#leases-and-fencing"`) {
		t.Error("the search shows no link")
	}
}

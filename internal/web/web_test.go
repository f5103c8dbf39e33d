package web_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/web"
)

// budget is how large all scripts of the page may be together, compressed.
const budget = 90 << 10

func get(t *testing.T, h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func newPage(t *testing.T, prefix string) http.Handler {
	t.Helper()
	h, err := web.New(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestPage_namesFilesThatExist(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/holdfast", "/holdfast/"} {
		h := newPage(t, prefix)
		body := get(t, h, "/").Body.String()
		names := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(body, -1)
		if len(names) < 3 {
			t.Fatalf("index.html names %d files: %s", len(names), body)
		}
		for _, found := range names {
			path, ok := strings.CutPrefix(found[1], strings.TrimSuffix(prefix, "/")+"/")
			if !ok {
				t.Errorf("%s is not below %q", found[1], prefix)
			}
			w := get(t, h, "/"+path)
			if kind := w.Header().Get("Content-Type"); w.Code != http.StatusOK || kind == "" || strings.HasPrefix(kind, "text/html") {
				t.Errorf("%s: %d %s", found[1], w.Code, kind)
			}
		}
	}
}

func TestPage_isSmall(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("dist/assets/*.js")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var sum int
	for _, name := range scripts {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		sum += out.Len()
	}
	t.Logf("%d scripts, %d bytes compressed", len(scripts), sum)
	if sum > budget {
		t.Errorf("the scripts of the page have %d bytes compressed, more than %d", sum, budget)
	}
}

func TestPage_headers(t *testing.T) {
	t.Parallel()
	h := newPage(t, "")
	script := regexp.MustCompile(`src="([^"]+)"`).FindStringSubmatch(get(t, h, "/").Body.String())[1]
	for path, cache := range map[string]string{
		"/": "no-cache", "/index.html": "no-cache", "/sessions/some-id?tab=log": "no-cache", "/assets/missing.js": "no-store",
		script: "public, max-age=31536000, immutable",
	} {
		w := get(t, h, path)
		for name, want := range map[string]string{
			"Cache-Control": cache, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if have := w.Header().Get(name); have != want {
				t.Errorf("%s: %s is %q, want %q", path, name, have, want)
			}
		}
		csp := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy lacks %s: %s", path, want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: %s", path, csp)
		}
	}
	if w := get(t, h, "/assets/missing.js"); w.Code != http.StatusNotFound {
		t.Errorf("a missing file: %d", w.Code)
	}
	if w := get(t, h, "/sessions/some-id"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<title>Holdfast</title>") {
		t.Errorf("a deep link: %d %s", w.Code, w.Body)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestPage_isCompressedForWhoTakesIt(t *testing.T) {
	t.Parallel()
	h := newPage(t, "")
	script := regexp.MustCompile(`src="([^"]+)"`).FindStringSubmatch(get(t, h, "/").Body.String())[1]
	plain, packed := get(t, h, script), get(t, h, script, "Accept-Encoding", "br, gzip")
	if plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("encodings %q and %q", plain.Header().Get("Content-Encoding"), packed.Header().Get("Content-Encoding"))
	}
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := out.ReadFrom(z); err != nil || out.String() != plain.Body.String() {
		t.Errorf("the compressed script is another: %v", err)
	}
}

// Package web serves the page: a program for browsers that shows and steers
// sessions. It is part of the binary and loads nothing from anywhere else.
//
// The sources are in the folder web, and "make web" builds them into dist,
// which is committed so that "go install" has the page.
package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed all:dist
var built embed.FS

// policy says what the page may do: run and load what this server sends, talk
// to this server, and nothing else. Trusted Types make sure that no text
// becomes markup, except in the templates of the framework.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types svelte-trusted-html"

// page serves the files of dist.
type page struct {
	files map[string]file // by path
}

// file is a file as it is sent.
type file struct {
	kind         string // the media type
	raw, gzipped []byte
}

// New returns the handler of the page. Prefix is the path that the server is
// reached under, such as /holdfast, and is not part of the paths of requests;
// it is empty for a server of its own.
//
// Every path without a file is the page itself: it finds out what to show.
func New(prefix string) (http.Handler, error) {
	p := &page{files: map[string]file{}}
	err := fs.WalkDir(built, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := built.ReadFile(name)
		if err != nil {
			return err
		}
		place := strings.TrimPrefix(name, "dist")
		if place == "/index.html" { // a page below / must find the files too
			raw = bytes.ReplaceAll(raw, []byte(`="./`), []byte(`="`+strings.TrimSuffix(prefix, "/")+`/`))
		}
		p.files[place], err = newFile(name, raw)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	return p, nil
}

// newFile compresses a file once, for all requests.
func newFile(name string, raw []byte) (file, error) {
	f := file{kind: mime.TypeByExtension(path.Ext(name)), raw: raw}
	if path.Ext(name) == ".js" { // some machines say otherwise
		f.kind = "text/javascript; charset=utf-8"
	}
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return f, err
	}
	if _, err := z.Write(raw); err != nil {
		return f, err
	}
	if err := z.Close(); err != nil {
		return f, err
	}
	if out.Len() < len(raw) {
		f.gzipped = out.Bytes()
	}
	return f, nil
}

// ServeHTTP serves a file, or the page itself.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the page is only read", http.StatusMethodNotAllowed)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	f, found := p.files[r.URL.Path]
	switch {
	case strings.HasPrefix(r.URL.Path, "/assets/") && !found: // of another build
		h.Set("Cache-Control", "no-store")
		http.Error(w, "there is no such file; load the page again", http.StatusNotFound)
		return
	case strings.HasPrefix(r.URL.Path, "/assets/"): // their names change with them
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	case !found:
		f = p.files["/index.html"]
		fallthrough
	default:
		h.Set("Cache-Control", "no-cache")
	}
	f.send(w, r)
}

func (f file) send(w http.ResponseWriter, r *http.Request) {
	h, body := w.Header(), f.raw
	h.Set("Content-Type", f.kind)
	h.Add("Vary", "Accept-Encoding")
	if f.gzipped != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.gzipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // nobody is left to tell
	}
}

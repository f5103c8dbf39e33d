package web_test

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/tool/web"
)

func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{
		`<html><head><title>T</title><script>if (a < b) x("</main>")</script></head><nav><ul><li></nav><main><h1>T &amp; t</h1><p>A <b>b</b></main>`, "<pre>\n<b>x", "<table><tr><td>1<table><td>2", "<ol><li><ul><li>", "<a href=x><a href='y", "<main><main></main>", "<!-", "</", "<p a=b c='d", "&#0;&lt;",
	} {
		f.Add(seed)
	}
	base := &url.URL{Scheme: "https", Host: "example.com", Path: "/"}
	f.Fuzz(func(t *testing.T, page string) {
		if !utf8.ValidString(page) {
			t.Skip()
		}
		got := web.Markdown(page, base)
		// Every tag may begin a line, and a line has a margin.
		if most := 100 * (len(page) + 1); len(got) > most {
			t.Errorf("%d bytes of %d: %.100q", len(got), len(page), page)
		}
		if got != strings.TrimSpace(got) || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
	})
}

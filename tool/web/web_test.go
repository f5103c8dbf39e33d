package web_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/web"
)

func TestTools_natures(t *testing.T) {
	t.Parallel()
	tools, err := web.Tools(web.Config{})
	if err != nil || len(tools) != 2 || tools[0].Spec().Nature != tool.ReadOnly || tools[1].Spec().Nature != tool.Once {
		t.Errorf("tools %v, %v", tools, err)
	}
}

func TestGet_whatCanBeReadIsShown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, body string
		want       string // "" is refused
	}{
		"text":         {"text/plain", "hello\x1b[31m", "Status: 200\nBody:\nhello"},
		"json":         {"application/json", `{"a": 1}`, "Status: 200\nBody:\n" + `{"a": 1}`},
		"another json": {"application/problem+json", `{}`, "Status: 200\nBody:\n{}"},
		"published": {"text/html", `<head><title>T</title><meta name=author content=A><meta property="article:published_time" content="2026-01-02T03:04:05Z"></head><p>x`,
			"Status: 200\nTitle: T\nPublished: 2026-01-02\nBody:\nx"},
		"published when": {"text/html", `<meta name=date content="last week"><p>x<meta name=other content=2026-01-02>`, "Status: 200\nBody:\nx"},
		"html":           {"text/html; charset=utf-8", "<title>T</title><h1>Hello</h1><script>evil()</script><p>a&amp;b", "Status: 200\nTitle: T\nBody:\n# Hello\n\na&b"},
		"latin 1":        {"text/plain; charset=iso-8859-1", "caf\xe9", "Status: 200\nBody:\ncafé"},
		"no type":        {"", "just words", "Status: 200\nBody:\njust words"},
		"nothing":        {"text/plain", "", "Status: 200\nBody:\n[no content]"},
		"png":            {"image/png", "\x89PNG\r\n\x1a\n", ""},
		"png untyped":    {"", "\x89PNG\r\n\x1a\n", ""},
		"zip":            {"application/zip", "PK\x03\x04", ""},
		"binary as txt":  {"text/plain", "a\x00b", ""},
	} {
		port := server(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if c.kind != "" {
				w.Header().Set("Content-Type", c.kind)
			}
			fmt.Fprint(w, c.body)
		})
		got, err := get(t, here(web.Config{}, port), "http://good.test:"+port)
		switch {
		case c.want == "" && (err == nil || !strings.Contains(err.Error(), "no text")):
			t.Errorf("%s: %+v, %v", name, got, err)
		case c.want != "" && (err != nil || got != tool.Result{Content: c.want}):
			t.Errorf("%s: %+v, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestRequest_isSentAndAnswered(t *testing.T) {
	t.Parallel()
	port := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.URL.Path, r.Header.Get("X-Key"), r.Header.Get("Content-Type"), body)
	})
	c := here(web.Config{}, port)
	got, err := call(t.Context(), t, c, "http_request", map[string]any{
		"url": "http://good.test:" + port + "/path", "method": "post", "headers": map[string]string{"x-key": "k"}, "body": `{"a":1}`,
	})
	if err != nil || !got.IsError || !strings.HasSuffix(got.Content, "Body:\n"+`POST /path k application/json {"a":1}`) ||
		!strings.HasPrefix(got.Content, "Status: 418\nHeaders: {") || !strings.Contains(got.Content, `"X-Answer":"yes"`) || strings.Contains(got.Content, "secret") {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, in := range []map[string]any{
		{"url": "http://good.test:" + port, "method": "TRACE"}, {"url": "http://good.test:" + port, "method": "A B"},
		{"url": "http://good.test:" + port, "headers": map[string]string{"host": "other"}}, {"url": "http://good.test:" + port, "headers": map[string]string{"proxy-authorization": "x"}},
		{"url": "http://good.test:" + port, "cookies": "x"}, {},
	} {
		if got, err := call(t.Context(), t, c, "http_request", in); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%v: %+v, %v", in, got, err)
		}
	}
}

func TestRedirects_areFollowedAndCounted(t *testing.T) {
	t.Parallel()
	port := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/old":
			http.Redirect(w, r, "/new", http.StatusMovedPermanently)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			fmt.Fprint(w, r.Method+" "+r.URL.Path)
		}
	})
	c, at := here(web.Config{}, port), "http://good.test:"+port
	if got, err := get(t, c, at+"/old"); err != nil || got.Content != "Status: 200\nURL: "+at+"/new\nBody:\nGET /new" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := get(t, c, at+"/loop"); err == nil || !strings.Contains(err.Error(), "more than 5 times") {
		t.Errorf("got %v", err)
	}
	c.MaxRedirects = -1
	if _, err := get(t, c, at+"/old"); err == nil || !strings.Contains(err.Error(), "more than 0 times") {
		t.Errorf("got %v", err)
	}
}

func TestRedirects_credentialsStayWithTheirHost(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	other := server(t, func(w http.ResponseWriter, r *http.Request) { seen <- r.Header; fmt.Fprint(w, "other") })
	status := http.StatusFound
	port := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/home" {
			fmt.Fprint(w, "home "+r.Header.Get("X-Api-Key"))
			return
		}
		to := "http://other.test:" + other + "/"
		if r.URL.Path == "/stay" {
			to = "/home"
		}
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	})
	c := here(web.Config{Resolver: &names{answers: map[string][]string{"good.test": {"127.0.0.1"}, "other.test": {"127.0.0.1"}}}}, port)
	c.Private = append(c.Private, "other.test:"+other)
	in := map[string]any{"url": "http://good.test:" + port, "headers": map[string]string{"Authorization": "Bearer x", "X-Api-Key": "x", "Cookie": "x"}}
	if got, err := call(t.Context(), t, c, "http_request", in); err != nil || !strings.HasSuffix(got.Content, "other") {
		t.Fatalf("got %+v, %v", got, err)
	}
	for name := range <-seen {
		if name == "Authorization" || name == "X-Api-Key" || name == "Cookie" {
			t.Errorf("%s went to another host", name)
		}
	}
	in["url"] = "http://good.test:" + port + "/stay"
	if got, err := call(t.Context(), t, c, "http_request", in); err != nil || !strings.HasSuffix(got.Content, "home x") {
		t.Errorf("on the same host: %+v, %v", got, err)
	}
	status = http.StatusTemporaryRedirect
	in["url"], in["method"], in["body"] = "http://good.test:"+port, "POST", "secret"
	if got, err := call(t.Context(), t, c, "http_request", in); !errors.Is(err, web.ErrRefused) || len(seen) > 0 {
		t.Errorf("a body went to another host: %+v, %v", got, err)
	}
}

func TestGet_longAnswersAreCut(t *testing.T) {
	t.Parallel()
	endless := server(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 1 << 16 {
			if _, err := fmt.Fprintf(w, "line %d\n", i); err != nil {
				return
			}
			if i%1000 == 0 {
				w.(http.Flusher).Flush()
			}
		}
	})
	bomb := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for range 20 {
			if _, err := io.WriteString(z, strings.Repeat("x", 1<<20)); err != nil {
				return
			}
		}
	})
	for _, port := range []string{endless, bomb} {
		got, err := get(t, here(web.Config{MaxBody: 10_000, MaxResult: 100}, port), "http://good.test:"+port)
		if err != nil || len(got.Content) > 300 || !strings.Contains(got.Content, "[cut: the first 100 of 10000 bytes]") || !strings.Contains(got.Content, "longer than 10000 bytes") {
			t.Errorf("got %d bytes %q, %v", len(got.Content), got.Content, err)
		}
	}
}

func TestGet_slowAnswersAreGivenUp(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"no header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a slow body": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "first")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		port := server(t, answer)
		got, err := get(t, here(web.Config{Timeout: 200 * time.Millisecond}, port), "http://good.test:"+port)
		if err == nil || !strings.Contains(err.Error(), "no complete answer from good.test") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// More pages are in the tests of the workflow tool web_fetch, which shows the
// same Markdown.
func TestGet_pagesAsMarkdown(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"<p>one<p>two":                           "one\n\ntwo",
		"<b>a</b><i>b</i> c":                     "**a***b* c",
		"<ul><li>x<li>y</ul>z":                   "- x\n- y\n\nz",
		"<table><tr><td>1<td>2<tr><td>3</table>": "| 1 | 2 |\n| --- | --- |\n| 3 |",
		"<pre>a\n  b</pre>c":                     "```\na\n  b\n```\n\nc",
		"x<!-- <p>no --> y":                      "x y",
		"<STYLE>p{}</STYLE >t":                   "t",
		"<script>if (a</b) x</script>t":          "t",
		"<script>never closed":                   "",
		`<a title="a > b" href=x>link</a>`:       "[link](http://good.test:PORT/x)",
		"1 < 2 &lt; 3 &nbsp; &copy;":             "1 < 2 < 3 ©",
		"<div\n\nclass=x>y</div>":                "y",
		"<":                                      "<",
		"a<b":                                    "a",
		"red &#27;[31malert":                     "red alert",
		"<form><nav>n</nav><main>m<main>n</main></main>o</form>":                            "mn",
		"<!doctype html><html><head><meta charset=utf-8><title>T\n t</title></head><body>B": "Title: T t\nB",
	} {
		port := server(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, page)
		})
		got, err := get(t, here(web.Config{}, port), "http://good.test:"+port)
		text := strings.Replace(strings.TrimPrefix(got.Content, "Status: 200\n"), "Body:\n", "", 1)
		if err != nil || strings.ReplaceAll(text, port, "PORT") != want {
			t.Errorf("%q: got %q, %v, want %q", page, text, err, want)
		}
	}
}

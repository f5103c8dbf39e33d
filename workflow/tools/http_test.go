package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// serve starts a real server on loopback; host is its host:port.
func serve(t *testing.T, answer http.HandlerFunc) (url, host string) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL, strings.TrimPrefix(s.URL, "http://")
}

// open is a box for which the hosts may be reached.
func open(t *testing.T, hosts ...string) *tools.Box {
	t.Helper()
	return newBox(t, tools.Config{HTTP: tools.HTTP{AllowPrivate: hosts}})
}

// echo answers with the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header()["Date"] = nil
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Set-Cookie", "session=secret")
	fmt.Fprintf(w, "%s %s %s [%s] <%s>", r.Method, r.URL, r.Header.Get("Content-Type"), r.Header.Get("X-Key"), body)
}

func TestHTTPRequest_statusHeadersBody(t *testing.T) {
	t.Parallel()
	url, host := serve(t, echo)
	b := open(t, host)
	works(t, b, "http_request", map[string]any{"url": url + "/a?b=c", "headers": map[string]string{"x-key": "k"}},
		"Status: 200\n\nHeaders:\n{\n  \"content-length\": \"18\",\n  \"content-type\": \"text/plain\"\n}\n\nBody:\nGET /a?b=c  [k] <>")
	got := use(t, b, "http_request", map[string]any{"url": url + "/p", "method": "post", "body": `{"a": 1}`})
	if got.IsError || !strings.HasSuffix(got.Content, `POST /p application/json [] <{"a": 1}>`) {
		t.Errorf("got %+v", got)
	}
	fails(t, b, "http_request", map[string]any{"url": url, "method": "PATCH"}, "GET, POST, PUT, DELETE")
	fails(t, b, "http_request", map[string]any{"url": url, "timeout": 0}, "timeout")
	fails(t, b, "http_request", map[string]any{"url": url, "timeout": 601}, "timeout")
	fails(t, b, "http_request", map[string]any{"url": url, "headers": map[string]string{"host": "x"}}, "Host")
	fails(t, b, "http_request", map[string]any{"url": ""}, "not a URL")
	fails(t, b, "http_request", map[string]any{"url": "ftp://" + host}, "refused")
}

func TestHTTPRequest_anAnswerThatSaysNoIsAnAnswer(t *testing.T) {
	t.Parallel()
	url, host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "gone fishing", http.StatusServiceUnavailable)
	})
	got := use(t, open(t, host), "http_request", map[string]any{"url": url})
	if got.IsError || !strings.HasPrefix(got.Content, "Status: 503\n") || !strings.Contains(got.Content, "gone fishing") {
		t.Errorf("got %+v", got)
	}
}

func TestHTTP_privateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	untouched := func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was asked for", r.URL) }
	url, secret := serve(t, untouched)
	door, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, url+"/secret", http.StatusFound)
	})
	closed, ajar := open(t), open(t, host)
	for _, name := range []string{"http_request", "web_fetch"} {
		fails(t, closed, name, map[string]any{"url": url}, "a loopback address")
		fails(t, closed, name, map[string]any{"url": "http://localhost:" + strings.Split(secret, ":")[1]}, "a loopback address")
		fails(t, closed, name, map[string]any{"url": "http://169.254.169.254/latest/meta-data"}, "a link-local address")
		fails(t, closed, name, map[string]any{"url": "http://10.0.0.1/"}, "a private address")
		fails(t, ajar, name, map[string]any{"url": door}, "a loopback address") // redirected
	}
	b := newBox(t, tools.Config{HTTP: tools.HTTP{AllowPrivate: []string{host}}, Spec: parseWith(t, `
tools:
  http_executors: [{id: crm, base_url: "`+door+`"}]
`, host)})
	fails(t, b, "crm", map[string]any{"path": "/x"}, "a loopback address")
}

func TestHTTP_listsOfPatterns(t *testing.T) {
	t.Parallel()
	url, host := serve(t, echo)
	for name, c := range map[string]struct {
		allowed, blocked []string
		reached          bool
	}{
		"nothing said":        {nil, nil, true},
		"the host":            {[]string{`127\.0\.0\.\d`}, nil, true},
		"the URL":             {[]string{`^http://127\.`}, nil, true},
		"another host":        {[]string{`example\.com`, `example\.org`}, nil, false},
		"part of the host":    {[]string{`0\.0\.1`}, nil, false},
		"a name in the path":  {[]string{`.*\.example\.com`}, nil, false},
		"another scheme":      {[]string{`https://127\.0\.0\.1`}, nil, false},
		"blocked":             {nil, []string{`^127\.`}, false},
		"blocked path":        {nil, []string{`/x\.EXAMPLE`}, false},
		"blocked wins":        {[]string{`127\..*`}, []string{`127`}, false},
		"another is blocked":  {nil, []string{`evil`}, true},
		"alternatives, whole": {[]string{`a|127\.0\.0\.1|b`}, nil, true},
	} {
		b := newBox(t, tools.Config{HTTP: tools.HTTP{AllowPrivate: []string{host}, AllowedDomains: c.allowed, BlockedPatterns: c.blocked}})
		got := use(t, b, "http_request", map[string]any{"url": url + "/x.example.com"})
		if got.IsError == c.reached || (got.IsError && !strings.Contains(got.Content, "refused")) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestHTTPFromEnv_listsWithCommasOrAsJSON(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"HOLDFAST_HTTP_ALLOW_PRIVATE":   "localhost:80, 10.0.0.1:8080,",
		"STRANDS_HTTP_ALLOW_PRIVATE":    "other:1",
		"STRANDS_HTTP_ALLOWED_DOMAINS":  `["^https://a{1,2}\\.example"]`,
		"STRANDS_HTTP_BLOCKED_PATTERNS": "[a-z]+\\.evil",
	}
	got, err := tools.HTTPFromEnv(func(name string) string { return env[name] })
	if err != nil || !slices.Equal(got.AllowPrivate, []string{"localhost:80", "10.0.0.1:8080"}) ||
		!slices.Equal(got.AllowedDomains, []string{`^https://a{1,2}\.example`}) || !slices.Equal(got.BlockedPatterns, []string{`[a-z]+\.evil`}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"[1]", "("} {
		if _, err := tools.HTTPFromEnv(func(name string) string { return map[string]string{"HOLDFAST_HTTP_ALLOWED_DOMAINS": bad}[name] }); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestHTTP_slowAnswersAndCancel(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	url, host := serve(t, func(_ http.ResponseWriter, r *http.Request) { asked <- struct{}{}; <-r.Context().Done() })
	b := open(t, host)
	fails(t, b, "http_request", map[string]any{"url": url, "timeout": 0.05}, "no complete answer from "+host+" in 50ms")
	arrived := func() (n int) { // since the last call; a slow machine may give up before a request is sent
		for len(asked) > 0 {
			<-asked
			n++
		}
		return n
	}
	arrived()
	// A page is tried twice.
	for timeout := 0.05; ; timeout *= 2 {
		fails(t, b, "web_fetch", map[string]any{"url": url, "timeout": timeout}, "no complete answer")
		n := arrived()
		if n == 2 {
			break
		}
		if timeout > 10 {
			t.Fatalf("%d requests arrived within %g s", n, timeout)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	raw := json.RawMessage(`{"url":"` + url + `"}`)
	if got, err := b.For([]string{"web_fetch"}, true)[0].Call(ctx, tool.Call{Arguments: raw}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestHTTP_whatIsShown(t *testing.T) {
	t.Parallel()
	url, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/picture":
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, "\x89PNG")
		case "/long":
			fmt.Fprint(w, strings.Repeat("0123456789", 10_000))
		case "/longer":
			fmt.Fprint(w, strings.Repeat("0123456789", 300_000))
		case "/terminal":
			fmt.Fprint(w, "red \x1b[31malert")
		}
	})
	b := open(t, host)
	for path, want := range map[string]string{
		"/picture":  "Body:\n[image/png, 4 bytes: it is no text and cannot be shown]",
		"/long":     "[cut: the first 65536 of 100000 bytes]",
		"/longer":   "[cut: the first 65536 of ",
		"/terminal": "Body:\nred alert",
	} {
		if got := use(t, b, "http_request", map[string]any{"url": url + path}); got.IsError || !strings.Contains(got.Content, want) || len(got.Content) > 70_000 {
			t.Errorf("%s: %d bytes %.200q", path, len(got.Content), got.Content)
		}
	}
}

const page = `<!doctype html><html><head><title>T</title><script>if (a < b) x("</main>")</script></head><body>
<nav><ul><li><a href="/">Home</a></li></ul></nav>
<main><h1>Tea &amp; more</h1><p>A <b>hot</b> <a href="/wiki/Drink">drink</a>.</p></main><footer>legal</footer></body></html>`

func TestWebFetch_htmlOrMarkdown(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	url, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		switch r.URL.Path {
		case "/old":
			http.Redirect(w, r, "/tea", http.StatusMovedPermanently)
		case "/tea":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, page)
		case "/data":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"a": "<b>"}`)
		case "/shaky":
			if tries.Add(1) == 1 {
				panic(http.ErrAbortHandler) // the connection breaks
			}
			fmt.Fprint(w, "at last")
		default:
			http.NotFound(w, r)
		}
	})
	b := open(t, host)
	quoted, err := json.Marshal(page)
	if err != nil {
		t.Fatal(err)
	}
	raw := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(quoted))
	works(t, b, "web_fetch", map[string]any{"url": url + "/tea"}, fmt.Sprintf(
		`{"status":200,"url":"%s/tea","headers":{"content-length":"%d","content-type":"text/html; charset=utf-8"},"body":%s}`, url, len(page), raw))
	text := `# Tea & more\n\nA **hot** [drink](` + url + `/wiki/Drink).`
	works(t, b, "web_fetch", map[string]any{"url": url + "/old", "mode": "markdown"}, `{"status":200,"url":"`+url+`/tea","markdown":"`+text+`"}`)
	works(t, b, "web_fetch", map[string]any{"url": url + "/tea", "mode": "markdown", "include_raw_html": true},
		`{"status":200,"url":"`+url+`/tea","markdown":"`+text+`","raw_html":`+raw+`}`)
	works(t, b, "web_fetch", map[string]any{"url": url + "/data", "mode": "markdown"}, `{"status":200,"url":"`+url+`/data","markdown":"{\"a\": \"<b>\"}"}`)
	works(t, b, "web_fetch", map[string]any{"url": url + "/none", "mode": "markdown"}, `{"status":404,"url":"`+url+`/none","markdown":"404 page not found\n"}`)
	works(t, b, "web_fetch", map[string]any{"url": url + "/shaky", "mode": "markdown"}, `{"status":200,"url":"`+url+`/shaky","markdown":"at last"}`)
	fails(t, b, "web_fetch", map[string]any{"url": url, "mode": "pdf"}, "html or markdown")
}

func TestWebFetch_markdownOfPages(t *testing.T) {
	t.Parallel()
	var body string
	url, host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, body)
	})
	b := open(t, host)
	for _, c := range []struct{ page, want string }{
		{"<p>one<p>two", "one\n\ntwo"},
		{"<h2>a</h2>b<h3>c</h3>", "## a\n\nb\n\n### c"},
		{"<h2> a\n</h2><ul>\n <li>\n  <b> x </b>y</li></ul><td> z", "## a\n\n- **x** y\n\n| z"},
		{"<ul><li>x<li>y <i>z</i></ul>end", "- x\n- y *z*\n\nend"},
		{"<ol><li>x</li><li>y<ul><li>in</li></ul></li></ol>", "1. x\n2. y\n   - in"},
		{"<pre>\na\n  b &lt;\n</pre>c", "```\na\n  b <\n```\n\nc"},
		{"<pre><code>x</code></pre>", "```\nx\n```"},
		{"run <code>go  test</code>!", "run `go test`!"},
		{"<blockquote><p>said<p>more</blockquote>x", "> said\n>\n> more\n\nx"},
		{"a<br>b<hr>c", "a\nb\n\n---\n\nc"},
		{"<table><tr><th>k<th>v</tr><tr><td>1</td><td><p>2</p>3</td></tr></table>z", "| k | v |\n| --- | --- |\n| 1 | 2 3 |\n\nz"},
		{`<a href="javascript:x()">no</a> <a href=#top>top</a> <a>bare</a>`, "no top bare"},
		{`<a title="a > b" href='/x(1)?q=&quot;'>l</a>`, "[l](" + url + `/x%281%29?q=")`},
		{`<img alt="a  cat" src=cat.png><img alt=none>`, "![a cat](" + url + "/cat.png)"},
		{"x<!-- <p>no --> y<style>p{}</style><nav>n<nav>m</nav>o</nav>z", "x yz"},
		{"1 < 2 &lt; 3", "1 < 2 < 3"},
		{"</ul></blockquote></a></pre></table>ok", "ok"},
		{"<script>never closed", ""},
		{"a<b", "a"},
		{"", ""},
	} {
		body = c.page
		var got struct{ Markdown string }
		result := use(t, b, "web_fetch", map[string]any{"url": url, "mode": "markdown"})
		if err := json.Unmarshal([]byte(result.Content), &got); err != nil || got.Markdown != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.page, got.Markdown, err, c.want)
		}
	}
	// Nesting without end does not make a page larger than it is.
	body = strings.Repeat("<blockquote><ul><li>x", 20_000)
	if got := use(t, b, "web_fetch", map[string]any{"url": url, "mode": "markdown"}); len(got.Content) > 200_000 {
		t.Errorf("%d bytes", len(got.Content))
	}
}

package server_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"io"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
)

// page is a page for tests: it shows its path.
func page(_ *holdfast.Config, c *server.Config) {
	c.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "the page at "+r.URL.Path)
	})
}

// browser is a client with cookies that asks for HTML and follows redirects.
type browser struct {
	t    *testing.T
	http *http.Client
	base string
}

func newBrowser(t *testing.T, n *node) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, &http.Client{Jar: jar}, n.http.URL}
}

// open returns the page that is shown in the end, and its address.
func (b *browser) open(method, path string, form url.Values) (status int, at, text string, header http.Header) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,application/xhtml+xml")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	res, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, res.Request.URL.RequestURI(), string(body), res.Header
}

// shows opens a path and checks what is shown in the end.
func (b *browser) shows(path string, status int, at, text string) {
	b.t.Helper()
	if gotStatus, gotAt, got, _ := b.open("GET", path, nil); gotStatus != status || gotAt != at || !strings.Contains(got, text) {
		b.t.Errorf("%s shows %d at %s: %s, want %d at %s with %q", path, gotStatus, gotAt, got, status, at, text)
	}
}

func TestLogin_aBrowserGetsACookieOfItsOwn(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	list, err := n.keys.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	path := n.server.LoginPath(list[0])
	r := n.do("GET", path, request{key: "-"})
	cookies := (&http.Response{Header: r.header}).Cookies()
	if r.status != 303 || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode || cookies[0].Value == n.admin || r.header.Get("Location") != "/" {
		t.Fatalf("%d %v", r.status, r.header)
	}
	refused(t, n.do("GET", path, request{key: "-"}), 401, "unauthenticated") // a code works once
	refused(t, n.do("GET", "/?code=", request{key: "-"}), 401, "unauthenticated")
	cookie := cookies[0].Name + "=" + cookies[0].Value
	want[struct{}](t, n.do("GET", "/v1/system/info", request{key: "-", header: map[string]string{"Cookie": cookie}}), 200)
	refused(t, n.do("POST", "/v1/sessions", request{key: "-", body: map[string]any{"agent": "echo"}, header: map[string]string{"Cookie": cookie, "Sec-Fetch-Site": "cross-site"}}), 403, "cross_origin")
	want[session.Info](t, n.do("POST", "/v1/sessions", request{key: "-", body: map[string]any{"agent": "echo"}, header: map[string]string{"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}}), 201)
	refused(t, n.do("GET", "/v1/system/info", request{key: "-", header: map[string]string{"Cookie": cookie + "x"}}), 401, "unauthenticated")

	form := url.Values{"key": {n.admin}}.Encode()
	sent := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	byKey := n.do("POST", "/login", request{key: "-", body: form, header: sent})
	if byKey.status != 204 || byKey.header.Get("Set-Cookie") == "" {
		t.Errorf("%d %v", byKey.status, byKey.header)
	}
	refused(t, n.do("POST", "/login", request{key: "-", body: "key=x", header: sent}), 401, "unauthenticated")
	sent["Sec-Fetch-Site"] = "cross-site"
	if r := n.do("POST", "/login", request{key: "-", body: form, header: sent}); r.status != 403 || r.header.Get("Set-Cookie") != "" {
		t.Errorf("a page of another origin logs in: %d %v", r.status, r.header)
	}

	if out := n.do("POST", "/logout", request{key: "-", header: map[string]string{"Cookie": cookie}}); out.status != 204 {
		t.Errorf("%d %s", out.status, out.body)
	}
	refused(t, n.do("GET", "/v1/system/info", request{key: "-", header: map[string]string{"Cookie": cookie}}), 401, "unauthenticated")
}

// Whoever starts a server opens the page without a key, once; others get a form
// that leads back to where they wanted to go.
func TestLogin_theStartCodeAndTheForm(t *testing.T) {
	t.Parallel()
	n := newNode(t, page)
	start := n.server.LoginPath(apikey.Key{Scopes: []apikey.Scope{apikey.Admin}})
	first := newBrowser(t, n)
	first.shows("/sessions/trip?view=log", 200, "/sessions/trip?view=log", `name="next" value="/sessions/trip?view=log"`)
	first.shows(start, 200, "/", "the page at /")
	first.shows("/sessions/trip?view=log", 200, "/sessions/trip?view=log", "the page at /sessions/trip")
	first.shows(start, 200, "/", "the page at /") // by its cookie: the code is void

	other := newBrowser(t, n)
	for _, code := range []string{start, "/?code=", "/?code=" + strings.Repeat("A", 26)} {
		other.shows(code, 401, code, "the code was used before")
	}
	other.shows("/", 200, "/", "<form")
	status, at, text, header := other.open("POST", "/login", url.Values{"key": {"hf_wrong"}, "next": {"/sessions"}})
	if status != 401 || at != "/login" || !strings.Contains(text, "not known") || !strings.Contains(text, `value="/sessions"`) || strings.Contains(text, "hf_wrong") {
		t.Errorf("%d %s %s", status, at, text)
	}
	policy := header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || !strings.Contains(policy, "form-action 'self'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(text, "<script") {
		t.Errorf("%s\n%s", policy, text)
	}
	if status, at, text, _ := other.open("POST", "/login", url.Values{"key": {" " + n.admin + "\n"}, "next": {"/sessions?status=active"}}); status != 200 || at != "/sessions?status=active" || text != "the page at /sessions" {
		t.Errorf("%d %s %s", status, at, text)
	}
	// The API is not the page.
	refused(t, n.do("GET", "/v1/sessions", request{key: "-", header: map[string]string{"Accept": "text/html"}}), 401, "unauthenticated")
	refused(t, n.do("GET", "/v1/nothing", request{}), 404, "no_route")
	refused(t, n.do("GET", "/app.js", request{key: "-"}), 401, "unauthenticated")
	if status, at, text, _ := other.open("POST", "/logout", url.Values{}); status != 200 || at != "/login" || !strings.Contains(text, "<form") {
		t.Errorf("%d %s %s", status, at, text)
	}
	other.shows("/sessions", 200, "/sessions", "<form")
}

// A login leads to a path of this server and nowhere else.
func TestLogin_leadsToNoOtherHost(t *testing.T) {
	t.Parallel()
	n := newNode(t, page)
	for _, next := range []string{"//evil.example", "////evil.example", "https://evil.example/", "/\\evil.example", "evil.example", "", "/\t/evil.example", "javascript:alert(1)", "/%zz"} {
		form := url.Values{"key": {n.admin}, "next": {next}}.Encode()
		r := n.do("POST", "/login", request{key: "-", body: form, header: map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}})
		if r.status != 303 || r.header.Get("Location") != "/" {
			t.Errorf("%q leads to %d %s", next, r.status, r.header.Get("Location"))
		}
	}
}

func TestLogin_aCodeIsOverAfterTenMinutes(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	n := newNode(t, func(_ *holdfast.Config, c *server.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	path := n.server.LoginPath(apikey.Key{Scopes: []apikey.Scope{apikey.Read}})
	ahead.Store(int64(11 * time.Minute))
	refused(t, n.do("GET", path, request{key: "-"}), 401, "unauthenticated")
}

// With a prefix everything is below it: routes, locations, the login and its
// cookie. Over TLS the cookie says so in its name.
func TestPrefix_isPartOfEverything(t *testing.T) {
	t.Parallel()
	n := newNode(t, page, func(_ *holdfast.Config, c *server.Config) { c.Prefix = "/hold/fast" })
	b := newBrowser(t, n)
	start := n.server.LoginPath(apikey.Key{Scopes: []apikey.Scope{apikey.Admin}})
	if !strings.HasPrefix(start, "/hold/fast/?code=") {
		t.Fatal(start)
	}
	b.shows("/hold/fast", 200, "/hold/fast/", `action="/hold/fast/login"`)
	b.shows(start, 200, "/hold/fast/", "the page at /")
	b.shows("/hold/fast/sessions", 200, "/hold/fast/sessions", "the page at /sessions")
	r := n.do("POST", "/hold/fast/login", request{key: "-", body: url.Values{"key": {n.admin}, "next": {"/hold/fast/runs"}}.Encode(), header: map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html", "X-Forwarded-Proto": "https",
	}})
	cookies := (&http.Response{Header: r.header}).Cookies()
	if len(cookies) != 1 || cookies[0].Name != "__Secure-hf" || cookies[0].Path != "/hold/fast/" || !cookies[0].Secure || r.header.Get("Location") != "/hold/fast/runs" {
		t.Errorf("%v", r.header)
	}
	want[struct{}](t, n.do("GET", "/hold/fast/v1/system/info", request{key: "-", header: map[string]string{"X-Forwarded-Proto": "https", "Cookie": "__Secure-hf=" + cookies[0].Value}}), 200)
	made := n.do("POST", "/hold/fast/v1/sessions", request{body: map[string]any{"agent": "echo"}})
	if at := made.header.Get("Location"); made.status != 201 || !strings.HasPrefix(at, "/hold/fast/v1/sessions/") || n.do("GET", at, request{}).status != 200 {
		t.Errorf("%d %s", made.status, at)
	}
	for path, status := range map[string]int{"/hold/fast/livez": 200, "/hold/fast/readyz": 200, "/hold/fast/metrics": 200, "/livez": 404, "/v1/sessions": 404, "/hold/fastest/livez": 404, "/": 404} {
		if r := n.do("GET", path, request{}); r.status != status {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if doc := want[struct{ Servers []struct{ URL string } }](t, n.do("GET", "/hold/fast/openapi.json", request{key: "-"}), 200); len(doc.Servers) != 1 || doc.Servers[0].URL != "/hold/fast" {
		t.Errorf("%+v", doc)
	}
	c, err := client.New(client.Config{URL: n.http.URL + "/hold/fast", Key: n.admin})
	if err != nil {
		t.Fatal(err)
	}
	if turn, err := c.Execute(t.Context(), strings.TrimPrefix(made.header.Get("Location"), "/hold/fast/v1/sessions/"), holdfast.SendMessage{Text: "hello"}); err != nil || turn.Reply() == "" {
		t.Errorf("%+v, %v", turn.Info(), err)
	}
	host := n.do("POST", "/hold/fast/login", request{key: "-", body: url.Values{"key": {n.admin}}.Encode(), header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}})
	if c := host.header.Get("Set-Cookie"); !strings.HasPrefix(c, "hf=") {
		t.Error(c)
	}
	for _, prefix := range []string{"holdfast", "/", "/a/", "/a/../b", "/a b", "/a?b"} {
		if _, err := server.New(server.Config{Runtime: n.rt, Keys: n.keys, Prefix: prefix}); err == nil {
			t.Errorf("the prefix %q is accepted", prefix)
		}
	}
}

// Over TLS and without a prefix browsers accept the cookie from nobody else.
func TestLogin_theCookieOverTLSBelongsToTheHost(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := n.do("POST", "/login", request{key: "-", body: url.Values{"key": {n.admin}}.Encode(), header: map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-Proto": "https",
	}})
	if c := (&http.Response{Header: r.header}).Cookies(); len(c) != 1 || c[0].Name != "__Host-hf" || c[0].Path != "/" || !c[0].Secure {
		t.Errorf("%v", r.header)
	}
}

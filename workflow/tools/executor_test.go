package tools_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// parseWith is parse for a spec that may reach hosts on loopback.
func parseWith(t testing.TB, more string, allow ...string) *spec.Spec {
	t.Helper()
	s, err := spec.Loader{AllowPrivate: allow}.Parse(spec.Source{Path: "/nowhere/spec.yaml", Data: []byte(plainSpec + more)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// service is a box with one web service, called crm.
func service(t *testing.T, answer http.HandlerFunc, c tools.Config, format string) *tools.Box {
	t.Helper()
	url, host := serve(t, answer)
	c.Spec = parseWith(t, strings.ReplaceAll(format, "URL", url), host)
	c.HTTP.AllowPrivate = []string{host}
	return newBox(t, c)
}

func TestExecutor_requestAndAnswer(t *testing.T) {
	t.Parallel()
	b := service(t, echo, tools.Config{}, `
tools:
  http_executors: [{id: crm, base_url: "URL/v1/?k=1", headers: {x-key: fixed}}]
`)
	works(t, b, "crm", map[string]any{"path": "users/a%2Fb?q=x"},
		`{"status":200,"headers":{"content-length":"39","content-type":"text/plain"},"body":"GET /v1/users/a%2Fb?k=1&q=x  [fixed] <>"}`)
	works(t, b, "crm", map[string]any{"path": "/users", "method": "patch", "json_data": map[string]any{"a": []int{1}}, "headers_override": map[string]string{"X-KEY": "mine"}},
		`{"status":200,"headers":{"content-length":"55","content-type":"text/plain"},"body":"PATCH /v1/users?k=1 application/json [mine] <{\"a\":[1]}>"}`)
	works(t, b, "crm", map[string]any{"path": "/", "json_data": nil}, `{"status":200,"headers":{"content-length":"24","content-type":"text/plain"},"body":"GET /v1/?k=1  [fixed] <>"}`)
	for _, path := range []string{"https://evil.example/x", "//evil.example/x", "//", "mailto:x"} {
		fails(t, b, "crm", map[string]any{"path": path}, "another host")
	}
	for _, path := range []string{"../admin", "/a/../../b", "a/%2e%2e/b", `a\..\b`} {
		fails(t, b, "crm", map[string]any{"path": path}, "leads out of")
	}
	fails(t, b, "crm", map[string]any{"path": ""}, "is empty")
	fails(t, b, "crm", map[string]any{"path": "x", "method": "TRACE"}, "method")
	fails(t, b, "crm", map[string]any{"path": "x", "headers_override": map[string]string{"Host": "x"}}, "Host")
}

func TestExecutor_ownTimeout(t *testing.T) {
	t.Parallel()
	b := service(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, tools.Config{}, `
tools:
  http_executors: [{id: crm, base_url: "URL", timeout_ms: 40}]
`)
	fails(t, b, "crm", map[string]any{"path": "x"}, "in 40ms")
}

const withSecrets = `
env:
  secrets:
    - {key: CRM_PAT, source: env, name: TOKEN}
    - {key: PLAIN_KEY, source: env}
tools:
  http_executors:
    - id: crm
      base_url: "URL"
      headers: {Authorization: "Bearer ${TOKEN}", X-Key: "${PLAIN_KEY}/${FROM_ENV}/${MISSING}"}
`

func TestExecutor_secretsAreLookedUpAtTheCall(t *testing.T) {
	t.Parallel()
	env := map[string]string{"CRM_PAT": "first-token\n", "PLAIN_KEY": "k", "FROM_ENV": "e", "TOKEN": "wrong"}
	var warnings []string
	var seen []string
	b := service(t, func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization")+" "+r.Header.Get("X-Key"))
	}, tools.Config{
		Getenv: func(name string) string { return env[name] },
		Warn:   func(text string) { warnings = append(warnings, text) },
	}, withSecrets)
	use(t, b, "crm", map[string]any{"path": "x"})
	env["CRM_PAT"] = "second-token"
	use(t, b, "crm", map[string]any{"path": "x"})
	env["CRM_PAT"] = ""
	use(t, b, "crm", map[string]any{"path": "x"})
	if want := []string{"Bearer first-token k/e/", "Bearer second-token k/e/", "Bearer wrong k/e/"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "${MISSING}") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestExecutor_secretsDoNotComeBack(t *testing.T) {
	t.Parallel()
	const token = `s3cr"t/tok+en`
	var location string
	answer := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
			return
		}
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"auth": "Bearer s3cr\"t/tok+en"} `, r.Header.Get("Authorization"), " s3cr%22t%2Ftok%2Ben")
	}
	b := service(t, answer, tools.Config{Getenv: func(name string) string {
		return map[string]string{"CRM_PAT": token}[name]
	}}, withSecrets)
	got := use(t, b, "crm", map[string]any{"path": "x"})
	if got.IsError || strings.Count(got.Content, "[secret:TOKEN]") != 4 || strings.Contains(got.Content, "tok") {
		t.Errorf("got %+v", got)
	}
	// Also not in what goes wrong.
	location = "http://" + token + "%zz"
	got = use(t, b, "crm", map[string]any{"path": "away"})
	if !got.IsError || !strings.Contains(got.Content, "[secret:TOKEN]") || strings.Contains(got.Content, "tok+en") {
		t.Errorf("got %+v", got)
	}
}

func TestExecutor_secretsStayWithTheirHost(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	other, otherHost := serve(t, func(w http.ResponseWriter, r *http.Request) { seen <- r.Header; io.WriteString(w, "ok") }) //nolint:errcheck // the test sees what is missing
	url, host := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) })
	b := newBox(t, tools.Config{
		Spec:   parseWith(t, strings.ReplaceAll(withSecrets, "URL", url), host),
		HTTP:   tools.HTTP{AllowPrivate: []string{host, otherHost}},
		Getenv: func(string) string { return "value-of-all" },
	})
	if got := use(t, b, "crm", map[string]any{"path": "x"}); got.IsError {
		t.Fatalf("got %+v", got)
	}
	if h := <-seen; h.Get("Authorization") != "" || h.Get("X-Key") != "" {
		t.Errorf("another host was sent %v", h)
	}
}

func TestTavily_asksTheService(t *testing.T) {
	t.Parallel()
	answer := `{"query": "tea", "results": []}`
	status := http.StatusOK
	url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != "/search" || r.Header.Get("Authorization") != "Bearer tvly-secret" ||
			string(body) != `{"include_answer":true,"max_results":20,"query":"tea"}` {
			t.Errorf("%s %s %v %s", r.Method, r.URL, r.Header, body)
		}
		w.WriteHeader(status)
		io.WriteString(w, answer) //nolint:errcheck // the test sees what is missing
	})
	env := map[string]string{"TAVILY_API_KEY": "tvly-secret", "HOLDFAST_TAVILY_BASE_URL": url + "/"}
	b := newBox(t, tools.Config{Getenv: func(name string) string { return env[name] }})
	in := map[string]any{"query": " tea ", "max_results": 20, "include_answer": true}
	works(t, b, "tavily_search", in, `{"query":"tea","results":[]}`)
	answer = "<html>"
	fails(t, b, "tavily_search", in, "not answer with JSON")
	answer, status = "bad key tvly-secret", http.StatusUnauthorized
	fails(t, b, "tavily_search", in, "status 401: bad key [secret:TAVILY_API_KEY]")
	fails(t, b, "tavily_search", map[string]any{"query": " "}, "is empty")
	fails(t, b, "tavily_search", map[string]any{"query": "x", "max_results": 21}, "1 to 20")
	env["TAVILY_API_KEY"] = ""
	fails(t, b, "tavily_search", in, "TAVILY_API_KEY is not set")
}

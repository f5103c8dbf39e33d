package server_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/server"
)

// protocolRoute is a route of a protocol, to be called about what a tenant has.
type protocolRoute struct {
	method, path string
	scope        apikey.Scope
	names        bool // something of a tenant
}

// protocolRoutes returns every route of every protocol. What they name is made
// first: a chat of the agent echo that says the word secret.
func protocolRoutes(t *testing.T, n *node) []protocolRoute {
	t.Helper()
	made := want[struct {
		ID     string
		Output []struct{ ID string }
	}](t, n.do("POST", "/openai/v1/responses", request{body: map[string]any{"model": "agent/echo", "input": "secret"}}), 200)
	id := strings.Split(made.ID, "_")[1]
	fill := strings.NewReplacer("{agent}", "echo", "/responses/{id}", "/responses/"+made.ID, "/conversations/{id}", "/conversations/conv_"+id,
		"{item}", made.Output[0].ID, "/models/{id...}", "/models/agent/echo", "{id}", id)
	var routes []protocolRoute
	for _, p := range server.Protocols() {
		for _, r := range p.Routes() {
			method, pattern, _ := strings.Cut(r.Pattern, " ")
			path := fill.Replace(pattern)
			if strings.Contains(path, "{") || !strings.HasPrefix(path, p.Prefix()) {
				t.Fatalf("%s cannot be called as %s", r.Pattern, path)
			}
			names := strings.Contains(pattern, "{id}")
			routes = append(routes, protocolRoute{method, path, r.Scope, names})
			if got := n.do(method, path, request{key: n.key("default", apikey.Read)}); names && r.Scope == apikey.Read && got.status >= 300 {
				t.Fatalf("%s %s: %d %s", method, path, got.status, got.body)
			}
		}
	}
	return routes
}

// Whatever protocol a client speaks, it needs a key with the scope, sees its own
// tenant, and sends no more than the API takes.
func TestProtocols_haveTheKeysTenantsAndLimitsOfTheAPI(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(_ *holdfast.Config, s *server.Config) { s.MaxBody = 4096 })
	all := []apikey.Scope{apikey.Read, apikey.Write, apikey.Approve}
	lacking := map[apikey.Scope]string{}
	for _, scope := range all {
		lacking[scope] = n.key("default", slices.DeleteFunc(slices.Clone(all), func(s apikey.Scope) bool { return s == scope })...)
	}
	own, other := n.key("default", all...), n.key("other", all...)
	for _, r := range protocolRoutes(t, n) {
		check := func(what, key, body string, status int) {
			t.Helper()
			got := n.do(r.method, r.path, request{key: key, body: body})
			if got.status != status || strings.Contains(string(got.body), "secret") {
				t.Errorf("%s %s with %s: %d %s, want %d", r.method, r.path, what, got.status, got.body, status)
			}
			for _, inside := range []string{"json:", "Go struct", "Go value", "unmarshal"} { // of no use to a caller
				if strings.Contains(string(got.body), inside) {
					t.Errorf("%s %s with %s says %q: %s", r.method, r.path, what, inside, got.body)
				}
			}
		}
		check("no key", "-", "{}", 401)
		check("a wrong key", "hf_wrong", "{}", 401)
		check("a key without the scope", lacking[r.scope], "{}", 403)
		check("a body that is too large", own, `{"input":"`+strings.Repeat("x", 4096)+`"}`, 413)
		if r.names {
			check("the key of another tenant", other, "{}", 404)
		}
		if r.method != "POST" || strings.HasSuffix(r.path, "/cancel") {
			continue
		}
		refusal := map[bool]int{true: 400, false: 422}[strings.HasPrefix(r.path, "/openai/")]
		for _, body := range []string{`[]`, `{"`, `{"id":1,"threadId":1,"model":1,"messages":1,"items":1,"metadata":1,"input":1}`} {
			check("the body "+body, own, body, refusal)
		}
	}
	large, err := json.Marshal(strings.Repeat("x", 4096))
	if err != nil {
		t.Fatal(err)
	}
	refused(t, n.do("POST", "/mcp", request{body: string(large)}), 413, "too_large")
	refused(t, n.do("POST", "/mcp", request{key: "-", body: "{}"}), 401, "unauthenticated")
}

func TestProtocols_tooManyRequestsOfOneKey(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(_ *holdfast.Config, s *server.Config) { s.Rate = 0.001 }) // a burst of one
	for _, r := range append(protocolRoutes(t, n), protocolRoute{method: "POST", path: "/mcp"}) {
		key := n.key("default", apikey.Metrics)
		if got := n.do(r.method, r.path, request{key: key, body: "{}"}); got.status == 429 {
			t.Errorf("%s %s: the first request is refused: %s", r.method, r.path, got.body)
		}
		if got := n.do(r.method, r.path, request{key: key, body: "{}"}); got.status != 429 || got.header.Get("Retry-After") == "" {
			t.Errorf("%s %s: the second request: %d %s", r.method, r.path, got.status, got.body)
		}
	}
}

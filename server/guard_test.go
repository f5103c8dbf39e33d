package server_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

func TestGuard_aKeyIsNeeded(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for name, key := range map[string]string{
		"none": "-", "garbage": "hf_x", "a guess": "hf_0123456789_" + strings.Repeat("a", 43), "with a line break": n.admin[:20],
	} {
		r := n.do("GET", "/v1/sessions", request{key: key})
		if refused(t, r, 401, "unauthenticated"); r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", name)
		}
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got := r.header.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
	}
	for _, header := range []string{"Basic " + n.admin, n.admin, "Bearer", "Bearer  "} {
		refused(t, n.do("GET", "/v1/sessions", request{key: "-", header: map[string]string{"Authorization": header}}), 401, "unauthenticated")
	}
}

func TestGuard_scopes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	at := "/v1/sessions/" + n.create(request{}).ID
	read, write := n.key("default", apikey.Read), n.key("default", apikey.Write)
	want[session.Info](t, n.do("GET", at+"?view=info", request{key: read}), 200)
	refused(t, n.do("GET", at, request{key: write}), 403, "forbidden")
	refused(t, n.do("POST", at+"/messages", request{key: read, body: map[string]any{"text": "x"}}), 403, "forbidden")
	refused(t, n.do("GET", "/v1/keys", request{key: read}), 403, "forbidden")
	refused(t, n.do("POST", "/v1/keys", request{key: write, body: map[string]any{"scopes": []string{"admin"}}}), 403, "forbidden")
	refused(t, n.do("GET", at+"/events", request{key: write}), 403, "forbidden")
	made := want[struct {
		Secret, Tenant string
		ID             string
	}](t, n.do("POST", "/v1/keys", request{body: map[string]any{"scopes": []string{"read"}, "label": "ci"}}), 201)
	if made.Tenant != "default" {
		t.Errorf("%+v", made)
	}
	want[session.Info](t, n.do("GET", at+"?view=info", request{key: made.Secret}), 200)
	want[apikey.Key](t, n.do("DELETE", "/v1/keys/"+made.ID, request{}), 200)
	refused(t, n.do("GET", at+"?view=info", request{key: made.Secret}), 401, "unauthenticated")
}

// A key without the scope approve, such as one that an agent has, cannot
// approve a call by any action.
func TestGuard_onlyApproversApprove(t *testing.T) {
	t.Parallel()
	engine, err := permission.New(permission.Config{})
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t, func(h *holdfast.Config, _ *server.Config) {
		h.Models = llm.Map{offline.Name: scripted.New(
			scripted.Reply{ToolCalls: []session.ToolCall{{ID: "1", Name: "shell", Arguments: []byte(`{"command":"touch x"}`)}}},
			scripted.Reply{Text: "done"},
		)}
		tools, err := tool.NewSet(tool.Fake("shell", "runs a command", "ran"))
		if err != nil {
			t.Fatal(err)
		}
		h.Tools = tools
		h.Permissions = &holdfast.Permissions{Engine: engine}
	})
	at := "/v1/sessions/" + n.create(request{}).ID
	got := want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": "go"}}), 200)
	if len(got.Pending) != 1 || got.Pending[0].Kind != session.PendingApproval {
		t.Fatalf("%+v", got)
	}
	call := at + "/pending/" + got.Pending[0].ID
	agent := n.key("default", apikey.Read, apikey.Write)
	for _, action := range []string{"approve", "deny", "result", "answer"} {
		refused(t, n.do("POST", call, request{key: agent, body: map[string]any{"action": action, "text": "x"}}), 403, "forbidden")
	}
	approver := n.key("default", apikey.Read, apikey.Approve)
	want[session.Info](t, n.do("POST", call, request{key: approver, body: map[string]any{"action": "approve"}}), 202)
	if got := want[turn](t, n.do("POST", at+"/continue", request{key: agent}), 200); got.Reply != "done" {
		t.Errorf("%+v", got)
	}
	// Nor may such a key set a mode that asks less, which would let its calls run unasked.
	mode := func(key, mode string) reply {
		return n.do("POST", at+"/actions/ChangePermissionMode", request{key: key, body: map[string]any{"mode": mode}})
	}
	for _, less := range []string{session.PermissionAcceptEdits, session.PermissionBypass, session.PermissionAllowKnown, session.PermissionDangerousOnly} {
		refused(t, mode(agent, less), 403, "forbidden")
	}
	want[turn](t, mode(agent, session.PermissionPlan), 200)
	want[turn](t, mode(n.key("default", apikey.Read, apikey.Write, apikey.Approve), session.PermissionAcceptEdits), 200)
	refused(t, mode(agent, "never"), 403, "forbidden")
}

func TestGuard_hostsOriginsAndSizes(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(_ *holdfast.Config, s *server.Config) {
		s.Hosts, s.Origins, s.MaxBody = []string{"holdfast.example"}, []string{"https://app.example"}, 4096
	})
	for host, status := range map[string]int{"holdfast.example:80": 200, "LOCALHOST": 200, "[::1]:8080": 200, "evil.example": 421, "localhost.evil.example": 421, "": 200} {
		header := map[string]string{}
		if host != "" {
			header["Host"] = host
		}
		if r := n.do("GET", "/v1/system/info", request{header: header}); r.status != status {
			t.Errorf("%s: %d %s", host, r.status, r.body)
		}
	}
	preflight := n.do("OPTIONS", "/v1/sessions", request{key: "-", header: map[string]string{"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}})
	if preflight.status != 204 || preflight.header.Get("Access-Control-Allow-Origin") != "https://app.example" || preflight.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%d %v", preflight.status, preflight.header)
	}
	if r := n.do("OPTIONS", "/v1/sessions", request{header: map[string]string{"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}}); r.header.Get("Access-Control-Allow-Origin") != "" || r.status < 400 {
		t.Errorf("%d %v", r.status, r.header)
	}
	refused(t, n.do("POST", "/v1/sessions", request{body: map[string]any{"agent": strings.Repeat("x", 5000)}}), 413, "too_large")
}

func TestGuard_tooManyRequestsOfOneKey(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(_ *holdfast.Config, s *server.Config) { s.Rate = 0.001 }) // a burst of one
	want[struct{}](t, n.do("GET", "/v1/system/info", request{}), 200)
	r := n.do("GET", "/v1/system/info", request{})
	if refused(t, r, 429, "rate_limited"); r.header.Get("Retry-After") == "" {
		t.Errorf("%v", r.header)
	}
	want[struct{}](t, n.do("GET", "/v1/system/info", request{key: n.key("default", apikey.Read)}), 200)
}

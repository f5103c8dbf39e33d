package server_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
)

func TestMetrics_countWhatTheNodeDoes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	key := n.key("acme", apikey.Admin) // every tenant is counted
	at := "/v1/sessions/" + n.create(request{key: key}).ID
	want[turn](t, n.do("POST", at+"/messages", request{key: key, body: map[string]any{"text": "hello"}}), 200)
	worked := n.rt.For(holdfast.Identity{Tenant: "silent"}) // it never asked, but a worker works for it
	if _, err := worked.Create(t.Context(), session.Definition{Name: "echo"}, holdfast.WithID("s")); err != nil {
		t.Fatal(err)
	}
	if _, err := worked.Execute(t.Context(), "s", holdfast.SendMessage{Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	refused(t, n.do("GET", "/v1/sessions/nobody", request{}), 404, "not_found")
	refused(t, n.do("GET", "/metrics", request{key: n.key("default", apikey.Read)}), 403, "forbidden")
	r := n.do("GET", "/metrics", request{key: n.key("default", apikey.Metrics)})
	for _, line := range []string{
		`holdfast_executions_started_total 2`, `holdfast_executions_finished_total{status="completed"} 2`, `holdfast_steps_total{model="offline/echo"} 2`,
		`holdfast_tokens_total{model="offline/echo",kind="output"}`, `holdfast_streams_open 0`,
		`holdfast_requests_total{route="POST /v1/sessions/{ref}/messages",status="200"} 1`,
		`holdfast_requests_total{route="GET /v1/sessions/{ref}",status="404"} 1`,
	} {
		if !strings.Contains(string(r.body), line) {
			t.Errorf("%s is missing", line)
		}
	}
	if t.Failed() {
		t.Logf("%s", r.body)
	}
	if strings.Contains(string(r.body), at[len("/v1/sessions/"):]) {
		t.Error("the numbers name a session")
	}
}

package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
)

// turn is the part of a turn that tests look at.
type turn struct {
	Session   session.Info
	Reply     string
	Execution string
	Pending   []session.PendingCall
	Problem   *fault
}

func TestSessions_fromCreateToPurge(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := n.do("POST", "/v1/sessions", request{body: map[string]any{
		"agent": "echo", "name": "trip", "userId": "ann", "metadata": map[string]any{"colour": "blue"},
	}})
	made := want[session.Info](t, r, 201)
	at := "/v1/sessions/" + made.ID
	if made.Version != 1 || made.Name != "trip" || made.UserID != "ann" || r.header.Get("Location") != at || r.header.Get("ETag") != `"v1"` {
		t.Fatalf("%+v %v", made, r.header)
	}
	got := want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": "hello"}}), 200)
	if got.Session.Version != 2 || got.Reply == "" || got.Execution != "completed" || got.Problem != nil {
		t.Fatalf("%+v", got)
	}
	for _, ref := range []string{made.ID, made.ID[:8], "trip"} {
		if i := want[session.Info](t, n.do("GET", "/v1/sessions/"+ref+"?view=info", request{}), 200); i.ID != made.ID {
			t.Errorf("%s is %s", ref, i.ID)
		}
	}
	page := want[struct{ Items []session.Info }](t, n.do("GET", "/v1/sessions?metadata=colour%3Dblue&user=ann&kind=chat", request{}), 200)
	if len(page.Items) != 1 || page.Items[0].ID != made.ID {
		t.Errorf("%+v", page)
	}
	if page := want[struct{ Items []session.Info }](t, n.do("GET", "/v1/sessions?metadata=colour%3Dred", request{}), 200); len(page.Items) != 0 {
		t.Errorf("%+v", page)
	}
	messages := want[struct{ Messages []session.Message }](t, n.do("GET", at+"/messages?order=oldest", request{}), 200)
	if len(messages.Messages) != 2 || messages.Messages[0].Content.Text() != "hello" {
		t.Errorf("%+v", messages)
	}
	versions := want[struct{ Items []struct{ Version int64 } }](t, n.do("GET", at+"/versions", request{}), 200)
	if len(versions.Items) != 2 {
		t.Errorf("%+v", versions)
	}
	if diff := want[struct{ Items []json.RawMessage }](t, n.do("GET", at+"/diff?from=1&to=2", request{}), 200); len(diff.Items) == 0 {
		t.Error("no changes between 1 and 2")
	}
	if u := want[struct{ Inferences int }](t, n.do("GET", at+"/usage", request{}), 200); u.Inferences != 1 {
		t.Errorf("%+v", u)
	}
	child := want[session.Info](t, n.do("POST", at+"/fork", request{body: map[string]any{"at": 1, "name": "other"}}), 201)
	tree := want[struct{ Children, Ancestors []session.Info }](t, n.do("GET", at+"/tree", request{}), 200)
	if len(tree.Children) != 1 || tree.Children[0].ID != child.ID {
		t.Errorf("%+v", tree)
	}
	if tree := want[struct{ Ancestors []session.Info }](t, n.do("GET", "/v1/sessions/other/tree", request{}), 200); len(tree.Ancestors) != 1 {
		t.Errorf("%+v", tree)
	}
	if back := want[turn](t, n.do("POST", at+"/rewind", request{body: map[string]any{"to": 1}}), 200); back.Session.Version != 3 || back.Session.MessageCount != 0 {
		t.Errorf("%+v", back.Session)
	}
	named := want[turn](t, n.do("POST", at+"/actions/RenameSession", request{body: map[string]any{"to": "tour"}}), 200)
	if named.Session.Name != "tour" {
		t.Errorf("%+v", named.Session)
	}
	if gone := want[session.Info](t, n.do("DELETE", at, request{}), 200); gone.Status != session.Deleted {
		t.Errorf("%+v", gone)
	}
	want[turn](t, n.do("POST", at+"/actions/RestoreSession", request{}), 200)
	want[session.Info](t, n.do("DELETE", at+"?purge=true", request{}), 200)
	refused(t, n.do("GET", at, request{}), 404, "not_found")
}

func TestGet_versionsAreImmutableAndCacheable(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	at := "/v1/sessions/" + n.create(request{}).ID
	want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": "one"}}), 200)
	old := n.do("GET", at+"?version=1", request{})
	if want[struct{ State struct{ Messages []any } }](t, old, 200); old.header.Get("ETag") != `"v1"` || !strings.Contains(old.header.Get("Cache-Control"), "immutable") {
		t.Errorf("%v", old.header)
	}
	now := n.do("GET", at, request{})
	if now.header.Get("ETag") != `"v2"` || strings.Contains(now.header.Get("Cache-Control"), "immutable") {
		t.Errorf("%v", now.header)
	}
	for path, tag := range map[string]string{at: `"v2"`, at + "?version=1": `"v1"`} {
		if r := n.do("GET", path, request{header: map[string]string{"If-None-Match": tag}}); r.status != 304 || len(r.body) != 0 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := n.do("GET", at, request{header: map[string]string{"If-None-Match": `"v1"`}}); r.status != 200 {
		t.Error(r.status)
	}
	refused(t, n.do("GET", at+"?version=9", request{}), 422, "invalid")
	refused(t, n.do("GET", at+"?version=9", request{header: map[string]string{"If-None-Match": `"v9"`}}), 422, "invalid")
}

func TestWrites_ifMatchAndIdempotencyKey(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	at := "/v1/sessions/" + n.create(request{}).ID
	send := func(text string, header map[string]string) reply {
		return n.do("POST", at+"/messages", request{body: map[string]any{"text": text}, header: header})
	}
	first := want[turn](t, send("one", map[string]string{"If-Match": `"v1"`, "Idempotency-Key": `"k-1"`}), 200)
	again := want[turn](t, send("one", map[string]string{"Idempotency-Key": "k-1"}), 200)
	if first.Session.Version != 2 || again.Session.Version != 2 || again.Reply != first.Reply {
		t.Errorf("%+v, then %+v", first, again)
	}
	refused(t, send("other", map[string]string{"Idempotency-Key": "k-1"}), 422, "conflict_key_reused")
	refused(t, send("two", map[string]string{"If-Match": `"v1"`}), 412, "conflict_stale")
	refused(t, send("two", map[string]string{"If-Match": "v2"}), 422, "invalid")
	if i := want[session.Info](t, n.do("GET", at+"?view=info", request{}), 200); i.Version != 2 {
		t.Errorf("a refused request changed the session: %+v", i)
	}
}

// A failed execution is saved, so it is a 200 that says what failed.
func TestSend_aFailureThatWasSavedIsA200WithAProblem(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(h *holdfast.Config, _ *server.Config) {
		h.Models = llm.Map{offline.Name: scripted.New(scripted.Reply{Err: errors.New("no such key")})}
	})
	at := "/v1/sessions/" + n.create(request{}).ID
	got := want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": "hello"}}), 200)
	if got.Problem == nil || got.Problem.Code != "execution_failed" || got.Session.Version != 2 || got.Execution != "failed" {
		t.Errorf("%+v", got)
	}
}

func TestRequests_badOnesAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	made := n.create(request{})
	at := "/v1/sessions/" + made.ID
	for _, tt := range []struct {
		method, path string
		body         any
		status       int
		code         string
	}{
		{"GET", "/v1/nothing", nil, 404, "no_route"},
		{"POST", "/v1/sessions", `{"agent":`, 400, "bad_request"},
		{"POST", "/v1/sessions", `[]`, 422, "invalid"},
		{"POST", "/v1/sessions", `{}`, 422, "invalid"},
		{"POST", "/v1/sessions", `{"agent":"echo","colour":"red"}`, 422, "invalid"},
		{"POST", "/v1/sessions", `{"agent":"nobody"}`, 404, "not_found"},
		{"POST", "/v1/sessions", `{"agent":"echo","id":"a b"}`, 422, "invalid"},
		{"POST", "/v1/sessions", `{"agent":"echo","id":"` + made.ID + `"}`, 409, "conflict_exists"},
		{"GET", "/v1/sessions?limit=-1", nil, 422, "invalid"},
		{"GET", "/v1/sessions?limit=x", nil, 422, "invalid"},
		{"GET", "/v1/sessions?colour=red", nil, 422, "invalid"},
		{"GET", "/v1/sessions?cursor=x", nil, 422, "invalid"},
		{"GET", "/v1/sessions?metadata=x", nil, 422, "invalid"},
		{"GET", "/v1/sessions/no-such-session", nil, 404, "not_found"},
		{"GET", at + "?view=all", nil, 422, "invalid"},
		{"POST", at + "/messages", `{}`, 422, "invalid"},
		{"POST", at + "/messages", `{"text":" "}`, 422, "invalid"},
		{"POST", at + "/messages", `{"text":5}`, 422, "invalid"},
		{"POST", at + "/messages", `{"text":"x","onBusy":"wait"}`, 422, "invalid"},
		{"POST", at + "/messages", `{"message":{"content":"x","colour":"red"}}`, 422, "invalid"},
		{"POST", at + "/messages", `{"message":{"role":"user"}}`, 422, "invalid"},
		{"POST", at + "/messages", `[]`, 422, "invalid"},
		{"POST", at + "/messages", `{"text":`, 400, "bad_request"},
		{"POST", at + "/actions/RenameSession", `{"to":5}`, 422, "invalid"},
		{"POST", at + "/actions/RenameSession", `[]`, 422, "invalid"},
		{"POST", at + "/messages?onBusy=maybe", `{"text":"x"}`, 422, "invalid"},
		{"GET", at + "/messages?metadata=screen", nil, 422, "invalid"},
		{"POST", at + "/continue", nil, 422, "nothing_to_do"},
		{"POST", at + "/rewind", `{"to":9}`, 422, "invalid"},
		{"POST", at + "/actions/Explode", nil, 404, "not_found"},
		{"POST", at + "/actions/RenameSession", `{"from":"x"}`, 422, "invalid"},
		{"POST", at + "/actions/RenameSession", `{"to":"x"} {}`, 422, "invalid"},
		{"POST", at + "/actions/RestoreSession", nil, 409, "wrong_status"},
		{"GET", at + "/diff?from=1", nil, 422, "invalid"},
		{"GET", at + "/diff?from=1&to=9", nil, 422, "invalid"},
		{"GET", at + "/pending/none", nil, 404, "not_found"},
		{"POST", at + "/pending/none", `{"action":"approve"}`, 404, "not_found"},
		{"POST", at + "/pending/none", `{"action":"explode"}`, 422, "invalid"},
		{"GET", at + "/memory/world", nil, 422, "invalid"},
		{"GET", at + "/memory/session/none", nil, 404, "not_found"},
		{"PUT", at + "/memory/session/k", `{`, 422, "invalid"},
		{"GET", at + "/recall", nil, 422, "invalid"},
		{"POST", "/v1/keys", `{"scopes":["root"]}`, 422, "invalid"},
		{"POST", "/v1/keys", `{"scopes":[]}`, 422, "invalid"},
		{"DELETE", "/v1/keys/none", nil, 404, "not_found"},
		{"GET", at + "/events?after=x", nil, 422, "invalid"},
	} {
		p := refused(t, n.do(tt.method, tt.path, request{body: tt.body}), tt.status, tt.code)
		if t.Failed() {
			t.Fatalf("%s %s %v: %+v", tt.method, tt.path, tt.body, p)
		}
		if tt.body == `{"from":"x"}` && !strings.Contains(p.Detail, "known are to") {
			t.Errorf("the known fields are not named: %s", p.Detail)
		}
	}
	if i := want[session.Info](t, n.do("GET", at+"?view=info", request{}), 200); i.Version != 1 {
		t.Errorf("%+v", i)
	}
	if page := want[struct{ Items []session.Info }](t, n.do("GET", "/v1/sessions", request{}), 200); len(page.Items) != 1 {
		t.Errorf("%+v", page)
	}
}

func TestMemory_valuesAndRecall(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	at := "/v1/sessions/" + n.create(request{}).ID
	key := at + "/memory/session/" + url.PathEscape("notes/one")
	put := n.do("PUT", key, request{body: `{"a":[1,2]}`, header: map[string]string{"If-Match": `"v0"`}})
	if e := want[struct{ Key string }](t, put, 200); e.Key != "notes/one" || put.header.Get("ETag") != `"v1"` {
		t.Errorf("%+v %v", e, put.header)
	}
	refused(t, n.do("PUT", key, request{body: `1`, header: map[string]string{"If-Match": `"v0"`}}), 409, "conflict_stale_entry")
	if e := want[struct{ Value json.RawMessage }](t, n.do("GET", key, request{}), 200); string(e.Value) != `{"a":[1,2]}` {
		t.Errorf("%s", e.Value)
	}
	if l := want[struct{ Items []any }](t, n.do("GET", at+"/memory/session?prefix=notes", request{}), 200); len(l.Items) != 1 {
		t.Errorf("%+v", l)
	}
	want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": "the zebra is striped"}}), 200)
	hits := want[struct{ Items []struct{ Text string } }](t, n.do("GET", at+"/recall?q=zebra&mode=keyword&threshold=0", request{}), 200)
	if len(hits.Items) == 0 || !strings.Contains(hits.Items[0].Text, "zebra") {
		t.Errorf("%+v", hits)
	}
	for _, deleted := range []bool{true, false} {
		if d := want[struct{ Deleted bool }](t, n.do("DELETE", key, request{}), 200); d.Deleted != deleted {
			t.Errorf("%+v", d)
		}
	}
	forget := request{body: map[string]any{"scope": "user", "owner": "nobody", "transcripts": true}}
	if got := want[memory.Forgotten](t, n.do("POST", "/v1/memory/forget", forget), 200); got != (memory.Forgotten{}) {
		t.Errorf("forgot %+v", got)
	}
	refused(t, n.do("POST", "/v1/memory/forget", request{body: map[string]any{"scope": "session", "owner": "x"}}), 422, "invalid")
}

func TestPending_aClientToolIsAnsweredOverHTTP(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(h *holdfast.Config, _ *server.Config) {
		h.Models = llm.Map{offline.Name: scripted.New(
			scripted.Reply{ToolCalls: []session.ToolCall{{ID: "1", Name: "clock", Arguments: []byte(`{}`)}}},
			scripted.Reply{Text: "it is noon"},
		)}
	})
	made := n.create(request{})
	at := "/v1/sessions/" + made.ID
	got := want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{
		"text": "what time is it?", "tools": []any{map[string]any{"name": "clock", "schema": map[string]any{"type": "object"}}},
	}}), 200)
	if got.Execution != "waiting" || len(got.Pending) != 1 || got.Pending[0].Tool != "clock" {
		t.Fatalf("%+v", got)
	}
	list := want[struct{ Items []holdfast.Pending }](t, n.do("GET", "/v1/pending?kind=chat", request{}), 200)
	if len(list.Items) != 1 || list.Items[0].Session.ID != made.ID {
		t.Fatalf("%+v", list)
	}
	call := at + "/pending/" + list.Items[0].ID
	want[holdfast.Pending](t, n.do("GET", call, request{}), 200)
	for range 2 { // the same response again changes nothing
		want[session.Info](t, n.do("POST", call, request{body: map[string]any{"action": "result", "text": "noon"}}), 202)
	}
	refused(t, n.do("POST", call, request{body: map[string]any{"action": "result", "text": "midnight"}}), 409, "responded")
	if got := want[turn](t, n.do("POST", at+"/continue", request{}), 200); got.Reply != "it is noon" {
		t.Errorf("%+v", got)
	}
}

func TestCatalogue_listsAgentsModelsAndTools(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(_ *holdfast.Config, s *server.Config) {
		s.Tools = func() []server.Tool { return []server.Tool{{Name: "clock"}} }
	})
	for path, name := range map[string]string{"/v1/agents": "echo", "/v1/models": "offline/echo", "/v1/tools": "clock"} {
		list := want[struct{ Items []struct{ Name string } }](t, n.do("GET", path, request{}), 200)
		if len(list.Items) != 1 || list.Items[0].Name != name {
			t.Errorf("%s: %+v", path, list)
		}
	}
	if def := want[session.Definition](t, n.do("GET", "/v1/agents/echo", request{}), 200); def.Label != "Echo" {
		t.Errorf("%+v", def)
	}
	refused(t, n.do("GET", "/v1/agents/none", request{}), 404, "not_found")
}

func TestSystem_healthAndInfo(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for _, path := range []string{"/livez", "/readyz", "/openapi.json"} {
		if r := n.do("GET", path, request{key: "-"}); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	info := want[struct {
		Version, Tenant string
		Scopes          []apikey.Scope
	}](t, n.do("GET", "/v1/system/info", request{}), 200)
	if info.Version != "test" || info.Tenant != "default" || len(info.Scopes) != 1 {
		t.Errorf("%+v", info)
	}
	n.server.Drain()
	refused(t, n.do("GET", "/readyz", request{key: "-"}), 503, "draining")
	want[session.Info](t, n.do("POST", "/v1/sessions", request{body: map[string]any{"agent": "echo"}}), 201) // requests go on
}

// The document in docs is the one that is served. HOLDFAST_UPDATE=1 writes it.
func TestDocument_isCommitted(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(_ *holdfast.Config, s *server.Config) { s.Version = "" })
	data, err := json.MarshalIndent(n.server.Document(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, '\n')
	path := filepath.Join("..", "docs", "openapi.json")
	if os.Getenv("HOLDFAST_UPDATE") != "" {
		if err := os.WriteFile(path, data, 0o644); err != nil { //nolint:gosec // a public document
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, data) {
		t.Errorf("%s is not what the server offers; run: HOLDFAST_UPDATE=1 go test ./server -run TestDocument", path)
	}
}

// The trace that a request belongs to is recorded with its turn.
func TestMessages_belongToTheTraceOfTheirRequest(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	chat := n.create(request{})
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for i, header := range []string{parent, "nonsense"} {
		want[turn](t, n.do("POST", "/v1/sessions/"+chat.ID+"/messages", request{body: map[string]any{"text": "hello"}, header: map[string]string{"Traceparent": header}}), 200)
		s, err := n.rt.Get(t.Context(), chat.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Execution().RootRequestID; (got == parent) != (i == 0) {
			t.Errorf("traceparent %q was recorded as %q", header, got)
		}
	}
}

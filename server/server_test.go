package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	nodes "github.com/holdfast-dev/holdfast/node"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// node is a server under test, on a real listener and a real SQLite file.
type node struct {
	t      testing.TB
	store  store.Store
	rt     *holdfast.Runtime
	keys   *apikey.Keys
	server *server.Server
	http   *httptest.Server
	schema *schemas
	admin  string
}

// agents are definitions by name.
type agents map[string]session.Definition

func (a agents) Get(name string) (session.Definition, error) {
	if def, ok := a[name]; ok {
		return def, nil
	}
	return session.Definition{}, &session.NotFoundError{What: "agent", ID: name, Available: a.Names()}
}

func (a agents) Names() []string {
	names := []string{}
	for name := range a {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func newNode(t testing.TB, adjust ...func(*holdfast.Config, *server.Config)) *node {
	t.Helper()
	st, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "test.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return newNodeOn(t, st, adjust...)
}

func newNodeOn(t testing.TB, st store.Store, adjust ...func(*holdfast.Config, *server.Config)) *node {
	t.Helper()
	hc := holdfast.Config{Store: st, Models: llm.Map{offline.Name: offline.Model{}}, DefaultModel: offline.Name}
	sc := server.Config{Agents: agents{"echo": {Name: "echo", Label: "Echo"}}, Models: func() []string { return []string{offline.Name} }, Version: "test"}
	for _, f := range adjust {
		f(&hc, &sc)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if hc.Address == ownAddress {
		hc.Address = "http://" + listener.Addr().String()
		sc.Address = hc.Address
	}
	rt, err := holdfast.New(hc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	n := &node{t: t, store: st, rt: rt, keys: apikey.New(rt, nil)}
	sc.Runtime, sc.Keys, sc.Schedules = rt, n.keys, schedule.New(rt, nil, nil)
	sc.Work, _ = st.(store.Work)
	sc.Nodes = nodes.New(rt, nil)
	if n.server, err = server.New(sc); err != nil {
		t.Fatal(err)
	}
	n.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: n.server, ReadHeaderTimeout: time.Minute}}
	n.http.Start()
	t.Cleanup(func() { n.server.Close(); n.http.Close() })
	n.schema = newSchemas(t, n.server)
	n.admin = n.key("default", apikey.Admin)
	return n
}

// key makes a key and returns its secret.
func (n *node) key(tenant string, scopes ...apikey.Scope) string {
	n.t.Helper()
	_, secret, err := n.keys.Create(context.Background(), apikey.Key{Tenant: tenant, Scopes: scopes}, "test")
	if err != nil {
		n.t.Fatal(err)
	}
	return secret
}

// reply is a response that was read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// request is a request to a node. The zero value of a field is left out.
type request struct {
	key    string // "": the administrator's; "-": none
	header map[string]string
	body   any // a string is sent as it is
}

// do sends a request and holds the response against the document.
func (n *node) do(method, path string, r request) reply {
	n.t.Helper()
	var body io.Reader
	switch b := r.body.(type) {
	case nil:
	case string:
		body = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			n.t.Fatal(err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, n.http.URL+path, body)
	if err != nil {
		n.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	switch r.key {
	case "":
		req.Header.Set("Authorization", "Bearer "+n.admin)
	case "-":
	default:
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	for name, value := range r.header {
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	got := reply{res.StatusCode, res.Header, data}
	n.schema.check(n.t, method, path, got)
	return got
}

// want reads a response of the given status.
func want[T any](t testing.TB, r reply, status int) T {
	t.Helper()
	var v T
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &v); err != nil {
			t.Fatalf("%v: %s", err, r.body)
		}
	}
	return v
}

// fault is the part of a problem that tests look at.
type fault struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Errors []struct{ Field, Reason string }
}

// refused checks that a request was refused with a problem.
func refused(t testing.TB, r reply, status int, code string) fault {
	t.Helper()
	p := want[fault](t, r, status)
	if p.Code != code || p.Status != status || p.Detail == "" || r.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s %+v, want code %s with a detail", r.header.Get("Content-Type"), p, code)
	}
	for _, inside := range []string{"json:", "Go struct", "Go value", "unmarshal"} { // of no use to a caller
		if strings.Contains(string(r.body), inside) {
			t.Errorf("the refusal says %q: %s", inside, r.body)
		}
	}
	return p
}

// create makes a session of the agent echo.
func (n *node) create(r request) session.Info {
	n.t.Helper()
	if r.body == nil {
		r.body = map[string]any{"agent": "echo"}
	}
	return want[session.Info](n.t, n.do("POST", "/v1/sessions", r), 201)
}

// schemas holds responses against the OpenAPI document.
type schemas struct {
	paths map[string]map[string]operation
	defs  map[string]json.RawMessage

	mu       sync.Mutex
	resolved map[string]*jsonschema.Resolved // guarded by mu
}

type operation struct {
	Responses map[string]struct {
		Content map[string]struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

func newSchemas(t testing.TB, s *server.Server) *schemas {
	t.Helper()
	data, err := json.Marshal(s.Document())
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.ReplaceAll(data, []byte("#/components/schemas/"), []byte("#/$defs/"))
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	return &schemas{paths: doc.Paths, defs: doc.Components.Schemas, resolved: map[string]*jsonschema.Resolved{}}
}

// check fails the test if a response is not as the document says.
func (s *schemas) check(t testing.TB, method, path string, r reply) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	var op operation
	for pattern, methods := range s.paths {
		if found, ok := methods[strings.ToLower(method)]; ok && matches(pattern, path) {
			op = found
		}
	}
	if op.Responses == nil || r.status == http.StatusNotModified {
		return // outside the document, or without a body
	}
	media, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	response, ok := op.Responses[strconv.Itoa(r.status)]
	if !ok {
		if r.status < 300 {
			t.Errorf("%s %s: the document has no response %d", method, path, r.status)
			return
		}
		response = op.Responses["default"]
	}
	content, ok := response.Content[media]
	if !ok {
		t.Errorf("%s %s: the document has no %s for %d", method, path, media, r.status)
		return
	}
	if strings.HasPrefix(media, "text/") { // events, or a plain text
		return
	}
	var v any
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return
	}
	if err := s.schema(t, content.Schema).Validate(v); err != nil {
		t.Errorf("%s %s: the response is not as the document says: %v\n%s", method, path, err, r.body)
	}
}

func (s *schemas) schema(t testing.TB, raw json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.resolved[string(raw)]; ok {
		return r
	}
	root := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	defs, err := json.Marshal(s.defs)
	if err != nil {
		t.Fatal(err)
	}
	root["$defs"] = defs
	data, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	r, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.resolved[string(raw)] = r
	return r
}

// matches reports whether a path fits a pattern of the document.
func matches(pattern, path string) bool {
	p, q := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(p) != len(q) {
		return false
	}
	for i := range p {
		if p[i] != q[i] && !strings.HasPrefix(p[i], "{") {
			return false
		}
	}
	return true
}

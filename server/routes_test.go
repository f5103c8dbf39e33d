package server_test

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// route is an operation of the document, with all that is needed to call it.
type route struct {
	method, path, id, scope string
	query                   url.Values
	body                    any // nil: none
}

// documented reads every operation of the document. Requests are made from the
// schemas, so that a new route is called without a change here.
func documented(n *node) []route {
	n.t.Helper()
	data, err := json.Marshal(n.server.Document())
	if err != nil {
		n.t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID, Description string
			Parameters               []struct {
				Name, In string
				Required bool
				Schema   schema
			}
			RequestBody *struct {
				Content map[string]struct{ Schema schema }
			}
		}
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		n.t.Fatal(err)
	}
	needs := regexp.MustCompile(`Needs the scope (\w+)\.`)
	var all []route
	for path, methods := range doc.Paths {
		for method, op := range methods {
			found := needs.FindStringSubmatch(op.Description)
			if found == nil {
				n.t.Errorf("%s does not say which scope it needs", op.OperationID)
				continue
			}
			r := route{method: strings.ToUpper(method), path: path, id: op.OperationID, scope: found[1], query: url.Values{}}
			for _, p := range op.Parameters {
				if p.Required && p.In == "query" {
					r.query.Set(p.Name, "1")
				}
			}
			if op.RequestBody != nil {
				for _, content := range op.RequestBody.Content {
					r.body = content.Schema.example(doc.Components.Schemas, 0)
				}
			}
			all = append(all, r)
		}
	}
	return all
}

// schema is the part of a JSON schema that examples are made of.
type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Enum       []any
	Required   []string
	Properties map[string]schema
	Items      *schema
	OneOf      []schema
	AnyOf      []schema
	MinItems   int
}

// example returns the smallest value that fits a schema.
func (s schema) example(defs map[string]schema, depth int) any {
	if depth > 20 {
		return nil
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return defs[name].example(defs, depth+1)
	}
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	if choices := slices.Concat(s.OneOf, s.AnyOf); len(choices) > 0 {
		return choices[0].example(defs, depth+1)
	}
	kind, _ := s.Type.(string)
	if kinds, ok := s.Type.([]any); ok && len(kinds) > 0 {
		kind, _ = kinds[0].(string)
	}
	switch kind {
	case "string":
		return "x"
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "array":
		if s.MinItems == 0 {
			return []any{}
		}
		return []any{s.Items.example(defs, depth+1)}
	case "object":
		o := map[string]any{}
		for _, name := range s.Required {
			o[name] = s.Properties[name].example(defs, depth+1)
		}
		return o
	}
	return map[string]any{}
}

// estate is what one tenant has: a chat with a pending call and a memory, a task,
// a run, a key and a schedule.
type estate struct {
	chat, task, run, pending, key, schedule string
}

const ownKey = "own-key"

func newEstate(n *node) estate {
	n.t.Helper()
	e := estate{}
	chat := n.create(request{})
	e.chat = chat.ID
	got := want[turn](n.t, n.do("POST", "/v1/sessions/"+chat.ID+"/messages", request{body: map[string]any{
		"text": "the secret zebra", "tools": []any{map[string]any{"name": "clock", "schema": map[string]any{"type": "object"}}},
	}}), 200)
	e.pending = got.Pending[0].ID
	want[struct{}](n.t, n.do("PUT", "/v1/sessions/"+chat.ID+"/memory/session/"+ownKey, request{body: `1`}), 200)
	x, err := task.New(n.rt, task.Config{Registry: toolset{}, Engine: permission.Engine{}})
	if err != nil {
		n.t.Fatal(err)
	}
	row, err := x.Create(n.t.Context(), task.Spec{Prompt: "secret", Plan: &session.Plan{Steps: []session.PlanStep{{Description: "secret"}}}})
	if err != nil {
		n.t.Fatal(err)
	}
	e.task = row.ID
	vars := spec.Map[string]{{Name: "topic", Value: "secret"}}
	parsed, err := spec.Loader{}.Parse(spec.Source{Path: "/secret.yaml", Data: []byte(chainSpec)}, vars)
	if err != nil {
		n.t.Fatal(err)
	}
	made, err := workflow.Create(n.t.Context(), n.rt, parsed, workflow.RunOptions{Host: workflow.Host{Env: spec.Env{Providers: []string{"offline"}}}, Vars: vars})
	if err != nil {
		n.t.Fatal(err)
	}
	e.run = made.ID()
	keys, err := n.keys.List(context.Background(), "default")
	if err != nil {
		n.t.Fatal(err)
	}
	e.key = keys[0].ID
	planned := want[schedule.Schedule](n.t, n.do("POST", "/v1/schedules", request{body: map[string]any{"cron": "@daily", "sessionId": e.chat, "text": "secret"}}), 201)
	e.schedule = planned.ID
	return e
}

// fill puts the names of things of the estate into the path of a route.
func (e estate) fill(r route) string {
	ref := e.chat
	switch {
	case strings.HasPrefix(r.path, "/v1/tasks/"):
		ref = e.task
	case strings.HasPrefix(r.path, "/v1/runs/"):
		ref = e.run
	}
	id := e.pending
	switch {
	case strings.HasPrefix(r.path, "/v1/keys/"):
		id = e.key
	case strings.HasPrefix(r.path, "/v1/schedules/"):
		id = e.schedule
	}
	path := strings.NewReplacer("{ref}", ref, "{name}", "ClearSession", "{id}", id, "{scope}", "session", "{key}", ownKey, "{version}", "1", "{format}", "dot").Replace(r.path)
	if r.id == "follow-topics" {
		r.query.Set("topics", "session:"+e.chat)
	}
	if len(r.query) > 0 {
		path += "?" + r.query.Encode()
	}
	return path
}

// standing is everything about the estate that a request could have changed.
func (e estate) standing(n *node) string {
	n.t.Helper()
	var b strings.Builder
	for _, id := range []string{e.chat, e.task, e.run} {
		s, err := n.rt.Get(n.t.Context(), id, holdfast.WithTail(), holdfast.Whole())
		if err != nil {
			n.t.Fatal(err)
		}
		items, err := n.rt.Inbox(n.t.Context(), id)
		if err != nil {
			n.t.Fatal(err)
		}
		data, err := json.Marshal([]any{s, s.Seq(), items})
		if err != nil {
			n.t.Fatal(err)
		}
		b.Write(append(data, '\n'))
	}
	b.Write(n.do("GET", "/v1/sessions/"+e.chat+"/memory/session", request{}).body)
	list := want[struct{ Items []struct{ ID string } }](n.t, n.do("GET", "/v1/keys", request{}), 200)
	b.WriteString(jsonText(n.t, list))
	b.Write(n.do("GET", "/v1/schedules/"+e.schedule, request{}).body)
	return b.String()
}

func jsonText(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func newEstateNode(t *testing.T, adjust ...func(*holdfast.Config, *server.Config)) (*node, estate) {
	t.Helper()
	n := newNode(t, append(adjust, working(inOrder(answer{calls: []session.ToolCall{{ID: "1", Name: "clock", Arguments: []byte(`{}`)}}})))...)
	return n, newEstate(n)
}

// Whoever asks with another tenant's key sees nothing and changes nothing, on
// every route of the document.
func TestRoutes_hideOtherTenants(t *testing.T) {
	t.Parallel()
	n, e := newEstateNode(t)
	e.hidden(n, n.key("other", apikey.Admin))
}

// hidden calls every route with the key of another tenant.
func (e estate) hidden(n *node, other string) {
	t := n.t
	t.Helper()
	before := e.standing(n)
	own := []string{e.chat, e.task, e.run, e.pending, e.key, e.schedule, ownKey, "secret"}
	named := 0
	for _, r := range documented(n) {
		path := e.fill(r)
		got := n.do(r.method, path, request{key: other, body: r.body})
		hides := strings.Contains(r.path, "{") && !strings.HasPrefix(r.path, "/v1/agents/") || r.id == "follow-topics"
		if hides {
			named++
			if p := refused(t, got, 404, "not_found"); t.Failed() {
				t.Fatalf("%s %s: %+v", r.method, path, p)
			}
		}
		for _, text := range own {
			asked := strings.Contains(path, text) // what the caller said may be said back
			if !asked && strings.Contains(string(got.body), text) {
				t.Errorf("%s %s shows %s of another tenant: %s", r.method, path, text, got.body)
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d routes name something", named)
	}
	if after := e.standing(n); after != before {
		t.Errorf("another tenant changed\n%s\nto\n%s", before, after)
	}
}

// Every route refuses a key without the scope that the document names.
func TestRoutes_needTheirScope(t *testing.T) {
	t.Parallel()
	n, e := newEstateNode(t)
	all := []apikey.Scope{apikey.Read, apikey.Write, apikey.Approve, apikey.Metrics}
	lacking := map[string]string{}
	for _, scope := range all {
		rest := slices.DeleteFunc(slices.Clone(all), func(s apikey.Scope) bool { return s == scope })
		lacking[string(scope)] = n.key("default", rest...)
	}
	lacking[string(apikey.Admin)] = n.key("default", all...)
	before := e.standing(n)
	for _, r := range documented(n) {
		key, ok := lacking[r.scope]
		if !ok {
			t.Fatalf("%s needs the scope %q, which is none", r.id, r.scope)
		}
		if refused(t, n.do(r.method, e.fill(r), request{key: key, body: r.body}), 403, "forbidden"); t.Failed() {
			t.Fatalf("%s %s", r.method, r.path)
		}
		refused(t, n.do(r.method, e.fill(r), request{key: "-", body: r.body}), 401, "unauthenticated")
	}
	if after := e.standing(n); after != before {
		t.Errorf("a refused request changed\n%s\nto\n%s", before, after)
	}
}

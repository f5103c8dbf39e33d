package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// Every request that changes something takes an idempotency key, or says in the
// document that repeating it changes nothing more.
func TestRoutes_canBeRepeated(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	data, err := json.Marshal(n.server.Document())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID, Description string
			Parameters               []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if method == "get" {
				continue
			}
			checked++
			keyed := strings.Contains(op.Description, "epeating it changes nothing more.")
			for _, p := range op.Parameters {
				keyed = keyed || p.In == "header" && p.Name == "Idempotency-Key"
			}
			if !keyed {
				t.Errorf("%s %s neither takes a key nor says that it can be repeated", method, path)
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d routes change something", checked)
	}
}

// twice sends a request, waits until what it began has ended, and sends it again:
// nothing is done and the response has the same status and names the same thing.
// Another request with the same key is refused.
func (n *node) twice(path, key string, body, other any, standing func() string) reply {
	n.t.Helper()
	keyed := func(body any) request {
		return request{body: body, header: map[string]string{"Idempotency-Key": key}}
	}
	first := n.do("POST", path, keyed(body))
	if first.status >= 300 {
		n.t.Fatalf("%s: %d %s", path, first.status, first.body)
	}
	before := standing()
	again := n.do("POST", path, keyed(body))
	if again.status >= 300 || again.header.Get("Location") != first.header.Get("Location") {
		n.t.Errorf("%s again: %d %v %s", path, again.status, again.header, again.body)
	}
	if other != nil {
		refused(n.t, n.do("POST", path, keyed(other)), 422, "conflict_key_reused")
	}
	if after := standing(); after != before {
		n.t.Errorf("%s again changed\n%s\nto\n%s", path, before, after)
	}
	return again
}

// logOf is everything about a session that a request could change.
func (n *node) logOf(id string) string {
	n.t.Helper()
	s, err := n.rt.Get(n.t.Context(), id, holdfast.WithTail())
	if err != nil {
		n.t.Fatal(err)
	}
	items, err := n.rt.Inbox(n.t.Context(), id)
	if err != nil {
		n.t.Fatal(err)
	}
	return jsonText(n.t, []any{s.Version(), s.Seq(), items})
}

func TestRepeat_tasks(t *testing.T) {
	t.Parallel()
	answers := []answer{}
	for range 10 {
		answers = append(answers, says("done"))
	}
	n := newNode(t, working(inOrder(answers...)))
	plan := map[string]any{"steps": []any{map[string]any{"description": "repair"}}}
	made := want[taskRow](t, n.do("POST", "/v1/tasks", request{body: map[string]any{"prompt": "repair", "plan": plan}}), 201)
	at := "/v1/tasks/" + made.ID
	ended := func() string {
		until(n, at, func(row taskRow) bool {
			_, held, err := n.rt.Holder(t.Context(), made.ID)
			return row.Status == "completed" && err == nil && !held
		})
		return n.logOf(made.ID)
	}
	ended()
	n.twice(at+"/retry", "again", nil, nil, ended)
	refused(t, n.do("POST", at+"/cancel", request{header: map[string]string{"Idempotency-Key": "again"}}), 422, "conflict_key_reused")
	now := func() string { return n.logOf(made.ID) }
	n.twice(at+"/messages", "note", map[string]any{"text": "also the hands"}, map[string]any{"text": "or not"}, now)
	n.twice(at+"/cancel", "stop", nil, nil, now)
	// Whoever takes a message writes its key.
	want[taskRow](t, n.do("POST", at+"/retry", request{header: map[string]string{"Idempotency-Key": "more"}}), 202)
	ended()
	n.twice(at+"/messages", "note", map[string]any{"text": "also the hands"}, map[string]any{"text": "or not"}, now)
}

func TestRepeat_tasksThatWait(t *testing.T) {
	t.Parallel()
	n := newNode(t, working(inOrder()))
	x, err := task.New(n.rt, task.Config{Registry: toolset{}, Engine: permission.Engine{}})
	if err != nil {
		t.Fatal(err)
	}
	for name, act := range map[string]struct{ body, other any }{
		"/wrap-up":  {},
		"/cancel":   {},
		"/feedback": {map[string]any{"stepId": "one", "action": "skip"}, map[string]any{"stepId": "one", "action": "retry"}},
	} {
		row, err := x.Create(t.Context(), task.Spec{Prompt: "wait", Plan: &session.Plan{Steps: []session.PlanStep{{ID: "one", Description: "wait"}}}}) // nobody works on it
		if err != nil {
			t.Fatal(err)
		}
		n.twice("/v1/tasks/"+row.ID+name, "k", act.body, act.other, func() string { return n.logOf(row.ID) })
	}
}

func TestRepeat_runs(t *testing.T) {
	t.Parallel()
	n := newNode(t, working(inOrder(says("one"), says("two"), says("three"), says("four"), says("five"))))
	body := map[string]any{"spec": chainSpec, "variables": map[string]string{"topic": "tea"}}
	made := want[runState](t, n.do("POST", "/v1/runs", request{body: body}), 201)
	at := "/v1/runs/" + made.Session.ID
	ended := func() string {
		until(n, at, func(s runState) bool {
			_, held, err := n.rt.Holder(t.Context(), made.Session.ID)
			return s.Status == "completed" && err == nil && !held
		})
		return n.logOf(made.Session.ID)
	}
	ended()
	n.twice(at+"/redo", "redo", map[string]any{"unit": "step/1"}, map[string]any{"unit": "step/0"}, ended)
	refused(t, n.do("POST", at+"/resume", request{header: map[string]string{"Idempotency-Key": "redo"}}), 422, "conflict_key_reused")
}

// A run that somebody works on takes the request from its inbox, and its key.
func TestRepeat_runsAtWork(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	n := newNode(t, working(waitingModel{asked}))
	made := want[runState](t, n.do("POST", "/v1/runs", request{body: map[string]any{"spec": chainSpec, "variables": map[string]string{"topic": "tea"}}}), 201)
	<-asked
	at := "/v1/runs/" + made.Session.ID
	n.twice(at+"/cancel", "stop", nil, nil, func() string {
		until(n, at, func(s runState) bool {
			_, held, err := n.rt.Holder(t.Context(), made.Session.ID)
			return s.Status == "cancelled" && err == nil && !held
		})
		return n.logOf(made.Session.ID)
	})
}

func TestRepeat_chats(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	n := newNode(t, working(waitingModel{asked}))
	chat := n.create(request{})
	at := "/v1/sessions/" + chat.ID
	want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": "wait"}, header: map[string]string{"Prefer": "respond-async"}}), 202)
	<-asked
	idle := func() string {
		until(n, at+"/lease", func(l struct{ Held bool }) bool { return !l.Held })
		return n.logOf(chat.ID)
	}
	n.twice(at+"/cancel", "stop", nil, nil, idle)
	refused(t, n.do("POST", at+"/cancel", request{}), 422, "nothing_to_do")
	n.twice(at+"/inbox", "later", map[string]any{"text": "later"}, map[string]any{"text": "sooner"}, idle)
	n.twice(at+"/actions/RenameSession", "name", map[string]any{"to": "trip"}, map[string]any{"to": "tour"}, idle)
	n.twice(at+"/rewind", "back", map[string]any{"to": 1}, map[string]any{"to": 2}, idle)
	n.twice(at+"/fork", "fork", map[string]any{"at": 1}, map[string]any{"at": 2}, idle)
}

// Keys and schedules are created once. The secret of a key is in the first
// response alone.
func TestRepeat_keysAndSchedules(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	keys := func() string {
		list, err := n.keys.List(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		return jsonText(t, list)
	}
	body := map[string]any{"label": "ci", "scopes": []string{"read"}}
	again := n.twice("/v1/keys", "k1", body, map[string]any{"label": "ci", "scopes": []string{"admin"}}, keys)
	if strings.Contains(string(again.body), "hf_") {
		t.Errorf("a repetition has the secret: %s", again.body)
	}
	made := want[struct{ ID, Secret string }](t, n.do("POST", "/v1/keys", request{body: body, header: map[string]string{"Idempotency-Key": "k2"}}), 201)
	want[struct{}](t, n.do("GET", "/v1/sessions", request{key: made.Secret}), 200)
	// The same key of another tenant is another request.
	if other := want[struct{ ID, Secret string }](t, n.do("POST", "/v1/keys", request{key: n.key("other", "admin"), body: body, header: map[string]string{"Idempotency-Key": "k2"}}), 201); other.ID == made.ID || other.Secret == "" {
		t.Errorf("%+v", other)
	}
	plan := map[string]any{"cron": "@daily", "agent": "echo", "text": "news", "label": "daily"}
	all := func() string { return string(n.do("GET", "/v1/schedules", request{}).body) }
	again = n.twice("/v1/schedules", "s1", plan, map[string]any{"cron": "@daily", "agent": "echo", "text": "news", "label": "nightly"}, all)
	first := want[schedule.Schedule](t, again, 201)
	// A repetition that comes after the end brings nothing back.
	want[struct{}](t, n.do("DELETE", "/v1/schedules/"+first.ID, request{}), 200)
	n.twice("/v1/schedules", "s1", plan, nil, all)
	if !strings.Contains(all(), `"items":[]`) {
		t.Error(all())
	}
	plan["id"] = "mine"
	want[struct{}](t, n.do("POST", "/v1/schedules", request{body: plan}), 201)
	if p := refused(t, n.do("POST", "/v1/schedules", request{body: plan}), 409, "conflict_exists"); !strings.Contains(p.Detail, `schedule "mine" already exists`) {
		t.Errorf("%+v", p)
	}
}

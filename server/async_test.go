package server_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

func withModel(m llm.Model) func(*holdfast.Config, *server.Config) {
	return func(h *holdfast.Config, _ *server.Config) { h.Models = llm.Map{offline.Name: m} }
}

// With Prefer: respond-async the response comes when the message is saved, and
// the answer although the caller is gone.
func TestAsync_theAnswerComesAfterTheResponse(t *testing.T) {
	t.Parallel()
	model := newGate("late")
	n := newNode(t, withModel(model))
	at := "/v1/sessions/" + n.create(request{}).ID
	async := map[string]string{"Prefer": "wait=1, respond-async", "Idempotency-Key": "k"}
	r := n.do("POST", at+"/messages", request{body: map[string]any{"text": "hello"}, header: async})
	got := want[turn](t, r, 202)
	if got.Reply != "" || r.header.Get("Location") != at || r.header.Get("Preference-Applied") != "respond-async" {
		t.Errorf("%+v %v", got, r.header)
	}
	<-model.asked
	close(model.pass)
	until(n, at+"?view=info", func(i session.Info) bool { return i.Version == 2 })
	again := want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": "hello"}, header: async}), 200)
	if again.Reply != "late" || again.Session.Version != 2 {
		t.Errorf("%+v", again)
	}
	refused(t, n.do("POST", at+"/messages", request{body: map[string]any{"text": " "}, header: map[string]string{"Prefer": "respond-async"}}), 422, "invalid")
	refused(t, n.do("POST", at+"/continue", request{header: map[string]string{"Prefer": "respond-async"}}), 422, "nothing_to_do")
}

func TestAsync_retry(t *testing.T) {
	t.Parallel()
	n := newNode(t, withModel(scripted.New(scripted.Reply{Err: errors.New("no")}, scripted.Reply{Text: "yes"})))
	at := "/v1/sessions/" + n.create(request{}).ID
	want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": "hello"}}), 200)
	if r := n.do("POST", at+"/retry", request{header: map[string]string{"Prefer": "respond-async"}}); r.status != 202 && r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	until(n, at+"?view=info", func(i session.Info) bool { return i.Version == 3 })
}

func TestStats_groupsWhatSessionsUsed(t *testing.T) {
	t.Parallel()
	usage := session.Usage{Input: 10, Output: 5}
	now := time.Now() // it does not become another day meanwhile
	n := newNode(t, withModel(scripted.New(scripted.Reply{Text: "a", Usage: usage, Cost: session.Dollars(1)}, scripted.Reply{Text: "b", Usage: usage, Cost: session.Dollars(1)})),
		func(h *holdfast.Config, _ *server.Config) { h.Now = func() time.Time { return now } })
	for range 2 {
		at := "/v1/sessions/" + n.create(request{}).ID
		want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": "hello"}}), 200)
	}
	n.create(request{body: map[string]any{"definition": map[string]any{"name": "idle"}}})
	type groups struct {
		Items []struct {
			Group             string
			Sessions, Answers int
			Usage             session.Usage
			Cost              float64
		}
	}
	for group, want1 := range map[string]string{"": now.UTC().Format(time.DateOnly), "agent": "echo", "model": offline.Name, "user": ""} {
		got := want[groups](t, n.do("GET", "/v1/stats?group="+cmp.Or(group, "day"), request{}), 200).Items
		if len(got) != 1 || got[0].Group != want1 || got[0].Sessions != 2 || got[0].Answers != 2 || got[0].Usage.Input != 20 || got[0].Cost != 2 {
			t.Errorf("by %s: %+v", group, got)
		}
	}
	if got := want[groups](t, n.do("GET", "/v1/stats?group=session", request{}), 200); len(got.Items) != 2 || got.Items[1].Cost != 1 {
		t.Errorf("%+v", got)
	}
	if got := want[groups](t, n.do("GET", "/v1/stats?from=2100-01-01T00:00:00Z", request{}), 200); len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
	refused(t, n.do("GET", "/v1/stats?group=colour", request{}), 422, "invalid")
}

func TestHistory_aVersionAndTheInbox(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	at := "/v1/sessions/" + n.create(request{}).ID
	keyed := request{body: map[string]any{"text": "later"}, header: map[string]string{"Idempotency-Key": "k"}}
	first, second := want[struct{ ID string }](t, n.do("POST", at+"/inbox", keyed), 202), want[struct{ ID string }](t, n.do("POST", at+"/inbox", keyed), 202)
	list := want[struct{ Items []struct{ ID string } }](t, n.do("GET", at+"/inbox", request{}), 200)
	if first != second || len(list.Items) != 1 || list.Items[0].ID != first.ID {
		t.Errorf("%+v %+v %+v", first, second, list)
	}
	want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": "now"}}), 200)
	r := n.do("GET", at+"/versions/1", request{})
	if want[struct{}](t, r, 200); r.header.Get("ETag") != `"v1"` || !strings.Contains(r.header.Get("Cache-Control"), "immutable") {
		t.Errorf("%v", r.header)
	}
	refused(t, n.do("GET", at+"/versions/99", request{}), 422, "invalid")
	messages := want[struct{ Messages []session.Message }](t, n.do("GET", at+"/messages", request{}), 200)
	if len(messages.Messages) != 3 || !strings.Contains(messages.Messages[0].Content.Text(), "later") {
		t.Errorf("the message in the inbox was not answered: %+v", messages)
	}
}

func TestRuns_graph(t *testing.T) {
	t.Parallel()
	n, e := newEstateNode(t)
	g := want[workflow.Graph](t, n.do("GET", "/v1/runs/"+e.run+"/graph", request{}), 200)
	if len(g.Nodes) != 2 || len(g.Edges) != 1 || g.Nodes[0].Y == g.Nodes[1].Y && g.Nodes[0].X == g.Nodes[1].X {
		t.Errorf("%+v", g)
	}
	for format, begin := range map[string]string{"mermaid": "flowchart LR\n", "dot": "digraph {\n"} {
		r := n.do("GET", "/v1/runs/"+e.run+"/graph/"+format, request{})
		if r.status != 200 || !strings.HasPrefix(string(r.body), begin) || !strings.Contains(string(r.body), g.Nodes[1].Label) || r.header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %d %v %s", format, r.status, r.header, r.body)
		}
	}
	refused(t, n.do("GET", "/v1/runs/"+e.run+"/graph/png", request{}), 422, "invalid")
}

// modelGate is a model that answers when it is let through.
type modelGate struct {
	text        string
	asked, pass chan struct{}
}

func newGate(text string) *modelGate {
	return &modelGate{text: text, asked: make(chan struct{}, 10), pass: make(chan struct{})}
}

func (m *modelGate) Infer(ctx context.Context, _ llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	m.asked <- struct{}{}
	select {
	case <-m.pass:
		return llm.Response{Content: session.Text(m.text)}, nil
	case <-ctx.Done():
		return llm.Response{}, ctx.Err()
	}
}

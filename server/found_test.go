package server_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
)

type foundPage struct {
	Items []struct {
		Session session.Info
		Seq     int64
		Text    string
	}
}

func TestSearch_findsMessagesOfAllSessions(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	say := func(text, key string) string {
		id := n.create(request{key: key}).ID
		want[turn](t, n.do("POST", "/v1/sessions/"+id+"/messages", request{key: key, body: map[string]any{"text": text}}), 200)
		return id
	}
	other := n.key("other", "admin")
	long := strings.Repeat("é many words before. ", 100) + "The Hotel is in Naples. " + strings.Repeat("And many after. ", 100)
	say("a train to Rome", "")
	hotel := say(long, "")
	say("a hotel in Naples of another tenant", other)
	find := func(q string) foundPage {
		t.Helper()
		return want[foundPage](t, n.do("GET", "/v1/search?q="+url.QueryEscape(q), request{}), 200)
	}
	found := find("naples HOTEL").Items
	if len(found) != 1 {
		t.Fatalf("%d found: %+v", len(found), found)
	}
	for _, f := range found {
		if f.Session.ID != hotel || f.Seq == 0 || !strings.Contains(f.Text, "The Hotel is in Naples") || len(f.Text) > 320 || !strings.HasPrefix(f.Text, "…") || !strings.HasSuffix(f.Text, "…") {
			t.Errorf("%+v", f)
		}
	}
	for _, q := range []string{"naples rome", "nowhere", "!?"} {
		if found := find(q).Items; len(found) != 0 {
			t.Errorf("%s: %+v", q, found)
		}
	}
	// Newer messages of other sessions do not hide those of the sessions that are meant.
	wanted := n.create(request{body: map[string]any{"definition": map[string]any{"name": "guide"}}}).ID
	want[turn](t, n.do("POST", "/v1/sessions/"+wanted+"/messages", request{body: map[string]any{"text": "a museum"}}), 200)
	crowd := n.create(request{}).ID
	for range 25 {
		want[turn](t, n.do("POST", "/v1/sessions/"+crowd+"/messages", request{body: map[string]any{"text": "a museum"}}), 200)
	}
	few := want[foundPage](t, n.do("GET", "/v1/search?q=museum&agent=guide&kind=chat&status=active", request{}), 200).Items
	if len(few) == 0 {
		t.Error("nothing is found in the session of the agent guide")
	}
	for _, f := range few {
		if f.Session.ID != wanted {
			t.Errorf("%+v", f)
		}
	}
	if found := want[foundPage](t, n.do("GET", "/v1/search?q=museum&kind=task", request{}), 200).Items; len(found) != 0 {
		t.Errorf("%+v", found)
	}
	refused(t, n.do("GET", "/v1/search?q=museum&status=happy", request{}), 422, "invalid")
	want[struct{}](t, n.do("DELETE", "/v1/sessions/"+hotel, request{}), 200)
	if found := find("naples"); len(found.Items) != 0 {
		t.Errorf("a deleted session is found: %+v", found)
	}
	refused(t, n.do("GET", "/v1/search?q=", request{}), 422, "invalid")
}

func TestSessionStats_costAndHolder(t *testing.T) {
	t.Parallel()
	n := newNode(t, withModel(scripted.New(scripted.Reply{Text: "a", Usage: session.Usage{Input: 10, Output: 5}, Cost: session.Dollars(1)})))
	spent, idle := n.create(request{}).ID, n.create(request{}).ID
	theirs := n.create(request{key: n.key("other", "admin")}).ID
	want[turn](t, n.do("POST", "/v1/sessions/"+spent+"/messages", request{body: map[string]any{"text": "hello"}}), 200)
	type stats struct {
		Items []struct {
			SessionID string
			Usage     *session.Usage
			Cost      *float64
			Holder    string
		}
	}
	path := "/v1/stats/sessions?id=" + spent + "&id=" + idle + "&id=nobody&id=" + theirs
	got := want[stats](t, n.do("GET", path, request{}), 200).Items
	if len(got) != 2 || got[0].SessionID != spent || *got[0].Cost != 1 || got[0].Usage.Input != 10 || got[1].SessionID != idle || *got[1].Cost != 0 {
		t.Fatalf("%+v", got)
	}
	if got[0].Holder != "" || got[1].Holder != "" {
		t.Errorf("nobody works on them: %+v", got)
	}
	err := n.rt.Hold(t.Context(), idle, func(context.Context, *holdfast.Hold) error {
		got = want[stats](t, n.do("GET", path+"&holders=true", request{}), 200).Items //nolint:contextcheck // requests of tests have their own
		return nil
	})
	if err != nil || len(got) < 2 || got[1].Holder == "" || got[0].Holder != "" || got[1].Cost != nil {
		t.Errorf("%v, %+v", err, got)
	}
	refused(t, n.do("GET", "/v1/stats/sessions", request{}), 422, "invalid")
}

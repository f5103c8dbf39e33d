package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

type itemsPage struct {
	Items []projector.Item
	Seq   int64
	Total int
	More  bool
}

// thinker answers with reasoning before the text: two items of one change.
type thinker struct{}

func (thinker) Infer(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
	return llm.Response{Content: session.Content{{Type: session.PartReasoning, Text: "hm"}, {Type: session.PartText, Text: "yes"}}, FinishReason: "stop"}, nil
}

func (thinker) Cost(session.Usage) session.Cost { return 0 }

func TestItems_pagesFromTheEnd(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(c *holdfast.Config, _ *server.Config) { c.Models = llm.Map{offline.Name: thinker{}} })
	at := "/v1/sessions/" + n.create(request{}).ID
	for i := range 4 {
		want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": fmt.Sprint("message ", i)}}), 200)
	}
	all := want[itemsPage](t, n.do("GET", at+"/items", request{}), 200)
	if all.More || all.Total != len(all.Items) || all.Total < 12 || all.Seq == 0 {
		t.Fatalf("%d of %d items to %d", len(all.Items), all.Total, all.Seq)
	}
	// Pages of any size are all items, without a gap or a repetition.
	for _, limit := range []int{1, 3, 5} {
		var read []projector.Item
		for before := int64(0); ; {
			page := want[itemsPage](t, n.do("GET", fmt.Sprintf("%s/items?limit=%d&before=%d", at, limit, before), request{}), 200)
			read = append(slices.Clone(page.Items), read...)
			if !page.More {
				break
			}
			before = page.Items[0].Seq
		}
		if len(read) != all.Total {
			t.Errorf("limit %d: %d items, want %d", limit, len(read), all.Total)
		}
		for i := range read {
			if read[i].ID != all.Items[i].ID {
				t.Fatalf("limit %d: item %d is %s, want %s", limit, i, read[i].ID, all.Items[i].ID)
			}
		}
	}
	first := want[itemsPage](t, n.do("GET", at+"/items?version=1", request{}), 200)
	if len(first.Items) != 1 || first.Items[0].Status == nil || first.Items[0].Status.Event != "session_created" {
		t.Errorf("version 1 has %+v", first.Items)
	}
	refused(t, n.do("GET", "/v1/sessions/nobody/items", request{}), 404, "not_found")
}

// Whoever reads the items and then follows from there has the items that are
// read later.
func TestTopics_itemsContinueWhereTheyWereRead(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.create(request{}).ID
	at := "/v1/sessions/" + id
	send := func(text string) {
		want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": text}}), 200)
	}
	send("one")
	page := want[itemsPage](t, n.do("GET", at+"/items", request{}), 200)
	have := map[string]projector.Item{}
	for _, i := range page.Items {
		have[i.ID] = i
	}
	l := n.listen(fmt.Sprintf("/v1/events?topics=items:%s:%d", id, page.Seq), nil)
	l.until("caught-up")
	send("two")
	send("three")
	target := want[itemsPage](t, n.do("GET", at+"/items", request{}), 200)
	for seq := page.Seq; seq < target.Seq; {
		e, ok := l.next()
		if !ok {
			t.Fatalf("the stream ended at %d", seq)
		}
		if e.name != "items" {
			continue
		}
		var data struct {
			Session string
			Seq     int64
			Changes []projector.Change
		}
		if err := json.Unmarshal([]byte(e.data), &data); err != nil || data.Session != id {
			t.Fatalf("%v: %s", err, e.data)
		}
		if data.Seq != 0 {
			if data.Seq != seq+1 || e.id != fmt.Sprintf("%s:%d", id, data.Seq) {
				t.Fatalf("%s follows %d", e.id, seq)
			}
			seq = data.Seq
		}
		for _, c := range data.Changes {
			switch c.Op {
			case projector.Withdrawn:
				delete(have, c.Item.ID)
			case projector.Grew: // the whole comes when it is finished
			default:
				have[c.Item.ID] = c.Item
			}
		}
	}
	if len(have) != target.Total {
		t.Errorf("followed to %d items, there are %d", len(have), target.Total)
	}
	for _, i := range target.Items {
		if followed := have[i.ID]; !reflect.DeepEqual(followed, i) {
			t.Errorf("followed %+v, read %+v", followed, i)
		}
	}
	refused(t, n.do("GET", "/v1/events?topics=items:", request{}), 422, "invalid")
	refused(t, n.do("GET", "/v1/events?topics=items:nobody", request{}), 404, "not_found")
}

func TestList_words(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for i := range 7 {
		n.create(request{body: map[string]any{"agent": "echo", "id": fmt.Sprintf("trip-%d", i), "name": fmt.Sprintf("Journey to Rome %d", i)}})
	}
	n.create(request{body: map[string]any{"agent": "echo", "id": "other", "name": "Tax"}})
	for words, count := range map[string]int{"rome": 7, "ROME journey": 7, "rome tax": 0, "trip-3": 1, "echo": 8, "%20": 8, "tax": 1, "%25": 0} {
		page := want[store.Page](t, n.do("GET", "/v1/sessions?words="+strings.ReplaceAll(words, " ", "%20"), request{}), 200)
		if len(page.Items) != count || page.Next != "" {
			t.Errorf("%q finds %d sessions, want %d", words, len(page.Items), count)
		}
	}
	seen := map[string]bool{}
	for cursor := ""; ; {
		page := want[store.Page](t, n.do("GET", "/v1/sessions?words=rome&limit=2&cursor="+cursor, request{}), 200)
		if len(page.Items) > 2 {
			t.Fatalf("%d sessions on a page of 2", len(page.Items))
		}
		for _, i := range page.Items {
			if seen[i.ID] {
				t.Errorf("%s comes twice", i.ID)
			}
			seen[i.ID] = true
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(seen) != 7 {
		t.Errorf("pages have %d sessions, want 7", len(seen))
	}
}

func TestItems_versionOfAFork(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	at := "/v1/sessions/" + n.create(request{}).ID
	for i := range 3 {
		want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": fmt.Sprint("message ", i)}}), 200)
	}
	whole := want[itemsPage](t, n.do("GET", at+"/items?version=4", request{}), 200)
	fork := want[session.Info](t, n.do("POST", at+"/fork", request{}), 201)
	// Version 1 of the fork has all that versions 1 to 4 of its parent have.
	got := want[itemsPage](t, n.do("GET", "/v1/sessions/"+fork.ID+"/items?version=1", request{}), 200)
	if got.Total < whole.Total || whole.Total < 6 || got.Seq != fork.Seq {
		t.Errorf("%d items up to %d, want %d up to %d", got.Total, got.Seq, whole.Total, fork.Seq)
	}
	refused(t, n.do("GET", at+"/items?version=99", request{}), 422, "invalid")
}

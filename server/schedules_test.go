package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/worker"
)

func TestSchedules_areCreatedPausedAndDeleted(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	chat := n.create(request{})
	body := map[string]any{"cron": "0 7 * * mon-fri", "zone": "Europe/Berlin", "sessionId": chat.ID, "text": "good morning"}
	keyed := request{body: body, header: map[string]string{"Idempotency-Key": "k1"}}
	made := want[schedule.Schedule](t, n.do("POST", "/v1/schedules", keyed), 201)
	if again := want[schedule.Schedule](t, n.do("POST", "/v1/schedules", keyed), 201); again.ID != made.ID {
		t.Errorf("the same key made %s and %s", made.ID, again.ID)
	}
	other := map[string]any{"cron": "@daily", "agent": "echo", "text": "good morning"}
	refused(t, n.do("POST", "/v1/schedules", request{body: other, header: keyed.header}), 422, "conflict_key_reused")
	if fresh := want[schedule.Schedule](t, n.do("POST", "/v1/schedules", request{body: other}), 201); fresh.Agent == nil || fresh.Agent.Name != "echo" {
		t.Errorf("%+v", fresh)
	}
	list := want[struct{ Items []schedule.Schedule }](t, n.do("GET", "/v1/schedules", request{}), 200)
	if len(list.Items) != 2 {
		t.Errorf("%+v", list)
	}
	path := "/v1/schedules/" + made.ID
	if got := want[schedule.Schedule](t, n.do("POST", path+"/pause", request{}), 200); !got.Paused {
		t.Errorf("%+v", got)
	}
	if got := want[schedule.Schedule](t, n.do("POST", path+"/resume", request{}), 200); got.Paused || got.Next.IsZero() {
		t.Errorf("%+v", got)
	}
	if got := n.do("DELETE", path, request{}); got.status != 200 {
		t.Errorf("delete: %d %s", got.status, got.body)
	}
	refused(t, n.do("GET", path, request{}), 404, "not_found")
	for _, bad := range []map[string]any{
		{"cron": "never", "agent": "echo", "text": "x"},
		{"cron": "@daily", "text": "x"},
		{"cron": "@daily", "agent": "echo", "text": " "},
		{"cron": "@daily", "agent": "echo", "text": "x", "zone": "Nowhere"},
	} {
		refused(t, n.do("POST", "/v1/schedules", request{body: bad}), 422, "invalid")
	}
	p := refused(t, n.do("POST", "/v1/schedules", request{body: map[string]any{"cron": "never", "agent": "echo", "text": " ", "zone": "Nowhere"}}), 422, "invalid")
	if fields := fmt.Sprint(p.Errors); strings.Count(fields, "{") != 3 || !strings.Contains(fields, "text") || !strings.Contains(fields, "zone") || !strings.Contains(fields, "cron") {
		t.Errorf("not everything is listed: %+v", p)
	}
}

// What waits is counted, for programs and for Prometheus.
func TestWork_isCounted(t *testing.T) {
	t.Parallel()
	n := newNode(t, withLoads)
	chat := n.create(request{})
	message, err := session.JSON(session.Message{ID: "m", Content: session.Text("hello")})
	if err != nil {
		t.Fatal(err)
	}
	n.post(chat.ID, message)
	type counts struct {
		Waiting []struct {
			Kind  session.Kind
			Count int
		}
		Loads []worker.Load
	}
	got := want[counts](t, n.do("GET", "/v1/system/work", request{}), 200)
	if len(got.Waiting) != 3 || got.Waiting[0].Kind != session.KindChat || got.Waiting[0].Count != 1 || got.Waiting[1].Count != 0 {
		t.Errorf("%+v", got)
	}
	if len(got.Loads) != 1 || got.Loads[0].Slots != 5 {
		t.Errorf("%+v", got.Loads)
	}
	text := string(n.do("GET", "/metrics", request{key: n.key("default", apikey.Metrics)}).body)
	for _, line := range []string{`holdfast_work_waiting{kind="chat"} 1`, `holdfast_work_waiting{kind="task"} 0`, `holdfast_slots{kind="chat",state="free"} 3`, `holdfast_slots{kind="chat",state="busy"} 2`} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
}

// withLoads has a node show how busy a worker is.
func withLoads(_ *holdfast.Config, c *server.Config) {
	c.Loads = func() []worker.Load { return []worker.Load{{Kind: session.KindChat, Slots: 5, Running: 2}} }
}

// post leaves a message in the inbox of a session.
func (n *node) post(id string, message []byte) {
	n.t.Helper()
	item := store.Item{ID: "i", Kind: store.ItemFollowUp, Payload: session.Values{"message": message}}
	if _, err := n.rt.Post(n.t.Context(), id, item); err != nil {
		n.t.Fatal(err)
	}
}

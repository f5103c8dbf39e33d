package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
)

// event is one server-sent event.
type event struct {
	name, id string
	data     string
}

// listener reads the events of a session.
type listener struct {
	t     testing.TB
	lines *bufio.Scanner
	close func()
}

// pausing is a model that waits in the middle of its answer.
type pausing struct{ resume chan struct{} }

func (m *pausing) Infer(ctx context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	emit(llm.Delta{Text: "hel"})
	select {
	case <-m.resume:
	case <-ctx.Done():
		return llm.Response{}, ctx.Err()
	}
	emit(llm.Delta{Text: "lo"})
	return llm.Response{Content: session.Text("hello"), FinishReason: "stop"}, nil
}

// patience is how long a test waits for something that must happen.
const patience = time.Minute

func (n *node) listen(path string, header map[string]string) *listener {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.http.URL+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.admin)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	stop := func() { cancel(); _ = res.Body.Close() }
	n.t.Cleanup(stop)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		n.t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	return &listener{n.t, lines, stop}
}

// next returns the next event, false at the end of the stream.
func (l *listener) next() (event, bool) {
	var e event
	for l.lines.Scan() {
		line := l.lines.Text()
		switch name, value, _ := strings.Cut(line, ": "); {
		case line == "" && e.name != "":
			return e, true
		case name == "event":
			e.name = value
		case name == "id":
			e.id = value
		case name == "data":
			e.data = value
		}
	}
	return e, false
}

// until reads events up to one of this name.
func (l *listener) until(name string) []event {
	l.t.Helper()
	var all []event
	for {
		e, ok := l.next()
		if !ok {
			l.t.Fatalf("the stream ended before %s, after %+v", name, all)
		}
		all = append(all, e)
		if e.name == name {
			return all
		}
	}
}

// seqs returns the numbers of the records among events, which must have no gap.
func seqs(t *testing.T, after int, events []event) int {
	t.Helper()
	for _, e := range events {
		if e.name != "record" {
			if e.id != "" {
				t.Errorf("%s has an id", e.name)
			}
			continue
		}
		var r session.LogEntry
		if err := json.Unmarshal([]byte(e.data), &r); err != nil {
			t.Fatal(err)
		}
		if after++; e.id != strconv.Itoa(after) || r.Seq != int64(after) {
			t.Fatalf("record %s (%d) follows %d", e.id, r.Seq, after-1)
		}
	}
	return after
}

func TestEvents_replayThenLiveWithoutGapsOrRepeats(t *testing.T) {
	t.Parallel()
	model := &pausing{resume: make(chan struct{})}
	n := newNode(t, func(h *holdfast.Config, _ *server.Config) { h.Models = llm.Map{offline.Name: model} })
	at := "/v1/sessions/" + n.create(request{}).ID
	send := func(text string) turn {
		return want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": text}}), 200)
	}
	go func() { model.resume <- struct{}{} }()
	send("one")
	l := n.listen(at+"/events", nil)
	last := seqs(t, 0, l.until("caught-up"))
	answered := make(chan turn)
	go func() { answered <- send("two") }()
	live := l.until("delta") // a word is there while the model still answers
	if !strings.Contains(live[len(live)-1].data, `"text":"hel"`) {
		t.Errorf("%+v", live)
	}
	model.resume <- struct{}{}
	got := <-answered
	for end := seqs(t, last, live); int64(end) < got.Session.Seq; {
		live = append(live, l.until("record")...)
		end = seqs(t, last, live)
	}
	l.close()

	middle := last - 2
	again := n.listen(at+"/events", map[string]string{"Last-Event-ID": strconv.Itoa(middle)})
	if end := seqs(t, middle, again.until("caught-up")); int64(end) != got.Session.Seq {
		t.Errorf("replayed up to %d, want %d", end, got.Session.Seq)
	}
	if e := n.listen(at+"/events?after="+strconv.FormatInt(got.Session.Seq, 10), nil).until("caught-up"); len(e) != 1 {
		t.Errorf("%+v", e)
	}
}

func TestEvents_aDrainingServerSaysSo(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	at := "/v1/sessions/" + n.create(request{}).ID
	l := n.listen(at+"/events", nil)
	l.until("caught-up")
	n.server.Drain()
	if e := l.until("gone"); !strings.Contains(e[len(e)-1].data, "draining") {
		t.Errorf("%+v", e)
	}
	if e, ok := l.next(); ok {
		t.Errorf("%+v after gone", e)
	}
	refused(t, n.do("GET", at+"/events", request{}), 503, "draining")
}

func TestEvents_aPurgedSessionIsGone(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	at := "/v1/sessions/" + n.create(request{}).ID
	l := n.listen(at+"/events", nil)
	l.until("caught-up")
	want[session.Info](t, n.do("DELETE", at+"?purge=true", request{}), 200)
	if e := l.until("gone"); !strings.Contains(e[len(e)-1].data, "not_found") {
		t.Errorf("%+v", e)
	}
}

func TestEvents_streamsPerKeyAreLimited(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(_ *holdfast.Config, s *server.Config) { s.MaxStreams = 2 })
	at := "/v1/sessions/" + n.create(request{}).ID
	first := n.listen(at+"/events", nil)
	n.listen(at+"/events", nil)
	refused(t, n.do("GET", at+"/events", request{}), 429, "rate_limited")
	first.close()
	for begun := time.Now(); ; { // the place is free once the server has noticed
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.http.URL+at+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+n.admin)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		cancel()
		if res.StatusCode == http.StatusOK {
			return
		}
		if time.Since(begun) > patience {
			t.Fatal("the place of a closed stream is never free again")
		}
	}
}

func TestEvents_heartbeats(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(_ *holdfast.Config, s *server.Config) { s.Heartbeat = time.Millisecond })
	l := n.listen("/v1/sessions/"+n.create(request{}).ID+"/events", nil)
	for l.lines.Scan() {
		if strings.HasPrefix(l.lines.Text(), ":") {
			return
		}
	}
	t.Error("the stream ended without a heartbeat")
}

func TestTopics_oneStreamForAPage(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	a, b := n.create(request{}), n.create(request{})
	l := n.listen("/v1/events?topics=sessions,session:"+a.ID+",session:"+b.ID+":1", nil)
	want[turn](t, n.do("POST", "/v1/sessions/"+a.ID+"/messages", request{body: map[string]any{"text": "hello"}}), 200)
	want[turn](t, n.do("POST", "/v1/sessions/"+b.ID+"/actions/RenameSession", request{body: map[string]any{"to": "b"}}), 200)
	made := n.create(request{})
	last, listed := map[string]int64{b.ID: 1}, map[string]int64{}
	for last[a.ID] < 5 || last[b.ID] < 2 || listed[a.ID] < 2 || listed[b.ID] < 2 || listed[made.ID] < 1 {
		e, ok := l.next()
		if !ok {
			t.Fatalf("the stream ended: %v %v", last, listed)
		}
		switch e.name {
		case "record":
			var data struct {
				Session string
				Record  session.LogEntry
			}
			if err := json.Unmarshal([]byte(e.data), &data); err != nil {
				t.Fatal(err)
			}
			if data.Record.Seq != last[data.Session]+1 || e.id != data.Session+":"+strconv.FormatInt(data.Record.Seq, 10) {
				t.Fatalf("%s follows %d", e.id, last[data.Session])
			}
			last[data.Session] = data.Record.Seq
		case "session":
			var i session.Info
			if err := json.Unmarshal([]byte(e.data), &i); err != nil {
				t.Fatal(err)
			}
			if i.Version <= listed[i.ID] {
				t.Errorf("version %d of %s came after %d", i.Version, i.ID, listed[i.ID])
			}
			listed[i.ID] = i.Version
		}
	}
	// The end of one session does not end the stream.
	want[session.Info](t, n.do("DELETE", "/v1/sessions/"+a.ID+"?purge=true", request{}), 200)
	if e := l.until("gone"); !strings.Contains(e[len(e)-1].data, a.ID) {
		t.Errorf("%+v", e)
	}
	want[turn](t, n.do("POST", "/v1/sessions/"+b.ID+"/actions/RenameSession", request{body: map[string]any{"to": "c"}}), 200)
	l.until("record")
	for _, topics := range []string{"", "world", "session:", "session:" + b.ID + ":x", strings.Repeat("session:"+b.ID+",", 60) + "sessions"} {
		refused(t, n.do("GET", "/v1/events?topics="+topics, request{}), 422, "invalid")
	}
	refused(t, n.do("GET", "/v1/events?topics=session:nobody", request{}), 404, "not_found")
}

// The topic work tells that something of it changed, and nothing by itself.
func TestTopics_workTellsOfNodesAndSchedules(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.create(request{}).ID
	l := n.listen("/v1/events?topics=work,session:"+id, nil)
	l.until("caught-up")
	body := map[string]any{"label": "yearly", "cron": "0 0 1 1 *", "sessionId": id, "text": "hello"}
	made := want[struct{ ID string }](t, n.do("POST", "/v1/schedules", request{body: body}), 201)
	if e := l.until("work"); strings.Contains(e[len(e)-1].data, "yearly") {
		t.Errorf("work has data: %+v", e)
	}
	want[struct{ Paused bool }](t, n.do("POST", "/v1/schedules/"+made.ID+"/pause", request{}), 200)
	l.until("work")
}

// A page of one tenant hears nothing of another.
func TestTopics_otherTenantsAreNotHeard(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	l := n.listen("/v1/events?topics=sessions", nil)
	other := n.create(request{key: n.key("other", "admin")})
	mine := n.create(request{})
	for {
		e := l.until("session")
		text := e[len(e)-1].data
		if strings.Contains(text, other.ID) {
			t.Fatal("a session of another tenant was sent")
		}
		if strings.Contains(text, mine.ID) {
			return
		}
	}
}

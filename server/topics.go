package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
)

// maxTopics is how many sessions one stream follows.
const maxTopics = 50

// The events that only streams of several topics have.
const (
	eventSession = "session" // a session whose header changed
	eventItems   = "items"   // what happened to the items of a session
	eventWork    = "work"    // nodes, their load, what waits or a schedule changed
)

func (s *Server) addTopics(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/events", s.topicEvents)
	s.api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "follow-topics", Method: http.MethodGet, Path: "/v1/events",
		Summary: "Follow several things in one stream of server-sent events", Tags: []string{"events"},
		Description: describeScope("Topics are separated by commas. sessions sends the header of every session of the tenant that changes (session); "+
			"work says that nodes, their load, what waits for them, or schedules changed (work, without data); "+
			"session:REF sends the events of one session, and session:REF:N those after its change N; items:REF and items:REF:N send instead what happens "+
			"to the items of the session (items), with a seq where a change of the log made it happen. The data of events of a session are "+
			"{\"session\": id, …}; ids of records are id:number.", apikey.Read),
		Security: []map[string][]string{{"key": {}}},
		Parameters: []*huma.Param{
			{Name: "topics", In: "query", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Example: "sessions,session:trip"},
		},
		Responses: s.streamResponses(),
	})
}

// topics is what a stream follows.
type topics struct {
	list     bool
	work     bool
	sessions []followed
}

// followed is one session of a stream.
type followed struct {
	id          string
	after, last int64
	items       bool // its items instead of its records
}

// parseTopics reads the topics of a request and finds their sessions.
func parseTopics(ctx context.Context, c caller, text string) (topics, error) {
	var t topics
	for topic := range strings.SplitSeq(text, ",") {
		name, rest, _ := strings.Cut(topic, ":")
		switch {
		case topic == "sessions":
			t.list = true
			continue
		case topic == "work":
			t.work = true
			continue
		case name != "session" && name != "items" || rest == "":
			return t, &session.InvalidError{Field: "topics", Reason: fmt.Sprintf("%s is not sessions, work, session:REF, session:REF:N, items:REF or items:REF:N", quoteShort(topic))}
		case len(t.sessions) == maxTopics:
			return t, &session.InvalidError{Field: "topics", Reason: fmt.Sprintf("has more than %d sessions", maxTopics)}
		}
		ref, number, given := strings.Cut(rest, ":")
		after := int64(0)
		if given {
			var err error
			if after, err = strconv.ParseInt(number, 10, 64); err != nil || after < 0 {
				return t, &session.InvalidError{Field: "topics", Reason: quoteShort(number) + " is not the number of a change"}
			}
		}
		now, err := c.rt.Resolve(ctx, ref)
		if err != nil {
			return t, err
		}
		s, err := c.rt.Get(ctx, now.ID, holdfast.WithTail())
		if err != nil {
			return t, err
		}
		t.sessions = append(t.sessions, followed{now.ID, after, s.Seq(), name == "items"})
	}
	return t, nil
}

// topicEvents sends what happens to several things, until the reader goes away
// or the server ends.
func (s *Server) topicEvents(w http.ResponseWriter, r *http.Request) {
	c := callerOf(r.Context())
	if err := c.Permit(apikey.Read); err != nil {
		writeProblem(w, problem.Of(err))
		return
	}
	t, err := parseTopics(r.Context(), c, r.URL.Query().Get("topics"))
	if err != nil {
		writeProblem(w, problem.Of(err))
		return
	}
	done, err := s.openStream(c)
	if err != nil {
		writeProblem(w, problem.Of(err))
		return
	}
	defer done()
	s.multiplex(w, r, c, t)
}

// topicUpdate is an update of one of the sessions of a stream.
type topicUpdate struct {
	followed
	update
	changes []projector.Change // of its items
}

// multiplex runs a stream of several topics.
func (s *Server) multiplex(w http.ResponseWriter, r *http.Request, c caller, t topics) {
	ctx, stop := context.WithCancel(r.Context())
	updates := make(chan topicUpdate)
	var following sync.WaitGroup
	defer func() { stop(); following.Wait() }()
	for _, f := range t.sessions {
		following.Go(func() {
			if f.items {
				itemChanges(ctx, f, s.updates(ctx, r, c, f.id, 0, f.last), updates)
				return
			}
			for u := range s.updates(ctx, r, c, f.id, f.after, f.last) {
				select {
				case updates <- topicUpdate{followed: f, update: u}:
				case <-ctx.Done():
				}
			}
		})
	}
	var changed *feedReader
	ready := (<-chan struct{})(nil)
	if t.list {
		var leave func()
		changed, leave = s.feeds.join(ctx, c.Tenant)
		defer leave()
		ready = changed.ready
	}
	var look <-chan time.Time
	work := ""
	if t.work {
		looks := time.NewTicker(feedPoll)
		defer looks.Stop()
		look, work = looks.C, s.summariseWork(ctx, c, "")
	}
	out := newEventWriter(w, s.config.WriteWait)
	if !out.begin() {
		return
	}
	for _, f := range t.sessions {
		if f.after >= f.last && !out.Send(eventCaughtUp, "", topicData{Session: f.id, Seq: f.after}) {
			return
		}
	}
	beat := time.NewTicker(s.config.Heartbeat)
	defer beat.Stop()
	for {
		sent := true
		select {
		case <-ctx.Done():
			return
		case <-s.drain:
			out.Send(eventGone, "", topicData{Problem: problem.Of(session.ErrClosed)})
			return
		case <-beat.C:
			sent = out.Beat()
		case <-ready:
			for _, i := range changed.take() {
				sent = sent && out.Send(eventSession, "", i)
			}
		case <-look:
			if now := s.summariseWork(ctx, c, work); now != work {
				work, sent = now, out.Send(eventWork, "", topicData{})
			}
		case u := <-updates:
			sent = out.topic(u)
		}
		if !sent {
			return
		}
	}
}

// topicData is the data of an event in a stream of several topics.
type topicData struct {
	Session string             `json:"session,omitempty"`
	Record  *session.LogEntry  `json:"record,omitempty"`
	Delta   *holdfast.Delta    `json:"delta,omitempty"`
	Dropped *holdfast.Dropped  `json:"dropped,omitempty"`
	Changes []projector.Change `json:"changes,omitempty"`
	Seq     int64              `json:"seq,omitempty"`
	Problem *problem.Problem   `json:"problem,omitempty"`
}

// topic sends an update of one session. The end of one session does not end
// the stream.
func (e eventWriter) topic(u topicUpdate) bool {
	data := topicData{Session: u.id, Record: u.Record, Delta: u.Delta, Dropped: u.Dropped}
	switch {
	case u.err != nil && errors.Is(u.err, context.Canceled):
		return true
	case u.err != nil:
		data.Problem = problem.Of(u.err)
		return e.Send(eventGone, "", data)
	case u.items:
		return e.itemChanges(u)
	case u.Record == nil && u.Delta != nil:
		return e.Send(eventDelta, "", data)
	case u.Record == nil:
		return e.Send(eventDropped, "", data)
	}
	return e.Send(eventRecord, fmt.Sprintf("%s:%d", u.id, u.Record.Seq), data) && e.caughtUp(u)
}

// caughtUp says that everything has been sent that was there when the stream
// began, after the last of it.
func (e eventWriter) caughtUp(u topicUpdate) bool {
	return u.Record.Seq != u.last || e.Send(eventCaughtUp, "", topicData{Session: u.id, Seq: u.last})
}

// itemChanges sends what happened to the items of a session. A record that
// shows nothing is sent too, so that the reader knows how far it has come.
func (e eventWriter) itemChanges(u topicUpdate) bool {
	data := topicData{Session: u.id, Changes: u.changes}
	if u.Record == nil {
		return len(u.changes) == 0 || e.Send(eventItems, "", data)
	}
	data.Seq = u.Record.Seq
	return e.Send(eventItems, fmt.Sprintf("%s:%d", u.id, u.Record.Seq), data) && e.caughtUp(u)
}

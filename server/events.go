package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/internal/sse"
	"github.com/holdfast-dev/holdfast/session"
)

// The events of a stream.
const (
	eventRecord   = "record"    // a change of the log; its id is the number of the change
	eventDelta    = "delta"     // a piece of an answer in progress
	eventDropped  = "dropped"   // the deltas of an attempt are void
	eventCaughtUp = "caught-up" // everything that was there has been sent
	eventGone     = "gone"      // this stream ends; reconnect, unless its problem says that it is of no use
)

func (s *Server) addEvents(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/sessions/{ref}/events", s.events)
	doc := &huma.Operation{
		OperationID: "follow-session", Method: http.MethodGet, Path: "/v1/sessions/{ref}/events",
		Summary: "Follow a session as server-sent events", Tags: []string{"events"},
		Description: describeScope("Sends the changes after a number, then caught-up, then every change (record) and every piece of an answer in progress (delta) as they come. "+
			"dropped says that the deltas of an attempt are void; gone is the last event. Only records have an id: after a break, Last-Event-ID continues without a gap or a repetition.", apikey.Read),
		Security: []map[string][]string{{"key": {}}},
		Parameters: []*huma.Param{
			{Name: "ref", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}},
			{Name: "after", In: "query", Schema: &huma.Schema{Type: huma.TypeInteger}, Description: "Only changes after this number"},
			{Name: "Last-Event-ID", In: "header", Schema: &huma.Schema{Type: huma.TypeInteger}, Description: "The same, as browsers send it"},
		},
		Responses: s.streamResponses(),
	}
	s.api.OpenAPI().AddOperation(doc)
}

// streamResponses documents the responses of a stream.
func (s *Server) streamResponses() map[string]*huma.Response {
	return map[string]*huma.Response{
		"200":     {Description: "The events", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}},
		"default": s.problemResponse("Error"),
	}
}

// problemResponse documents a response that is a problem.
func (s *Server) problemResponse(text string) *huma.Response {
	schema := schemaOf[problem.Problem](s.api.OpenAPI().Components.Schemas)
	return &huma.Response{Description: text, Content: map[string]*huma.MediaType{problem.ContentType: {Schema: schema}}}
}

// events sends what happens to a session, until the reader goes away or the
// server ends.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	c := callerOf(r.Context())
	if err := c.Permit(apikey.Read); err != nil {
		writeProblem(w, problem.Of(err))
		return
	}
	after, err := cursor(r)
	if err == nil {
		err = s.follow(w, r, c, after)
	}
	if err != nil {
		writeProblem(w, problem.Of(err))
	}
}

// cursor returns the number of the last change that the reader has.
func cursor(r *http.Request) (int64, error) {
	field, text := "after", r.URL.Query().Get("after")
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		field, text = "Last-Event-ID", id
	}
	if text == "" {
		return 0, nil
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if err != nil || after < 0 {
		return 0, &session.InvalidError{Field: field, Reason: quoteShort(text) + " is not the number of a change"}
	}
	return after, nil
}

// follow runs a stream. An error means that none was begun.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, c caller, after int64) error {
	i, err := SessionRef{r.PathValue("ref")}.resolve(r.Context(), c)
	if err != nil {
		return err
	}
	now, err := c.rt.Get(r.Context(), i.ID, holdfast.WithTail())
	if err != nil {
		return err
	}
	done, err := s.openStream(c)
	if err != nil {
		return err
	}
	defer done()
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	updates := s.updates(ctx, r, c, i.ID, after, now.Seq())
	defer func() {
		stop()
		for range updates { // until it is closed
		}
	}()
	out := newEventWriter(w, s.config.WriteWait)
	s.stream(ctx, out, updates, after, now.Seq())
	return nil
}

// updates follows a session until the context ends, and then closes the channel.
// Seq is the number of the session's last change.
func (s *Server) updates(ctx context.Context, r *http.Request, c caller, id string, after, seq int64) <-chan update {
	own := make(chan update)
	go func() {
		defer close(own)
		for u, err := range c.rt.Follow(ctx, id, after) {
			select {
			case own <- update{u, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	if s.config.Address == "" || r.Header.Get(peerHeader) != "" {
		return own
	}
	secret, _ := s.credentials(r)
	return s.addPeer(ctx, c, secret, id, seq, own)
}

// openStream counts a stream of a caller. The caller ends it with done.
func (s *Server) openStream(c caller) (done func(), err error) {
	if s.draining.Load() {
		return nil, session.ErrClosed
	}
	if done := s.limits.openStream(c.ID); done != nil {
		return done, nil
	}
	p := problem.New(http.StatusTooManyRequests, problem.CodeRateLimited, fmt.Sprintf("the key has %d open streams on this node, which is the limit", s.config.MaxStreams))
	p.RetryAfter = 1
	return nil, p
}

// update is what Follow yields.
type update struct {
	holdfast.Update
	err error
}

// stream sends updates until one of both sides ends it. Everything up to the
// change last was there when the stream began.
func (s *Server) stream(ctx context.Context, out eventWriter, updates <-chan update, after, last int64) {
	beat := time.NewTicker(s.config.Heartbeat)
	defer beat.Stop()
	if !out.begin() || after >= last && !out.Send(eventCaughtUp, "", caughtUp{after}) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.drain:
			out.Send(eventGone, "", problem.Of(session.ErrClosed))
			return
		case <-beat.C:
			if !out.Beat() {
				return
			}
		case u, ok := <-updates:
			if !ok || u.err != nil {
				if u.err != nil && !errors.Is(u.err, context.Canceled) {
					out.Send(eventGone, "", problem.Of(u.err))
				}
				return
			}
			if !out.update(u.Update) {
				return
			}
			if r := u.Record; r != nil && r.Seq == last && !out.Send(eventCaughtUp, "", caughtUp{last}) {
				return
			}
		}
	}
}

// caughtUp is the data of the event of that name.
type caughtUp struct {
	Seq int64 `json:"seq"`
}

// eventWriter writes the events of this API.
type eventWriter struct{ *sse.Writer }

func newEventWriter(w http.ResponseWriter, wait time.Duration) eventWriter {
	return eventWriter{sse.NewWriter(w, wait)}
}

// begin sends the headers and says how soon to reconnect.
func (e eventWriter) begin() bool { return e.Begin(time.Second) }

// update sends one update of a session.
func (e eventWriter) update(u holdfast.Update) bool {
	switch {
	case u.Record != nil:
		return e.Send(eventRecord, strconv.FormatInt(u.Record.Seq, 10), u.Record)
	case u.Delta != nil:
		return e.Send(eventDelta, "", u.Delta)
	}
	return e.Send(eventDropped, "", u.Dropped)
}

package server

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

// turn is what a turn, or any other execution, came to.
type turn struct {
	Session   session.Info            `json:"session"`
	Reply     string                  `json:"reply,omitempty" doc:"The answer, if there is one"`
	Execution session.ExecutionStatus `json:"execution,omitempty" doc:"How the execution ended"`
	Stop      *session.Signal         `json:"stop,omitempty" doc:"Why it ended before an answer"`
	Pending   []session.PendingCall   `json:"pending,omitempty" doc:"Calls that wait for a response"`
	Usage     session.Usage           `json:"usage"`
	Cost      session.Cost            `json:"cost"`
	Problem   *problem.Problem        `json:"problem,omitempty" doc:"What failed although the session was saved"`
}

type turnOutput struct {
	Status   int
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Applied  string `header:"Preference-Applied"`
	Body     turn
}

// turnOf returns the response for a session that was executed on, or the error
// that nothing was saved with. Before is the session's header from then.
func turnOf(before session.Info, s session.Session, err error) (*turnOutput, error) {
	p := problem.Of(err)
	switch {
	case p != nil && !p.Saved():
		return nil, err
	case p != nil && p.Status == http.StatusAccepted: // an inbox item was saved
		return &turnOutput{Status: p.Status, Location: "/v1/sessions/" + before.ID + "/inbox", Body: turn{Session: before, Problem: p}}, nil
	}
	t := turn{Session: s.Info(), Reply: s.Reply(), Problem: p}
	if e := s.Execution(); e != nil {
		t.Execution, t.Stop, t.Usage, t.Cost = e.Status, e.Stop, e.Usage, e.Cost
	}
	for _, call := range s.PendingCalls() {
		if call.Waiting() {
			t.Pending = append(t.Pending, call)
		}
	}
	return &turnOutput{Status: http.StatusOK, ETag: etag(s.Version()), Body: t}, nil
}

func (s *Server) addMessages() {
	register(s, apikey.Write, huma.Operation{
		OperationID: "send-message", Method: http.MethodPost, Path: "/v1/sessions/{ref}/messages",
		Summary: "Send a message and wait for the answer", Tags: []string{"messages"},
		Description: "The words of the answer can be followed at /events meanwhile. If the caller goes away, the execution is interrupted and can be continued; with Prefer: respond-async it goes on.",
		Responses:   turnResponses(s),
	}, s.send)
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-messages", Method: http.MethodGet, Path: "/v1/sessions/{ref}/messages",
		Summary: "Read messages, also those that the model no longer sees", Tags: []string{"messages"},
	}, history)
}

// turnResponses documents that an execution answers with a turn, or with the
// inbox item that was written instead.
func turnResponses(s *Server) map[string]*huma.Response {
	schemas := s.api.OpenAPI().Components.Schemas
	return map[string]*huma.Response{
		"200":     {Description: "The execution ended and was saved", Content: map[string]*huma.MediaType{"application/json": {Schema: schemaOf[turn](schemas)}}},
		"202":     {Description: "The message waits in the inbox of the session, or, with Prefer: respond-async, the execution has begun", Content: map[string]*huma.MediaType{"application/json": {Schema: schemaOf[turn](schemas)}}},
		"default": s.problemResponse("Nothing was saved"),
	}
}

// PreferHeader is the part of a request that may be answered before the end.
type PreferHeader struct {
	Prefer string `header:"Prefer" doc:"respond-async: answer with 202 as soon as the first change is saved, and execute in the background"`
}

// async reports that the caller does not want to wait.
func (in PreferHeader) async() bool {
	for preference := range strings.SplitSeq(in.Prefer, ",") {
		if strings.EqualFold(strings.TrimSpace(preference), "respond-async") {
			return true
		}
	}
	return false
}

type sendInput struct {
	SessionRef
	WriteHeaders
	PreferHeader
	Body struct {
		Text    string               `json:"text,omitempty"`
		Message *sentMessage         `json:"message,omitempty" doc:"A whole message instead of a text; one with an id is sent once"`
		Tools   []session.ClientTool `json:"tools,omitempty" doc:"Tools that the caller carries out, for this execution"`
	}
}

// sentMessage is a message as a caller gives it: only the content is needed.
type sentMessage session.Message

// Schema returns the schema.
func (sentMessage) Schema(r huma.Registry) *huma.Schema {
	whole := *r.Schema(reflect.TypeFor[session.Message](), false, "")
	whole.Required = []string{"content"}
	whole.PrecomputeMessages()
	return &whole
}

func (s *Server) send(ctx context.Context, c caller, in *sendInput) (*turnOutput, error) {
	message := holdfast.SendMessage{Text: in.Body.Text, Message: (*session.Message)(in.Body.Message), Tools: in.Body.Tools}
	if in.async() {
		return s.executeAsync(ctx, c, in.SessionRef, in.WriteHeaders, message)
	}
	return s.execute(ctx, c, in.SessionRef, in.WriteHeaders, message)
}

// execute executes an action on the session that a request names.
func (s *Server) execute(ctx context.Context, c caller, on SessionRef, in WriteHeaders, a holdfast.Action) (*turnOutput, error) {
	opts, err := in.options()
	if err != nil {
		return nil, err
	}
	perform := on.execute
	switch a.(type) {
	case holdfast.SendMessage, holdfast.ContinueExecution, holdfast.RetryExecution:
		if in.key() != "" {
			perform = func(ctx context.Context, c caller, a holdfast.Action, opts []holdfast.Option) (session.Info, session.Session, error) {
				return s.executeTurn(ctx, c, on, in.key(), a, opts)
			}
		}
	}
	before, after, err := perform(ctx, c, a, opts)
	out, err := turnOf(before, after, c.explainAction(ctx, err, before.ID, a))
	return out, in.stale(err)
}

// execute executes on the session that is named. What has the form of an id is
// taken for one first: to look it up costs as much as a short action. Before has
// more than an id only where a response shows it.
func (in SessionRef) execute(ctx context.Context, c caller, a holdfast.Action, opts []holdfast.Option) (before session.Info, s session.Session, err error) {
	if uuid.Validate(in.Ref) == nil {
		s, err = c.rt.Execute(ctx, in.Ref, a, opts...)
		var missing *session.NotFoundError
		switch {
		case errors.Is(err, session.ErrQueued):
			if before, failed := in.resolve(ctx, c); failed == nil {
				return before, s, err
			}
			return session.Info{ID: in.Ref}, s, err
		case !errors.As(err, &missing) || missing.ID != in.Ref:
			return session.Info{ID: in.Ref}, s, err
		}
	}
	if before, err = in.resolve(ctx, c); err == nil {
		s, err = c.rt.Execute(ctx, before.ID, a, opts...)
	}
	return before, s, err
}

// executeAsync executes an action in the background. The response is the turn
// if it has ended before its first change was saved.
func (s *Server) executeAsync(ctx context.Context, c caller, on SessionRef, in WriteHeaders, a holdfast.Action) (*turnOutput, error) {
	opts, err := in.options()
	if err != nil {
		return nil, err
	}
	i, err := on.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	var after session.Session
	done, err := s.work.run(ctx, c.rt, i.ID, func(ctx context.Context) (err error) {
		after, err = c.rt.Execute(ctx, i.ID, a, opts...)
		return err
	})
	if done {
		out, err := turnOf(i, after, c.explainAction(ctx, err, i.ID, a))
		return out, in.stale(err)
	}
	return &turnOutput{Status: http.StatusAccepted, Location: "/v1/sessions/" + i.ID, Applied: "respond-async", Body: turn{Session: i}}, nil
}

type historyInput struct {
	SessionRef
	Limit          int    `query:"limit" minimum:"0" maximum:"1000" doc:"10 by default"`
	Before         int64  `query:"before" doc:"Only messages before this number"`
	After          int64  `query:"after" doc:"Only messages after this number"`
	Order          string `query:"order" enum:"newest,oldest" default:"newest"`
	IncludeTrace   bool   `query:"includeTrace" doc:"Also tool calls and their results"`
	IncludeCleared bool   `query:"includeCleared" doc:"Also what a clear or a rewind removed"`

	Request  string   `query:"request" doc:"Only this request, those that name it as their root or parent, and the answers to them"`
	Metadata []string `query:"metadata,explode" doc:"Only requests with this metadata, as key=value, several times for several keys, and the answers to them"`
}

type historyOutput struct{ Body memory.Page }

func history(ctx context.Context, c caller, in *historyInput) (*historyOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	metadata, err := pairs("metadata", in.Metadata)
	if err != nil {
		return nil, err
	}
	m, err := c.rt.Memory(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	page, err := m.History(ctx, memory.HistoryOptions{
		Limit: in.Limit, Order: memory.Order(in.Order), BeforeSeq: in.Before, AfterSeq: in.After,
		IncludeTrace: in.IncludeTrace, IncludeCleared: in.IncludeCleared, Request: in.Request, Metadata: metadata,
	})
	if err != nil {
		return nil, err
	}
	if page.Messages == nil {
		page.Messages = []session.Message{}
	}
	return &historyOutput{Body: page}, nil
}

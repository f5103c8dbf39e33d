package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
)

func (s *Server) addPending() {
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-pending", Method: http.MethodGet, Path: "/v1/pending",
		Summary: "List the calls that wait for a response, of all sessions", Tags: []string{"pending"},
	}, listPending)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-pending", Method: http.MethodGet, Path: "/v1/sessions/{ref}/pending/{id}",
		Summary: "Read a call that waits for a response", Tags: []string{"pending"},
	}, getPending)
	register(s, apikey.Read, huma.Operation{
		OperationID: "respond", Method: http.MethodPost, Path: "/v1/sessions/{ref}/pending/{id}", DefaultStatus: http.StatusAccepted,
		Summary: "Respond to a call that waits", Tags: []string{"pending"},
		Description: "The first response counts. " + repeatable + " Approving or denying needs the scope approve, answering and giving results the scope write. The session continues when somebody continues it.",
	}, s.respond)
}

type pendingInput struct {
	Kind   []string `query:"kind,explode" doc:"Of sessions: chat, task or workflow"`
	User   string   `query:"user"`
	Limit  int      `query:"limit" minimum:"0" maximum:"1000" doc:"Calls of at most this many sessions; 50 by default"`
	Cursor string   `query:"cursor"`
}

type pendingOutput struct{ Body holdfast.PendingPage }

func listPending(ctx context.Context, c caller, in *pendingInput) (*pendingOutput, error) {
	q := holdfast.PendingQuery{UserID: in.User, Limit: in.Limit, Cursor: in.Cursor}
	for _, k := range in.Kind {
		q.Kinds = append(q.Kinds, session.Kind(k))
	}
	page, err := c.rt.Pending(ctx, q)
	if err != nil {
		return nil, err
	}
	if page.Items == nil {
		page.Items = []holdfast.Pending{}
	}
	return &pendingOutput{Body: page}, nil
}

// CallRef is the part of a request that names a pending call.
type CallRef struct {
	SessionRef
	ID string `path:"id" doc:"The id of the pending call"`
}

// find returns the session and the call. A call that has its response already
// is not among those that wait, but may be responded to again in the same way.
func (in CallRef) find(ctx context.Context, c caller) (session.Info, session.PendingCall, bool, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return i, session.PendingCall{}, false, err
	}
	s, err := c.rt.Get(ctx, i.ID, holdfast.WithTail())
	if err != nil {
		return i, session.PendingCall{}, false, err
	}
	call, ok := s.PendingCall(in.ID)
	return i, call, ok, nil
}

type callOutput struct{ Body holdfast.Pending }

func getPending(ctx context.Context, c caller, in *CallRef) (*callOutput, error) {
	i, call, ok, err := in.find(ctx, c)
	if err == nil && !ok {
		err = &session.NotFoundError{What: "pending call", ID: in.ID}
	}
	if err != nil {
		return nil, err
	}
	return &callOutput{Body: holdfast.Pending{Session: i, PendingCall: call}}, nil
}

type respondInput struct {
	CallRef
	Body ResponseBody
}

// ResponseBody is a response as a request has it.
type ResponseBody struct {
	Action  string `json:"action" enum:"approve,deny,answer,result"`
	Choice  string `json:"choice,omitempty" doc:"The value of the choice that is taken"`
	Text    string `json:"text,omitempty" doc:"The answer, the result, or the reason of a denial"`
	IsError bool   `json:"isError,omitempty" doc:"The result is an error"`
}

// response returns the response of a caller.
func (b ResponseBody) response(id string, c caller) session.Response {
	return session.Response{PendingID: id, Action: session.ResponseAction(b.Action), Choice: b.Choice, Text: b.Text, IsError: b.IsError, By: c.responder()}
}

type respondOutput struct {
	Location string `header:"Location"`
	Body     session.Info
}

func (s *Server) respond(ctx context.Context, c caller, in *respondInput) (*respondOutput, error) {
	r := in.Body.response(in.ID, c)
	i, err := s.permitResponse(ctx, c, in.CallRef, r.Action)
	if err != nil {
		return nil, err
	}
	if err := c.rt.Respond(ctx, i.ID, r); err != nil {
		return nil, err
	}
	return &respondOutput{Location: "/v1/sessions/" + i.ID, Body: i}, nil
}

// permitResponse refuses a response that the caller's key does not permit, and
// returns the session that it is for.
func (s *Server) permitResponse(ctx context.Context, c caller, in CallRef, action session.ResponseAction) (session.Info, error) {
	scope := apikey.Write
	if action == session.RespondApprove || action == session.RespondDeny {
		scope = apikey.Approve
	}
	if err := c.Permit(scope); err != nil {
		return session.Info{}, err
	}
	i, call, ok, err := in.find(ctx, c)
	if err == nil && ok && call.Kind == session.PendingApproval { // whatever the action is called
		err = c.Permit(apikey.Approve)
	}
	return i, err
}

// responder names who responds: the user of the key, else the key.
func (c caller) responder() string {
	if c.UserID != "" {
		return c.UserID
	}
	return c.Identity().Actor
}

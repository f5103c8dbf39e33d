package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
)

// actions reads the body of a request as the action of that name. SendMessage
// has a route of its own.
var actions = map[string]func(json.RawMessage) (holdfast.Action, error){
	"AbandonExecution":     decodeAction[holdfast.AbandonExecution],
	"ChangeModel":          decodeAction[holdfast.ChangeModel],
	"ChangePermissionMode": decodeAction[holdfast.ChangePermissionMode],
	"ChangeSystemPrompt":   decodeAction[holdfast.ChangeSystemPrompt],
	"ClearSession":         decodeAction[holdfast.ClearSession],
	"CompleteSession":      decodeAction[holdfast.CompleteSession],
	"ContinueExecution":    decodeAction[holdfast.ContinueExecution],
	"DeleteSession":        decodeAction[holdfast.DeleteSession],
	"DeleteVariable":       decodeAction[holdfast.DeleteVariable],
	"EditBlock":            decodeAction[holdfast.EditBlock],
	"FailSession":          decodeAction[holdfast.FailSession],
	"PruneSession":         decodeAction[holdfast.PruneSession],
	"RemoveMetadata":       decodeAction[holdfast.RemoveMetadata],
	"RenameSession":        decodeAction[holdfast.RenameSession],
	"RetryExecution":       decodeAction[holdfast.RetryExecution],
	"RestoreSession":       decodeAction[holdfast.RestoreSession],
	"ResumeSession":        decodeAction[holdfast.ResumeSession],
	"RewindSession":        decodeAction[holdfast.RewindSession],
	"SetExpiry":            decodeAction[holdfast.SetExpiry],
	"StoreVariable":        decodeAction[holdfast.StoreVariable],
	"SuspendSession":       decodeAction[holdfast.SuspendSession],
	"UpdateTask":           decodeAction[holdfast.UpdateTask],
	"WidenWindow":          decodeAction[holdfast.WidenWindow],
	"WriteMetadata":        decodeAction[holdfast.WriteMetadata],
}

// decodeAction reads an action. Its fields have their names in lower camel
// case; unknown ones are refused.
func decodeAction[A holdfast.Action](body json.RawMessage) (holdfast.Action, error) {
	var a A
	if len(bytes.TrimSpace(body)) == 0 {
		return a, nil
	}
	if err := session.DecodeStrict(a.Name(), body, &a); err != nil {
		return nil, err
	}
	return a, nil
}

func (s *Server) addActions() {
	register(s, apikey.Write, huma.Operation{
		OperationID: "execute-action", Method: http.MethodPost, Path: "/v1/sessions/{ref}/actions/{name}",
		Summary: "Execute an action by its name", Tags: []string{"actions"}, Responses: turnResponses(s), SkipValidateBody: true,
		Description: "The body has the fields of the action, for example {\"to\": \"trip\"} for RenameSession.",
	}, s.executeAction)
	for _, a := range []struct {
		path, summary string
		action        holdfast.Action
	}{
		{"continue", "Continue an execution that was interrupted or has its responses", holdfast.ContinueExecution{}},
		{"retry", "Run an execution that failed again", holdfast.RetryExecution{}},
		{"abandon", "Give up an execution that was interrupted", holdfast.AbandonExecution{}},
	} {
		register(s, apikey.Write, huma.Operation{
			OperationID: a.path + "-session", Method: http.MethodPost, Path: "/v1/sessions/{ref}/" + a.path,
			Summary: a.summary, Tags: []string{"actions"}, Responses: turnResponses(s),
		}, func(ctx context.Context, c caller, in *plainInput) (*turnOutput, error) {
			if in.async() {
				return s.executeAsync(ctx, c, in.SessionRef, in.WriteHeaders, a.action)
			}
			return s.execute(ctx, c, in.SessionRef, in.WriteHeaders, a.action)
		})
	}
	register(s, apikey.Write, huma.Operation{
		OperationID: "rewind-session", Method: http.MethodPost, Path: "/v1/sessions/{ref}/rewind",
		Summary: "Return a session to an earlier version", Tags: []string{"actions"}, Responses: turnResponses(s),
		Description: "Nothing is removed: rewinding to a later version undoes it.",
	}, func(ctx context.Context, c caller, in *rewindInput) (*turnOutput, error) {
		return s.execute(ctx, c, in.SessionRef, in.WriteHeaders, holdfast.RewindSession{To: in.Body.To})
	})
	register(s, apikey.Write, huma.Operation{
		OperationID: "cancel-session", Method: http.MethodPost, Path: "/v1/sessions/{ref}/cancel", DefaultStatus: http.StatusAccepted,
		Summary: "Cancel what executes on a session, on whichever node", Tags: []string{"actions"},
	}, cancel)
}

// plainInput is a request that changes a session and has no body.
type plainInput struct {
	SessionRef
	WriteHeaders
	PreferHeader
}

type rewindInput struct {
	SessionRef
	WriteHeaders
	Body struct {
		To int64 `json:"to" minimum:"1"`
	}
}

type actionInput struct {
	SessionRef
	WriteHeaders
	Name string           `path:"name" doc:"AbandonExecution, ChangeModel, RenameSession …"`
	Body *json.RawMessage // nil: an action without fields
}

func (s *Server) executeAction(ctx context.Context, c caller, in *actionInput) (*turnOutput, error) {
	decode, ok := actions[in.Name]
	if !ok {
		return nil, &session.NotFoundError{What: "action", ID: in.Name, Available: slices.Sorted(maps.Keys(actions))}
	}
	var body json.RawMessage
	if in.Body != nil {
		body = *in.Body
	}
	a, err := decode(body)
	if err != nil {
		return nil, err
	}
	if to, ok := a.(holdfast.ChangePermissionMode); ok {
		if err := s.permitMode(c, to.Mode); err != nil {
			return nil, err
		}
	}
	return s.execute(ctx, c, in.SessionRef, in.WriteHeaders, a)
}

func cancel(ctx context.Context, c caller, in *keyedRef) (*header, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	if c, err = in.once(ctx, c, i.ID, in); err == nil {
		err = c.rt.Cancel(ctx, i.ID)
	}
	if err != nil && !errors.Is(err, holdfast.ErrRepeated) {
		return nil, err
	}
	return headerOf(i), nil
}

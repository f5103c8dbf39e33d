package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func (s *Server) addHistory() {
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-versions", Method: http.MethodGet, Path: "/v1/sessions/{ref}/versions",
		Summary: "List the versions of a session: who did what when", Tags: []string{"history"},
	}, versions)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-version", Method: http.MethodGet, Path: "/v1/sessions/{ref}/versions/{version}",
		Summary: "Read a session as it was at a version", Tags: []string{"history"},
	}, func(ctx context.Context, c caller, in *versionInput) (*document, error) {
		return getSession(ctx, c, &getInput{SessionRef: in.SessionRef, Version: in.Version, View: in.View, IfNoneMatch: in.IfNoneMatch})
	})
	register(s, apikey.Read, huma.Operation{
		OperationID: "diff-versions", Method: http.MethodGet, Path: "/v1/sessions/{ref}/diff",
		Summary: "Read the changes between two versions", Tags: []string{"history"},
	}, diff)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-sent-request", Method: http.MethodGet, Path: "/v1/sessions/{ref}/versions/{version}/request",
		Summary: "Read what the model was sent in a version of a chat", Tags: []string{"history"},
		Description: "It is built again by the code that built the first one. The tools and the texts of capabilities and skills are those of today; passages from memory are named in recalled and not in system.",
	}, sentRequestAt)
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-changes", Method: http.MethodGet, Path: "/v1/sessions/{ref}/log",
		Summary: "Read the changes of a session, also discarded ones", Tags: []string{"history"},
		Description: "The topic session:REF:N of /v1/events continues where a page ends.",
	}, changes)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-tree", Method: http.MethodGet, Path: "/v1/sessions/{ref}/tree",
		Summary: "Read the forks and subagents of a session, and what it comes from", Tags: []string{"history"},
	}, tree)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-usage", Method: http.MethodGet, Path: "/v1/sessions/{ref}/usage",
		Summary: "Read what a session has used", Tags: []string{"history"},
	}, usageOf)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-inbox", Method: http.MethodGet, Path: "/v1/sessions/{ref}/inbox",
		Summary: "Read what waits for a session", Tags: []string{"history"},
	}, inbox)
	register(s, apikey.Write, huma.Operation{
		OperationID: "post-inbox", Method: http.MethodPost, Path: "/v1/sessions/{ref}/inbox", DefaultStatus: http.StatusAccepted,
		Summary: "Leave a message in the inbox of a session", Tags: []string{"history"},
		Description: "Whoever executes on the session takes it, or the next execution does.",
	}, postInbox)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-lease", Method: http.MethodGet, Path: "/v1/sessions/{ref}/lease",
		Summary: "Read who executes on a session", Tags: []string{"history"},
	}, lease)
}

type versionsInput struct {
	SessionRef
	After int64 `query:"after" minimum:"0" doc:"Only versions after this one"`
}

type versionInput struct {
	SessionRef
	Version     int64  `path:"version" minimum:"1"`
	View        string `query:"view" enum:"info,window,whole" default:"window"`
	IfNoneMatch string `header:"If-None-Match"`
}

type versionsOutput struct {
	Body struct {
		Items []store.CommitInfo `json:"items"`
		Next  int64              `json:"next,omitempty" doc:"The after of the next page"`
	}
}

func versions(ctx context.Context, c caller, in *versionsInput) (*versionsOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	commits, err := c.rt.Commits(ctx, i.ID, in.After)
	if err != nil {
		return nil, err
	}
	out := &versionsOutput{}
	out.Body.Items = append([]store.CommitInfo{}, commits...)
	if n := len(commits); n > 0 && commits[n-1].Version < i.Version {
		out.Body.Next = commits[n-1].Version
	}
	return out, nil
}

type diffInput struct {
	SessionRef
	From int64 `query:"from" required:"true" minimum:"1"`
	To   int64 `query:"to" required:"true" minimum:"1"`
}

type diffOutput struct {
	Body struct {
		Items []session.LogEntry `json:"items"`
	}
}

func diff(ctx context.Context, c caller, in *diffInput) (*diffOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	entries, err := c.rt.Diff(ctx, i.ID, in.From, in.To)
	if err != nil {
		return nil, err
	}
	out := &diffOutput{}
	out.Body.Items = append([]session.LogEntry{}, entries...)
	return out, nil
}

// treeLimit is how many relatives of each kind a tree shows.
const treeLimit = 1000

type treeOutput struct {
	Body struct {
		Session   session.Info  `json:"session"`
		Ancestors session.Infos `json:"ancestors" doc:"From its parent up to the first"`
		Children  session.Infos `json:"children" doc:"Its forks and subagents"`
		More      bool          `json:"more,omitempty" doc:"There are more children"`
	}
}

func tree(ctx context.Context, c caller, in *SessionRef) (*treeOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	out := &treeOutput{}
	out.Body.Session, out.Body.Ancestors, out.Body.Children = i, session.Infos{}, session.Infos{}
	for parent := i.ParentID; parent != "" && len(out.Body.Ancestors) < treeLimit; {
		up, err := c.rt.Info(ctx, parent)
		if err != nil {
			break // it was purged; what came from it lives on
		}
		out.Body.Ancestors = append(out.Body.Ancestors, up)
		parent = up.ParentID
	}
	page, err := c.rt.List(ctx, store.Query{ParentID: i.ID, Order: store.CreatedDesc, Limit: treeLimit})
	if err != nil {
		return nil, err
	}
	out.Body.Children = append(out.Body.Children, page.Items...)
	out.Body.More = page.Next != ""
	return out, nil
}

type usageOutput struct {
	Body struct {
		Usage      session.Usage `json:"usage"`
		Cost       session.Cost  `json:"cost"`
		Inferences int           `json:"inferences"`
		Messages   int           `json:"messages"`
	}
}

func usageOf(ctx context.Context, c caller, in *SessionRef) (*usageOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	s, err := c.rt.Get(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	out := &usageOutput{}
	out.Body.Usage, out.Body.Cost = s.Usage()
	out.Body.Inferences, out.Body.Messages = s.InferenceCount(), i.MessageCount
	return out, nil
}

type inboxOutput struct {
	Body struct {
		Items []store.Item `json:"items"`
	}
}

func inbox(ctx context.Context, c caller, in *SessionRef) (*inboxOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	items, err := c.rt.Inbox(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	out := &inboxOutput{}
	out.Body.Items = append([]store.Item{}, items...)
	return out, nil
}

type postInboxInput struct {
	SessionRef
	KeyHeader
	Body struct {
		Text string `json:"text" minLength:"1"`
	}
}

func postInbox(ctx context.Context, c caller, in *postInboxInput) (*queuedOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	c, err = in.once(ctx, c, i.ID, in)
	if errors.Is(err, holdfast.ErrRepeated) {
		return queuedOutputOf(i.ID, c.rt.OnceItem()), nil
	}
	if err != nil {
		return nil, err
	}
	id := cmp.Or(c.rt.OnceItem(), uuid.NewString())
	message, err := json.Marshal(session.Message{ID: id, Role: session.RoleUser, Content: session.Text(in.Body.Text)})
	if err != nil {
		return nil, err
	}
	item, err := c.rt.Post(ctx, i.ID, store.Item{ID: id, Kind: store.ItemFollowUp, Payload: session.Values{"message": message}})
	return queuedOutputOf(i.ID, item.ID), err
}

type leaseOutput struct {
	Body struct {
		Held   bool       `json:"held"`
		Holder string     `json:"holder,omitempty"`
		Until  *time.Time `json:"until,omitempty"`
	}
}

func lease(ctx context.Context, c caller, in *SessionRef) (*leaseOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	l, held, err := c.rt.Holder(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	out := &leaseOutput{}
	if out.Body.Held = held; held {
		out.Body.Holder, out.Body.Until = l.Holder, &l.Until
	}
	return out, nil
}

package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// SessionRef is the part of a request that names a session.
type SessionRef struct {
	Ref string `path:"ref" doc:"The id of a session, the beginning of one (4 characters or more), or its name"`
}

// resolve finds the session that a request names.
func (in SessionRef) resolve(ctx context.Context, c caller) (session.Info, error) {
	return c.rt.Resolve(ctx, in.Ref)
}

// WriteHeaders is the part of a request that changes a session.
type WriteHeaders struct {
	IfMatch string `header:"If-Match" doc:"Change the session only at this version, as an ETag says it: \"v7\""`
	KeyHeader
	OnBusy string `query:"onBusy" enum:"wait,reject,enqueue,interrupt" default:"wait" doc:"What to do while somebody else executes on the session"`
}

// options returns the options of an Execute.
func (in WriteHeaders) options() ([]holdfast.Option, error) {
	var opts []holdfast.Option
	if in.IfMatch != "" {
		version, err := parseETag(in.IfMatch)
		if err != nil {
			return nil, err
		}
		opts = append(opts, holdfast.IfVersion(version))
	}
	opts = append(opts, in.option()...)
	busy, err := holdfast.ParseBusy(in.OnBusy)
	return append(opts, holdfast.OnBusy(busy)), err
}

// KeyHeader is the part of a request that makes repetitions of it one.
type KeyHeader struct {
	Key string `header:"Idempotency-Key" doc:"A repetition with the same key returns what the first request did"`
}

// header returns the part of a request that has the key.
func (in KeyHeader) header() KeyHeader { return in }

// key returns the key without the quotes that some clients put around it.
func (in KeyHeader) key() string {
	key, ok := strings.CutPrefix(in.Key, `"`)
	if ok {
		key = strings.TrimSuffix(key, `"`)
	}
	return key
}

// option returns the option for the key.
func (in KeyHeader) option() []holdfast.Option {
	if key := in.key(); key != "" {
		return []holdfast.Option{holdfast.IdempotencyKey(key)}
	}
	return nil
}

// once returns the caller of a request on a session, so that all requests with
// its idempotency key take effect once. A repetition is ErrRepeated.
func (in KeyHeader) once(ctx context.Context, c caller, id string, request any) (caller, error) {
	key := in.key()
	if key == "" {
		return c, nil
	}
	rt, err := c.rt.Once(id, key, c.operation, request)
	if err != nil {
		return c, err
	}
	c.rt = rt
	return c, rt.CheckOnce(ctx)
}

// What the document says about requests that need no key.
const (
	repeatable = "Repeating it changes nothing more."
	setsState  = "It sets a state, so repeating it changes nothing more."
)

// stale turns the conflict of a version that was demanded with If-Match into
// the status that HTTP has for it.
func (in WriteHeaders) stale(err error) error {
	if p := problem.Of(err); in.IfMatch != "" && p != nil && p.Code == "conflict_stale" {
		p.Status = http.StatusPreconditionFailed
		return p
	}
	return err
}

// etag returns the entity tag of a version.
func etag(version int64) string { return fmt.Sprintf(`"v%d"`, version) }

func parseETag(text string) (int64, error) {
	digits, ok := strings.CutPrefix(strings.TrimSuffix(text, `"`), `"v`)
	version, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || version < 1 {
		return 0, &session.InvalidError{Field: "If-Match", Reason: fmt.Sprintf("%s is not an entity tag such as \"v7\"", quoteShort(text))}
	}
	return version, nil
}

// header is a response with the header of a session.
type header struct {
	ETag string `header:"ETag"`
	Body session.Info
}

func headerOf(i session.Info) *header { return &header{ETag: etag(i.Version), Body: i} }

// created is the response to a request that made a session.
type created struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     session.Info
}

func createdOf(s session.Session) *created {
	return &created{Location: "/v1/sessions/" + s.ID(), ETag: etag(s.Version()), Body: s.Info()}
}

func (s *Server) addSessions() {
	register(s, apikey.Write, huma.Operation{
		OperationID: "create-session", Method: http.MethodPost, Path: "/v1/sessions", DefaultStatus: http.StatusCreated,
		Summary: "Create a session", Tags: []string{"sessions"},
		Description: "Give the name of an agent of this server, or a whole definition.",
	}, s.create)
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: "/v1/sessions",
		Summary: "List sessions, the last used first", Tags: []string{"sessions"},
	}, list)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-session", Method: http.MethodGet, Path: "/v1/sessions/{ref}",
		Summary: "Read a session", Tags: []string{"sessions"},
		Description: "The header alone (view=info), the document with the messages that the model is shown (view=window), or with all of them (view=whole).",
	}, getSession)
	register(s, apikey.Write, huma.Operation{
		OperationID: "delete-session", Method: http.MethodDelete, Path: "/v1/sessions/{ref}",
		Summary: "Delete a session", Tags: []string{"sessions"},
		Description: "The session is hidden and can be restored; with purge it is removed for good. " + repeatable,
	}, deleteSession)
	register(s, apikey.Write, huma.Operation{
		OperationID: "fork-session", Method: http.MethodPost, Path: "/v1/sessions/{ref}/fork", DefaultStatus: http.StatusCreated,
		Summary: "Start a new session with the same history", Tags: []string{"sessions"},
	}, fork)
}

type createInput struct {
	KeyHeader
	Body struct {
		Agent      string              `json:"agent,omitempty" doc:"The name of an agent of this server"`
		Definition *session.Definition `json:"definition,omitempty" doc:"A whole definition instead"`
		ID         string              `json:"id,omitempty" doc:"An id of your own; creating it twice is a conflict"`
		Name       string              `json:"name,omitempty"`
		UserID     string              `json:"userId,omitempty" doc:"The owner; a key of a user creates sessions of that user only"`
		Metadata   session.Values      `json:"metadata,omitempty"`
		ExpiresAt  *time.Time          `json:"expiresAt,omitempty"`
	}
}

func (s *Server) create(ctx context.Context, c caller, in *createInput) (*created, error) {
	def, err := s.definition(in.Body.Agent, in.Body.Definition)
	if err != nil {
		return nil, err
	}
	if c.UserID != "" && in.Body.UserID != "" && in.Body.UserID != c.UserID {
		return nil, problem.New(http.StatusForbidden, problem.CodeForbidden, "the key belongs to the user "+c.UserID+" and creates sessions of that user only")
	}
	opts := in.option()
	if in.Body.ID != "" {
		opts = append(opts, holdfast.WithID(in.Body.ID))
	}
	if in.Body.Name != "" {
		opts = append(opts, holdfast.WithName(in.Body.Name))
	}
	if in.Body.UserID != "" {
		opts = append(opts, holdfast.WithUser(in.Body.UserID))
	}
	if in.Body.Metadata != nil {
		opts = append(opts, holdfast.WithSeed(session.Seed{Metadata: in.Body.Metadata}))
	}
	if in.Body.ExpiresAt != nil {
		opts = append(opts, holdfast.WithExpiry(*in.Body.ExpiresAt))
	}
	if def.Model == "" && c.missing != nil { // nobody could talk in the session
		if err := c.missing(def, ""); err != nil {
			return nil, err
		}
	}
	made, err := c.rt.Create(ctx, def, opts...)
	if err != nil {
		return nil, c.explain(err, def, def.Model)
	}
	return createdOf(made), nil
}

// definition returns what a session is to be made of.
func (s *Server) definition(agent string, def *session.Definition) (session.Definition, error) {
	switch {
	case (agent == "") == (def == nil):
		return session.Definition{}, &session.InvalidError{Field: "agent", Reason: "give either agent or definition"}
	case def != nil:
		return *def, nil
	case s.config.Agents == nil:
		return session.Definition{}, &session.NotFoundError{What: "agent", ID: agent, Available: []string{}}
	}
	return s.config.Agents.Get(agent)
}

// SessionFilter says which sessions are meant.
type SessionFilter struct {
	Kind       []string `query:"kind,explode" doc:"chat, task, workflow or policy; all but policy by default"`
	Status     []string `query:"status,explode"`
	TaskStatus []string `query:"taskStatus,explode"`
	RunStatus  []string `query:"runStatus,explode"`
	Agent      string   `query:"agent"`
	User       string   `query:"user"`
	Pending    bool     `query:"pending" doc:"Only sessions with calls that wait for a response"`
}

func (f SessionFilter) query() store.Query {
	q := store.Query{TaskStatuses: f.TaskStatus, WorkflowStatuses: f.RunStatus, Agent: f.Agent, UserID: f.User, Pending: f.Pending}
	for _, k := range f.Kind {
		q.Kinds = append(q.Kinds, session.Kind(k))
	}
	for _, s := range f.Status {
		q.Statuses = append(q.Statuses, session.Status(s))
	}
	return q
}

type listInput struct {
	SessionFilter
	Parent         string    `query:"parent"`
	Origin         string    `query:"origin"`
	Name           string    `query:"name"`
	IDPrefix       string    `query:"idPrefix"`
	CreatedAfter   time.Time `query:"createdAfter"`
	CreatedBefore  time.Time `query:"createdBefore"`
	UpdatedAfter   time.Time `query:"updatedAfter"`
	UpdatedBefore  time.Time `query:"updatedBefore"`
	Words          string    `query:"words" doc:"Only sessions whose id, name, agent, task or workflow has all of these words, in any case"`
	Metadata       []string  `query:"metadata,explode" doc:"key=value, several times for several keys"`
	IncludeDeleted bool      `query:"includeDeleted"`
	Overview       bool      `query:"overview" doc:"Say also what each chat is about and whether it was interrupted; that is read from more than the headers"`
	Order          string    `query:"order" enum:"updated_desc,created_desc,id_asc"`
	Limit          int       `query:"limit" minimum:"0" maximum:"1000" doc:"50 by default"`
	Cursor         string    `query:"cursor" doc:"Next of the page before"`
}

func (in *listInput) query() (store.Query, error) {
	q := in.SessionFilter.query()
	q.ParentID, q.Origin, q.Name, q.IDPrefix = in.Parent, session.Origin(in.Origin), in.Name, in.IDPrefix
	q.CreatedAfter, q.CreatedBefore, q.UpdatedAfter, q.UpdatedBefore = in.CreatedAfter, in.CreatedBefore, in.UpdatedAfter, in.UpdatedBefore
	q.IncludeDeleted, q.Order, q.Limit, q.Cursor = in.IncludeDeleted, store.Order(in.Order), in.Limit, in.Cursor
	var err error
	q.Metadata, err = pairs("metadata", in.Metadata)
	return q, err
}

// pairs reads a parameter that is given as key=value, several times.
func pairs(name string, texts []string) (read map[string]string, err error) {
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, &session.InvalidError{Field: name, Reason: fmt.Sprintf("%s is not key=value", quoteShort(text))}
		}
		if read == nil {
			read = map[string]string{}
		}
		read[key] = value
	}
	return read, nil
}

type listOutput struct{ Body sessionPage }

// sessionPage is a page of sessions.
type sessionPage struct {
	store.Page
	Overviews map[string]holdfast.Overview `json:"overviews,omitempty" doc:"With overview=true: of each chat, by its id"`
}

func list(ctx context.Context, c caller, in *listInput) (*listOutput, error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	page, err := store.SearchHeaders(ctx, c.rt.List, q, in.Words)
	if err != nil {
		return nil, err
	}
	out := &listOutput{Body: sessionPage{Page: page}}
	if in.Overview {
		out.Body.Overviews, err = c.rt.Overviews(ctx, page.Items)
	}
	return out, err
}

type getInput struct {
	SessionRef
	Version     int64  `query:"version" minimum:"0" doc:"An earlier version; the last by default"`
	View        string `query:"view" enum:"info,window,whole" default:"window"`
	IfNoneMatch string `header:"If-None-Match"`
}

type document struct {
	Status       int
	ETag         string `header:"ETag"`
	CacheControl string `header:"Cache-Control"`
	Body         any
}

func getSession(ctx context.Context, c caller, in *getInput) (*document, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	out := &document{Status: http.StatusOK, ETag: viewTag(i.Version, in.View), CacheControl: "private, no-cache"}
	if in.Version != 0 { // a version never changes
		out.ETag, out.CacheControl = viewTag(in.Version, in.View), "private, max-age=31536000, immutable"
	}
	if in.IfNoneMatch == out.ETag && (in.Version == 0 || in.Version <= i.Version) {
		out.Status = http.StatusNotModified
		return out, nil
	}
	if in.View == "info" && in.Version == 0 {
		out.Body = i
		return out, nil
	}
	opts := []holdfast.Option{}
	if in.Version != 0 {
		opts = append(opts, holdfast.At(in.Version))
	}
	if in.View == "whole" {
		opts = append(opts, holdfast.Whole())
	}
	s, err := c.rt.Get(ctx, i.ID, opts...)
	if err != nil {
		return nil, err
	}
	out.ETag, out.Body = viewTag(s.Version(), in.View), any(s)
	if in.View == "info" {
		out.Body = s.Info()
	}
	return out, nil
}

// viewTag returns the entity tag of a view of a version. The tag of the window
// is the one that If-Match takes.
func viewTag(version int64, view string) string {
	if view == "window" {
		return etag(version)
	}
	return fmt.Sprintf(`W/"v%d-%s"`, version, view)
}

type deleteInput struct {
	SessionRef
	WriteHeaders
	Purge   bool `query:"purge"`
	Cascade bool `query:"cascade" doc:"With purge: its children too"`
}

func deleteSession(ctx context.Context, c caller, in *deleteInput) (*header, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	if in.Purge {
		var opts []holdfast.Option
		if in.Cascade {
			opts = append(opts, holdfast.Cascade())
		}
		return headerOf(i), c.rt.Purge(ctx, i.ID, opts...)
	}
	opts, err := in.options()
	if err != nil {
		return nil, err
	}
	s, err := c.rt.Execute(ctx, i.ID, holdfast.DeleteSession{}, opts...)
	if err != nil {
		return nil, in.stale(err)
	}
	return headerOf(s.Info()), nil
}

type forkInput struct {
	SessionRef
	KeyHeader
	Body *forkBody // nil: the last version, with an id of the server's choice
}

type forkBody struct {
	At   int64  `json:"at,omitempty" minimum:"0" doc:"The version to fork; the last by default"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

func fork(ctx context.Context, c caller, in *forkInput) (*created, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	var body forkBody
	if in.Body != nil {
		body = *in.Body
	}
	opts := in.option()
	if body.At != 0 {
		opts = append(opts, holdfast.At(body.At))
	}
	if body.ID != "" {
		opts = append(opts, holdfast.WithID(body.ID))
	}
	if body.Name != "" {
		opts = append(opts, holdfast.WithName(body.Name))
	}
	child, err := c.rt.Fork(ctx, i.ID, opts...)
	if err != nil {
		return nil, err
	}
	return createdOf(child), nil
}

package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Create makes a session. It takes WithID, WithName, WithUser, WithExpiry,
// IdempotencyKey, and WithSeed with metadata alone.
func (c *Client) Create(ctx context.Context, def session.Definition, opts ...holdfast.Option) (session.Session, error) {
	o, err := holdfast.ReadOptions("Create", opts, "WithID", "WithName", "WithUser", "WithSeed", "WithExpiry", "IdempotencyKey")
	if err != nil {
		return session.Session{}, err
	}
	body := struct {
		Definition session.Definition `json:"definition"`
		ID         string             `json:"id,omitempty"`
		Name       string             `json:"name,omitempty"`
		UserID     string             `json:"userId,omitempty"`
		Metadata   session.Values     `json:"metadata,omitempty"`
		ExpiresAt  *time.Time         `json:"expiresAt,omitempty"`
	}{Definition: def, ID: o.ID, Name: o.Name, UserID: o.UserID, Metadata: o.Seed.Metadata}
	if !o.Expires.IsZero() {
		body.ExpiresAt = &o.Expires
	}
	return c.make(ctx, call{method: http.MethodPost, path: "/v1/sessions", body: body, header: keyed(o)})
}

// make makes a session and reads it.
func (c *Client) make(ctx context.Context, in call) (session.Session, error) {
	made, _, err := request[session.Info](ctx, c, in)
	if err != nil {
		return session.Session{}, err
	}
	return c.Get(ctx, made.ID)
}

// Fork starts a new session with the history of another. It takes At, WithID,
// WithName and IdempotencyKey.
func (c *Client) Fork(ctx context.Context, ref string, opts ...holdfast.Option) (session.Session, error) {
	o, err := holdfast.ReadOptions("Fork", opts, "At", "WithID", "WithName", "IdempotencyKey")
	if err == nil {
		err = checkVersion(o.At)
	}
	if err != nil {
		return session.Session{}, err
	}
	return c.make(ctx, call{method: http.MethodPost, path: sessionPath(ref, "/fork"), header: keyed(o), body: struct {
		At   *int64 `json:"at,omitempty"`
		ID   string `json:"id,omitempty"`
		Name string `json:"name,omitempty"`
	}{o.At, o.ID, o.Name}})
}

// Agent reads the definition of an agent of the server.
func (c *Client) Agent(ctx context.Context, name string) (session.Definition, error) {
	def, _, err := request[session.Definition](ctx, c, call{path: "/v1/agents/" + url.PathEscape(name)})
	return def, err
}

// Tools lists the names of the tools that the server offers to all agents.
func (c *Client) Tools(ctx context.Context) ([]string, error) {
	list, _, err := request[struct {
		Items []struct {
			Name string `json:"name"`
		} `json:"items"`
	}](ctx, c, call{path: "/v1/tools"})
	var names []string
	for _, t := range list.Items {
		names = append(names, t.Name)
	}
	return names, err
}

// Info reads the header of a session.
func (c *Client) Info(ctx context.Context, ref string) (session.Info, error) {
	if ref == "" { // its path is that of all sessions
		return session.Info{}, session.CheckID(ref)
	}
	i, _, err := request[session.Info](ctx, c, call{path: sessionPath(ref, ""), query: url.Values{"view": {"info"}}})
	return i, err
}

// Resolve finds a session by its id, the beginning of it or its name.
func (c *Client) Resolve(ctx context.Context, ref string) (session.Info, error) {
	return c.Info(ctx, ref)
}

// Get reads a session. It takes At, WithTail and Whole.
func (c *Client) Get(ctx context.Context, ref string, opts ...holdfast.Option) (session.Session, error) {
	o, err := holdfast.ReadOptions("Get", opts, "At", "WithTail", "Whole")
	if err != nil {
		return session.Session{}, err
	}
	query := url.Values{}
	if o.Whole {
		query.Set("view", "whole")
	}
	switch {
	case o.At != nil && o.Tail:
		return session.Session{}, &session.InvalidError{Field: "option", Reason: "WithTail does not go with At: a tail belongs to the last version"}
	case o.At != nil:
		query.Set("version", strconv.FormatInt(*o.At, 10))
	}
	if err := checkVersion(o.At); err != nil {
		return session.Session{}, err
	}
	for {
		s, _, err := request[session.Session](ctx, c, call{path: sessionPath(ref, ""), query: query})
		if err != nil || !o.Tail {
			return s, err
		}
		tail, saved, err := c.tail(ctx, s)
		if err != nil {
			return session.Session{}, err
		}
		if !saved {
			return session.ApplyTail(s, tail)
		}
	}
}

// checkVersion refuses what is no version; to a server 0 is the last one.
func checkVersion(at *int64) error {
	if at != nil && *at < 1 {
		return &session.InvalidError{Field: "version", Reason: strconv.FormatInt(*at, 10) + " is not a version; the first is 1"}
	}
	return nil
}

// tail reads what was written since the version of s. Saved says that it is
// part of a later version.
func (c *Client) tail(ctx context.Context, s session.Session) (tail []session.Record, saved bool, err error) {
	for entry, err := range c.Log(ctx, s.ID(), s.Seq()) {
		if err != nil {
			return nil, false, err
		}
		saved = saved || entry.Version > 0
		tail = append(tail, entry.Record)
	}
	return tail, saved, nil
}

// List reads a page of sessions.
func (c *Client) List(ctx context.Context, q store.Query) (store.Page, error) {
	page, _, err := request[store.Page](ctx, c, call{path: "/v1/sessions", query: encodeQuery(q)})
	return page, err
}

// ListOverview reads a page of sessions, with an overview of each chat by its id.
func (c *Client) ListOverview(ctx context.Context, q store.Query) (store.Page, map[string]holdfast.Overview, error) {
	query := encodeQuery(q)
	query.Set("overview", "true")
	page, _, err := request[struct {
		store.Page
		Overviews map[string]holdfast.Overview `json:"overviews"`
	}](ctx, c, call{path: "/v1/sessions", query: query})
	return page.Page, page.Overviews, err
}

// Holder is the live lease on a session, if there is one.
func (c *Client) Holder(ctx context.Context, ref string) (store.Lease, bool, error) {
	l, _, err := request[struct {
		Held   bool      `json:"held"`
		Holder string    `json:"holder"`
		Until  time.Time `json:"until"`
	}](ctx, c, call{path: sessionPath(ref, "/lease")})
	return store.Lease{Holder: l.Holder, Until: l.Until}, l.Held, err
}

// Execute executes an action and returns the session after it. It takes
// IfVersion, OnBusy and IdempotencyKey; Follow has the answer while it is
// written. An execution that failed and was saved returns the session together
// with its error. When the context ends, the server interrupts what it
// executes, and that can be continued. When only the connection breaks, the
// request is repeated and joins the turn that is at work.
func (c *Client) Execute(ctx context.Context, ref string, a holdfast.Action, opts ...holdfast.Option) (session.Session, error) {
	o, err := holdfast.ReadOptions("Execute", opts, "IfVersion", "OnBusy", "IdempotencyKey")
	if err != nil {
		return session.Session{}, err
	}
	in := call{
		method: http.MethodPost, path: sessionPath(ref, "/actions/"+url.PathEscape(a.Name())), body: a,
		header: keyed(o), query: url.Values{"onBusy": {o.Busy.String()}},
	}
	if o.IfVersion != nil {
		in.header.Set("If-Match", `"v`+strconv.FormatInt(*o.IfVersion, 10)+`"`)
	}
	if m, ok := a.(holdfast.SendMessage); ok {
		in.path, in.body = sessionPath(ref, "/messages"), struct {
			Text    string               `json:"text,omitempty"`
			Message *session.Message     `json:"message,omitempty"`
			Tools   []session.ClientTool `json:"tools,omitempty"`
		}{m.Text, m.Message, m.Tools}
	}
	got, _, err := request[struct {
		Session session.Info     `json:"session"`
		Problem *problem.Problem `json:"problem"`
	}](ctx, c, in)
	switch {
	case ctx.Err() != nil:
		return session.Session{}, c.leave(context.WithoutCancel(ctx), ref, in.header.Get("Idempotency-Key"), ctx.Err())
	case err != nil:
		return session.Session{}, err
	case errors.Is(got.Problem.Err(), session.ErrQueued):
		return session.Session{}, got.Problem.Err()
	}
	s, err := c.Get(ctx, got.Session.ID)
	if err == nil && s.Version() != got.Session.Version { // somebody else was faster
		s, err = c.Get(ctx, got.Session.ID, holdfast.At(got.Session.Version))
	}
	if err != nil {
		return session.Session{}, fmt.Errorf("%s was executed and saved as version %d, but the session cannot be read: %w", a.Name(), got.Session.Version, err)
	}
	return s, got.Problem.Err()
}

// How long to wait for a server to interrupt what nobody waits for any more.
const (
	leaveWait  = 5 * time.Second
	leavePause = 20 * time.Millisecond
)

// leave interrupts an execution whose caller went away, and returns its error:
// an InterruptedError if the server had begun.
func (c *Client) leave(ctx context.Context, ref, key string, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	if res, err := c.send(ctx, call{method: http.MethodDelete, path: "/v1/requests/" + url.PathEscape(key)}, nil); err == nil {
		_ = res.Body.Close() // a server that does not know the route interrupts by itself
	}
	for {
		_, held, err := c.Holder(ctx, ref)
		if err != nil {
			return cause
		}
		if !held {
			break
		}
		select {
		case <-ctx.Done():
			return cause
		case <-time.After(leavePause):
		}
	}
	s, err := c.Get(ctx, ref, holdfast.WithTail())
	if err != nil || !s.Running() || s.Waiting() {
		return cause
	}
	return &session.InterruptedError{ID: s.ID(), Seq: s.Seq(), Err: cause}
}

// Cancel cancels what executes on a session, on whichever node.
func (c *Client) Cancel(ctx context.Context, ref string) error {
	_, _, err := request[session.Info](ctx, c, call{method: http.MethodPost, path: sessionPath(ref, "/cancel")})
	return err
}

// Purge removes a session for good. It takes Cascade.
func (c *Client) Purge(ctx context.Context, ref string, opts ...holdfast.Option) error {
	o, err := holdfast.ReadOptions("Purge", opts, "Cascade")
	if err != nil {
		return err
	}
	query := url.Values{"purge": {"true"}}
	if o.Cascade {
		query.Set("cascade", "true")
	}
	_, tries, err := request[session.Info](ctx, c, call{method: http.MethodDelete, path: sessionPath(ref, ""), query: query})
	if tries > 1 && errors.Is(err, session.ErrNotFound) {
		return nil
	}
	return err
}

// Pending lists the calls that wait for a response.
func (c *Client) Pending(ctx context.Context, q holdfast.PendingQuery) (holdfast.PendingPage, error) {
	query := url.Values{}
	for _, k := range q.Kinds {
		query.Add("kind", string(k))
	}
	setText(query, "user", q.UserID)
	setText(query, "cursor", q.Cursor)
	setNumber(query, "limit", int64(q.Limit))
	page, _, err := request[holdfast.PendingPage](ctx, c, call{path: "/v1/pending", query: query})
	return page, err
}

// Respond responds to a pending call. The server says who responded.
func (c *Client) Respond(ctx context.Context, ref string, r session.Response) error {
	_, _, err := request[session.Info](ctx, c, call{
		method: http.MethodPost, path: sessionPath(ref, "/pending/"+url.PathEscape(r.PendingID)),
		body: bodyOf(r),
	})
	return err
}

// responseBody is a response as a request has it.
type responseBody struct {
	Action  session.ResponseAction `json:"action"`
	Choice  string                 `json:"choice,omitempty"`
	Text    string                 `json:"text,omitempty"`
	IsError bool                   `json:"isError,omitempty"`
}

func bodyOf(r session.Response) responseBody {
	return responseBody{r.Action, r.Choice, r.Text, r.IsError}
}

// Inbox lists what waits for a session.
func (c *Client) Inbox(ctx context.Context, ref string) ([]store.Item, error) {
	return items[store.Item](ctx, c, call{path: sessionPath(ref, "/inbox")})
}

// Commits lists the versions of a session after one of them.
func (c *Client) Commits(ctx context.Context, ref string, after int64) ([]store.CommitInfo, error) {
	return items[store.CommitInfo](ctx, c, call{path: sessionPath(ref, "/versions"), query: url.Values{"after": {strconv.FormatInt(after, 10)}}})
}

// Diff reads the changes between two versions.
func (c *Client) Diff(ctx context.Context, ref string, from, to int64) ([]session.LogEntry, error) {
	return items[session.LogEntry](ctx, c, call{path: sessionPath(ref, "/diff"), query: url.Values{"from": {strconv.FormatInt(from, 10)}, "to": {strconv.FormatInt(to, 10)}}})
}

// Log yields the changes of a session after a number.
func (c *Client) Log(ctx context.Context, ref string, after int64) iter.Seq2[session.LogEntry, error] {
	return func(yield func(session.LogEntry, error) bool) {
		last := after
		for entry, err := range records(c.follow(ctx, ref, after, true)) {
			if last = entry.Seq; !yield(entry, err) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(session.LogEntry{}, fmt.Errorf("read the log after change %d: %w", last, err))
		}
	}
}

// Watch is Log that goes on with every change as it comes, until the context
// ends.
func (c *Client) Watch(ctx context.Context, ref string, after int64) iter.Seq2[session.LogEntry, error] {
	return records(c.Follow(ctx, ref, after))
}

func records(updates iter.Seq2[holdfast.Update, error]) iter.Seq2[session.LogEntry, error] {
	return func(yield func(session.LogEntry, error) bool) {
		for u, err := range updates {
			switch {
			case err != nil:
				yield(session.LogEntry{}, err)
				return
			case u.Record != nil && !yield(*u.Record, nil):
				return
			}
		}
	}
}

// keyed returns the header that makes repetitions of one call take effect
// once: by the key that the caller gave, else by a new one.
func keyed(o holdfast.Given) http.Header {
	h := newKey()
	if o.Key != "" {
		h.Set("Idempotency-Key", o.Key)
	}
	return h
}

// items reads a list.
func items[T any](ctx context.Context, c *Client, in call) ([]T, error) {
	list, _, err := request[struct {
		Items []T `json:"items"`
	}](ctx, c, in)
	return list.Items, err
}

// encodeQuery writes a query as the parameters of a request.
func encodeQuery(q store.Query) url.Values {
	v := url.Values{}
	for _, k := range q.Kinds {
		v.Add("kind", string(k))
	}
	for _, s := range q.Statuses {
		v.Add("status", string(s))
	}
	for _, s := range q.TaskStatuses {
		v.Add("taskStatus", s)
	}
	for _, s := range q.WorkflowStatuses {
		v.Add("runStatus", s)
	}
	setPairs(v, "metadata", q.Metadata)
	for name, text := range map[string]string{
		"agent": q.Agent, "parent": q.ParentID, "origin": string(q.Origin), "user": q.UserID, "name": q.Name,
		"idPrefix": q.IDPrefix, "order": string(q.Order), "cursor": q.Cursor,
	} {
		setText(v, name, text)
	}
	for name, at := range map[string]time.Time{
		"createdAfter": q.CreatedAfter, "createdBefore": q.CreatedBefore, "updatedAfter": q.UpdatedAfter, "updatedBefore": q.UpdatedBefore,
	} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if q.Pending {
		v.Set("pending", "true")
	}
	if q.IncludeDeleted {
		v.Set("includeDeleted", "true")
	}
	setNumber(v, "limit", int64(q.Limit))
	return v
}

func setText(v url.Values, name, text string) {
	if text != "" {
		v.Set(name, text)
	}
}

func setNumber(v url.Values, name string, n int64) {
	if n != 0 {
		v.Set(name, strconv.FormatInt(n, 10))
	}
}

// Package client reaches the sessions of a server with the verbs of a runtime.
//
// Errors have the types that the runtime returns: errors.Is and errors.As work
// as if the session were in this process. A request that got no answer is sent
// again with the same idempotency key, so it takes effect once.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Config says which server to reach. URL and Key are required.
type Config struct {
	URL     string        // such as http://127.0.0.1:8420
	Key     string        // an API key
	HTTP    *http.Client  // nil: one without a time limit, because turns take long
	Retries int           // of requests that got no answer, or one that asks to come again; 0: 4, negative: none
	Backoff time.Duration // before the first retry, doubled each time; 0: 200 ms
}

// Client reaches one server. It is safe for concurrent use.
type Client struct {
	base *url.URL
	c    Config
}

// New checks the configuration. It does not reach the server.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, &session.InvalidError{Field: "URL", Reason: fmt.Sprintf("%q is not an address such as http://127.0.0.1:8420", c.URL)}
	case c.Key == "":
		return nil, &session.InvalidError{Field: "Key", Reason: "is missing; make one with: holdfast keys create"}
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{}
	}
	c.Retries = cmp.Or(c.Retries, 4)
	c.Backoff = cmp.Or(c.Backoff, 200*time.Millisecond)
	return &Client{base: base, c: c}, nil
}

// Turn is what an execution came to.
type Turn struct {
	Session   session.Info            `json:"session"`
	Reply     string                  `json:"reply"`
	Execution session.ExecutionStatus `json:"execution"`
	Stop      *session.Signal         `json:"stop"`
	Pending   []session.PendingCall   `json:"pending"`
	Usage     session.Usage           `json:"usage"`
	Cost      session.Cost            `json:"cost"`
}

// Option adjusts one call that changes a session.
type Option func(*call)

// IfVersion refuses the call unless the session is at this version.
func IfVersion(version int64) Option {
	return func(c *call) { c.header.Set("If-Match", fmt.Sprintf(`"v%d"`, version)) }
}

// IdempotencyKey makes all calls with this key one. Without it each call has
// one of its own.
func IdempotencyKey(key string) Option {
	return func(c *call) { c.header.Set("Idempotency-Key", key) }
}

// OnBusy says what to do while somebody else executes on the session.
func OnBusy(b holdfast.Busy) Option {
	return func(c *call) {
		c.query.Set("onBusy", map[holdfast.Busy]string{
			holdfast.Wait: "wait", holdfast.Reject: "reject", holdfast.Enqueue: "enqueue", holdfast.Interrupt: "interrupt",
		}[b])
	}
}

// NewSession says what to create: Agent names an agent of the server,
// Definition is a whole one instead.
type NewSession struct {
	Agent      string              `json:"agent,omitempty"`
	Definition *session.Definition `json:"definition,omitempty"`
	ID         string              `json:"id,omitempty"` // "": one that the server chooses
	Name       string              `json:"name,omitempty"`
	UserID     string              `json:"userId,omitempty"`
	Metadata   session.Values      `json:"metadata,omitempty"`
	ExpiresAt  *time.Time          `json:"expiresAt,omitempty"`
}

// Create makes a session.
func (c *Client) Create(ctx context.Context, n NewSession) (session.Info, error) {
	made, _, err := request[session.Info](ctx, c, call{method: http.MethodPost, path: "/v1/sessions", body: n, header: newKey()})
	return made, err
}

// Info reads the header of a session. Ref is an id, the beginning of one or a
// name, here as everywhere.
func (c *Client) Info(ctx context.Context, ref string) (session.Info, error) {
	i, _, err := request[session.Info](ctx, c, call{path: sessionPath(ref, ""), query: url.Values{"view": {"info"}}})
	return i, err
}

// Get reads a session with the messages that the model is shown; the last
// version for 0.
func (c *Client) Get(ctx context.Context, ref string, version int64) (session.Session, error) {
	s, _, err := request[session.Session](ctx, c, call{path: sessionPath(ref, ""), query: url.Values{"version": {strconv.FormatInt(version, 10)}}})
	return s, err
}

// List reads a page of sessions.
func (c *Client) List(ctx context.Context, q store.Query) (store.Page, error) {
	page, _, err := request[store.Page](ctx, c, call{path: "/v1/sessions", query: encodeQuery(q)})
	return page, err
}

// Send sends a message and waits for the answer.
func (c *Client) Send(ctx context.Context, ref string, m holdfast.SendMessage, opts ...Option) (Turn, error) {
	return c.turn(ctx, sessionPath(ref, "/messages"), struct {
		Text    string               `json:"text,omitempty"`
		Message *session.Message     `json:"message,omitempty"`
		Tools   []session.ClientTool `json:"tools,omitempty"`
	}{m.Text, m.Message, m.Tools}, opts)
}

// Execute executes an action.
func (c *Client) Execute(ctx context.Context, ref string, a holdfast.Action, opts ...Option) (Turn, error) {
	if m, ok := a.(holdfast.SendMessage); ok {
		return c.Send(ctx, ref, m, opts...)
	}
	return c.turn(ctx, sessionPath(ref, "/actions/"+url.PathEscape(a.Name())), a, opts)
}

// Cancel cancels what executes on a session, on whichever node.
func (c *Client) Cancel(ctx context.Context, ref string) error {
	_, _, err := request[session.Info](ctx, c, call{method: http.MethodPost, path: sessionPath(ref, "/cancel")})
	return err
}

// Fork starts a new session with the history up to a version, the last for 0.
func (c *Client) Fork(ctx context.Context, ref string, at int64, name string) (session.Info, error) {
	made, _, err := request[session.Info](ctx, c, call{method: http.MethodPost, path: sessionPath(ref, "/fork"), header: newKey(), body: struct {
		At   int64  `json:"at,omitempty"`
		Name string `json:"name,omitempty"`
	}{at, name}})
	return made, err
}

// Purge removes a session for good.
func (c *Client) Purge(ctx context.Context, ref string) error {
	_, tries, err := request[session.Info](ctx, c, call{method: http.MethodDelete, path: sessionPath(ref, ""), query: url.Values{"purge": {"true"}}})
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
	if q.Limit != 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	page, _, err := request[holdfast.PendingPage](ctx, c, call{path: "/v1/pending", query: query})
	return page, err
}

// Respond responds to a pending call. The server says who responded.
func (c *Client) Respond(ctx context.Context, ref string, r session.Response) error {
	_, _, err := request[session.Info](ctx, c, call{
		method: http.MethodPost, path: sessionPath(ref, "/pending/"+url.PathEscape(r.PendingID)),
		body: struct {
			Action  session.ResponseAction `json:"action"`
			Choice  string                 `json:"choice,omitempty"`
			Text    string                 `json:"text,omitempty"`
			IsError bool                   `json:"isError,omitempty"`
		}{r.Action, r.Choice, r.Text, r.IsError},
	})
	return err
}

// turn makes a call that executes on a session. An execution that failed and
// was saved returns the turn together with its error.
func (c *Client) turn(ctx context.Context, path string, body any, opts []Option) (Turn, error) {
	in := call{method: http.MethodPost, path: path, body: body, header: newKey(), query: url.Values{}}
	for _, o := range opts {
		o(&in)
	}
	got, _, err := request[struct {
		Turn
		Problem *problem.Problem `json:"problem"`
	}](ctx, c, in)
	if err != nil {
		return Turn{}, err
	}
	return got.Turn, got.Problem.Err()
}

// newKey returns the header that makes repetitions of one call take effect
// once.
func newKey() http.Header { return http.Header{"Idempotency-Key": {uuid.NewString()}} }

// call is one request.
type call struct {
	method string // "": GET
	path   string
	query  url.Values
	header http.Header
	body   any
}

// sessionPath returns the path of a part of a session.
func sessionPath(ref, part string) string { return "/v1/sessions/" + url.PathEscape(ref) + part }

// request makes a call, again where it got no answer, and reads the answer. It
// returns how often it tried.
func request[T any](ctx context.Context, c *Client, in call) (answer T, tries int, err error) {
	var body []byte
	if in.body != nil {
		if body, err = json.Marshal(in.body); err != nil {
			return answer, 0, fmt.Errorf("encode the request: %w", err)
		}
	}
	for wait := c.c.Backoff; ; wait *= 2 {
		tries++
		data, again, err := c.once(ctx, in, body)
		if err == nil {
			if err := json.Unmarshal(data, &answer); err != nil {
				return answer, tries, fmt.Errorf("read the server's answer: %w", err)
			}
			return answer, tries, nil
		}
		if !again || tries > c.c.Retries {
			return answer, tries, err
		}
		select {
		case <-ctx.Done():
			return answer, tries, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// once makes a call once. Again says that it may be repeated: no answer came,
// or one that asks for it.
func (c *Client) once(ctx context.Context, in call, body []byte) (answer []byte, again bool, err error) {
	res, err := c.send(ctx, in, body)
	if err != nil {
		return nil, ctx.Err() == nil, fmt.Errorf("reach the server: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, ctx.Err() == nil, fmt.Errorf("read the server's answer: %w", err)
	}
	if res.StatusCode < 300 {
		return data, false, nil
	}
	err = readProblem(res, data)
	return nil, res.Header.Get("Retry-After") != "" && res.StatusCode != http.StatusConflict, err
}

func (c *Client) send(ctx context.Context, in call, body []byte) (*http.Response, error) {
	at := *c.base
	at.Path = strings.TrimSuffix(at.Path, "/")
	target := at.String() + in.path
	if len(in.query) > 0 {
		target += "?" + in.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(in.method, http.MethodGet), target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range in.header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+c.c.Key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.c.HTTP.Do(req)
}

// readProblem returns the error that a response stands for.
func readProblem(res *http.Response, data []byte) error {
	var p problem.Problem
	if err := json.Unmarshal(data, &p); err != nil || p.Code == "" {
		return fmt.Errorf("the server answered %s: %s", res.Status, strings.TrimSpace(string(data[:min(len(data), 200)])))
	}
	return p.Err()
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
	for key, value := range q.Metadata {
		v.Add("metadata", key+"="+value)
	}
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
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

func setText(v url.Values, name, text string) {
	if text != "" {
		v.Set(name, text)
	}
}

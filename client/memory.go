package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

// Memory is what is remembered for a session, its user and its agent.
func (c *Client) Memory(ctx context.Context, ref string) (memory.Handle, error) {
	i, err := c.Info(ctx, ref)
	return &handle{c, i}, err
}

// ExtractFacts extracts the facts of turns that were not looked at yet, and
// counts those turns.
func (c *Client) ExtractFacts(ctx context.Context, ref string) (int, error) {
	got, _, err := request[struct {
		Turns int `json:"turns"`
	}](ctx, c, call{method: http.MethodPost, path: sessionPath(ref, "/facts")})
	return got.Turns, err
}

// Forget removes everything that is remembered for a user, an agent or a space,
// and takes a user's transcripts out of search where that is asked for.
func (c *Client) Forget(ctx context.Context, f memory.Forgetting) (memory.Forgotten, error) {
	got, _, err := request[memory.Forgotten](ctx, c, call{method: http.MethodPost, path: "/v1/memory/forget", body: f})
	return got, err
}

// handle is the memory of a session on a server.
type handle struct {
	c    *Client
	info session.Info
}

// SessionID is the id of the session.
func (m *handle) SessionID() string { return m.info.ID }

// Identity is the user of the session.
func (m *handle) Identity() memory.Identity {
	return memory.Identity{Tenant: m.info.Tenant, ID: m.info.UserID, Role: "user"}
}

// Recall finds what was said or stored.
func (m *handle) Recall(ctx context.Context, query string, o memory.RecallOptions) ([]memory.Hit, error) {
	o, err := o.Check(query)
	if err != nil {
		return nil, err
	}
	v := url.Values{"q": {query}, "mode": {string(o.Mode)}, "threshold": {strconv.FormatFloat(*o.Threshold, 'g', -1, 64)}}
	for _, scope := range o.Scopes {
		v.Add("scope", string(scope))
	}
	setNumber(v, "limit", int64(o.Limit))
	setFlag(v, "includeCleared", o.IncludeCleared)
	setFlag(v, "includeTrace", o.IncludeTrace)
	setNumber(v, "neighbours", int64(o.Neighbours))
	setText(v, "prefix", o.Prefix)
	setText(v, "facts", string(o.Facts))
	setFilter(v, o.Filter, "after", "before")
	return items[memory.Hit](ctx, m.c, call{path: m.path("/recall"), query: v})
}

// Store writes a value: any that is JSON.
func (m *handle) Store(ctx context.Context, scope memory.Scope, key string, value any, opts ...memory.Option) (memory.Entry, error) {
	o, err := memory.Collect("Store", opts, "IfVersion", "Tags", "Metadata", "TTL")
	if err != nil {
		return memory.Entry{}, err
	}
	in, err := m.change(http.MethodPut, scope, key, o)
	if err != nil {
		return memory.Entry{}, err
	}
	in.body, in.query = value, url.Values{}
	setFilter(in.query, memory.Filter{Tags: o.Labels.Tags, Metadata: o.Labels.Metadata}, "", "")
	if o.TTL != nil {
		in.query.Set("ttl", o.TTL.String())
	}
	e, _, err := request[memory.Entry](ctx, m.c, in)
	return e, err
}

// Get reads a value.
func (m *handle) Get(ctx context.Context, scope memory.Scope, key string, opts ...memory.Option) (memory.Entry, bool, error) {
	o, err := memory.Collect("Get", opts, "At")
	if err != nil {
		return memory.Entry{}, false, err
	}
	in, err := m.entry("", scope, key)
	if err != nil {
		return memory.Entry{}, false, err
	}
	in.query = url.Values{}
	setNumber(in.query, "version", o.At)
	e, _, err := request[memory.Entry](ctx, m.c, in)
	var missing *session.NotFoundError
	if errors.As(err, &missing) && missing.What == "memory" {
		return e, false, nil
	}
	return e, err == nil, err
}

// Delete removes a value, and reports whether there was one.
func (m *handle) Delete(ctx context.Context, scope memory.Scope, key string, opts ...memory.Option) (bool, error) {
	o, err := memory.Collect("Delete", opts, "IfVersion")
	if err != nil {
		return false, err
	}
	in, err := m.change(http.MethodDelete, scope, key, o)
	if err != nil {
		return false, err
	}
	got, tries, err := request[struct {
		Deleted bool `json:"deleted"`
	}](ctx, m.c, in)
	return got.Deleted || tries > 1 && err == nil, err
}

// Keys lists what is stored.
func (m *handle) Keys(ctx context.Context, scope memory.Scope, prefix string, p memory.KeyPage) ([]memory.Entry, error) {
	p, err := p.Check()
	if err == nil {
		err = scope.Check()
	}
	if err != nil {
		return nil, err
	}
	v := url.Values{}
	setText(v, "prefix", prefix)
	setText(v, "after", p.After)
	setNumber(v, "limit", int64(p.Limit))
	setFilter(v, p.Filter, "updatedAfter", "updatedBefore")
	return items[memory.Entry](ctx, m.c, call{path: m.path("/memory/" + url.PathEscape(string(scope))), query: v})
}

// Blocks lists the session's blocks.
func (m *handle) Blocks(ctx context.Context) ([]memory.Block, error) {
	return items[memory.Block](ctx, m.c, call{path: m.path("/blocks")})
}

// EditBlock changes a block.
func (m *handle) EditBlock(ctx context.Context, name string, edit memory.BlockEdit, opts ...memory.Option) (memory.Block, error) {
	o, err := memory.Collect("EditBlock", opts, "IfVersion", "Once")
	if err != nil {
		return memory.Block{}, err
	}
	if name == "" { // there is no route for it
		return memory.Block{}, &session.NotFoundError{What: "block", ID: name}
	}
	in := call{method: http.MethodPost, path: m.path("/blocks/" + url.PathEscape(name)), header: newKey(), body: edit}
	if o.Once != "" {
		in.header.Set("Idempotency-Key", o.Once)
	}
	if o.IfVersion != nil {
		in.header.Set("If-Match", versionTag(*o.IfVersion))
	}
	b, _, err := request[memory.Block](ctx, m.c, in)
	return b, err
}

// versionTag is the entity tag of a version.
func versionTag(version int64) string { return `"v` + strconv.FormatInt(version, 10) + `"` }

// History reads messages, also those that the model no longer sees.
func (m *handle) History(ctx context.Context, o memory.HistoryOptions) (memory.Page, error) {
	v := url.Values{}
	setText(v, "order", string(o.Order))
	setNumber(v, "limit", int64(o.Limit))
	setNumber(v, "before", o.BeforeSeq)
	setNumber(v, "after", o.AfterSeq)
	setFlag(v, "includeTrace", o.IncludeTrace)
	setFlag(v, "includeCleared", o.IncludeCleared)
	setText(v, "request", o.Request)
	setPairs(v, "metadata", o.Metadata)
	page, _, err := request[memory.Page](ctx, m.c, call{path: m.path("/messages"), query: v})
	return page, err
}

func (m *handle) path(part string) string { return sessionPath(m.info.ID, part) }

// entry is a call about a stored value.
func (m *handle) entry(method string, scope memory.Scope, key string) (call, error) {
	if key == "" { // there is no route for it
		return call{}, &session.InvalidError{Field: "key", Reason: "is empty"}
	}
	return call{method: method, path: m.path("/memory/" + url.PathEscape(string(scope)) + "/" + url.PathEscape(key))}, scope.Check()
}

// change is a call that changes a stored value.
func (m *handle) change(method string, scope memory.Scope, key string, o memory.Options) (call, error) {
	in, err := m.entry(method, scope, key)
	if o.IfVersion != nil {
		in.header = http.Header{"If-Match": {versionTag(*o.IfVersion)}}
	}
	return in, err
}

func setFlag(v url.Values, name string, set bool) {
	if set {
		v.Set(name, "true")
	}
}

func setPairs(v url.Values, name string, pairs map[string]string) {
	for key, value := range pairs {
		v.Add(name, key+"="+value)
	}
}

// setFilter adds a filter. The names are those of its bounds in time.
func setFilter(v url.Values, f memory.Filter, after, before string) {
	for _, tag := range f.Tags {
		v.Add("tag", tag)
	}
	setPairs(v, "meta", f.Metadata)
	for name, at := range map[string]time.Time{after: f.After, before: f.Before} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
}

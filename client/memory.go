package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Recall finds what was said or stored.
func (c *Client) Recall(ctx context.Context, ref, query string, o memory.RecallOptions) ([]memory.Hit, error) {
	v := url.Values{"q": {query}}
	setText(v, "mode", string(o.Mode))
	for _, scope := range o.Scopes {
		v.Add("scope", string(scope))
	}
	if o.Limit != 0 {
		v.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Threshold != nil {
		v.Set("threshold", strconv.FormatFloat(*o.Threshold, 'g', -1, 64))
	}
	found, _, err := request[struct {
		Items []memory.Hit `json:"items"`
	}](ctx, c, call{path: sessionPath(ref, "/recall"), query: v})
	return found.Items, err
}

// Remember stores a value: any that is JSON.
func (c *Client) Remember(ctx context.Context, ref string, scope memory.Scope, key string, value any) (memory.Entry, error) {
	e, _, err := request[memory.Entry](ctx, c, call{method: http.MethodPut, path: memoryPath(ref, scope, key), body: value})
	return e, err
}

// Memory reads a stored value. One that is not there is a NotFoundError.
func (c *Client) Memory(ctx context.Context, ref string, scope memory.Scope, key string) (memory.Entry, error) {
	e, _, err := request[memory.Entry](ctx, c, call{path: memoryPath(ref, scope, key)})
	return e, err
}

// Memories lists what is stored, from the key after on.
func (c *Client) Memories(ctx context.Context, ref string, scope memory.Scope, prefix, after string) ([]memory.Entry, error) {
	v := url.Values{}
	setText(v, "prefix", prefix)
	setText(v, "after", after)
	list, _, err := request[struct {
		Items []memory.Entry `json:"items"`
	}](ctx, c, call{path: sessionPath(ref, "/memory/"+url.PathEscape(string(scope))), query: v})
	return list.Items, err
}

// Forget removes a stored value, and reports whether there was one.
func (c *Client) Forget(ctx context.Context, ref string, scope memory.Scope, key string) (bool, error) {
	got, tries, err := request[struct {
		Deleted bool `json:"deleted"`
	}](ctx, c, call{method: http.MethodDelete, path: memoryPath(ref, scope, key)})
	return got.Deleted || tries > 1 && err == nil, err
}

func memoryPath(ref string, scope memory.Scope, key string) string {
	return sessionPath(ref, "/memory/"+url.PathEscape(string(scope))+"/"+url.PathEscape(key))
}

// Messages reads the history of a session, also what the model no longer sees.
func (c *Client) Messages(ctx context.Context, ref string, o memory.HistoryOptions) (memory.Page, error) {
	v := url.Values{}
	setText(v, "order", string(o.Order))
	for name, n := range map[string]int64{"limit": int64(o.Limit), "before": o.BeforeSeq, "after": o.AfterSeq} {
		if n != 0 {
			v.Set(name, strconv.FormatInt(n, 10))
		}
	}
	for name, set := range map[string]bool{"includeTrace": o.IncludeTrace, "includeCleared": o.IncludeCleared} {
		if set {
			v.Set(name, "true")
		}
	}
	page, _, err := request[memory.Page](ctx, c, call{path: sessionPath(ref, "/messages"), query: v})
	return page, err
}

// Commits lists the versions of a session after one of them.
func (c *Client) Commits(ctx context.Context, ref string, after int64) ([]store.CommitInfo, error) {
	list, _, err := request[struct {
		Items []store.CommitInfo `json:"items"`
	}](ctx, c, call{path: sessionPath(ref, "/versions"), query: url.Values{"after": {strconv.FormatInt(after, 10)}}})
	return list.Items, err
}

// Diff reads the changes between two versions.
func (c *Client) Diff(ctx context.Context, ref string, from, to int64) ([]session.LogEntry, error) {
	list, _, err := request[struct {
		Items []session.LogEntry `json:"items"`
	}](ctx, c, call{path: sessionPath(ref, "/diff"), query: url.Values{"from": {strconv.FormatInt(from, 10)}, "to": {strconv.FormatInt(to, 10)}}})
	return list.Items, err
}

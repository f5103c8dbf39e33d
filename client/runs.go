package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// NewRun is a workflow spec to run, as YAML or JSON.
type NewRun struct {
	Spec      string            `json:"spec"`
	Variables map[string]string `json:"variables,omitempty"`
	Name      string            `json:"name,omitempty"`
	Key       string            `json:"-"` // idempotency key: repeated with it, a run is started once
}

// Run is how far a workflow run has come.
type Run struct {
	Session   session.Info          `json:"session"`
	Status    workflow.Status       `json:"status"`
	Pattern   string                `json:"pattern"`
	Agent     string                `json:"agent"`
	Response  string                `json:"response"`
	Error     string                `json:"error"`
	Variables map[string]string     `json:"variables"`
	Pending   []session.PendingCall `json:"pending"`
	Usage     workflow.TokenUsage   `json:"usage"`
	Cost      session.Cost          `json:"cost"`
	Artifacts []string              `json:"artifacts"`
}

// StartRun starts a workflow run. It returns when the run is saved; the server
// works on it.
func (c *Client) StartRun(ctx context.Context, r NewRun) (Run, error) {
	return post[Run](ctx, c, "/v1/runs", r, r.Key)
}

// Run reads how far a workflow run has come.
func (c *Client) Run(ctx context.Context, ref string) (Run, error) {
	r, _, err := request[Run](ctx, c, call{path: runPath(ref, "")})
	return r, err
}

// Runs lists workflow runs with some statuses, all without one.
func (c *Client) Runs(ctx context.Context, p Page, statuses ...string) (store.Page, error) {
	return c.listWork(ctx, "/v1/runs", p, statuses)
}

// RunGraph reads a workflow run as a graph to draw.
func (c *Client) RunGraph(ctx context.Context, ref string) (workflow.Graph, error) {
	g, _, err := request[workflow.Graph](ctx, c, call{path: runPath(ref, "/graph")})
	return g, err
}

// ResumeOptions say how a run is resumed.
type ResumeOptions struct {
	Reopen bool    `json:"reopen,omitempty"` // continue also a run that was cancelled
	Answer *string `json:"answer,omitempty"` // to the first question that waits, or to the target's
	Target string  `json:"target,omitempty"` // a branch, or the id of a pending call
}

// ResumeRun continues a workflow run. It returns when the server has begun.
func (c *Client) ResumeRun(ctx context.Context, ref string, o ResumeOptions) (Run, error) {
	return post[Run](ctx, c, runPath(ref, "/resume"), o, "")
}

// RedoRun does a unit of a run again, and everything that came after it.
func (c *Client) RedoRun(ctx context.Context, ref, unit string) (Run, error) {
	return post[Run](ctx, c, runPath(ref, "/redo"), struct {
		Unit string `json:"unit"`
	}{unit}, "")
}

// ForkRun starts a new run with the same history, and other variables or
// answers. Resuming it does again what came after those.
func (c *Client) ForkRun(ctx context.Context, ref string, o workflow.ForkOptions) (session.Session, error) {
	header := keyed(holdfast.Given{Key: o.Key})
	if o.ID != "" {
		header = nil
	}
	return c.make(ctx, call{method: http.MethodPost, path: runPath(ref, "/fork"), header: header, body: struct {
		At        int64             `json:"at,omitempty"`
		ID        string            `json:"id,omitempty"`
		Name      string            `json:"name,omitempty"`
		Variables spec.Map[string]  `json:"variables,omitempty"`
		Outputs   map[string]string `json:"outputs,omitempty"`
	}{o.At, o.ID, o.Name, o.Variables, o.Outputs}})
}

// SuspendRun keeps a run from continuing until it is resumed.
func (c *Client) SuspendRun(ctx context.Context, ref string) (Run, error) {
	return post[Run](ctx, c, runPath(ref, "/suspend"), nil, "")
}

// CancelRun ends a run for good.
func (c *Client) CancelRun(ctx context.Context, ref string) (Run, error) {
	return post[Run](ctx, c, runPath(ref, "/cancel"), nil, "")
}

// Page selects a part of a list. The zero value is its beginning.
type Page struct {
	Limit  int
	Cursor string
}

func (c *Client) listWork(ctx context.Context, path string, p Page, statuses []string) (store.Page, error) {
	query := url.Values{"status": statuses}
	setText(query, "cursor", p.Cursor)
	setNumber(query, "limit", int64(p.Limit))
	page, _, err := request[store.Page](ctx, c, call{path: path, query: query})
	return page, err
}

func runPath(ref, part string) string { return "/v1/runs/" + url.PathEscape(ref) + part }

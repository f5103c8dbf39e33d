package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/node"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/session"
)

// Keys reaches the API keys of a server with the verbs of an apikey.Keys. They
// are those of the tenant of the client's key, which needs the scope admin. The
// server knows who acts, so actors are not sent.
type Keys struct{ c *Client }

// Keys returns the API keys of the server.
func (c *Client) Keys() Keys { return Keys{c} }

// Create makes a key and returns its secret, which cannot be had again.
func (k Keys) Create(ctx context.Context, want apikey.Key, _ string) (apikey.Key, string, error) {
	made, err := post[struct {
		apikey.Key
		Secret string `json:"secret"`
	}](ctx, k.c, "/v1/keys", struct {
		Label     string         `json:"label,omitempty"`
		UserID    string         `json:"userId,omitempty"`
		Scopes    []apikey.Scope `json:"scopes"`
		ExpiresAt *time.Time     `json:"expiresAt,omitempty"`
	}{want.Label, want.UserID, want.Scopes, want.ExpiresAt}, "")
	return made.Key, made.Secret, err
}

// List lists the keys of the tenant.
func (k Keys) List(ctx context.Context, _ string) ([]apikey.Key, error) {
	return items[apikey.Key](ctx, k.c, call{path: "/v1/keys"})
}

// Revoke ends a key.
func (k Keys) Revoke(ctx context.Context, _, id, _ string) (apikey.Key, error) {
	key, _, err := request[apikey.Key](ctx, k.c, call{method: http.MethodDelete, path: "/v1/keys/" + url.PathEscape(id)})
	return key, err
}

// Schedules reaches the schedules of a server with the verbs of a
// schedule.Schedules: those of the tenant of the client's key.
type Schedules struct{ c *Client }

// Schedules returns the schedules of the server.
func (c *Client) Schedules() Schedules { return Schedules{c} }

// Create makes a schedule. An agent must be one of the server's: only its name
// is sent. Messages are sent for the user of the client's key.
func (s Schedules) Create(ctx context.Context, want schedule.Schedule, _ string) (schedule.Schedule, error) {
	if want.UserID != "" {
		return schedule.Schedule{}, &session.InvalidError{Field: "user", Reason: "a server sends messages for the user of the key"}
	}
	body := struct {
		ID        string           `json:"id,omitempty"`
		Label     string           `json:"label,omitempty"`
		Cron      string           `json:"cron"`
		Zone      string           `json:"zone,omitempty"`
		CatchUp   schedule.CatchUp `json:"catchUp,omitempty"`
		SessionID string           `json:"sessionId,omitempty"`
		Agent     string           `json:"agent,omitempty"`
		Text      string           `json:"text"`
	}{ID: want.ID, Label: want.Label, Cron: want.Cron, Zone: want.Zone, CatchUp: want.CatchUp, SessionID: want.SessionID, Text: want.Text}
	if want.Agent != nil {
		body.Agent = want.Agent.Name
	}
	in := call{method: http.MethodPost, path: "/v1/schedules", body: body}
	if want.ID == "" { // with an id it is created once
		in.header = newKey()
	}
	made, _, err := request[schedule.Schedule](ctx, s.c, in)
	return made, err
}

// List lists the schedules.
func (s Schedules) List(ctx context.Context, _ string) ([]schedule.Schedule, error) {
	return items[schedule.Schedule](ctx, s.c, call{path: "/v1/schedules"})
}

// Pause stops a schedule for a while, or lets it go on.
func (s Schedules) Pause(ctx context.Context, _, id string, paused bool, _ string) (schedule.Schedule, error) {
	part := "/resume"
	if paused {
		part = "/pause"
	}
	return post[schedule.Schedule](ctx, s.c, schedulePath(id)+part, nil, "")
}

// Delete removes a schedule.
func (s Schedules) Delete(ctx context.Context, _, id, _ string) error {
	_, _, err := request[schedule.Schedule](ctx, s.c, call{method: http.MethodDelete, path: schedulePath(id)})
	return err
}

func schedulePath(id string) string { return "/v1/schedules/" + url.PathEscape(id) }

// Nodes reaches the nodes of a server with the verbs of a node.Nodes. The key
// needs the scope admin, in the tenant default.
type Nodes struct{ c *Client }

// Nodes returns the processes that share the store of the server.
func (c *Client) Nodes() Nodes { return Nodes{c} }

// List lists the nodes that live.
func (n Nodes) List(ctx context.Context) ([]node.Node, error) {
	return items[node.Node](ctx, n.c, call{path: "/v1/system/nodes"})
}

// Drain has a node take no new work, or take work again.
func (n Nodes) Drain(ctx context.Context, id string, draining bool, _ string) error {
	part := "/undrain"
	if draining {
		part = "/drain"
	}
	_, err := post[struct{}](ctx, n.c, "/v1/system/nodes/"+url.PathEscape(id)+part, nil, "")
	return err
}

// Agents lists the agents of the server, by name, model and description.
func (c *Client) Agents(ctx context.Context) ([]session.Definition, error) {
	return items[session.Definition](ctx, c, call{path: "/v1/agents"})
}

// Models lists the names of the models that the server can use.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	list, err := items[struct {
		Name string `json:"name"`
	}](ctx, c, call{path: "/v1/models"})
	names := make([]string, len(list))
	for i, m := range list {
		names[i] = m.Name
	}
	return names, err
}

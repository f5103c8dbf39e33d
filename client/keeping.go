package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
)

// Import stores a session that was built from a foreign or exported document,
// such as session.Session.Imported returns. The server gives it the tenant of
// the key and an agent id of its own.
func (c *Client) Import(ctx context.Context, s session.Session) (session.Session, error) {
	if s.IsZero() {
		return session.Session{}, &session.InvalidError{Field: "session", Reason: "is empty"}
	}
	body := struct {
		Document session.Session          `json:"document"`
		From     *session.SessionImported `json:"from,omitempty"`
	}{Document: s}
	for _, r := range session.Unsaved(s) {
		if from, ok := r.Change.(session.SessionImported); ok {
			body.From = &from
		}
	}
	made, tries, err := request[session.Info](ctx, c, call{method: http.MethodPost, path: "/v1/sessions/import", body: body})
	var taken *session.ConflictError
	if tries > 1 && errors.As(err, &taken) && taken.Reason == session.ReasonExists { // an earlier try has arrived
		made.ID, err = s.ID(), nil
	}
	if err != nil {
		return session.Session{}, err
	}
	return c.Get(ctx, made.ID)
}

// Sweep deletes or purges sessions that are no longer wanted and returns their
// ids. The key needs the scope admin.
func (c *Client) Sweep(ctx context.Context, r holdfast.Retention) ([]string, error) {
	body := struct {
		Statuses []session.Status `json:"statuses,omitempty"`
		IdleFor  string           `json:"idleFor,omitempty"`
		Expired  bool             `json:"expired,omitempty"`
		Purge    bool             `json:"purge,omitempty"`
		Limit    int              `json:"limit,omitempty"`
		DryRun   bool             `json:"dryRun,omitempty"`
	}{Statuses: r.Statuses, Expired: r.Expired, Purge: r.Purge, Limit: r.Limit, DryRun: r.DryRun}
	if r.IdleFor != 0 {
		body.IdleFor = r.IdleFor.String()
	}
	got, _, err := request[struct {
		Items   []string         `json:"items"`
		Problem *problem.Problem `json:"problem"`
	}](ctx, c, call{method: http.MethodPost, path: "/v1/sessions/sweep", body: body})
	if err != nil {
		return nil, err
	}
	return got.Items, got.Problem.Err()
}

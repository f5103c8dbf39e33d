package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
)

// addKeeping adds the routes by which sessions come and go: imports and sweeps.
func (s *Server) addKeeping() {
	tags := []string{"sessions"}
	register(s, apikey.Write, huma.Operation{
		OperationID: "import-session", Method: http.MethodPost, Path: "/v1/sessions/import", DefaultStatus: http.StatusCreated,
		Summary: "Store a session document", Tags: tags,
		Description: "The document is what GET /v1/sessions/{ref}?view=whole returns, here or elsewhere. The session begins with version 1 in the tenant of the key. " +
			"What its permissions allowed is left out, and its approvals are asked for again. An id that is taken is a conflict: repeating it changes nothing more.",
	}, s.importSession)
	register(s, apikey.Admin, huma.Operation{
		OperationID: "sweep-sessions", Method: http.MethodPost, Path: "/v1/sessions/sweep",
		Summary: "Delete sessions that are idle or expired", Tags: tags,
		Description: "Sessions of the caller's tenant. Those that execute, were interrupted or have an unread inbox stay. Repeating it changes nothing more.",
	}, sweep)
}

type importInput struct {
	Body struct {
		Document json.RawMessage          `json:"document" doc:"A whole session document"`
		ID       string                   `json:"id,omitempty" doc:"Another id than the document's"`
		From     *session.SessionImported `json:"from,omitempty" doc:"Where it came from, if it was not a document of this program at first"`
	}
}

func (s *Server) importSession(ctx context.Context, c caller, in *importInput) (*created, error) {
	document, err := session.Decode(in.Body.Document)
	if err != nil {
		return nil, err
	}
	from := session.SessionImported{Format: session.Format}
	if in.Body.From != nil {
		from = *in.Body.From
	}
	made, err := document.Imported(in.Body.ID, uuid.NewString(), c.Tenant, from, s.config.Now())
	if err == nil {
		made, err = c.rt.Import(ctx, made)
	}
	if err != nil {
		return nil, err
	}
	return createdOf(made), nil
}

type sweepInput struct {
	Body struct {
		Statuses []session.Status `json:"statuses,omitempty" doc:"Any but deleted by default"`
		IdleFor  string           `json:"idleFor,omitempty" doc:"Not updated for so long, such as 720h"`
		Expired  bool             `json:"expired,omitempty" doc:"Only those past their expiry"`
		Purge    bool             `json:"purge,omitempty" doc:"Remove them for good; otherwise they can be restored"`
		Limit    int              `json:"limit,omitempty" minimum:"0" doc:"1000 by default"`
		DryRun   bool             `json:"dryRun,omitempty" doc:"Only say which"`
	}
}

type sweepOutput struct {
	Body struct {
		Items   []string         `json:"items" doc:"The ids of the sessions"`
		Problem *problem.Problem `json:"problem,omitempty" doc:"Why others were left"`
	}
}

func sweep(ctx context.Context, c caller, in *sweepInput) (*sweepOutput, error) {
	b := in.Body
	r := holdfast.Retention{Statuses: b.Statuses, Expired: b.Expired, Purge: b.Purge, Limit: b.Limit, DryRun: b.DryRun}
	if b.IdleFor == "" && !b.Expired {
		return nil, &session.InvalidError{Field: "idleFor", Reason: "give idleFor or expired; without them every session would be deleted"}
	}
	if b.IdleFor != "" {
		var err error
		if r.IdleFor, err = time.ParseDuration(b.IdleFor); err != nil || r.IdleFor <= 0 {
			return nil, &session.InvalidError{Field: "idleFor", Reason: quoteShort(b.IdleFor) + " is not a time such as 720h"}
		}
	}
	swept, err := c.rt.Sweep(ctx, r)
	if err != nil && len(swept) == 0 {
		return nil, err
	}
	out := &sweepOutput{}
	out.Body.Items, out.Body.Problem = append([]string{}, swept...), problem.Of(err)
	return out, nil
}

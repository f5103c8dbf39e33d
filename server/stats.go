package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/store"
)

func (s *Server) addStats() {
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-stats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "Read what the answers of models used, in groups", Tags: []string{"system"},
		Description: "Every answer counts once, at the time it was written, whatever became of it later. What a fork shares with its parent counts for the parent only; a session that was purged no longer counts.",
	}, stats)
}

type statsInput struct {
	Group string    `query:"group" enum:"day,agent,model,user,session" default:"day"`
	From  time.Time `query:"from" doc:"Only answers since this time"`
	To    time.Time `query:"to" doc:"Only answers before this time"`
}

type statsOutput struct {
	Body struct {
		Items      []store.GroupSpending `json:"items" doc:"Days (UTC) in order; otherwise the most expensive first"`
		Unreadable int                   `json:"unreadable,omitempty" doc:"How many answers are left out because they cannot be read"`
	}
}

func stats(ctx context.Context, c caller, in *statsInput) (*statsOutput, error) {
	spending, err := c.rt.Spending(ctx, store.SpendingQuery{From: in.From, To: in.To, By: store.SpendingGroup(in.Group)})
	if err != nil {
		return nil, err
	}
	out := &statsOutput{}
	out.Body.Items, out.Body.Unreadable = spending.Groups, spending.Unreadable
	return out, nil
}

package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func (s *Server) addStats() {
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-stats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "Read what the answers of models used, in groups", Tags: []string{"system"},
		Description: "Every answer counts once, at the time it was written, whatever became of it later. What a fork shares with its parent counts for the parent only; a session that was purged no longer counts.",
	}, stats)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-session-stats", Method: http.MethodGet, Path: "/v1/stats/sessions",
		Summary: "Read what some sessions used, and who works on them", Tags: []string{"system"},
		Description: "A session that is not there, or that cannot be read, is left out.",
	}, sessionStats)
}

type sessionStatsInput struct {
	IDs     []string `query:"id,explode" required:"true" minItems:"1" maxItems:"100" doc:"Ids of sessions, at most 100"`
	Holders bool     `query:"holders" doc:"Only who works on them, which is read faster"`
}

// sessionStat is what a session used, and who works on it.
type sessionStat struct {
	SessionID string         `json:"sessionId"`
	Usage     *session.Usage `json:"usage,omitempty"`
	Cost      *session.Cost  `json:"cost,omitempty"`
	Holder    string         `json:"holder,omitempty" doc:"The process that has the lease"`
}

type sessionStatsOutput struct {
	Body struct {
		Items []sessionStat `json:"items"`
	}
}

func sessionStats(ctx context.Context, c caller, in *sessionStatsInput) (*sessionStatsOutput, error) {
	out := &sessionStatsOutput{}
	out.Body.Items = []sessionStat{}
	for _, id := range in.IDs {
		stat, err := statOf(ctx, c, id, in.Holders)
		if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNewerFormat) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Body.Items = append(out.Body.Items, stat)
	}
	return out, nil
}

func statOf(ctx context.Context, c caller, id string, holderOnly bool) (sessionStat, error) {
	stat := sessionStat{SessionID: id}
	l, held, err := c.rt.Holder(ctx, id)
	if held {
		stat.Holder = l.Holder
	}
	if err != nil || holderOnly {
		return stat, err
	}
	s, err := c.rt.Get(ctx, id)
	if err != nil {
		return stat, err
	}
	usage, cost := s.Usage()
	stat.Usage, stat.Cost = &usage, &cost
	return stat, nil
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

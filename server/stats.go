package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func (s *Server) addStats() {
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-stats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "Read what sessions have used, in groups", Tags: []string{"system"},
		Description: "Adds up the sessions that were used last, at most limit of them. A session counts with all that it has used, under the model it has now and the day of its last change (UTC).",
	}, stats)
}

type statsInput struct {
	Group string    `query:"group" enum:"agent,model,day" default:"agent"`
	After time.Time `query:"after" doc:"Only sessions that changed after this time"`
	Limit int       `query:"limit" minimum:"1" maximum:"5000" default:"1000" doc:"How many sessions are added up"`
}

// statsGroup is what the sessions of one group have used.
type statsGroup struct {
	Group      string        `json:"group" doc:"The name of the agent or the model, or the day"`
	Sessions   int           `json:"sessions"`
	Inferences int           `json:"inferences"`
	Usage      session.Usage `json:"usage"`
	Cost       session.Cost  `json:"cost"`
}

type statsOutput struct {
	Body struct {
		Items    []statsGroup `json:"items" doc:"The most expensive first; days in order"`
		Sessions int          `json:"sessions" doc:"How many sessions were added up"`
		More     bool         `json:"more,omitempty" doc:"There are more sessions than the limit"`
	}
}

func stats(ctx context.Context, c caller, in *statsInput) (*statsOutput, error) {
	out := &statsOutput{}
	groups := map[string]*statsGroup{}
	for i, err := range c.rt.Sessions(ctx, store.Query{UpdatedAfter: in.After}) {
		if err != nil {
			return nil, err
		}
		if out.Body.More = out.Body.Sessions == in.Limit; out.Body.More {
			break
		}
		s, err := c.rt.Get(ctx, i.ID)
		if err != nil {
			continue // it was purged meanwhile, or cannot be read
		}
		name := i.AgentName
		switch in.Group {
		case "model":
			name = cmp.Or(s.Model(), "default")
		case "day":
			name = i.UpdatedAt.UTC().Format(time.DateOnly)
		}
		g, ok := groups[name]
		if !ok {
			g = &statsGroup{Group: name}
			groups[name] = g
		}
		out.Body.Sessions++
		g.add(s)
	}
	out.Body.Items = []statsGroup{}
	for _, g := range groups {
		out.Body.Items = append(out.Body.Items, *g)
	}
	slices.SortFunc(out.Body.Items, func(a, b statsGroup) int {
		if in.Group == "day" {
			return cmp.Compare(a.Group, b.Group)
		}
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Usage.Total(), a.Usage.Total()), cmp.Compare(a.Group, b.Group))
	})
	return out, nil
}

func (g *statsGroup) add(s session.Session) {
	usage, cost := s.Usage()
	g.Sessions++
	g.Inferences += s.InferenceCount()
	g.Usage = g.Usage.Plus(usage)
	g.Cost += cost
}

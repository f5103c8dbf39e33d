package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/projector"
)

func (s *Server) addItems() {
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-items", Method: http.MethodGet, Path: "/v1/sessions/{ref}/items",
		Summary: "Read what there is to show of a session", Tags: []string{"messages"},
		Description: "Items are what views show: messages, reasoning, tool calls with their results, pending calls, what each step used, changes of status. " +
			"The newest are returned, in the order of the log. The topic items:REF:N of /v1/events continues where seq ends.",
	}, items)
}

type itemsInput struct {
	SessionRef
	Version int64 `query:"version" minimum:"0" doc:"As they were at this version; all of the log by default"`
	Before  int64 `query:"before" minimum:"0" doc:"Only items that begin before this change"`
	Limit   int   `query:"limit" minimum:"1" maximum:"1000" default:"200"`
}

type itemsOutput struct {
	Body struct {
		Items []projector.Item `json:"items"`
		Seq   int64            `json:"seq" doc:"The last change that was read"`
		Total int              `json:"total" doc:"How many items there are"`
		More  bool             `json:"more,omitempty" doc:"There are items before these: pass the seq of the first as before"`
	}
}

func items(ctx context.Context, c caller, in *itemsInput) (*itemsOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	last := int64(0) // a fork's log begins with versions of its parent, so its own are told by number
	if in.Version != 0 {
		s, err := c.rt.Get(ctx, i.ID, holdfast.At(in.Version))
		if err != nil {
			return nil, err
		}
		last = s.Info().Seq
	}
	out := &itemsOutput{}
	p := projector.New(i.ID)
	for e, err := range c.rt.Log(ctx, i.ID, 0) {
		if err != nil {
			return nil, err
		}
		if last != 0 && e.Seq > last {
			break
		}
		p.Apply(holdfast.Update{Record: &e})
		out.Body.Seq = e.Seq
	}
	all := p.Items()
	out.Body.Total = len(all)
	out.Body.Items, out.Body.More = lastItems(all, in.Before, in.Limit)
	return out, nil
}

// lastItems returns the last items that begin before a change, 0: the last of
// all, and whether there are more before them. Items of one change are never
// parted, so that the first one's number is the next page.
func lastItems(all []projector.Item, before int64, limit int) (page []projector.Item, more bool) {
	end := len(all)
	for before > 0 && end > 0 && all[end-1].Seq >= before {
		end--
	}
	begin := max(end-limit, 0)
	for begin > 0 && all[begin-1].Seq == all[begin].Seq {
		begin--
	}
	return append([]projector.Item{}, all[begin:end]...), begin > 0
}

// itemChanges turns the updates of a session into changes of its items, from
// the change after on. It reads the log from its beginning, because an item may
// have begun anywhere.
func itemChanges(ctx context.Context, f followed, updates <-chan update, out chan<- topicUpdate) {
	p := projector.New(f.id)
	for u := range updates {
		t := topicUpdate{followed: f, update: u, changes: p.Apply(u.Update)}
		if u.Record != nil && u.Record.Seq <= f.after {
			continue
		}
		select {
		case out <- t:
		case <-ctx.Done():
			return
		}
	}
}

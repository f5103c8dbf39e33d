package server

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
)

type changesInput struct {
	SessionRef
	After int64    `query:"after" minimum:"0" doc:"Only changes after this number"`
	Kind  []string `query:"kind,explode" doc:"Only changes of these kinds, such as message_added"`
	Limit int      `query:"limit" minimum:"1" maximum:"1000" default:"200"`
}

type changesOutput struct {
	Body struct {
		Items []session.LogEntry `json:"items"`
		Next  int64              `json:"next,omitempty" doc:"The after of the next page"`
	}
}

// changes returns a page of the log. For a fork its parent's changes come first.
func changes(ctx context.Context, c caller, in *changesInput) (*changesOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	out := &changesOutput{}
	out.Body.Items = []session.LogEntry{}
	for e, err := range c.rt.Log(ctx, i.ID, in.After) {
		if err != nil {
			return nil, err
		}
		if len(in.Kind) > 0 && !slices.Contains(in.Kind, e.Change.Kind()) {
			continue
		}
		if len(out.Body.Items) == in.Limit {
			out.Body.Next = out.Body.Items[in.Limit-1].Seq
			break
		}
		out.Body.Items = append(out.Body.Items, e)
	}
	return out, nil
}

type sentRequestInput struct {
	SessionRef
	Version int64 `path:"version" minimum:"1"`
	Step    int   `query:"step" minimum:"0" doc:"Which request of the version, from 1; the last by default"`
}

// sentTool is a tool as the model is told of it.
type sentTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty" doc:"JSON Schema of the arguments"`
}

// sentRequest is what a model was sent.
type sentRequest struct {
	Step           int                     `json:"step" doc:"Which request of the version; 0: it has none, and this is what the model would be sent"`
	Steps          int                     `json:"steps" doc:"How many requests the version has"`
	Model          string                  `json:"model"`
	System         string                  `json:"system"`
	Messages       []session.Message       `json:"messages"`
	Tools          []sentTool              `json:"tools"`
	Params         session.ModelParams     `json:"params"`
	ResponseFormat *session.ResponseFormat `json:"responseFormat,omitempty"`
	Recalled       []string                `json:"recalled,omitempty" doc:"Passages of memory that were added to the system prompt"`
	Reasons        []session.RecallReason  `json:"reasons,omitempty" doc:"Why each of recalled was found, in the same order"`
}

type sentRequestOutput struct{ Body sentRequest }

func sentRequestAt(ctx context.Context, c caller, in *sentRequestInput) (*sentRequestOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	r, err := c.rt.SentRequest(ctx, i.ID, in.Version, in.Step)
	if err != nil {
		return nil, err
	}
	out := &sentRequestOutput{Body: sentRequest{
		Step: r.Step, Steps: r.Steps, Model: r.Model, System: r.System, Messages: append([]session.Message{}, r.Messages...),
		Tools: []sentTool{}, Params: r.Params, ResponseFormat: r.ResponseFormat, Recalled: r.Recalled, Reasons: r.Reasons,
	}}
	for _, t := range r.Tools {
		out.Body.Tools = append(out.Body.Tools, sentTool(t))
	}
	return out, nil
}

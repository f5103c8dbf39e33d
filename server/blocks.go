package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/memory"
)

func (s *Server) addBlocks() {
	tags := []string{"memory"}
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-blocks", Method: http.MethodGet, Path: "/v1/sessions/{ref}/blocks",
		Summary: "List the memory blocks that are always part of the prompt", Tags: tags,
	}, listBlocks)
	register(s, apikey.Write, huma.Operation{
		OperationID: "edit-block", Method: http.MethodPost, Path: "/v1/sessions/{ref}/blocks/{name}",
		Summary: "Change the text of a memory block", Tags: tags,
	}, editBlock)
	register(s, apikey.Write, huma.Operation{
		OperationID: "extract-facts", Method: http.MethodPost, Path: "/v1/sessions/{ref}/facts",
		Summary: "Extract the facts of turns that were not looked at yet", Tags: tags,
		Description: "The server does so by itself after each turn; this waits for it, and does what was left by one that ended. " + repeatable,
	}, extractFacts)
}

type factsOutput struct {
	Body struct {
		Turns int `json:"turns" doc:"How many turns were looked at"`
	}
}

func extractFacts(ctx context.Context, c caller, in *SessionRef) (*factsOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	out := &factsOutput{}
	out.Body.Turns, err = c.rt.ExtractFacts(ctx, i.ID)
	return out, err
}

type blocksOutput struct {
	Body struct {
		Items []memory.Block `json:"items"`
	}
}

func listBlocks(ctx context.Context, c caller, in *SessionRef) (*blocksOutput, error) {
	m, _, err := MemoryRef{SessionRef: *in}.handle(ctx, c)
	if err != nil {
		return nil, err
	}
	out := &blocksOutput{}
	out.Body.Items, err = m.Blocks(ctx)
	return out, err
}

type editBlockInput struct {
	SessionRef
	KeyHeader
	Name    string `path:"name"`
	IfMatch string `header:"If-Match" doc:"Change the block only at this version, as its ETag says it; \"v0\" if nobody has written to it"`
	Body    struct {
		Do   string `json:"do" enum:"set,replace,append,insert"`
		Text string `json:"text" doc:"The new text"`
		Old  string `json:"old,omitempty" doc:"Of replace: what the text replaces; it must be there once"`
		Line int    `json:"line,omitempty" minimum:"0" doc:"Of insert: the line after which the text becomes one; 0: before the first"`
	}
}

type blockOutput struct {
	ETag string `header:"ETag"`
	Body memory.Block
}

func editBlock(ctx context.Context, c caller, in *editBlockInput) (*blockOutput, error) {
	m, _, err := MemoryRef{SessionRef: in.SessionRef}.handle(ctx, c)
	if err != nil {
		return nil, err
	}
	opts, err := EntryRef{IfMatch: in.IfMatch}.options()
	if err != nil {
		return nil, err
	}
	if key := in.key(); key != "" {
		opts = append(opts, memory.Once(key))
	}
	b, err := m.EditBlock(ctx, in.Name, memory.BlockEdit{Do: memory.BlockDo(in.Body.Do), Text: in.Body.Text, Old: in.Body.Old, Line: in.Body.Line}, opts...)
	if err != nil {
		return nil, err
	}
	return &blockOutput{ETag: etag(b.Version), Body: b}, nil
}

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

func (s *Server) addMemory() {
	tags := []string{"memory"}
	register(s, apikey.Read, huma.Operation{
		OperationID: "recall", Method: http.MethodGet, Path: "/v1/sessions/{ref}/recall",
		Summary: "Find what was said or stored", Tags: tags,
	}, recall)
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-memory", Method: http.MethodGet, Path: "/v1/sessions/{ref}/memory/{scope}",
		Summary: "List what is stored", Tags: tags,
	}, listMemory)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-memory", Method: http.MethodGet, Path: "/v1/sessions/{ref}/memory/{scope}/{key}",
		Summary: "Read a stored value", Tags: tags,
	}, getMemory)
	register(s, apikey.Write, huma.Operation{
		OperationID: "put-memory", Method: http.MethodPut, Path: "/v1/sessions/{ref}/memory/{scope}/{key}",
		Summary: "Store a value", Tags: tags, SkipValidateBody: true, Description: setsState,
	}, putMemory)
	register(s, apikey.Write, huma.Operation{
		OperationID: "delete-memory", Method: http.MethodDelete, Path: "/v1/sessions/{ref}/memory/{scope}/{key}",
		Summary: "Remove a stored value", Tags: tags, Description: repeatable,
	}, deleteMemory)
	register(s, apikey.Admin, huma.Operation{
		OperationID: "forget", Method: http.MethodPost, Path: "/v1/memory/forget",
		Summary: "Remove everything that is remembered for a user, an agent or a space", Tags: tags,
		Description: "With transcripts, what the user has said so far is not found any more; it stays readable in its sessions. " + repeatable,
	}, forget)
}

// MemoryRef is the part of a request that names a memory.
type MemoryRef struct {
	SessionRef
	Scope string `path:"scope" doc:"session, user, agent or space:NAME"`
}

// Labelled is the part of a request that asks for labels.
type Labelled struct {
	Tag  []string `query:"tag,explode" doc:"Tags; all of them"`
	Meta []string `query:"meta,explode" doc:"Pairs of metadata, as key=value; all of them"`
}

func (in Labelled) filter(after, before time.Time) (memory.Filter, error) {
	metadata, err := pairs("meta", in.Meta)
	return memory.Filter{Tags: in.Tag, Metadata: metadata, After: after, Before: before}, err
}

func (in MemoryRef) handle(ctx context.Context, c caller) (memory.Handle, memory.Scope, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, "", err
	}
	m, err := c.rt.Memory(ctx, i.ID)
	return m, memory.Scope(in.Scope), err
}

type forgetInput struct {
	Body memory.Forgetting
}

type forgetOutput struct {
	Body memory.Forgotten
}

func forget(ctx context.Context, c caller, in *forgetInput) (*forgetOutput, error) {
	n, err := c.rt.Forget(ctx, in.Body)
	return &forgetOutput{n}, err
}

type recallInput struct {
	SessionRef
	Labelled
	Query          string    `query:"q" required:"true" minLength:"1"`
	Mode           string    `query:"mode" enum:"hybrid,keyword,semantic" default:"hybrid"`
	Scope          []string  `query:"scope,explode" doc:"session, user, agent or space:NAME; session by default"`
	Limit          int       `query:"limit" minimum:"0" maximum:"100" doc:"5 by default"`
	IncludeCleared bool      `query:"includeCleared" doc:"Also what a clear or a rewind removed"`
	IncludeTrace   bool      `query:"includeTrace" doc:"Also messages of intermediate steps"`
	Neighbours     int       `query:"neighbours" minimum:"0" maximum:"10" doc:"How many messages before and after a found one come along"`
	Prefix         string    `query:"prefix" doc:"Only entries whose keys are below it"`
	After          time.Time `query:"after" doc:"Only what was written after it"`
	Before         time.Time `query:"before" doc:"Only what was written before it"`
	Facts          string    `query:"facts" enum:"now,all" default:"now" doc:"Only facts that are true now, or all"`
	Threshold      float64   `query:"threshold" minimum:"-1" maximum:"1" default:"-1" doc:"The least score; 0.55 if it is negative"`
}

type recallOutput struct {
	Body struct {
		Items []memory.Hit `json:"items"`
	}
}

func recall(ctx context.Context, c caller, in *recallInput) (*recallOutput, error) {
	i, err := in.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	m, err := c.rt.Memory(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	filter, err := in.filter(in.After, in.Before)
	if err != nil {
		return nil, err
	}
	o := memory.RecallOptions{
		Mode: memory.Mode(in.Mode), Limit: in.Limit, IncludeCleared: in.IncludeCleared, IncludeTrace: in.IncludeTrace, Neighbours: in.Neighbours,
		Prefix: in.Prefix, Filter: filter, Facts: memory.FactTime(in.Facts),
	}
	if in.Threshold >= 0 {
		o.Threshold = &in.Threshold
	}
	for _, scope := range in.Scope {
		o.Scopes = append(o.Scopes, memory.Scope(scope))
	}
	hits, err := m.Recall(ctx, in.Query, o)
	if err != nil {
		return nil, err
	}
	out := &recallOutput{}
	out.Body.Items = append([]memory.Hit{}, hits...)
	return out, nil
}

type listMemoryInput struct {
	MemoryRef
	Labelled
	Prefix        string    `query:"prefix"`
	After         string    `query:"after" doc:"Only keys after this one"`
	Limit         int       `query:"limit" minimum:"0" maximum:"1000" doc:"100 by default"`
	UpdatedAfter  time.Time `query:"updatedAfter" doc:"Only what was written after it"`
	UpdatedBefore time.Time `query:"updatedBefore" doc:"Only what was written before it"`
}

type listMemoryOutput struct {
	Body struct {
		Items []memory.Entry `json:"items"`
	}
}

func listMemory(ctx context.Context, c caller, in *listMemoryInput) (*listMemoryOutput, error) {
	m, scope, err := in.handle(ctx, c)
	if err != nil {
		return nil, err
	}
	filter, err := in.filter(in.UpdatedAfter, in.UpdatedBefore)
	if err != nil {
		return nil, err
	}
	entries, err := m.Keys(ctx, scope, in.Prefix, memory.KeyPage{After: in.After, Limit: in.Limit, Filter: filter})
	if err != nil {
		return nil, err
	}
	out := &listMemoryOutput{}
	out.Body.Items = append([]memory.Entry{}, entries...)
	return out, nil
}

// EntryRef is the part of a request that names a stored value.
type EntryRef struct {
	MemoryRef
	Key     string `path:"key" doc:"Slashes in it are written as %2F"`
	IfMatch string `header:"If-Match" doc:"Change the value only at this version, as its ETag says it; \"v0\" if there must be none"`
}

// options returns the version that a request demands.
func (in EntryRef) options() ([]memory.Option, error) {
	if in.IfMatch == "" {
		return nil, nil
	}
	var version int64
	if _, err := fmt.Sscanf(in.IfMatch, `"v%d"`, &version); err != nil || version < 0 {
		return nil, &session.InvalidError{Field: "If-Match", Reason: fmt.Sprintf("%s is not an entity tag such as \"v7\"", quoteShort(in.IfMatch))}
	}
	return []memory.Option{memory.IfVersion(version)}, nil
}

type entryOutput struct {
	ETag string `header:"ETag"`
	Body memory.Entry
}

type getMemoryInput struct {
	EntryRef
	Version int64 `query:"version" minimum:"0" doc:"An earlier version; the last by default"`
}

func getMemory(ctx context.Context, c caller, in *getMemoryInput) (*entryOutput, error) {
	m, scope, err := in.handle(ctx, c)
	if err != nil {
		return nil, err
	}
	var opts []memory.Option
	if in.Version != 0 {
		opts = append(opts, memory.At(in.Version))
	}
	e, found, err := m.Get(ctx, scope, in.Key, opts...)
	if err == nil && !found {
		err = &session.NotFoundError{What: "memory", ID: in.Key}
	}
	if err != nil {
		return nil, err
	}
	return &entryOutput{ETag: etag(e.Version), Body: e}, nil
}

type putInput struct {
	EntryRef
	Labelled
	TTL  string          `query:"ttl" doc:"How long it is kept, such as 720h; for ever by default"`
	Body json.RawMessage `doc:"Any JSON value"`
}

// labels adds the labels of what is stored.
func (in putInput) labels(opts []memory.Option) ([]memory.Option, error) {
	metadata, err := pairs("meta", in.Meta)
	if err != nil {
		return nil, err
	}
	opts = append(opts, memory.Tags(in.Tag...), memory.Metadata(metadata))
	if in.TTL == "" {
		return opts, nil
	}
	ttl, err := time.ParseDuration(in.TTL)
	if err != nil {
		return nil, &session.InvalidError{Field: "ttl", Reason: fmt.Sprintf("%s is not a duration such as 720h", quoteShort(in.TTL))}
	}
	return append(opts, memory.TTL(ttl)), nil
}

func putMemory(ctx context.Context, c caller, in *putInput) (*entryOutput, error) {
	m, scope, err := in.handle(ctx, c)
	if err != nil {
		return nil, err
	}
	opts, err := in.options()
	if err == nil {
		opts, err = in.labels(opts)
	}
	if err != nil {
		return nil, err
	}
	e, err := m.Store(ctx, scope, in.Key, in.Body, opts...)
	if err != nil {
		return nil, err
	}
	return &entryOutput{ETag: etag(e.Version), Body: e}, nil
}

type deletedOutput struct {
	Body struct {
		Key     string `json:"key"`
		Deleted bool   `json:"deleted" doc:"Whether there was such a key"`
	}
}

func deleteMemory(ctx context.Context, c caller, in *EntryRef) (*deletedOutput, error) {
	m, scope, err := in.handle(ctx, c)
	if err != nil {
		return nil, err
	}
	opts, err := in.options()
	if err != nil {
		return nil, err
	}
	out := &deletedOutput{}
	out.Body.Key = in.Key
	out.Body.Deleted, err = m.Delete(ctx, scope, in.Key, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

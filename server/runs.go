package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Runs says how a server runs workflow specs.
type Runs struct {
	// Host returns what a run needs, for a runtime's view. It is asked for each
	// request.
	Host func(rt *holdfast.Runtime) (workflow.Host, error)
	// Check refuses a spec that needs what this server does not offer. Nil: none.
	Check func(s *spec.Spec) error
}

func (s *Server) addRuns() {
	tags := []string{"runs"}
	register(s, apikey.Write, huma.Operation{
		OperationID: "start-run", Method: http.MethodPost, Path: "/v1/runs", DefaultStatus: http.StatusCreated,
		Summary: "Run a workflow spec", Tags: tags,
		Description: "The run is saved and this node begins to work on it. The spec may not reach outside of itself: see docs/server.md.",
	}, s.startRun)
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-runs", Method: http.MethodGet, Path: "/v1/runs",
		Summary: "List workflow runs, the last used first", Tags: tags,
	}, listRuns)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-run", Method: http.MethodGet, Path: "/v1/runs/{ref}",
		Summary: "Read how far a workflow run has come", Tags: tags,
	}, getRun)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-graph", Method: http.MethodGet, Path: "/v1/runs/{ref}/graph",
		Summary: "Read a workflow run as a graph to draw, with coordinates", Tags: tags,
	}, getGraph)
	register(s, apikey.Read, huma.Operation{
		OperationID: "export-graph", Method: http.MethodGet, Path: "/v1/runs/{ref}/graph/{format}",
		Summary: "Read the graph of a workflow run in the language of Mermaid or Graphviz", Tags: tags,
		Responses: map[string]*huma.Response{
			"200": {Description: "The graph", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}},
		},
	}, exportGraph)
	background := workResponses[run](s)
	register(s, apikey.Write, huma.Operation{
		OperationID: "resume-run", Method: http.MethodPost, Path: "/v1/runs/{ref}/resume",
		Summary: "Continue a workflow run", Tags: tags, Responses: background,
		Description: "After a failure, an interruption or the responses it waited for. Nothing that was answered is asked again.",
	}, s.resumeRun)
	register(s, apikey.Write, huma.Operation{
		OperationID: "redo-run", Method: http.MethodPost, Path: "/v1/runs/{ref}/redo",
		Summary: "Do a unit of a workflow run again, and everything that came after it", Tags: tags, Responses: background,
	}, s.redoRun)
	register(s, apikey.Write, huma.Operation{
		OperationID: "fork-run", Method: http.MethodPost, Path: "/v1/runs/{ref}/fork", DefaultStatus: http.StatusCreated,
		Summary: "Start a new run with the same history, and other variables or answers", Tags: tags,
		Description: "What came after another answer is done again, once the new run is resumed.",
	}, forkRun)
	for _, a := range []struct {
		path, summary string
		stop          func(context.Context, *holdfast.Runtime, string) (bool, error)
	}{
		{"cancel", "End a workflow run for good", workflow.Cancel},
		{"suspend", "Keep a workflow run from continuing until it is resumed", workflow.Suspend},
	} {
		register(s, apikey.Write, huma.Operation{
			OperationID: a.path + "-run", Method: http.MethodPost, Path: "/v1/runs/{ref}/" + a.path, DefaultStatus: http.StatusAccepted,
			Summary: a.summary, Tags: tags,
			Description: "A node that works on it is told; the run may not show it yet.",
		}, func(ctx context.Context, c caller, in *keyedRef) (*runOutput, error) {
			i, err := in.resolveRun(ctx, c)
			if err != nil {
				return nil, err
			}
			if c, err = in.once(ctx, c, i.ID, in); err == nil {
				_, err = a.stop(ctx, c.rt, i.ID)
			}
			if err != nil && !errors.Is(err, holdfast.ErrRepeated) {
				return nil, err
			}
			return readRun(ctx, c, i.ID, http.StatusAccepted)
		})
	}
}

// resolveRun finds the workflow run that a request names.
func (in SessionRef) resolveRun(ctx context.Context, c caller) (session.Info, error) {
	i, err := in.resolve(ctx, c)
	if err == nil && i.Kind != session.KindWorkflow {
		err = &session.NotFoundError{What: "run", ID: i.ID}
	}
	return i, err
}

// run is how far a workflow run has come.
type run struct {
	Session   session.Info          `json:"session"`
	Status    workflow.Status       `json:"status"`
	Pattern   string                `json:"pattern"`
	Agent     string                `json:"agent,omitempty" doc:"Who gave the response"`
	Response  string                `json:"response,omitempty" doc:"The last response, once there is one"`
	Error     string                `json:"error,omitempty" doc:"Why it failed"`
	Variables map[string]string     `json:"variables"`
	Pending   []session.PendingCall `json:"pending" doc:"What waits for a response"`
	Usage     workflow.TokenUsage   `json:"usage"`
	Cost      session.Cost          `json:"cost"`
	Artifacts []string              `json:"artifacts" doc:"Files that it has written"`
}

type runOutput struct {
	Status   int
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     run
}

// readRun reads a run as it stands.
func readRun(ctx context.Context, c caller, id string, status int) (*runOutput, error) {
	s, err := c.rt.Get(ctx, id, holdfast.Whole(), holdfast.WithTail())
	if err != nil {
		return nil, err
	}
	state, err := workflow.Project(s) //nolint:contextcheck // it reads what is there and waits for nobody
	if err != nil {
		return nil, err
	}
	out := &runOutput{Status: status, Location: "/v1/runs/" + id, ETag: etag(s.Version())}
	out.Body = run{
		Session: s.Info(), Status: state.Metadata.Status, Pattern: string(state.Metadata.PatternType), Agent: state.Agent, Response: state.Final,
		Variables: map[string]string{}, Pending: append([]session.PendingCall{}, state.Waiting...), Usage: state.Usage, Artifacts: append([]string{}, state.Artifacts...),
	}
	if state.Metadata.Error != nil {
		out.Body.Error = *state.Metadata.Error
	}
	for _, v := range state.Variables {
		out.Body.Variables[v.Name] = v.Value
	}
	_, out.Body.Cost = s.Usage()
	return out, nil
}

type listRunsInput struct {
	Status []string `query:"status,explode" doc:"running, paused, completed, failed or cancelled"`
	Limit  int      `query:"limit" minimum:"0" maximum:"200" doc:"50 by default"`
	Cursor string   `query:"cursor"`
}

func listRuns(ctx context.Context, c caller, in *listRunsInput) (*listTasksOutput, error) {
	return listKind(ctx, c, store.Query{Kinds: []session.Kind{session.KindWorkflow}, WorkflowStatuses: in.Status, Limit: in.Limit, Cursor: in.Cursor})
}

func getRun(ctx context.Context, c caller, in *SessionRef) (*runOutput, error) {
	i, err := in.resolveRun(ctx, c)
	if err != nil {
		return nil, err
	}
	return readRun(ctx, c, i.ID, http.StatusOK)
}

type graphOutput struct {
	ETag string `header:"ETag"`
	Body workflow.Graph
}

func getGraph(ctx context.Context, c caller, in *SessionRef) (*graphOutput, error) {
	graph, version, err := readGraph(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	return &graphOutput{ETag: etag(version), Body: *graph}, nil
}

type exportGraphInput struct {
	SessionRef
	Format string `path:"format" enum:"mermaid,dot"`
}

type exportGraphOutput struct {
	ContentType string `header:"Content-Type"`
	ETag        string `header:"ETag"`
	Body        []byte
}

func exportGraph(ctx context.Context, c caller, in *exportGraphInput) (*exportGraphOutput, error) {
	graph, version, err := readGraph(ctx, c, in.SessionRef)
	if err != nil {
		return nil, err
	}
	text := graph.Mermaid()
	if in.Format == "dot" {
		text = graph.Dot()
	}
	return &exportGraphOutput{ContentType: "text/plain; charset=utf-8", ETag: etag(version), Body: []byte(text)}, nil
}

// readGraph returns the graph of a run and the version that it shows.
func readGraph(ctx context.Context, c caller, in SessionRef) (*workflow.Graph, int64, error) {
	i, err := in.resolveRun(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	s, err := c.rt.Get(ctx, i.ID, holdfast.Whole(), holdfast.WithTail())
	if err != nil {
		return nil, 0, err
	}
	graph, err := workflow.RunGraph(s) //nolint:contextcheck // it reads what is there and waits for nobody
	return graph, s.Version(), err
}

type startRunInput struct {
	KeyHeader
	Body struct {
		Spec      specText          `json:"spec"`
		Variables map[string]string `json:"variables,omitempty" doc:"Values of the spec's inputs"`
		Name      string            `json:"name,omitempty" doc:"Of the session"`
	}
}

// specText is a workflow spec in a request.
type specText struct{ json.RawMessage }

// Schema returns the schema.
func (specText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "A workflow spec: a text in YAML or JSON, or the object itself",
		OneOf:       []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeObject, AdditionalProperties: true}},
	}
}

// source returns the spec as it is parsed. It has no files: Source.Read is nil.
func (t specText) source() spec.Source {
	var text string
	if json.Unmarshal(t.RawMessage, &text) == nil {
		return spec.Source{Path: "/request.yaml", Data: []byte(text)}
	}
	return spec.Source{Path: "/request.json", Data: bytes.Clone(t.RawMessage)}
}

func (s *Server) startRun(ctx context.Context, c caller, in *startRunInput) (*runOutput, error) {
	host, err := s.host(c)
	if err != nil {
		return nil, err
	}
	vars := variablesOf(in.Body.Variables)
	parsed, err := spec.Loader{}.Parse(in.Body.Spec.source(), vars)
	if err == nil {
		err = s.checkSpec(parsed)
	}
	if err != nil {
		return nil, err
	}
	p, err := s.work.reserve()
	if err != nil {
		return nil, err
	}
	made, err := workflow.Create(ctx, c.rt, parsed, workflow.RunOptions{Host: host, Key: in.key(), Name: in.Body.Name, Vars: vars})
	if err != nil {
		p.giveBack()
		return nil, err
	}
	out, err := readRun(ctx, c, made.ID(), http.StatusCreated)
	if err != nil || out.Body.Session.Version != 1 || out.Body.Session.Seq != made.Info().Seq { // a repeated request: it has begun
		p.giveBack()
		return out, err
	}
	p.begin(ctx, made.ID(), func(ctx context.Context) error {
		_, err := workflow.Resume(ctx, c.rt, made.ID(), workflow.ResumeOptions{Host: host})
		return err
	})
	return out, nil
}

type resumeRunInput struct {
	SessionRef
	KeyHeader
	Body *resumeRunBody
}

type resumeRunBody struct {
	Reopen bool    `json:"reopen,omitempty" doc:"Continue also a run that was cancelled"`
	Answer *string `json:"answer,omitempty" doc:"The answer to the first question that waits, or to the target's"`
	Target string  `json:"target,omitempty" doc:"A branch whose question is answered, or the id of a pending call"`
}

func (s *Server) resumeRun(ctx context.Context, c caller, in *resumeRunInput) (*runOutput, error) {
	return s.workOnRun(ctx, c, keyedRef{in.SessionRef, in.KeyHeader}, in, func(ctx context.Context, rt *holdfast.Runtime, id string, o workflow.ResumeOptions) error {
		if in.Body != nil {
			o.Reopen, o.Answer, o.Target = in.Body.Reopen, in.Body.Answer, in.Body.Target
		}
		_, err := workflow.Resume(ctx, rt, id, o)
		return err
	})
}

type forkRunInput struct {
	SessionRef
	KeyHeader
	Body struct {
		At        int64             `json:"at,omitempty" minimum:"0" doc:"The version to fork; the last by default"`
		ID        string            `json:"id,omitempty"`
		Name      string            `json:"name,omitempty"`
		Variables map[string]string `json:"variables,omitempty" doc:"Other values of variables"`
		Outputs   map[string]string `json:"outputs,omitempty" doc:"Other answers, by unit"`
	}
}

func forkRun(ctx context.Context, c caller, in *forkRunInput) (*created, error) {
	i, err := in.resolveRun(ctx, c)
	if err != nil {
		return nil, err
	}
	child, err := workflow.Fork(ctx, c.rt, i.ID, workflow.ForkOptions{
		At: in.Body.At, ID: in.Body.ID, Name: in.Body.Name, Variables: variablesOf(in.Body.Variables), Outputs: in.Body.Outputs, Key: in.key(),
	})
	if err != nil {
		return nil, err
	}
	return createdOf(child), nil
}

// variablesOf returns the variables of a request in the order of their names.
func variablesOf(values map[string]string) (vars spec.Map[string]) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		vars = vars.With(name, values[name])
	}
	return vars
}

type redoRunInput struct {
	SessionRef
	KeyHeader
	Body struct {
		Unit string `json:"unit" minLength:"1" doc:"Such as step/1"`
	}
}

func (s *Server) redoRun(ctx context.Context, c caller, in *redoRunInput) (*runOutput, error) {
	return s.workOnRun(ctx, c, keyedRef{in.SessionRef, in.KeyHeader}, in, func(ctx context.Context, rt *holdfast.Runtime, id string, o workflow.ResumeOptions) error {
		_, err := workflow.Redo(ctx, rt, id, in.Body.Unit, o)
		return err
	})
}

// workOnRun lets fn work on a run in the background. The response is 202 once
// it has begun, and 200 if it has ended by then.
func (s *Server) workOnRun(ctx context.Context, c caller, ref keyedRef, request any, fn func(context.Context, *holdfast.Runtime, string, workflow.ResumeOptions) error) (*runOutput, error) {
	host, err := s.host(c)
	if err != nil {
		return nil, err
	}
	i, err := ref.resolveRun(ctx, c)
	if err != nil {
		return nil, err
	}
	if c, err = ref.once(ctx, c, i.ID, request); errors.Is(err, holdfast.ErrRepeated) {
		return readRun(ctx, c, i.ID, http.StatusAccepted)
	}
	if err != nil {
		return nil, err
	}
	now, err := c.rt.Get(ctx, i.ID, holdfast.Whole())
	if err != nil {
		return nil, err
	}
	contents, err := workflow.ReadContents(now) //nolint:contextcheck // it reads what is there and waits for nobody
	if err == nil {
		err = s.checkSpec(contents.Spec)
	}
	if err != nil {
		return nil, err
	}
	done, err := s.work.run(ctx, c.rt, i.ID, func(ctx context.Context) error {
		return fn(ctx, c.rt, i.ID, workflow.ResumeOptions{Host: host, NoWait: true})
	})
	repeated := errors.Is(err, holdfast.ErrRepeated)
	if err != nil && !failedRun(err) && !repeated {
		return nil, err
	}
	status := http.StatusAccepted
	if done && !repeated {
		status = http.StatusOK
	}
	return readRun(ctx, c, i.ID, status)
}

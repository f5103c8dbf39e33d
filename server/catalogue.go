package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
)

func (s *Server) addCatalogue() {
	tags := []string{"catalogue"}
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-agents", Method: http.MethodGet, Path: "/v1/agents",
		Summary: "List the agents that sessions can be created of", Tags: tags,
	}, s.listAgents)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-agent", Method: http.MethodGet, Path: "/v1/agents/{name}",
		Summary: "Read the definition of an agent", Tags: tags,
	}, s.getAgent)
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-models", Method: http.MethodGet, Path: "/v1/models",
		Summary: "List the models that can be used", Tags: tags,
	}, s.listModels)
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-tools", Method: http.MethodGet, Path: "/v1/tools",
		Summary: "List the tools that agents may use", Tags: tags,
	}, s.listTools)
}

type nothing struct{}

// agent is a line of the list of agents.
type agent struct {
	Name        string `json:"name"`
	Label       string `json:"label,omitempty"`
	Description string `json:"description,omitempty"`
	Model       string `json:"model,omitempty"`
}

type agentsOutput struct {
	Body struct {
		Items []agent `json:"items"`
	}
}

func (s *Server) listAgents(context.Context, caller, *nothing) (*agentsOutput, error) {
	out := &agentsOutput{}
	out.Body.Items = []agent{}
	if s.config.Agents == nil {
		return out, nil
	}
	for _, name := range s.config.Agents.Names() {
		def, err := s.config.Agents.Get(name)
		if err != nil {
			return nil, err
		}
		out.Body.Items = append(out.Body.Items, agent{def.Name, def.Label, def.Description, def.Model})
	}
	return out, nil
}

type agentInput struct {
	Name string `path:"name"`
}

type agentOutput struct{ Body session.Definition }

func (s *Server) getAgent(_ context.Context, _ caller, in *agentInput) (*agentOutput, error) {
	def, err := s.definition(in.Name, nil)
	if err != nil {
		return nil, err
	}
	return &agentOutput{Body: def}, nil
}

type model struct {
	Name string `json:"name"`
}

type modelsOutput struct {
	Body struct {
		Items []model `json:"items"`
	}
}

func (s *Server) listModels(context.Context, caller, *nothing) (*modelsOutput, error) {
	out := &modelsOutput{}
	out.Body.Items = []model{}
	if s.config.Models != nil {
		for _, name := range s.config.Models() {
			out.Body.Items = append(out.Body.Items, model{name})
		}
	}
	return out, nil
}

type toolsOutput struct {
	Body struct {
		Items []Tool `json:"items"`
	}
}

func (s *Server) listTools(context.Context, caller, *nothing) (*toolsOutput, error) {
	out := &toolsOutput{}
	out.Body.Items = []Tool{}
	if s.config.Tools != nil {
		out.Body.Items = append(out.Body.Items, s.config.Tools()...)
	}
	return out, nil
}

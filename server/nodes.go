package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/node"
	"github.com/holdfast-dev/holdfast/session"
)

func (s *Server) addNodes() {
	if s.config.Nodes == nil {
		return
	}
	tags := []string{"system"}
	register(s, apikey.Admin, huma.Operation{
		OperationID: "list-nodes", Method: http.MethodGet, Path: "/v1/system/nodes",
		Summary: "List the processes that work on the store", Tags: tags,
		Description: "Nodes serve all tenants, so only keys of the tenant default see them.",
	}, s.listNodes)
	for _, a := range []struct {
		path, summary string
		draining      bool
	}{
		{"drain", "Have a node take no new work", true},
		{"undrain", "Have a node take work again", false},
	} {
		register(s, apikey.Admin, huma.Operation{
			OperationID: a.path + "-node", Method: http.MethodPost, Path: "/v1/system/nodes/{id}/" + a.path, DefaultStatus: http.StatusAccepted,
			Summary: a.summary, Tags: tags,
			Description: "The node is told and shows it a moment later, here and in its /readyz. What it works on it finishes. " + setsState,
		}, func(ctx context.Context, c caller, in *onNode) (*nodeOutput, error) {
			return s.drainNode(ctx, c, in.ID, a.draining)
		})
	}
}

type nodesOutput struct {
	Body struct {
		Items []node.Node `json:"items"`
	}
}

func (s *Server) listNodes(ctx context.Context, c caller, _ *nothing) (*nodesOutput, error) {
	out := &nodesOutput{}
	out.Body.Items = []node.Node{}
	if c.Tenant != session.DefaultTenant {
		return out, nil
	}
	var err error
	out.Body.Items, err = s.config.Nodes.List(ctx)
	return out, err
}

type onNode struct {
	ID string `path:"id"`
}

type nodeOutput struct {
	Location string `header:"Location"`
	Body     struct {
		ID string `json:"id"`
	}
}

func (s *Server) drainNode(ctx context.Context, c caller, id string, draining bool) (*nodeOutput, error) {
	if c.Tenant != session.DefaultTenant {
		return nil, &session.NotFoundError{What: "node", ID: id}
	}
	if err := s.config.Nodes.Drain(ctx, id, draining, c.Identity().Actor); err != nil {
		return nil, err
	}
	out := &nodeOutput{Location: "/v1/system/nodes"}
	out.Body.ID = id
	return out, nil
}

// drains reports whether this node takes no new work: it is about to end, or
// somebody asked for it.
func (s *Server) drains() bool {
	return s.draining.Load() || s.config.Node != nil && s.config.Node.Draining()
}

package server

import (
	"errors"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// host returns what a run of the caller needs.
func (s *Server) host(c caller) (workflow.Host, error) {
	if s.config.Runs == nil {
		return workflow.Host{}, &session.UnsupportedError{Store: "this server", Ability: "workflow runs"}
	}
	return s.config.Runs.Host(c.rt)
}

// checkSpec refuses a spec that reaches into the machine of the server: its
// files, its environment, or hosts that would be sent the server's keys. Who
// sends a spec need not be who runs the server.
func (s *Server) checkSpec(p *spec.Spec) error {
	var found []session.SpecProblem
	refuse := func(pointer, reason string) {
		found = append(found, session.SpecProblem{Pointer: pointer, Reason: reason})
	}
	if p.Runtime.Host != "" {
		refuse("/runtime/host", "a server runs no spec that says where models are; use the models of the server")
	}
	if len(p.Env.Secrets) > 0 {
		refuse("/env/secrets", "a server gives its environment to no spec")
	}
	if len(p.Skills) > 0 {
		refuse("/skills", "a server reads no files for a spec; write the text into a prompt")
	}
	for _, a := range p.Agents {
		for name, schema := range map[string]*spec.Schema{"input_schema": a.Value.InputSchema, "output_schema": a.Value.OutputSchema} {
			if schema != nil && schema.Path != "" {
				refuse("/agents/"+a.Name+"/"+name, "a server reads no files for a spec; write the schema here")
			}
		}
	}
	if p.Context != nil && p.Context.Notes != nil {
		refuse("/context_policy/notes", "a server writes no files for a spec")
	}
	if len(p.Outputs.Artifacts) > 0 {
		refuse("/outputs/artifacts", "a server writes no files for a spec; the run has its last response")
	}
	if len(p.Tools.MCP) > 0 {
		refuse("/tools/mcp", "a server starts no tool servers for a spec")
	}
	if len(found) > 0 {
		return &session.SpecError{File: p.Path(), Pointer: found[0].Pointer, Reason: found[0].Reason, Also: found[1:]}
	}
	if s.config.Runs.Check != nil {
		return s.config.Runs.Check(p)
	}
	return nil
}

// failedRun reports an error that the run has recorded: its status says so.
func failedRun(err error) bool {
	var failed *workflow.RunError
	return errors.As(err, &failed)
}

package spec

import (
	"regexp"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// addWarnings collects what is allowed and likely a mistake.
func (s *Spec) addWarnings() {
	s.warnAboutAgents()
	s.warnAboutCredentials()
	if g := s.Security.Guardrails; g != nil && g.PIIRedaction {
		s.warn("/security/guardrails/pii_redaction", "has no effect: nothing is redacted")
	}
	if s.Telemetry != nil {
		s.warn("/telemetry", "has no effect: no traces are sent")
	}
	if len(s.Env.Mounts) > 0 {
		s.warn("/env/mounts", "has no effect")
	}
	if s.Context != nil && s.Context.Retrieval != nil && s.Context.Retrieval.MCPServers != nil {
		s.warn("/context_policy/retrieval/mcp_servers", "has no effect")
	}
	if g := s.Pattern.Graph; g != nil {
		first := map[string]int{}
		for i, e := range g.Edges {
			if earlier, ok := first[e.From]; ok {
				s.warn(document.Pointer("/pattern/config/edges", i), "is never taken: edge %d leads from %q already", earlier, e.From)
				continue
			}
			first[e.From] = i
		}
	}
}

// warnAboutAgents finds prompts that look like templates, which they are not,
// and unknown tools.
func (s *Spec) warnAboutAgents() {
	producer := ""
	if s.Pattern.Evaluator != nil {
		producer = s.Pattern.Evaluator.Producer
	}
	for _, a := range s.Agents {
		p := document.Pointer("/agents", a.Name)
		if a.Name != producer && template.HasDelimiters(a.Value.Prompt) {
			s.warn(p+"/prompt", "looks like a template, but an agent's prompt is sent as it is")
		}
		s.warnAboutTools(p+"/tools", a.Value.Tools)
	}
	if o := s.Pattern.Orchestrator; o != nil {
		s.warnAboutTools("/pattern/config/worker_template/tools", o.Worker.Tools)
	}
}

func (s *Spec) warnAboutTools(p string, names []string) {
	for i, name := range names {
		if _, known := native[NativeTool(name)]; !known && !s.Tools.Has(name) {
			s.warn(document.Pointer(p, i), "names the tool %q, which there is not", name)
		}
	}
}

// reference is ${NAME}: where a secret's name stands instead of its value.
var reference = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// warnAboutCredentials finds values that are credentials by their name: a
// session keeps a copy of its spec.
func (s *Spec) warnAboutCredentials() {
	check := func(p string, values Map[string]) {
		for _, v := range values {
			if session.SecretKey(v.Name) && !reference.MatchString(v.Value) {
				s.warn(document.Pointer(p, v.Name), "looks like a credential in plain text, and a session keeps a copy of its spec; write ${NAME} instead")
			}
		}
	}
	for i, e := range s.Tools.HTTPExecutors {
		check(document.Pointer("/tools/http_executors", i, "headers"), e.Headers)
	}
	for i, m := range s.Tools.MCP {
		check(document.Pointer("/tools/mcp", i, "headers"), m.Headers)
		check(document.Pointer("/tools/mcp", i, "env"), m.Env)
	}
}

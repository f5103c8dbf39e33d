package spec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
)

// Env is what there is where a spec is to be run.
type Env struct {
	// Getenv reads a variable of the environment; nil: none is set.
	Getenv func(name string) string
	// Providers are served whatever the environment says.
	Providers []string
	// Reach, where it is set, says why a model cannot be reached, whatever the
	// environment says.
	Reach func(m Model) error
	// Tools are the native tools there are; nil: all that come with the program.
	Tools []string
}

func (e Env) getenv(name string) string {
	if e.Getenv == nil {
		return ""
	}
	return e.Getenv(name)
}

// Issue is a reason why a spec cannot be run here, and what to do about it.
type Issue struct {
	Pointer     string `json:"pointer"`
	Reason      string `json:"reason"`
	Remediation string `json:"remediation"`
}

// Check lists everything that keeps a spec from being run here. None means it
// can be started: nothing it refers to by name is missing.
func Check(s *Spec, env Env) []Issue {
	c := &checker{spec: s, env: env}
	c.providers()
	c.secrets()
	c.tools()
	c.pattern()
	if p := s.Context; p != nil && p.Notes != nil && !filepath.IsLocal(p.Notes.File) {
		c.add("/context_policy/notes/file", "write a path below the working directory", "the notes file %q leads out of the working directory", p.Notes.File)
	}
	return c.issues
}

// CheckNames lists what the parts of a spec's pattern refer to and is not in it,
// which is wrong on any machine. Check lists it too.
func CheckNames(s *Spec) []Issue {
	c := &checker{spec: s}
	c.pattern()
	return c.issues
}

type checker struct {
	spec   *Spec
	env    Env
	issues []Issue
}

func (c *checker) add(pointer, remediation, format string, args ...any) {
	c.issues = append(c.issues, Issue{Pointer: pointer, Reason: fmt.Sprintf(format, args...), Remediation: remediation})
}

// providers checks that the model of every agent can be reached. What agents
// share is reported once.
func (c *checker) providers() {
	reported := map[string]bool{}
	for _, a := range c.spec.Agents {
		m := c.spec.ModelOf(a.Value)
		if slices.Contains(c.env.Providers, m.Provider) && c.env.Reach == nil {
			continue
		}
		lacks := c.lacks(m)
		if lacks == nil {
			continue
		}
		p := "/runtime"
		if a.Value.Provider != "" {
			p = document.Pointer("/agents", a.Name)
		}
		if p += "/" + lacks.key; !reported[p] {
			reported[p] = true
			c.add(p, lacks.remediation, "%s", lacks.reason)
		}
	}
}

// lacks returns what is missing to reach a model, nil where nothing is.
func (c *checker) lacks(m Model) *missing {
	if c.env.Reach == nil {
		_, lacks := m.connect(c.env.getenv)
		return lacks
	}
	if err := c.env.Reach(m); err != nil {
		return &missing{"provider", err.Error(), "set it up, or use another provider"}
	}
	return nil
}

// Connection is how an agent's model is reached from here. A spec without issues
// has one for every agent whose provider is not among env.Providers.
func (s *Spec) Connection(a Agent, env Env) (Connection, bool) { return s.ModelOf(a).Connection(env) }

// Connection is how the model is reached; see Spec.Connection.
func (m Model) Connection(env Env) (Connection, bool) {
	r, lacks := m.connect(env.getenv)
	return r, lacks == nil
}

func (c *checker) secrets() {
	for i, s := range c.spec.Env.Secrets {
		if s.Source != "env" {
			c.add(document.Pointer("/env/secrets", i, "source"), "export the value as a variable and write source: env",
				"the secret %q comes from %s, and only environment variables are read", s.Key, s.Source)
		}
	}
}

// tools looks at every place where a native tool may be named.
func (c *checker) tools() {
	for i, name := range c.spec.Tools.Python {
		p := document.Pointer("/tools/python", i)
		if _, known := native[NativeTool(name)]; !known {
			names := c.usable()
			c.add(p, suggestion(NativeTool(name), names, "use one of "+strings.Join(names, ", ")),
				"there is no tool %q: code of one's own is not run", name)
			continue
		}
		c.tool(p, name)
	}
	for _, a := range c.spec.Agents {
		c.named(document.Pointer("/agents", a.Name, "tools"), a.Value.Tools)
	}
	if o := c.spec.Pattern.Orchestrator; o != nil {
		c.named("/pattern/config/worker_template/tools", o.Worker.Tools)
	}
	if p := c.spec.Context; p != nil && p.Retrieval != nil {
		c.named("/context_policy/retrieval/jit_tools", p.Retrieval.JITTools)
	}
}

func (c *checker) named(p string, names []string) {
	for i, name := range names {
		if _, known := native[NativeTool(name)]; known && !slices.Contains(c.spec.Tools.Python, name) {
			c.tool(document.Pointer(p, i), name)
		}
	}
}

// tool reports a native tool that cannot be had here.
func (c *checker) tool(p, name string) {
	short := NativeTool(name)
	switch reason := native[short]; {
	case reason != "":
		c.add(p, "leave it out", "the tool %q is not available: %s", name, reason)
	case c.env.Tools != nil && !slices.Contains(c.env.Tools, short):
		c.add(p, "leave it out, or register it with the runtime", "the tool %q is not available here", name)
	case short == "tavily_search" && c.env.getenv("TAVILY_API_KEY") == "":
		c.add(p, "set TAVILY_API_KEY", "the tool %q has no key", name)
	}
}

// usable are the native tools a spec may name.
func (c *checker) usable() []string {
	var names []string
	for name, reason := range native {
		if reason == "" && (c.env.Tools == nil || slices.Contains(c.env.Tools, name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// suggestion is the likely name, else another piece of advice.
func suggestion(name string, names []string, other string) string {
	if likely := document.Nearest(name, names); likely != "" {
		return fmt.Sprintf("did you mean %q?", likely)
	}
	return other
}

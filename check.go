package holdfast

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// checkDefinition reports everything wrong with a definition in this runtime,
// all at once. Model overrides the definition's where it is not empty.
func (rt *Runtime) checkDefinition(ctx context.Context, def session.Definition, model string) error {
	if err := checkSecrets("definition "+def.Name, def.ModelParams); err != nil {
		return err
	}
	problems := slices.Clone(def.Problems())
	add := func(field, format string, args ...any) {
		problems = append(problems, session.Problem{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	pool, err := rt.pool(ctx, def)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		add("tools", "%v", err)
	}
	unknown := func(field string, names, available []string) {
		for _, name := range names {
			if strings.TrimSpace(name) != "" && !slices.Contains(available, name) {
				add(field, "%q is not known; available: %s", name, listed(available))
			}
		}
	}
	unknown("tools", def.Tools, pool.Names())
	unknown("toolsDeny", def.ToolsDeny, pool.Names())
	unknown("skills", def.Skills, keysOf(rt.config.Skills))
	unknown("capabilities", def.Capabilities, keysOf(rt.config.Capabilities))
	for _, name := range def.Subagents {
		if rt.config.Definitions == nil {
			add("subagents", "no definitions to choose from are configured")
			break
		}
		if _, err := rt.config.Definitions.Get(name); err != nil {
			add("subagents", "%v", err)
		}
	}
	if len(def.MCP) > 0 && rt.config.MCP == nil {
		add("mcp", "this program is not set up to reach tool servers")
	}
	if m := def.Memory; m != nil {
		if (m.Tools || m.Recall != nil) && rt.memories == nil {
			add("memory", "%s keeps none that could be searched", storeName(rt.store))
		}
		if m.Strategy == session.PruneVector && !rt.embeds() {
			add("memory.strategy", "vector_store needs an embedder and a store that keeps vectors")
		}
		if m.Recall != nil {
			for _, scope := range m.Recall.Scopes {
				if !slices.Contains(allowedScopes(m), memory.Scope(scope)) {
					add("memory.recall.scopes", "%q is not among memory.scopes, which the agent may use", scope)
				}
			}
		}
		if m.SummaryModel != "" {
			if _, _, err := rt.model(m.SummaryModel); err != nil {
				add("memory.summaryModel", "%v", err)
			}
		}
	}
	if model == "" {
		model = def.Model
	}
	name, found, err := rt.model(model)
	if err != nil && model != "" { // without any model only sending is refused
		add("model", "%v", err)
	}
	if _, priced := found.(llm.Priced); err == nil && !priced && def.Budget != nil && def.Budget.MaxCost != nil {
		add("budget.maxCost", "needs a price for the model %q, which has none", name)
	}
	if len(problems) > 0 {
		return &session.DefinitionError{Source: def.Name, Problems: problems}
	}
	return nil
}

// checkSecrets refuses options that by their names, at any depth, are
// credentials.
func checkSecrets(source string, p *session.ModelParams) error {
	if p == nil {
		return nil
	}
	for _, key := range keysOf(p.Options) {
		var value any
		if json.Unmarshal(p.Options[key], &value) != nil {
			continue // it is refused as no JSON
		}
		if found := secretKey(key, value); found != "" {
			return &session.SecretError{Source: source, Key: found}
		}
	}
	return nil
}

// secretKey is the first key in a value that by its name is a credential.
func secretKey(key string, value any) string {
	if session.SecretKey(key) {
		return key
	}
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range keysOf(v) {
			if found := secretKey(inner, v[inner]); found != "" {
				return found
			}
		}
	case []any:
		for _, inner := range v {
			if found := secretKey("", inner); found != "" {
				return found
			}
		}
	}
	return ""
}

// checkRunnable refuses, before anything is written, what could not run.
func (rt *Runtime) checkRunnable(ctx context.Context, s session.Session) error {
	if err := rt.checkDefinition(ctx, s.Definition(), s.Model()); err != nil {
		return err
	}
	if _, _, err := rt.model(s.Model()); err != nil {
		return &session.DefinitionError{Source: s.Info().AgentName, Problems: []session.Problem{{Field: "model", Message: err.Error()}}}
	}
	return nil
}

// model resolves a name, the default one where it is empty.
func (rt *Runtime) model(name string) (string, llm.Model, error) {
	if name == "" {
		name = rt.config.DefaultModel
	}
	if name == "" {
		return "", nil, &session.InvalidError{Field: "model", Reason: "none is named by the definition and there is no default"}
	}
	if rt.config.Models == nil {
		return name, nil, &session.NotFoundError{What: "model", ID: name, Available: []string{}}
	}
	m, err := rt.config.Models.Model(name)
	if err != nil {
		return name, nil, err
	}
	if _, local := m.(llm.Offline); rt.config.Offline && !local {
		return name, nil, &session.UnsupportedError{Store: "an offline runtime", Ability: "the model " + name}
	}
	return name, m, nil
}

// pool is every tool a definition may choose from.
func (rt *Runtime) pool(ctx context.Context, def session.Definition) (tool.Set, error) {
	all := rt.config.Tools.All()
	for _, name := range def.Capabilities {
		all = append(all, rt.config.Capabilities[name].Tools...)
	}
	if def.Memory != nil && def.Memory.Tools {
		own, err := memoryTools()
		if err != nil {
			return tool.Set{}, err
		}
		all = append(all, own...)
	}
	if rt.config.MCP != nil {
		for _, server := range def.MCP {
			offered, err := rt.servers.tools(ctx, server)
			if err != nil {
				return tool.Set{}, err
			}
			all = append(all, offered...)
		}
	}
	if len(def.Subagents) > 0 && rt.config.Definitions != nil {
		all = append(all, spawn{rt: rt, names: def.Subagents})
	}
	return tool.NewSet(all...)
}

// tools are those the agent gets. Who has subagents can call them, whatever
// else it has, unless that is denied.
func (rt *Runtime) tools(ctx context.Context, def session.Definition) (tool.Set, error) {
	pool, err := rt.pool(ctx, def)
	if err != nil {
		return tool.Set{}, err
	}
	chosen := def.Tools
	if _, ok := pool.Get(spawnName); ok && chosen != nil && !slices.Contains(chosen, spawnName) {
		chosen = append(slices.Clone(chosen), spawnName)
	}
	return pool.Select(chosen, def.ToolsDeny), nil
}

// executionTools are the agent's, and those that the request of the running
// execution brought with it.
func (rt *Runtime) executionTools(ctx context.Context, s session.Session) (tool.Set, error) {
	own, err := rt.tools(ctx, s.Definition())
	if err != nil || !s.Running() {
		return own, err
	}
	brought := s.Execution().Tools
	if len(brought) == 0 {
		return own, nil
	}
	all := own.All()
	for _, t := range brought {
		all = append(all, tool.Client(t))
	}
	return tool.NewSet(all...)
}

// checkBrought refuses tools of a request that cannot be used beside the
// agent's own.
func (rt *Runtime) checkBrought(ctx context.Context, s session.Session, brought []session.ClientTool) error {
	if len(brought) == 0 {
		return nil
	}
	own, err := rt.tools(ctx, s.Definition())
	if err != nil {
		return err
	}
	all := own.All()
	for _, t := range brought {
		all = append(all, tool.Client(t))
	}
	_, err = tool.NewSet(all...)
	return err
}

// systemPrompt is the prompt in force with the texts of skills and
// capabilities, in the order the definition lists them.
func (rt *Runtime) systemPrompt(s session.Session) string {
	def := s.Definition()
	parts := []string{s.SystemPrompt()}
	for _, name := range def.Capabilities {
		parts = append(parts, rt.config.Capabilities[name].Prompt)
	}
	for _, name := range def.Skills {
		parts = append(parts, rt.config.Skills[name])
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return strings.TrimSpace(p) == "" })
	return strings.Join(parts, "\n\n")
}

func keysOf[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

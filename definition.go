package holdfast

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
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
	pool, err := rt.availableTools(ctx, def)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		add("tools", "%v", err)
	}
	unknown := func(field string, names, available []string) {
		for _, name := range names {
			if strings.TrimSpace(name) != "" && !slices.Contains(available, name) {
				add(field, "%q is not known; available: %s", name, listNames(available))
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
		if m.Strategy == session.PruneVector && !rt.canEmbed() {
			add("memory.strategy", "vector_store needs an embedder and a store that keeps vectors")
		}
		if m.Recall != nil {
			for _, scope := range m.Recall.Scopes {
				if !slices.Contains(allowedScopes(m), memory.Scope(scope)) {
					add("memory.recall.scopes", "%q is not among memory.scopes, which the agent may use", scope)
				}
			}
		}
		for i, b := range m.Blocks {
			scope := memory.Scope(b.MemoryScope())
			if !slices.Contains(allowedScopes(m), scope) {
				add(fmt.Sprintf("memory.blocks[%d].scope", i), "%q is not among memory.scopes, which the agent may use", scope)
			} else if scope != memory.ScopeSession && rt.memories == nil {
				add(fmt.Sprintf("memory.blocks[%d].scope", i), "%s keeps no memory of a user or an agent", storeName(rt.store))
			}
		}
		if m.Facts != nil && rt.memories == nil {
			add("memory.facts", "%s keeps no memory of a user or an agent", storeName(rt.store))
		}
		if m.Facts != nil && m.Facts.Model != "" {
			if _, _, err := rt.Model(m.Facts.Model); err != nil {
				problems = append(problems, modelProblem("memory.facts.model", err))
			}
		}
		if m.SummaryModel != "" {
			if _, _, err := rt.Model(m.SummaryModel); err != nil {
				problems = append(problems, modelProblem("memory.summaryModel", err))
			}
		}
	}
	model = cmp.Or(model, def.Model)
	name, found, err := rt.Model(model)
	if err != nil && model != "" { // without any model only sending is refused
		problems = append(problems, modelProblem("model", err))
	}
	if _, priced := found.(llm.Priced); err == nil && !priced && def.Budget != nil && def.Budget.MaxCost != nil {
		add("budget.maxCost", "needs a price for the model %q, which has none", name)
	}
	if len(problems) > 0 {
		return &session.DefinitionError{Source: def.Name, Problems: problems}
	}
	return nil
}

// modelProblem is a model that cannot be used.
func modelProblem(field string, err error) session.Problem {
	return session.Problem{Field: field, Message: err.Error(), Unconfigured: errors.Is(err, session.ErrUnsupported)}
}

// checkRunnable refuses, before anything is written, what could not run.
func (rt *Runtime) checkRunnable(ctx context.Context, s session.Session) error {
	if err := rt.checkDefinition(ctx, s.Definition(), s.Model()); err != nil {
		return err
	}
	if _, _, err := rt.Model(s.Model()); err != nil {
		return &session.DefinitionError{Source: s.Info().AgentName, Problems: []session.Problem{modelProblem("model", err)}}
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

func keysOf[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func listNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Definitions finds definitions by name. A definition.Registry is one.
type Definitions interface {
	// Get is the definition of that name, or a NotFoundError.
	Get(name string) (session.Definition, error)
}

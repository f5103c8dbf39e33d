package holdfast

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

// childDefinition is what the other agent is: its definition, with no tool,
// scope or budget that its parent has not.
func (rt *Runtime) childDefinition(ctx context.Context, parent session.Session, callID, name string, allowed []string) (session.Definition, error) {
	if depth := parent.Info().Depth + 1; depth > rt.config.MaxDepth {
		return session.Definition{}, &session.DepthError{Depth: depth, Max: rt.config.MaxDepth}
	}
	if !slices.Contains(allowed, name) {
		return session.Definition{}, &session.NotFoundError{What: "subagent", ID: name, Available: allowed}
	}
	def, err := rt.config.Definitions.Get(name)
	if err != nil {
		return session.Definition{}, err
	}
	def = def.Clone() // what this child may not have, others may
	def.Model = cmp.Or(def.Model, parent.Model())
	above, err := rt.tools(ctx, parent.Definition())
	if err != nil {
		return session.Definition{}, err
	}
	below, err := rt.tools(ctx, def)
	if err != nil {
		return session.Definition{}, err
	}
	if _, ok := below.Get(spawnName); !ok { // it is denied
		def.Subagents = nil
	}
	def.Tools, def.ToolsDeny = []string{}, nil
	for _, own := range below.Names() {
		if _, ok := above.Get(own); ok && own != spawnName {
			def.Tools = append(def.Tools, own)
		}
	}
	if def.Memory != nil {
		def.Memory.Scopes = narrowScopes(def.Memory.Scopes, parent.Definition().Memory)
		if r := def.Memory.Recall; r != nil && len(r.Scopes) > 0 {
			if r.Scopes = narrowScopes(r.Scopes, parent.Definition().Memory); r.Scopes == nil {
				def.Memory.Recall = nil
			}
		}
		def.Memory.Blocks = slices.DeleteFunc(def.Memory.Blocks, func(b session.MemoryBlock) bool {
			return !slices.Contains(allowedScopes(def.Memory), memory.Scope(b.MemoryScope()))
		})
	}
	calls := openSpawns(parent)
	def.Budget = rt.remainingBudget(def.Budget, parent.Execution(), max(slices.Index(calls, callID), 0), max(len(calls), 1))
	return def, rt.checkDefinition(ctx, def, "")
}

// narrowScopes returns the scopes of a child that its parent has too. Its own
// session is always allowed.
func narrowScopes(scopes []string, parent *session.MemoryPolicy) []string {
	kept := []string{}
	for _, scope := range scopes {
		if scope == "session" || parent != nil && slices.Contains(parent.Scopes, scope) {
			kept = append(kept, scope)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// remainingBudget limits a child's budget to its share of what its parent has
// left. Children that run at the same time, of which this is number i of n,
// share it, so that together they stay within it. Time needs no share: the
// parent's limit ends the call.
func (rt *Runtime) remainingBudget(own *session.Budget, above *session.Execution, i, n int) *session.Budget {
	if own == nil {
		own = rt.config.DefaultBudget
	}
	b := *own
	if above == nil || above.Budget == nil {
		return &b
	}
	var tokens int64 // what the dearest step took
	var cost session.Cost
	for _, step := range above.Steps {
		tokens, cost = max(tokens, step.Usage.Total()), max(cost, step.Cost)
	}
	limit := above.Budget
	b.MaxSteps = remainingLimit(b.MaxSteps, limit.MaxSteps, int64(len(above.Steps)+above.ChildSteps), 1, i, n)
	b.MaxTokens = remainingLimit(b.MaxTokens, limit.MaxTokens, above.Usage.Total(), tokens, i, n)
	b.MaxCost = remainingLimit(b.MaxCost, limit.MaxCost, above.Cost, cost, i, n)
	if limit.Deadline != nil && (b.Deadline == nil || limit.Deadline.Before(*b.Deadline)) {
		b.Deadline = limit.Deadline
	}
	return &b
}

// remainingLimit returns the smaller of a limit and a share of what is left of
// another.
func remainingLimit[T ~int64](own, above *T, used, least T, i, n int) *T {
	if above == nil {
		return own
	}
	left := shareOf(max(*above-used, 0), least, i, n)
	if own != nil {
		left = min(left, *own)
	}
	return &left
}

// shareOf divides what is left among n, of whom this is number i. Nobody gets
// less than one step is likely to take, because a step that has begun is paid
// for: where there is not enough, the last ones get nothing.
func shareOf[T ~int64](left, least T, i, n int) T {
	among := T(n)
	if least > 0 {
		among = min(among, max(left/least, 1))
	}
	share := left / among
	switch at := T(i); {
	case at >= among:
		return 0
	case at < left%among:
		return share + 1
	}
	return share
}

package holdfast

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// memoryTools are the tools of agents that may use their memory.
type memoryTools struct{ entries, blocks []tool.Tool }

// makeMemoryTools reads the schemas by reflection, which is too slow for every
// step.
func makeMemoryTools() (memoryTools, error) {
	entries, err := makeTools(recallTool, storeTool, getTool, listTool, deleteTool, historyTool)
	if err != nil {
		return memoryTools{}, err
	}
	blocks, err := makeTools(blockReplaceTool, blockAppendTool, blockInsertTool)
	return memoryTools{entries, blocks}, err
}

func makeTools(makers ...func() (tool.Tool, error)) ([]tool.Tool, error) {
	tools := make([]tool.Tool, len(makers))
	for i, make := range makers {
		t, err := make()
		if err != nil {
			return nil, err
		}
		tools[i] = t
	}
	return tools, nil
}

// of returns those that a policy gives.
func (t memoryTools) of(policy *session.MemoryPolicy) []tool.Tool {
	var tools []tool.Tool
	if policy.Tools {
		tools = append(tools, t.entries...)
	}
	if offersBlockTools(policy) {
		tools = append(tools, t.blocks...)
	}
	return tools
}

// scopeOrSession returns the scope an argument names, by default the session's.
func scopeOrSession(name string) memory.Scope { return cmp.Or(memory.Scope(name), memory.ScopeSession) }

func recallTool() (tool.Tool, error) {
	type arguments struct {
		Query     string   `json:"query" jsonschema:"what to look for, in plain words"`
		Limit     int      `json:"limit,omitempty" jsonschema:"how many passages at most; 5 where it is left out"`
		Threshold *float64 `json:"threshold,omitempty" jsonschema:"how well a passage must fit, 0 to 1; 0.55 where it is left out"`
		Scope     string   `json:"scope,omitempty" jsonschema:"session, user, agent, space:NAME or all; session where it is left out"`
		Prefix    string   `json:"prefix,omitempty" jsonschema:"only stored values whose keys are below this one"`
		Tags      []string `json:"tags,omitempty" jsonschema:"only stored values that have all of these tags"`
	}
	spec := tool.Spec{
		Name: "memory_recall", Nature: tool.ReadOnly, Effects: tool.Read,
		Description: "Search what was said earlier and what was stored. Finds what is no longer in view.",
	}
	return tool.Func(spec, func(ctx context.Context, in arguments) (string, error) {
		h := Env(ctx).handle()
		scopes := []memory.Scope{scopeOrSession(in.Scope)}
		if in.Scope == "all" {
			scopes = h.usableScopes()
		}
		hits, err := h.Recall(ctx, in.Query, memory.RecallOptions{Limit: in.Limit, Threshold: in.Threshold, Scopes: scopes, Prefix: in.Prefix, Filter: memory.Filter{Tags: in.Tags}})
		if err != nil {
			return "", err
		}
		if len(hits) == 0 {
			return "Nothing was found.", nil
		}
		var q quote
		for _, hit := range hits {
			about := fmt.Sprintf("%s, score %.2f", aboutHit(hit), hit.Score)
			if hit.Key != "" {
				about += ", key " + hit.Key
			}
			q.add(about, hit.Text)
		}
		return q.text(len(hits), "passage"), nil
	})
}

func storeTool() (tool.Tool, error) {
	type arguments struct {
		Key       string          `json:"key" jsonschema:"a short name; slashes part it into segments"`
		Value     json.RawMessage `json:"value" jsonschema:"any JSON value"`
		Scope     string          `json:"scope,omitempty" jsonschema:"session, user, agent or space:NAME; session where it is left out"`
		IfVersion *int64          `json:"ifVersion,omitempty" jsonschema:"the version that must still be there; 0: the key must not exist"`
		Tags      []string        `json:"tags,omitempty" jsonschema:"short words to filter by later"`
		Hours     float64         `json:"hours,omitempty" jsonschema:"for how many hours it is kept; for ever where it is left out"`
	}
	spec := tool.Spec{
		Name: "memory_store", Nature: tool.Idempotent, Effects: tool.Read,
		Description: "Remember a value under a key. What was there before stays readable as an earlier version.",
	}
	return tool.Func(spec, func(ctx context.Context, in arguments) (any, error) {
		opts := []memory.Option{memory.Tags(in.Tags...)}
		if in.Hours != 0 {
			opts = append(opts, memory.TTL(time.Duration(in.Hours*float64(time.Hour))))
		}
		if in.IfVersion != nil {
			opts = append(opts, memory.IfVersion(*in.IfVersion))
		}
		e, err := Env(ctx).Memory().Store(ctx, scopeOrSession(in.Scope), in.Key, in.Value, opts...)
		if err != nil {
			return nil, err
		}
		return map[string]any{"key": e.Key, "version": e.Version}, nil
	})
}

func getTool() (tool.Tool, error) {
	type arguments struct {
		Key   string `json:"key" jsonschema:"the name it was stored under"`
		Scope string `json:"scope,omitempty" jsonschema:"session, user, agent or space:NAME; session where it is left out"`
	}
	spec := tool.Spec{Name: "memory_get", Nature: tool.ReadOnly, Effects: tool.Read, Description: "Read what was stored under a key."}
	return tool.Func(spec, func(ctx context.Context, in arguments) (any, error) {
		e, found, err := Env(ctx).Memory().Get(ctx, scopeOrSession(in.Scope), in.Key)
		if err != nil {
			return nil, err
		}
		answer := struct {
			Found   bool            `json:"found"`
			Value   json.RawMessage `json:"value"`
			Version int64           `json:"version"`
		}{Found: found, Value: e.Value, Version: e.Version}
		if !found {
			answer.Value = json.RawMessage("null")
		}
		return answer, nil
	})
}

func listTool() (tool.Tool, error) {
	type arguments struct {
		Prefix string   `json:"prefix,omitempty" jsonschema:"only keys below this one; all where it is left out"`
		After  string   `json:"after,omitempty" jsonschema:"only keys after this one, to read on"`
		Scope  string   `json:"scope,omitempty" jsonschema:"session, user, agent or space:NAME; session where it is left out"`
		Tags   []string `json:"tags,omitempty" jsonschema:"only what has all of these tags"`
	}
	type entry struct {
		Key       string   `json:"key"`
		Version   int64    `json:"version"`
		UpdatedAt string   `json:"updatedAt"`
		Tags      []string `json:"tags,omitempty"`
	}
	type answer struct {
		Entries []entry `json:"entries"`
		More    bool    `json:"more"`
	}
	spec := tool.Spec{Name: "memory_list", Nature: tool.ReadOnly, Effects: tool.Read, Description: "List the keys that something is stored under, at most 100."}
	return tool.Func(spec, func(ctx context.Context, in arguments) (answer, error) {
		const most = 100
		found, err := Env(ctx).Memory().Keys(ctx, scopeOrSession(in.Scope), in.Prefix, memory.KeyPage{
			After: in.After, Limit: most + 1, Filter: memory.Filter{Tags: in.Tags},
		})
		a := answer{Entries: []entry{}, More: len(found) > most}
		for _, e := range found[:min(most, len(found))] {
			one := entry{Key: e.Key, Version: e.Version, UpdatedAt: e.UpdatedAt.Format("2006-01-02 15:04")}
			if e.Labels != nil {
				one.Tags = e.Labels.Tags
			}
			a.Entries = append(a.Entries, one)
		}
		return a, err
	})
}

func deleteTool() (tool.Tool, error) {
	type arguments struct {
		Key   string `json:"key" jsonschema:"the name it was stored under"`
		Scope string `json:"scope,omitempty" jsonschema:"session, user, agent or space:NAME; session where it is left out"`
	}
	type answer struct {
		Deleted bool `json:"deleted"` // whether there was such a key
	}
	spec := tool.Spec{
		Name: "memory_delete", Nature: tool.Idempotent, Effects: tool.Read,
		Description: "Forget what is stored under a key, with all its versions.",
	}
	return tool.Func(spec, func(ctx context.Context, in arguments) (answer, error) {
		deleted, err := Env(ctx).Memory().Delete(ctx, scopeOrSession(in.Scope), in.Key)
		return answer{deleted}, err
	})
}

func historyTool() (tool.Tool, error) {
	type arguments struct {
		Limit  int    `json:"limit,omitempty" jsonschema:"how many messages at most; 10 where it is left out"`
		Offset int    `json:"offset,omitempty" jsonschema:"how many to skip"`
		Order  string `json:"order,omitempty" jsonschema:"newest or oldest first; newest where it is left out"`
	}
	spec := tool.Spec{Name: "memory_history", Nature: tool.ReadOnly, Effects: tool.Read, Description: "Read earlier messages of this conversation, word for word."}
	return tool.Func(spec, func(ctx context.Context, in arguments) (string, error) {
		page, err := Env(ctx).Memory().History(ctx, memory.HistoryOptions{Limit: in.Limit, Offset: in.Offset, Order: memory.Order(in.Order)})
		if err != nil {
			return "", err
		}
		if len(page.Messages) == 0 {
			return fmt.Sprintf("There is nothing there; the conversation has %d messages.", page.Total), nil
		}
		var q quote
		for _, m := range page.Messages {
			q.add(fmt.Sprintf("%s, %s", m.Role, m.CreatedAt.Format("2006-01-02 15:04")), plainText(m))
		}
		return q.text(page.Total, "message"), nil
	})
}

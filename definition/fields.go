package definition

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

func definitionFields(d *session.Definition) map[string]field {
	return map[string]field{
		"name":           textField(&d.Name),
		"label":          textField(&d.Label),
		"description":    textField(&d.Description),
		"systemPrompt":   textField(&d.SystemPrompt),
		"model":          textField(&d.Model),
		"modelParams":    modelParamsField(&d.ModelParams),
		"tools":          toolsField(&d.Tools),
		"toolsDeny":      toolsField(&d.ToolsDeny),
		"skills":         namesField(&d.Skills),
		"capabilities":   namesField(&d.Capabilities),
		"subagents":      namesField(&d.Subagents),
		"mcp":            mcpField(&d.MCP),
		"responseFormat": responseFormatField(&d.ResponseFormat),
		"budget":         budgetField(&d.Budget),
		"memory":         memoryField(&d.Memory),
		"metadata":       valuesField(&d.Metadata),
	}
}

func modelParamsField(into **session.ModelParams) field {
	return func(r *reader, path string, n *node) {
		r.secretKeys(path, n)
		p := &session.ModelParams{}
		*into = p
		r.object(path, n, map[string]field{
			"maxOutputTokens": wholeField(&p.MaxOutputTokens),
			"temperature":     decimalField(&p.Temperature),
			"topP":            decimalField(&p.TopP),
			"stop":            textsField(&p.Stop),
			"options":         valuesField(&p.Options),
		})
		p.Stop = nilIfEmpty(p.Stop)
	}
}

func responseFormatField(into **session.ResponseFormat) field {
	return func(r *reader, path string, n *node) {
		f := &session.ResponseFormat{}
		*into = f
		r.object(path, n, map[string]field{
			"type":   textField(&f.Type),
			"name":   textField(&f.Name),
			"strict": flagField(&f.Strict),
			"schema": func(r *reader, path string, n *node) {
				if r.is(path, n, object) {
					f.Schema = r.free(path, n)
				}
			},
		})
	}
}

// A limit may be null: no limit, like a limit that is left out.
func budgetField(into **session.Budget) field {
	return func(r *reader, path string, n *node) {
		b := &session.Budget{}
		*into = b
		r.object(path, n, map[string]field{
			"maxSteps":   orNull(wholeField(&b.MaxSteps)),
			"maxTokens":  orNull(wholeField(&b.MaxTokens)),
			"maxSeconds": orNull(decimalField(&b.MaxSeconds)),
			"maxCost":    orNull(costField(&b.MaxCost)),
			"deadline":   orNull(timeField(&b.Deadline)),
		})
	}
}

func orNull(read field) field {
	return func(r *reader, path string, n *node) {
		if n.kind != null {
			read(r, path, n)
		}
	}
}

func memoryField(into **session.MemoryPolicy) field {
	return func(r *reader, path string, n *node) {
		m := &session.MemoryPolicy{}
		*into = m
		r.object(path, n, map[string]field{
			"strategy":      textField(&m.Strategy),
			"limit":         wholeField(&m.Limit),
			"summaryPrompt": textField(&m.SummaryPrompt),
			"summaryModel":  textField(&m.SummaryModel),
			"slack":         wholeField(&m.Slack),
			"toolTrace":     textField(&m.ToolTrace),
			"recall":        recallField(&m.Recall),
			"tools":         flagField(&m.Tools),
			"scopes":        scopesField(&m.Scopes),
		})
	}
}

func recallField(into **session.Recall) field {
	return func(r *reader, path string, n *node) {
		c := &session.Recall{}
		*into = c
		var limit *int
		r.object(path, n, map[string]field{
			"limit":     wholeField(&limit),
			"threshold": decimalField(&c.Threshold),
			"scopes":    scopesField(&c.Scopes),
		})
		if limit != nil {
			c.Limit = *limit
		}
	}
}

// scopesField refuses an empty list: a session does not tell it from a list
// left out, which allows the scope session.
func scopesField(into *[]string) field {
	return func(r *reader, path string, n *node) {
		if n.kind == list && len(n.items) == 0 {
			r.problem(path, n.line, "is empty; name a scope, or leave it out for the session's own")
			return
		}
		namesField(into)(r, path, n)
	}
}

func mcpField(into *[]session.MCPServer) field {
	return func(r *reader, path string, n *node) {
		if !r.is(path, n, list) {
			return
		}
		servers := make([]session.MCPServer, len(n.items))
		for i, item := range n.items {
			at := fmt.Sprintf("%s[%d]", path, i)
			r.lines[at] = item.line
			s := &servers[i]
			r.object(at, item, map[string]field{
				"id":      textField(&s.ID),
				"command": textField(&s.Command),
				"args":    textsField(&s.Args),
				"env":     variablesField(&s.Env),
				"url":     addressField(&s.URL),
				"headers": variablesField(&s.Headers),
			})
			s.Args = nilIfEmpty(s.Args)
		}
		*into = servers
	}
}

func textField[T ~string](into *T) field {
	return func(r *reader, path string, n *node) {
		if r.is(path, n, text) {
			*into = T(n.text)
		}
	}
}

func flagField(into *bool) field {
	return func(r *reader, path string, n *node) {
		if r.is(path, n, boolean) {
			*into = n.text == "true"
		}
	}
}

func wholeField[T int | int64](into **T) field {
	return func(r *reader, path string, n *node) {
		if !r.is(path, n, number) {
			return
		}
		i, err := strconv.ParseInt(n.text, 10, 64)
		if err != nil || int64(T(i)) != i {
			r.problem(path, n.line, "%s is not a whole number that fits", n.text)
			return
		}
		v := T(i)
		*into = &v
	}
}

func decimalField(into **float64) field {
	return func(r *reader, path string, n *node) {
		if !r.is(path, n, number) {
			return
		}
		f, err := strconv.ParseFloat(n.text, 64)
		if err != nil || math.IsInf(f, 0) {
			r.problem(path, n.line, "%s is not a number that fits", n.text)
			return
		}
		*into = &f
	}
}

func costField(into **session.Cost) field {
	return func(r *reader, path string, n *node) {
		if !r.is(path, n, number) {
			return
		}
		var c session.Cost
		if c.UnmarshalJSON([]byte(n.text)) != nil {
			r.problem(path, n.line, "%s is not a number of dollars", n.text)
			return
		}
		*into = &c
	}
}

func timeField(into **time.Time) field {
	return func(r *reader, path string, n *node) {
		if !r.is(path, n, text) {
			return
		}
		t, err := time.Parse(time.RFC3339, n.text)
		if t = session.Instant(t); err != nil || t.Year() < 0 || t.Year() > 9999 {
			r.problem(path, n.line, "is not a moment such as 2026-02-22T10:00:00Z")
			return
		}
		*into = &t
	}
}

// toolsField reads the lists in which nothing and none are two things.
func toolsField(into *[]string) field {
	return func(r *reader, path string, n *node) {
		if n.kind != list {
			r.problem(path, n.line, "is %s, not a list of names; leave it out for all, write [] for none", n.kind)
			return
		}
		namesField(into)(r, path, n)
	}
}

// namesField keeps the order, drops repeats and refuses blanks.
func namesField(into *[]string) field {
	return func(r *reader, path string, n *node) {
		var names []string
		textsField(&names)(r, path, n)
		for i, name := range names {
			if strings.TrimSpace(name) == "" && n.items[i].kind == text {
				r.problem(fmt.Sprintf("%s[%d]", path, i), n.items[i].line, "is blank")
			}
		}
		*into = distinct(names)
	}
}

// distinct keeps the first of equal names, and nil as nil.
func distinct(names []string) []string {
	if names == nil {
		return nil
	}
	kept := make([]string, 0, len(names))
	for _, name := range names {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

func textsField(into *[]string) field {
	return func(r *reader, path string, n *node) {
		if !r.is(path, n, list) {
			return
		}
		texts := make([]string, len(n.items))
		for i, item := range n.items {
			textField(&texts[i])(r, fmt.Sprintf("%s[%d]", path, i), item)
		}
		*into = texts
	}
}

// nilIfEmpty is for lists in which empty means the same as left out.
func nilIfEmpty(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

// valuesField reads a map whose values are anything. An empty one is nil.
func valuesField(into *session.Values) field {
	return func(r *reader, path string, n *node) {
		if !r.is(path, n, object) || len(n.entries) == 0 {
			return
		}
		values := session.Values{}
		for _, e := range n.entries {
			at := join(path, e.key)
			if _, ok := values[e.key]; ok {
				r.problem(at, e.line, "is there twice")
				continue
			}
			values[e.key] = r.free(at, e.value)
		}
		*into = values
	}
}

// free is a value of any shape; only its keys are checked, for repeats.
func (r *reader) free(path string, n *node) json.RawMessage {
	r.repeats(path, n)
	return n.json()
}

func (r *reader) repeats(path string, n *node) {
	for i, item := range n.items {
		r.repeats(fmt.Sprintf("%s[%d]", path, i), item)
	}
	seen := map[string]bool{}
	for _, e := range n.entries {
		at := join(path, e.key)
		if seen[e.key] {
			r.problem(at, e.line, "is there twice")
		}
		seen[e.key] = true
		r.repeats(at, e.value)
	}
}

package definition

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
)

type (
	field = document.Field
	value = document.Value
)

var (
	keys    = document.Keys
	may     = document.May
	str     = document.Text[string]
	integer = document.Int(math.MinInt, math.MaxInt)
	long    = document.Int[int64](math.MinInt64, math.MaxInt64)
	number  = document.Float(-math.MaxFloat64, math.MaxFloat64)
)

func (r *reader) definition(d *session.Definition) field {
	return keys(
		may("name", str(&d.Name)),
		may("label", str(&d.Label)),
		may("description", str(&d.Description)),
		may("systemPrompt", str(&d.SystemPrompt)),
		may("model", str(&d.Model)),
		may("modelParams", document.Ptr(&d.ModelParams, r.modelParams)),
		may("tools", tools(&d.Tools)),
		may("toolsDeny", tools(&d.ToolsDeny)),
		may("skills", names(&d.Skills)),
		may("capabilities", names(&d.Capabilities)),
		may("subagents", names(&d.Subagents)),
		may("mcp", servers(&d.MCP, r.server)),
		may("responseFormat", document.Ptr(&d.ResponseFormat, responseFormat)),
		may("budget", document.Ptr(&d.Budget, budget)),
		may("memory", document.Ptr(&d.Memory, memory)),
		may("metadata", func(v value) {
			r.secretKeys(v)
			values(&d.Metadata)(v)
		}),
	)
}

func (r *reader) modelParams(p *session.ModelParams) field {
	return func(v value) {
		r.secretKeys(v)
		keys(
			may("maxOutputTokens", document.Ptr(&p.MaxOutputTokens, integer)),
			may("temperature", document.Ptr(&p.Temperature, number)),
			may("topP", document.Ptr(&p.TopP, number)),
			may("stop", document.ListOf(&p.Stop, str)),
			may("options", values(&p.Options)),
		)(v)
	}
}

func responseFormat(f *session.ResponseFormat) field {
	return keys(
		may("type", document.Text(&f.Type)),
		may("name", str(&f.Name)),
		may("strict", document.Flag(&f.Strict)),
		may("schema", func(v value) {
			if v.Is(document.Map) {
				f.Schema = v.JSON()
			}
		}),
	)
}

func budget(b *session.Budget) field {
	return keys(
		may("maxSteps", orNull(document.Ptr(&b.MaxSteps, long))),
		may("maxTokens", orNull(document.Ptr(&b.MaxTokens, long))),
		may("maxSeconds", orNull(document.Ptr(&b.MaxSeconds, number))),
		may("maxCost", orNull(document.Ptr(&b.MaxCost, cost))),
		may("deadline", orNull(document.Ptr(&b.Deadline, moment))),
	)
}

// orNull takes null for no limit, like a limit that is left out.
func orNull(read field) field {
	return func(v value) {
		if v.Kind != document.Null {
			read(v)
		}
	}
}

func memory(m *session.MemoryPolicy) field {
	return keys(
		may("strategy", document.Text(&m.Strategy)),
		may("limit", document.Ptr(&m.Limit, integer)),
		may("summaryPrompt", str(&m.SummaryPrompt)),
		may("summaryModel", str(&m.SummaryModel)),
		may("slack", document.Ptr(&m.Slack, integer)),
		may("toolTrace", document.Text(&m.ToolTrace)),
		may("recall", document.Ptr(&m.Recall, func(c *session.Recall) field {
			return keys(
				may("limit", integer(&c.Limit)),
				may("threshold", document.Ptr(&c.Threshold, number)),
				may("scopes", scopes(&c.Scopes)),
			)
		})),
		may("tools", document.Flag(&m.Tools)),
		may("scopes", scopes(&m.Scopes)),
		may("blocks", document.ListOf(&m.Blocks, block)),
		may("facts", document.Ptr(&m.Facts, func(f *session.Facts) field {
			return keys(may("model", str(&f.Model)), may("prompt", str(&f.Prompt)), may("scope", str(&f.Scope)))
		})),
	)
}

func block(b *session.MemoryBlock) field {
	return keys(
		may("name", str(&b.Name)),
		may("description", str(&b.Description)),
		may("scope", str(&b.Scope)),
		may("limit", integer(&b.Limit)),
		may("text", str(&b.Text)),
		may("readOnly", document.Flag(&b.ReadOnly)),
	)
}

// scopes refuses an empty list: a session cannot tell it from a list that is
// left out, which allows the scope session.
func scopes(into *[]string) field {
	return func(v value) {
		if v.Kind == document.List && len(v.Items) == 0 {
			v.Problem("is empty; name a scope, or leave it out for the session's own")
			return
		}
		names(into)(v)
	}
}

func servers(into *[]session.MCPServer, server func(*session.MCPServer) field) field {
	return func(v value) {
		*into = []session.MCPServer{}
		document.ListOf(into, server)(v)
	}
}

func (r *reader) server(s *session.MCPServer) field {
	return keys(
		may("id", str(&s.ID)),
		may("command", str(&s.Command)),
		may("args", document.ListOf(&s.Args, str)),
		may("env", r.variables(&s.Env)),
		may("url", r.address(&s.URL)),
		may("headers", r.variables(&s.Headers)),
	)
}

func cost(into *session.Cost) field {
	return func(v value) {
		if v.Is(document.Number) && into.UnmarshalJSON([]byte(v.Text)) != nil {
			v.Problem("%s is not a number of dollars", v.Text)
		}
	}
}

func moment(into *time.Time) field {
	var written string
	return document.Checked(&written, func(s string) error {
		t, err := time.Parse(time.RFC3339, s)
		if *into = session.Instant(t); err != nil || into.Year() < 0 || into.Year() > 9999 {
			return errors.New("is not a moment such as 2026-02-22T10:00:00Z")
		}
		return nil
	})
}

// tools reads the lists in which absent and empty differ.
func tools(into *[]string) field {
	return func(v value) {
		if v.Kind != document.List {
			v.Problem("is %s, not a list of names; leave it out for all, write [] for none", v.Kind)
			return
		}
		names(into)(v)
	}
}

// names keeps the order, drops repeats and refuses blanks.
func names(into *[]string) field {
	return func(v value) {
		all := []string{}
		document.ListOf(&all, document.Filled)(v)
		*into = distinct(all)
	}
}

// distinct keeps the first of equal names, and nil as nil.
func distinct(names []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}

// values reads a map whose values are anything. An empty one is nil.
func values(into *session.Values) field {
	return document.Entries(func(key string, v value) {
		if *into == nil {
			*into = session.Values{}
		}
		(*into)[key] = v.JSON()
	})
}

package session_test

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

// noon is when the tests' sessions are born.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// hostile are strings that break naive encoders, keys and file names.
func hostile() []string {
	return []string{
		"", " ", "plain", "tab\tnew\nline", "nul\x00byte", "bad\xffutf8\xc3", "\xed\xa0\x80", "<script>&amp;</script>",
		"line\u2028para\u2029", "👩‍👩‍👧‍👦 family", "Ω≈ç", `quote " and \ back`, "\ufeffbom", "../../etc/passwd", "\x7f", "null", "a/b",
		"\ufffd", "Iıİi",
	}
}

func text() property.Generator[string] {
	return property.OneOf(
		property.SampledFrom(hostile()),
		property.StringN(0, 12),
		property.Map(property.SliceOfN(property.Byte(), 0, 12), func(b []byte) string { return string(b) }),
	)
}

func name() property.Generator[string] {
	return property.SampledFrom([]string{"a", "b", "c", "d", "é", "<&>"})
}

// jsonValue is the text of a JSON value, also with needless space and escapes.
func jsonValue() property.Generator[json.RawMessage] {
	return property.Custom(func(t *property.T) json.RawMessage {
		fixed := []string{
			"null", "true", " 1.50 ", "-0", "1e300", "12345678901234567890", `"\u003c\u2028\ud800\/"`, "\"raw \u2028 <&>\"",
			`{"b":1, "a" : [ ], "b":2}`, `[[[{}]]]`, `"\u0000\u001f\b\f"`, "{\"\\u0061\": \"\u2029\"}", ``,
		}
		if property.Bool().Draw(t, "fixed") {
			return json.RawMessage(property.SampledFrom(fixed).Draw(t, "json"))
		}
		raw, err := json.Marshal(map[string]any{
			text().Draw(t, "key"): text().Draw(t, "string"),
			"number":              property.Float64Range(-1e9, 1e9).Draw(t, "number"),
			"list":                property.SliceOfN(property.Int64(), 0, 3).Draw(t, "list"),
		})
		if err != nil {
			panic(err) // strings and finite numbers always encode
		}
		return raw
	})
}

func values() property.Generator[session.Values] {
	return property.Map(property.MapOfN(name(), jsonValue(), 0, 3), func(m map[string]json.RawMessage) session.Values { return m })
}

// moment is any time, most often not in order: clocks go backwards.
func moment() property.Generator[time.Time] {
	return property.Custom(func(t *property.T) time.Time {
		at := noon.Add(time.Duration(property.Int64Range(-1e9, 1e12).Draw(t, "ns")))
		return at.In(time.FixedZone("somewhere", property.IntRange(-50000, 50000).Draw(t, "zone")))
	})
}

func optional[T any](g property.Generator[T]) property.Generator[*T] {
	return property.OneOf(property.Just[*T](nil), property.Map(g, func(v T) *T { return &v }))
}

func usage() property.Generator[session.Usage] {
	n := property.OneOf(property.Int64Range(0, 1000), property.Just(int64(math.MaxInt64)))
	return property.Custom(func(t *property.T) session.Usage {
		return session.Usage{Input: n.Draw(t, "in"), Output: n.Draw(t, "out"), CacheRead: n.Draw(t, "cr"), Reasoning: n.Draw(t, "re")}
	})
}

func cost() property.Generator[session.Cost] {
	return property.Map(property.Int64Range(0, math.MaxInt64), func(n int64) session.Cost { return session.Cost(n) })
}

func budget() property.Generator[session.Budget] {
	return property.Custom(func(t *property.T) session.Budget {
		return session.Budget{
			MaxSteps:   optional(property.Int64Range(0, math.MaxInt64)).Draw(t, "steps"),
			MaxTokens:  optional(property.Int64Range(0, 9)).Draw(t, "tokens"),
			MaxSeconds: optional(property.Float64Range(0, 1e9)).Draw(t, "seconds"),
			MaxCost:    optional(cost()).Draw(t, "cost"),
			Deadline:   optional(moment()).Draw(t, "deadline"),
		}
	})
}

func params() property.Generator[session.ModelParams] {
	return property.Custom(func(t *property.T) session.ModelParams {
		return session.ModelParams{
			MaxOutputTokens: optional(property.IntRange(0, 1<<40)).Draw(t, "max"),
			Temperature:     optional(property.Float64Range(0, 2)).Draw(t, "temperature"),
			TopP:            optional(property.Float64Range(0, 1)).Draw(t, "topP"),
			Stop:            property.SliceOfN(text(), 0, 2).Draw(t, "stop"),
			Options:         values().Draw(t, "options"),
		}
	})
}

func format() property.Generator[session.ResponseFormat] {
	return property.Custom(func(t *property.T) session.ResponseFormat {
		return session.ResponseFormat{
			Type: "json_schema", Schema: jsonValue().Draw(t, "schema"), Name: text().Draw(t, "name"), Strict: property.Bool().Draw(t, "strict"),
		}
	})
}

func definition() property.Generator[session.Definition] {
	list := property.OneOf(property.Just[[]string](nil), property.SliceOfN(name(), 0, 4))
	return property.Custom(func(t *property.T) session.Definition {
		return session.Definition{
			Name: "agent", Label: text().Draw(t, "label"), Description: text().Draw(t, "description"),
			SystemPrompt: text().Draw(t, "prompt"), Model: text().Draw(t, "model"), ModelParams: optional(params()).Draw(t, "params"),
			Tools: list.Draw(t, "tools"), ToolsDeny: list.Draw(t, "deny"), Skills: list.Draw(t, "skills"),
			Capabilities: list.Draw(t, "capabilities"), Subagents: list.Draw(t, "subagents"),
			MCP: []session.MCPServer{{
				ID: "m", Command: "run" + text().Draw(t, "command"), Args: property.SliceOfN(text(), 0, 2).Draw(t, "args"),
				Env: property.MapOfN(name(), text(), 0, 2).Draw(t, "env"), Headers: map[string]string{},
			}},
			ResponseFormat: optional(format()).Draw(t, "format"), Budget: optional(budget()).Draw(t, "budget"),
			Memory: &session.MemoryPolicy{
				Strategy: session.PruneSummary, Limit: ptr(3), SummaryPrompt: "sum up " + text().Draw(t, "summaryPrompt"),
				SummaryModel: text().Draw(t, "summaryModel"), Scopes: []string{}, Recall: &session.Recall{Scopes: []string{"user"}},
				Blocks: []session.MemoryBlock{{Name: "b", Description: text().Draw(t, "about"), Text: text().Draw(t, "block")}},
			},
			Metadata: values().Draw(t, "metadata"),
		}
	})
}

func content() property.Generator[session.Content] {
	part := property.Custom(func(t *property.T) session.Part {
		if property.IntRange(0, 5).Draw(t, "opaque") == 0 {
			return session.Part{Type: "hologram", Raw: json.RawMessage(`{ "type":"hologram", "data":"\u003c" }`)}
		}
		return session.Part{
			Type: property.SampledFrom([]string{session.PartText, session.PartImage, session.PartFile, session.PartAudio, session.PartReasoning}).Draw(t, "type"),
			Text: text().Draw(t, "text"), Data: text().Draw(t, "data"), Signature: text().Draw(t, "signature"), Name: text().Draw(t, "name"),
		}
	})
	return property.OneOf(
		property.Map(text(), session.Text),
		property.Map(property.SliceOfN(part, 0, 3), func(p []session.Part) session.Content { return p }),
	)
}

func message(id string) property.Generator[session.Message] {
	return property.Custom(func(t *property.T) session.Message {
		m := session.Message{
			ID: id, Role: property.SampledFrom(session.Roles()).Draw(t, "role"), Name: text().Draw(t, "name"), Content: content().Draw(t, "content"),
			Unit: text().Draw(t, "unit"), StepID: property.SampledFrom([]string{"", "step-1", "step-2"}).Draw(t, "step"),
			Trace: property.Bool().Draw(t, "trace"), RequestID: text().Draw(t, "request"), Metadata: values().Draw(t, "metadata"),
		}
		callID := property.SampledFrom([]string{"call-1", "call-2", "", "bad\xff"})
		switch m.Role {
		case session.RoleAssistant:
			m.ToolCalls = property.SliceOfN(property.Custom(func(t *property.T) session.ToolCall {
				return session.ToolCall{ID: callID.Draw(t, "id"), Name: "tool" + text().Draw(t, "tool"), Arguments: json.RawMessage(` { "x" : "\u003c" } `)}
			}), 0, 2).Draw(t, "calls")
		case session.RoleTool:
			m.ToolResult = &session.ToolResult{CallID: callID.Draw(t, "callId"), ToolName: text().Draw(t, "toolName"), Content: text().Draw(t, "result")}
		}
		if property.Bool().Draw(t, "dated") {
			m.CreatedAt = moment().Draw(t, "createdAt")
		}
		return m
	})
}

func signals() property.Generator[[]session.Signal] {
	return property.SliceOfN(property.Custom(func(t *property.T) session.Signal {
		return session.Signal{
			Reason: property.SampledFrom(session.StopReasons()).Draw(t, "reason"), Message: text().Draw(t, "message"),
			Context: values().Draw(t, "context"), Source: text().Draw(t, "source"),
		}
	}), 0, 2)
}

func failures() property.Generator[[]session.Failure] {
	return property.SliceOfN(property.Custom(func(t *property.T) session.Failure {
		return session.Failure{Kind: text().Draw(t, "kind"), Message: text().Draw(t, "message")}
	}), 0, 2)
}

// change is one that a session may well accept: those of an execution are
// drawn as its state allows, the rest at random.
func change(s session.Session) property.Generator[session.Change] {
	return property.Custom(func(t *property.T) session.Change {
		if s.Info().Kind == session.KindTask && property.Bool().Draw(t, "task") {
			return taskChange(t, s)
		}
		if property.IntRange(0, 2).Draw(t, "execution") == 0 {
			return executionChange(t, s)
		}
		key := property.OneOf(name(), text()).Draw(t, "key")
		switch property.IntRange(0, 26).Draw(t, "kind") {
		case 0:
			return session.StatusChanged{Status: property.SampledFrom(session.Statuses()).Draw(t, "status"), Reason: text().Draw(t, "reason")}
		case 1:
			return session.NameChanged{Name: text().Draw(t, "name")}
		case 2:
			return session.ExpiryChanged{ExpiresAt: optional(moment()).Draw(t, "expires")}
		case 3:
			return session.MetadataWritten{Key: key, Value: jsonValue().Draw(t, "value")}
		case 4:
			return session.MetadataRemoved{Key: key}
		case 5:
			return session.VariableStored{Key: key, Value: jsonValue().Draw(t, "value"), CallID: property.SampledFrom([]string{"", "call-1"}).Draw(t, "call")}
		case 6:
			return session.VariableDeleted{Key: key}
		case 7:
			return session.SystemPromptChanged{Text: text().Draw(t, "prompt")}
		case 8:
			return session.ModelChanged{Model: text().Draw(t, "model"), Params: optional(params()).Draw(t, "params")}
		case 9:
			return session.ResponseFormatChanged{ResponseFormat: optional(format()).Draw(t, "format")}
		case 10:
			return session.TranscriptCleared{}
		case 11:
			return windowMove(t, s)
		case 12:
			return session.InboxTaken{ItemID: "item" + text().Draw(t, "item"), ItemKind: text().Draw(t, "itemKind")}
		case 13:
			return session.TaskRowChanged{Task: session.TaskRow{Title: text().Draw(t, "title"), Status: text().Draw(t, "status")}}
		case 14:
			return session.SessionTitled{Title: text().Draw(t, "title"), Model: text().Draw(t, "model"), Usage: usage().Draw(t, "usage"), Cost: cost().Draw(t, "cost")}
		}
		return session.MessageAdded{Message: message(fmt.Sprintf("m-%d", s.Seq())).Draw(t, "message")}
	})
}

func windowMove(t *property.T, s session.Session) session.Change {
	c := session.WindowMoved{
		Strategy: property.SampledFrom(append(session.Strategies(), "")).Draw(t, "strategy"),
		From:     s.Window().FromSeq, To: property.Int64Range(0, s.Seq()+1).Draw(t, "to"),
		Keep: property.SliceOfN(property.Int64Range(1, s.Seq()), 0, 3).Draw(t, "keep"),
	}
	if property.Bool().Draw(t, "summarised") {
		c.Summary = &session.Summary{
			Text: text().Draw(t, "summary"), FromSeq: 1, ToSeq: c.To, Model: text().Draw(t, "model"),
			Usage: usage().Draw(t, "usage"), Cost: cost().Draw(t, "cost"), CreatedAt: moment().Draw(t, "at"),
		}
	}
	return c
}

func executionChange(t *property.T, s session.Session) session.Change {
	seconds := property.Float64Range(0, 1e6).Draw(t, "seconds")
	if !s.Running() {
		return session.ExecutionStarted{ExecutionID: "x" + text().Draw(t, "id"), Budget: optional(budget()).Draw(t, "budget"), RequestID: text().Draw(t, "request")}
	}
	steps := []string{"step-1", "step-2", "bad\xff"}
	for _, s := range s.Execution().Steps {
		steps = append(steps, s.ID, s.ID)
	}
	step := property.SampledFrom(steps).Draw(t, "step")
	call := property.SampledFrom([]string{"call-1", "bad\xff"}).Draw(t, "call")
	switch property.IntRange(0, 8).Draw(t, "stage") {
	case 0:
		return session.ExecutionContinued{}
	case 1:
		return session.InferenceFailed{StepID: step, Model: text().Draw(t, "model"), StartedAt: moment().Draw(t, "started"), Errors: failures().Draw(t, "errors"), ActiveSeconds: seconds}
	case 2:
		return session.ToolStarted{StepID: step, CallID: call, ToolName: text().Draw(t, "tool")}
	case 3:
		return session.ToolFinished{StepID: step, CallID: call, ToolName: text().Draw(t, "tool"), ChildSessionID: text().Draw(t, "child"), ActiveSeconds: seconds}
	case 4:
		return session.StepFinished{StepID: step, Type: session.StepFinal, Signals: signals().Draw(t, "signals"), Errors: failures().Draw(t, "errors"), ActiveSeconds: seconds}
	case 5:
		return session.ExecutionFinished{
			Status: session.ExecutionStopped, Stop: &session.Signal{Reason: session.StopTime, Message: text().Draw(t, "why")},
			Signals: signals().Draw(t, "signals"), Errors: failures().Draw(t, "errors"), ActiveSeconds: seconds,
		}
	}
	return session.InferenceAnswered{
		StepID: step, Model: text().Draw(t, "model"), StartedAt: moment().Draw(t, "started"), FinishReason: text().Draw(t, "finish"),
		Usage: usage().Draw(t, "usage"), Cost: cost().Draw(t, "cost"), ActiveSeconds: seconds,
	}
}

func ptr[T any](v T) *T { return &v }

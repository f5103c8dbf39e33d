package taskruntime_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/session"
)

// withHistory is a snapshot with a history.
func withHistory(t *testing.T, history string) json.RawMessage {
	t.Helper()
	return put(t, json.RawMessage(foreign), "conversationHistory", json.RawMessage(history))
}

func TestNormalise_onlyWhatIsWrongGoes(t *testing.T) {
	t.Parallel()
	call := func(id string) string { return `{"type":"tool_use","id":"` + id + `","name":"n","input":{}}` }
	result := func(id string) string {
		return `{"type":"tool_result","tool_use_id":"` + id + `","content":"r"}`
	}
	const words = `{"type":"text","text":"w"}`
	user := func(blocks ...string) string {
		return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
	}
	model := func(blocks ...string) string {
		return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
	}
	const start = `{"role":"user","content":"go"}`
	for name, tt := range map[string]struct {
		history, want []string
		repairs       []taskruntime.Repair
	}{
		"right":            {[]string{start, model(words, call("a"), call("b")), user(result("b"), result("a")), model(words)}, nil, nil},
		"results apart":    {[]string{start, model(call("a"), call("b")), user(result("a")), user(result("b"))}, nil, nil},
		"result alone":     {[]string{start, user(result("a")), model(words)}, []string{start, model(words)}, []taskruntime.Repair{{Kind: taskruntime.OrphanToolResult, Message: 1, ID: "a"}}},
		"result twice":     {[]string{start, model(call("a")), user(result("a"), result("a"))}, []string{start, model(call("a")), user(result("a"))}, []taskruntime.Repair{{Kind: taskruntime.DuplicateToolResult, Message: 2, ID: "a"}}},
		"id used before":   {[]string{start, model(call("a")), user(result("a")), model(call("a"), words), user(result("a"))}, []string{start, model(call("a")), user(result("a")), model(words)}, []taskruntime.Repair{{Kind: taskruntime.OrphanToolResult, Message: 4, ID: "a"}, {Kind: taskruntime.DuplicateToolUse, Message: 3, ID: "a"}}},
		"id twice at once": {[]string{start, model(call("a"), call("a")), user(result("a"))}, []string{start, model(call("a")), user(result("a"))}, []taskruntime.Repair{{Kind: taskruntime.DuplicateToolUse, Message: 1, ID: "a"}}},
		"no id":            {[]string{start, model(words, call("")), user(result(""))}, []string{start, model(words)}, []taskruntime.Repair{{Kind: taskruntime.OrphanToolResult, Message: 2}, {Kind: taskruntime.MissingToolResult, Message: 1}}},
		"call without one": {[]string{start, model(words, call("a"), call("b")), user(result("b")), model(words)}, []string{start, model(words, call("b")), user(result("b")), model(words)}, []taskruntime.Repair{{Kind: taskruntime.MissingToolResult, Message: 1, ID: "a"}}},
		"nothing left":     {[]string{start, model(call("a")), model(words)}, []string{start, model(words)}, []taskruntime.Repair{{Kind: taskruntime.MissingToolResult, Message: 1, ID: "a"}}},
		"mixed":            {[]string{start, model(call("a")), user(words, result("a"))}, []string{start, model(call("a")), user(result("a")), user(words)}, []taskruntime.Repair{{Kind: taskruntime.MixedToolResult, Message: 2}}},
		"words in between": {[]string{start, model(call("a")), user(words), user(result("a"))}, []string{start, model(call("a")), user(result("a")), user(words)}, []taskruntime.Repair{{Kind: taskruntime.MixedToolResult, Message: 3}}},
		"in a wrong mouth": {[]string{start, model(words, result("a")), user(words, call("b"))}, []string{start, model(words), user(words)}, []taskruntime.Repair{{Kind: taskruntime.MissingToolResult, Message: 2, ID: "b"}, {Kind: taskruntime.OrphanToolResult, Message: 1, ID: "a"}}},
		"id free again":    {[]string{start, model(call("a"), words), model(call("a")), user(result("a"))}, []string{start, model(words), model(call("a")), user(result("a"))}, []taskruntime.Repair{{Kind: taskruntime.MissingToolResult, Message: 1, ID: "a"}}},
		"unknown is kept":  {[]string{start, model(`{"type":"thinking","thinking":"t"}`, call("a")), user(`{"type":"odd"}`)}, []string{start, model(`{"type":"thinking","thinking":"t"}`), user(`{"type":"odd"}`)}, []taskruntime.Repair{{Kind: taskruntime.MissingToolResult, Message: 1, ID: "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.want == nil {
				tt.want = tt.history
			}
			s := importing(t)
			in := s.imported(string(withHistory(t, "["+strings.Join(tt.history, ",")+"]")), taskruntime.ImportOptions{})
			if !slices.Equal(in.Report.Repairs, tt.repairs) {
				t.Errorf("repairs %+v\nwant %+v", in.Report.Repairs, tt.repairs)
			}
			raw := s.export(in.Row.ID, taskruntime.ExportOptions{})
			if have, want := compacted(t, at(t, raw, "conversationHistory")), compacted(t, []byte("["+strings.Join(tt.want, ",")+"]")); have != want {
				t.Errorf("have %s\nwant %s", have, want)
			}
		})
	}
}

// Whatever a history looks like, what is made of it is what providers accept,
// and making it again changes nothing.
func TestNormalise_anyHistoryBecomesOneThatProvidersAccept(t *testing.T) {
	t.Parallel()
	property.Check(t, func(rt *property.T) {
		block := property.Custom(func(t *property.T) map[string]any {
			id := property.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "id")
			switch property.IntRange(0, 4).Draw(t, "block") {
			case 0, 1:
				return map[string]any{"type": "tool_use", "id": id, "name": "n", "input": map[string]any{}}
			case 2, 3:
				return map[string]any{"type": "tool_result", "tool_use_id": id, "content": "r"}
			}
			return map[string]any{"type": "text", "text": property.StringN(0, 3).Draw(t, "text")}
		})
		history := []any{map[string]any{"role": "user", "content": "go"}}
		for range rt.Repeat(0, 8) {
			history = append(history, map[string]any{
				"role": property.SampledFrom([]string{"user", "assistant"}).Draw(rt, "role"), "content": property.SliceOfN(block, 1, 4).Draw(rt, "content"),
			})
		}
		payload := put(t, json.RawMessage(foreign), "conversationHistory", quote(history))
		out, err := taskruntime.RestoreFromEvents(t.Context(), taskruntime.RestoreInput{Checkpoint: payload})
		if err != nil {
			rt.Fatal(err)
		}
		for i, m := range out.Messages { // results stand directly after their call, once each
			if len(m.ToolCalls) == 0 {
				continue
			}
			var asked, answered []string
			for _, c := range m.ToolCalls {
				asked = append(asked, c.ID)
			}
			for j := i + 1; j < len(out.Messages) && out.Messages[j].ToolResult != nil; j++ {
				answered = append(answered, out.Messages[j].ToolResult.CallID)
			}
			slices.Sort(asked)
			slices.Sort(answered)
			if !slices.Equal(asked, answered) {
				rt.Fatalf("calls %v have results %v", asked, answered)
			}
		}
		results, calls := 0, 0
		for _, m := range out.Messages {
			calls += len(m.ToolCalls)
			if m.ToolResult != nil {
				results++
			}
		}
		if results != calls {
			rt.Fatalf("%d results of %d calls", results, calls)
		}
		if sent := session.Sendable(out.Messages); len(sent) != len(out.Messages) {
			rt.Fatalf("%d messages are sent of %d", len(sent), len(out.Messages))
		}
	})
}

package strands_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

// FuzzDecodeState: a typed error, or a state that is written in one form for ever.
func FuzzDecodeState(f *testing.F) {
	f.Add([]byte(chainSession), []byte(chainPattern))
	f.Add([]byte(`{"metadata":null,"holdfast":{"format":1}}`), []byte(`{"a":1e400,"b":[{}],"a":"\ud800"}`))
	f.Fuzz(func(t *testing.T, sessionJSON, patternJSON []byte) {
		s, err := strands.DecodeState(sessionJSON, patternJSON)
		if err != nil {
			if !errors.Is(err, session.ErrCorrupt) && !errors.Is(err, session.ErrNewerFormat) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		first, pattern, err := s.Encode()
		if err != nil {
			t.Fatalf("a state that was read cannot be written: %v", err)
		}
		again, err := strands.DecodeState(first, pattern)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s\n%s", err, first, pattern)
		}
		second, patternAgain, err := again.Encode()
		if err != nil || !bytes.Equal(first, second) || !bytes.Equal(pattern, patternAgain) {
			t.Fatalf("written twice, in two forms (%v):\n%s\n%s", err, first, second)
		}
	})
}

// FuzzConversation: whatever lies in an agent's folder gives a typed error or a
// conversation that a session takes and gives back.
func FuzzConversation(f *testing.F) {
	f.Add([]byte(`{}`), []byte(`{"message":{"role":"user","content":[{"text":"é"},`+png+`]}}`), []byte(`{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"n","input":{}}}]}}`))
	f.Add([]byte(`{"conversation_manager_state":{"removed_message_count":1,"summary_message":{"role":"user","content":[]}}}`),
		[]byte(`{"message":{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"json":1}]}},{"x":1}]},"holdfast":{"messages":[{"role":"tool"}]}}`), []byte(`{"message":{"role":"user","content":[{}]},"redact_message":null}`))
	f.Fuzz(func(t *testing.T, agent, first, second []byte) {
		d := strands.Dir(t.TempDir())
		folder := filepath.Join(d.AgentsDir(), "expert")
		put(t, filepath.Join(folder, "agent.json"), string(agent))
		put(t, filepath.Join(folder, "messages", "message_0.json"), string(first))
		put(t, filepath.Join(folder, "messages", "message_1.json"), string(second))
		got, err := d.Conversations("i", nil)
		if err != nil {
			if !errors.Is(err, session.ErrCorrupt) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		c := got[0]
		list := throughSession(t, strands.ToSession("", c.Messages))
		if shown := session.Sendable(list); session.ValidTranscript(shown) != nil {
			t.Fatalf("a model is shown %s", asJSON(t, shown))
		}
		back, err := strands.FromSession(0, list)
		if err != nil || len(back) != 2 {
			t.Fatalf("%d messages came back (%v)", len(back), err)
		}
		for i := range back {
			if got, want := asJSON(t, back[i].Body), asJSON(t, c.Messages[i].Shown()); got != want {
				t.Fatalf("%s came back as %s", want, got)
			}
		}
	})
}

var value = property.OneOf(
	property.Map(property.String(), quote),
	property.Map(property.Float64Range(-1e20, 1e20), func(f float64) string {
		raw, err := json.Marshal(f)
		if err != nil {
			panic(err)
		}
		return string(raw)
	}),
	property.SampledFrom([]string{"null", "true", "[]", "{}", `[{"z":1,"a":[2]}]`, "12345678901234567890"}),
)

func drawObject(rt *property.T, label string) strands.Object {
	var o strands.Object
	for range property.IntRange(0, 4).Draw(rt, label) {
		o.Set("x_"+property.String().Draw(rt, "key"), json.RawMessage(value.Draw(rt, "value")))
	}
	return o
}

func drawState(rt *property.T) strands.State {
	text := property.String()
	s := strands.State{
		Metadata: strands.Metadata{
			SessionID: id, WorkflowName: text.Draw(rt, "name"), SpecHash: text.Draw(rt, "hash"), PatternType: "graph",
			Status:    property.SampledFrom([]workflow.Status{workflow.StatusRunning, workflow.StatusPaused, workflow.StatusCompleted, workflow.StatusFailed}).Draw(rt, "status"),
			CreatedAt: at(property.IntRange(0, 2e6).Draw(rt, "created")), UpdatedAt: at(property.IntRange(0, 2e6).Draw(rt, "updated")),
			Error: text.Draw(rt, "error"), Metadata: drawObject(rt, "metadata"), Extra: drawObject(rt, "metadata extra"),
		},
		RuntimeConfig: strands.RuntimeConfig{Provider: text.Draw(rt, "provider"), Extra: drawObject(rt, "runtime extra")},
		TokenUsage:    strands.TokenUsage{TotalInput: property.Int64().Draw(rt, "input"), Extra: drawObject(rt, "usage extra")},
		Extra:         drawObject(rt, "extra"),
		Pattern:       drawObject(rt, "pattern"),
	}
	for range rt.Repeat(0, 3) {
		s.Variables.Set(text.Draw(rt, "variable"), text.Draw(rt, "text"))
	}
	if property.Bool().Draw(rt, "temperature") {
		s.RuntimeConfig.Temperature = ptr(property.Float64Range(0, 2).Draw(rt, "degrees"))
		s.RuntimeConfig.Budgets = json.RawMessage(`{"max_steps":3}`)
		s.Holdfast = &strands.Extension{Version: property.Int64Range(0, math.MaxInt64).Draw(rt, "version"), SpecPath: text.Draw(rt, "path"), Extra: drawObject(rt, "own extra")}
		s.ArtifactsWritten = []string{text.Draw(rt, "artifact")}
	}
	return s
}

func TestState_anyComesBack(t *testing.T) {
	t.Parallel()
	property.Check(t, func(rt *property.T) {
		s := drawState(rt)
		first, pattern, err := s.Encode()
		if err != nil {
			rt.Fatal(err)
		}
		for _, data := range [][]byte{first, pattern} {
			if i := bytes.IndexFunc(data, func(r rune) bool { return r > '~' || r < ' ' && r != '\n' }); i >= 0 || !json.Valid(data) {
				rt.Fatalf("not plain ASCII JSON at %d:\n%s", i, data)
			}
		}
		got, err := strands.DecodeState(first, pattern)
		if err != nil {
			rt.Fatal(err)
		}
		second, patternAgain, err := got.Encode()
		if err != nil || !bytes.Equal(first, second) || !bytes.Equal(pattern, patternAgain) {
			rt.Fatalf("written twice, in two forms (%v):\n%s\n%s", err, first, second)
		}
		if !reflect.DeepEqual(got.Metadata.WorkflowName, s.Metadata.WorkflowName) || !reflect.DeepEqual(got.Variables, s.Variables) ||
			!reflect.DeepEqual(got.RuntimeConfig.Temperature, s.RuntimeConfig.Temperature) || got.TokenUsage.TotalInput != s.TokenUsage.TotalInput ||
			got.Metadata.Error != s.Metadata.Error || !got.Metadata.CreatedAt.Equal(s.Metadata.CreatedAt) || got.Pattern.Len() != s.Pattern.Len() {
			rt.Fatalf("state is\n%+v, was\n%+v", got, s)
		}
	})
}

package holdfasttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/replay"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

func shopTool(t *testing.T, name, result string) tool.Tool {
	t.Helper()
	made, err := tool.Func(tool.Spec{Name: name}, func(context.Context, struct {
		Order int `json:"order"`
	}) (string, error) {
		return result, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// record makes the conversation of the examples.
func record(t *testing.T) (*holdfast.Runtime, session.Session) {
	t.Helper()
	model := scripted.New(
		scripted.Reply{ToolCalls: []session.ToolCall{{ID: "1", Name: "find_order", Arguments: []byte(`{"order":7}`)}}},
		scripted.Reply{ToolCalls: []session.ToolCall{{ID: "2", Name: "refund", Arguments: []byte(`{"order":7}`)}}},
		scripted.Reply{Text: "Order 7 is refunded. The money is with you in three days."},
	)
	tools, err := tool.NewSet(shopTool(t, "find_order", "order 7: a coat, paid 80 €"), shopTool(t, "refund", "refunded"))
	if err != nil {
		t.Fatal(err)
	}
	st := inmem.New(inmem.Config{})
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"shop/clerk": model}, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = rt.Close(), st.Close() })
	s, err := rt.Create(t.Context(), session.Definition{
		Name: "clerk", Model: "shop/clerk", SystemPrompt: "You are a clerk of a shop.", Tools: []string{"find_order", "refund"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = rt.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "Please refund order 7."}); err != nil {
		t.Fatal(err)
	}
	return rt, s
}

// TestRecording writes the recording of the examples when HOLDFAST_UPDATE is set,
// and else checks that it says what the conversation says today.
func TestRecording(t *testing.T) {
	const name = "testdata/refund.json"
	rt, s := record(t)
	s, err := rt.Get(t.Context(), s.ID(), holdfast.Whole())
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	raw, err := json.Marshal(s)
	if err == nil {
		err = json.Indent(&indented, raw, "", "  ")
	}
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("HOLDFAST_UPDATE") != "" {
		if err := os.WriteFile(name, append(indented.Bytes(), '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	recorded, now := holdfasttest.Load(t, name), read(t, raw)
	if fmt.Sprint(turns(recorded)) != fmt.Sprint(turns(now)) {
		t.Errorf("%s is not the conversation of today; write it again with HOLDFAST_UPDATE=1 go test ./holdfasttest", name)
	}
}

func read(t *testing.T, document []byte) *replay.Recording {
	t.Helper()
	r, err := replay.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func turns(r *replay.Recording) []string {
	var said []string
	for _, turn := range r.Turns {
		said = append(said, turn.Text, turn.Answer)
		for _, c := range turn.Calls {
			said = append(said, c.Tool, string(c.Arguments), c.Result)
		}
	}
	return said
}

func TestReplay_fileAndStoreComeToTheSame(t *testing.T) {
	rt, s := record(t)
	stored, err := replay.Load(t.Context(), rt, s.ID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*replay.Recording{"file": holdfasttest.Load(t, "testdata/refund.json"), "store": stored} {
		t.Run(name, func(t *testing.T) {
			report := holdfasttest.Replay(t, r, holdfasttest.Config{})
			holdfasttest.Same(t, report)
			holdfasttest.Called(t, report, 1, "find_order", "refund")
			holdfasttest.Answered(t, report, 1, "three days")
		})
	}
}

func TestReplay_aChangedPromptReachesTheModel(t *testing.T) {
	recorded := holdfasttest.Load(t, "testdata/refund.json")
	model := scripted.New(scripted.Reply{Text: "Ask your seller."})
	holdfasttest.Replay(t, recorded, holdfasttest.Config{Model: model, Change: func(d *session.Definition) { d.SystemPrompt = "You refund nothing." }})
	sent := model.Requests()[0]
	if sent.System != "You refund nothing." {
		t.Errorf("the prompt is %q", sent.System)
	}
	if len(sent.Tools) != 2 {
		t.Errorf("the model was offered %v", sent.Tools)
	}
	if recorded.Definition.SystemPrompt == "You refund nothing." {
		t.Error("the recording itself was changed")
	}
}

// heard collects what a test is told.
type heard struct{ said []string }

func (h *heard) Helper()                  {}
func (h *heard) Context() context.Context { return context.Background() }
func (h *heard) Errorf(format string, args ...any) {
	h.said = append(h.said, fmt.Sprintf(format, args...))
}
func (h *heard) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestAssertions_fail(t *testing.T) {
	recorded := holdfasttest.Load(t, "testdata/refund.json")
	report := holdfasttest.Replay(t, recorded, holdfasttest.Config{Model: scripted.New(scripted.Reply{Text: "No."})})
	for name, fails := range map[string]func(holdfasttest.TB){
		"called":   func(t holdfasttest.TB) { holdfasttest.Called(t, report, 1, "refund") },
		"differ":   func(t holdfasttest.TB) { holdfasttest.Same(t, report) },
		`"No."`:    func(t holdfasttest.TB) { holdfasttest.Answered(t, report, 1, "Yes") },
		"no turn":  func(t holdfasttest.TB) { holdfasttest.Called(t, report, 2) },
		"no file":  func(t holdfasttest.TB) { holdfasttest.Load(t, "testdata/none.json") },
		"the same": func(t holdfasttest.TB) { holdfasttest.Replay(t, recorded, holdfasttest.Config{Model: failing{}}) },
	} {
		t.Run(name, func(t *testing.T) {
			h := &heard{}
			func() {
				defer func() {
					if v := recover(); v != nil {
						h.said = append(h.said, fmt.Sprint(v))
					}
				}()
				fails(h)
			}()
			if len(h.said) != 1 || strings.TrimSpace(h.said[0]) == "" {
				t.Errorf("it said %q", h.said)
			}
		})
	}
}

// failing is a model that is out.
type failing struct{}

func (failing) Infer(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
	return llm.Response{}, session.ErrScriptExhausted
}

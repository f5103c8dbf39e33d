package holdfasttest_test

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// screen is a test that prints why it fails.
type screen struct{}

func (screen) Helper()                           {}
func (screen) Context() context.Context          { return context.Background() }
func (screen) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (screen) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

var t screen

// A model that is to replace another answers a conversation that went well. It
// calls the right tools, but forgets to say when the money is there.
func Example() {
	recorded := holdfasttest.Load(t, "testdata/refund.json")

	model := scripted.New( // a real one is found by catalog.New
		scripted.Reply{ToolCalls: []session.ToolCall{{ID: "1", Name: "find_order", Arguments: []byte(`{"order":7}`)}}},
		scripted.Reply{ToolCalls: []session.ToolCall{{ID: "2", Name: "refund", Arguments: []byte(`{"order":7}`)}}},
		scripted.Reply{Text: "Order 7 is refunded."},
	)
	replayed := holdfasttest.Replay(t, recorded, holdfasttest.Config{Model: model})

	holdfasttest.Called(t, replayed, 1, "find_order", "refund")
	holdfasttest.Answered(t, replayed, 1, "three days")
	// Output:
	// turn 1 answered "Order 7 is refunded.", which lacks "three days"
}

// The model gives its recorded answers again, and a tool that was changed runs:
// its result is another one now.
func Example_tool() {
	recorded := holdfasttest.Load(t, "testdata/refund.json")

	find, err := tool.Func(tool.Spec{Name: "find_order"}, func(_ context.Context, in struct {
		Order int `json:"order"`
	}) (string, error) {
		return fmt.Sprintf("order %d: a red coat", in.Order), nil
	})
	if err != nil {
		panic(err)
	}
	replayed := holdfasttest.Replay(t, recorded, holdfasttest.Config{Run: []tool.Tool{find}})

	holdfasttest.Same(t, replayed)
	// Output:
	// 1 of 1 turns differ from the recording:
	// 1  Please refund order 7.
	//    - find_order {"order":7} → order 7: a coat, paid 80 €
	//    - refund {"order":7} → refunded
	//    + find_order {"order":7} → order 7: a red coat
	//    + refund {"order":7} → refunded
	//    other results · 1 of 2 calls recorded · 1 of 2 calls ran
}

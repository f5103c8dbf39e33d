package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// An agent with a tool of your own, a skill and a budget. The model is a script
// here; catalog.New has the real ones, by provider/model.
func Example_agent() {
	ctx := context.Background()
	type question struct {
		City string `json:"city" jsonschema:"where, in English"`
	}
	weather, err := tool.Func(tool.Spec{Name: "weather", Description: "The weather of today.", Nature: tool.ReadOnly},
		func(_ context.Context, q question) (string, error) { return "rain in " + q.City, nil })
	if err != nil {
		log.Fatal(err)
	}
	model := scripted.New(
		scripted.Reply{ToolCalls: []session.ToolCall{{ID: "1", Name: "weather", Arguments: []byte(`{"city":"Oslo"}`)}}},
		scripted.Reply{Text: "Yes, it rains."},
	)
	st := inmem.New(inmem.Config{})
	rt, err := holdfast.New(holdfast.Config{
		Store:        st,
		Models:       llm.Map{"demo": model},
		Skills:       map[string]string{"brief": "Answer in one short sentence."},
		Capabilities: map[string]holdfast.Capability{"outdoors": {Prompt: "You know the weather.", Tools: []tool.Tool{weather}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	holdfast.On(rt, func(e holdfast.ToolStarted) { fmt.Println("uses", e.Tool) }, 0)

	steps := int64(10)
	s, err := rt.Create(ctx, session.Definition{
		Name: "guide", Model: "demo", SystemPrompt: "You help with outings.",
		Capabilities: []string{"outdoors"}, Skills: []string{"brief"}, Budget: &session.Budget{MaxSteps: &steps},
	})
	if err != nil {
		log.Fatal(err)
	}
	s, err = rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "Do I need a coat in Oslo?"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Reply())
	if err := errors.Join(rt.Close(), st.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// uses weather
	// Yes, it rains.
}

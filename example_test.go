package holdfast_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// A session is created, spoken to, forked and read again. With store/file in
// place of store/inmem it is still there after the process ends.
func Example() {
	ctx := context.Background()
	model := scripted.New(scripted.Reply{Text: "Yes, it is cold there."}, scripted.Reply{Text: "Gloves too."})
	rt, err := holdfast.New(holdfast.Config{
		Store:  inmem.New(inmem.Config{}),
		Models: llm.Map{"demo": model},
	})
	if err != nil {
		log.Fatal(err)
	}

	s, err := rt.Create(ctx, session.Definition{Name: "weather", SystemPrompt: "Answer in one short sentence.", Model: "demo"})
	if err != nil {
		log.Fatal(err)
	}
	s, err = rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "Do I need a coat in Oslo?"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Reply(), "version", s.Version())

	branch, err := rt.Fork(ctx, s.ID(), holdfast.At(1))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the fork has", branch.Len(), "messages, its parent", s.Len())

	s, err = rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "And gloves?"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Reply(), "version", s.Version())
	if err := rt.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Yes, it is cold there. version 2
	// the fork has 0 messages, its parent 2
	// Gloves too. version 3
}

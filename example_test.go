package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// A session is created, spoken to and forked. It lives in a SQLite file and is
// still there when the process has ended.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		log.Fatal(err)
	}
	st, err := sqlite.Open(ctx, filepath.Join(dir, "sessions.db"), sqlite.Config{})
	if err != nil {
		log.Fatal(err)
	}
	model := scripted.New(scripted.Reply{Text: "Yes, it is cold there."}, scripted.Reply{Text: "Gloves too."})
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": model}})
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
	if err := errors.Join(rt.Close(), st.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Yes, it is cold there. version 2
	// the fork has 0 messages, its parent 2
	// Gloves too. version 3
}

// Somebody else sees an answer while it is given. The words so far are for the
// eye only: the message that follows in the log takes their place.
func ExampleRuntime_Follow() {
	ctx := context.Background()
	rt, err := holdfast.New(holdfast.Config{
		Store: inmem.New(inmem.Config{}), Models: llm.Map{"demo": scripted.New(scripted.Reply{Text: "Yes, it is cold there."})},
	})
	if err != nil {
		log.Fatal(err)
	}
	s, err := rt.Create(ctx, session.Definition{Name: "weather", Model: "demo"})
	if err != nil {
		log.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "Do I need a coat in Oslo?"})
		answered <- err
	}()

	draft := ""
	for u, err := range rt.Follow(ctx, s.ID(), s.Info().Seq) {
		if err != nil {
			log.Fatal(err)
		}
		switch {
		case u.Delta != nil:
			draft += u.Delta.Text // show it
		case u.Dropped != nil:
			draft = "" // the model begins anew
		default:
			if m, ok := u.Record.Change.(session.MessageAdded); ok {
				draft = ""
				fmt.Printf("%d %s: %s\n", u.Record.Seq, m.Message.Role, m.Message.Content.Text())
			}
		}
		if u.Record != nil && u.Record.Change.Kind() == "execution_finished" {
			break
		}
	}
	if err := errors.Join(<-answered, rt.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("draft %q\n", draft)
	// Output:
	// 2 user: Do I need a coat in Oslo?
	// 5 assistant: Yes, it is cold there.
	// draft ""
}

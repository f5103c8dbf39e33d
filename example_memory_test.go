package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// What a user said and what was stored for them is found again from another
// session of theirs.
func ExampleRuntime_Memory() {
	ctx := context.Background()
	st := inmem.New(inmem.Config{}) // sqlite and postgres have memory too
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": scripted.New(scripted.Reply{Text: "Noted."})}})
	if err != nil {
		log.Fatal(err)
	}
	ann := rt.For(holdfast.Identity{UserID: "ann"})
	def := session.Definition{Name: "host", Model: "demo"}
	first, err := ann.Create(ctx, def)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := ann.Execute(ctx, first.ID(), holdfast.SendMessage{Text: "My sister is allergic to nuts."}); err != nil {
		log.Fatal(err)
	}
	later, err := ann.Create(ctx, def)
	if err != nil {
		log.Fatal(err)
	}
	m, err := ann.Memory(ctx, later.ID())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := m.Store(ctx, memory.ScopeUser, "likes/tea", "green, no sugar"); err != nil {
		log.Fatal(err)
	}
	for _, query := range []string{"allergic nuts", "green tea"} {
		hits, err := m.Recall(ctx, query, memory.RecallOptions{Scopes: []memory.Scope{memory.ScopeUser}})
		if err != nil {
			log.Fatal(err)
		}
		for _, hit := range hits {
			fmt.Printf("%s: %s\n", hit.Source, hit.Text)
		}
	}
	if err := errors.Join(rt.Close(), st.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// message: My sister is allergic to nuts.
	// entry: green, no sugar
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// loggedLoop is the agent loop with a line before and after each execution.
// Settle is that of agent.Loop.
type loggedLoop struct{ agent.Loop }

func (l loggedLoop) Run(ctx context.Context, c agent.Config, s session.Session) (session.Session, error) {
	fmt.Println("runs with", s.Len(), "message")
	c.Retries = 0 // a loop may change what it works with
	next, err := l.Loop.Run(ctx, c, s)
	if err == nil {
		fmt.Println("took", len(next.Execution().Steps), "step")
	}
	return next, err
}

// Another loop in the place of agent.Loop. It is easiest to wrap that one: it
// keeps the promises that a crash or a second process must not break.
func Example_loop() {
	ctx := context.Background()
	st := inmem.New(inmem.Config{})
	rt, err := holdfast.New(holdfast.Config{
		Store: st, Loop: loggedLoop{},
		Models: llm.Map{"demo": scripted.New(scripted.Reply{Text: "Yes, it rains."})}, DefaultModel: "demo",
	})
	if err != nil {
		log.Fatal(err)
	}
	s, err := rt.Create(ctx, session.Definition{Name: "guide"})
	if err != nil {
		log.Fatal(err)
	}
	s, err = rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "Do I need a coat?"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Reply())
	if err := errors.Join(rt.Close(), st.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// runs with 1 message
	// took 1 step
	// Yes, it rains.
}

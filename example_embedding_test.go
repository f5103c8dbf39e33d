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

// newGuide makes a runtime in memory and a session of an agent in it, for the
// examples of docs/embedding.md.
func newGuide(c holdfast.Config, script ...scripted.Reply) (*holdfast.Runtime, session.Session) {
	c.Store, c.Models = inmem.New(inmem.Config{}), llm.Map{"demo": scripted.New(script...)}
	rt, err := holdfast.New(c)
	if err != nil {
		log.Fatal(err)
	}
	s, err := rt.Create(context.Background(), session.Definition{Name: "guide", Model: "demo"})
	if err != nil {
		log.Fatal(err)
	}
	return rt, s
}

// callTool is an answer of a model that calls a tool.
func callTool(name, arguments string) scripted.Reply {
	return scripted.Reply{ToolCalls: []session.ToolCall{{ID: "1", Name: name, Arguments: []byte(arguments)}}}
}

// A tool is a Go function. Its schema follows from the struct of its arguments.
func Example_tool() {
	type trip struct {
		City string `json:"city" jsonschema:"where, in English"`
		Days int    `json:"days,omitempty"`
	}
	book := func(ctx context.Context, t trip) (string, error) {
		if t.City == "" {
			return "", errors.New("there is no city") // the model sees it and may try again
		}
		return "a room in " + t.City, nil
	}
	booking, err := tool.Func(tool.Spec{Name: "book_room", Description: "Books a hotel room.", Nature: tool.Once}, book)
	if err != nil {
		log.Fatal(err)
	}
	tools, err := tool.NewSet(booking)
	if err != nil {
		log.Fatal(err)
	}
	rt, s := newGuide(holdfast.Config{Tools: tools}, callTool("book_room", `{"city":"Oslo"}`), scripted.Reply{Text: "It is booked."})
	s, err = rt.Execute(context.Background(), s.ID(), holdfast.SendMessage{Text: "A room in Oslo, please."})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Message(2).ToolResult.Content)
	fmt.Println(s.Reply())
	// Output:
	// a room in Oslo
	// It is booked.
}

// A hook sees every session at the stages of the pipelines. It may change what is
// saved, or refuse.
func Example_hook() {
	quota := holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
		if stage == session.BeforeSave && s.Len() > 4 {
			return s, errors.New("this conversation is long enough")
		}
		return s, nil
	})
	audit := holdfast.HookFunc(func(ctx context.Context, stage session.Stage, s session.Session) (session.Session, error) {
		if stage != session.BeforeSave {
			return s, nil
		}
		return s.WithMetadata("audited", []byte("true"), holdfast.Env(ctx).Now())
	})
	hooks := holdfast.HookStack{}.With(quota, 10, "quota").With(audit, 0, "audit") // higher numbers run first

	ctx := context.Background()
	rt, s := newGuide(holdfast.Config{Hooks: hooks})
	for range 3 {
		_, err := rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "Tell me more."})
		var refused *session.HookError
		if errors.As(err, &refused) {
			fmt.Println(refused.Hook, "refused:", refused.Err)
		}
	}
	s, err := rt.Get(ctx, s.ID())
	fmt.Println(s.Len(), "messages, audited", string(s.Metadata()["audited"]), err)
	// Output:
	// quota refused: this conversation is long enough
	// 4 messages, audited true <nil>
}

// Escalate is an action: it hands a session to somebody.
type Escalate struct{ To string }

// Name is what the audit of versions shows.
func (Escalate) Name() string { return "Escalate" }

// Execute returns the session as it is to be saved.
func (a Escalate) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	raw, err := session.JSON(a.To)
	if err != nil {
		return s, err
	}
	return s.WithMetadata("escalated_to", raw, holdfast.Env(ctx).Now())
}

// An action of your own takes a session and returns the next one. It runs in the
// same pipeline as those that come with the library, and makes one version.
func Example_action() {
	ctx := context.Background()
	rt, s := newGuide(holdfast.Config{})
	s, err := rt.Execute(ctx, s.ID(), Escalate{To: "Ada"}, holdfast.IfVersion(1))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("version", s.Version(), "is with", string(s.Metadata()["escalated_to"]))

	_, err = rt.Execute(ctx, s.ID(), Escalate{To: "Ben"}, holdfast.IfVersion(1)) // somebody was faster
	fmt.Println(errors.Is(err, session.ErrConflict))
	// Output:
	// version 2 is with "Ada"
	// true
}

// Watch replays the log of a session from a number on, then follows it. The number
// of a change is the place to go on from after a break.
func ExampleRuntime_Watch() {
	ctx := context.Background()
	rt, s := newGuide(holdfast.Config{}, scripted.Reply{Text: "Yes, it rains."})
	go func() {
		if _, err := rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "Do I need a coat?"}); err != nil {
			log.Print(err)
		}
	}()
	for entry, err := range rt.Watch(ctx, s.ID(), s.Info().Seq) {
		if err != nil {
			log.Fatal(err)
		}
		switch c := entry.Change.(type) {
		case session.MessageAdded:
			fmt.Println(entry.Seq, c.Message.Role, c.Message.Content.Text())
		case session.ExecutionFinished:
			return
		}
	}
	// Output:
	// 2 user Do I need a coat?
	// 5 assistant Yes, it rains.
}

// A call that permissions do not allow waits in the store, not in memory. Any
// process lists it, responds and continues the session.
func Example_approval() {
	pay := tool.Fake("pay", "Pays a bill.", "paid")
	tools, err := tool.NewSet(asks{pay})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	rt, s := newGuide(holdfast.Config{Tools: tools, Permissions: &holdfast.Permissions{}}, callTool("pay", `{"sum":80}`), scripted.Reply{Text: "The bill is paid."})
	s, err = rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "Pay my bill."})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waits:", s.Waiting())

	page, err := rt.Pending(ctx, holdfast.PendingQuery{}) // of all sessions
	if err != nil {
		log.Fatal(err)
	}
	p := page.Items[0]
	fmt.Println(p.Kind, "of", p.Tool, string(p.Arguments))
	err = rt.Respond(ctx, p.Session.ID, session.Response{PendingID: p.ID, Action: session.RespondApprove, By: "Ada"})
	if err != nil {
		log.Fatal(err)
	}
	s, err = rt.Execute(ctx, p.Session.ID, holdfast.ContinueExecution{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Reply())
	// Output:
	// waits: true
	// approval of pay {"sum":80}
	// The bill is paid.
}

// asks is a tool that acts in a service of somebody else.
type asks struct{ tool.Tool }

func (a asks) Spec() tool.Spec {
	spec := a.Tool.Spec()
	spec.Nature, spec.Effects = tool.Once, tool.External
	return spec
}

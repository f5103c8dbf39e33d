package acp

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// slashCommand is what a person may type in place of a prompt, behind a slash. It
// says something, or it is a turn.
type slashCommand struct {
	name  string
	about string
	hint  string // what its argument is; empty: it takes none
	say   func(t *thread, ctx context.Context, argument string) (string, error)
	turn  holdfast.Action
}

// slashCommands are the commands of the chat in a terminal that an editor has no
// button for.
var slashCommands = []slashCommand{
	{name: "model", about: "show the model that answers, or use another one from now on", hint: "provider/model", say: (*thread).changeModel},
	{name: "cost", about: "tokens and money used so far", say: (*thread).tellCost},
	{name: "prune", about: "show the model the last messages only", hint: "how many (10)", say: (*thread).prune},
	{name: "retry", about: "run the turn that failed again", turn: holdfast.RetryExecution{}},
}

// findCommand finds the command that a prompt is. Any other prompt is a message,
// also one that begins with a slash, such as a path.
func findCommand(content session.Content) (found slashCommand, argument string, ok bool) {
	name, argument, _ := strings.Cut(strings.TrimSpace(content.Text()), " ")
	argument = strings.TrimSpace(argument)
	for _, c := range slashCommands {
		if name == "/"+c.name && (c.hint != "" || argument == "") && len(content) == 1 {
			return c, argument, true
		}
	}
	return slashCommand{}, "", false
}

// offerCommands tells the editor which commands there are.
func (t *thread) offerCommands() error {
	u := commandsUpdate{Kind: "available_commands_update"}
	for _, c := range slashCommands {
		offered := availableCommand{Name: c.name, Description: c.about}
		if c.hint != "" {
			offered.Input = &commandInput{c.hint}
		}
		u.Commands = append(u.Commands, offered)
	}
	return t.s.update(t.id, u)
}

func (t *thread) changeModel(ctx context.Context, name string) (string, error) {
	if name != "" {
		if _, err := t.Execute(ctx, t.id, holdfast.ChangeModel{Model: name}); err != nil {
			return "", err
		}
	}
	s, err := t.Get(ctx, t.id)
	if err != nil {
		return "", err
	}
	return cmp.Or(s.Model(), "The default model") + " answers.", nil
}

func (t *thread) tellCost(ctx context.Context, _ string) (string, error) {
	s, err := t.Get(ctx, t.id, holdfast.WithTail())
	if err != nil {
		return "", err
	}
	used, cost := s.Usage()
	return fmt.Sprintf("%d tokens in, %d out; $%s.", used.Input, used.Output, cost), nil
}

func (t *thread) prune(ctx context.Context, count string) (string, error) {
	limit, err := strconv.Atoi(cmp.Or(count, "10"))
	if err != nil || limit < 1 {
		return "", &session.InvalidError{Field: "/prune", Reason: fmt.Sprintf("%q is not a number of messages", count)}
	}
	if _, err := t.Execute(ctx, t.id, holdfast.PruneSession{Strategy: session.PruneSliding, Limit: limit}); err != nil {
		return "", err
	}
	return fmt.Sprintf("The model is shown the last %d messages. All are kept.", limit), nil
}

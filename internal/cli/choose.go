package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// askWhich stands for a session that a person is to choose.
const askWhich = "?"

// offerChoice lets --session stand without a value: then a person chooses. Where
// another word follows, that is the value.
func offerChoice(args []string) []string {
	if !slices.Contains(args, "chat") {
		return args
	}
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if arg == "--session" && (i == len(args)-1 || strings.HasPrefix(args[i+1], "-")) {
			args = slices.Clone(args)
			args[i] = "--session=" + askWhich
		}
	}
	return args
}

// maxChoices is how many sessions a person chooses from.
const maxChoices = 15

// chooseChat returns the chat that a command line means: the one it names, the one
// used last, or the one that a person chooses. "" means a new one.
func (p *program) chooseChat(ctx context.Context, e *setup.Env, ref string, last bool) (string, error) {
	switch {
	case last && ref != "":
		return "", &session.InvalidError{Field: "last", Reason: "give --last or --session, one of the two"}
	case !last && ref != askWhich:
		return ref, nil
	case !last && (!p.In.Terminal || !p.Err.Terminal):
		return "", &session.InvalidError{Field: "session", Reason: "there is no terminal to choose at; give --session REF, or --last"}
	}
	q := store.Query{Kinds: []session.Kind{session.KindChat}, Statuses: []session.Status{session.Active}, Limit: maxChoices}
	if last {
		q.Limit = 1
	}
	page, err := e.ListOverview(ctx, q)
	if err != nil {
		return "", err
	}
	if len(page.Items) == 0 {
		return "", &session.NotFoundError{What: "chat", ID: "last"}
	}
	if last {
		return page.Items[0].ID, nil
	}
	return p.askForChat(ctx, page)
}

// askForChat has a person choose a session by its number, or name another.
func (p *program) askForChat(ctx context.Context, page setup.Listing) (string, error) {
	t := terminal.Table{Head: []string{"", "ID", "TITLE", "MSGS", "UPDATED"}, Flex: 2, Spare: []string{"MSGS", "UPDATED"}}
	for n, i := range page.Items {
		t.Add(terminal.Styled(strconv.Itoa(n+1), terminal.Bold), terminal.Styled(display.ShortID(i.ID), terminal.Cyan), terminal.Styled(terminal.OneLine(page.TitleOf(i)), terminal.Plain),
			terminal.Styled(strconv.Itoa(page.MessagesOf(i)), terminal.Plain), terminal.Styled(terminal.Ago(i.UpdatedAt, p.Now()), terminal.Dim))
	}
	if err := p.Err.Print(t.Layout(p.Err)); err != nil {
		return "", err
	}
	answer, err := p.ReadLine(ctx)("which one? a number, or a name: ")
	if err != nil {
		return "", terminal.ErrDeclined
	}
	answer = strings.TrimSpace(answer)
	switch n, err := strconv.Atoi(answer); {
	case answer == "":
		return "", terminal.ErrDeclined
	case err == nil && n >= 1 && n <= len(page.Items):
		return page.Items[n-1].ID, nil
	case err == nil && len(answer) < 4:
		return "", &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%d is not 1 to %d", n, len(page.Items))}
	}
	return answer, nil
}

package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
func (p *program) chooseChat(ctx context.Context, e *env, ref string, last bool) (string, error) {
	switch {
	case last && ref != "":
		return "", &session.InvalidError{Field: "last", Reason: "give --last or --session, one of the two"}
	case !last && ref != askWhich:
		return ref, nil
	case !last && (!p.in.terminal || !p.err.terminal):
		return "", &session.InvalidError{Field: "session", Reason: "there is no terminal to choose at; give --session REF, or --last"}
	}
	q := store.Query{Kinds: []session.Kind{session.KindChat}, Statuses: []session.Status{session.Active}, Limit: maxChoices}
	if last {
		q.Limit = 1
	}
	page, err := e.List(ctx, q)
	if err != nil {
		return "", err
	}
	if len(page.Items) == 0 {
		return "", &session.NotFoundError{What: "chat", ID: "last"}
	}
	if last {
		return page.Items[0].ID, nil
	}
	return p.askForChat(ctx, e, page.Items)
}

// askForChat has a person choose a session by its number, or name another.
func (p *program) askForChat(ctx context.Context, e *env, infos session.Infos) (string, error) {
	t := table{head: []string{"", "ID", "TITLE", "MSGS", "UPDATED"}, flex: 2}
	for n, i := range infos {
		t.add(cell{strconv.Itoa(n + 1), bold}, cell{shortID(i.ID), cyan}, cell{oneLine(e.titleOf(ctx, i)), plain},
			cell{strconv.Itoa(i.MessageCount), plain}, cell{ago(i.UpdatedAt, p.now()), dim})
	}
	if err := p.err.print(t.layout(p.err)); err != nil {
		return "", err
	}
	answer, err := p.readLine(ctx)("which one? a number, or a name: ")
	if err != nil {
		return "", errDeclined
	}
	answer = strings.TrimSpace(answer)
	switch n, err := strconv.Atoi(answer); {
	case answer == "":
		return "", errDeclined
	case err == nil && n >= 1 && n <= len(infos):
		return infos[n-1].ID, nil
	case err == nil && len(answer) < 4:
		return "", &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%d is not 1 to %d", n, len(infos))}
	}
	return answer, nil
}

// maxTitle is how many characters of a message make a title.
const maxTitle = 60

// firstChanges is how many changes of a log are looked at for the first message.
const firstChanges = 10

// titleOf returns what a session is called: its name, or the beginning of its
// first message where that can be read without asking a server.
func (e *env) titleOf(ctx context.Context, i session.Info) string {
	if i.Name != "" || i.Kind != session.KindChat || i.MessageCount == 0 || e.server != nil {
		return i.Name
	}
	logs, ok := e.store.(store.Logs)
	if !ok {
		s, err := e.Get(ctx, i.ID)
		if err != nil || s.Len() == 0 {
			return ""
		}
		return shortened(s.Message(0).Content.Text(), maxTitle)
	}
	first, err := logs.Log(ctx, store.Ref{Tenant: e.tenant, ID: i.ID}, 0, firstChanges)
	if err != nil {
		return "" // a listing does without it
	}
	for _, entry := range first {
		if added, ok := entry.Change.(session.MessageAdded); ok && added.Message.Role == session.RoleUser {
			return shortened(added.Message.Content.Text(), maxTitle)
		}
	}
	return ""
}

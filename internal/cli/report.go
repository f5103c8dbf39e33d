package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// report prints an error, with a second line about what to do where that helps,
// and returns the exit code.
func (p *program) report(err error) int {
	code, kind := exitCodeOf(err)
	var told *printedError
	if code == exitOK || errors.Is(err, errQuestionPrinted) || errors.As(err, &told) { // it is printed already
		return code
	}
	if p.JSON {
		var problem struct {
			Error struct {
				Type    string `json:"type"`
				Message string `json:"message"`
				Hint    string `json:"hint,omitempty"`
			} `json:"error"`
		}
		problem.Error.Type, problem.Error.Message, problem.Error.Hint = kind, p.messageOf(err), p.hint(err)
		p.ErrJSON(problem)
		return code
	}
	if errors.Is(err, session.ErrQueued) { // that is what was asked for
		p.Err.Status("%s", p.messageOf(err))
		return code
	}
	fmt.Fprintf(p.Err, "%s %s\n", p.Err.Paint(terminal.Red, "holdfast:"), terminal.Printable(p.messageOf(err)))
	if hint := p.hint(err); hint != "" {
		fmt.Fprintf(p.Err, "%s\n", p.Err.Paint(terminal.Dim, "  "+hint))
	}
	return code
}

// messageOf returns the text of an error. That a context was cancelled is what an
// interruption is, and goes without saying; who holds a session the hint says.
func (p *program) messageOf(err error) string {
	var (
		interrupted *session.InterruptedError
		several     *setup.SeveralError
		busy        *session.BusyError
		live        *liveRunError
	)
	if errors.As(err, &interrupted) && errors.Is(interrupted.Err, context.Canceled) {
		return (&session.InterruptedError{ID: display.ShortID(interrupted.ID)}).Error()
	}
	text := err.Error()
	switch {
	case errors.As(err, &several):
		text = strings.Replace(text, several.Error(), p.severalText(several), 1)
	case errors.As(err, &busy) && !errors.As(err, &live):
		text = strings.Replace(text, busy.Error(), (&session.BusyError{ID: display.ShortID(busy.ID)}).Error(), 1)
	}
	return strings.ReplaceAll(text, context.Canceled.Error(), "it was stopped")
}

// severalText tells sessions apart that one reference fits.
func (p *program) severalText(e *setup.SeveralError) string {
	var each []string
	for _, i := range e.Among {
		each = append(each, fmt.Sprintf("%s (%s, %s)", display.ShortID(i.ID), i.AgentName, terminal.Ago(i.UpdatedAt, p.Now())))
	}
	return fmt.Sprintf("%q fits several sessions: %s", e.Ref, strings.Join(each, ", "))
}

// hint returns what to do about an error, or "".
func (p *program) hint(err error) string {
	var (
		usage       *usageError
		importing   *importError
		interrupted *session.InterruptedError
		unsupported *session.UnsupportedError
		status      *session.StatusError
		corrupt     *session.CorruptError
		ambiguous   *session.AmbiguousError
		missing     *session.NotFoundError
		busy        *session.BusyError
		stopped     *stoppedError
		told        *llm.ProviderError
		run         *passError
		resting     *restError
		waits       *waitingError
		live        *liveRunError
		nearly      *setup.NearlyError
		model       *setup.UnknownModelError
	)
	if hint := serverHint(err); hint != "" {
		return hint
	}
	switch {
	case errors.As(err, &usage):
		return usage.hint()
	case errors.As(err, &importing):
		return importing.hint()
	case errors.As(err, &run):
		return run.hint()
	case errors.As(err, &resting):
		return resting.hint()
	case errors.As(err, &waits):
		return waits.hint()
	case errors.As(err, &interrupted):
		id := display.ShortID(interrupted.ID)
		return "continue with: holdfast chat --session " + id + ", or without a terminal: holdfast send " + id + " --continue"
	case errors.As(err, &live):
		return live.hint()
	case errors.As(err, &busy) && busy.Holder != "":
		return display.HolderText(busy.Holder) + " works on it; see: holdfast sessions show " + display.ShortID(busy.ID)
	case errors.As(err, &stopped):
		return "the session was saved; see: holdfast sessions show " + display.ShortID(stopped.id)
	case errors.As(err, &told) && !errors.Is(err, errModel) && refusedKey(err):
		return "is the key right? see: holdfast models check " + told.Provider
	case errors.As(err, &unsupported):
		return unsupportedHint
	case errors.As(err, &status) && status.Status == session.Deleted:
		return "bring it back with: holdfast sessions restore " + display.ShortID(status.ID)
	case errors.As(err, &status) && status.Status != session.Active:
		return "reopen it with: holdfast sessions resume " + display.ShortID(status.ID)
	case errors.As(err, &ambiguous):
		return "use the id; see: holdfast sessions list --all"
	case errors.As(err, &corrupt):
		return "the file was not changed; see: holdfast doctor"
	case errors.As(err, &model):
		return "see the models there are: holdfast models list"
	case errors.As(err, &nearly):
		return fmt.Sprintf("did you mean %q?", nearly.Near)
	case errors.As(err, &missing) && missing.What == "session" && p.Command != nil && strings.HasPrefix(p.Command.CommandPath(), "holdfast task"):
		return "list the tasks with: holdfast task list"
	case errors.As(err, &missing) && missing.What == "session" && len(missing.ID) < 4:
		return "the beginning of an id needs 4 characters or more; list all sessions with: holdfast sessions list --all"
	case errors.As(err, &missing) && (missing.What == "pending call of session" || missing.What == "pending call"):
		return "see what waits for a response, and its ids: holdfast pending"
	case errors.As(err, &missing) && missing.What == foreignRun:
		return "to import something else, name its file"
	case errors.As(err, &missing) && missing.What == "definition":
		if near := document.Nearest(missing.ID, missing.Available); near != "" {
			return fmt.Sprintf("did you mean %q?", near)
		}
		return "see the agents there are: holdfast definitions list"
	case errors.As(err, &missing) && missing.What == "store":
		return "is --store right? This command makes no store; a chat, a run or a task does"
	case errors.As(err, &missing) && missing.What == "session":
		return "list all sessions with: holdfast sessions list --all"
	}
	return ""
}

const unsupportedHint = "history, rewind, watch, inbox, keys and repairs need a store with a log: sqlite: (the default) or postgres:"

const otherVersion = "the server is of another version than this command; compare \"holdfast version\" on both sides"

// serverHint says what to do about an answer of a server, or about none.
func serverHint(err error) string {
	var (
		told    *problem.Problem
		unknown *client.UnreachableError
		foreign *client.AnswerError
	)
	switch {
	case errors.As(err, &unknown):
		return "is the address right and the server running? \"holdfast serve\" starts one; check --server and HOLDFAST_SERVER"
	case errors.As(err, &foreign):
		return otherVersion
	case !errors.As(err, &told):
		return ""
	}
	switch told.Code {
	case problem.CodeUnauthenticated:
		return "is HOLDFAST_KEY right? Where the store is, \"holdfast keys list\" shows the keys and \"holdfast keys create\" makes one"
	case problem.CodeForbidden:
		return "use a key with that scope; where the store is: holdfast keys create --scope …"
	case problem.CodeNoRoute:
		return otherVersion
	case "unsupported":
		return "it is the server that lacks it; whoever runs \"holdfast serve\" can give it that"
	case problem.CodeWrongHost:
		return "the server answers for the names that \"holdfast serve --host\" gives it"
	}
	return ""
}

// refusedByServer reports that a server does not let this command in: its key
// is wrong or may too little, or the server lacks the route.
func refusedByServer(err error) bool {
	var told *problem.Problem
	return errors.As(err, &told) && slices.Contains([]string{
		problem.CodeUnauthenticated, problem.CodeForbidden, problem.CodeNoRoute, problem.CodeWrongHost,
	}, told.Code)
}

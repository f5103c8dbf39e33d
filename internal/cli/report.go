package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	if p.json {
		var problem struct {
			Error struct {
				Type    string `json:"type"`
				Message string `json:"message"`
				Hint    string `json:"hint,omitempty"`
			} `json:"error"`
		}
		problem.Error.Type, problem.Error.Message, problem.Error.Hint = kind, messageOf(err), p.hint(err)
		p.errJSON(problem)
		return code
	}
	fmt.Fprintf(p.err, "%s %s\n", p.err.paint(red, "holdfast:"), printable(messageOf(err)))
	if hint := p.hint(err); hint != "" {
		fmt.Fprintf(p.err, "%s\n", p.err.paint(dim, "  "+hint))
	}
	return code
}

// messageOf returns the text of an error. That a context was cancelled is what an
// interruption is, and goes without saying.
func messageOf(err error) string {
	var interrupted *session.InterruptedError
	if errors.As(err, &interrupted) && errors.Is(interrupted.Err, context.Canceled) {
		return (&session.InterruptedError{ID: shortID(interrupted.ID)}).Error()
	}
	return err.Error()
}

// hint returns what to do about an error, or "".
func (p *program) hint(err error) string {
	var (
		usage       *usageError
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
		nearly      *nearlyError
	)
	if hint := serverHint(err); hint != "" {
		return hint
	}
	switch {
	case errors.As(err, &usage):
		return usage.hint()
	case errors.As(err, &run):
		return run.hint()
	case errors.As(err, &resting):
		return resting.hint()
	case errors.As(err, &waits):
		return waits.hint()
	case errors.As(err, &interrupted):
		id := shortID(interrupted.ID)
		return "continue with: holdfast chat --session " + id + ", or without a terminal: holdfast send " + id + " --continue"
	case errors.As(err, &live):
		return live.hint()
	case errors.As(err, &busy) && busy.Holder != "":
		return holderText(busy.Holder) + " works on it; see: holdfast sessions show " + shortID(busy.ID)
	case errors.As(err, &stopped):
		return "the session was saved; see: holdfast sessions show " + shortID(stopped.id)
	case errors.As(err, &told) && !errors.Is(err, errModel) && refusedKey(err):
		return "is the key right? see: holdfast models check " + told.Provider
	case errors.As(err, &unsupported):
		return unsupportedHint
	case errors.As(err, &status) && status.Status == session.Deleted:
		return "bring it back with: holdfast sessions restore " + shortID(status.ID)
	case errors.As(err, &status) && status.Status != session.Active:
		return "reopen it with: holdfast sessions resume " + shortID(status.ID)
	case errors.As(err, &ambiguous):
		return "give more characters of the id; see: holdfast sessions list"
	case errors.As(err, &corrupt):
		return "the file was not changed; see: holdfast doctor"
	case errors.As(err, &nearly):
		return fmt.Sprintf("did you mean %q?", nearly.near)
	case errors.As(err, &missing) && missing.What == "session" && p.command != nil && strings.HasPrefix(p.command.CommandPath(), "holdfast task"):
		return "list the tasks with: holdfast task list"
	case errors.As(err, &missing) && missing.What == "session" && len(missing.ID) < 4:
		return "the beginning of an id needs 4 characters or more; list all sessions with: holdfast sessions list --all"
	case errors.As(err, &missing) && missing.What == "pending call of session":
		return "see what waits for a response: holdfast pending"
	case errors.As(err, &missing) && missing.What == "definition":
		return "see the agents there are: holdfast definitions list"
	case errors.As(err, &missing) && missing.What == "store":
		return "is --store right? This command makes no store; a chat, a run or a task does"
	case errors.As(err, &missing) && missing.What == "session":
		return "list all sessions with: holdfast sessions list --all"
	}
	return ""
}

const unsupportedHint = "history, rewind, watch, inbox, keys and repairs need a store with a log: sqlite: (the default) or postgres:"

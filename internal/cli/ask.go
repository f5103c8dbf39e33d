package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
)

// waitingError says that a session waits for responses to tool calls.
type waitingError struct {
	info session.Info
	call session.PendingCall // the first that waits
}

// checkWaiting returns the error of a session whose calls wait, else nil.
func checkWaiting(s session.Session) error {
	if calls := display.WaitingCalls(s); s.Waiting() && len(calls) > 0 {
		return &waitingError{info: s.Info(), call: calls[0]}
	}
	return nil
}

func (e *waitingError) Error() string {
	return fmt.Sprintf("session %s waits for %s: %s", display.Title(e.info), display.WaitsFor(e.call), terminal.Shortened(display.CallText(e.call), 200))
}

func (e *waitingError) Unwrap() error { return errWaiting }

// hint says how to respond.
func (e *waitingError) hint() string {
	return "respond with: " + display.RespondCommandFor(e.info.ID, e.call) + "; see all of it: holdfast pending show " + display.ShortID(e.call.ID)
}

// converse runs a turn; without an action it asks about the calls that wait. At a terminal it asks about calls that wait, and
// continues with what the person says; elsewhere such a turn ends with a
// waitingError.
func (p *program) converse(ctx context.Context, e *setup.Env, id string, a holdfast.Action, stream bool, read terminal.LineReader, opts ...holdfast.Option) (session.Session, error) {
	s, err := p.firstTurn(ctx, e, id, a, stream, opts...)
	for errors.Is(err, errWaiting) && p.CanAsk() {
		answered, askErr := p.askAll(ctx, e, id, read)
		if askErr != nil {
			return s, askErr
		}
		if !answered {
			return s, err
		}
		asked := s.Seq()
		if s, err = e.Get(ctx, id, holdfast.WithTail()); err != nil {
			return s, err
		}
		if !s.Running() { // the end of a subagent continued it
			return s, p.printReplies(s, asked)
		}
		s, err = p.turn(ctx, e, id, holdfast.ContinueExecution{}, stream)
	}
	return s, err
}

func (p *program) firstTurn(ctx context.Context, e *setup.Env, id string, a holdfast.Action, stream bool, opts ...holdfast.Option) (session.Session, error) {
	if a != nil {
		return p.turn(ctx, e, id, a, stream, opts...)
	}
	s, err := e.Get(ctx, id, holdfast.WithTail())
	if err != nil {
		return s, err
	}
	return s, checkWaiting(s)
}

// askAll asks a person about every call of a session that waits, those of its
// subagents included. It returns false where one was left for later.
func (p *program) askAll(ctx context.Context, e *setup.Env, id string, read terminal.LineReader) (answered bool, err error) {
	s, err := e.Get(ctx, id, holdfast.WithTail())
	if err != nil {
		return false, err
	}
	for _, call := range display.WaitingCalls(s) {
		if call.ChildID != "" {
			if answered, err := p.askAll(ctx, e, call.ChildID, read); err != nil || !answered {
				return false, err
			}
			if _, err := e.Execute(ctx, call.ChildID, holdfast.ContinueExecution{}); err != nil {
				return false, err
			}
			continue
		}
		response, ok := p.askCall(call, read)
		if !ok {
			return false, nil
		}
		if err := e.Respond(ctx, id, response); errors.Is(err, session.ErrResponded) {
			p.Err.Status("this was answered elsewhere: %v", err)
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// askCall shows a pending call in full and reads the response. False: the
// person left it for later.
func (p *program) askCall(call session.PendingCall, read terminal.LineReader) (session.Response, bool) {
	r := session.Response{PendingID: call.ID}
	fmt.Fprint(p.Err, display.CallQuestion(p.Err, call))
	for {
		line, err := read("  your response, [enter] later: ")
		text := strings.TrimSpace(line)
		if err != nil || text == "" {
			return r, false
		}
		if r.Action, r.Choice, r.Text = readResponse(call, text); r.Action != "" {
			err := call.Check(r)
			if err == nil {
				return r, true
			}
			p.Err.Warn("%v", err)
			continue
		}
		fmt.Fprintln(p.Err, "  that is not one of the choices")
	}
}

// readResponse reads what a person typed: a number of the list, y or n, or the
// text of an answer or a result.
func readResponse(call session.PendingCall, text string) (action session.ResponseAction, choice, answer string) {
	choices := display.NumberedChoices(call)
	n, err := strconv.Atoi(text)
	chosen := err == nil && n >= 1 && n <= len(choices)
	switch {
	case call.Kind == session.PendingResult:
		return session.RespondResult, "", text
	case call.Kind == session.PendingQuestion && chosen:
		return session.RespondAnswer, "", choices[n-1].Value
	case call.Kind == session.PendingQuestion:
		return session.RespondAnswer, "", text
	case chosen:
		return choices[n-1].Action(), choices[n-1].Value, ""
	}
	switch strings.ToLower(text) {
	case "y", "yes":
		return session.RespondApprove, "", ""
	case "n", "no":
		return session.RespondDeny, "", ""
	}
	return "", "", ""
}

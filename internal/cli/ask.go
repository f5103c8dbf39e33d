package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
)

// waitingError says that a session waits for responses to tool calls.
type waitingError struct {
	info session.Info
	call session.PendingCall // the first that waits
}

// checkWaiting returns the error of a session whose calls wait, else nil.
func checkWaiting(s session.Session) error {
	if calls := waitingCalls(s); s.Waiting() && len(calls) > 0 {
		return &waitingError{info: s.Info(), call: calls[0]}
	}
	return nil
}

func (e *waitingError) Error() string {
	return fmt.Sprintf("session %s waits for %s: %s", title(e.info), waitsFor(e.call), shortened(callText(e.call), 200))
}

func (e *waitingError) Unwrap() error { return errWaiting }

// hint says how to respond.
func (e *waitingError) hint() string {
	return "respond with: " + respondCommandFor(e.info.ID, e.call) + "; see all of it: holdfast pending show " + shortID(e.call.ID)
}

func respondCommandFor(id string, call session.PendingCall) string {
	if call.ChildID != "" {
		id = call.ChildID
	}
	how := map[session.PendingKind]string{session.PendingApproval: "approve (or deny)", session.PendingQuestion: `answer "…"`}[call.Kind]
	switch {
	case call.ChildID != "":
		how = "approve, deny or answer"
	case how == "":
		how = `result "…"`
	}
	return "holdfast respond " + shortID(id) + " " + how
}

func waitsFor(call session.PendingCall) string {
	switch {
	case call.ChildID != "":
		return "its subagent " + shortID(call.ChildID)
	case call.Kind == session.PendingApproval:
		return "an approval"
	case call.Kind == session.PendingQuestion:
		return "an answer"
	}
	return "a result"
}

// argumentsText returns what a tool is called with, for a line: the value if there
// is one only, else each with its name.
func argumentsText(raw json.RawMessage) string {
	list := argumentsOf(raw)
	if len(list) == 1 {
		return list[0].value
	}
	values := make([]string, len(list))
	for i, a := range list {
		values[i] = a.name + "=" + a.value
	}
	return strings.Join(values, " ")
}

// callText describes a pending call in one line.
func callText(call session.PendingCall) string {
	if call.Kind == session.PendingQuestion || call.ChildID != "" {
		return call.Prompt
	}
	return strings.TrimSpace(call.Tool + " " + argumentsText(call.Arguments))
}

// lineReader prints a prompt and reads what a person types.
type lineReader func(prompt string) (string, error)

// canAsk reports that a person sits at a terminal.
func (p *program) canAsk() bool { return p.in.terminal && p.err.terminal }

// converse runs a turn; without an action it asks about the calls that wait. At a terminal it asks about calls that wait, and
// continues with what the person says; elsewhere such a turn ends with a
// waitingError.
func (p *program) converse(ctx context.Context, e *env, id string, a holdfast.Action, stream bool, read lineReader, opts ...holdfast.Option) (session.Session, error) {
	s, err := p.firstTurn(ctx, e, id, a, stream, opts...)
	for errors.Is(err, errWaiting) && p.canAsk() {
		answered, askErr := p.askAll(ctx, e, id, read)
		if askErr != nil {
			return s, askErr
		}
		if !answered {
			return s, err
		}
		if s, err = e.Get(ctx, id, holdfast.WithTail()); err != nil {
			return s, err
		}
		if !s.Running() { // the end of a subagent continued it
			return s, p.printReply(s)
		}
		s, err = p.turn(ctx, e, id, holdfast.ContinueExecution{}, stream)
	}
	return s, err
}

func (p *program) firstTurn(ctx context.Context, e *env, id string, a holdfast.Action, stream bool, opts ...holdfast.Option) (session.Session, error) {
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
func (p *program) askAll(ctx context.Context, e *env, id string, read lineReader) (answered bool, err error) {
	s, err := e.Get(ctx, id, holdfast.WithTail())
	if err != nil {
		return false, err
	}
	for _, call := range waitingCalls(s) {
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
			p.err.status("this was answered elsewhere: %v", err)
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// askCall shows a pending call in full and reads the response. False: the
// person left it for later.
func (p *program) askCall(call session.PendingCall, read lineReader) (session.Response, bool) {
	r := session.Response{PendingID: call.ID}
	fmt.Fprint(p.err, p.callQuestion(call))
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
			p.err.warn("%v", err)
			continue
		}
		fmt.Fprintln(p.err, "  that is not one of the choices")
	}
}

// readLine reads a line from standard input; the context ends the wait.
func (p *program) readLine(ctx context.Context) lineReader {
	return func(prompt string) (string, error) {
		fmt.Fprint(p.err, prompt)
		line, err := waitFor(ctx, p.in.readLine)
		if err != nil {
			fmt.Fprintln(p.err)
		}
		return line, err
	}
}

// readResponse reads what a person typed: a number of the list, y or n, or the
// text of an answer or a result.
func readResponse(call session.PendingCall, text string) (action session.ResponseAction, choice, answer string) {
	choices := numberedChoices(call)
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

// describeCall shows a question, or a call with everything it would do.
func (p *program) describeCall(call session.PendingCall) string {
	lines := callLines(call, maxCallLines)
	if call.Kind == session.PendingQuestion || call.Tool == "" {
		lines = append([]cell{{printable(call.Prompt), plain}}, lines...)
	}
	return p.err.paint(yellow, "?") + " " + painted(p.err, "", lines[:1]) + painted(p.err, "  ", lines[1:])
}

// callQuestion shows all that a person needs to decide: the whole call, the
// reason, and the choices with the rules that they add.
func (p *program) callQuestion(call session.PendingCall) string {
	var b strings.Builder
	b.WriteString(p.describeCall(call))
	if call.Kind == session.PendingApproval {
		b.WriteString("  [y] yes, once  [n] no\n")
	}
	about := ""
	for i, c := range numberedChoices(call) {
		if c.Rule != nil && permission.Preview(c.Rule.Scope) != about {
			about = permission.Preview(c.Rule.Scope)
			fmt.Fprintf(&b, "  or add a rule about %s:\n", oneLine(about))
		}
		fmt.Fprintf(&b, "  [%d] %s\n", i+1, oneLine(cmp.Or(c.Label, c.Value)))
	}
	return b.String()
}

// reasonOf says why an approval is asked for.
func reasonOf(call session.PendingCall) string {
	var prompt session.PromptContext
	if call.Kind != session.PendingApproval || json.Unmarshal(call.Details, &prompt) != nil {
		return ""
	}
	return prompt.Reason.Summary
}

// numberedChoices lists the choices that are shown with a number: of an
// approval those that add a rule, as y and n are the others.
func numberedChoices(call session.PendingCall) []session.Choice {
	if call.Kind != session.PendingApproval {
		return call.Choices
	}
	return slices.DeleteFunc(slices.Clone(call.Choices), func(c session.Choice) bool { return c.Rule == nil })
}

// argument is one argument of a tool call.
type argument struct{ name, value string }

// argumentsOf lists the arguments of a call in their order; none where they
// are not an object.
func argumentsOf(raw json.RawMessage) []argument {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	var list []argument
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil
		}
		list = append(list, argument{fmt.Sprint(name), metadataText(value)})
	}
	return list
}

// waitingCalls lists the calls of a session that wait.
func waitingCalls(s session.Session) []session.PendingCall {
	return slices.DeleteFunc(s.PendingCalls(), func(c session.PendingCall) bool { return !c.Waiting() })
}

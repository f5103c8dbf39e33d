package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) pendingCommand() *cobra.Command {
	var q holdfast.PendingQuery
	cmd := &cobra.Command{
		Use: "pending", Short: "list the tool calls that wait for a response, of all sessions", Args: cobra.NoArgs,
		Long: `List the tool calls that wait for a response, of all chats, tasks and workflow runs:
approvals, questions, and results that another program sends. Respond to one with
"holdfast respond"; see all of it with "holdfast pending show". With --json: an array of calls,
each with the header of its session.`,
		RunE: p.inEnv(func(ctx context.Context, e *env, _ []string) error {
			page, err := e.Pending(ctx, q)
			if err != nil {
				return err
			}
			return p.printPending(page)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&q.UserID, "user", "", "only in sessions of the user `NAME`")
	f.IntVar(&q.Limit, "limit", 0, "calls of at most `N` sessions (default 50, at most 1000)")
	f.StringVar(&q.Cursor, "cursor", "", "start where the previous page ended")
	cmd.AddCommand(p.pendingShowCommand())
	return cmd
}

func (p *program) printPending(page holdfast.PendingPage) error {
	defer p.printNext(page.Next)
	if p.json {
		return p.printJSON(page.Items)
	}
	if len(page.Items) == 0 {
		p.err.status("no call waits for a response")
		return nil
	}
	t := table{head: []string{"SESSION", "KIND", "PENDING", "WAITS FOR", "CALL", "ASKED"}, flex: 4}
	for _, item := range page.Items {
		t.add(cell{shortID(item.Session.ID), cyan}, cell{string(item.Session.Kind), plain}, cell{shortID(item.ID), plain},
			cell{waitsFor(item.PendingCall), yellow}, cell{oneLine(callText(item.PendingCall)), plain}, cell{ago(item.AskedAt, p.now()), dim})
	}
	return p.out.print(t.layout(p.out))
}

// responseActions are the actions that people and programs send.
var responseActions = []string{
	string(session.RespondApprove), string(session.RespondDeny), string(session.RespondAnswer), string(session.RespondResult),
}

func (p *program) respondCommand() *cobra.Command {
	var (
		r      session.Response
		reason string
	)
	cmd := &cobra.Command{
		Use: "respond REF [PENDING] approve|deny|answer|result [TEXT]", Short: "respond to a tool call that waits, and continue the session", Args: cobra.RangeArgs(2, 4),
		Long: `Respond to a tool call that waits, from any terminal, and continue the session. PENDING is
the id of the call, its beginning, or the id of the tool call, as "holdfast pending" shows
them; a session with one such call needs none.

  holdfast respond REF approve                        run the call, this time
  holdfast respond REF approve --choice allow_session run it, and add the rule of that choice
  holdfast respond REF deny --reason "not in main"    do not run it; the model is told why
  holdfast respond REF answer "blue"                  answer a question
  holdfast respond REF result "42"                    the result of a tool that your program runs
  holdfast respond REF result "no disk" --error       the tool failed

The first response counts. The same response again changes nothing; a different one is
refused with exit code 17. A chat continues here, and its answer is printed; with --json:
the session document. The agent is offered the tools that its definition names and those of
the calls that wait; a call that no rule allows waits again (exit code 19). TEXT - reads
standard input.

` + refHelp,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		info, s, err := session.Info{}, session.Session{}, error(nil)
		err = p.onSession(func(ctx context.Context, e *env, i session.Info, args []string) error {
			info = i
			if s, err = e.Get(ctx, i.ID, holdfast.WithTail()); err != nil {
				return err
			}
			r, err = p.readRespond(ctx, s, args, r, reason)
			return err
		})(cmd, args)
		if err != nil {
			return err
		}
		for _, name := range append(s.Definition().Tools, pendingTools(s)...) {
			p.permissions.allowTool(name)
		}
		return p.inEnv(func(ctx context.Context, e *env, _ []string) error { return p.respond(ctx, e, info, s, r) })(cmd, args)
	}
	f := cmd.Flags()
	f.StringVar(&r.Choice, "choice", "", "take the choice with this `VALUE`, as \"holdfast pending --json\" shows them")
	f.StringVar(&reason, "reason", "", "with deny: the `TEXT` that the model is told")
	f.BoolVar(&r.IsError, "error", false, "with result: the tool failed, TEXT says why")
	return p.addPermissionFlags(cmd)
}

func pendingTools(s session.Session) []string {
	var names []string
	for _, call := range waitingCalls(s) {
		names = append(names, call.Tool)
	}
	return names
}

// readRespond reads the arguments after the session.
func (p *program) readRespond(ctx context.Context, s session.Session, args []string, r session.Response, reason string) (session.Response, error) {
	given := ""
	if !slices.Contains(responseActions, args[0]) {
		given, args = args[0], args[1:]
	}
	if len(args) == 0 || len(args) > 2 || !slices.Contains(responseActions, args[0]) {
		return r, &session.InvalidError{Field: "action", Reason: "say approve, deny, answer or result after the session or the pending call"}
	}
	r.Action = session.ResponseAction(args[0])
	texts := r.Action == session.RespondAnswer || r.Action == session.RespondResult
	switch {
	case texts != (len(args) == 2):
		return r, &session.InvalidError{Field: "text", Reason: "answer and result need a TEXT; approve and deny take none, and deny takes --reason"}
	case reason != "" && r.Action != session.RespondDeny:
		return r, &session.InvalidError{Field: "reason", Reason: "only deny takes --reason"}
	case r.IsError && r.Action != session.RespondResult:
		return r, &session.InvalidError{Field: "error", Reason: "only result takes --error"}
	case r.Choice != "" && texts:
		return r, &session.InvalidError{Field: "choice", Reason: "only approve and deny take --choice; give the answer as TEXT"}
	}
	r.Text = reason
	if texts {
		text, err := p.readText(ctx, args[1])
		if err != nil {
			return r, err
		}
		r.Text = text
	}
	call, err := findPending(s, given)
	if err != nil {
		return r, err
	}
	r.PendingID = call.ID
	return r, nil
}

// findPending finds the call that a response is about: the one with this id or
// the beginning of it, or the only one that waits. An id that is not known is
// returned as it is: its call may have its response already.
func findPending(s session.Session, given string) (session.PendingCall, error) {
	calls := waitingCalls(s)
	if given != "" {
		calls = slices.DeleteFunc(calls, func(c session.PendingCall) bool { return !strings.HasPrefix(c.ID, given) && c.CallID != given })
		if len(calls) == 0 {
			return session.PendingCall{ID: given}, nil
		}
	}
	ids := make([]string, len(calls))
	for i, c := range calls {
		ids[i] = shortID(c.ID)
	}
	switch {
	case len(calls) == 0:
		return session.PendingCall{}, &session.NotFoundError{What: "pending call of session", ID: shortID(s.ID())}
	case len(calls) > 1:
		return session.PendingCall{}, &session.InvalidError{Field: "pending", Reason: fmt.Sprintf("%d calls wait; name one of %s", len(calls), strings.Join(ids, ", "))}
	case calls[0].ChildID != "":
		return session.PendingCall{}, &session.InvalidError{Field: "pending", Reason: "the call waits for a subagent; respond to session " + shortID(calls[0].ChildID)}
	}
	return calls[0], nil
}

// respond sends a response and continues a chat with it.
func (p *program) respond(ctx context.Context, e *env, i session.Info, before session.Session, r session.Response) error {
	if err := e.findMissing(before.Definition(), before.Model()); i.Kind == session.KindChat && err != nil {
		return err
	}
	if err := e.Respond(ctx, i.ID, r); err != nil {
		return err
	}
	call, known := before.PendingCall(r.PendingID)
	switch {
	case i.Kind == session.KindChat && known && call.Waiting():
		if err := p.sendTurn(ctx, e, i, holdfast.ContinueExecution{}, false); err != nil || i.Origin != session.OriginSubagent {
			return err
		}
		p.err.status("session %s, which started this one, has continued", shortID(i.ParentID))
		return nil
	case p.json:
		return p.printJSON(i)
	case !known:
		return p.out.print("the call had this response already\n")
	case i.Kind == session.KindTask:
		return p.out.print("responded; continue with: holdfast task resume " + shortID(i.ID) + "\n")
	case i.Kind == session.KindWorkflow:
		return p.out.print("responded; continue with: holdfast run --resume " + shortID(i.ID) + "\n")
	}
	return p.out.print("responded\n")
}

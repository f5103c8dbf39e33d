package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/permission"
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
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
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
	if p.JSON {
		return p.PrintJSON(page.Items)
	}
	if len(page.Items) == 0 {
		p.Err.Status("no call waits for a response")
		return nil
	}
	t := terminal.Table{Head: []string{"SESSION", "KIND", "PENDING", "WAITS FOR", "CALL", "ASKED"}, Flex: 4}
	for _, item := range page.Items {
		t.Add(terminal.Styled(display.ShortID(item.Session.ID), terminal.Cyan), terminal.Styled(string(item.Session.Kind), terminal.Plain), terminal.Styled(display.ShortID(item.ID), terminal.Plain),
			terminal.Styled(display.WaitsFor(item.PendingCall), terminal.Yellow), terminal.Styled(terminal.OneLine(display.CallText(item.PendingCall)), terminal.Plain), terminal.Styled(terminal.Ago(item.AskedAt, p.Now()), terminal.Dim))
	}
	return p.Out.Print(t.Layout(p.Out))
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
		err = p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
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
			p.Permissions.AllowTool(name)
		}
		return p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error { return p.respond(ctx, e, info, s, r) })(cmd, args)
	}
	f := cmd.Flags()
	f.StringVar(&r.Choice, "choice", "", "take the choice with this `VALUE`, as \"holdfast pending --json\" shows them")
	f.StringVar(&reason, "reason", "", "with deny: the `TEXT` that the model is told")
	f.BoolVar(&r.IsError, "error", false, "with result: the tool failed, TEXT says why")
	return p.AddPermissionFlags(cmd)
}

func pendingTools(s session.Session) []string {
	var names []string
	for _, call := range display.WaitingCalls(s) {
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
		text, err := p.ReadText(ctx, args[1])
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
	calls := display.WaitingCalls(s)
	if given != "" {
		calls = slices.DeleteFunc(calls, func(c session.PendingCall) bool { return !strings.HasPrefix(c.ID, given) && c.CallID != given })
		if len(calls) == 0 {
			return session.PendingCall{ID: given}, nil
		}
	}
	ids := make([]string, len(calls))
	for i, c := range calls {
		ids[i] = display.ShortID(c.ID)
	}
	switch {
	case len(calls) == 0:
		return session.PendingCall{}, &session.NotFoundError{What: "pending call of session", ID: display.ShortID(s.ID())}
	case len(calls) > 1:
		return session.PendingCall{}, &session.InvalidError{Field: "pending", Reason: fmt.Sprintf("%d calls wait; name one of %s", len(calls), strings.Join(ids, ", "))}
	case calls[0].ChildID != "":
		return session.PendingCall{}, &session.InvalidError{Field: "pending", Reason: "the call waits for a subagent; respond to session " + display.ShortID(calls[0].ChildID)}
	}
	return calls[0], nil
}

// respond sends a response and continues a chat with it.
func (p *program) respond(ctx context.Context, e *setup.Env, i session.Info, before session.Session, r session.Response) error {
	if err := e.FindMissing(before.Definition(), before.Model()); i.Kind == session.KindChat && err != nil {
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
		p.Err.Status("session %s, which started this one, has continued", display.ShortID(i.ParentID))
		return nil
	case p.JSON:
		return p.PrintJSON(i)
	case !known:
		return p.Out.Print("the call had this response already\n")
	case i.Kind == session.KindTask:
		return p.Out.Print("responded; continue with: holdfast task resume " + display.ShortID(i.ID) + "\n")
	case i.Kind == session.KindWorkflow:
		return p.Out.Print("responded; continue with: holdfast run --resume " + display.ShortID(i.ID) + "\n")
	}
	return p.Out.Print("responded\n")
}

func (p *program) pendingShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show PENDING", Short: "show a tool call that waits, whole: every argument, the diff and the choices", Args: cobra.ExactArgs(1),
		Long: `Show a tool call that waits for a response, whole, as its session's log has it. PENDING is
its id or the beginning of it, as "holdfast pending" shows it.`,
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, args []string) error {
			item, err := findPendingItem(ctx, e, args[0])
			if err != nil {
				return err
			}
			if p.JSON {
				return p.PrintJSON(item)
			}
			var b strings.Builder
			fmt.Fprintf(&b, "%s · %s · %s\n", p.Out.Paint(terminal.Bold, terminal.OneLine(display.Title(item.Session))), display.WaitsFor(item.PendingCall), item.ID)
			if item.Prompt != "" {
				fmt.Fprintf(&b, "  %s\n", terminal.Printable(item.Prompt))
			}
			b.WriteString(display.Painted(p.Out, "  ", display.CallLines(item.PendingCall, 0)))
			for _, c := range item.Choices {
				fmt.Fprintf(&b, "  choice %s", terminal.OneLine(c.Value))
				if c.Rule != nil {
					fmt.Fprintf(&b, ": adds the rule %s %s", c.Rule.Effect, terminal.OneLine(permission.Preview(c.Rule.Scope)))
				}
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s\n", p.Out.Paint(terminal.Dim, "respond with: "+display.RespondCommandFor(item.Session.ID, item.PendingCall)))
			return p.Out.Print(b.String())
		}),
	}
}

// findPendingItem finds a waiting call of any session by the beginning of its
// id.
func findPendingItem(ctx context.Context, e *setup.Env, id string) (holdfast.Pending, error) {
	var found []holdfast.Pending
	q := holdfast.PendingQuery{Limit: 1000}
	for {
		page, err := e.Pending(ctx, q)
		if err != nil {
			return holdfast.Pending{}, err
		}
		for _, item := range page.Items {
			if item.ID == id {
				return item, nil
			}
			if strings.HasPrefix(item.ID, id) {
				found = append(found, item)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	switch len(found) {
	case 0:
		return holdfast.Pending{}, &session.NotFoundError{What: "pending call", ID: id}
	case 1:
		return found[0], nil
	}
	return holdfast.Pending{}, &session.InvalidError{Field: "pending", Reason: fmt.Sprintf("%d calls begin with %s; write more of the id", len(found), id)}
}

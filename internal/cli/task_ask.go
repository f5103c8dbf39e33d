package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

func (p *program) taskSendCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "send ID TEXT", Short: "answer a task's question, or leave a message; on one that has ended it opens another run", Args: cobra.ExactArgs(2),
		Long: "Answer the question that a task has asked, and go on with it. Where it has asked none, leave a\nmessage: whoever works on it takes it up at the next turn. A task that has ended begins another\nrun. TEXT - reads standard input.",
	}
	work := cmd.Flags().Bool("resume", false, "go on with the task, where nobody works on it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var (
			text   string
			asked  session.Approval
			answer bool
		)
		err := p.onTask(func(ctx context.Context, d *workshop, row task.Row, args []string) (err error) {
			if text, err = p.readText(ctx, args[0]); err != nil {
				return err
			}
			state, err := d.State(ctx, row.ID)
			if err != nil {
				return err
			}
			if asked, answer = openQuestion(state); answer || *work {
				return nil
			}
			return p.leave(ctx, d, row, text)
		})(cmd, args)
		if err != nil || !answer && !*work {
			return err
		}
		return p.working(func(ctx context.Context, d *workshop, row task.Row, _ []string) (task.Row, error) {
			if answer {
				p.err.status("this answers: %s", oneLine(asked.Description))
				reply, err := d.Answer(ctx, row.ID, asked.ID, strings.TrimSpace(text), "cli")
				return reply.Row, err
			}
			if _, err := d.QueueFollowUp(ctx, row.ID, session.FollowUp{Message: text}); err != nil {
				return row, err
			}
			res, err := d.Resume(ctx, row.ID)
			return res.Row, err
		})(cmd, args)
	}
	return cmd
}

// leave queues a message for a task.
func (p *program) leave(ctx context.Context, d *workshop, row task.Row, text string) error {
	id, err := d.QueueFollowUp(ctx, row.ID, session.FollowUp{Message: text})
	if err != nil {
		return p.lateOr(err)
	}
	if p.json {
		return p.printJSON(map[string]string{"id": id})
	}
	return p.out.print("queued " + id + "\n")
}

// openQuestion is the one question that a task has asked.
func openQuestion(state session.TaskState) (session.Approval, bool) {
	var open []session.Approval
	for _, a := range state.Approvals {
		if _, asks := task.InputOf(a); asks && a.Status == "pending" {
			open = append(open, a)
		}
	}
	if len(open) != 1 {
		return session.Approval{}, false
	}
	return open[0], true
}

// askApproval asks the person at the terminal. Answered is false where nothing
// was said: the task waits.
func (p *program) askApproval(ctx context.Context, d *workshop, row task.Row, v *taskView) (_ task.Row, answered bool, err error) {
	state, err := d.State(ctx, row.ID)
	if err != nil {
		return row, false, err
	}
	i := slices.IndexFunc(state.Approvals, func(a session.Approval) bool { return a.Status == "pending" })
	if i < 0 {
		return row, false, nil
	}
	a := state.Approvals[i]
	respond := p.permissionFromPerson
	if _, asks := task.InputOf(a); asks {
		respond = p.answerFromPerson
	}
	var reply func(context.Context) (task.Reply, error)
	v.aside(func() { reply = respond(ctx, d, a) })
	if reply == nil {
		return row, false, nil
	}
	row, err = p.patiently(ctx, d, row.ID, v, func(ctx context.Context) (task.Row, error) {
		r, err := reply(ctx)
		return r.Row, err
	})
	return row, true, err
}

// permissionFromPerson asks whether something may be done; nil: nothing was
// said.
func (p *program) permissionFromPerson(ctx context.Context, d *workshop, a session.Approval) func(context.Context) (task.Reply, error) {
	fmt.Fprintf(p.err, "%s %s\n", p.err.paint(yellow, "?"), printable(a.Description))
	fmt.Fprint(p.err, "  [y] once  [s] this session  [w] this workspace  [n] no  [enter] later: ")
	line, err := waitFor(ctx, p.in.readLine)
	if err != nil {
		fmt.Fprintln(p.err)
		return nil
	}
	action := map[string]string{
		"y": "allow_once", "yes": "allow_once", "s": "allow_session", "w": "allow_workspace", "n": "deny_once", "no": "deny_once",
	}[strings.ToLower(strings.TrimSpace(line))]
	if action == "" {
		return nil
	}
	return func(ctx context.Context) (task.Reply, error) {
		return d.Respond(ctx, a.TaskID, a.ID, action, "cli", task.RespondOptions{})
	}
}

// answerFromPerson asks a question of the agent, again where something else
// than one of its options is said; nil: nothing was said.
func (p *program) answerFromPerson(ctx context.Context, d *workshop, a session.Approval) func(context.Context) (task.Reply, error) {
	q, _ := task.InputOf(a)
	fmt.Fprintf(p.err, "%s %s\n", p.err.paint(yellow, "?"), printable(a.Description))
	for _, o := range q.Options {
		fmt.Fprintf(p.err, "  · %s\n", oneLine(o))
	}
	for {
		fmt.Fprint(p.err, "  your answer, [enter] later: ")
		line, err := waitFor(ctx, p.in.readLine)
		if err != nil {
			fmt.Fprintln(p.err)
			return nil
		}
		text := strings.TrimSpace(line)
		switch {
		case text == "":
			return nil
		case len(q.Options) > 0 && !slices.Contains(q.Options, text):
			fmt.Fprintln(p.err, "  that is none of them")
			continue
		}
		return func(ctx context.Context) (task.Reply, error) { return d.Answer(ctx, a.TaskID, a.ID, text, "cli") }
	}
}

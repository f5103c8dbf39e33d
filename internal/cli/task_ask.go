package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/permission"
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
			asked  session.PendingCall
			answer bool
		)
		err := p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, args []string) (err error) {
			if text, err = p.ReadText(ctx, args[0]); err != nil {
				return err
			}
			waiting, err := d.Pending(ctx, row.ID)
			if err != nil {
				return err
			}
			if asked, answer = openQuestion(waiting); answer || *work {
				return nil
			}
			return p.leave(ctx, d, row, text)
		})(cmd, args)
		if err != nil || !answer && !*work {
			return err
		}
		return p.working(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) (task.Row, error) {
			if answer {
				p.Err.Status("this answers: %s", terminal.OneLine(asked.Prompt))
				r := session.Response{PendingID: asked.ID, Action: session.RespondAnswer, Text: strings.TrimSpace(text), By: "cli"}
				return d.Respond(ctx, row.ID, r, task.RespondOptions{})
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
func (p *program) leave(ctx context.Context, d *taskEnv, row task.Row, text string) error {
	id, err := d.QueueFollowUp(ctx, row.ID, session.FollowUp{Message: text})
	if err != nil {
		return err
	}
	if p.JSON {
		return p.PrintJSON(map[string]string{"id": id})
	}
	return p.Out.Print("queued " + id + "\n")
}

// openQuestion is the one question that a task has asked.
func openQuestion(waiting []session.PendingCall) (session.PendingCall, bool) {
	open := slices.DeleteFunc(waiting, func(c session.PendingCall) bool { return c.Kind != session.PendingQuestion })
	if len(open) != 1 {
		return session.PendingCall{}, false
	}
	return open[0], true
}

// askPerson asks the person at the terminal. Answered is false where nothing
// was said: the task waits.
func (p *program) askPerson(ctx context.Context, d *taskEnv, row task.Row, v *display.TaskView) (_ task.Row, answered bool, err error) {
	waiting, err := d.Pending(ctx, row.ID)
	if err != nil || len(waiting) == 0 {
		return row, false, err
	}
	ask := p.permissionFromPerson
	if waiting[0].Kind == session.PendingQuestion {
		ask = p.answerFromPerson
	}
	asking, settled, stop := untilSettled(ctx, d, row.ID, waiting[0].ID)
	defer stop()
	var r *session.Response
	v.Aside(func() { r = ask(asking, waiting[0]) })
	switch {
	case settled():
		return p.settledElsewhere(ctx, d, row)
	case r == nil:
		return row, false, nil
	}
	after, err := p.patiently(ctx, d, row.ID, v, func(ctx context.Context) (task.Row, error) {
		return d.Respond(ctx, row.ID, *r, task.RespondOptions{})
	})
	if errors.Is(err, session.ErrResponded) {
		return p.settledElsewhere(ctx, d, row)
	}
	return after, true, err
}

// settledElsewhere says that somebody else has responded, and where the task
// stands.
func (p *program) settledElsewhere(ctx context.Context, d *taskEnv, row task.Row) (task.Row, bool, error) {
	p.Err.Status("this was answered elsewhere; see how it goes on: holdfast task watch %s", display.ShortID(row.ID))
	row, err := d.Get(ctx, row.ID)
	return row, false, err
}

// settledPoll is how often a prompt looks whether somebody else has responded.
const settledPoll = time.Second

// untilSettled returns a context that ends when somebody else responds to a
// call. Settled looks whether that is so. The caller calls stop.
func untilSettled(ctx context.Context, d *taskEnv, id, pendingID string) (asking context.Context, settled func() bool, stop func()) {
	asking, cancel := context.WithCancel(ctx)
	settled = func() bool {
		waiting, err := d.Pending(ctx, id)
		return err == nil && !slices.ContainsFunc(waiting, func(c session.PendingCall) bool { return c.ID == pendingID })
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(settledPoll)
		defer tick.Stop()
		for {
			select {
			case <-asking.Done():
				return
			case <-tick.C:
			}
			if settled() {
				cancel()
				return
			}
		}
	}()
	return asking, settled, func() {
		cancel()
		<-over
	}
}

// spans are what can be typed besides y and n, with the choices they stand for.
var spans = []struct{ key, text, choice string }{
	{"s", "this session", permission.AllowSession}, {"w", "this workspace", permission.AllowWorkspace},
}

// permissionFromPerson shows a call in full and asks whether it may be made;
// nil: nothing was said. Only what is possible is offered.
func (p *program) permissionFromPerson(ctx context.Context, asked session.PendingCall) *session.Response {
	offered := map[string]string{"y": permission.AllowOnce, "yes": permission.AllowOnce, "n": permission.DenyOnce, "no": permission.DenyOnce}
	prompt := "  [y] once"
	for _, span := range spans {
		if slices.ContainsFunc(asked.Choices, func(c session.Choice) bool { return c.Value == span.choice }) {
			offered[span.key] = span.choice
			prompt += fmt.Sprintf("  [%s] %s", span.key, span.text)
		}
	}
	fmt.Fprint(p.Err, display.DescribeCall(p.Err, asked))
	if len(offered) > 4 {
		fmt.Fprintf(p.Err, "  [s] and [w] add a rule that allows %s\n", display.RuleScope(asked))
	}
	for {
		fmt.Fprint(p.Err, prompt+"  [n] no  [enter] later: ")
		line, err := terminal.WaitFor(ctx, p.In.ReadLine)
		if err != nil {
			fmt.Fprintln(p.Err)
			return nil
		}
		text := strings.ToLower(strings.TrimSpace(line))
		if text == "" {
			return nil
		}
		r := &session.Response{PendingID: asked.ID, Action: session.RespondApprove, Choice: offered[text], By: "cli"}
		switch r.Choice {
		case "":
			fmt.Fprintln(p.Err, "  that is not one of the choices")
			continue
		case permission.DenyOnce:
			r.Action = session.RespondDeny
		}
		return r
	}
}

// answerFromPerson asks a question of the agent, again where something else
// than one of its options is said; nil: nothing was said.
func (p *program) answerFromPerson(ctx context.Context, asked session.PendingCall) *session.Response {
	fmt.Fprintf(p.Err, "%s %s\n", p.Err.Paint(terminal.Yellow, "?"), terminal.Printable(asked.Prompt))
	for _, o := range asked.Choices {
		fmt.Fprintf(p.Err, "  · %s\n", terminal.OneLine(o.Value))
	}
	for {
		fmt.Fprint(p.Err, "  your answer, [enter] later: ")
		line, err := terminal.WaitFor(ctx, p.In.ReadLine)
		if err != nil {
			fmt.Fprintln(p.Err)
			return nil
		}
		r := session.Response{PendingID: asked.ID, Action: session.RespondAnswer, Text: strings.TrimSpace(line), By: "cli"}
		switch {
		case r.Text == "":
			return nil
		case asked.Check(r) != nil:
			fmt.Fprintln(p.Err, "  that is none of them")
			continue
		}
		return &r
	}
}

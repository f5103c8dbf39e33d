package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) continueCommand() *cobra.Command {
	return p.turnCommand(holdfast.ContinueExecution{}, &cobra.Command{
		Use: "continue REF", Short: "continue a turn that was interrupted, or answer queued messages",
		Long: `Continue a turn that was interrupted, or answer the messages in the inbox, and print the
answer. The model is not asked again for what it has answered, and tools that have finished
do not run again. With --json: the session document after the turn.`,
	})
}

func (p *program) retryCommand() *cobra.Command {
	return p.turnCommand(holdfast.RetryExecution{}, &cobra.Command{
		Use: "retry REF", Short: "run the last turn again, if it failed",
		Long: `Run the last turn again, if it failed, with the message it had, and print the answer. It goes
on after its last step: tools that have finished do not run again. A turn that was
interrupted, or set aside because it never ended, is continued. With --json: the session
document after the turn.`,
	})
}

// turnCommand completes a command that runs a turn without a new message.
func (p *program) turnCommand(a holdfast.Action, cmd *cobra.Command) *cobra.Command {
	var stream bool
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
		if stream && p.JSON {
			return &session.InvalidError{Field: "stream", Reason: "--json prints the document at the end; give either --stream or --json"}
		}
		return p.sendTurn(ctx, e, i, a, stream)
	})
	cmd.Flags().BoolVar(&stream, "stream", false, "print the answer while the model writes it")
	return p.AddPermissionFlags(cmd)
}

func (p *program) abandonCommand() *cobra.Command {
	return &cobra.Command{
		Use: "abandon REF", Short: "give up a turn that was interrupted; keep what it wrote", Args: cobra.ExactArgs(1),
		Long: "Give up a turn that was interrupted, without asking the model again. What it wrote is\nkept. With --json: the header.",
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
			return p.execute(ctx, e, i, holdfast.AbandonExecution{}, "abandoned the turn of")
		}),
	}
}

func (p *program) cancelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cancel REF", Short: "stop the turn that a session is running, or end a workflow run, from any terminal", Args: cobra.ExactArgs(1),
		Long: `Stop the turn that a session is running, in any process, for good: the answer of the model
is interrupted, tools are told to end, and the turn is saved as stopped. A turn that was
interrupted ends at once. With --json: the header as it is now. It needs a store with an
inbox.

A workflow run ends with the status cancelled: whoever works on it breaks off, and what
waited is withdrawn. "run --resume ID --reopen" goes on with it all the same.`,
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
			if i.Kind == session.KindWorkflow {
				return p.cancelRun(ctx, e, i)
			}
			if err := e.Cancel(ctx, i.ID); err != nil {
				return err
			}
			if err := e.WaitForEnd(ctx, i); err != nil {
				return err
			}
			now, err := e.Info(ctx, i.ID)
			if err != nil {
				return err
			}
			if now.Version > i.Version {
				return p.printDone("cancelled", now)
			}
			return p.PrintResult(now, "asked %s to stop", display.Title(now))
		}),
	}
}

// usageTotals is what a session has used since it was made.
type usageTotals struct {
	session.Usage
	Cost       session.Cost `json:"cost"`
	Executions int          `json:"executions"`
	Inferences int          `json:"inferences"`
}

func (p *program) usageCommand() *cobra.Command {
	return &cobra.Command{
		Use: "usage REF", Short: "print the tokens and the money a session has used", Args: cobra.ExactArgs(1),
		Long: "Print the tokens and the money a session has used since it was made, its subagents\nincluded. A model whose price is not known counts as free.",
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
			s, err := e.Get(ctx, i.ID, holdfast.WithTail())
			if err != nil {
				return err
			}
			return p.PrintResult(usageOf(s), "%s", p.usageText(s))
		}),
	}
}

func usageOf(s session.Session) usageTotals {
	used, cost := s.Usage()
	return usageTotals{Usage: used, Cost: cost, Executions: s.State().ExecutionCount, Inferences: s.InferenceCount()}
}

func (p *program) usageText(s session.Session) string {
	used := usageOf(s)
	text := ""
	line := func(key, value string) {
		text += p.Out.Paint(terminal.Dim, fmt.Sprintf("%-12s", key)) + value + "\n"
	}
	line("input", fmt.Sprintf("%d tokens, %d from the cache, %d into it", used.Input, used.CacheRead, used.CacheWrite))
	line("output", fmt.Sprintf("%d tokens, %d for reasoning", used.Output, used.Reasoning))
	line("cost", "$"+used.Cost.String())
	line("turns", fmt.Sprintf("%d, the model was asked %s", used.Executions, times(used.Inferences)))
	return strings.TrimSuffix(text, "\n")
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return terminal.CountOf(n, "time")
}

package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) showCommand() *cobra.Command {
	var (
		at     int64
		last   int
		format string
	)
	cmd := &cobra.Command{
		Use: "show REF", Short: "show one session", Args: cobra.ExactArgs(1),
		Long: `Show one session: its header, what it is doing and the last messages. Of a
workflow run: its pattern with a mark for each unit, ✓ done, ▸ at work, ‖ interrupted,
? waiting for a person, ✗ failed, · ahead; and what to do next. With --json: the session
document; of a run its state, {metadata, variables, runtime_config, token_usage,
artifacts_written, pattern_state, question, pending, live, next}. With --format mermaid or
dot: a workflow run as a graph, for Mermaid or Graphviz.`,
	}
	cmd.RunE = p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
		if format != "" && !slices.Contains(graphFormats, format) {
			return &session.InvalidError{Field: "format", Reason: fmt.Sprintf("%q is not %s", format, strings.Join(graphFormats, " or "))}
		}
		if i.Kind == session.KindWorkflow {
			var version *int64
			if cmd.Flags().Changed("at") {
				version = &at
			}
			return p.showRun(ctx, e, i.ID, version, format)
		}
		if format != "" {
			return &session.InvalidError{Field: "format", Reason: fmt.Sprintf("%q is no workflow run, which has a graph", i.ID)}
		}
		var opts []holdfast.Option
		if cmd.Flags().Changed("at") {
			opts = append(opts, holdfast.At(at))
		}
		if p.JSON {
			s, err := e.Get(ctx, i.ID, opts...)
			if err != nil {
				return err
			}
			if opts == nil {
				p.warnOfTail(ctx, e, i.ID)
			}
			return p.PrintJSON(s)
		}
		if opts == nil {
			opts = append(opts, holdfast.WithTail())
		}
		s, err := e.Get(ctx, i.ID, opts...)
		if err != nil {
			return err
		}
		work, err := e.WorkOn(ctx, s)
		if err != nil {
			return err
		}
		return p.Out.Print(p.summary(s, work) + display.LastMessages(p.Out, p.Now(), s, last))
	})
	cmd.Flags().Int64Var(&at, "at", 0, "as it was at `VERSION` (needs a store with a log)")
	cmd.Flags().IntVarP(&last, "messages", "n", 6, "show the last `N` messages")
	cmd.Flags().StringVar(&format, "format", "", "a run as a graph, in the `LANGUAGE` mermaid or dot")
	return cmd
}

// summary returns a session's header, a line for each thing worth knowing.
func (p *program) summary(s session.Session, w setup.Activity) string {
	i, out := s.Info(), p.Out
	var b strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "%s %s\n", out.Paint(terminal.Dim, fmt.Sprintf("%-10s", key)), terminal.OneLine(fmt.Sprintf(format, args...)))
	}
	name := i.Name
	if name == "" {
		name = i.AgentLabel
	}
	fmt.Fprintf(&b, "%s  %s\n", out.Paint(terminal.Bold, terminal.OneLine(name)), out.Paint(display.StatusColour(i.Status), string(i.Status)))
	line("id", "%s", i.ID)
	line("agent", "%s", i.AgentName)
	if i.UserID != "" {
		line("user", "%s", i.UserID)
	}
	line("model", "%s", display.ModelText(s))
	if text := s.SystemPrompt(); text != "" {
		line("prompt", "%s", terminal.Shortened(text, 100))
	}
	line("version", "%d · %s", i.Version, terminal.CountOf(i.MessageCount, "message"))
	line("created", "%s (%s)", i.CreatedAt.Local().Format(time.DateTime), terminal.Ago(i.CreatedAt, p.Now()))
	line("updated", "%s (%s)", i.UpdatedAt.Local().Format(time.DateTime), terminal.Ago(i.UpdatedAt, p.Now()))
	if i.Fork != nil {
		line("forked", "from %s at version %d", display.ShortID(i.ParentID), i.Fork.Version)
	} else if i.ParentID != "" {
		line("parent", "%s", i.ParentID)
	}
	if i.ExpiresAt != nil {
		line("expires", "%s", i.ExpiresAt.Local().Format(time.DateTime))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Metadata())) {
		line("metadata", "%s = %s", key, terminal.Shortened(display.MetadataText(s.Metadata()[key]), 100))
	}
	if usage, cost := s.Usage(); usage.Input+usage.Output > 0 {
		line("used", "%d tokens in, %d out · $%s", usage.Input, usage.Output, cost)
	}
	b.WriteString(p.executionText(s, w))
	return b.String()
}

// executionText says how the last execution ended, and what to do about one
// that has not.
func (p *program) executionText(s session.Session, w setup.Activity) string {
	key := p.Out.Paint(terminal.Dim, fmt.Sprintf("%-10s", "execution")) + " "
	e := s.Execution()
	switch {
	case s.SetAside():
		return key + p.Out.Paint(terminal.Yellow, "set aside") + fmt.Sprintf(": recovered %s without an end\n", terminal.CountOf(e.Recoveries, "time")) +
			"           continue with: holdfast sessions retry " + display.ShortID(s.ID()) + "\n"
	case w.Interrupted:
		return key + p.Out.Paint(terminal.Yellow, "interrupted") + "\n" +
			"           continue with: " + display.ContinueCommand(s.Info().Kind, s.ID()) + "\n"
	case w.Holder != "":
		return key + "running, by " + display.HolderText(w.Holder) + "\n"
	case e == nil:
		return ""
	case s.Waiting():
		text := key + p.Out.Paint(terminal.Yellow, "waiting") + "\n"
		for _, call := range display.WaitingCalls(s) {
			text += "           " + terminal.Shortened(display.CallText(call), 100) + "\n           respond with: " + display.RespondCommandFor(s.ID(), call) + "\n"
		}
		return text
	}
	text := fmt.Sprintf("%s · %s", e.Status, terminal.CountOf(len(e.Steps), "step"))
	if e.Stop != nil && e.Status != session.ExecutionCompleted {
		text += " · " + string(e.Stop.Reason)
	}
	if i := slices.IndexFunc(e.Steps, func(s session.Step) bool { return len(s.Recalled) > 0 }); i >= 0 { // later steps were given the same
		text += "\n           " + p.Out.Paint(terminal.Dim, terminal.OneLine(display.RecalledText(e.Steps[i].Recalled, e.Steps[i].Reasons)))
	}
	for _, failure := range e.Errors {
		text += "\n           " + terminal.OneLine(failure.Message)
	}
	if e.Status == session.ExecutionFailed && s.Status() == session.Active {
		text += "\n           run it again with: holdfast sessions retry " + display.ShortID(s.ID())
	}
	return key + text + "\n"
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/replay"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) replayCommand() *cobra.Command {
	var (
		from int64
		o    replay.Options
	)
	cmd := &cobra.Command{
		Use: "replay REF", Short: "say the same again to a model, and compare what comes of it", Args: cobra.ExactArgs(1),
		Long: `Send the user's messages of a conversation again, to a fork of it, and print for each turn
what differs: the answer, the tool calls, the results, and what it cost. The conversation
itself stays as it was, and so does the fork for you to look at.

No tool does again what it did. A call with the recorded arguments gets the recorded result.
Another call runs if its tool only reads; else the model is told that there is no result.
--run names tools that run all the same. What waited for a response waits again, and is
given up at the end.

The exit code is 0 if every turn came to the same answer, calls and results, else 1. With
--json: {"session", "replay", "from", "model", "turns", "differs"}.`,
	}
	player := &replay.Player{}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p.Loop, p.NoTitles = player, true
		return p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
			recorded, err := replay.Load(ctx, e.Runtime, i.ID, from)
			if err != nil {
				return err
			}
			if err := checkRun(recorded, o.Run); err != nil {
				return err
			}
			report, err := player.Play(ctx, e.Runtime, recorded, o)
			if report == nil {
				return e.Explain(err, recorded.Definition, o.Model)
			}
			return p.printReplay(i, report, err)
		})(cmd, args)
	}
	f := cmd.Flags()
	f.Int64Var(&from, "from", 0, "begin after `VERSION` (default: before the first message)")
	f.StringVar(&o.Model, "model", "", "the `MODEL` that answers, as provider/model (default: that of the session)")
	f.StringVar(&o.Name, "name", "", "`NAME` of the new session")
	f.StringSliceVar(&o.Run, "run", nil, "a `TOOL` that runs although there is a recorded result; may be repeated")
	return p.AddPermissionFlags(cmd)
}

// checkRun refuses tools to run that the recording does not call.
func checkRun(r *replay.Recording, run []string) error {
	var called []string
	for _, turn := range r.Turns {
		for _, c := range turn.Calls {
			if !slices.Contains(called, c.Tool) {
				called = append(called, c.Tool)
			}
		}
	}
	for _, name := range run {
		if !slices.Contains(called, name) {
			return &session.NotFoundError{What: "recorded call of the tool", ID: name, Available: called}
		}
	}
	return nil
}

// printReplay prints how a replay compares, and returns the error that the
// program ends with.
func (p *program) printReplay(i session.Info, r *replay.Report, failed error) error {
	var printed error
	if p.JSON {
		printed = p.PrintJSON(r)
	} else {
		printed = p.Out.Print(p.replayText(r))
		p.Err.Status("replayed %s with %s; the replay is session %s", display.Title(i), r.Model, display.ShortID(r.Replay))
	}
	switch {
	case failed != nil || printed != nil:
		return errors.Join(failed, printed)
	case !r.Same():
		return &differsError{r.Differs, len(r.Turns)}
	}
	return nil
}

// replayText is a report for a terminal.
func (p *program) replayText(r *replay.Report) string {
	lines := strings.Split(terminal.Printable(r.String()), "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "   - "):
			lines[i] = p.Out.Paint(terminal.Red, line)
		case strings.HasPrefix(line, "   + "):
			lines[i] = p.Out.Paint(terminal.Green, line)
		case strings.HasPrefix(line, "   "):
			lines[i] = p.Out.Paint(terminal.Dim, line)
		}
	}
	return strings.Join(lines, "\n")
}

// differsError is a replay that came to something else.
type differsError struct{ turns, all int }

func (e *differsError) Error() string {
	return fmt.Sprintf("%d of %s differ from the recording", e.turns, terminal.CountOf(e.all, "turn"))
}

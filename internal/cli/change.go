package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/session"
)

// statusCommands returns the commands that execute one action and need nothing else.
func (p *program) statusCommands() []*cobra.Command {
	var commands []*cobra.Command
	for _, c := range []struct {
		use, short, done string
		action           holdfast.Action
	}{
		{"complete", "close a session as done", "completed", holdfast.CompleteSession{}},
		{"clear", "empty the transcript; everything else stays", "cleared", holdfast.ClearSession{}},
		{"restore", "bring a deleted session back", "restored", holdfast.RestoreSession{}},
	} {
		commands = append(commands, &cobra.Command{
			Use: c.use + " REF", Short: c.short, Args: cobra.ExactArgs(1),
			RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
				return p.execute(ctx, e, i, c.action, c.done)
			}),
		})
	}
	return commands
}

func (p *program) failCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "fail REF", Short: "close a session as failed", Args: cobra.ExactArgs(1),
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
			return p.execute(ctx, e, i, holdfast.FailSession{Reason: reason}, "failed")
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, as `TEXT`")
	return cmd
}

func (p *program) expireCommand() *cobra.Command {
	return &cobra.Command{
		Use: "expire REF WHEN", Short: "say when a session may be swept; \"never\" takes it back", Args: cobra.ExactArgs(2),
		Long: "Say when a session may be swept (\"holdfast sessions sweep\"): WHEN is a time such as\n2026-12-31T18:00:00Z, or how long from now, such as 72h. \"never\" takes it back.",
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
			at, err := p.parseExpiry(args[0])
			if err != nil {
				return err
			}
			return p.execute(ctx, e, i, holdfast.SetExpiry{At: at}, "expiry set:")
		}),
	}
}

// parseExpiry reads a time or how long from now; the zero time is never.
func (p *program) parseExpiry(text string) (time.Time, error) {
	if text == "never" {
		return time.Time{}, nil
	}
	if after, err := time.ParseDuration(text); err == nil && after > 0 {
		return p.Now().Add(after), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, &session.InvalidError{Field: "expiry", Reason: fmt.Sprintf("%q is neither a time such as 2026-12-31T18:00:00Z, nor how long from now, such as 72h, nor never", text)}
	}
	return at, nil
}

func (p *program) rewindCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rewind REF VERSION", Short: "return a session to an earlier version", Args: cobra.ExactArgs(2),
		Long: "Return a session to an earlier version. Nothing is removed: rewinding to a later version\nundoes it. It needs a store with a log.",
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
			to, err := parseVersion(args[0])
			if err != nil {
				return err
			}
			return p.execute(ctx, e, i, holdfast.RewindSession{To: to}, fmt.Sprintf("rewound to version %d:", to))
		}),
	}
}

// parseVersion reads the number of a version.
func parseVersion(arg string) (int64, error) {
	v, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		return 0, &session.InvalidError{Field: "version", Reason: fmt.Sprintf("%q is not the number of a version", arg)}
	}
	return v, nil
}

func (p *program) renameCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rename REF NAME", Short: "name a session; \"\" removes the name", Args: cobra.ExactArgs(2),
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
			return p.execute(ctx, e, i, holdfast.RenameSession{To: args[0]}, "renamed")
		}),
	}
}

func (p *program) setModelCommand() *cobra.Command {
	var params string
	cmd := &cobra.Command{
		Use: "set-model REF MODEL", Short: "use another model from now on; \"\" returns to the agent's own", Args: cobra.ExactArgs(2),
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
			action := holdfast.ChangeModel{Model: args[0]}
			if params != "" {
				d := json.NewDecoder(strings.NewReader(params))
				d.DisallowUnknownFields()
				if err := d.Decode(&action.Params); err != nil {
					return &session.InvalidError{Field: "params", Reason: fmt.Sprintf("%q is not the parameters of a model as JSON: %v", params, err)}
				}
			}
			err := p.execute(ctx, e, i, action, "model set:")
			return e.Explain(err, session.Definition{}, args[0])
		}),
	}
	cmd.Flags().StringVar(&params, "params", "", `its parameters as `+"`JSON`"+`, such as {"temperature":0.2,"maxOutputTokens":500} (default the agent's)`)
	return cmd
}

func (p *program) setPromptCommand() *cobra.Command {
	var reset bool
	cmd := &cobra.Command{
		Use: "set-prompt REF [TEXT]", Short: "change the system prompt; - reads it from standard input", Args: cobra.RangeArgs(1, 2),
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
			action := holdfast.ChangeSystemPrompt{Reset: reset}
			if reset == (len(args) > 0) {
				return &session.InvalidError{Field: "prompt", Reason: "give either a text or --reset"}
			}
			if !reset {
				text, err := p.ReadText(ctx, args[0])
				if err != nil {
					return err
				}
				action.Text = text
			}
			return p.execute(ctx, e, i, action, "prompt set:")
		}),
	}
	cmd.Flags().BoolVar(&reset, "reset", false, "return to the agent's own prompt")
	return cmd
}

func (p *program) setMetaCommand() *cobra.Command {
	var remove, raw bool
	cmd := &cobra.Command{
		Use: "set-meta REF KEY [VALUE]", Short: "write or remove one key of a session's metadata", Args: cobra.RangeArgs(2, 3),
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
			key := args[0]
			if remove == (len(args) == 2) {
				return &session.InvalidError{Field: "metadata", Reason: "give either a value or --remove"}
			}
			if remove {
				return p.execute(ctx, e, i, holdfast.RemoveMetadata{Key: key}, "metadata removed:")
			}
			value, err := valueOf(args[1], raw)
			if err != nil {
				return err
			}
			return p.execute(ctx, e, i, holdfast.WriteMetadata{Key: key, Value: value}, "metadata set:")
		}),
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the key")
	cmd.Flags().BoolVar(&raw, "raw", false, "VALUE is JSON, not a string")
	return cmd
}

// execute executes an action and says what became of the session; with --json
// that is its header.
func (p *program) execute(ctx context.Context, e *setup.Env, i session.Info, a holdfast.Action, done string) error {
	s, err := e.Execute(ctx, i.ID, a)
	if err != nil {
		return err
	}
	return p.printDone(done, s.Info())
}

func (p *program) printDone(done string, i session.Info) error {
	return p.PrintResult(i, "%s %s · version %d", done, display.Title(i), i.Version)
}

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
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
	cmd.RunE = p.onSession(func(ctx context.Context, e *env, i session.Info, _ []string) error {
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
		if p.json {
			s, err := e.Get(ctx, i.ID, opts...)
			if err != nil {
				return err
			}
			if opts == nil {
				p.warnOfTail(ctx, e, i.ID)
			}
			return p.printJSON(s)
		}
		if opts == nil {
			opts = append(opts, holdfast.WithTail())
		}
		s, err := e.Get(ctx, i.ID, opts...)
		if err != nil {
			return err
		}
		work, err := e.workOn(ctx, s)
		if err != nil {
			return err
		}
		return p.out.print(p.summary(s, work) + p.lastMessages(s, last))
	})
	cmd.Flags().Int64Var(&at, "at", 0, "as it was at `VERSION` (needs a store with a log)")
	cmd.Flags().IntVarP(&last, "messages", "n", 6, "show the last `N` messages")
	cmd.Flags().StringVar(&format, "format", "", "a run as a graph, in the `LANGUAGE` mermaid or dot")
	return cmd
}

// activity is what a session is doing.
type activity struct {
	interrupted bool
	holder      string // who executes on it, "" for nobody
}

// workOn returns whether a process runs a turn of a session, or was interrupted.
func (e *env) workOn(ctx context.Context, s session.Session) (activity, error) {
	open := (s.Running() || s.HasTail()) && checkWaiting(s) == nil
	lease, live, err := e.Holder(ctx, s.ID())
	switch {
	case errors.Is(err, session.ErrNotFound): // purged since it was read
		return activity{}, nil
	case err != nil:
		return activity{}, err
	case live:
		return activity{holder: lease.Holder}, nil
	}
	return activity{interrupted: open}, nil
}

// holderText returns who executes, in words: a holder is named host/process/….
func holderText(holder string) string {
	parts := strings.Split(holder, "/")
	if len(parts) < 3 {
		return oneLine(holder)
	}
	return oneLine("process " + parts[1] + " on " + parts[0])
}

// summary returns a session's header, a line for each thing worth knowing.
func (p *program) summary(s session.Session, w activity) string {
	i, out := s.Info(), p.out
	var b strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "%s %s\n", out.paint(dim, fmt.Sprintf("%-10s", key)), oneLine(fmt.Sprintf(format, args...)))
	}
	name := i.Name
	if name == "" {
		name = i.AgentLabel
	}
	fmt.Fprintf(&b, "%s  %s\n", out.paint(bold, oneLine(name)), out.paint(statusColour(i.Status), string(i.Status)))
	line("id", "%s", i.ID)
	line("agent", "%s", i.AgentName)
	if i.UserID != "" {
		line("user", "%s", i.UserID)
	}
	line("model", "%s", modelText(s))
	if text := s.SystemPrompt(); text != "" {
		line("prompt", "%s", shortened(text, 100))
	}
	line("version", "%d · %s", i.Version, countOf(i.MessageCount, "message"))
	line("created", "%s (%s)", i.CreatedAt.Local().Format(time.DateTime), ago(i.CreatedAt, p.now()))
	line("updated", "%s (%s)", i.UpdatedAt.Local().Format(time.DateTime), ago(i.UpdatedAt, p.now()))
	if i.Fork != nil {
		line("forked", "from %s at version %d", shortID(i.ParentID), i.Fork.Version)
	} else if i.ParentID != "" {
		line("parent", "%s", i.ParentID)
	}
	if i.ExpiresAt != nil {
		line("expires", "%s", i.ExpiresAt.Local().Format(time.DateTime))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Metadata())) {
		line("metadata", "%s = %s", key, shortened(metadataText(s.Metadata()[key]), 100))
	}
	if usage, cost := s.Usage(); usage.Input+usage.Output > 0 {
		line("used", "%d tokens in, %d out · $%s", usage.Input, usage.Output, cost)
	}
	b.WriteString(p.executionText(s, w))
	return b.String()
}

func modelText(s session.Session) string {
	text := cmp.Or(s.Model(), "the default")
	if params, err := json.Marshal(s.ModelParams()); err == nil && string(params) != "{}" {
		text += " " + string(params)
	}
	return text
}

// metadataText returns a string as it is, and other values as JSON.
func metadataText(raw json.RawMessage) string {
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// executionText says how the last execution ended, and what to do about one
// that has not.
func (p *program) executionText(s session.Session, w activity) string {
	key := p.out.paint(dim, fmt.Sprintf("%-10s", "execution")) + " "
	e := s.Execution()
	switch {
	case s.SetAside():
		return key + p.out.paint(yellow, "set aside") + fmt.Sprintf(": recovered %s without an end\n", countOf(e.Recoveries, "time")) +
			"           continue with: holdfast sessions retry " + shortID(s.ID()) + "\n"
	case w.interrupted:
		return key + p.out.paint(yellow, "interrupted") + "\n" +
			"           continue with: " + continueCommand(s.Info().Kind, s.ID()) + "\n"
	case w.holder != "":
		return key + "running, by " + holderText(w.holder) + "\n"
	case e == nil:
		return ""
	case s.Waiting():
		text := key + p.out.paint(yellow, "waiting") + "\n"
		for _, call := range waitingCalls(s) {
			text += "           " + shortened(callText(call), 100) + "\n           respond with: " + respondCommandFor(s.ID(), call) + "\n"
		}
		return text
	}
	text := fmt.Sprintf("%s · %s", e.Status, countOf(len(e.Steps), "step"))
	if e.Stop != nil && e.Status != session.ExecutionCompleted {
		text += " · " + string(e.Stop.Reason)
	}
	for _, failure := range e.Errors {
		text += "\n           " + oneLine(failure.Message)
	}
	if e.Status == session.ExecutionFailed && s.Status() == session.Active {
		text += "\n           run it again with: holdfast sessions retry " + shortID(s.ID())
	}
	return key + text + "\n"
}

// lastMessages returns the last messages of a session, each under who said it.
func (p *program) lastMessages(s session.Session, most int) string {
	var b strings.Builder
	from := max(0, s.Len()-max(most, 0))
	if hidden := s.Info().MessageCount - (s.Len() - from); hidden > 0 && from < s.Len() {
		fmt.Fprintf(&b, "\n%s\n", p.out.paint(dim, "… "+countOf(hidden, "earlier message")))
	}
	for i := from; i < s.Len(); i++ {
		b.WriteString(p.messageText(s.Message(i)))
	}
	return b.String()
}

func (p *program) messageText(m session.Message) string {
	var b strings.Builder
	who := map[session.Role]string{session.RoleUser: "you", session.RoleAssistant: "agent"}[m.Role]
	if who == "" {
		who = string(m.Role)
	}
	fmt.Fprintf(&b, "\n%s %s\n", p.out.paint(cyan, who), p.out.paint(dim, ago(m.CreatedAt, p.now())))
	indent := func(text string) {
		for line := range strings.Lines(printable(text)) {
			b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	indent(m.Content.Text())
	for _, part := range m.Content {
		if part.Type != session.PartText {
			indent("[" + part.Type + "]")
		}
	}
	for _, call := range m.ToolCalls {
		indent("→ " + call.Name + " " + shortened(string(call.Arguments), 200))
	}
	if r := m.ToolResult; r != nil {
		indent("← " + r.ToolName + " " + shortened(r.Content, 200))
	}
	return b.String()
}

// shortened returns text on one line, cut where it is long.
func shortened(text string, most int) string {
	text = oneLine(text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

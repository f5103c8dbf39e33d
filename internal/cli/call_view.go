package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
)

// maxCallLines is how many lines of one argument or diff a terminal shows.
const maxCallLines = 60

// callLines shows a call that waits: every argument, what the call would change
// and why it is asked for. Most bounds the lines of each; 0 shows all.
func callLines(call session.PendingCall, most int) []cell {
	var lines []cell
	if call.Kind != session.PendingQuestion && call.Tool != "" { // an earlier version kept only a prompt
		lines = append(lines, cell{"the agent wants to use " + oneLine(call.Tool) + serverText(call), bold})
		for _, a := range argumentsOf(call.Arguments) {
			if call.Diff != "" && slices.Contains([]string{"content", "old", "new"}, a.name) {
				continue // the diff shows them, with what they replace
			}
			lines = append(lines, bounded(call, "  "+oneLine(a.name)+": ", "    ", a.value, most, plainLine)...)
		}
		lines = append(lines, bounded(call, "  ", "  ", call.Diff, most, diffColour)...)
	}
	for _, text := range []string{call.Context, reasonOf(call)} {
		lines = append(lines, bounded(call, "", "", text, most, plainLine)...)
	}
	return lines
}

// serverText names the tool server that a call goes to.
func serverText(call session.PendingCall) string {
	var prompt session.PromptContext
	if json.Unmarshal(call.Details, &prompt) != nil || prompt.ServerName == "" {
		return ""
	}
	return " of the tool server " + oneLine(prompt.ServerName)
}

// bounded returns a text as lines: the first one behind a name, the others
// indented. What is left out is counted, with where to see it.
func bounded(call session.PendingCall, first, indent, text string, most int, paint func(line string) colour) []cell {
	if text == "" {
		return nil
	}
	var lines []cell
	all := strings.Split(strings.TrimSuffix(printable(text), "\n"), "\n")
	for i, line := range all {
		if most > 0 && i == most {
			return append(lines, cell{fmt.Sprintf("%s… %s: holdfast pending show %s", indent, countOf(len(all)-i, "more line"), shortID(call.ID)), dim})
		}
		lines = append(lines, cell{first + line, paint(line)})
		first = indent
	}
	return lines
}

func plainLine(string) colour { return plain }

func diffColour(line string) colour {
	switch {
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "@@"):
		return cyan
	}
	return plain
}

// painted joins lines for a screen, each indented.
func painted(s *screen, indent string, lines []cell) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(indent + s.paint(line.colour, line.text) + "\n")
	}
	return b.String()
}

// ruleScope describes what a rule of the call's choices would cover, "" where
// none can be kept.
func ruleScope(call session.PendingCall) string {
	for _, c := range call.Choices {
		if c.Rule != nil {
			return oneLine(permission.Preview(c.Rule.Scope))
		}
	}
	return ""
}

func (p *program) pendingShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show PENDING", Short: "show a tool call that waits, whole: every argument, the diff and the choices", Args: cobra.ExactArgs(1),
		Long: `Show a tool call that waits for a response, whole, as its session's log has it. PENDING is
its id or the beginning of it, as "holdfast pending" shows it.`,
		RunE: p.inEnv(func(ctx context.Context, e *env, args []string) error {
			item, err := findPendingItem(ctx, e, args[0])
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(item)
			}
			var b strings.Builder
			fmt.Fprintf(&b, "%s · %s · %s\n", p.out.paint(bold, oneLine(title(item.Session))), waitsFor(item.PendingCall), item.ID)
			if item.Prompt != "" {
				fmt.Fprintf(&b, "  %s\n", printable(item.Prompt))
			}
			b.WriteString(painted(p.out, "  ", callLines(item.PendingCall, 0)))
			for _, c := range item.Choices {
				fmt.Fprintf(&b, "  choice %s", oneLine(c.Value))
				if c.Rule != nil {
					fmt.Fprintf(&b, ": adds the rule %s %s", c.Rule.Effect, oneLine(permission.Preview(c.Rule.Scope)))
				}
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s\n", p.out.paint(dim, "respond with: "+respondCommandFor(item.Session.ID, item.PendingCall)))
			return p.out.print(b.String())
		}),
	}
}

// findPendingItem finds a waiting call of any session by the beginning of its
// id.
func findPendingItem(ctx context.Context, e *env, id string) (holdfast.Pending, error) {
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

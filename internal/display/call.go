package display

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
)

// maxCallLines is how many lines of one argument or diff a terminal shows.
const maxCallLines = 60

// CallLines shows a call that waits: every argument and what the call would
// change. Why it is asked for is in its prompt. Most bounds the lines of each; 0
// shows all.
func CallLines(call session.PendingCall, most int) []terminal.Cell {
	var lines []terminal.Cell
	if call.Kind != session.PendingQuestion && call.Tool != "" { // an earlier version kept only a prompt
		lines = append(lines, terminal.Styled("the agent wants to use "+terminal.OneLine(call.Tool)+serverText(call), terminal.Bold))
		for _, a := range argumentsOf(call.Arguments) {
			if call.Diff != "" && slices.Contains([]string{"content", "old", "new"}, a.name) {
				continue // the diff shows them, with what they replace
			}
			lines = append(lines, bounded(call, "  "+terminal.OneLine(a.name)+": ", "    ", a.value, most, plainLine)...)
		}
		lines = append(lines, bounded(call, "  ", "  ", call.Diff, most, diffColour)...)
	}
	return append(lines, bounded(call, "", "", call.Context, most, plainLine)...)
}

// serverText names the tool server that a call goes to.
func serverText(call session.PendingCall) string {
	var prompt session.PromptContext
	if json.Unmarshal(call.Details, &prompt) != nil || prompt.ServerName == "" {
		return ""
	}
	return " of the tool server " + terminal.OneLine(prompt.ServerName)
}

// bounded returns a text as lines: the first one behind a name, the others
// indented. What is left out is counted, with where to see it.
func bounded(call session.PendingCall, first, indent, text string, most int, paint func(line string) terminal.Colour) []terminal.Cell {
	if text == "" {
		return nil
	}
	var lines []terminal.Cell
	all := strings.Split(strings.TrimSuffix(terminal.Printable(text), "\n"), "\n")
	for i, line := range all {
		if most > 0 && i == most {
			return append(lines, terminal.Styled(fmt.Sprintf("%s… %s: holdfast pending show %s", indent, terminal.CountOf(len(all)-i, "more line"), ShortID(call.ID)), terminal.Dim))
		}
		lines = append(lines, terminal.Styled(first+line, paint(line)))
		first = indent
	}
	return lines
}

func plainLine(string) terminal.Colour { return terminal.Plain }

func diffColour(line string) terminal.Colour {
	switch {
	case strings.HasPrefix(line, "+"):
		return terminal.Green
	case strings.HasPrefix(line, "-"):
		return terminal.Red
	case strings.HasPrefix(line, "@@"):
		return terminal.Cyan
	}
	return terminal.Plain
}

// Painted joins lines for a screen, each indented.
func Painted(s *terminal.Screen, indent string, lines []terminal.Cell) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(indent + s.Paint(line.Colour, line.Text) + "\n")
	}
	return b.String()
}

// RuleScope describes what a rule of the call's choices would cover, "" where
// none can be kept.
func RuleScope(call session.PendingCall) string {
	for _, c := range call.Choices {
		if c.Rule != nil {
			return terminal.OneLine(permission.Preview(c.Rule.Scope))
		}
	}
	return ""
}

// RespondCommandFor returns the command that responds to a call.
func RespondCommandFor(id string, call session.PendingCall) string {
	if call.ChildID != "" {
		id = call.ChildID
	}
	how := map[session.PendingKind]string{session.PendingApproval: "approve (or deny)", session.PendingQuestion: `answer "…"`}[call.Kind]
	switch {
	case call.ChildID != "":
		how = "approve, deny or answer"
	case how == "":
		how = `result "…"`
	}
	return "holdfast respond " + ShortID(id) + " " + how
}

// WaitsFor says what a call waits for.
func WaitsFor(call session.PendingCall) string {
	switch {
	case call.ChildID != "":
		return "its subagent " + ShortID(call.ChildID)
	case call.Kind == session.PendingApproval:
		return "an approval"
	case call.Kind == session.PendingQuestion:
		return "an answer"
	}
	return "a result"
}

// argumentsText returns what a tool is called with, for a line: the value if there
// is one only, else each with its name.
func argumentsText(raw json.RawMessage) string {
	list := argumentsOf(raw)
	if len(list) == 1 {
		return list[0].value
	}
	values := make([]string, len(list))
	for i, a := range list {
		values[i] = a.name + "=" + a.value
	}
	return strings.Join(values, " ")
}

// CallText describes a pending call in one line.
func CallText(call session.PendingCall) string {
	if call.Kind == session.PendingQuestion || call.ChildID != "" {
		return call.Prompt
	}
	return strings.TrimSpace(call.Tool + " " + argumentsText(call.Arguments))
}

// DescribeCall shows a question, or a call with everything it would do and why
// it is asked for.
func DescribeCall(to *terminal.Screen, call session.PendingCall) string {
	lines := append(CallLines(call, maxCallLines), bounded(call, "", "", reasonOf(call), maxCallLines, plainLine)...)
	if call.Kind == session.PendingQuestion || call.Tool == "" {
		lines = append([]terminal.Cell{terminal.Styled(terminal.Printable(call.Prompt), terminal.Plain)}, lines...)
	}
	return to.Paint(terminal.Yellow, "?") + " " + Painted(to, "", lines[:1]) + Painted(to, "  ", lines[1:])
}

// CallQuestion shows all that a person needs to decide: the whole call, the
// reason, and the choices with the rules that they add.
func CallQuestion(to *terminal.Screen, call session.PendingCall) string {
	var b strings.Builder
	b.WriteString(DescribeCall(to, call))
	if call.Kind == session.PendingApproval {
		b.WriteString("  [y] yes, once  [n] no\n")
	}
	about := ""
	for i, c := range NumberedChoices(call) {
		if c.Rule != nil && permission.Preview(c.Rule.Scope) != about {
			about = permission.Preview(c.Rule.Scope)
			fmt.Fprintf(&b, "  or add a rule about %s:\n", terminal.OneLine(about))
		}
		fmt.Fprintf(&b, "  [%d] %s\n", i+1, terminal.OneLine(cmp.Or(c.Label, c.Value)))
	}
	return b.String()
}

// reasonOf says why an approval is asked for.
func reasonOf(call session.PendingCall) string {
	var prompt session.PromptContext
	if call.Kind != session.PendingApproval || json.Unmarshal(call.Details, &prompt) != nil {
		return ""
	}
	return prompt.Reason.Summary
}

// NumberedChoices lists the choices that are shown with a number: of an
// approval those that add a rule, as y and n are the others.
func NumberedChoices(call session.PendingCall) []session.Choice {
	if call.Kind != session.PendingApproval {
		return call.Choices
	}
	return slices.DeleteFunc(slices.Clone(call.Choices), func(c session.Choice) bool { return c.Rule == nil })
}

// argument is one argument of a tool call.
type argument struct{ name, value string }

// argumentsOf lists the arguments of a call in their order; none where they
// are not an object.
func argumentsOf(raw json.RawMessage) []argument {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	var list []argument
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil
		}
		list = append(list, argument{fmt.Sprint(name), MetadataText(value)})
	}
	return list
}

// WaitingCalls lists the calls of a session that wait.
func WaitingCalls(s session.Session) []session.PendingCall {
	return slices.DeleteFunc(s.PendingCalls(), func(c session.PendingCall) bool { return !c.Waiting() })
}

// MetadataText returns a string as it is, and other values as JSON.
func MetadataText(raw json.RawMessage) string {
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

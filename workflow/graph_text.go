package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// nodeStatuses lists the statuses that have a colour of their own.
var nodeStatuses = []struct {
	status       NodeStatus
	fill, stroke string
}{
	{NodeRunning, "#cfe8fc", "#0b62a4"}, {NodeWaiting, "#fdf0c4", "#8a6100"},
	{NodeFinished, "#d3f2d9", "#1a7431"}, {NodeFailed, "#fbd5d5", "#a61b1b"},
}

// Mermaid returns the graph as a Mermaid flowchart. Persons are hexagons.
func (g *Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	number := map[string]int{}
	used := map[NodeStatus][]string{}
	for i, n := range g.Nodes {
		number[n.ID] = i
		open, shut := "[", "]"
		if n.Kind == NodePerson {
			open, shut = "{{", "}}"
		}
		name := fmt.Sprintf("n%d", i)
		fmt.Fprintf(&b, "    %s%s\"%s\"%s\n", name, open, mermaidText(n.lines()), shut)
		used[n.Status] = append(used[n.Status], name)
	}
	for _, e := range g.Edges {
		label := ""
		if e.Label != "" {
			label = `|"` + mermaidText([]string{e.Label}) + `"|`
		}
		fmt.Fprintf(&b, "    n%d -->%s n%d\n", number[e.From], label, number[e.To])
	}
	for _, s := range nodeStatuses {
		if names := used[s.status]; len(names) > 0 {
			fmt.Fprintf(&b, "    classDef %s fill:%s,stroke:%s\n    class %s %s\n", s.status, s.fill, s.stroke, strings.Join(names, ","), s.status)
		}
	}
	return b.String()
}

// Dot returns the graph in the language of Graphviz. Persons are hexagons.
func (g *Graph) Dot() string {
	var b strings.Builder
	b.WriteString("digraph {\n    rankdir=LR\n    node [shape=box, style=\"rounded,filled\", fillcolor=white]\n")
	for _, n := range g.Nodes {
		more := ""
		if n.Kind == NodePerson {
			more = ", shape=hexagon, style=filled"
		}
		for _, s := range nodeStatuses {
			if s.status == n.Status {
				more += fmt.Sprintf(", fillcolor=%q, color=%q", s.fill, s.stroke)
			}
		}
		fmt.Fprintf(&b, "    %s [label=%s%s]\n", dotText([]string{n.ID}), dotText(n.lines()), more)
	}
	for _, e := range g.Edges {
		var more []string
		if e.Label != "" {
			more = append(more, "label="+dotText([]string{e.Label}))
		}
		if e.Back {
			more = append(more, "constraint=false")
		}
		attributes := ""
		if more != nil {
			attributes = " [" + strings.Join(more, ", ") + "]"
		}
		fmt.Fprintf(&b, "    %s -> %s%s\n", dotText([]string{e.From}), dotText([]string{e.To}), attributes)
	}
	b.WriteString("}\n")
	return b.String()
}

// lines returns what is written into a node: its label, who works there, and how
// far it is.
func (n GraphNode) lines() []string {
	who := n.Agent
	if n.Kind == NodePerson {
		who = "a person"
	}
	lines := []string{n.Label, who}
	if n.Status != NodeAhead {
		text := string(n.Status)
		if n.Visits > 1 {
			text += fmt.Sprintf(" ×%d", n.Visits)
		}
		lines = append(lines, text)
	}
	return slices.DeleteFunc(lines, func(text string) bool { return text == "" })
}

// mermaidText returns lines of text for between quotation marks. Everything that
// Mermaid or HTML could read as markup is written as a code.
func mermaidText(lines []string) string {
	made := make([]string, len(lines))
	for i, line := range lines {
		var b strings.Builder
		for _, r := range line {
			switch {
			case r < ' ' || r == 0x7f:
				b.WriteByte(' ')
			case strings.ContainsRune("\"#&<>`;\\*_[]{}()|~", r):
				fmt.Fprintf(&b, "#%d;", r)
			default:
				b.WriteRune(r)
			}
		}
		made[i] = b.String()
	}
	return strings.Join(made, "<br/>")
}

// dotText returns lines of text as a quoted string.
func dotText(lines []string) string {
	made := make([]string, len(lines))
	for i, line := range lines {
		line = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, line)
		made[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(line)
	}
	return `"` + strings.Join(made, `\n`) + `"`
}

package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/pyjson"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// The texts a run adds to those of its spec. Each is short and plain; the
// golden files hold them to the letter, and the changelog says when one
// changes.

// systemText makes the prompt of an agent: its prompt, what was noted before,
// how to load skills, which services it can reach, and where it works.
func systemText(s *spec.Spec, agent, prompt, notes string) string {
	parts := []string{prompt, notesText(notes), skillsText(s.Skills), servicesText(s.Tools.HTTPExecutors), bannerText(s, agent)}
	kept := parts[:0]
	for _, part := range parts {
		if part != "" {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "\n\n")
}

func notesText(notes string) string {
	if notes == "" {
		return ""
	}
	return "# Notes from earlier work\n\n" + notes
}

func skillsText(skills []spec.Skill) string {
	if len(skills) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Skills\n\nCall the tool `Skill` with a `skill_id` to read the instructions of a skill, once, before you use it.\n")
	for _, s := range skills {
		fmt.Fprintf(&b, "\n- %s (%s)", s.ID, s.Path)
		if s.Description != "" {
			b.WriteString(": " + s.Description)
		}
	}
	return b.String()
}

func servicesText(executors []spec.HTTPExecutor) string {
	if len(executors) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# HTTP services")
	for _, e := range executors {
		fmt.Fprintf(&b, "\n\n## %s\n", e.ID)
		if e.Description != "" {
			b.WriteString("\n" + e.Description)
		}
		fmt.Fprintf(&b, "\nBase URL: %s", e.BaseURL)
		for _, at := range e.CommonEndpoints {
			method := at.Method
			if method == "" {
				method = "GET"
			}
			fmt.Fprintf(&b, "\n- %s %s: %s", method, at.Path, at.Description)
		}
		if e.AuthenticationInfo != "" {
			b.WriteString("\nAuthentication: " + e.AuthenticationInfo)
		}
	}
	return b.String()
}

func bannerText(s *spec.Spec, agent string) string {
	lines := []string{"# Where you work", "", "Workflow: " + s.Name}
	if s.Description != "" {
		lines = append(lines, "Description: "+s.Description)
	}
	if len(s.Tags) > 0 {
		lines = append(lines, "Tags: "+strings.Join(s.Tags, ", "))
	}
	lines = append(lines, "Agent: "+agent)
	if b := s.Runtime.Budgets; b != nil {
		var limits []string
		for _, l := range []struct {
			limit *int
			what  string
		}{{b.MaxSteps, "steps"}, {b.MaxTokens, "tokens"}, {b.MaxDurationS, "seconds"}} {
			if l.limit != nil {
				limits = append(limits, fmt.Sprintf("%d %s", *l.limit, l.what))
			}
		}
		if limits != nil {
			lines = append(lines, "Budget of the whole run: "+strings.Join(limits, ", "))
		}
	}
	return strings.Join(lines, "\n")
}

// noteText makes an entry of the notes file.
func noteText(format string, at time.Time, agent string, step int, input string, tools []string, outcome string) string {
	input, outcome = cut(input, 200), cut(outcome, 200)
	if format == "json" {
		if tools == nil {
			tools = []string{}
		}
		return pythonJSON(spec.Map[any]{
			{Name: "timestamp", Value: iso8601(at)}, {Name: "agent", Value: agent}, {Name: "step", Value: step},
			{Name: "input", Value: input}, {Name: "tools_used", Value: tools}, {Name: "outcome", Value: outcome},
		}, "", false) + "\n"
	}
	list := "none"
	if len(tools) > 0 {
		list = strings.Join(tools, ", ")
	}
	return fmt.Sprintf("## %s, %s, step %d\n\n- Input: %s\n- Tools: %s\n- Outcome: %s\n\n", iso8601(at), agent, step, input, list, outcome)
}

// cut returns at most n code points of a text, with dots where it continues.
func cut(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-3]) + "..."
}

// routerText asks for a route.
func routerText(input string, routes []string, again bool) string {
	text := input + "\n\n"
	if again {
		text += "Your last answer could not be read as JSON. "
	}
	return text + `Answer with JSON only, in the form {"route": "<name>"}. The routes are: ` + strings.Join(routes, ", ") + "."
}

// outputText asks for an answer that fits its schema.
func outputText(problem string) string {
	return "Your last answer does not fit the schema: " + cut(problem, 500) + " Answer with JSON only that fits it."
}

const evaluationForm = `Answer with JSON only, in the form {"score": <0 to 100>, "issues": ["..."], "fixes": ["..."]}.`

// evaluatorText asks for a judgement of a draft.
func evaluatorText(draft string) string {
	return "Judge this draft:\n\n" + draft + "\n\n" + evaluationForm
}

// evaluateAgainText asks once more.
func evaluateAgainText(draft string) string {
	return "Your last answer could not be read as JSON. " + evaluatorText(draft)
}

// reviseText asks for a better draft.
func reviseText(draft string, e evaluation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Improve this draft:\n\n%s\n\nIts score is %d of 100.", draft, e.Score)
	for _, l := range []struct {
		title string
		lines []string
	}{{"Issues", e.Issues}, {"Fixes", e.Fixes}} {
		if len(l.lines) > 0 {
			fmt.Fprintf(&b, "\n\n%s:\n- %s", l.title, strings.Join(l.lines, "\n- "))
		}
	}
	b.WriteString("\n\nAnswer with the improved text alone.")
	return b.String()
}

// planText asks for the tasks of the workers.
func planText(inputs spec.Map[any], maxWorkers *int, unreadable *string) string {
	var b strings.Builder
	if unreadable != nil {
		fmt.Fprintf(&b, "Your last answer could not be read as JSON. It began with:\n\n%s\n\n", beginning(*unreadable, 500))
	}
	if inputs == nil {
		inputs = spec.Map[any]{}
	}
	fmt.Fprintf(&b, "Split this task among workers:\n\n%s\n\n", pythonJSON(inputs, "  ", true))
	b.WriteString(`Answer with JSON only: an array of objects, each with a "task" field that holds all a worker needs to know. An empty array means that there is nothing to do.`)
	if maxWorkers != nil {
		fmt.Fprintf(&b, " At most %d workers work at the same time.", *maxWorkers)
	}
	return b.String()
}

// beginning returns the first code points of a text.
func beginning(text string, n int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), n)])
}

// nodeText asks a node of a graph that has no input of its own.
func nodeText(id string, before []string) string {
	text := fmt.Sprintf("You are at node %s of a graph.", id)
	if len(before) == 0 {
		return text + " No node has run before it."
	}
	return text + " These nodes have run before it: " + strings.Join(before, ", ") + "."
}

// summarisedText stands for the messages of a summary.
func summarisedText(summary string) string { return "Summary of what was said before:\n" + summary }

// pythonJSON prints JSON as Python's json module prints it: separators with a
// space, and characters beyond ASCII escaped where asked.
func pythonJSON(v any, indent string, ascii bool) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("workflow: %T is no JSON: %v", v, err)) // values of specs and answers always are
	}
	return string(pyjson.Print(raw, indent, ascii))
}

package template_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/workflow/template"
)

func Example() {
	tmpl, err := template.Compile("summary", `Summarise for {{ reader|title }}:
{% for s in steps if s.status == 'success' -%}
{{ loop.index }}. {{ s.response|truncate(20) }}
{% else -%}
Nothing was found.
{% endfor -%}
Scores: {{ scores }}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	steps, err := template.ParseJSON([]byte(`[
		{"status": "success", "response": "Tea keeps best in the dark."},
		{"status": "failed", "response": ""}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	scores, err := template.From([]any{0.5, 1e20, nil})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := tmpl.Render(template.Scope{"reader": template.Str("the board"), "steps": steps, "scores": scores})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text)
	// Output:
	// Summarise for The Board:
	// 1. Tea keeps best in...
	// Scores: [0.5, 1e+20, None]
}

func ExampleTemplate_Render_undefined() {
	tmpl, err := template.Compile("step 2", "Review this:\n{{ tasks.draft.response }}")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = tmpl.Render(template.Scope{"tasks": &template.Dict{}})
	fmt.Println(err)
	// Output: step 2:2:9: tasks.draft is not defined
}

func ExampleCompileCondition() {
	condition, err := template.CompileCondition("{{ nodes.review.score >= 80 and 'OK' in nodes.review.response }}")
	if err != nil {
		fmt.Println(err)
		return
	}
	nodes, err := template.From(map[string]any{"review": map[string]any{"score": 85, "response": "OK, ship it"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	holds, err := condition.Eval(template.Scope{"nodes": nodes})
	fmt.Println(holds, err)
	// Output: true <nil>
}

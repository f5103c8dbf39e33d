package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// The tools of a unit whose agent lists two.
func Example() {
	s, err := spec.Loader{}.Parse(spec.Source{Path: "/flows/tea.yaml", Data: []byte(plainSpec)}, nil)
	if err != nil {
		panic(err)
	}
	settings, err := tools.HTTPFromEnv(os.Getenv)
	if err != nil {
		panic(err)
	}
	box, err := tools.New(tools.Config{Spec: s, HTTP: settings, Getenv: os.Getenv})
	if err != nil {
		panic(err)
	}
	for _, t := range box.For([]string{"calculator", "grep"}, true) {
		fmt.Println(t.Spec().Name, t.Spec().Nature)
	}
	got, err := box.For([]string{"calculator"}, true)[0].Call(context.Background(), tool.Call{Arguments: json.RawMessage(`{"expression": "2 ** 10 / 4"}`)})
	fmt.Println(got.Content, err)
	// Output:
	// calculator read_only
	// grep read_only
	// 2 ** 10 / 4 = 256 <nil>
}

package spec_test

import (
	"fmt"
	"log"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

func Example() {
	s, err := spec.Load("../../examples/workflows/parallel-trip.yaml", spec.Map[string]{{Name: "city", Value: "Porto"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Name, s.Pattern.Type, s.Inputs.Values.Names())
	for _, issue := range spec.Check(s, spec.Env{}) {
		fmt.Printf("%s: %s; %s\n", issue.Pointer, issue.Reason, issue.Remediation)
	}
	// Output:
	// trip parallel [days city]
	// /runtime/provider: provider "openai" has no key; set OPENAI_API_KEY
}

func ExampleLoader_Parse() {
	_, err := spec.Loader{}.Parse(spec.Source{Path: "tea.yaml", Data: []byte(`
version: 1
name: tea
runtime: {provider: openai, temperature: 3}
agents:
  host: {promt: You make tea.}
pattern:
  type: chain
  config:
    steps: [{agent: host, input: "{{ kind | upper }}"}]
`)}, nil)
	fmt.Println(err)
	// Output:
	// spec "tea.yaml" has 3 problems:
	//   /runtime/temperature: is 3, more than 2 (line 4)
	//   /agents/host/prompt: is missing (line 6)
	//   /agents/host/promt: is an unknown key; did you mean "prompt"? (line 6)
}

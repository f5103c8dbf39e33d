package catalog_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/llm/catalog"
)

func Example() {
	// In a program Environ is left out, and the process's own is read.
	models, err := catalog.New(catalog.Config{Environ: []string{
		"ANTHROPIC_API_KEY=sk-0123456789",
		"HOLDFAST_PROVIDER_LM_STUDIO_URL=http://localhost:1234/v1",
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range models.Providers() {
		fmt.Printf("%-10s ready %-5v %s\n", p.Name, p.Ready(), p.URL)
	}
	_, err = models.Model("openai/gpt-4.1-mini")
	fmt.Println(err)

	// Output:
	// anthropic  ready true  https://api.anthropic.com
	// lm-studio  ready true  http://localhost:1234/v1
	// ollama     ready true  http://127.0.0.1:11434/v1
	// openai     ready false https://api.openai.com/v1
	// openrouter ready false https://openrouter.ai/api/v1
	// provider "openai" has no key: set OPENAI_API_KEY
}

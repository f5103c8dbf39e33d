package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/workflow"
)

func TestHostFromCatalog_findsModelsByName(t *testing.T) {
	t.Parallel()
	rt := runtime(t, inmem.New(inmem.Config{}))
	model := &actor{answer: echo}
	host := workflow.HostFromCatalog(llm.Map{"anthropic/claude-sonnet-4-20250514": model, "mine/m": model})
	text := `
version: 1
name: x
runtime: {provider: anthropic}
agents: {a: {prompt: A.}, b: {prompt: B., provider: PROVIDER, model_id: m}}
pattern: {type: chain, config: {steps: [{agent: a, input: one}, {agent: b, input: two}]}}`
	res, err := workflow.Start(t.Context(), rt, load(t, strings.ReplaceAll(text, "PROVIDER", "mine"), nil), workflow.RunOptions{Host: host, Out: t.TempDir()})
	if err != nil || res.LastResponse != "re: two" || model.calls() != 2 {
		t.Errorf("the run ended as %+v, %v", res, err)
	}
	_, err = workflow.Start(t.Context(), rt, load(t, strings.ReplaceAll(text, "PROVIDER", "theirs"), nil), workflow.RunOptions{Host: host, Out: t.TempDir()})
	var refused *workflow.UnsupportedError
	if !errors.As(err, &refused) || len(refused.Issues) != 1 || refused.Issues[0].Pointer != "/agents/b/provider" || !strings.Contains(refused.Issues[0].Reason, "theirs/m") {
		t.Errorf("the error is %v", err)
	}
}

func ExampleHostFromCatalog() {
	rt, err := holdfast.New(holdfast.Config{Store: inmem.New(inmem.Config{})})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A *catalog.Catalog has the models of the providers whose keys are set.
	host := workflow.HostFromCatalog(llm.Map{offline.Name: offline.Model{}})
	hello, err := workflow.Load("../examples/workflows/hello-tasks.yaml", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := workflow.Start(context.Background(), rt, hello, workflow.RunOptions{Host: host})
	fmt.Println(res.Status, err)
	// Output: completed <nil>
}

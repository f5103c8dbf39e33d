package workflow_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow"
)

const shapedSpec = head + `
agents: {a: {prompt: A., output_schema: {type: object, properties: {n: {type: integer}}, required: [n]}}}
pattern: {type: chain, config: {steps: [{agent: a, input: count}]}}`

func TestOutput_isSentAndAskedForOnceMore(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"a": {`{"n": "one"}`, "```json\n{\"n\": 1}\n```"}}))
	s.completes("```json\n{\"n\": 1}\n```")(s.start(shapedSpec))
	if f := s.asked[0].ResponseFormat; f == nil || f.Type != "json_schema" || !strings.Contains(string(f.Schema), `"required":["n"]`) {
		t.Errorf("the format is %+v", f)
	}
	got := s.inputs()
	if len(got) != 2 || !strings.Contains(got[1], "does not fit the schema") || !strings.Contains(got[1], "integer") {
		t.Errorf("the model was asked %q", got)
	}
}

func TestOutput_thatDoesNotFitFailsTheUnitAndIsAskedForAnew(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"a": {"no", `{}`, `{"n": 1}`}}))
	res, err := s.start(shapedSpec)
	s.fails(workflow.KindOutput, "step/0", "does not fit output_schema")(res, err)
	var misfit *workflow.OutputError
	if !errors.As(err, &misfit) || misfit.Unit != "step/0" || misfit.Problem == "" {
		t.Errorf("the cause is %v", err)
	}
	s.completes(`{"n": 1}`)(s.resume(workflow.ResumeOptions{}))
	s.wantInputs("count", s.inputs()[1], "count")
	if n := len(s.asked[2].Messages); n != 1 {
		t.Errorf("the model was shown %d messages, want the question alone", n)
	}
}

func TestOutput_schemaInAFile(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"a": {`[]`, `{"n": 1}`}}))
	path := written(t, strings.Replace(shapedSpec, "{type: object, properties: {n: {type: integer}}, required: [n]}", "n.json", 1))
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "n.json"), []byte(`{"type": "object", "required": ["n"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := workflow.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := workflow.Start(t.Context(), s.rt, loaded, workflow.RunOptions{Host: s.host, Out: s.out})
	s.completes(`{"n": 1}`)(res, err)
	if s.calls() != 2 {
		t.Errorf("%d calls", s.calls())
	}
}

package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// OutputError says that an agent's answer does not fit its output_schema, also
// after it was asked once more. When the run is resumed, the unit is done again.
type OutputError struct {
	Unit    string
	Problem string
}

func (e *OutputError) Error() string { return "the answer does not fit output_schema: " + e.Problem }

// output is the shape that the answers of a unit must have.
type outputShape struct {
	u      unit
	raw    json.RawMessage
	schema *jsonschema.Resolved
}

// outputOf reads the output_schema of an agent; nil where it has none.
func (r *run) outputOf(u unit, made spec.Agent) (*outputShape, error) {
	if made.OutputSchema == nil {
		return nil, nil
	}
	raw, err := made.OutputSchema.Read(r.snap)
	if err != nil {
		return nil, err
	}
	o := &outputShape{u: u, raw: raw}
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("output_schema of %s: %w", u.agent, err)
	}
	if o.schema, err = schema.Resolve(nil); err != nil {
		return nil, fmt.Errorf("output_schema of %s: %w", u.agent, err)
	}
	return o, nil
}

// format returns the shape as providers are told.
func (o *outputShape) format() *session.ResponseFormat {
	if o == nil {
		return nil
	}
	return &session.ResponseFormat{Type: "json_schema", Name: DefinitionName(o.u.agent), Schema: o.raw}
}

var fencedJSON = regexp.MustCompile("(?s)^\\s*```(?:json)?\\s*(.*?)\\s*```\\s*$")

// check returns why an answer does not fit, "" if it does. A fence around the
// JSON is no obstacle.
func (o *outputShape) check(text string) string {
	if m := fencedJSON.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	raw, err := parseJSON(strings.TrimSpace(text))
	if err != nil {
		return "it is no JSON"
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return "it is no JSON"
	}
	if err := o.schema.Validate(value); err != nil {
		return err.Error()
	}
	return ""
}

// outputSteps looks at the answers of a unit that must have a shape.
type outputSteps struct {
	*outputShape
	x *runner
}

var _ agent.Steps = outputSteps{}

// Before leaves the session as it is.
func (outputSteps) Before(_ context.Context, s session.Session) (session.Session, error) {
	return s, nil
}

// Failed leaves the failure as it is.
func (outputSteps) Failed(_ context.Context, s session.Session, _ error) (session.Session, bool, error) {
	return s, false, nil
}

// Answered asks once more for an answer that does not fit, and names the
// problem.
func (o outputSteps) Answered(_ context.Context, s session.Session, answer session.Message, _ string) (session.Session, bool, error) {
	problem := o.check(answer.Content.Text())
	if problem == "" {
		return s, false, nil
	}
	asked := 0
	for _, m := range s.All() {
		if m.Role == session.RoleUser && m.ExecutionID == o.u.key {
			asked++
		}
	}
	if asked > 1 {
		return s, false, &RunError{Kind: KindOutput, Unit: o.u.key, Err: &OutputError{Unit: o.u.key, Problem: problem}}
	}
	next, err := s.With(o.x.host.Now(), o.u.message(outputText(problem)))
	return next, err == nil, err
}

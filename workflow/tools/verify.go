package tools

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

type verifyArguments struct {
	SpecContent     string `json:"spec_content" jsonschema:"a workflow spec in YAML or JSON"`
	CheckCapability *bool  `json:"check_capability,omitempty" jsonschema:"also whether it can be run here; true where it is left out"`
}

// verification is the result of spec_verify. Two of its names are those the
// format has always had: a spec is valid for its schema if its shape is right,
// and for pydantic if its templates can also be read.
type verification struct {
	SchemaValid         bool         `json:"schema_valid"`
	PydanticValid       bool         `json:"pydantic_valid"`
	CapabilitySupported *bool        `json:"capability_supported"` // null: not asked, or unknown
	Errors              []specError  `json:"errors"`
	Issues              []spec.Issue `json:"issues"`
	SpecInfo            *specInfo    `json:"spec_info,omitempty"`
}

type specError struct {
	Phase   string `json:"phase"` // parse, schema or template
	Type    string `json:"type"`
	Message string `json:"message"`
}

type specInfo struct {
	Name        string `json:"name"`
	Version     any    `json:"version"`
	PatternType string `json:"pattern_type"`
	Provider    string `json:"provider"`
	AgentCount  int    `json:"agent_count"`
}

func (b *Box) verifyTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: "spec_verify", Nature: tool.ReadOnly,
		Description: "Check a workflow spec: whether it is valid, and whether it can be run here. The result is JSON.",
	}, b.verify)
}

func (b *Box) verify(_ context.Context, in verifyArguments) (tool.Result, error) {
	if in.SpecContent == "" {
		return tool.Result{}, &session.InvalidError{Field: "spec_content", Reason: "is empty"}
	}
	v := verification{Errors: []specError{}, Issues: []spec.Issue{}}
	source := b.asSource(in.SpecContent)
	s, err := spec.Loader{AllowPrivate: b.config.HTTP.AllowPrivate}.Parse(source, nil)
	if err != nil {
		// A spec that can be read without its templates is right in its shape.
		_, lax := spec.Loader{AllowPrivate: b.config.HTTP.AllowPrivate, Lenient: true}.Parse(source, nil)
		v.SchemaValid = lax == nil
		v.Errors = specErrors(err, lax == nil)
		return v.result()
	}
	v.SchemaValid, v.PydanticValid = true, true
	v.SpecInfo = &specInfo{
		Name: s.Name, Version: s.Version, PatternType: string(s.Pattern.Type), Provider: s.Runtime.Provider, AgentCount: len(s.Agents),
	}
	if valueOr(in.CheckCapability, true) {
		v.Issues = append(v.Issues, spec.Check(s, spec.Env{Getenv: b.config.Getenv, Providers: b.config.Providers})...)
		supported := len(v.Issues) == 0
		v.CapabilitySupported = &supported
	}
	return v.result()
}

// result makes an error result of an invalid spec.
func (v verification) result() (tool.Result, error) {
	text, err := encodeJSON(v)
	return tool.Result{Content: text, IsError: !v.PydanticValid}, err
}

// asSource treats a spec as a file of the working directory: the files it refers
// to are read from there, within the bounds of all file tools.
func (b *Box) asSource(content string) spec.Source {
	name := "spec.yaml"
	if json.Valid([]byte(content)) {
		name = "spec.json"
	}
	return spec.Source{Path: filepath.Join(b.folders.all[0], name), Data: []byte(content), Read: b.folders.read}
}

// specErrors lists the mistakes of a spec. One without a pointer is about the
// whole spec.
func specErrors(err error, inTemplates bool) []specError {
	var e *session.SpecError
	if !errors.As(err, &e) {
		return []specError{{Phase: "parse", Type: "LoadError", Message: err.Error()}}
	}
	var all []specError
	for _, p := range append([]session.SpecProblem{{Pointer: e.Pointer, Reason: e.Reason}}, e.Also...) {
		found := specError{Phase: "schema", Type: "SpecError", Message: p.String()}
		switch {
		case inTemplates:
			found.Phase = "template"
		case p.Pointer == "":
			found.Phase = "parse"
		}
		all = append(all, found)
	}
	return all
}

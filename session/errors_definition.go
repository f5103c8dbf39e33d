package session

import (
	"fmt"
	"strings"
)

// The errors of definitions and workflow specs. Their sentinels are in errors.go.

// Problem is one thing wrong with a definition, or with the place it is to run
// in: Unconfigured says that the definition is right and something that it
// needs, such as a key, is missing here.
type Problem struct {
	Field        string `json:"field"`
	Message      string `json:"message"`
	Unconfigured bool   `json:"unconfigured,omitempty"`
}

// DefinitionError lists everything wrong with a definition. Source is the
// file or name it came from.
type DefinitionError struct {
	Source   string
	Problems []Problem
}

func (e *DefinitionError) Error() string {
	source := "definition"
	if e.Source != "" {
		source += " " + quoted(e.Source)
	}
	if len(e.Problems) == 1 {
		return source + ": " + e.Problems[0].text()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s has %d problems:", source, len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.text())
	}
	return b.String()
}

// text returns the problem under its field, which is not said twice.
func (p Problem) text() string {
	if strings.HasPrefix(p.Message, p.Field+" ") {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

func (e *DefinitionError) Unwrap() error { return ErrDefinition }

// SpecError is a workflow spec that cannot be taken. Pointer and Reason are the
// first thing wrong with it, Also the others, in the order of the file.
type SpecError struct {
	File    string
	Pointer string // RFC 6901; empty: the file as a whole
	Reason  string
	Also    []SpecProblem
}

// SpecProblem is one more thing wrong with a spec.
type SpecProblem struct {
	Pointer string `json:"pointer"`
	Reason  string `json:"reason"`
}

func (e *SpecError) Error() string {
	first := SpecProblem{Pointer: e.Pointer, Reason: e.Reason}
	if len(e.Also) == 0 {
		return fmt.Sprintf("spec %s: %s", quoted(e.File), first)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "spec %s has %d problems:\n  %s", quoted(e.File), 1+len(e.Also), first)
	for _, p := range e.Also {
		fmt.Fprintf(&b, "\n  %s", p)
	}
	return b.String()
}
func (e *SpecError) Unwrap() error { return ErrSpec }

func (p SpecProblem) String() string {
	if p.Pointer == "" {
		return p.Reason
	}
	return p.Pointer + ": " + p.Reason
}

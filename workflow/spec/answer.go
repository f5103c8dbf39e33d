package spec

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/workflow/template"
)

// Takes says whether a gate takes an answer: one in which its pattern, an
// expression as Python understands it, is found. A question without a pattern
// takes every answer. An error means that the search was given up.
func (a *Ask) Takes(answer string) (bool, error) {
	if a.Pattern == nil {
		return true, nil
	}
	return found(*a.Pattern, answer)
}

// checkPattern refuses what is no pattern.
func checkPattern(pattern string) error {
	if _, err := found(pattern, ""); err != nil {
		return fmt.Errorf("is no pattern: %w", err)
	}
	return nil
}

// found searches as conditions do, so that there is one kind of pattern in a
// spec.
func found(pattern, text string) (bool, error) {
	search, err := template.CompileCondition("text | search(pattern)")
	if err != nil {
		return false, err
	}
	ok, err := search.Eval(template.Scope{"text": template.Str(text), "pattern": template.Str(pattern)})
	var wrong *template.Error
	if errors.As(err, &wrong) {
		return false, errors.New(wrong.Reason)
	}
	return ok, err
}

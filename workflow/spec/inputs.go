package spec

import (
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
)

// fill completes the values: defaults where a name has none, required ones
// before optional ones, then the variables, each in its place or at the end.
// This order shows in prompts.
func (s *Spec) fill(vars Map[string]) {
	in := &s.Inputs
	for _, declared := range []Map[Var]{in.Required, in.Optional} {
		for _, d := range declared {
			if d.Value.Default != nil && !in.Values.Has(d.Name) {
				in.Values = in.Values.With(d.Name, d.Value.Default)
			}
		}
	}
	s.known = slices.Concat(in.Required.Names(), in.Optional.Names(), in.Values.Names())
	s.given = vars
	for _, v := range vars {
		in.Values = in.Values.With(v.Name, v.Value)
	}
	s.warnAboutValues("/inputs/required", in.Required)
	s.warnAboutValues("/inputs/optional", in.Optional)
}

func (s *Spec) warnAboutValues(p string, declared Map[Var]) {
	for _, d := range declared {
		value, ok := s.Inputs.Values.Get(d.Name)
		if !ok {
			continue
		}
		if reason := d.Value.mismatch(value); reason != "" {
			s.warn(document.Pointer(p, d.Name), "%s", reason)
		}
	}
}

// Missing are the required inputs that have no value, in their order.
func (s *Spec) Missing() []string {
	var names []string
	for _, d := range s.Inputs.Required {
		if !s.Inputs.Values.Has(d.Name) {
			names = append(names, d.Name)
		}
	}
	return names
}

// Complete is nil for a spec whose required inputs all have a value, and whose
// variables are known and fit their declarations. Else it is an
// *session.InvalidError that says which and why.
func (s *Spec) Complete() error {
	if err := s.checkVariables(); err != nil {
		return err
	}
	missing := s.Missing()
	if missing == nil {
		_, err := s.inputItems()
		return err
	}
	return &session.InvalidError{Field: "inputs", Reason: "no value for required " + strings.Join(missing, ", ")}
}

// checkVariables refuses a variable that nothing in the spec can use, and one
// that does not fit its declaration.
func (s *Spec) checkVariables() error {
	for _, v := range s.given {
		declared, ok := s.Inputs.Required.Get(v.Name)
		if !ok {
			declared, ok = s.Inputs.Optional.Get(v.Name)
		}
		if !ok && !slices.Contains(s.known, v.Name) && !s.mentions(v.Name) {
			names := slices.Compact(slices.Sorted(slices.Values(s.known)))
			if len(names) == 0 {
				return &session.InvalidError{Field: "inputs." + v.Name, Reason: "the spec has no such input; it has none"}
			}
			return &session.InvalidError{Field: "inputs." + v.Name, Reason: "the spec has no such input; " +
				suggestion(v.Name, names, "it has "+strings.Join(names, ", "))}
		}
		if reason := declared.mismatch(v.Value); ok && reason != "" {
			return &session.InvalidError{Field: "inputs." + v.Name, Reason: reason}
		}
	}
	return nil
}

// mentions reports a name that a text of the spec can use without that it is
// declared. The planner of an orchestrator is shown all inputs.
func (s *Spec) mentions(name string) bool {
	word := regexp.MustCompile(`(^|[^\w.])` + regexp.QuoteMeta(name) + `($|\W)`)
	return s.Pattern.Orchestrator != nil && len(s.known) == 0 ||
		slices.ContainsFunc(s.Texts(), func(t Text) bool { return word.MatchString(t.Text) })
}

// mismatch says how a value does not fit its declaration, "" if it does.
func (v Var) mismatch(value any) string {
	if !ofType(value, v.Type) {
		return "has a value that is not of type " + v.Type
	}
	if v.Enum == nil {
		return ""
	}
	for _, one := range v.Enum {
		if reflect.DeepEqual(one, value) || spelled(one) != "" && spelled(one) == spelled(value) {
			return ""
		}
	}
	return "has a value that is not in its enum"
}

// ofType takes a string for what it spells, since variables are always strings.
func ofType(value any, want string) bool {
	s, isText := value.(string)
	switch want {
	case "string":
		return isText
	case "boolean":
		_, is := value.(bool)
		return is || isText && (strings.EqualFold(s, "true") || strings.EqualFold(s, "false"))
	case "integer", "number":
		f, ok := asFloat(value)
		return ok && (want == "number" || f == math.Trunc(f))
	case "array":
		_, is := value.([]any)
		return is || isText
	case "object":
		_, is := value.(Map[any])
		return is || isText
	}
	return true
}

func asFloat(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
	}
	return 0, false
}

// spelled is a scalar as a variable would hold it.
func spelled(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return floatText(v)
	}
	return ""
}

package spec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// yamlOf is a small spec in which sections, each a top-level key and what is
// under it, replace those of the same key or are added. A section without a
// value leaves the key out.
func yamlOf(sections ...string) string {
	all := []string{
		"version: 1",
		"name: demo",
		"runtime: {provider: openai}",
		"agents: {a: {prompt: Be brief.}}",
		"pattern: {type: chain, config: {steps: [{agent: a}]}}",
	}
	for _, section := range sections {
		key, _, _ := strings.Cut(section, ":")
		replaced := false
		for i, old := range all {
			if strings.HasPrefix(old, key+":") {
				all[i], replaced = section, true
			}
		}
		if !replaced {
			all = append(all, section)
		}
	}
	var kept []string
	for _, section := range all {
		if !strings.HasSuffix(section, "!absent") {
			kept = append(kept, section)
		}
	}
	return strings.Join(kept, "\n") + "\n"
}

// config is a pattern section.
func config(kind, body string) string {
	return "pattern: {type: " + kind + ", config: {" + body + "}}"
}

func parse(text string, vars ...spec.Entry[string]) (*spec.Spec, error) {
	return spec.Loader{}.Parse(spec.Source{Path: "demo.yaml", Data: []byte(text)}, vars)
}

func load(t *testing.T, text string, vars ...spec.Entry[string]) *spec.Spec {
	t.Helper()
	s, err := parse(text, vars...)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

func refused(t *testing.T, err error) *session.SpecError {
	t.Helper()
	var wrong *session.SpecError
	if !errors.As(err, &wrong) || !errors.Is(err, session.ErrSpec) {
		t.Fatalf("error is %T: %v", err, err)
	}
	return wrong
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

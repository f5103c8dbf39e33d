package spec_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// FuzzLoad gives Load any bytes: it refuses them with a SpecError or makes a
// spec that can be checked, written and loaded again.
func FuzzLoad(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, false)
	}
	f.Add([]byte(yamlOf(config("chain", "tasks: []"))), false)
	f.Add([]byte(`{"version": 1, "name": "j", "agents": {"a": {"$ref": "x.yaml"}}}`), true)
	f.Add([]byte("a: &a [*a, !!x y, ? z]\n--- \n%TAG"), false)
	f.Fuzz(func(t *testing.T, data []byte, asJSON bool) {
		src := spec.Source{Path: "f.yaml", Data: data}
		if asJSON {
			src.Path = "f.json"
		}
		s, err := spec.Loader{}.Parse(src, spec.Map[string]{{Name: "k", Value: "v"}})
		if err != nil {
			var wrong *session.SpecError
			if !errors.As(err, &wrong) || wrong.Reason == "" || len(wrong.Also) > 50 || strings.ContainsRune(wrong.Pointer, 0) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		spec.Check(s, spec.Env{})
		if s.Pattern.Workflow != nil {
			s.Pattern.Workflow.Layers()
		}
		made, err := again(s)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := jsonOf(t, s), jsonOf(t, made); a != b {
			t.Fatalf("%s\n%s", a, b)
		}
	})
}

package holdfast

import (
	"cmp"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// Model finds a model by name, the default one where the name is empty, and
// returns the name it was found under. An offline runtime refuses models that
// are not offline.
func (rt *Runtime) Model(name string) (string, llm.Model, error) {
	name = cmp.Or(name, rt.config.DefaultModel)
	if name == "" {
		return "", nil, &session.InvalidError{Field: "model", Reason: "none is named by the definition and there is no default"}
	}
	if rt.config.Models == nil {
		return name, nil, &session.NotFoundError{What: "model", ID: name, Available: []string{}}
	}
	m, err := rt.config.Models.Model(name)
	if err != nil {
		return name, nil, err
	}
	if _, local := m.(llm.Offline); rt.config.Offline && !local {
		return name, nil, &session.UnsupportedError{Store: "an offline runtime", Ability: "the model " + name}
	}
	return name, m, nil
}

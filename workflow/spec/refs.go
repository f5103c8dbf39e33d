package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// resolve replaces every agent that stands in a file of its own by what the
// file says. Keys beside the reference win.
func (s *Spec) resolve(r *reader, root *node) {
	agents := root.get("agents")
	if agents == nil || agents.kind != object {
		return
	}
	for i, e := range agents.entries {
		if key, ref := refOf(e.value); ref != nil {
			p := child("/agents", e.key)
			if agent := s.agentOf(r, child(p, key), ref); agent != nil {
				agents.entries[i].value = overridden(r, p, e.value, agent)
			}
		}
	}
}

// refOf is the reference of an agent, nil if it has none.
func refOf(n *node) (string, *node) {
	for _, key := range []string{"$ref", "ref"} {
		if ref := n.get(key); ref != nil {
			return key, ref
		}
	}
	return "", nil
}

// agentOf reads the file of a reference. Nil means that a problem was noted.
func (s *Spec) agentOf(r *reader, p string, ref *node) *node {
	var written string
	filled(&written)(r, p, ref)
	if written == "" {
		return nil
	}
	path := s.resolvePath(written)
	if path == filepath.Clean(s.source.Path) {
		r.problem(p, ref, "refers to this file itself")
		return nil
	}
	data, err := s.read(written)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.problem(p, ref, "refers to %q, which does not exist", written)
		return nil
	case err != nil:
		r.problem(p, ref, "refers to %q, which cannot be read: %v", written, err)
		return nil
	}
	root, err := parse(written, path, data)
	if err == nil {
		root, err = onlyAgent(root)
	}
	if err != nil {
		r.problem(p, ref, "refers to %q, which %v", written, err)
		return nil
	}
	if _, inner := refOf(root); inner != nil {
		reason := "refers on to another file"
		if inner.kind == text && filepath.Join(filepath.Dir(path), inner.text) == path {
			reason = "refers to itself"
		}
		r.problem(p, ref, "refers to %q, which %s; an agent's file must hold the agent", written, reason)
		return nil
	}
	if !slices.ContainsFunc(s.refs, func(f File) bool { return f.As == written }) {
		s.refs = append(s.refs, newFile(written, RefFile, data))
	}
	return movedSchemas(root, filepath.Dir(written))
}

// onlyAgent is the one agent of a file: the whole document, or the only entry
// of its agents, or its only entry.
func onlyAgent(root *node) (*node, error) {
	if root.kind != object {
		return nil, fmt.Errorf("is %s, not an agent", root.kind)
	}
	if root.get("prompt") != nil {
		return root, nil
	}
	if _, ref := refOf(root); ref != nil {
		return root, nil
	}
	agents := root
	if inner := root.get("agents"); inner != nil {
		if len(root.entries) > 1 {
			return nil, errors.New("holds more than its agent")
		}
		agents = inner
	}
	switch {
	case agents.kind != object || len(agents.entries) == 0 || agents.entries[0].value.kind != object:
		return nil, errors.New("holds no agent")
	case len(agents.entries) > 1:
		return nil, fmt.Errorf("holds %d agents, not one", len(agents.entries))
	}
	return agents.entries[0].value, nil
}

// movedSchemas is an agent whose schema files, written from its own folder,
// are found from the spec's.
func movedSchemas(agent *node, dir string) *node {
	moved := *agent
	moved.entries = slices.Clone(agent.entries)
	for i, e := range moved.entries {
		schema := e.key == "input_schema" || e.key == "output_schema"
		if schema && e.value.kind == text && e.value.text != "" && !filepath.IsAbs(e.value.text) {
			value := *e.value
			value.text = filepath.ToSlash(filepath.Join(dir, value.text))
			moved.entries[i].value = &value
		}
	}
	return &moved
}

// overridden is the agent of a file with the keys beside the reference to it.
func overridden(r *reader, p string, beside, agent *node) *node {
	var ignored Agent
	var ref string
	known := []key{
		may("$ref", str(&ref)), may("ref", str(&ref)),
		may("tools", kept(&ignored.Tools)), may("provider", filled(&ignored.Provider)), may("model_id", filled(&ignored.ModelID)),
		may("inference", ptr(&ignored.Inference, inferenceField)),
	}
	keys(known...)(r, p, beside)
	if beside.get("$ref") != nil && beside.get("ref") != nil {
		r.problem(p, beside, "has both $ref and ref; keep one")
	}
	for _, e := range beside.entries {
		if e.key == "$ref" || e.key == "ref" {
			continue
		}
		i := slices.IndexFunc(agent.entries, func(own entry) bool { return own.key == e.key })
		if i < 0 {
			agent.entries = append(agent.entries, e)
		} else {
			agent.entries[i] = e
		}
	}
	return agent
}

// resolvePath is where a path written in the spec leads.
func (s *Spec) resolvePath(written string) string {
	if filepath.IsAbs(written) {
		return filepath.Clean(written)
	}
	return filepath.Join(filepath.Dir(s.source.Path), written)
}

// read reads a file the spec refers to.
func (s *Spec) read(written string) ([]byte, error) {
	if s.source.Read == nil {
		return nil, errors.New("files are out of reach here")
	}
	return s.source.Read(s.resolvePath(written))
}

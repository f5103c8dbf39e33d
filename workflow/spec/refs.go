package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/document"
)

// resolve replaces every agent that stands in a file of its own by what the
// file says. Keys beside the reference win.
func (s *Spec) resolve(root value) {
	agents := root.Key("agents")
	if agents.Node == nil || agents.Kind != document.Map {
		return
	}
	for i, e := range agents.Entries {
		if key := refOf(e.Value); key != "" {
			beside := agents.Key(e.Key)
			if agent := s.agentOf(beside, key); agent != nil {
				agents.Entries[i].Value = override(beside, agent)
			}
		}
	}
}

// refOf is the key of an agent's reference to a file, "" if it has none.
func refOf(n *document.Node) string {
	for _, key := range []string{"$ref", "ref"} {
		if n.Get(key) != nil {
			return key
		}
	}
	return ""
}

// agentOf reads the file of a reference. Nil means that a problem was noted.
func (s *Spec) agentOf(beside value, key string) *document.Node {
	ref := beside.Key(key)
	var written string
	filled(&written)(ref)
	if written == "" {
		return nil
	}
	path := s.resolvePath(written)
	if path == filepath.Clean(s.source.Path) {
		ref.Problem("refers to this file itself")
		return nil
	}
	data, err := s.read(written)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		ref.Problem("refers to %q, which does not exist", written)
		return nil
	case err != nil:
		ref.Problem("refers to %q, which cannot be read: %v", written, err)
		return nil
	}
	root, err := parse(written, path, data)
	if err == nil {
		root, err = onlyAgent(beside.With(root).Node)
	}
	if err != nil {
		ref.Problem("refers to %q, which %v", written, err)
		return nil
	}
	if key := refOf(root); key != "" {
		reason := "refers on to another file"
		if inner := root.Get(key); inner.Kind == document.String && filepath.Join(filepath.Dir(path), inner.Text) == path {
			reason = "refers to itself"
		}
		ref.Problem("refers to %q, which %s; an agent's file must hold the agent", written, reason)
		return nil
	}
	if !slices.ContainsFunc(s.refs, func(f File) bool { return f.As == written }) {
		s.refs = append(s.refs, newFile(written, RefFile, data))
	}
	return movedSchemas(root, filepath.Dir(written))
}

// onlyAgent is the one agent of a file: the whole document, or the only entry
// of its agents, or its only entry. Of a complete spec nothing else is used.
func onlyAgent(root *document.Node) (*document.Node, error) {
	if root.Kind != document.Map {
		return nil, fmt.Errorf("is %s, not an agent", root.Kind)
	}
	if root.Get("prompt") != nil || refOf(root) != "" {
		return root, nil
	}
	agents := root
	if inner := root.Get("agents"); inner != nil {
		agents = inner
	}
	switch {
	case agents.Kind != document.Map || len(agents.Entries) == 0 || agents.Entries[0].Value.Kind != document.Map:
		return nil, errors.New("holds no agent")
	case len(agents.Entries) > 1:
		return nil, fmt.Errorf("holds %d agents, not one", len(agents.Entries))
	}
	return agents.Entries[0].Value, nil
}

// movedSchemas is an agent whose schema files, written from its own folder,
// are found from the spec's.
func movedSchemas(agent *document.Node, dir string) *document.Node {
	moved := *agent
	moved.Entries = slices.Clone(agent.Entries)
	for i, e := range moved.Entries {
		schema := e.Key == "input_schema" || e.Key == "output_schema"
		if schema && e.Value.Kind == document.String && e.Value.Text != "" && !filepath.IsAbs(e.Value.Text) {
			path := *e.Value
			path.Text = filepath.ToSlash(filepath.Join(dir, path.Text))
			moved.Entries[i].Value = &path
		}
	}
	return &moved
}

// override puts the keys beside a reference into the agent of the file.
func override(beside value, agent *document.Node) *document.Node {
	var ignored Agent
	var ref string
	known := []document.Key{
		may("$ref", str(&ref)), may("ref", str(&ref)),
		may("tools", kept(&ignored.Tools)), may("provider", filled(&ignored.Provider)), may("model_id", filled(&ignored.ModelID)),
		may("inference", document.Ptr(&ignored.Inference, inferenceField)),
	}
	keys(known...)(beside)
	if beside.Get("$ref") != nil && beside.Get("ref") != nil {
		beside.Problem("has both $ref and ref; keep one")
	}
	for _, e := range beside.Entries {
		if e.Key == "$ref" || e.Key == "ref" {
			continue
		}
		i := slices.IndexFunc(agent.Entries, func(own document.Entry) bool { return own.Key == e.Key })
		if i < 0 {
			agent.Entries = append(agent.Entries, e)
		} else {
			agent.Entries[i] = e
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

package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
)

// Encode writes a definition the way Parse reads it; ext is one of
// Extensions. What it returns reads back as the same definition, nil and empty
// lists kept apart, or it is not returned: a definition that is not
// well-formed is a session.DefinitionError, one with a credential a
// session.SecretError, and one the format cannot hold, such as Markdown
// without a prompt, a session.InvalidError.
func Encode(d session.Definition, ext string) ([]byte, error) {
	ext, err := extension("definition" + ext)
	if err != nil {
		return nil, err
	}
	if problems := d.Problems(); problems != nil {
		return nil, &session.DefinitionError{Source: d.Name, Problems: problems}
	}
	data, err := write(d, ext)
	if err != nil {
		return nil, err
	}
	if err := checkReadsBack(data, d.Name, ext); err != nil {
		return nil, err
	}
	return data, nil
}

// checkReadsBack refuses a file that would be read as another definition.
// Writing is deterministic, so two definitions that are written alike are alike.
func checkReadsBack(data []byte, name, ext string) error {
	lossy := &session.InvalidError{Field: "definition", Reason: fmt.Sprintf("%q cannot be written as %s without changing it; try .json", name, ext)}
	parsed, err := Parse(name+ext, data)
	if errors.Is(err, session.ErrSecret) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", lossy, err)
	}
	again, err := write(parsed, ext)
	if err != nil || !bytes.Equal(data, again) {
		return lossy
	}
	return nil
}

func write(d session.Definition, ext string) ([]byte, error) {
	body := ""
	if ext == ".md" {
		body, d.SystemPrompt = d.SystemPrompt, ""
		if body != strings.TrimSpace(body) || body == "" {
			return nil, &session.InvalidError{Field: "systemPrompt", Reason: fmt.Sprintf(
				"of %q is blank or has outer spaces, which Markdown cannot hold; use .yaml or .json", d.Name)}
		}
	}
	root, err := tree(d)
	if err != nil {
		return nil, err
	}
	switch ext {
	case ".json":
		var b bytes.Buffer
		err := json.Indent(&b, append(root.JSON(), '\n'), "", "  ")
		return b.Bytes(), err
	case ".md":
		return fmt.Appendf(nil, "%s\n%s%s\n\n%s\n", fence, root.YAML(), fence, body), nil
	}
	return root.YAML(), nil
}

// tree is the definition as a document: its own JSON without the keys that
// say nothing.
func tree(d session.Definition) (*document.Node, error) {
	d = d.Clone()
	for _, names := range []*[]string{&d.Tools, &d.ToolsDeny, &d.Skills, &d.Capabilities, &d.Subagents} {
		*names = distinct(*names)
	}
	data, err := session.JSON(d)
	if err != nil {
		return nil, fmt.Errorf("encode definition %q: %w", d.Name, err)
	}
	root, err := document.Parse(data, document.Options{JSON: true, PlainNumbers: true})
	if err != nil {
		return nil, &session.InvalidError{Field: "definition", Reason: fmt.Sprintf("%q %v", d.Name, err)}
	}
	root.Entries = slices.DeleteFunc(root.Entries, func(e document.Entry) bool {
		empty := e.Value.Kind == document.String && e.Value.Text == "" || e.Value.Kind == document.Map && e.Key == "metadata" && len(d.Metadata) == 0
		return empty || e.Value.Kind == document.Null
	})
	return root, nil
}

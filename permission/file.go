package permission

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"

	"github.com/holdfast-dev/holdfast/session"
)

// ManifestPath is the file with a workspace's rules, below its root.
const ManifestPath = ".holdfast/permissions.json"

const fileVersion = 1

// maxFileRules is how many rules a file has at most: all of them are compiled
// before the first decision.
const maxFileRules = 2000

type ruleFile struct {
	Version int               `json:"version"`
	Rules   []json.RawMessage `json:"rules"`
}

// DecodeRules reads a file of rules and sets their source. A relative path in a
// rule starts at root, which is absolute. An invalid rule is left out with a
// warning. An error means that the file has another format or version, or too
// many rules, and that none of them is known.
func DecodeRules(data []byte, source, root string) ([]session.Rule, []string, error) {
	var file ruleFile
	if err := strict(data, &file); err != nil {
		return nil, nil, &session.RuleError{Field: "file", Reason: err.Error()}
	}
	if file.Version != fileVersion {
		return nil, nil, &session.RuleError{Field: "version", Reason: fmt.Sprintf("%d is not supported, only %d", file.Version, fileVersion)}
	}
	if n := len(file.Rules); n > maxFileRules {
		return nil, nil, &session.RuleError{Field: "rules", Reason: fmt.Sprintf("there are %d, at most %d are read", n, maxFileRules)}
	}
	rules, warnings := []session.Rule{}, []string{}
	for i, raw := range file.Rules {
		r, err := decodeRule(raw, source, root)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("rule %d of %s is left out: %v", i+1, source, err))
			continue
		}
		rules = append(rules, r)
	}
	return rules, warnings, nil
}

func decodeRule(raw json.RawMessage, source, root string) (session.Rule, error) {
	var r session.Rule
	if err := strict(raw, &r); err != nil {
		return session.Rule{}, err
	}
	r.Source = source
	if p := r.Scope.Path; p != "" && p != "*" && !session.Absolute(p) && session.Absolute(root) {
		r.Scope.Path = path.Join(root, p)
	}
	return CheckRule(r)
}

// strict reads one JSON value without unknown fields: a misspelt field would make
// a rule wider than intended.
func strict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("more than one JSON value")
	}
	return nil
}

// EncodeRules writes a readable file of rules.
func EncodeRules(rules []session.Rule) ([]byte, error) {
	file := struct {
		Version int            `json:"version"`
		Rules   []session.Rule `json:"rules"`
	}{fileVersion, append([]session.Rule{}, rules...)}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(file)
	return b.Bytes(), err
}

// Hash identifies the content of a file.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

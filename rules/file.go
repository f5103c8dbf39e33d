package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
)

// maxRuleFile is how many bytes a file of rules has at most.
const maxRuleFile = 1 << 20

// ruleFile is a file of rules as it was read.
type ruleFile struct {
	path, source string
	data         []byte // nil: there is no such file
	err          error  // it is there and cannot be used
}

// hash identifies what was read.
func (f ruleFile) hash() string {
	switch {
	case f.err != nil:
		return "error: " + f.err.Error()
	case f.data == nil:
		return ""
	}
	return permission.Hash(f.data)
}

// decode returns the file's rules, and warnings about those that are left out.
func (f ruleFile) decode(root string) ([]session.Rule, []string, error) {
	if f.err != nil || f.data == nil {
		return nil, nil, f.err
	}
	rules, warnings, err := permission.DecodeRules(f.data, f.source, root)
	if err != nil {
		return nil, nil, &session.RuleFileError{File: f.path, Reason: err.Error(), Next: "correct or remove the file"}
	}
	return rules, warnings, nil
}

// readManifest reads the rules that a workspace brings. Whoever made the
// workspace chose what lies there, so nothing but a regular file of a
// reasonable size is read, and no link that leads out of the workspace is
// followed.
func readManifest(root string) ruleFile {
	f := ruleFile{source: session.SourceWorkspaceManifest}
	if root == "" {
		return f
	}
	root = filepath.FromSlash(root)
	name := filepath.FromSlash(permission.ManifestPath)
	f.path = filepath.Join(root, name)
	dir, err := os.OpenRoot(root)
	if errors.Is(err, fs.ErrNotExist) {
		return f
	}
	if err != nil {
		f.err = unusable(f.path, err)
		return f
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	if _, err := dir.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return f
	}
	if f.data, err = regular.Read(dir, name, "it", maxRuleFile); err != nil {
		f.err = unusable(f.path, err)
	}
	return f
}

// readProfile reads the user's own rules. The file may be a link, as in
// folders that keep configurations.
func readProfile(path string) ruleFile {
	f := ruleFile{path: path, source: session.SourceProfile}
	if path == "" {
		return f
	}
	data, err := regular.ReadPath(path, maxRuleFile)
	switch {
	case err == nil:
		f.data = data
	case !errors.Is(err, fs.ErrNotExist):
		f.err = unusable(path, err)
	default:
		if _, err := os.Lstat(path); err == nil {
			f.err = unusable(path, errors.New("it is a link that leads nowhere"))
		}
	}
	return f
}

func unusable(path string, err error) error {
	reason := err.Error()
	var long *regular.TooLongError
	if errors.As(err, &long) {
		reason = fmt.Sprintf("it has more than %d bytes", long.Most)
	}
	return &session.RuleFileError{File: path, Reason: reason, Next: "put a regular file of rules there, or remove it"}
}

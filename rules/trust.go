package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
)

// Trust remembers which workspaces the user trusts, in a file outside of them.
// Until a workspace is trusted, the rules that it brings can deny and ask, but
// not allow. Trust is given to one content of the rule file: a changed file is
// not trusted any more.
type Trust struct{ path string }

// NewTrust keeps trust in the file at path.
func NewTrust(path string) *Trust { return &Trust{path} }

// Trusted is a workspace that the user trusts.
type Trusted struct {
	Root      string    `json:"root"` // without symbolic links
	Hash      string    `json:"hash"` // of the rule file that was trusted
	TrustedAt time.Time `json:"trustedAt"`
}

// Current reports that the rule file is the one that was trusted.
func (t Trusted) Current() bool {
	f := readManifest(t.Root)
	return f.err == nil && f.data != nil && f.hash() == t.Hash
}

type trustFile struct {
	Version    int       `json:"version"`
	Workspaces []Trusted `json:"workspaces"`
}

const trustVersion = 1

// List returns the trusted workspaces, ordered by path. A file that cannot be
// read is an error: nothing is trusted then.
func (t *Trust) List() ([]Trusted, error) {
	data, err := regular.ReadPath(t.path, maxRuleFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, unusable(t.path, err)
	}
	var file trustFile
	if err := json.Unmarshal(data, &file); err != nil || file.Version != trustVersion {
		return nil, &session.RuleFileError{File: t.path, Reason: "it does not list trusted workspaces in a form this program knows", Next: "remove it and trust the workspaces again"}
	}
	return file.Workspaces, nil
}

// Add trusts the rules that a workspace brings, as they are now, and returns
// them. A workspace that brings none is a NotFoundError.
func (t *Trust) Add(root string, now time.Time) ([]session.Rule, error) {
	root, err := resolvedRoot(root)
	if err != nil {
		return nil, err
	}
	f := readManifest(root)
	rules, _, err := f.decode(root)
	if err != nil {
		return nil, err
	}
	if f.data == nil {
		return nil, &session.NotFoundError{What: "rule file", ID: f.path}
	}
	added := Trusted{Root: root, Hash: f.hash(), TrustedAt: now.UTC().Truncate(time.Microsecond)}
	return rules, t.alter(func(list []Trusted) []Trusted { return append(without(list, root), added) })
}

// Remove takes the trust in a workspace back; false says that there was none.
func (t *Trust) Remove(root string) (removed bool, err error) {
	if resolved, err := resolvedRoot(root); err == nil { // the folder may be gone
		root = resolved
	}
	err = t.alter(func(list []Trusted) []Trusted {
		kept := without(list, root)
		removed = len(kept) < len(list)
		return kept
	})
	return removed && err == nil, err
}

func without(list []Trusted, root string) []Trusted {
	return slices.DeleteFunc(slices.Clone(list), func(t Trusted) bool { return t.Root == root })
}

func resolvedRoot(root string) (string, error) {
	w, err := permission.Workspace{Root: root}.Resolved()
	return w.Root, err
}

func (t *Trust) alter(change func([]Trusted) []Trusted) error {
	return lockedFile(t.path, func() error {
		list, err := t.List()
		if err != nil {
			return err
		}
		list = change(list)
		slices.SortFunc(list, func(a, b Trusted) int { return strings.Compare(a.Root, b.Root) })
		data, err := json.MarshalIndent(trustFile{trustVersion, list}, "", "  ")
		if err != nil {
			return err
		}
		return replaceFile(t.path, append(data, '\n'))
	})
}

// verdict is how far the rules that a workspace brings are trusted.
type trustVerdict string

const (
	trusted   trustVerdict = "trusted"
	unknown   trustVerdict = "unknown"
	changed   trustVerdict = "changed" // since they were trusted
	unwritten trustVerdict = "error"   // the file of trust cannot be read
)

// of returns how far a rule file is trusted. No Trust trusts nothing.
func (t *Trust) of(root string, f ruleFile) (trustVerdict, error) {
	if t == nil || f.data == nil {
		return unknown, nil
	}
	list, err := t.List()
	if err != nil {
		return unwritten, err
	}
	if resolved, err := resolvedRoot(root); err == nil {
		root = resolved
	}
	i := slices.IndexFunc(list, func(t Trusted) bool { return t.Root == root })
	switch {
	case i < 0:
		return unknown, nil
	case list[i].Hash != f.hash():
		return changed, nil
	}
	return trusted, nil
}

// maxNamed is how many ignored rules a warning names.
const maxNamed = 20

// restrict leaves out the rules that allow, and names them in a warning with
// what to do about it.
func restrict(rules []session.Rule, why trustVerdict, root, path string) (kept []session.Rule, warning string) {
	var ignored []string
	for _, r := range rules {
		if r.Effect == session.EffectAllow {
			ignored = append(ignored, permission.Preview(r.Scope))
			continue
		}
		kept = append(kept, r)
	}
	if len(ignored) == 0 {
		return kept, ""
	}
	reason := "you have not trusted this workspace"
	if why == changed {
		reason = "the file has changed since you trusted it"
	}
	more := ""
	if n := len(ignored) - maxNamed; n > 0 {
		ignored, more = ignored[:maxNamed], fmt.Sprintf("; and %d more", n)
	}
	return kept, fmt.Sprintf("%s may not allow anything, because %s; ignored: allow %s%s. If you agree with the file, run: holdfast task trust %s",
		path, reason, strings.Join(ignored, "; allow "), more, filepath.FromSlash(root))
}

// lockedFile runs fn while no other process changes the file at path, and makes
// its folder.
func lockedFile(path string, fn func() error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := lockFile(lock); err != nil {
		return err
	}
	return fn()
}

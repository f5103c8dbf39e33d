// Package rules keeps the rules that outlive a session: of workspaces, in the
// runtime's store, and of the user, in a file. It reads what a workspace brings
// and remembers which workspaces the user trusts.
package rules

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
)

// Config says where rules are kept that the runtime's store does not have.
type Config struct {
	Profile string                           // the user's file; empty: there is none
	Trust   *Trust                           // in workspaces; nil: none is trusted
	Warn    func(format string, args ...any) // may be nil; the same warning is given once
}

// Store is a holdfast.RuleStore. It keeps the rules of a workspace in the
// runtime's store, in a session of kind policy that listings hide, and those of the user
// in a file. It reads the workspace's own file as well and never writes it; what
// that allows counts only where the user trusts the workspace.
type Store struct {
	rt    *holdfast.Runtime
	c     Config
	cache permission.Cache
	told  sync.Map // the warnings that were given
}

// New makes a store of rules on a runtime.
func New(rt *holdfast.Runtime, c Config) *Store {
	if c.Warn == nil {
		c.Warn = func(string, ...any) {}
	}
	return &Store{rt: rt, c: c}
}

// policyID is the session that has a workspace's rules. There is one for each.
func policyID(w permission.Workspace) string {
	sum := sha256.Sum256([]byte(w.ID))
	return "policy-" + hex.EncodeToString(sum[:20])
}

// longestName is how many characters the name of a session has at most.
const longestName = 200

func policyName(w permission.Workspace) string {
	name := "policy:" + strings.TrimSpace(w.ID)
	if utf8.RuneCountInString(name) > longestName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) {
		return "policy:" + policyID(w)
	}
	return name
}

// files are the workspace's own, with how far it is trusted, and the user's.
type files struct {
	manifest, profile ruleFile
	trust             trustVerdict
	trustErr          error
}

func (s *Store) files(w permission.Workspace) files {
	f := files{manifest: readManifest(w.Root), profile: readProfile(s.c.Profile)}
	f.trust, f.trustErr = s.c.Trust.of(w.Root, f.manifest)
	return f
}

// Policy is the rules in force, compiled. They are read anew when the stored
// ones have another version or a file another content.
func (s *Store) Policy(ctx context.Context, w permission.Workspace) (*permission.Policy, error) {
	var version int64
	info, err := s.rt.Info(ctx, policyID(w))
	switch {
	case err == nil:
		version = info.Version
	case !errors.Is(err, session.ErrNotFound):
		return nil, err
	}
	found := s.files(w)
	key := permission.Key{Workspace: w.ID, Version: version, ManifestHash: strings.Join([]string{w.Root, string(found.trust), found.manifest.hash(), found.profile.hash()}, "\n")}
	return s.cache.Get(key, func() (*permission.Policy, error) {
		rules, warnings, broken, err := s.read(ctx, w, found)
		if err != nil {
			return nil, err
		}
		for _, text := range warnings {
			if _, told := s.told.LoadOrStore(text, true); !told {
				s.c.Warn("%s", text)
			}
		}
		return permission.Compile(rules, broken), nil
	})
}

// Rules are those in force. A file that cannot be read is an error; the rules
// that could be are returned with it.
func (s *Store) Rules(ctx context.Context, w permission.Workspace) ([]session.Rule, []string, error) {
	rules, warnings, broken, err := s.read(ctx, w, s.files(w))
	return rules, warnings, errors.Join(err, broken)
}

func (s *Store) read(ctx context.Context, w permission.Workspace, found files) (rules []session.Rule, warnings []string, broken, err error) {
	if rules, err = s.stored(ctx, w); err != nil {
		return nil, nil, nil, err
	}
	brought, warnings, broken := found.manifest.decode(w.Root)
	if found.trustErr != nil {
		warnings = append(warnings, found.trustErr.Error())
	}
	if found.trust != trusted {
		var ignored string
		if brought, ignored = restrict(brought, found.trust, w.Root, found.manifest.path); ignored != "" {
			warnings = append(warnings, ignored)
		}
	}
	own, more, err := found.profile.decode(w.Root)
	return slices.Concat(rules, brought, own), append(warnings, more...), errors.Join(broken, err), nil
}

const rulePrefix = "rule:"

func ruleKey(r session.Rule) string {
	sum := sha256.Sum256([]byte(r.Fingerprint()))
	return rulePrefix + hex.EncodeToString(sum[:12])
}

// stored are the rules that the store has, in the order of their keys.
func (s *Store) stored(ctx context.Context, w permission.Workspace) ([]session.Rule, error) {
	policy, err := s.rt.Get(ctx, policyID(w))
	if errors.Is(err, session.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kept := policy.Variables()
	var keys []string
	for key, v := range kept {
		if strings.HasPrefix(key, rulePrefix) && !v.Deleted {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var rules []session.Rule
	for _, key := range keys {
		var r session.Rule
		if err := json.Unmarshal(kept[key].Value, &r); err != nil {
			return nil, &session.CorruptError{ID: policy.ID(), Path: key, Reason: err.Error()}
		}
		r.Source = session.SourceWorkspaceDB
		rules = append(rules, r)
	}
	return rules, nil
}

// Add keeps a rule where its source says.
func (s *Store) Add(ctx context.Context, w permission.Workspace, r session.Rule) (bool, error) {
	r, err := permission.CheckRule(r)
	if err != nil {
		return false, err
	}
	defer s.cache.Drop(w.ID)
	switch r.Source {
	case session.SourceWorkspaceDB:
		return s.addStored(ctx, w, r)
	case session.SourceProfile:
		return s.alterProfile(w, func(rules []session.Rule) ([]session.Rule, bool) {
			if slices.ContainsFunc(rules, same(r)) {
				return rules, false
			}
			return append(rules, r), true
		})
	}
	return false, &session.RuleError{Field: "source", Reason: r.Source + " is not kept here"}
}

// Remove takes a rule back.
func (s *Store) Remove(ctx context.Context, w permission.Workspace, r session.Rule) (bool, error) {
	r, err := r.Normal()
	if err != nil {
		return false, err
	}
	defer s.cache.Drop(w.ID)
	switch r.Source {
	case session.SourceWorkspaceDB:
		return s.removeStored(ctx, w, r)
	case session.SourceProfile:
		return s.alterProfile(w, func(rules []session.Rule) ([]session.Rule, bool) {
			n := len(rules)
			rules = slices.DeleteFunc(rules, same(r))
			return rules, len(rules) < n
		})
	}
	return false, &session.RuleError{Field: "source", Reason: r.Source + " is not kept here"}
}

func same(r session.Rule) func(session.Rule) bool {
	mark := r.Fingerprint()
	return func(other session.Rule) bool { return other.Fingerprint() == mark }
}

// writeTries is how often a write that lost a race is made again.
const writeTries = 20

func (s *Store) addStored(ctx context.Context, w permission.Workspace, r session.Rule) (bool, error) {
	none := int64(0)
	action := holdfast.StoreVariable{Key: ruleKey(r), Value: r, IfVersion: &none}
	var err error
	for range writeTries {
		_, err = s.rt.Execute(ctx, policyID(w), action)
		var lost *session.ConflictError
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, session.ErrNotFound):
			_, err = s.rt.Create(ctx, session.Definition{Name: "policy"}, holdfast.WithID(policyID(w)),
				holdfast.WithName(policyName(w)), holdfast.WithKind(session.KindPolicy))
			if err != nil && !errors.Is(err, session.ErrConflict) {
				return false, err
			}
		case errors.As(err, &lost) && lost.Reason == session.ReasonStaleEntry:
			return false, nil // it is there
		case !errors.Is(err, session.ErrConflict):
			return false, err
		}
	}
	return false, err
}

func (s *Store) removeStored(ctx context.Context, w permission.Workspace, r session.Rule) (bool, error) {
	var err error
	for range writeTries {
		var rules []session.Rule
		if rules, err = s.stored(ctx, w); err != nil {
			return false, err
		}
		if !slices.ContainsFunc(rules, same(r)) {
			return false, nil
		}
		_, err = s.rt.Execute(ctx, policyID(w), holdfast.DeleteVariable{Key: ruleKey(r)})
		if !errors.Is(err, session.ErrConflict) {
			return err == nil, err
		}
	}
	return false, err
}

// alterProfile changes the user's file: all of it is replaced, or nothing.
// Rules in it that cannot be understood would be lost, and are an error.
func (s *Store) alterProfile(w permission.Workspace, alter func([]session.Rule) ([]session.Rule, bool)) (changed bool, err error) {
	if s.c.Profile == "" {
		return false, &session.UnsupportedError{Store: "this program", Ability: "rules of a user"}
	}
	err = lockedFile(s.c.Profile, func() error {
		rules, warnings, err := readProfile(s.c.Profile).decode(w.Root)
		if err != nil {
			return err
		}
		if len(warnings) > 0 {
			return &session.RuleFileError{File: s.c.Profile, Reason: warnings[0], Next: "correct the rule or remove it"}
		}
		if rules, changed = alter(rules); !changed {
			return nil
		}
		data, err := permission.EncodeRules(rules)
		if err != nil {
			return err
		}
		return replaceFile(s.c.Profile, data)
	})
	return changed && err == nil, err
}

// replaceFile puts a file in the place of another at once.
func replaceFile(path string, data []byte) error {
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

package task

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
)

// RulesConfig says where rules are kept that no store has.
type RulesConfig struct {
	Profile string                           // the user's file; empty: there is none
	Warn    func(format string, args ...any) // may be nil
}

// Rules is the RuleStore that keeps the rules of a workspace in the runtime's
// store, in a session of kind policy that listings hide, and those of the user
// in a file. It reads the workspace's own file as well and never writes it.
type Rules struct {
	rt    *holdfast.Runtime
	c     RulesConfig
	cache permission.Cache
}

var _ RuleStore = (*Rules)(nil)

// NewRules is a store of rules on a runtime.
func NewRules(rt *holdfast.Runtime, c RulesConfig) *Rules {
	if c.Warn == nil {
		c.Warn = func(string, ...any) {}
	}
	return &Rules{rt: rt, c: c}
}

// policyID is the session that has a workspace's rules. There is one for each.
func policyID(w Workspace) string {
	sum := sha256.Sum256([]byte(w.ID))
	return "policy-" + hex.EncodeToString(sum[:20])
}

// longestName is how many characters the name of a session has at most.
const longestName = 200

func policyName(w Workspace) string {
	name := "policy:" + strings.TrimSpace(w.ID)
	if utf8.RuneCountInString(name) > longestName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) {
		return "policy:" + policyID(w)
	}
	return name
}

// file is a file of rules as it was read.
type file struct {
	source string
	data   []byte
	err    error // it is there and cannot be read
}

func readRules(path, source string) file {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || path == "" {
		return file{source: source}
	}
	return file{source, data, err}
}

func (f file) hash() string {
	switch {
	case f.err != nil:
		return "error: " + f.err.Error()
	case f.data == nil:
		return ""
	}
	return permission.Hash(f.data)
}

// files are the workspace's own and the user's.
func (s *Rules) files(w Workspace) []file {
	manifest := ""
	if w.Root != "" {
		manifest = filepath.Join(filepath.FromSlash(w.Root), filepath.FromSlash(permission.ManifestPath))
	}
	return []file{readRules(manifest, session.SourceWorkspaceManifest), readRules(s.c.Profile, session.SourceProfile)}
}

// Policy is the rules in force, compiled. They are read anew when the stored
// ones have another version or a file another content.
func (s *Rules) Policy(ctx context.Context, w Workspace) (*permission.Policy, error) {
	var version int64
	info, err := s.rt.Info(ctx, policyID(w))
	switch {
	case err == nil:
		version = info.Version
	case !errors.Is(err, session.ErrNotFound):
		return nil, err
	}
	found := s.files(w)
	key := permission.Key{Workspace: w.ID, Version: version, ManifestHash: w.Root + "\n" + found[0].hash() + "\n" + found[1].hash()}
	return s.cache.Get(key, func() (*permission.Policy, error) {
		rules, warnings, broken, err := s.read(ctx, w, found)
		if err != nil {
			return nil, err
		}
		for _, text := range warnings {
			s.c.Warn("%s", text)
		}
		return permission.Compile(rules, broken), nil
	})
}

// Rules are those in force. A file that cannot be read is an error; the rules
// that could be are returned with it.
func (s *Rules) Rules(ctx context.Context, w Workspace) ([]session.Rule, []string, error) {
	rules, warnings, broken, err := s.read(ctx, w, s.files(w))
	return rules, warnings, errors.Join(err, broken)
}

func (s *Rules) read(ctx context.Context, w Workspace, found []file) (rules []session.Rule, warnings []string, broken, err error) {
	if rules, err = s.stored(ctx, w); err != nil {
		return nil, nil, nil, err
	}
	for _, f := range found {
		if f.err != nil {
			broken = errors.Join(broken, fmt.Errorf("%s: %w", f.source, f.err))
			continue
		}
		if f.data == nil {
			continue
		}
		more, told, err := permission.DecodeRules(f.data, f.source, w.Root)
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("%s: %w", f.source, err))
			continue
		}
		rules, warnings = append(rules, more...), append(warnings, told...)
	}
	return rules, warnings, broken, nil
}

const rulePrefix = "rule:"

func ruleKey(r session.Rule) string {
	sum := sha256.Sum256([]byte(r.Fingerprint()))
	return rulePrefix + hex.EncodeToString(sum[:12])
}

// stored are the rules that the store has, in the order of their keys.
func (s *Rules) stored(ctx context.Context, w Workspace) ([]session.Rule, error) {
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
func (s *Rules) Add(ctx context.Context, w Workspace, r session.Rule) (bool, error) {
	r, err := permission.CheckRule(r)
	if err != nil {
		return false, err
	}
	defer s.Forget(w)
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
func (s *Rules) Remove(ctx context.Context, w Workspace, r session.Rule) (bool, error) {
	r, err := r.Normal()
	if err != nil {
		return false, err
	}
	defer s.Forget(w)
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

// Forget drops what is remembered of a workspace.
func (s *Rules) Forget(w Workspace) { s.cache.Drop(w.ID) }

// writeTries is how often a write that lost a race is made again.
const writeTries = 20

func (s *Rules) addStored(ctx context.Context, w Workspace, r session.Rule) (bool, error) {
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

func (s *Rules) removeStored(ctx context.Context, w Workspace, r session.Rule) (bool, error) {
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
func (s *Rules) alterProfile(w Workspace, alter func([]session.Rule) ([]session.Rule, bool)) (changed bool, err error) {
	if s.c.Profile == "" {
		return false, &session.UnsupportedError{Store: "this program", Ability: "rules of a user"}
	}
	if err := os.MkdirAll(filepath.Dir(s.c.Profile), 0o700); err != nil {
		return false, err
	}
	lock, err := os.OpenFile(s.c.Profile+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := lockFile(lock); err != nil {
		return false, err
	}
	f := readRules(s.c.Profile, session.SourceProfile)
	if f.err != nil {
		return false, f.err
	}
	var rules []session.Rule
	if f.data != nil {
		var warnings []string
		if rules, warnings, err = permission.DecodeRules(f.data, session.SourceProfile, w.Root); err != nil {
			return false, err
		}
		if len(warnings) > 0 {
			return false, &session.RuleError{Field: "file", Reason: s.c.Profile + " has a rule that cannot be understood: " + warnings[0]}
		}
	}
	rules, changed = alter(rules)
	if !changed {
		return false, nil
	}
	data, err := permission.EncodeRules(rules)
	if err != nil {
		return false, err
	}
	return true, replaceFile(s.c.Profile, data)
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

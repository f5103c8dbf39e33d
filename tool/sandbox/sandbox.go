// Package sandbox runs commands that an agent chose, with as little power as
// the machine can enforce. A command writes only below its workspace, a private
// home and a private temporary folder; it reads these and what programs need to
// run; it has no network unless that is granted, none of this process's keys,
// and nothing of it is left when it ends.
//
// It needs nothing from the program that uses it: no helper program and no call
// in main. What the machine cannot enforce is in Status, and the commands run
// without it: ask a person more often there.
package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Config says what commands may do.
type Config struct {
	Dir string // the workspace, where commands start; it must exist

	// Homes is a folder in which each workspace has a home for its commands, so
	// that caches outlive them. It is made where it is missing. If it is empty or
	// cannot be made, the home is a part of the temporary folder.
	Homes string

	// Env names further variables of this process that commands see.
	Env []string

	// Read are further files and folders that commands may read.
	Read []string

	// Deny are files and folders that commands may neither read nor change,
	// wherever they are. Of a denied folder the names in it can be listed. In a
	// folder that holds a denied one, nothing can be made, renamed or removed,
	// since a renamed file is a file that nobody denied; what it holds can be
	// used as always. One that does not exist is ignored.
	Deny []string

	Network bool // commands may use the network
	Limits  Limits
}

// Limits hold for each process of a command. Zero is the default, a negative
// number means none.
type Limits struct {
	CPU      time.Duration // of work; 0: an hour
	FileSize int64         // bytes of a file that is written; 0: 4 GiB

	// Memory is the bytes that a process may allocate; 0: no limit, since
	// programs that watch memory reserve terabytes. In any case commands are the
	// first to be ended when the machine has no memory left.
	Memory int64

	// Processes and threads of the whole command; 0: 2048. Only where the
	// command has a user namespace, which it has not where this process is root.
	Processes int64
}

func (l Limits) withDefaults() Limits {
	l.CPU = cmp.Or(l.CPU, time.Hour)
	l.FileSize = cmp.Or(l.FileSize, 4<<30)
	l.Memory = cmp.Or(l.Memory, -1)
	l.Processes = cmp.Or(l.Processes, 2048)
	return l
}

// Status says what this machine can enforce.
type Status struct {
	Files     bool // commands touch no files but theirs
	Network   bool // commands reach no network and no service of this machine
	Processes bool // every process of a command ends with it

	Missing []string // a sentence for each that is false; it says why
}

// Complete reports a sandbox that holds a hostile command: files and network.
func (s Status) Complete() bool { return s.Files && s.Network }

func (s Status) String() string {
	if len(s.Missing) == 0 {
		return "complete"
	}
	return strings.Join(s.Missing, "; ")
}

// Probe finds out what this machine can enforce, by trying it once.
func Probe() Status { return probed().status() }

// Sandbox runs the commands of one workspace. It is immutable and safe for
// concurrent use.
type Sandbox struct {
	c    Config
	able abilities
}

// New checks a configuration. Paths are made absolute.
func New(c Config) (*Sandbox, error) {
	if c.Dir == "" {
		return nil, &session.InvalidError{Field: "Config.Dir", Reason: "is missing"}
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("find workspace: %w", err)
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("find workspace: %w", err)
	} else if !info.IsDir() {
		return nil, &session.InvalidError{Field: "Config.Dir", Reason: fmt.Sprintf("%q is not a folder", c.Dir)}
	}
	c.Dir, c.Limits = dir, c.Limits.withDefaults()
	c.Read, c.Deny, c.Env = slices.Clone(c.Read), slices.Clone(c.Deny), slices.Clone(c.Env)
	for field, list := range map[string][]string{"Config.Read": c.Read, "Config.Deny": c.Deny, "Config.Homes": {c.Homes}} {
		for _, path := range list {
			if path != "" && !filepath.IsAbs(path) {
				return nil, &session.InvalidError{Field: field, Reason: fmt.Sprintf("%q is not an absolute path", path)}
			}
		}
	}
	return &Sandbox{c: c, able: probed()}, nil
}

// Denying returns a sandbox that denies more absolute paths.
func (s *Sandbox) Denying(paths ...string) *Sandbox {
	more := *s
	more.c.Deny = slices.Concat(s.c.Deny, paths)
	return &more
}

// Status says what is enforced for the commands of this sandbox.
func (s *Sandbox) Status() Status { return s.able.status() }

// Run runs a program in the workspace, with its output going to out and nothing
// to read. It returns when the program has ended and what it left running has
// been killed; when ctx ends, that is at once. A program that fails is an
// *exec.ExitError; one that a signal ended has the code 128 and the signal, as
// in a shell.
func (s *Sandbox) Run(ctx context.Context, out *os.File, program string, args ...string) error {
	temp, err := os.MkdirTemp("", "holdfast-")
	if err != nil {
		return fmt.Errorf("make temporary folder: %w", err)
	}
	defer removeAll(temp)
	if temp, err = filepath.EvalSymlinks(temp); err != nil {
		return fmt.Errorf("find temporary folder: %w", err)
	}
	home, err := s.makeHome(temp)
	if err != nil {
		return fmt.Errorf("make home folder: %w", err)
	}
	return s.run(ctx, out, folders{home: home, temp: temp}, append([]string{program}, args...))
}

// makeHome makes the home of the commands, in the temporary folder where there
// is no better place for it.
func (s *Sandbox) makeHome(temp string) (string, error) {
	if s.c.Homes != "" {
		home := filepath.Join(s.c.Homes, fmt.Sprintf("%x", sha256.Sum256([]byte(s.c.Dir)))[:16])
		if os.MkdirAll(home, 0o700) == nil {
			return home, nil
		}
	}
	home := filepath.Join(temp, "home")
	return home, os.Mkdir(home, 0o700)
}

// folders are those of one command beside the workspace.
type folders struct{ home, temp string }

// removeAll removes a folder, also where a command made a part of it read-only.
// What cannot be removed stays: the command's result counts more.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // it is a folder
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

// openVariables are the variables of this process that every command sees,
// beside those whose names begin with LC_. None of them holds a key.
var openVariables = []string{"PATH", "USER", "LOGNAME", "LANG", "TZ"}

// environment is what commands see. HOME and TMPDIR are private folders.
func (s *Sandbox) environment(f folders) []string {
	env := []string{
		"TERM=dumb", "NO_COLOR=1", "PWD=" + s.c.Dir, "HOME=" + f.home,
		"TMPDIR=" + f.temp, "TMP=" + f.temp, "TEMP=" + f.temp,
	}
	for _, t := range toolchains() {
		env = append(env, t.variable+"="+t.folder)
	}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "LC_") || slices.Contains(openVariables, name) || slices.Contains(s.c.Env, name) {
			env = append(env, pair)
		}
	}
	return env
}

// toolchain is a folder in a person's home with programs or downloaded code,
// which commands may read: without a network they could not fetch it again.
type toolchain struct{ variable, folder string }

// toolchains returns those that exist, where their variables or their makers put
// them.
func toolchains() []toolchain {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	modules := "go/pkg/mod"
	if path := filepath.SplitList(os.Getenv("GOPATH")); len(path) > 0 {
		modules = filepath.Join(path[0], "pkg", "mod")
	}
	found := []toolchain{}
	for _, t := range []toolchain{
		{"GOMODCACHE", modules},
		{"RUSTUP_HOME", ".rustup"},
		{"PYENV_ROOT", ".pyenv"},
		{"UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"},
		{"RBENV_ROOT", ".rbenv"},
		{"NVM_DIR", ".nvm"},
		{"VOLTA_HOME", ".volta"},
		{"BUN_INSTALL", ".bun"},
		{"SDKMAN_DIR", ".sdkman"},
		{"ASDF_DATA_DIR", ".asdf"},
		{"MISE_DATA_DIR", ".local/share/mise"},
	} {
		t.folder = cmp.Or(os.Getenv(t.variable), t.folder)
		if !filepath.IsAbs(t.folder) {
			t.folder = filepath.Join(home, t.folder)
		}
		if info, err := os.Stat(t.folder); err == nil && info.IsDir() && !within(t.folder, home) {
			found = append(found, t)
		}
	}
	return found
}

// within reports whether a clean path is root or below it.
func within(root, path string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

package cli

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// storeURL says where sessions are kept: inmem: or file:DIR.
type storeURL struct {
	scheme string
	path   string // of a file store, absolute or as it was given
}

func (u storeURL) String() string { return u.scheme + ":" + u.path }

// thisVersion stands for the program where it lacks something itself.
const thisVersion = "this version of holdfast"

// parseStoreURL reads the value of --store. A scheme that is planned is an
// UnsupportedError, an unknown one an InvalidError.
func (p *program) parseStoreURL(text string) (storeURL, error) {
	refuse := func(format string, args ...any) (storeURL, error) {
		return storeURL{}, &session.InvalidError{Field: "store", Reason: fmt.Sprintf(format, args...)}
	}
	scheme, rest, found := strings.Cut(text, ":")
	if !found {
		return refuse("%q has no scheme; a directory is written file:%s", text, text)
	}
	switch scheme {
	case "inmem":
		if rest != "" {
			return refuse("inmem: takes nothing after the colon, not %q", rest)
		}
		return storeURL{scheme: scheme}, nil
	case "file":
		return p.fileStoreURL(rest)
	case "sqlite", "postgres", "postgresql":
		return storeURL{}, &session.UnsupportedError{Store: thisVersion, Ability: scheme + ": stores, only file:DIR and inmem:"}
	}
	return refuse("%q is not a kind of store; known are file:DIR and inmem:", scheme+":")
}

func (p *program) fileStoreURL(path string) (storeURL, error) {
	if after, ok := strings.CutPrefix(path, "//"); ok {
		if !strings.HasPrefix(after, "/") {
			return storeURL{}, &session.InvalidError{Field: "store", Reason: fmt.Sprintf("file://%s names a host; write file:DIR", after)}
		}
		path = after
	}
	if home := p.homeDir(); home != "" && (path == "~" || strings.HasPrefix(path, "~/")) {
		path = filepath.Join(home, path[1:])
	}
	if path == "" {
		data, err := p.dataDir()
		if err != nil {
			return storeURL{}, err
		}
		path = filepath.Join(data, "sessions")
	}
	return storeURL{scheme: "file", path: path}, nil
}

// open opens the store. The caller closes it.
func (u storeURL) open() (store.Store, error) {
	if u.scheme == "inmem" {
		return inmem.New(inmem.Config{}), nil
	}
	return file.Open(u.path, file.Config{})
}

// dataDir is where this user's data of Holdfast belongs.
func (p *program) dataDir() (string, error) {
	if dir := p.getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "holdfast"), nil
	}
	if dir := p.getenv("LocalAppData"); runtime.GOOS == "windows" && dir != "" {
		return filepath.Join(dir, "holdfast"), nil
	}
	home := p.homeDir()
	switch {
	case home == "":
		return "", &session.InvalidError{Field: "store", Reason: "there is no home directory to keep sessions in; give --store file:DIR"}
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "holdfast"), nil
	}
	return filepath.Join(home, ".local", "share", "holdfast"), nil
}

// configDir is where this user's definitions are, "" where there is no home.
func (p *program) configDir() string {
	home := p.homeDir()
	switch dir := p.getenv("XDG_CONFIG_HOME"); {
	case filepath.IsAbs(dir):
		return filepath.Join(dir, "holdfast")
	case runtime.GOOS == "windows" && p.getenv("AppData") != "":
		return filepath.Join(p.getenv("AppData"), "holdfast")
	case home == "":
		return ""
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "holdfast")
	}
	return filepath.Join(home, ".config", "holdfast")
}

func (p *program) homeDir() string {
	if runtime.GOOS == "windows" {
		return p.getenv("USERPROFILE")
	}
	return p.getenv("HOME")
}

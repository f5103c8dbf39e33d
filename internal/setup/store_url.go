package setup

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// StoreURL says where sessions are kept: sqlite:FILE, file:DIR, strands:DIR,
// postgres://… or inmem:.
type StoreURL struct {
	Scheme string
	Path   string // of a file or directory, absolute or as it was given; of a database, its whole URL
}

// storeKinds names the stores in help and errors.
const storeKinds = "sqlite:FILE, file:DIR, postgres://…, strands:DIR and inmem:"

var storeSchemes = []string{"sqlite", "postgres", "postgresql", "file", "strands", "inmem"}

// String returns the URL without a password.
func (u StoreURL) String() string {
	if u.Scheme != "postgres" {
		return u.Scheme + ":" + u.Path
	}
	parsed, err := url.Parse(u.Path)
	if err != nil {
		return "postgres://…"
	}
	return parsed.Redacted()
}

// ParseStoreURL reads the value of --store. An unknown scheme is an
// InvalidError.
func (p *Setup) ParseStoreURL(text string) (StoreURL, error) {
	refuse := func(format string, args ...any) (StoreURL, error) {
		return StoreURL{}, &session.InvalidError{Field: "store", Reason: fmt.Sprintf(format, args...)}
	}
	scheme, rest, found := strings.Cut(text, ":")
	if !found {
		scheme = "file"
		if info, err := os.Stat(text); err == nil && info.Mode().IsRegular() {
			scheme = "sqlite"
		}
		return refuse("%q has no scheme; write %s:%s", text, scheme, text)
	}
	switch scheme {
	case "inmem":
		if rest != "" {
			return refuse("inmem: takes nothing after the colon, not %q", rest)
		}
		return StoreURL{Scheme: scheme}, nil
	case "file":
		return p.localStoreURL(scheme, rest, "sessions")
	case "sqlite":
		return p.localStoreURL(scheme, rest, "holdfast.db")
	case "strands":
		if rest == "" {
			return refuse("strands: needs the directory of strands-cli, such as strands:~/.strands/sessions")
		}
		return p.localStoreURL(scheme, rest, "")
	case "postgres", "postgresql":
		if parsed, err := url.Parse(text); err != nil || parsed.Host == "" && parsed.Query().Get("host") == "" {
			return refuse("it is not of the form postgres://user@host/database")
		}
		return StoreURL{Scheme: "postgres", Path: text}, nil
	}
	if near := document.Nearest(scheme, storeSchemes); near != "" {
		return refuse("%q is not a kind of store; did you mean %s:?", scheme+":", near)
	}
	return refuse("%q is not a kind of store; known are %s", scheme+":", storeKinds)
}

// localStoreURL returns a store in the file system; an empty path means one of that
// name in the user's data directory.
func (p *Setup) localStoreURL(scheme, path, name string) (StoreURL, error) {
	if after, ok := strings.CutPrefix(path, "//"); ok {
		if !strings.HasPrefix(after, "/") {
			return StoreURL{}, &session.InvalidError{Field: "store", Reason: fmt.Sprintf("%s://%s names a host; write %s:PATH", scheme, after, scheme)}
		}
		path = after
	}
	if home := p.homeDir(); home != "" && (path == "~" || strings.HasPrefix(path, "~/")) {
		path = filepath.Join(home, path[1:])
	}
	if path == "" {
		data, err := p.DataDir()
		if err != nil {
			return StoreURL{}, err
		}
		path = filepath.Join(data, name)
	}
	return StoreURL{Scheme: scheme, Path: path}, nil
}

// openStore opens a store, and shows how far it is where its schema must be
// brought up to date first. The caller closes it.
func (p *Setup) openStore(ctx context.Context, u StoreURL) (store.Store, error) {
	var shown *terminal.Progress
	defer func() { shown.End() }()
	onMigrate := func(done, total int) {
		if shown == nil {
			shown = p.Progress("bringing the schema up to date", "step")
		}
		shown.Report(done, total)
	}
	if !p.Makes && u.Missing() {
		if p.Store != "" {
			return nil, &session.NotFoundError{What: "store", ID: u.String()}
		}
		return inmem.New(inmem.Config{}), nil // the user's own, which is made when it is needed
	}
	switch u.Scheme {
	case "inmem":
		return inmem.New(inmem.Config{}), nil
	case "file":
		return file.Open(u.Path, file.Config{})
	case "strands":
		return strands.Open(u.Path, strands.StoreConfig{})
	case "sqlite":
		st, err := sqlite.Open(ctx, u.Path, sqlite.Config{OnMigrate: onMigrate})
		var damaged *sqlite.DamagedLogError
		if p.Repair && errors.As(err, &damaged) {
			p.Err.Status("gave up %d or more commits; the log they were in is kept as %s.damaged", damaged.Commits, damaged.Path)
			return sqlite.Open(ctx, u.Path, sqlite.Config{OnMigrate: onMigrate, DropDamaged: true})
		}
		return st, err
	}
	return postgres.Open(ctx, u.Path, postgres.Config{OnMigrate: onMigrate})
}

// files are those that a local store consists of, none for others.
func (u StoreURL) files() []string {
	path, err := filepath.Abs(u.Path)
	switch {
	case err != nil:
		return nil
	case u.Scheme == "sqlite":
		return []string{path, path + "-wal", path + "-shm", path + "-journal"}
	case u.Scheme == "file" || u.Scheme == "strands":
		return []string{path}
	}
	return nil
}

// DataDir returns where this user's data of Holdfast belongs.
func (p *Setup) DataDir() (string, error) {
	if dir := p.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "holdfast"), nil
	}
	if dir := p.Getenv("LocalAppData"); runtime.GOOS == "windows" && dir != "" {
		return filepath.Join(dir, "holdfast"), nil
	}
	home := p.homeDir()
	switch {
	case home == "":
		return "", &session.InvalidError{Field: "store", Reason: "there is no home directory to keep sessions in; give --store sqlite:FILE"}
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "holdfast"), nil
	}
	return filepath.Join(home, ".local", "share", "holdfast"), nil
}

// configDir returns where this user's definitions are, "" where there is no home.
func (p *Setup) configDir() string {
	home := p.homeDir()
	switch dir := p.Getenv("XDG_CONFIG_HOME"); {
	case filepath.IsAbs(dir):
		return filepath.Join(dir, "holdfast")
	case runtime.GOOS == "windows" && p.Getenv("AppData") != "":
		return filepath.Join(p.Getenv("AppData"), "holdfast")
	case home == "":
		return ""
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "holdfast")
	}
	return filepath.Join(home, ".config", "holdfast")
}

// cacheDir returns where files are that can be made again, "" where there is no
// home.
func (p *Setup) cacheDir() string {
	home := p.homeDir()
	switch dir := p.Getenv("XDG_CACHE_HOME"); {
	case filepath.IsAbs(dir):
		return filepath.Join(dir, "holdfast")
	case !filepath.IsAbs(home):
		return ""
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Caches", "holdfast")
	}
	return filepath.Join(home, ".cache", "holdfast")
}

func (p *Setup) homeDir() string {
	if runtime.GOOS == "windows" {
		return p.Getenv("USERPROFILE")
	}
	return p.Getenv("HOME")
}

// Missing reports a store in the file system that is not there. Opening it
// would make it.
func (u StoreURL) Missing() bool {
	if u.Scheme != "file" && u.Scheme != "sqlite" {
		return false
	}
	_, err := os.Stat(u.Path)
	return errors.Is(err, os.ErrNotExist)
}

// Same reports whether two URLs surely name one store.
func (u StoreURL) Same(other StoreURL) bool {
	if u.Scheme != other.Scheme {
		return false
	}
	if u.Path == other.Path {
		return true
	}
	a, errA := os.Stat(u.Path)
	b, errB := os.Stat(other.Path)
	if errA == nil && errB == nil {
		return os.SameFile(a, b)
	}
	return u.Scheme != "postgres" && filepath.Clean(u.Path) == filepath.Clean(other.Path)
}

// Writable tries whether a file can be made where the store keeps its own.
func (u StoreURL) Writable() error {
	dir := u.Path
	switch u.Scheme {
	case "file":
	case "sqlite":
		dir = filepath.Dir(u.Path)
	default:
		return nil
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096)) // a full disk still takes an empty file
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

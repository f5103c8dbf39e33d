package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// storeURL says where sessions are kept: sqlite:FILE, file:DIR, strands:DIR,
// postgres://… or inmem:.
type storeURL struct {
	scheme string
	path   string // of a file or directory, absolute or as it was given; of a database, its whole URL
}

// storeKinds names the stores in help and errors.
const storeKinds = "sqlite:FILE, file:DIR, postgres://…, strands:DIR and inmem:"

var storeSchemes = []string{"sqlite", "postgres", "postgresql", "file", "strands", "inmem"}

// String returns the URL without a password.
func (u storeURL) String() string {
	if u.scheme != "postgres" {
		return u.scheme + ":" + u.path
	}
	parsed, err := url.Parse(u.path)
	if err != nil {
		return "postgres://…"
	}
	return parsed.Redacted()
}

// parseStoreURL reads the value of --store. An unknown scheme is an
// InvalidError.
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
		return storeURL{scheme: "postgres", path: text}, nil
	}
	if near := document.Nearest(scheme, storeSchemes); near != "" {
		return refuse("%q is not a kind of store; did you mean %s:?", scheme+":", near)
	}
	return refuse("%q is not a kind of store; known are %s", scheme+":", storeKinds)
}

// localStoreURL returns a store in the file system; an empty path means one of that
// name in the user's data directory.
func (p *program) localStoreURL(scheme, path, name string) (storeURL, error) {
	if after, ok := strings.CutPrefix(path, "//"); ok {
		if !strings.HasPrefix(after, "/") {
			return storeURL{}, &session.InvalidError{Field: "store", Reason: fmt.Sprintf("%s://%s names a host; write %s:PATH", scheme, after, scheme)}
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
		path = filepath.Join(data, name)
	}
	return storeURL{scheme: scheme, path: path}, nil
}

// openStore opens a store, and shows how far it is where its schema must be
// brought up to date first. The caller closes it.
func (p *program) openStore(ctx context.Context, u storeURL) (store.Store, error) {
	var shown *progress
	defer func() { shown.end() }()
	onMigrate := func(done, total int) {
		if shown == nil {
			shown = p.progress("bringing the schema up to date", "step")
		}
		shown.report(done, total)
	}
	if !p.makes && u.missing() {
		switch {
		case p.store != "":
			return nil, &session.NotFoundError{What: "store", ID: u.String()}
		case u.scheme == "sqlite": // the user's own, which is made when it is needed
			return inmem.New(inmem.Config{}), nil
		}
	}
	switch u.scheme {
	case "inmem":
		return inmem.New(inmem.Config{}), nil
	case "file":
		return file.Open(u.path, file.Config{})
	case "strands":
		return strands.Open(u.path, strands.StoreConfig{})
	case "sqlite":
		st, err := sqlite.Open(ctx, u.path, sqlite.Config{OnMigrate: onMigrate})
		var damaged *sqlite.DamagedLogError
		if p.repair && errors.As(err, &damaged) {
			p.err.status("gave up %d or more commits; the log they were in is kept as %s.damaged", damaged.Commits, damaged.Path)
			return sqlite.Open(ctx, u.path, sqlite.Config{OnMigrate: onMigrate, DropDamaged: true})
		}
		return st, err
	}
	return postgres.Open(ctx, u.path, postgres.Config{OnMigrate: onMigrate})
}

// files are those that a local store consists of, none for others.
func (u storeURL) files() []string {
	path, err := filepath.Abs(u.path)
	switch {
	case err != nil:
		return nil
	case u.scheme == "sqlite":
		return []string{path, path + "-wal", path + "-shm", path + "-journal"}
	case u.scheme == "file" || u.scheme == "strands":
		return []string{path}
	}
	return nil
}

// dataDir returns where this user's data of Holdfast belongs.
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
		return "", &session.InvalidError{Field: "store", Reason: "there is no home directory to keep sessions in; give --store sqlite:FILE"}
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "holdfast"), nil
	}
	return filepath.Join(home, ".local", "share", "holdfast"), nil
}

// configDir returns where this user's definitions are, "" where there is no home.
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

// cacheDir returns where files are that can be made again, "" where there is no
// home.
func (p *program) cacheDir() string {
	home := p.homeDir()
	switch dir := p.getenv("XDG_CACHE_HOME"); {
	case filepath.IsAbs(dir):
		return filepath.Join(dir, "holdfast")
	case !filepath.IsAbs(home):
		return ""
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Caches", "holdfast")
	}
	return filepath.Join(home, ".cache", "holdfast")
}

func (p *program) homeDir() string {
	if runtime.GOOS == "windows" {
		return p.getenv("USERPROFILE")
	}
	return p.getenv("HOME")
}

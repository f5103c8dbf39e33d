package crashtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/pgserver"
	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// Memory is the store of FailEveryWrite.
const Memory = "memory"

// Config chooses the store and the model of a Place.
type Config struct {
	Store    string        // "sqlite", "file", "postgres" or Memory
	Protocol string        // of the model's server: "openai" or "anthropic". Empty: there is none
	Lease    time.Duration // 0: a minute
	Together int           // runs at the same time; 0: three
}

// Place is a store and a model server for runs.
type Place struct {
	config Config
	dir    string
	base   string // of the URLs on PostgreSQL
	server *provtest.Server

	mu   sync.Mutex // guards runs
	runs map[string]*Run
}

// NewPlace prepares a place and removes it at the end of the test.
func NewPlace(t *testing.T, c Config) *Place {
	t.Helper()
	if c.Lease == 0 {
		c.Lease = time.Minute
	}
	if c.Together == 0 {
		c.Together = 3
	}
	p := &Place{config: c, dir: t.TempDir(), runs: map[string]*Run{}}
	if c.Store == "postgres" {
		p.base = Postgres(t)
	}
	switch c.Protocol {
	case "":
		return p
	case "openai":
		p.server = provtest.OpenAI(provtest.Config{Choose: p.choose})
	case "anthropic":
		p.server = provtest.Anthropic(provtest.Config{Choose: p.choose})
	default:
		t.Fatalf("no protocol %q", c.Protocol)
	}
	t.Cleanup(p.server.Close)
	return p
}

// Each calls work for every number below n, several at the same time, and fails
// the test on errors.
func (p *Place) Each(t *testing.T, n int, work func(ctx context.Context, i int) error) {
	t.Helper()
	slots := make(chan struct{}, p.config.Together)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := work(t.Context(), i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func (p *Place) add(r *Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs[r.ID] = r
}

// Headers with the run and the process of a request: the request of a killed
// process may arrive while the next one works.
const (
	runHeader  = "X-Run"
	lifeHeader = "X-Life"
)

// choose answers a request, unless its process must be killed at it.
func (p *Place) choose(q provtest.Request) provtest.Reply {
	p.mu.Lock()
	r := p.runs[q.Header.Get(runHeader)]
	p.mu.Unlock()
	if r == nil {
		return provtest.Reply{Status: 400, Body: "nobody knows this run"}
	}
	life, err := strconv.Atoi(q.Header.Get(lifeHeader))
	var key, detail string
	var reply provtest.Reply
	if err == nil {
		key, detail, reply, err = r.plan.Reply(r, q.Body)
	}
	answer := false
	if err == nil {
		answer, err = r.asked(Effect{What: Asked, Key: key, Detail: detail, Life: life})
	}
	switch {
	case err != nil:
		return provtest.Reply{Status: 400, Body: err.Error()}
	case !answer:
		return provtest.Reply{Cut: true}
	}
	return reply
}

func (p *Place) modelURL() string {
	if p.server == nil {
		return ""
	}
	return p.server.URL
}

// newURL returns the URL of a run's store. On PostgreSQL all runs share one
// schema, and the run is the application name.
func (p *Place) newURL(id string) string {
	if p.base == "" {
		return filepath.Join(p.dir, id, "store")
	}
	return p.base + "&application_name=" + url.QueryEscape(id)
}

// settled waits until a PostgreSQL server has noticed the death of a run's
// processes. Until then it may still finish their statements.
func (p *Place) settled(ctx context.Context, id string) error {
	if p.base == "" {
		return nil
	}
	conn, err := pgx.Connect(ctx, p.base)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // all it did is read
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var there bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1)", id).Scan(&there)
		if err != nil || !there {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Open opens a store by name.
func Open(ctx context.Context, name, at string, onWrite func(string)) (store.Store, error) {
	switch name {
	case "sqlite":
		return sqlite.Open(ctx, at, sqlite.Config{OnWrite: onWrite})
	case "file":
		return file.Open(at, file.Config{OnWrite: onWrite})
	case "postgres":
		c := postgres.Config{OnWrite: onWrite, MaxConns: 4}
		if onWrite != nil { // who counts writes tests kills, and a slow machine is none
			c.CallTimeout = time.Minute
		}
		return postgres.Open(ctx, at, c)
	}
	return nil, fmt.Errorf("no store %q", name)
}

// Postgres returns the URL of an empty schema, on the server that the environment
// names or on a private one. It is removed at the end of the test.
func Postgres(t testing.TB) string {
	t.Helper()
	base := os.Getenv("HOLDFAST_TEST_POSTGRES")
	if base == "" {
		server, err := pgserver.StartVolatile(os.Getenv("TMPDIR"))
		switch {
		case err == nil:
			t.Cleanup(server.Stop)
			base = server.URL()
		case os.Getenv("CI") == "true":
			t.Fatalf("no PostgreSQL to test with: %v", err)
		default:
			t.Skipf("no PostgreSQL to test with: %v", err)
		}
	}
	schema := "crash_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	execute(t, base, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { execute(t, base, "DROP SCHEMA "+schema+" CASCADE") })
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	q := at.Query()
	q.Set("search_path", schema)
	at.RawQuery = q.Encode()
	return at.String()
}

func execute(t testing.TB, at, statement string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, at)
	if err == nil {
		_, err = conn.Exec(ctx, statement)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}

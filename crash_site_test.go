package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/pgserver"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// crashSite is one store and one protocol, where turns are crashed, and what
// is known of a turn that nobody disturbs.
type crashSite struct {
	store, provider string
	recorder        *crashRecorder
	dir             string
	newURL          func(id string) string
	settled         func(ctx context.Context, id string) error // waits for what a dead process left under way; nil: nothing is
	lease           time.Duration
	takeUps         []takeUp
	together        int // runs at the same time

	moments []string       // of an undisturbed turn, in order
	took    time.Duration  // from the first moment of its process to its end
	bodies  map[int]string // its requests, by step
	final   session.Session
}

// newCrashSite prepares a store and lets one turn pass undisturbed.
func newCrashSite(t *testing.T, name, provider string) *crashSite {
	t.Helper()
	s := &crashSite{
		store: name, provider: provider, recorder: newCrashRecorder(t, provider), dir: t.TempDir(), bodies: map[int]string{},
		lease: time.Minute, takeUps: []takeUp{byKey, byContinue, byRecover}, together: 4,
	}
	s.newURL = func(id string) string { return filepath.Join(s.dir, id, "store") }
	switch name {
	case "file":
		s.takeUps = []takeUp{byContinue, byRecover} // it has no keys
	case "postgres":
		base := crashPostgres(t)
		s.newURL = func(id string) string { return withParameter(t, base, "application_name", id) }
		s.settled = func(ctx context.Context, id string) error { return crashSettled(ctx, base, id) }
		s.lease, s.together = 2*time.Second, 8 // nobody knows that the holder is dead: its lease has to end
	}
	run, err := s.newRun(t.Context(), byContinue)
	if err != nil {
		t.Fatal(err)
	}
	job := run.job
	job.Record = true
	child, err := run.begin(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	<-child.ready
	begun := time.Now()
	if killed, _, err := child.ended(); err != nil || killed != "" {
		t.Fatalf("undisturbed run: killed by %q, %v", killed, err)
	}
	s.took = time.Since(begun)
	if run.after, err = run.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.final = run.after
	for _, r := range child.reports {
		if r.Moment != "" {
			s.moments = append(s.moments, r.Moment)
		}
	}
	for _, a := range run.requests() {
		s.bodies[a.step] = a.body
	}
	if c, err := run.account(); err != nil || c != (crashCounts{}) || s.final.Reply() != "All is booked." {
		t.Fatalf("undisturbed run: %v, %v, reply %q", c, err, s.final.Reply())
	}
	return s
}

func (s *crashSite) picture(told map[string]bool) string { return picture(s.final, told) }

// newRun makes a session whose turn is to be crashed.
func (s *crashSite) newRun(ctx context.Context, how takeUp) (_ *crashRun, err error) {
	id := uuid.NewString()
	if err := os.Mkdir(filepath.Join(s.dir, id), 0o700); err != nil {
		return nil, err
	}
	r := &crashRun{id: id, site: s, job: crashJob{
		Store: s.store, URL: s.newURL(id), Provider: s.provider, Model: s.recorder.server.URL, Session: id,
		Effects: filepath.Join(s.dir, id, "effects"), TakeUp: how, Lease: s.lease,
	}}
	st, err := crashOpen(ctx, s.store, r.job.URL, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{crashAgent.Model: scripted.New()}})
	if err != nil {
		return nil, err
	}
	_, err = rt.For(holdfast.Identity{Tenant: id}).Create(ctx, crashAgent, holdfast.WithID(id))
	s.recorder.add(r)
	return r, errors.Join(err, rt.Close())
}

// each runs work for every number below n, several at the same time, and
// fails the test with what goes wrong.
func (s *crashSite) each(t *testing.T, n int, work func(ctx context.Context, i int) error) {
	t.Helper()
	slots := make(chan struct{}, s.together)
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

// crashOpen opens a store by name.
func crashOpen(ctx context.Context, name, at string, onWrite func(string)) (store.Store, error) {
	switch name {
	case "sqlite":
		return sqlite.Open(ctx, at, sqlite.Config{OnWrite: onWrite})
	case "file":
		return file.Open(at, file.Config{OnWrite: onWrite})
	case "postgres":
		return postgres.Open(ctx, at, postgres.Config{OnWrite: onWrite, MaxConns: 4})
	}
	return nil, fmt.Errorf("no store %q", name)
}

// crashPostgres is the URL of an empty schema: on the server that the
// environment names, or on one of our own.
func crashPostgres(t *testing.T) string {
	t.Helper()
	base := os.Getenv("HOLDFAST_TEST_POSTGRES")
	if base == "" {
		server, err := pgserver.Start(os.Getenv("TMPDIR"))
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
	crashExec(t, base, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { crashExec(t, base, "DROP SCHEMA "+schema+" CASCADE") })
	return withParameter(t, base, "search_path", schema)
}

func withParameter(t *testing.T, base, key, value string) string {
	t.Helper()
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	q := at.Query()
	q.Set(key, value)
	at.RawQuery = q.Encode()
	return at.String()
}

// crashSettled waits until the server has noticed that the processes of a run
// are dead. Until then it may still finish a statement of theirs.
func crashSettled(ctx context.Context, at, id string) error {
	conn, err := pgx.Connect(ctx, at)
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

func crashExec(t *testing.T, at, statement string) {
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

// tally adds up the runs of one kind of kill.
type tally struct {
	mu sync.Mutex // guards by
	by map[string]*crashCounts
}

func (l *tally) add(kind string, c crashCounts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[string]*crashCounts{}
	}
	if l.by[kind] == nil {
		l.by[kind] = &crashCounts{}
	}
	l.by[kind].add(c)
}

// kills is how many there were in all.
func (l *tally) kills() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.by {
		n += c.kills
	}
	return n
}

// log writes the tally, one line for each kind.
func (l *tally) log(t *testing.T) {
	t.Helper()
	kinds := make([]string, 0, len(l.by))
	for kind := range l.by {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		t.Logf("%s: %v", kind, l.by[kind])
	}
}

package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/pgserver"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// crashPlan is a spec whose runs are crashed, and what is known of a run that
// nobody disturbs.
type crashPlan struct {
	name, pattern string
	concurrent    bool              // units work at the same time
	answers       map[string]string // of persons, by unit
	minor         bool              // another has the same pattern
	summarised    bool              // agents are shown summaries

	moments []string // in order
	keys    map[string]bool
	left    files
	end     *ending
}

// crashPlans are all patterns, and all places where persons are asked.
func crashPlans() []*crashPlan {
	return []*crashPlan{
		{name: "chain", pattern: "chain", answers: map[string]string{"step/1": "yes"}},
		{name: "summary", pattern: "chain", minor: true, summarised: true},
		{name: "workflow", pattern: "workflow", concurrent: true, answers: map[string]string{"task/ask": "yes"}},
		{name: "routing", pattern: "routing", answers: map[string]string{
			"router/review": "approved", "route/billing/step/1": "yes", "route/billing/step/3": "that is all",
		}},
		{name: "parallel", pattern: "parallel", concurrent: true, answers: map[string]string{"branch/left/step/1": "left is fine", "branch/right/step/1": ""}},
		{name: "parallel-human", pattern: "parallel", minor: true, concurrent: true, answers: map[string]string{"reduce": "both"}},
		{name: "evaluator", pattern: "evaluator_optimizer", answers: map[string]string{"gate/2": "go on"}},
		{name: "orchestrator", pattern: "orchestrator_workers", concurrent: true, answers: map[string]string{
			"plan/review": "fine", "reduce/review": "good", "writeup": "the end",
		}},
		{name: "orchestrator-human", pattern: "orchestrator_workers", minor: true, concurrent: true, answers: map[string]string{"reduce": "in short"}},
		{name: "graph", pattern: "graph", answers: map[string]string{"node/check@1": "again", "node/check@2": "good"}},
	}
}

// crashSite is a store on which runs are crashed.
type crashSite struct {
	store    string
	recorder *crashRecorder
	dir      string
	newURL   func(id string) string
	settled  func(ctx context.Context, id string) error // waits for what a dead process left under way; nil: nothing is
	lease    time.Duration
	together int // runs at the same time
}

func newCrashSite(t *testing.T, name string) *crashSite {
	t.Helper()
	s := &crashSite{store: name, recorder: newCrashRecorder(t), dir: t.TempDir(), lease: time.Minute, together: 3}
	s.newURL = func(id string) string { return filepath.Join(s.dir, id, "store") }
	if name == "postgres" {
		base := crashPostgres(t)
		s.newURL = func(id string) string { return withParameter(t, base, "application_name", id) }
		s.settled = func(ctx context.Context, id string) error { return crashSettled(ctx, base, id) }
		s.lease, s.together = 6*time.Second, 12 // nobody knows that the holder is dead: its lease has to end
	}
	return s
}

// newRun prepares a run. Its spec is a copy, which goes when the run has begun;
// its store is made, so that all that is written belongs to the run.
func (s *crashSite) newRun(ctx context.Context, p *crashPlan) (*crashRun, error) {
	id := uuid.NewString()
	dir := filepath.Join(s.dir, id)
	raw, err := os.ReadFile(filepath.Join("testdata", "crash", p.name+".yaml"))
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	path := filepath.Join(dir, "spec.yaml")
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	r := &crashRun{site: s, plan: p, job: crashJob{
		Store: s.store, URL: s.newURL(id), Model: s.recorder.server.URL, Session: id, Spec: path, Dir: dir, Answers: p.answers, Lease: s.lease,
	}}
	s.recorder.add(r)
	if err != nil {
		return nil, err
	}
	err = r.load(ctx)
	return r, err
}

// rehearse lets a run of a spec pass undisturbed.
func (s *crashSite) rehearse(ctx context.Context, p *crashPlan) error {
	r, err := s.newRun(ctx, p)
	if err != nil {
		return err
	}
	job := r.job
	job.Record = true
	if killed, err := r.live(ctx, job); err != nil || killed != "" {
		return fmt.Errorf("undisturbed %s: killed by %q, %w", p.name, killed, err)
	}
	for _, report := range r.now.reports {
		if report.Moment != "" {
			p.moments = append(p.moments, report.Moment)
		}
	}
	if c, err := r.account(); err != nil || c != (crashCounts{}) { //nolint:contextcheck // a projection asks nobody
		return fmt.Errorf("undisturbed %s: %+v, %w", p.name, c, err)
	}
	p.keys = map[string]bool{}
	answered := inLog(r.after).answered
	for _, a := range r.requests() {
		if p.keys[a.key] = true; !answered[a.key] {
			return fmt.Errorf("undisturbed %s: the answer to %s is not in the log", p.name, a.key)
		}
	}
	p.left = filesIn(r.job.Dir)
	end, err := r.end() //nolint:contextcheck // a projection asks nobody
	p.end = &end
	return err
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
func crashPostgres(t testing.TB) string {
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

func withParameter(t testing.TB, base, key, value string) string {
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

func crashExec(t testing.TB, at, statement string) {
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

package postgres_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// Finding a version reads the log between two snapshots: both of them are bounds
// of the index, however long the log is.
func TestLoadAt_readsTheLogBetweenTwoSnapshots(t *testing.T) {
	t.Parallel()
	url := pgtest.Schema(t)
	create(t, open(t, url, postgres.Config{}), "a")
	conn := pgtest.Connect(t, url)
	if _, err := conn.Exec(t.Context(), `SET enable_seqscan = off`); err != nil { // the log is short
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `EXPLAIN `+postgres.FindSnapshot, pgx.NamedArgs{"sid": int64(1), "version": int64(7)})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	plan := strings.Join(lines, "\n")
	if !regexp.MustCompile(`Index Cond: .*\(seq >= .*\(seq <= `).MatchString(plan) {
		t.Errorf("the snapshots do not bound what is read of the log:\n%s", plan)
	}
}

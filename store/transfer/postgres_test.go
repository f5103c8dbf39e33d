package transfer_test

import (
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/pgserver"
	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/postgres"
)

func TestCopy_throughPostgresAndBack(t *testing.T) {
	t.Parallel()
	server, err := pgserver.StartVolatile(os.Getenv("TMPDIR"))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no PostgreSQL to test with: %v", err)
		}
		t.Skipf("no PostgreSQL to test with: %v", err)
	}
	t.Cleanup(server.Stop)
	between, err := postgres.Open(t.Context(), server.URL(), postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := between.Close(); err != nil {
			t.Error(err)
		}
	})
	property.CheckCases(t, 5, func(rt *property.T) { // each costs what hundreds in memory do
		empty(t, between)
		w := newWorld(rt)
		back := inmem.New(inmem.Config{})
		mustCopyAll(rt, t, w.st, between)
		w.live()
		mustCopyAll(rt, t, w.st, between)
		mustCopyAll(rt, t, between, back)
		for _, id := range w.there() {
			same(rt, t, between, w.st, id)
			same(rt, t, back, w.st, id)
		}
	})
}

package postgres_test

import (
	"context"
	"flag"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// TestMain lets more tests run at a time than there are processors: most of them
// wait for a server that is silent, away or restarted.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("8"); err != nil {
			panic(err)
		}
	}
	storetest.Main(m, openURL)
}

func openURL(url string, onWrite func(string)) (store.Store, error) {
	return postgres.Open(context.Background(), url, postgres.Config{OnWrite: onWrite, MaxConns: 4})
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	storetest.RunProcesses(t, storetest.Processes{
		Open:   openURL,
		NewURL: migrated.Copy,
	})
}

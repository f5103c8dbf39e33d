package postgres_test

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m, openURL) }

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

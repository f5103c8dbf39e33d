package inmem_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Data {
		clock := storetest.NewClock()
		first := inmem.New(inmem.Config{Now: clock.Now})
		return storetest.Data{
			Clock:   clock,
			Open:    func(testing.TB) store.Store { return first.Handle() },
			Corrupt: func(_ testing.TB, r store.Ref) { first.Damage(r) },
			Newer:   func(_ testing.TB, r store.Ref) { first.MakeNewer(r) },
		}
	})
}

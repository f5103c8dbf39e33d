package holdfast

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// storeAbilities are the optional parts of the store, nil where it lacks them.
type storeAbilities struct {
	store   store.Store
	tails   store.Tails
	leases  store.Leases
	starts  store.Starts
	logs    store.Logs
	forks   store.Forks
	inboxes store.Inboxes
	wakes   store.Wakes
	keys    store.Keys
	sweeps  store.Sweeps
	spends  store.Spends

	memories store.Memories
	vectors  store.Vectors
}

func findAbilities(st store.Store) storeAbilities {
	a := storeAbilities{store: st}
	a.tails, _ = st.(store.Tails)
	a.leases, _ = st.(store.Leases)
	if a.leases != nil && a.tails != nil {
		a.starts, _ = st.(store.Starts)
	}
	a.logs, _ = st.(store.Logs)
	a.forks, _ = st.(store.Forks)
	a.inboxes, _ = st.(store.Inboxes)
	a.wakes, _ = st.(store.Wakes)
	a.keys, _ = st.(store.Keys)
	a.sweeps, _ = st.(store.Sweeps)
	a.spends, _ = st.(store.Spends)
	a.memories, _ = st.(store.Memories)
	a.vectors, _ = st.(store.Vectors)
	return a
}

// CheckDurable refuses a store that lacks what work needs that is to outlive a
// process: leases, an open tail, a log and an inbox. It is an
// UnsupportedError that names what is missing.
func (rt *Runtime) CheckDurable() error {
	for _, need := range []struct {
		there bool
		name  string
	}{
		{rt.leases != nil, "leases"}, {rt.tails != nil, "an open tail"}, {rt.logs != nil, "a log"}, {rt.inboxes != nil, "an inbox"},
	} {
		if !need.there {
			return rt.unsupported(need.name)
		}
	}
	return nil
}

// unsupported is the error for an ability the store lacks.
func (rt *Runtime) unsupported(ability string) error {
	return &session.UnsupportedError{Store: storeName(rt.store), Ability: ability}
}

func storeName(s store.Store) string {
	if named, ok := s.(fmt.Stringer); ok {
		return named.String()
	}
	return fmt.Sprintf("store %T", s)
}

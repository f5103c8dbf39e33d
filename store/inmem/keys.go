package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// keys are the idempotency keys of a session.
type keys struct {
	uses  map[string]keyUse
	order []string // names by time of use, the oldest first
	open  []string // names whose version is not known yet
}

type keyUse struct {
	fingerprint string
	version     int64 // 0: in the open tail
	seq         int64 // where in the tail
	at          time.Time
}

// add stores the first use of each key, and drops old keys.
func (k *keys) add(used []store.Key, use keyUse) {
	if len(used) == 0 {
		return
	}
	for len(k.order) > 0 && use.at.Sub(k.uses[k.order[0]].at) > store.KeepKeys && k.uses[k.order[0]].version != 0 {
		delete(k.uses, k.order[0])
		k.order = k.order[1:]
	}
	if k.uses == nil {
		k.uses = map[string]keyUse{}
	}
	for _, key := range used {
		if _, known := k.uses[key.Name]; known {
			continue
		}
		use.fingerprint = key.Fingerprint
		k.uses[key.Name] = use
		k.order = append(k.order, key.Name)
		if use.version == 0 {
			k.open = append(k.open, key.Name)
		}
	}
}

// apply drops the keys of discarded changes.
func (k *keys) apply(changes []change) {
	for _, c := range changes {
		if c.kind != tailDiscarded {
			continue
		}
		k.open = slices.DeleteFunc(k.open, func(name string) bool {
			seq := k.uses[name].seq
			if seq < c.covers.From || seq > c.covers.To {
				return false
			}
			delete(k.uses, name)
			k.order = slices.DeleteFunc(k.order, func(other string) bool { return other == name })
			return true
		})
	}
}

// seal gives the keys of the tail their version.
func (k *keys) seal(version int64) {
	for _, name := range k.open {
		use := k.uses[name]
		use.version = version
		k.uses[name] = use
	}
	k.open = nil
}

// Key reports the first use of a key.
func (s *Store) Key(ctx context.Context, r store.Ref, name string) (store.KeyUse, bool, error) {
	var use keyUse
	var known bool
	err := s.read(ctx, r, func(w *row) error {
		use, known = w.keys.uses[name]
		return nil
	})
	return store.KeyUse{Fingerprint: use.fingerprint, Version: use.version}, known, err
}

package holdfast

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// ErrRepeated is a request that was carried out before, or waits in the inbox
// of its session: nothing was done.
var ErrRepeated = errors.New("a request with this idempotency key was carried out before")

// once is a request with an idempotency key, for what is done by more than one
// Execute: a Hold, or an inbox item that somebody else takes.
type once struct {
	ref     store.Ref
	key     store.Key
	written atomic.Bool // the key is in the store, or on its way in an inbox item
}

// Once returns a view of the runtime for one request on a session, known by an
// idempotency key. The key is written with the first change that the view makes
// to the session: by an action, under a Hold, or by whoever takes the inbox
// item that it leaves. Before that, a Hold looks for the key, and is refused
// with ErrRepeated if the request was made before. Name and request say what is
// asked for: anything else under the same key is a ConflictError.
func (rt *Runtime) Once(id, key, name string, request any) (*Runtime, error) {
	ref, err := rt.ref(id)
	if err != nil {
		return nil, err
	}
	kept, err := rt.keyName(key)
	if err != nil {
		return nil, err
	}
	mark, err := fingerprint(name, request)
	if err != nil {
		return nil, err
	}
	return &Runtime{core: rt.core, who: rt.who, once: &once{ref: ref, key: store.Key{Name: kept, Fingerprint: mark}}}, nil
}

// CheckOnce refuses the request of a view that Once returned with ErrRepeated,
// if it was carried out or waits in the inbox of its session.
func (rt *Runtime) CheckOnce(ctx context.Context) error {
	if rt.once == nil {
		return nil
	}
	if err := rt.checkRequest(ctx, rt.once.ref); err != nil || rt.inboxes == nil {
		return err
	}
	items, err := rt.inboxes.Inbox(ctx, rt.once.ref)
	if err != nil {
		return err
	}
	for _, item := range items {
		if known, ok := keyOfItem(item.ID); ok && known.Name == rt.once.key.Name {
			if known != rt.once.key {
				return &session.ConflictError{ID: rt.once.ref.ID, Reason: session.ReasonKeyReused}
			}
			return ErrRepeated
		}
	}
	return nil
}

// checkRequest refuses a request that was carried out.
func (rt *Runtime) checkRequest(ctx context.Context, ref store.Ref) error {
	keys := rt.onceKeys(ref)
	_, found, err := rt.keyUse(ctx, ref, keys)
	if err == nil && found {
		err = ErrRepeated
	}
	return err
}

// onceKeys returns the key that the next write to a session carries; none where
// it was written.
func (rt *Runtime) onceKeys(ref store.Ref) []store.Key {
	if rt.once == nil || rt.once.ref != ref || rt.once.written.Load() {
		return nil
	}
	return []store.Key{rt.once.key}
}

// keysWritten notes that keys are in the store.
func (rt *Runtime) keysWritten(keys []store.Key) {
	if rt.once != nil && slices.Contains(keys, rt.once.key) {
		rt.once.written.Store(true)
	}
}

// itemPrefix begins the id of an inbox item that a request with a key has left.
// The key is part of the id, so that whoever takes the item writes the key.
const itemPrefix = "once:"

// OnceItem returns the id of the inbox item that the request of a view leaves, if
// it leaves one; "" for a view that Once did not return.
func (rt *Runtime) OnceItem() string {
	if rt.once == nil {
		return ""
	}
	return itemPrefix + rt.once.key.Name + ":" + rt.once.key.Fingerprint
}

// keyOfItem reads the key from the id of an item.
func keyOfItem(id string) (store.Key, bool) {
	rest, ok := strings.CutPrefix(id, itemPrefix)
	at := strings.LastIndex(rest, ":")
	if !ok || at < 0 {
		return store.Key{}, false
	}
	return store.Key{Name: rest[:at], Fingerprint: rest[at+1:]}, true
}

// takenKeys returns the keys of the inbox items that changes take.
func takenKeys(changes ...session.Change) (keys []store.Key) {
	for _, c := range changes {
		if taken, ok := c.(session.InboxTaken); ok {
			if key, ok := keyOfItem(taken.ItemID); ok {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

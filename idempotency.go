package holdfast

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// This file recognises a call that was made before. All entry points use it:
// Execute and Submit, messages that wait in an inbox, Post, Create and Fork.

// findKeys finds the keys under which a repetition of this call is known: the
// idempotency key, and the id of the message it sends.
func (x *execution) findKeys() ([]store.Key, error) {
	var names []string
	if slices.Contains(x.opts.given, "IdempotencyKey") {
		name, err := x.rt.keyName(x.opts.key)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	once := x.rt.onceKeys(x.ref)
	if send, ok := x.action.(sender); ok && x.rt.keys != nil && send.sent().Message != nil && send.sent().Message.ID != "" {
		names = append(names, "message:"+hashed(send.sent().Message.ID))
	}
	if len(names) == 0 {
		return once, nil
	}
	mark, err := fingerprint(x.action.Name(), x.action)
	if err != nil {
		return nil, err
	}
	keys := once
	for _, name := range names {
		keys = append(keys, store.Key{Name: name, Fingerprint: mark})
	}
	return keys, nil
}

// keyName is the name by which a store knows an idempotency key.
func (rt *Runtime) keyName(key string) (string, error) {
	if rt.keys == nil {
		return "", rt.unsupported("idempotency keys")
	}
	return "key:" + hashed(key), checkKey(key)
}

// hashed makes a name of any length fit a store.
func hashed(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

func checkKey(key string) error {
	if key == "" || utf8.RuneCountInString(key) > 255 || !utf8.ValidString(key) {
		return &session.InvalidError{Field: "idempotencyKey", Reason: "is not 1 to 255 printable characters"}
	}
	for _, r := range key {
		if !unicode.IsPrint(r) {
			return &session.InvalidError{Field: "idempotencyKey", Reason: "is not 1 to 255 printable characters"}
		}
	}
	return nil
}

// fingerprint tells one request from another by name and content.
func fingerprint(name string, content any) (string, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return "", &session.InvalidError{Field: "action", Reason: fmt.Sprintf("%s cannot be told from another by an idempotency key: %v", name, err)}
	}
	h := sha256.Sum256(append([]byte(name+"\n"), raw...))
	return hex.EncodeToString(h[:16]), nil
}

// keyUse looks up the keys of a request and returns the first use of one.
// Another request under the same key is a ConflictError.
func (rt *Runtime) keyUse(ctx context.Context, ref store.Ref, keys []store.Key) (first store.KeyUse, found bool, err error) {
	for _, key := range keys {
		use, known, err := rt.keys.Key(ctx, ref, key.Name)
		switch {
		case errors.Is(err, session.ErrNotFound): // the load says so
		case err != nil:
			return first, false, err
		case known && use.Fingerprint != key.Fingerprint:
			return first, false, &session.ConflictError{ID: ref.ID, Reason: session.ReasonKeyReused}
		case known && (!found || use.Version > 0):
			first, found = use, true
		}
	}
	return first, found, nil
}

// replay answers a repeated call with the version the first one made, or with
// the failure recorded in it. A first one that is at work or was interrupted is
// not over: x.repeats then says that its message is written already.
func (x *execution) replay(ctx context.Context) (s session.Session, done bool, err error) {
	x.repeats = false
	use, found, err := x.rt.keyUse(ctx, x.ref, x.keys)
	switch {
	case err != nil || !found:
		return session.Session{}, false, err
	case use.Version == 0:
		x.repeats = true
		return session.Session{}, false, nil
	}
	s, x.repeats, err = x.loadKeyVersion(ctx, use.Version)
	if err != nil || x.repeats {
		return s, false, err
	}
	failed, err := x.failedIn(ctx, s)
	if err != nil || failed == nil {
		return s, err == nil, err
	}
	return s, true, failed
}

// failedIn returns the failure of the execution that this call ran, as a version
// records it; nil if there is none.
func (x *execution) failedIn(ctx context.Context, s session.Session) (*session.ExecutionError, error) {
	e := s.Execution()
	if e.Cause() == nil {
		return nil, nil
	}
	if !runsAgent(x.action) { // the failure may be older
		if x.rt.logs == nil || s.Version() < 2 {
			return nil, nil
		}
		before, err := x.rt.logs.LoadAt(ctx, x.ref, s.Version()-1)
		if err != nil {
			return nil, err
		}
		if old := before.Execution(); old != nil && old.ID == e.ID && !old.Open() {
			return nil, nil
		}
	}
	return &session.ExecutionError{ID: s.ID(), Version: s.Version(), ExecutionID: e.ID, Err: e.Cause()}, nil
}

// loadKeyVersion loads the version a key led to, and reports whether the
// execution in it is still open: another action may have sealed one that was
// interrupted, or one that failed is being retried. If that execution has ended
// since, the session is returned as it is now.
func (x *execution) loadKeyVersion(ctx context.Context, version int64) (s session.Session, open bool, err error) {
	rt := x.rt
	s, err = rt.loadAt(ctx, x.ref, options{at: version, atSet: rt.logs != nil})
	if err != nil || !s.Running() && s.Execution().Cause() == nil {
		return s, false, err
	}
	now, err := rt.store.Load(ctx, x.ref, rt.tails != nil)
	if err != nil {
		return s, false, err
	}
	same := now.Execution() != nil && now.Execution().ID == s.Execution().ID
	if !same && !s.Running() {
		return s, false, nil
	}
	return now, same && now.Running(), nil
}

// createKeys gives a request to create or fork a session an id and a key of its
// own. The id follows from the key, so that the same request twice meets itself.
func (rt *Runtime) createKeys(o options, name string, content any) (id string, keys []store.Key, err error) {
	if !slices.Contains(o.given, "IdempotencyKey") {
		return cmp.Or(o.id, rt.config.NewID()), nil, nil
	}
	if o.id != "" {
		return "", nil, &session.InvalidError{Field: "option", Reason: "WithID and IdempotencyKey both choose the id; give one of the two"}
	}
	key, err := rt.keyName(o.key)
	if err != nil {
		return "", nil, err
	}
	if o.keyFor != nil {
		content = o.keyFor
	}
	mark, err := fingerprint(name, content)
	if err != nil {
		return "", nil, err
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(rt.who.Tenant+"\n"+key)).String(), []store.Key{{Name: key, Fingerprint: mark}}, nil
}

// replay returns the session that an earlier request with the same key created.
func (c creation) replay(ctx context.Context) (s session.Session, found bool, err error) {
	ref := store.Ref{Tenant: c.rt.who.Tenant, ID: c.id}
	use, found, err := c.rt.keyUse(ctx, ref, c.keys)
	if err != nil || !found {
		return session.Session{}, false, err
	}
	s, err = c.rt.loadAt(ctx, ref, options{at: use.Version, atSet: c.rt.logs != nil})
	return s, err == nil, err
}

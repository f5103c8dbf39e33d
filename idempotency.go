package holdfast

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// findKeys finds the keys under which a repetition of this call is known: the
// idempotency key, and the id of the message it sends.
func (x *execution) findKeys() ([]store.Key, error) {
	var names []string
	if slices.Contains(x.opts.given, "IdempotencyKey") {
		if x.rt.keys == nil {
			return nil, x.rt.unsupported("idempotency keys")
		}
		if err := checkKey(x.opts.key); err != nil {
			return nil, err
		}
		sum := sha256.Sum256([]byte(x.opts.key)) // a store takes fewer bytes than a key may have
		names = append(names, "key:"+hex.EncodeToString(sum[:]))
	}
	if send, ok := x.action.(SendMessage); ok && x.rt.keys != nil && send.Message != nil && send.Message.ID != "" {
		sum := sha256.Sum256([]byte(send.Message.ID))
		names = append(names, "message:"+hex.EncodeToString(sum[:]))
	}
	if len(names) == 0 {
		return nil, nil
	}
	mark, err := fingerprint(x.action)
	if err != nil {
		return nil, err
	}
	keys := make([]store.Key, len(names))
	for i, name := range names {
		keys[i] = store.Key{Name: name, Fingerprint: mark}
	}
	return keys, nil
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

// fingerprint tells one action from another by name and content.
func fingerprint(a Action) (string, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return "", &session.InvalidError{Field: "action", Reason: fmt.Sprintf("%s cannot be told from another by an idempotency key: %v", a.Name(), err)}
	}
	h := sha256.Sum256(append([]byte(a.Name()+"\n"), raw...))
	return hex.EncodeToString(h[:16]), nil
}

// replay answers a repeated call with the version the first one made. A first
// one that was interrupted is continued instead: env learns that its message
// is written already.
func (x *execution) replay(ctx context.Context, env *Environment) (session.Session, bool, error) {
	rt := x.rt
	for _, key := range x.keys {
		use, found, err := rt.keys.Key(ctx, x.ref, key.Name)
		if errors.Is(err, session.ErrNotFound) {
			continue // the load says so
		}
		if err != nil {
			return session.Session{}, false, err
		}
		switch {
		case !found:
		case use.Fingerprint != key.Fingerprint:
			return session.Session{}, false, &session.ConflictError{ID: x.ref.ID, Reason: session.ReasonKeyReused}
		case use.Version == 0:
			if env != nil {
				env.messageWritten = true
			}
		default:
			s, open, err := x.loadKeyVersion(ctx, use.Version)
			if err != nil || !open {
				return s, err == nil, err
			}
			if env != nil {
				env.messageWritten = true
			}
		}
	}
	return session.Session{}, false, nil
}

// loadKeyVersion loads the version a key led to, and reports whether the
// execution in it is still open: another action may have sealed one that was
// interrupted. If that execution has ended since, the session is returned as
// it is now.
func (x *execution) loadKeyVersion(ctx context.Context, version int64) (s session.Session, open bool, err error) {
	rt := x.rt
	s, err = rt.loadAt(ctx, x.ref, options{at: version, atSet: rt.logs != nil})
	if err != nil || !s.Running() {
		return s, false, err
	}
	now, err := rt.store.Load(ctx, x.ref, rt.tails != nil)
	if err != nil {
		return s, false, err
	}
	return now, now.Running() && now.Execution().ID == s.Execution().ID, nil
}

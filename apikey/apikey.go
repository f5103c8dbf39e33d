// Package apikey keeps the keys that callers of the server show.
//
// A key is a random secret of which only the hash is stored. It belongs to one
// tenant, may belong to one user, has scopes and may expire. All keys of a store
// are the variables of one session in a tenant of their own: who created or
// revoked a key, and when, is in that session's log.
package apikey

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/internal/table"
	"github.com/holdfast-dev/holdfast/session"
)

// Scope is something a key permits.
type Scope string

// The scopes. None includes another, except that admin includes all.
const (
	Read    Scope = "read"    // see sessions
	Write   Scope = "write"   // create and change them
	Approve Scope = "approve" // respond to approvals; apart from write, so that an agent's own key cannot approve its calls
	Admin   Scope = "admin"   // keys, and everything else
	Metrics Scope = "metrics" // the numbers for monitoring
)

// Scopes lists every scope.
func Scopes() []Scope { return []Scope{Read, Write, Approve, Admin, Metrics} }

// Tenant is the tenant that the keys themselves are kept in. No key may belong
// to it.
const Tenant = "holdfast-keys"

const (
	prefix   = "hf"
	reserved = "holdfast-" // tenants of keys, schedules and nodes
	maxLabel = 200
	idLength = 10

	// maxAge is how long a node trusts what it read: a revoked key works at most
	// this long on other nodes.
	maxAge = time.Second
)

// Key is what is known about a key. The secret is not part of it.
type Key struct {
	ID        string     `json:"id"`
	Label     string     `json:"label,omitempty"`
	Tenant    string     `json:"tenant"`
	UserID    string     `json:"userId,omitempty"`
	Scopes    []Scope    `json:"scopes"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
}

// Has reports whether the key permits something.
func (k Key) Has(s Scope) bool {
	return slices.Contains(k.Scopes, s) || slices.Contains(k.Scopes, Admin)
}

// Permit refuses a key that lacks a scope.
func (k Key) Permit(s Scope) error {
	if k.Has(s) {
		return nil
	}
	return problem.New(http.StatusForbidden, problem.CodeForbidden, "the key "+k.ID+" does not have the scope "+string(s))
}

// IssuedPrefix begins the id of a Key that stands for a token of an OpenID
// Connect issuer. It is in no store; the user's name follows.
const IssuedPrefix = "oidc:"

// Identity is on whose behalf a request with the key acts.
func (k Key) Identity() holdfast.Identity {
	actor := "key:" + k.ID
	if strings.HasPrefix(k.ID, IssuedPrefix) {
		actor = k.ID
	}
	return holdfast.Identity{Tenant: k.Tenant, UserID: k.UserID, Actor: actor}
}

// CheckTenant refuses a tenant that no caller may belong to.
func CheckTenant(tenant string) error {
	if err := session.CheckTenant(tenant); err != nil {
		return err
	}
	if strings.HasPrefix(tenant, reserved) {
		return &session.InvalidError{Field: "tenant", Reason: fmt.Sprintf("names that begin with %q are reserved", reserved)}
	}
	return nil
}

// stored is a key as its variable keeps it.
type stored struct {
	Key
	Hash string `json:"hash"` // SHA-256 of the whole secret, in hex; it has full entropy, so no salt is needed
}

// ErrUnknown is a secret that is no key: never created, expired or revoked.
var ErrUnknown = errors.New("the API key is not known, has expired or was revoked")

// Keys creates, finds and revokes keys. It is safe for concurrent use.
type Keys struct {
	table table.Table[stored]
	now   func() time.Time

	reading chan struct{} // holds one while the store is read

	mu     sync.Mutex
	cached map[string]stored // by id; nil if nothing is; guarded by mu
	readAt time.Time         // when the read of cached began; guarded by mu
	reads  int               // how many reads began; guarded by mu
	newest int               // which of them cached is from, or was dropped with; guarded by mu
}

// New returns the keys in the runtime's store. Now may be nil.
func New(rt *holdfast.Runtime, now func() time.Time) *Keys {
	if now == nil {
		now = time.Now
	}
	return &Keys{table: table.New[stored](rt, Tenant, "keys"), now: now, reading: make(chan struct{}, 1)}
}

// Create makes a key of the given label, tenant, user, scopes and expiry, and
// returns it with its secret, which cannot be had again.
func (k *Keys) Create(ctx context.Context, want Key, actor string) (Key, string, error) {
	made, secret, err := k.prepare(want)
	if err == nil {
		err = k.write(ctx, made, actor)
	}
	if err != nil {
		return Key{}, "", err
	}
	return made.Key, secret, nil
}

// CreateOnce is Create for a request with an idempotency key. A repetition
// returns the key that the first request made, without its secret: nobody has
// that but who got the first response.
func (k *Keys) CreateOnce(ctx context.Context, want Key, actor, idempotencyKey string) (Key, string, error) {
	made, secret, err := k.prepare(want)
	if err != nil {
		return Key{}, "", err
	}
	request := hash(made.Tenant + "\n" + idempotencyKey)
	made.ID = request[:idLength]
	secret = prefix + "_" + made.ID + secret[len(prefix)+1+idLength:]
	made.Hash = hash(secret)
	first, err := k.table.WriteOnce(ctx, made.ID, made, actor, request, want)
	if err != nil {
		return Key{}, "", err
	}
	k.forget()
	if first.Hash != made.Hash {
		secret = ""
	}
	return first.Key, secret, nil
}

// prepare returns a new key that is not stored, and its secret.
func (k *Keys) prepare(want Key) (made stored, secret string, err error) {
	if want.Tenant == "" {
		want.Tenant = session.DefaultTenant
	}
	if err := k.check(want); err != nil {
		return made, "", err
	}
	id, err := randomText(idLength)
	if err != nil {
		return made, "", err
	}
	random, err := randomText(43) // 256 bits
	if err != nil {
		return made, "", err
	}
	want.ID, want.CreatedAt, want.RevokedAt = id, k.now().UTC().Truncate(time.Millisecond), nil
	secret = prefix + "_" + id + "_" + random
	return stored{want, hash(secret)}, secret, nil
}

func (k *Keys) check(want Key) error {
	if err := CheckTenant(want.Tenant); err != nil {
		return err
	}
	switch {
	case len(want.Scopes) == 0:
		return &session.InvalidError{Field: "scopes", Reason: "a key needs at least one of " + scopeNames()}
	case len(want.Label) > maxLabel:
		return &session.InvalidError{Field: "label", Reason: fmt.Sprintf("is longer than %d bytes", maxLabel)}
	case want.ExpiresAt != nil && !want.ExpiresAt.After(k.now()):
		return &session.InvalidError{Field: "expiresAt", Reason: "is in the past"}
	}
	for _, s := range want.Scopes {
		if !slices.Contains(Scopes(), s) {
			return &session.InvalidError{Field: "scopes", Reason: fmt.Sprintf("%q is not one of %s", s, scopeNames())}
		}
	}
	return nil
}

func scopeNames() string {
	names := make([]string, 0, len(Scopes()))
	for _, s := range Scopes() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// List returns all keys of a tenant, revoked ones too, oldest first; those of
// all tenants for "".
func (k *Keys) List(ctx context.Context, tenant string) ([]Key, error) {
	all, err := k.read(ctx)
	if err != nil {
		return nil, err
	}
	list := []Key{}
	for _, s := range all {
		if tenant == "" || s.Tenant == tenant {
			list = append(list, s.Key)
		}
	}
	slices.SortFunc(list, func(a, b Key) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// Revoke ends a key of a tenant, or of any tenant for "". Other nodes refuse it
// within a second. Revoking it again changes nothing.
func (k *Keys) Revoke(ctx context.Context, tenant, id, actor string) (Key, error) {
	all, err := k.read(ctx)
	if err != nil {
		return Key{}, err
	}
	found, ok := all[id]
	if !ok || tenant != "" && found.Tenant != tenant {
		return Key{}, &session.NotFoundError{What: "key", ID: id}
	}
	if found.RevokedAt != nil {
		return found.Key, nil
	}
	at := k.now().UTC().Truncate(time.Millisecond)
	found.RevokedAt = &at
	return found.Key, k.write(ctx, found, actor)
}

// form is what a secret looks like.
var form = regexp.MustCompile(`^` + prefix + `_([0-9A-Za-z]{10})_[0-9A-Za-z]{43}$`)

// Find returns the key of a secret, or ErrUnknown.
func (k *Keys) Find(ctx context.Context, secret string) (Key, error) {
	match := form.FindStringSubmatch(secret)
	if match == nil {
		return Key{}, ErrUnknown
	}
	all, err := k.recent(ctx, match[1])
	if err != nil {
		return Key{}, err
	}
	found, ok := all[match[1]]
	if !ok || subtle.ConstantTimeCompare([]byte(found.Hash), []byte(hash(secret))) != 1 ||
		found.RevokedAt != nil || found.ExpiresAt != nil && !found.ExpiresAt.After(k.now()) {
		return Key{}, ErrUnknown
	}
	return found.Key, nil
}

// recent returns what was read lately, if that knows the key. If not, another
// process may have made the key a moment ago, so the store is read again. All who
// wait share one read that began after they came: many wrong keys at once cost a
// node no more than one read at a time.
func (k *Keys) recent(ctx context.Context, id string) (map[string]stored, error) {
	k.mu.Lock()
	cached, age, reads := k.cached, k.now().Sub(k.readAt), k.reads
	k.mu.Unlock()
	if _, known := cached[id]; known && age >= 0 && age < maxAge {
		return cached, nil
	}
	select {
	case k.reading <- struct{}{}:
		defer func() { <-k.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	k.mu.Lock()
	cached, shared := k.cached, k.newest > reads
	k.mu.Unlock()
	if shared && cached != nil {
		return cached, nil
	}
	return k.read(ctx)
}

// read returns all keys as the store has them now.
func (k *Keys) read(ctx context.Context) (map[string]stored, error) {
	k.mu.Lock()
	k.reads++
	number, at := k.reads, k.now()
	k.mu.Unlock()
	all, _, err := k.table.Read(ctx)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if number > k.newest {
		k.cached, k.readAt, k.newest = all, at, number
	}
	return maps.Clone(all), nil
}

func (k *Keys) write(ctx context.Context, s stored, actor string) error {
	if err := k.table.Write(ctx, s.ID, s, actor); err != nil {
		return err
	}
	k.forget()
	return nil
}

// forget drops what was read, also by a read that is not back yet.
func (k *Keys) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cached, k.newest = nil, k.reads
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// randomText returns n random letters and digits.
func randomText(n int) (string, error) {
	text := make([]byte, n)
	for i := range text {
		at, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			return "", fmt.Errorf("make a random text: %w", err)
		}
		text[i] = alphabet[at.Int64()]
	}
	return string(text), nil
}

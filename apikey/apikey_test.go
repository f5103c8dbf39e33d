package apikey_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newKeys(t *testing.T, st store.Store, c *clock) *apikey.Keys {
	t.Helper()
	rt, err := holdfast.New(holdfast.Config{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return apikey.New(rt, c.now)
}

func create(t *testing.T, k *apikey.Keys, want apikey.Key) (apikey.Key, string) {
	t.Helper()
	key, secret, err := k.Create(context.Background(), want, "test")
	if err != nil {
		t.Fatal(err)
	}
	return key, secret
}

func TestFind_onlyTheWholeSecretOpens(t *testing.T) {
	t.Parallel()
	ctx, c := context.Background(), &clock{at: time.Unix(1e9, 0)}
	k := newKeys(t, inmem.New(inmem.Config{}), c)
	made, secret := create(t, k, apikey.Key{Tenant: "acme", UserID: "ann", Scopes: []apikey.Scope{apikey.Read}})
	found, err := k.Find(ctx, secret)
	if err != nil || found.ID != made.ID || found.Tenant != "acme" || found.Identity().UserID != "ann" || !found.Has(apikey.Read) || found.Has(apikey.Write) {
		t.Fatalf("%+v, %v", found, err)
	}
	_, other := create(t, k, apikey.Key{Scopes: []apikey.Scope{apikey.Read}})
	for _, wrong := range []string{
		"", "hf", secret + "x", strings.ToLower(secret), secret[:len(secret)-1], secret[:len(secret)-1] + "!",
		secret[:14] + other[14:], " " + secret, secret + "\n",
	} {
		if wrong == secret {
			continue
		}
		if _, err := k.Find(ctx, wrong); !errors.Is(err, apikey.ErrUnknown) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// A key that one process made opens on a node that has just looked for another
// one, while many look for what is no key.
func TestFind_aNewKeyOpensOnEveryNodeAtOnce(t *testing.T) {
	t.Parallel()
	ctx, c, st := context.Background(), &clock{at: time.Unix(1e9, 0)}, inmem.New(inmem.Config{})
	here, there := newKeys(t, st, c), newKeys(t, st, c)
	wrong := "hf_" + strings.Repeat("0", 10) + "_" + strings.Repeat("0", 43)
	for range 20 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := there.Find(ctx, wrong); !errors.Is(err, apikey.ErrUnknown) {
					t.Error(err)
				}
			})
		}
		_, secret := create(t, here, apikey.Key{Scopes: []apikey.Scope{apikey.Read}})
		if _, err := there.Find(ctx, secret); err != nil {
			t.Error("a new key is not known on another node:", err)
		}
		all.Wait()
	}
}

func TestRevoke_endsAKeyOnEveryNodeWithinASecond(t *testing.T) {
	t.Parallel()
	ctx, c, st := context.Background(), &clock{at: time.Unix(1e9, 0)}, inmem.New(inmem.Config{})
	here, there := newKeys(t, st, c), newKeys(t, st, c)
	key, secret := create(t, here, apikey.Key{Scopes: []apikey.Scope{apikey.Write}})
	if _, err := there.Find(ctx, secret); err != nil {
		t.Fatal("a new key is not known on another node:", err)
	}
	if _, err := here.Revoke(ctx, "other", key.ID, "test"); !errors.Is(err, session.ErrNotFound) {
		t.Fatal("another tenant revoked it:", err)
	}
	for range 2 { // again changes nothing
		if _, err := here.Revoke(ctx, session.DefaultTenant, key.ID, "test"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := here.Find(ctx, secret); !errors.Is(err, apikey.ErrUnknown) {
		t.Error("it still opens here:", err)
	}
	c.add(time.Second)
	if _, err := there.Find(ctx, secret); !errors.Is(err, apikey.ErrUnknown) {
		t.Error("it still opens there:", err)
	}
	list, err := there.List(ctx, "")
	if err != nil || len(list) != 1 || list[0].RevokedAt == nil {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestFind_anExpiredKeyIsUnknown(t *testing.T) {
	t.Parallel()
	ctx, c := context.Background(), &clock{at: time.Unix(1e9, 0)}
	k := newKeys(t, inmem.New(inmem.Config{}), c)
	end := c.now().Add(time.Hour)
	_, secret := create(t, k, apikey.Key{Scopes: []apikey.Scope{apikey.Admin}, ExpiresAt: &end})
	if _, err := k.Find(ctx, secret); err != nil {
		t.Fatal(err)
	}
	c.add(time.Hour)
	if _, err := k.Find(ctx, secret); !errors.Is(err, apikey.ErrUnknown) {
		t.Error(err)
	}
}

func TestCreate_refusesWhatNoKeyMayBe(t *testing.T) {
	t.Parallel()
	c := &clock{at: time.Unix(1e9, 0)}
	k := newKeys(t, inmem.New(inmem.Config{}), c)
	past := c.now()
	for name, want := range map[string]apikey.Key{
		"no scope":          {},
		"unknown scope":     {Scopes: []apikey.Scope{"root"}},
		"the keys' tenant":  {Tenant: apikey.Tenant, Scopes: []apikey.Scope{apikey.Read}},
		"a bad tenant":      {Tenant: "a b", Scopes: []apikey.Scope{apikey.Read}},
		"expired":           {Scopes: []apikey.Scope{apikey.Read}, ExpiresAt: &past},
		"a very long label": {Scopes: []apikey.Scope{apikey.Read}, Label: strings.Repeat("x", 201)},
	} {
		if _, _, err := k.Create(context.Background(), want, "test"); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := k.List(context.Background(), ""); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// Two processes that create the first keys at once both succeed, and the store
// holds no secret.
func TestCreate_atOnceAndOnlyHashesAreStored(t *testing.T) {
	t.Parallel()
	ctx, c, st := context.Background(), &clock{at: time.Unix(1e9, 0)}, inmem.New(inmem.Config{})
	nodes := []*apikey.Keys{newKeys(t, st, c), newKeys(t, st, c)}
	secrets := make([]string, 8)
	var all sync.WaitGroup
	for i := range secrets {
		all.Go(func() {
			_, secret, err := nodes[i%2].Create(ctx, apikey.Key{Scopes: []apikey.Scope{apikey.Read}}, "test")
			if err != nil {
				t.Error(err)
			}
			secrets[i] = secret
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	s, err := st.Load(ctx, store.Ref{Tenant: apikey.Tenant, ID: "keys"}, false)
	if err != nil {
		t.Fatal(err)
	}
	document, err := s.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if _, err := nodes[0].Find(ctx, secret); err != nil {
			t.Error(err)
		}
		if strings.Contains(string(document), secret[14:]) {
			t.Error("a secret is stored")
		}
	}
}

package server_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/server"
)

// claims are the claims of a token.
type claims map[string]any

// fakeIssuer is an OpenID Connect issuer on a real listener: discovery, keys,
// and the code flow with PKCE.
type fakeIssuer struct {
	t    *testing.T
	http *httptest.Server

	mu     sync.Mutex // guards the rest
	keys   []jose.JSONWebKey
	signer crypto.Signer
	kid    string
	alg    jose.SignatureAlgorithm
	broken bool
	asked  map[string]url.Values // what the authorization endpoint was sent, by code
	says   claims                // of tokens of the code flow
}

func newFakeIssuer(t *testing.T) *fakeIssuer {
	t.Helper()
	i := &fakeIssuer{t: t, asked: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, map[string]any{
			"issuer": i.http.URL, "jwks_uri": i.http.URL + "/keys", "authorization_endpoint": i.http.URL + "/authorize",
			"token_endpoint": i.http.URL + "/token", "id_token_signing_alg_values_supported": []string{"RS256", "ES256", "none"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		keys := jose.JSONWebKeySet{Keys: i.keys}
		i.mu.Unlock()
		i.answer(w, keys)
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.asked["the-code"] = r.URL.Query()
		http.Redirect(w, r, r.URL.Query().Get("redirect_uri")+"?code=the-code&state="+url.QueryEscape(r.URL.Query().Get("state")), http.StatusSeeOther)
	})
	mux.HandleFunc("POST /token", i.exchange)
	i.http = httptest.NewServer(mux)
	t.Cleanup(i.http.Close)
	i.rotate("rsa-1", jose.RS256)
	return i
}

func (i *fakeIssuer) answer(w http.ResponseWriter, v any) {
	i.mu.Lock()
	broken := i.broken
	i.mu.Unlock()
	if broken {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // the reader may be gone
}

// exchange gives a token for a code, to whoever can prove that it began.
func (i *fakeIssuer) exchange(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	asked, ok := i.asked[r.FormValue("code")]
	delete(i.asked, r.FormValue("code"))
	says := maps.Clone(i.says)
	i.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !ok || asked.Get("code_challenge_method") != "S256" || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || r.FormValue("redirect_uri") != asked.Get("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if _, given := says["nonce"]; !given {
		says["nonce"] = asked.Get("nonce")
	}
	i.answer(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": i.token(says)})
}

// rotate makes a new key the only one.
func (i *fakeIssuer) rotate(kid string, alg jose.SignatureAlgorithm) {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	var err error
	if alg == jose.ES256 {
		i.signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		i.signer, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		i.t.Fatal(err)
	}
	i.kid, i.alg = kid, alg
	i.keys = []jose.JSONWebKey{{Key: i.signer.Public(), KeyID: kid, Algorithm: string(alg), Use: "sig"}}
}

func (i *fakeIssuer) setBroken(broken bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.broken = broken
}

// full are the claims of a token that is good.
func (i *fakeIssuer) full(change claims) claims {
	c := claims{
		"iss": i.http.URL, "aud": "holdfast", "sub": "alice", "tenant": "default", "scope": "openid read write approve",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for name, value := range change {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

// token signs the claims of full with changes.
func (i *fakeIssuer) token(change claims) string {
	i.t.Helper()
	i.mu.Lock()
	key := jose.SigningKey{Algorithm: i.alg, Key: jose.JSONWebKey{Key: i.signer, KeyID: i.kid}}
	i.mu.Unlock()
	return sign(i.t, key, i.full(change))
}

func sign(t *testing.T, key jose.SigningKey, c claims) string {
	t.Helper()
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// trusting sets a node up to accept tokens of an issuer.
func trusting(i *fakeIssuer) func(*holdfast.Config, *server.Config) {
	return func(_ *holdfast.Config, c *server.Config) {
		c.OIDC = &server.OIDC{Issuer: i.http.URL, Audience: "holdfast"}
	}
}

func TestOIDC_aTokenIsAsGoodAsAKey(t *testing.T) {
	t.Parallel()
	i := newFakeIssuer(t)
	n := newNode(t, trusting(i))
	token := i.token(nil)
	made := n.create(request{key: token})
	if made.UserID != "alice" {
		t.Errorf("%+v", made)
	}
	commits := want[struct{ Items []struct{ Actor string } }](t, n.do("GET", "/v1/sessions/"+made.ID+"/versions", request{key: token}), 200)
	if len(commits.Items) != 1 || commits.Items[0].Actor != "oidc:alice" {
		t.Errorf("%+v", commits)
	}
	who := want[struct{ Tenant, UserID, Key string }](t, n.do("GET", "/v1/system/info", request{key: token}), 200)
	if who.Tenant != "default" || who.UserID != "alice" || who.Key != "oidc:alice" {
		t.Errorf("%+v", who)
	}
	refused(t, n.do("GET", "/v1/keys", request{key: token}), 403, "forbidden")
	want[struct{}](t, n.do("GET", "/v1/keys", request{key: i.token(claims{"scope": []string{"admin", "other"}, "aud": []string{"x", "holdfast"}})}), 200)
	want[struct{}](t, n.do("GET", "/v1/sessions", request{}), 200) // keys work beside it
	// The keys of the issuer change, and their kind.
	i.rotate("ec-2", jose.ES256)
	want[struct{}](t, n.do("GET", "/v1/sessions", request{key: i.token(nil)}), 200)
	refused(t, n.do("GET", "/v1/sessions", request{key: token}), 401, "unauthenticated") // its key is gone
}

func TestOIDC_refusesEverythingElse(t *testing.T) {
	t.Parallel()
	i := newFakeIssuer(t)
	n := newNode(t, trusting(i))
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	published, err := json.Marshal(i.keys[0])
	if err != nil {
		t.Fatal(err)
	}
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(jsonText(t, i.full(nil)))) + "."
	good := strings.Split(i.token(nil), ".")
	for name, token := range map[string]string{
		"expired":             i.token(claims{"exp": time.Now().Add(-time.Minute).Unix()}),
		"without an end":      i.token(claims{"exp": nil}),
		"not yet":             i.token(claims{"nbf": time.Now().Add(time.Hour).Unix()}),
		"another issuer":      i.token(claims{"iss": "https://evil.example"}),
		"another audience":    i.token(claims{"aud": "other"}),
		"no audience":         i.token(claims{"aud": nil}),
		"no signature":        unsigned,
		"a cut signature":     good[0] + "." + good[1] + ".",
		"another's claims":    good[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(jsonText(t, i.full(claims{"sub": "eve"})))) + "." + good[2],
		"a foreign key":       sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: foreign, KeyID: "rsa-1"}}, i.full(nil)),
		"an unknown key":      sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: foreign, KeyID: "other"}}, i.full(nil)),
		"the key as a secret": sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: published}, i.full(nil)),
		"no token":            "a.b.c",
	} {
		if r := n.do("GET", "/v1/sessions", request{key: token}); r.status != 401 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	for claim, wrong := range map[string][]any{
		"tenant": {nil, "", 7, "holdfast-keys", "a/b", []string{"default"}},
		"sub":    {"", strings.Repeat("x", 300), "a\nb"},
		"scope":  {nil, "", "openid", []string{}, 7},
	} {
		for _, value := range wrong {
			p := refused(t, n.do("GET", "/v1/sessions", request{key: i.token(claims{claim: value})}), 403, "forbidden")
			if !strings.Contains(p.Detail, `"`+claim+`"`) {
				t.Errorf("%s %v: %s", claim, value, p.Detail)
			}
		}
	}
	// A token is no cookie: it could not be revoked.
	refused(t, n.do("GET", "/v1/sessions", request{key: "-", header: map[string]string{"Cookie": "hf=" + i.token(nil)}}), 401, "unauthenticated")
	// A server without an issuer takes no tokens.
	refused(t, newNode(t).do("GET", "/v1/sessions", request{key: i.token(nil)}), 401, "unauthenticated")
}

// An issuer that is away keeps nobody else out, and is asked again.
func TestOIDC_theIssuerIsAway(t *testing.T) {
	t.Parallel()
	i := newFakeIssuer(t)
	i.setBroken(true)
	begun := time.Now()
	var ahead atomic.Int64 // the clock moves by it alone
	n := newNode(t, trusting(i), func(_ *holdfast.Config, c *server.Config) {
		c.Now = func() time.Time { return begun.Add(time.Duration(ahead.Load())) }
	})
	want[struct{}](t, n.do("GET", "/v1/sessions", request{}), 200)
	if r := n.do("GET", "/v1/sessions", request{key: i.token(nil)}); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", r.status, r.body)
	}
	i.setBroken(false)
	refused(t, n.do("GET", "/v1/sessions", request{key: i.token(nil)}), 503, "issuer_unreachable") // it is not asked for every token
	ahead.Add(int64(time.Minute))
	old := i.token(nil)
	want[struct{}](t, n.do("GET", "/v1/sessions", request{key: old}), 200)
	// Later it is away again: known keys are enough, and unknown ones cannot be checked.
	i.setBroken(true)
	i.rotate("rsa-2", jose.RS256)
	want[struct{}](t, n.do("GET", "/v1/sessions", request{key: old}), 200)
	refused(t, n.do("GET", "/v1/sessions", request{key: i.token(nil)}), 503, "issuer_unreachable")
	i.setBroken(false)
	want[struct{}](t, n.do("GET", "/v1/sessions", request{key: i.token(nil)}), 200)
	// Tokens with made-up keys do not make the server ask the issuer without end.
	for range 30 {
		if r := n.do("GET", "/v1/sessions", request{key: sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.signer, KeyID: rand.Text()}}, i.full(nil))}); r.status < 401 {
			t.Errorf("%d", r.status)
		}
	}
	want[struct{}](t, n.do("GET", "/v1/sessions", request{key: i.token(nil)}), 200)
}

func TestOIDC_theConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for _, o := range []server.OIDC{{}, {Issuer: "login.example", Audience: "a"}, {Issuer: "http://login.example", Audience: "a"}, {Issuer: "https://login.example"}} {
		if _, err := server.New(server.Config{Runtime: n.rt, Keys: n.keys, OIDC: &o}); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// Identities of an issuer see nothing of other tenants, on every route.
func TestOIDC_hidesOtherTenants(t *testing.T) {
	t.Parallel()
	i := newFakeIssuer(t)
	n, e := newEstateNode(t, trusting(i))
	e.hidden(n, i.token(claims{"tenant": "other", "scope": "admin"}))
}

// A browser logs in at the issuer and gets the cookie that every login gets.
func TestOIDC_aBrowserLogsIn(t *testing.T) {
	t.Parallel()
	i := newFakeIssuer(t)
	n := newNode(t, page, trusting(i), func(_ *holdfast.Config, c *server.Config) {
		c.Prefix, c.OIDC.ClientID = "/hf", "the-page"
	})
	i.says = claims{"aud": "the-page"}
	b := newBrowser(t, n)
	b.shows("/hf/runs?x=1", 200, "/hf/runs?x=1", `href="/hf/login/oidc?next=%2Fruns%3Fx%3D1"`)
	b.shows("/hf/login/oidc?next=%2Fruns%3Fx%3D1", 200, "/hf/runs?x=1", "the page at /runs")
	b.shows("/hf/", 200, "/hf/", "the page at /")
	keys, err := n.keys.List(context.Background(), "default")
	if err != nil {
		t.Fatal(err)
	}
	login := keys[len(keys)-1]
	if login.UserID != "alice" || login.Label != "login with key oidc:alice" || login.Has(apikey.Admin) || login.ExpiresAt == nil || time.Until(*login.ExpiresAt) > 13*time.Hour {
		t.Errorf("%+v", login)
	}
	// Who did not begin the login does not end it.
	stranger := newBrowser(t, n)
	stranger.shows("/hf/login/oidc/callback?code=the-code&state=x", 401, "/hf/login/oidc/callback?code=the-code&state=x", "did not begin in this browser")
	stranger.shows("/hf/", 200, "/hf/", "<form")
	for name, says := range map[string]claims{
		"the nonce of another login": {"aud": "the-page", "nonce": "other"},
		"another audience":           {"aud": "holdfast"},
		"no tenant":                  {"aud": "the-page", "tenant": nil},
	} {
		i.mu.Lock()
		i.says = says
		i.mu.Unlock()
		again := newBrowser(t, n)
		if status, at, text, _ := again.open("GET", "/hf/login/oidc", nil); status != 401 && status != 403 || !strings.HasPrefix(at, "/hf/login/oidc/callback") || !strings.Contains(text, "<form") {
			t.Errorf("%s: %d %s %s", name, status, at, text)
		}
		again.shows("/hf/", 200, "/hf/", "<form")
	}
	if _, _, text, _ := b.open("GET", "/hf/login/oidc/callback?error=access_denied", nil); !strings.Contains(text, "<form") {
		t.Error(text)
	}
}

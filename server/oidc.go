package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
)

// OIDC says whose tokens are accepted beside API keys. Issuer and Audience are
// required.
type OIDC struct {
	Issuer   string // such as https://login.example; only on loopback without TLS
	Audience string // that a token must be meant for

	// The claims of a token that say who it is. A token without one of them is
	// refused.
	TenantClaim string // a name; "": tenant
	UserClaim   string // a name; "": sub
	ScopeClaim  string // names of scopes, with spaces between them or as a list; "": scope

	// ClientID is this server as the issuer knows it, for browsers that log in
	// there; "": the audience. ClientSecret may be empty.
	ClientID     string
	ClientSecret string

	HTTP *http.Client // to the issuer; nil: one with a limit of 10 s
}

const (
	issuerWait    = 10 * time.Second
	issuerPause   = 5 * time.Second  // before an issuer that did not answer is asked again
	issuerAge     = time.Hour        // after which the keys of the issuer are read anew
	oidcLogin     = 12 * time.Hour   // how long a login lasts: longer than a token, but the issuer is asked again soon
	issuerRefetch = 10 * time.Second // between two readings of the keys, once issuerBurst are used up
	issuerBurst   = 20
	maxUser       = 200
)

// signing are the algorithms of tokens: those whose keys are public.
var signing = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// issuer reads tokens. It reaches the issuer when the first token comes, so
// that a server starts and serves keys without it.
type issuer struct {
	OIDC
	now    func() time.Time
	client *http.Client
	failed atomic.Int64 // requests to the issuer without an answer

	mu       sync.Mutex     // guards the rest
	provider *oidc.Provider // nil: not reached yet
	keys     oidc.KeySet
	readAt   time.Time
	retryAt  time.Time
}

// newIssuer checks the configuration; nil for none.
func newIssuer(o *OIDC, now func() time.Time) (*issuer, error) {
	if o == nil {
		return nil, nil
	}
	refuse := func(field, reason string) (*issuer, error) {
		return nil, &session.InvalidError{Field: "OIDC." + field, Reason: reason}
	}
	at, err := url.Parse(o.Issuer)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http":
		return refuse("Issuer", fmt.Sprintf("%q is not an address such as https://login.example", o.Issuer))
	case at.Scheme == "http" && !isLoopback(at.Hostname()):
		return refuse("Issuer", "needs https, because its keys decide who may do what")
	case o.Audience == "":
		return refuse("Audience", "is missing; it is the name of this server at the issuer")
	}
	i := &issuer{OIDC: *o, now: now}
	i.TenantClaim, i.UserClaim, i.ScopeClaim = cmp.Or(o.TenantClaim, "tenant"), cmp.Or(o.UserClaim, "sub"), cmp.Or(o.ScopeClaim, "scope")
	i.ClientID = cmp.Or(o.ClientID, o.Audience)
	base := &http.Client{Timeout: issuerWait}
	if o.HTTP != nil {
		base = o.HTTP
	}
	client := *base
	client.Transport = &countedTransport{issuer: i, next: cmp.Or[http.RoundTripper](base.Transport, http.DefaultTransport), limit: rate.NewLimiter(rate.Every(issuerRefetch), issuerBurst)}
	i.client = &client
	return i, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// countedTransport counts requests that got no answer, and bounds how often
// tokens with unknown keys make this server ask the issuer.
type countedTransport struct {
	issuer *issuer
	next   http.RoundTripper
	limit  *rate.Limiter
}

// RoundTrip sends a request to the issuer.
func (t *countedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && !t.limit.AllowN(t.issuer.now(), 1) {
		t.issuer.failed.Add(1)
		return nil, fmt.Errorf("the issuer was asked too often; again in %s", issuerRefetch)
	}
	res, err := t.next.RoundTrip(r)
	if err != nil || res.StatusCode >= http.StatusInternalServerError {
		t.issuer.failed.Add(1)
	}
	return res, err
}

// isToken reports a secret that can only be a token.
func isToken(secret string) bool { return strings.Count(secret, ".") == 2 }

// reach returns what the issuer says about itself. What was read an hour ago is
// read anew, so that keys which the issuer withdrew are not trusted for ever; an
// issuer that cannot be reached is taken as it was.
func (i *issuer) reach(ctx context.Context) (*oidc.Provider, oidc.KeySet, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	if i.provider != nil && now.Sub(i.readAt) < issuerAge || now.Before(i.retryAt) {
		if i.provider == nil {
			return nil, nil, i.unreachable()
		}
		return i.provider, i.keys, nil
	}
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), i.client)
	provider, err := oidc.NewProvider(ctx, i.Issuer)
	var said struct {
		Keys string `json:"jwks_uri"`
	}
	if err == nil {
		err = provider.Claims(&said)
	}
	if err != nil {
		i.retryAt = now.Add(issuerPause)
		if i.provider == nil {
			return nil, nil, i.unreachable()
		}
		return i.provider, i.keys, nil
	}
	i.provider, i.keys, i.readAt = provider, oidc.NewRemoteKeySet(ctx, said.Keys), now
	return i.provider, i.keys, nil
}

func (i *issuer) unreachable() *problem.Problem {
	p := problem.New(http.StatusServiceUnavailable, problem.CodeIssuer, "the issuer "+i.Issuer+" cannot be asked now, so its tokens cannot be checked; API keys work")
	p.RetryAfter = int(issuerPause / time.Second)
	return p
}

// verify reads a token that is meant for an audience.
func (i *issuer) verify(ctx context.Context, raw, audience string) (*oidc.IDToken, error) {
	_, keys, err := i.reach(ctx)
	if err != nil {
		return nil, err
	}
	failed := i.failed.Load()
	verifier := oidc.NewVerifier(i.Issuer, keys, &oidc.Config{ClientID: audience, SupportedSigningAlgs: signing, Now: i.now})
	token, err := verifier.Verify(ctx, raw)
	switch {
	case err != nil && i.failed.Load() != failed:
		return nil, i.unreachable()
	case err != nil:
		return nil, problem.New(http.StatusUnauthorized, problem.CodeUnauthenticated, "the token is not valid: "+strings.TrimPrefix(err.Error(), "oidc: "))
	}
	return token, nil
}

// find returns whom a bearer token stands for.
func (i *issuer) find(ctx context.Context, raw string) (apikey.Key, error) {
	token, err := i.verify(ctx, raw, i.Audience)
	if err != nil {
		return apikey.Key{}, err
	}
	return i.identify(token)
}

// identify reads who a token stands for. It is as good as a key, until it
// expires.
func (i *issuer) identify(token *oidc.IDToken) (apikey.Key, error) {
	claims := map[string]json.RawMessage{}
	if err := token.Claims(&claims); err != nil {
		return apikey.Key{}, forbidden("the token has no claims that can be read")
	}
	tenant, user := claimText(claims[i.TenantClaim]), claimText(claims[i.UserClaim])
	scopes := claimScopes(claims[i.ScopeClaim])
	switch {
	case tenant == "":
		return apikey.Key{}, forbidden(fmt.Sprintf("the token has no claim %q with the name of a tenant", i.TenantClaim))
	case apikey.CheckTenant(tenant) != nil:
		return apikey.Key{}, forbidden(fmt.Sprintf("the claim %q: %v", i.TenantClaim, apikey.CheckTenant(tenant)))
	case user == "" || len(user) > maxUser || strings.ContainsFunc(user, func(r rune) bool { return !unicode.IsPrint(r) }):
		return apikey.Key{}, forbidden(fmt.Sprintf("the token has no claim %q with the name of a user", i.UserClaim))
	case len(scopes) == 0:
		return apikey.Key{}, forbidden(fmt.Sprintf("the token has no claim %q with one of the scopes read, write, approve, admin, metrics", i.ScopeClaim))
	}
	until := token.Expiry
	return apikey.Key{ID: apikey.IssuedPrefix + user, Tenant: tenant, UserID: user, Scopes: scopes, CreatedAt: token.IssuedAt, ExpiresAt: &until}, nil
}

func forbidden(detail string) *problem.Problem {
	return problem.New(http.StatusForbidden, problem.CodeForbidden, detail)
}

// claimText reads a claim that is a text; "" for anything else.
func claimText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// claimScopes reads the scopes of a claim. What is none of ours is for others.
func claimScopes(raw json.RawMessage) (scopes []apikey.Scope) {
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		list = strings.Fields(claimText(raw))
	}
	for _, name := range list {
		if s := apikey.Scope(name); slices.Contains(apikey.Scopes(), s) && !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

package server

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/holdfast-dev/holdfast/internal/problem"
)

// The paths of a login at the issuer.
const (
	oidcPath     = "/login/oidc"
	oidcCallback = "/login/oidc/callback"
)

// startedLogin is a login at the issuer that has begun. The browser keeps it in
// a cookie, so that any node can end it.
type startedLogin struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Next     string `json:"next"`
}

func (s *Server) addOIDCLogin(mux *http.ServeMux) {
	if s.issuer == nil {
		return
	}
	mux.HandleFunc("GET "+oidcPath, s.beginOIDCLogin)
	mux.HandleFunc("GET "+oidcCallback, s.endOIDCLogin)
}

// oauth returns what the code flow works with. The issuer sends browsers back to
// the host that they asked.
func (s *Server) oauth(ctx context.Context, r *http.Request) (*oauth2.Config, error) {
	provider, _, err := s.issuer.reach(ctx)
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if isSecure(r) {
		scheme = "https"
	}
	return &oauth2.Config{
		ClientID: s.issuer.ClientID, ClientSecret: s.issuer.ClientSecret, Endpoint: provider.Endpoint(),
		RedirectURL: scheme + "://" + r.Host + s.config.Prefix + oidcCallback, Scopes: []string{oidc.ScopeOpenID, "profile"},
	}, nil
}

// beginOIDCLogin sends a browser to the issuer.
func (s *Server) beginOIDCLogin(w http.ResponseWriter, r *http.Request) {
	o, err := s.oauth(r.Context(), r)
	if err != nil {
		s.refuseLogin(w, r, problem.Of(err))
		return
	}
	begun := startedLogin{rand.Text(), rand.Text(), oauth2.GenerateVerifier(), s.localPath(r.URL.Query().Get("next"))}
	kept, err := json.Marshal(begun)
	if err != nil {
		s.refuseLogin(w, r, problem.Of(err))
		return
	}
	s.writeLoginCookie(w, r, http.Cookie{Value: base64.RawURLEncoding.EncodeToString(kept), MaxAge: int(codeLength.Seconds())})
	http.Redirect(w, r, o.AuthCodeURL(begun.State, oidc.Nonce(begun.Nonce), oauth2.S256ChallengeOption(begun.Verifier)), http.StatusSeeOther)
}

// endOIDCLogin takes the browser that comes back: it must be the one that went
// there, and what the issuer says about it must be meant for that login.
func (s *Server) endOIDCLogin(w http.ResponseWriter, r *http.Request) {
	begun, ok := s.readLoginCookie(r)
	s.writeLoginCookie(w, r, http.Cookie{MaxAge: -1})
	q := r.URL.Query()
	switch {
	case !ok || subtle.ConstantTimeCompare([]byte(begun.State), []byte(q.Get("state"))) != 1:
		s.refuseLogin(w, r, problem.New(http.StatusUnauthorized, problem.CodeUnauthenticated, "this login did not begin in this browser, or is over; log in again"))
		return
	case q.Get("error") != "":
		s.refuseLogin(w, r, problem.New(http.StatusUnauthorized, problem.CodeUnauthenticated, "the issuer refused the login: "+quoteShort(q.Get("error"))))
		return
	}
	o, err := s.oauth(r.Context(), r)
	if err != nil {
		s.refuseLogin(w, r, problem.Of(err))
		return
	}
	answer, err := o.Exchange(oidc.ClientContext(r.Context(), s.issuer.client), q.Get("code"), oauth2.VerifierOption(begun.Verifier))
	if err != nil {
		s.log.WarnContext(r.Context(), "the issuer gave no token for a login", "error", err)
		s.refuseLogin(w, r, problem.New(http.StatusUnauthorized, problem.CodeUnauthenticated, "the issuer did not confirm the login; log in again"))
		return
	}
	raw, _ := answer.Extra("id_token").(string)
	token, err := s.issuer.verify(r.Context(), raw, s.issuer.ClientID)
	if err == nil && subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(begun.Nonce)) != 1 {
		err = problem.New(http.StatusUnauthorized, problem.CodeUnauthenticated, "the token is not of this login")
	}
	if err != nil {
		s.refuseLogin(w, r, problem.Of(err))
		return
	}
	key, err := s.issuer.identify(token)
	if err != nil {
		s.refuseLogin(w, r, problem.Of(err))
		return
	}
	until := s.config.Now().Add(oidcLogin)
	key.ExpiresAt = &until
	if s.setCookie(w, r, key) {
		http.Redirect(w, r, begun.Next, http.StatusSeeOther)
	}
}

// writeLoginCookie keeps a login that has begun in the browser.
func (s *Server) writeLoginCookie(w http.ResponseWriter, r *http.Request, c http.Cookie) {
	c.Name = s.cookieName(r) + "-login"
	s.writeCookie(w, r, c)
}

func (s *Server) readLoginCookie(r *http.Request) (begun startedLogin, ok bool) {
	c, err := r.Cookie(s.cookieName(r) + "-login")
	if err != nil {
		return begun, false
	}
	kept, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || json.Unmarshal(kept, &begun) != nil {
		return begun, false
	}
	begun.Next = s.localPath(begun.Next)
	return begun, begun.State != "" && begun.Nonce != "" && begun.Verifier != ""
}

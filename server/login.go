package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
)

const (
	loginLength = 7 * 24 * time.Hour
	codeLength  = 10 * time.Minute
)

// codes are the one-time codes that log a browser in.
type codes struct {
	now func() time.Time

	mu     sync.Mutex
	issued map[string]issuedCode // guarded by mu
}

type issuedCode struct {
	key   apikey.Key
	until time.Time
}

func newCodes(now func() time.Time) *codes { return &codes{now: now, issued: map[string]issuedCode{}} }

// LoginPath returns a path that logs a browser in once, within ten minutes,
// with the tenant, user and scopes of a key. A key without an id stands for
// whoever started the server.
func (s *Server) LoginPath(key apikey.Key) string {
	code := rand.Text()
	s.codes.mu.Lock()
	defer s.codes.mu.Unlock()
	now := s.codes.now()
	maps.DeleteFunc(s.codes.issued, func(_ string, c issuedCode) bool { return !now.Before(c.until) })
	s.codes.issued[code] = issuedCode{key, now.Add(codeLength)}
	return s.config.Prefix + "/?code=" + code
}

// addCodes adds the route for programs that open a browser for their user.
func (s *Server) addCodes() {
	register(s, apikey.Read, huma.Operation{
		OperationID: "create-login", Method: http.MethodPost, Path: "/v1/logins", DefaultStatus: http.StatusCreated,
		Summary: "Make an address that logs a browser in, once", Tags: []string{"keys"},
		Description: "The login has the tenant, user and scopes of the key. The address works on this node, within ten minutes. Nothing is saved before it is opened; repeating it changes nothing more.",
	}, func(_ context.Context, c caller, _ *struct{}) (*loginOutput, error) {
		out := &loginOutput{}
		out.Body.Path = s.LoginPath(c.Key)
		return out, nil
	})
}

type loginOutput struct {
	Body struct {
		Path string `json:"path" doc:"For the browser, on the host of this request"`
	}
}

// take uses up a code.
func (c *codes) take(code string) (apikey.Key, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.issued[code]
	delete(c.issued, code)
	return found.key, ok && c.now().Before(found.until)
}

func (s *Server) addLogin(mux *http.ServeMux) {
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		s.writeLoginForm(w, http.StatusOK, loginForm{Next: s.localPath(r.URL.Query().Get("next"))})
	})
	mux.Handle("POST /login", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.loginByKey)))
	mux.Handle("POST /logout", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.logout)))
}

// loginByCode logs in with a one-time code and goes to the page, without the
// code in its address.
func (s *Server) loginByCode(w http.ResponseWriter, r *http.Request) {
	key, ok := s.codes.take(r.URL.Query().Get("code"))
	if !ok {
		if _, err := s.authenticate(r); err == nil { // the login that the code was used for
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		s.refuseLogin(w, r, problem.New(http.StatusUnauthorized, problem.CodeUnauthenticated, "the code was used before, is over or was never issued; log in with a key"))
		return
	}
	if s.setCookie(w, r, key) {
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

// loginByKey logs in with the field key of a form. A browser goes to the field
// next; a program gets no content.
func (s *Server) loginByKey(w http.ResponseWriter, r *http.Request) {
	secret := strings.TrimSpace(r.PostFormValue("key"))
	key, err := s.config.Keys.Find(r.Context(), secret)
	if err != nil {
		s.refuseLogin(w, r, refusal(secret, err))
		return
	}
	if !s.setCookie(w, r, key) {
		return
	}
	if wantsHTML(r) {
		http.Redirect(w, r, s.localPath(r.PostFormValue("next")), http.StatusSeeOther)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// setCookie makes a key of its own for the browser, so that a login can be
// listed and revoked like every key, and does not outlive the one it came from.
func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, key apikey.Key) bool {
	until := s.config.Now().Add(loginLength)
	if key.ExpiresAt != nil && key.ExpiresAt.Before(until) {
		until = *key.ExpiresAt
	}
	label, actor := "login with key "+key.ID, key.Identity().Actor
	if key.ID == "" {
		label, actor = "login with the code of the start", "serve"
	}
	_, secret, err := s.config.Keys.Create(r.Context(), apikey.Key{
		Label: label, Tenant: key.Tenant, UserID: key.UserID, Scopes: key.Scopes, ExpiresAt: &until,
	}, actor)
	if err != nil {
		writeProblem(w, problem.Of(err))
		return false
	}
	s.writeCookie(w, r, http.Cookie{Value: secret, Expires: until})
	return true
}

// logout revokes the login's key and removes the cookie.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(s.cookieName(r)); err == nil {
		if key, err := s.config.Keys.Find(r.Context(), c.Value); err == nil {
			if _, err := s.config.Keys.Revoke(r.Context(), key.Tenant, key.ID, key.Identity().Actor); err != nil {
				writeProblem(w, problem.Of(err))
				return
			}
		}
	}
	s.writeCookie(w, r, http.Cookie{MaxAge: -1})
	if wantsHTML(r) {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// writeCookie sends the cookie of a login. Pages of other origins cannot use it
// to change anything, scripts cannot read it, and with a prefix it is sent to
// nothing else on the host.
func (s *Server) writeCookie(w http.ResponseWriter, r *http.Request, c http.Cookie) {
	c.Name = cmp.Or(c.Name, s.cookieName(r))
	c.Path, c.HttpOnly, c.Secure, c.SameSite = s.config.Prefix+"/", true, isSecure(r), http.SameSiteLaxMode
	http.SetCookie(w, &c)
}

// cookieName returns the name of the login's cookie. Its beginning makes browsers
// refuse it from anybody else, but they accept __Host- over TLS and for the
// whole host only: with a prefix the most they promise is that it came over TLS.
func (s *Server) cookieName(r *http.Request) string {
	switch {
	case !isSecure(r):
		return "hf"
	case s.config.Prefix != "":
		return "__Secure-hf"
	}
	return "__Host-hf"
}

func isSecure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

package server

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"

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
// with the rights of a key.
func (s *Server) LoginPath(key apikey.Key) string {
	code := rand.Text()
	s.codes.mu.Lock()
	defer s.codes.mu.Unlock()
	s.codes.issued[code] = issuedCode{key, s.codes.now().Add(codeLength)}
	return "/login?code=" + code
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
	mux.HandleFunc("GET /login", s.loginByCode)
	mux.Handle("POST /login", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.loginByKey)))
	mux.Handle("POST /logout", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.logout)))
}

// loginByCode logs in with a one-time code and goes to the page.
func (s *Server) loginByCode(w http.ResponseWriter, r *http.Request) {
	key, ok := s.codes.take(r.URL.Query().Get("code"))
	if !ok {
		writeProblem(w, problem.New(http.StatusUnauthorized, problem.CodeUnauthenticated, "the code was used before, is over or was never issued; log in with a key"))
		return
	}
	if s.setCookie(w, r, key) {
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

// loginByKey logs in with the field key of a form.
func (s *Server) loginByKey(w http.ResponseWriter, r *http.Request) {
	key, err := s.config.Keys.Find(r.Context(), r.PostFormValue("key"))
	if err != nil {
		refuse(w, r.PostFormValue("key"), err)
		return
	}
	if s.setCookie(w, r, key) {
		w.WriteHeader(http.StatusNoContent)
	}
}

// setCookie makes a key of its own for the browser, so that a login can be
// listed and revoked like every key, and does not outlive the one it came from.
func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, key apikey.Key) bool {
	until := s.config.Now().Add(loginLength)
	if key.ExpiresAt != nil && key.ExpiresAt.Before(until) {
		until = *key.ExpiresAt
	}
	_, secret, err := s.config.Keys.Create(r.Context(), apikey.Key{
		Label: "login with key " + key.ID, Tenant: key.Tenant, UserID: key.UserID, Scopes: key.Scopes, ExpiresAt: &until,
	}, key.Identity().Actor)
	if err != nil {
		writeProblem(w, problem.Of(err))
		return false
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: secret, Path: "/", Expires: until, HttpOnly: true, Secure: isSecure(r), SameSite: http.SameSiteLaxMode,
	})
	return true
}

// logout revokes the login's key and removes the cookie.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName(r)); err == nil {
		if key, err := s.config.Keys.Find(r.Context(), c.Value); err == nil {
			if _, err := s.config.Keys.Revoke(r.Context(), key.Tenant, key.ID, key.Identity().Actor); err != nil {
				writeProblem(w, problem.Of(err))
				return
			}
		}
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Path: "/", MaxAge: -1, HttpOnly: true, Secure: isSecure(r), SameSite: http.SameSiteLaxMode})
	w.WriteHeader(http.StatusNoContent)
}

// cookieName returns the name of the login's cookie. The prefix makes browsers
// refuse it from anybody else, but they accept it over TLS only.
func cookieName(r *http.Request) string {
	if isSecure(r) {
		return "__Host-hf"
	}
	return "hf"
}

func isSecure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

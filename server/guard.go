package server

import (
	"context"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/llm"
)

// open are the paths that need no key: they tell nothing about sessions.
var open = []string{"/livez", "/readyz", "/openapi.json", "/login", "/logout", oidcPath, oidcCallback}

// guard lets a request through that is addressed to this server, shows a key
// or the cookie of a login, and is within its limits.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSafetyHeaders(w.Header())
		if !s.knowsHost(r.Host) {
			s.writeProblem(w, r, problem.New(http.StatusMisdirectedRequest, problem.CodeWrongHost, "this server does not answer for the host "+quoteShort(r.Host)+"; name it with --host"))
			return
		}
		if s.answerCORS(w, r) {
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, s.config.MaxBody+1) // huma answers at its own limit first
		if slices.Contains(open, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodGet && r.URL.Path == "/" && r.URL.Query().Has("code") {
			s.loginByCode(w, r)
			return
		}
		key, err := s.authenticate(r)
		if p := problem.Of(err); p != nil {
			if p.Code == problem.CodeUnauthenticated && isPage(r) && wantsHTML(r) {
				s.writeLoginForm(w, http.StatusOK, loginForm{Next: s.localPath(r.URL.RequestURI())})
				return
			}
			s.writeProblem(w, r, p)
			return
		}
		if wait := s.limits.admit(key.ID); wait > 0 {
			p := problem.New(http.StatusTooManyRequests, problem.CodeRateLimited, "too many requests with this key")
			p.RetryAfter = int(wait/time.Second) + 1
			s.writeProblem(w, r, p)
			return
		}
		if media, ok := isJSON(r); !ok {
			s.writeProblem(w, r, problem.New(http.StatusUnsupportedMediaType, problem.CodeMediaType,
				"the body is "+quoteShort(media)+"; send JSON with the header Content-Type: application/json (curl: use --json instead of -d)"))
			return
		}
		c := caller{Key: key, rt: s.rt.For(key.Identity())}
		ctx := llm.WithTraceparent(context.WithValue(r.Context(), callerKey{}, c), r.Header.Get("Traceparent"))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// isJSON reports whether a request has no body or one that says it is JSON.
func isJSON(r *http.Request) (media string, ok bool) {
	text := r.Header.Get("Content-Type")
	if text == "" || r.ContentLength == 0 {
		return "", true
	}
	media, _, err := mime.ParseMediaType(text)
	if err != nil {
		return text, false
	}
	return media, media == "application/json" || strings.HasSuffix(media, "+json")
}

// authenticate returns the key that a request shows, or the problem that there
// is none.
func (s *Server) authenticate(r *http.Request) (apikey.Key, error) {
	secret, cookie := s.credentials(r)
	if cookie {
		if err := s.crossOrigin.Check(r); err != nil {
			return apikey.Key{}, problem.New(http.StatusForbidden, problem.CodeCrossOrigin, "a page of another origin may not use this login")
		}
	}
	if s.issuer != nil && !cookie && isToken(secret) {
		return s.issuer.find(r.Context(), secret)
	}
	key, err := s.config.Keys.Find(r.Context(), secret)
	if err != nil {
		return apikey.Key{}, refusal(secret, err)
	}
	return key, nil
}

// refusal returns the problem of a request without a valid key.
func refusal(secret string, err error) *problem.Problem {
	if !errors.Is(err, apikey.ErrUnknown) {
		return problem.Of(err)
	}
	detail := "send an API key: Authorization: Bearer hf_…; make one with: holdfast keys create"
	if secret != "" {
		detail = apikey.ErrUnknown.Error()
	}
	return problem.New(http.StatusUnauthorized, problem.CodeUnauthenticated, detail)
}

// credentials returns what a request shows, and whether it is the cookie of a
// login.
func (s *Server) credentials(r *http.Request) (secret string, cookie bool) {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(token), false
	}
	if c, err := r.Cookie(s.cookieName(r)); err == nil {
		return c.Value, true
	}
	return "", false
}

// knowsHost reports whether a request is addressed to this server: by an
// address, as localhost, or by a name that it was given.
func (s *Server) knowsHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
		return true
	}
	return slices.ContainsFunc(s.config.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// answerCORS adds the headers for pages of allowed origins, and answers the
// question that browsers ask before a request.
func (s *Server) answerCORS(w http.ResponseWriter, r *http.Request) (done bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.config.Origins, origin) {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "ETag, Location, Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, Last-Event-ID, Prefer, Traceparent")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// setSafetyHeaders says what browsers may do with a response: nothing.
func setSafetyHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
}

func quoteShort(text string) string {
	if len(text) > 100 {
		text = text[:100] + "…"
	}
	return `"` + strings.ToValidUTF8(text, "?") + `"`
}

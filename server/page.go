package server

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/problem"
)

// below serves what is below the server's prefix. Handlers see paths without
// it, and write Location without it too.
func (s *Server) below(next http.Handler) http.Handler {
	prefix := s.config.Prefix
	if prefix == "" {
		return next
	}
	stripped := http.StripPrefix(prefix, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, prefix+"/"):
			stripped.ServeHTTP(w, r)
		case r.URL.Path == prefix:
			http.Redirect(w, r, "/", http.StatusPermanentRedirect)
		default:
			writeProblem(w, problem.New(http.StatusNotFound, problem.CodeNoRoute, "everything on this server is below "+prefix+"/"))
		}
	})
}

// isPage reports a request for the page: whatever a browser reads outside of
// the API.
func isPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !strings.HasPrefix(r.URL.Path, "/v1/") && r.URL.Path != "/metrics"
}

// wantsHTML reports a request of a browser that shows the response to a person.
func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// localPath returns a path of this server from a request, without the prefix,
// and "/" for everything else: a login must not lead a browser to other hosts.
func (s *Server) localPath(text string) string {
	to, err := url.Parse(text)
	if err != nil || to.Scheme != "" || to.Host != "" || to.User != nil || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.ContainsAny(text, "\\\r\n\t") {
		return "/"
	}
	if rest, ok := strings.CutPrefix(to.RequestURI(), s.config.Prefix+"/"); ok {
		return "/" + rest
	}
	return to.RequestURI()
}

// loginForm is what the form of a login shows.
type loginForm struct {
	Action  template.URL // where it is sent
	Next    string       // where the browser goes then, without the prefix
	Problem string       // why the last try was refused
	Issuer  template.URL // where the browser can log in instead; "": nowhere
	Style   template.CSS
}

// loginStyle is the style of the form. The policy of the page allows it by its
// hash, and nothing else.
const loginStyle = `:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:12vh auto;padding:0 1rem}
h1{font-size:1.4rem}label,input,button{display:block;width:100%;box-sizing:border-box;font:inherit}
input{padding:.5rem;margin:.25rem 0 1rem}button{padding:.5rem}
[role=alert]{border-left:.25rem solid #c33;padding-left:.75rem}
`

var loginTemplate = template.Must(template.New("login").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · Holdfast</title>
<style>{{.Style}}</style>
</head>
<body>
<main>
<h1>Log in to Holdfast</h1>
{{with .Problem}}<p role="alert">{{.}}</p>
{{end}}<form method="post" action="{{.Action}}">
<input type="hidden" name="next" value="{{.Next}}">
<label for="key">API key</label>
<input id="key" name="key" type="password" autocomplete="current-password" placeholder="hf_…" required autofocus>
<button type="submit">Log in</button>
</form>
{{with .Issuer}}<p><a href="{{.}}">Log in with your organisation instead</a></p>
{{end}}<p>Make a key with <code>holdfast keys create</code>, or open the address that <code>holdfast serve</code> shows when it starts.</p>
</main>
</body>
</html>
`))

// loginPolicy lets the form be shown and sent to this server, and nothing else.
func loginPolicy() string {
	sum := sha256.Sum256([]byte(loginStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}

// writeLoginForm shows the form of a login. It works without scripts.
func (s *Server) writeLoginForm(w http.ResponseWriter, status int, f loginForm) {
	f.Style, f.Action = loginStyle, template.URL(s.config.Prefix+"/login")
	if s.issuer != nil {
		f.Issuer = template.URL(s.config.Prefix + oidcPath + "?next=" + url.QueryEscape(f.Next))
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", loginPolicy())
	w.WriteHeader(status)
	_ = loginTemplate.Execute(w, f) // the reader may be gone
}

// refuseLogin answers a login that was refused: to a browser with the form.
func (s *Server) refuseLogin(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	if !wantsHTML(r) {
		writeProblem(w, p)
		return
	}
	s.writeLoginForm(w, p.Status, loginForm{Next: s.localPath(r.PostFormValue("next")), Problem: p.Detail})
}

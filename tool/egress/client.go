// Package egress sends HTTP requests that come from elsewhere, such as a model,
// and keeps them out of the network the program runs in.
package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Config says where requests may go. The zero value reaches every public
// address and no other. Proxies of the environment are not used: nobody could
// check where they lead.
type Config struct {
	// Hosts that may be asked, and hosts that may not, which wins; no list of
	// allowed ones allows all. "example.com" is that host alone,
	// "*.example.com" every host below it.
	Allow, Deny []string

	// Check may refuse a URL for reasons of its own, redirects included.
	Check func(u *url.URL) error

	// Private lists host:port that may be reached wherever they are.
	Private []string

	MaxRedirects int      // 0: 5, negative: none
	Resolver     Resolver // nil: the system's
	UserAgent    string   // "": holdfast
}

// Client sends requests and follows redirects, within what Config allows.
// It keeps no connection open, so that every request is resolved and checked
// anew, and needs no closing. It is safe for concurrent use.
type Client struct {
	guard     *guard
	http      *http.Client
	redirects int
	agent     string
}

// New makes a client. A list that cannot be understood is an InvalidError.
func New(c Config) (*Client, error) {
	for field, list := range map[string][]string{"Config.Allow": c.Allow, "Config.Deny": c.Deny} {
		for _, pattern := range list {
			if below, _ := strings.CutPrefix(pattern, "*."); below == "" || strings.ContainsAny(below, "*/: ") {
				return nil, &session.InvalidError{Field: field, Reason: fmt.Sprintf("%q is neither a host nor *.host", pattern)}
			}
		}
	}
	for _, target := range c.Private {
		if host, port, err := net.SplitHostPort(target); err != nil || host == "" || port == "" {
			return nil, &session.InvalidError{Field: "Config.Private", Reason: fmt.Sprintf("%q is not host:port", target)}
		}
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.UserAgent == "" {
		c.UserAgent = "holdfast"
	}
	if c.MaxRedirects == 0 {
		c.MaxRedirects = 5
	}
	g := &guard{allow: lower(c.Allow), deny: lower(c.Deny), private: lower(c.Private), check: c.Check, resolver: c.Resolver}
	return &Client{guard: g, redirects: max(c.MaxRedirects, 0), agent: c.UserAgent, http: &http.Client{
		Transport: &http.Transport{
			DialContext:            g.dial,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
			TLSHandshakeTimeout:    10 * time.Second,
		},
		// Redirects are followed by hand: each is checked before it is asked.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func lower(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.TrimSuffix(strings.ToLower(s), ".")
	}
	return out
}

// Request is an HTTP request. A body without a Content-Type gets a guessed one.
type Request struct {
	Method string
	URL    *url.URL
	Header http.Header
	Body   string
}

// Do sends a request and follows its redirects. To another origin it takes
// neither headers, which may be credentials, nor a body. Response.Request has
// the URL that answered; the caller closes the body. Where a call has a permit,
// it decides about every other host. What may not be asked is ErrRefused. Errors do not repeat the method and the URL.
func (c *Client) Do(ctx context.Context, r Request) (*http.Response, error) {
	asked := hostOf(r.URL)
	for redirects := 0; ; redirects++ {
		if err := c.guard.address(r.URL); err != nil {
			return nil, err
		}
		resp, err := c.send(ctx, r)
		if err != nil {
			return nil, shorten(err)
		}
		next, err := redirectTarget(resp, r.URL)
		if err == nil && next == nil {
			return resp, nil
		}
		_ = resp.Body.Close() // a redirect has nothing to read
		if err != nil {
			return nil, err
		}
		if redirects >= c.redirects {
			return nil, fmt.Errorf("redirected more than %d times, last to %s", c.redirects, next.Redacted())
		}
		if r, err = r.redirected(resp.StatusCode, next); err != nil {
			return nil, err
		}
		if host := hostOf(next); host != asked {
			if err := tool.CheckHost(ctx, host); err != nil {
				return nil, refused("redirected to %s: %v; ask for it yourself if you need it", next.Redacted(), err)
			}
		}
	}
}

func (c *Client) send(ctx context.Context, r Request) (*http.Response, error) {
	var body io.Reader
	if r.Body != "" {
		body = strings.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.agent)
	if r.Body != "" {
		req.Header.Set("Content-Type", guessType(r.Body))
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	return c.http.Do(req)
}

func guessType(body string) string {
	if start := strings.TrimSpace(body); strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[") {
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

// shorten drops the method and the URL, which the caller knows, from an error.
func shorten(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// redirectTarget returns where an answer redirects to, nil if it does not.
func redirectTarget(resp *http.Response, from *url.URL) (*url.URL, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	location := resp.Header.Get("Location")
	if location == "" {
		return nil, nil
	}
	to, err := from.Parse(location)
	if err != nil {
		return nil, errors.New("redirected to what is not a URL")
	}
	return to, nil
}

// redirected returns the request that may follow a redirect.
func (r Request) redirected(status int, to *url.URL) (Request, error) {
	from := r.URL
	r.URL = to
	keeps := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
	if !keeps && r.Method != http.MethodHead {
		r.Method, r.Body = http.MethodGet, ""
	}
	if from.Scheme == to.Scheme && strings.EqualFold(from.Host, to.Host) {
		return r, nil
	}
	if r.Body != "" || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
		return r, refused("redirected to %s, another place: ask there yourself", to.Redacted())
	}
	r.Header = nil
	return r, nil
}

// HeaderOf converts headers. Those that belong to the connection are an
// InvalidError.
func HeaderOf(written map[string]string) (http.Header, error) {
	header := http.Header{}
	for name, value := range written {
		switch key := http.CanonicalHeaderKey(name); key {
		case "Host", "Connection", "Content-Length", "Transfer-Encoding", "Trailer", "Upgrade", "Te", "Expect":
			return nil, &session.InvalidError{Field: "headers", Reason: key + " is set by the connection"}
		default:
			if strings.HasPrefix(key, "Proxy-") {
				return nil, &session.InvalidError{Field: "headers", Reason: key + " is for proxies, and there is none"}
			}
			header.Set(key, value)
		}
	}
	return header, nil
}

// Package web lets an agent read and call the web without letting it reach the
// network the program stands in.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Config says where requests may go and how long they may take. The zero value
// reaches every public address and no other. Proxies of the environment are
// not used: nobody could check where they lead.
type Config struct {
	// Hosts that may be asked, and hosts that may not, which wins; no list of
	// allowed ones allows all. "example.com" is that host alone,
	// "*.example.com" every host below it.
	Allow, Deny []string

	// Check may refuse a URL for reasons of its own, redirects included.
	Check func(u *url.URL) error

	// Private lists host:port that may be reached wherever they are.
	Private []string

	Timeout      time.Duration // for the whole answer, redirects included; 0: 30 s
	MaxBody      int64         // bytes that are read, unpacked; 0: 2 MiB
	MaxResult    int           // bytes that are shown; 0: 64 KiB
	MaxRedirects int           // 0: 5, negative: none

	Resolver  Resolver // nil: the system's
	UserAgent string   // "": holdfast
}

// Tools makes http_get, which reads a page, and http_request, which sends
// whatever it is told to.
func Tools(c Config) ([]tool.Tool, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	f := newFetcher(c)
	get, err := tool.Func(tool.Spec{
		Name: "http_get", Nature: tool.ReadOnly, Timeout: c.Timeout + time.Second, // our own comes first and says more
		Description: "Read a page or a document from the web. HTML comes as readable text, other text as it is. Long answers are cut.",
	}, func(ctx context.Context, in getArguments) (tool.Result, error) {
		return f.do(ctx, request{method: http.MethodGet, url: in.URL, brief: true})
	})
	if err != nil {
		return nil, err
	}
	send, err := tool.Func(tool.Spec{
		Name: "http_request", Nature: tool.Once, Timeout: c.Timeout + time.Second,
		Description: "Send an HTTP request and see status, headers and body of the answer.",
	}, func(ctx context.Context, in sendArguments) (tool.Result, error) {
		r, err := in.request()
		if err != nil {
			return tool.Result{}, err
		}
		return f.do(ctx, r)
	})
	if err != nil {
		return nil, err
	}
	return []tool.Tool{get, send}, nil
}

func (c Config) withDefaults() (Config, error) {
	for field, list := range map[string][]string{"Config.Allow": c.Allow, "Config.Deny": c.Deny} {
		for _, pattern := range list {
			if below, _ := strings.CutPrefix(pattern, "*."); below == "" || strings.ContainsAny(below, "*/: ") {
				return c, &session.InvalidError{Field: field, Reason: fmt.Sprintf("%q is neither a host nor *.host", pattern)}
			}
		}
	}
	for _, target := range c.Private {
		if host, port, err := net.SplitHostPort(target); err != nil || host == "" || port == "" {
			return c, &session.InvalidError{Field: "Config.Private", Reason: fmt.Sprintf("%q is not host:port", target)}
		}
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.MaxBody <= 0 {
		c.MaxBody = 2 << 20
	}
	if c.MaxResult <= 0 {
		c.MaxResult = 64 << 10
	}
	if c.MaxRedirects == 0 {
		c.MaxRedirects = 5
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.UserAgent == "" {
		c.UserAgent = "holdfast"
	}
	return c, nil
}

type getArguments struct {
	URL string `json:"url" jsonschema:"an http or https URL"`
}

type sendArguments struct {
	URL     string            `json:"url" jsonschema:"an http or https URL"`
	Method  string            `json:"method,omitempty" jsonschema:"GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS; GET where it is left out"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

// request is what to send. A brief one shows no headers of the answer.
type request struct {
	method, url string
	header      http.Header
	body        string
	brief       bool
}

func (in sendArguments) request() (request, error) {
	r := request{method: strings.ToUpper(in.Method), url: in.URL, header: http.Header{}, body: in.Body}
	switch r.method {
	case "":
		r.method = http.MethodGet
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		return r, &session.InvalidError{Field: "method", Reason: fmt.Sprintf("%q is none that can be sent", in.Method)}
	}
	for name, value := range in.Headers {
		switch key := http.CanonicalHeaderKey(name); key {
		case "Host", "Connection", "Content-Length", "Transfer-Encoding", "Trailer", "Upgrade", "Te", "Expect":
			return r, &session.InvalidError{Field: "headers", Reason: key + " is set by the connection"}
		default:
			if strings.HasPrefix(key, "Proxy-") {
				return r, &session.InvalidError{Field: "headers", Reason: key + " is for proxies, and there is none"}
			}
			r.header.Set(key, value)
		}
	}
	return r, nil
}

// fetcher sends requests past the guard.
type fetcher struct {
	config Config
	guard  *guard
	client *http.Client
}

func newFetcher(c Config) *fetcher {
	lower := func(list []string) []string {
		out := make([]string, len(list))
		for i, s := range list {
			out[i] = strings.TrimSuffix(strings.ToLower(s), ".")
		}
		return out
	}
	g := &guard{allow: lower(c.Allow), deny: lower(c.Deny), private: lower(c.Private), check: c.Check, resolver: c.Resolver}
	return &fetcher{config: c, guard: g, client: &http.Client{
		Transport: &http.Transport{
			DialContext:            g.dial,
			DisableKeepAlives:      true, // every request is resolved and checked anew, and nothing is left open
			MaxResponseHeaderBytes: 64 << 10,
			TLSHandshakeTimeout:    10 * time.Second,
		},
		// Redirects are followed by hand: each is checked before it is asked.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// do sends a request, follows its redirects and shows the answer.
func (f *fetcher) do(ctx context.Context, r request) (tool.Result, error) {
	u, err := url.Parse(r.url)
	if err != nil {
		return tool.Result{}, &session.InvalidError{Field: "url", Reason: "is not a URL"}
	}
	bounded, stop := context.WithTimeout(ctx, f.config.Timeout)
	defer stop()
	result, err := f.follow(bounded, r, u)
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return tool.Result{}, ctx.Err()
	case bounded.Err() != nil:
		return tool.Result{}, fmt.Errorf("no complete answer from %s in %v", u.Host, f.config.Timeout)
	}
	return tool.Result{}, short(err)
}

// short is an error without the method and the URL that the caller knows.
func short(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/session"
)

// service says how to reach a server that is a URL.
func (s *Server) service(server session.MCPServer) (func(context.Context) (*link, error), error) {
	u, err := url.Parse(server.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, &session.InvalidError{Field: "mcp.url", Reason: "is not an http or https URL"}
	}
	header := http.Header{}
	for name, value := range server.Headers {
		header.Set(name, value)
	}
	below, idle := s.config.Transport, func() {}
	if below == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10}
		below, idle = own, own.CloseIdleConnections
	}
	client := &http.Client{
		Transport: &courier{below: below, header: header},
		// The headers go with every request, so none may lead elsewhere.
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if !sameOrigin(req.URL, u) || len(via) > 5 {
				return fmt.Errorf("it redirects to %s: %w", req.URL.Host, errElsewhere)
			}
			return nil
		},
	}
	return func(ctx context.Context) (*link, error) {
		l, err := greet(ctx, &sdk.StreamableClientTransport{
			Endpoint: server.URL, HTTPClient: client, DisableStandaloneSSE: true, MaxEventSize: maxMessage,
		})
		if err != nil {
			idle()
			return nil, err
		}
		l.release, l.said = idle, func() string { return "" }
		return l, nil
	}, nil
}

// errElsewhere refuses a redirect: the credentials are for one server.
var errElsewhere = errors.New("not followed to another server")

// courier adds the headers of a server to requests.
type courier struct {
	below  http.RoundTripper
	header http.Header
}

// RoundTrip sends a request with the headers. It reads no more than a bounded
// length of an answer that is one message.
func (c *courier) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for name, values := range c.header {
		req.Header[name] = values
	}
	resp, err := c.below.RoundTrip(req)
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &bounded{ReadCloser: resp.Body, left: maxMessage}
	}
	return resp, err
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

var errTooLong = errors.New("the answer is too long")

// bounded is a body that fails when it is longer than it may be.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

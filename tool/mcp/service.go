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

// serviceOpener returns a function that connects to the server's URL.
func (s *Server) serviceOpener(server session.MCPServer) (func(context.Context) (*connection, error), error) {
	u, err := url.Parse(server.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, &session.InvalidError{Field: "mcp.url", Reason: "is not an http or https URL"}
	}
	header := http.Header{}
	for name, value := range server.Headers {
		header.Set(name, value)
	}
	transport, release := s.config.Transport, func() {}
	if transport == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10}
		transport, release = own, own.CloseIdleConnections
	}
	client := &http.Client{
		Transport: &headerTransport{next: transport, header: header},
		// Every request carries the headers, so no redirect may leave the server.
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if !sameOrigin(req.URL, u) || len(via) > 5 {
				return fmt.Errorf("the server redirects to %s: %w", req.URL.Host, errOtherServer)
			}
			return nil
		},
	}
	return func(ctx context.Context) (*connection, error) {
		l, err := connect(ctx, &sdk.StreamableClientTransport{
			Endpoint: server.URL, HTTPClient: client, DisableStandaloneSSE: true, MaxEventSize: maxMessage,
		})
		if err != nil {
			release()
			return nil, err
		}
		l.release, l.stderr = release, func() string { return "" }
		return l, nil
	}, nil
}

// errOtherServer refuses a redirect: the credentials are for one server.
var errOtherServer = errors.New("not followed, because the headers may hold credentials; set the final address as the url")

// headerTransport adds the headers of a server to requests.
type headerTransport struct {
	next   http.RoundTripper
	header http.Header
}

// RoundTrip sends a request with the headers. An answer that is not a stream is
// limited to maxMessage bytes.
func (c *headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for name, values := range c.header {
		req.Header[name] = values
	}
	resp, err := c.next.RoundTrip(req)
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: maxMessage}
	}
	return resp, err
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

var errTooLong = fmt.Errorf("the answer is longer than %d bytes", maxMessage)

// limitedBody fails when it is longer than left.
type limitedBody struct {
	io.ReadCloser
	left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

package server

import (
	"context"
	"io"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/protocol/mcpserver"
	"github.com/holdfast-dev/holdfast/session"
)

// addMCP offers sessions to MCP clients. Each call of a tool is a request to the
// API of this server with the credentials of the caller, so that tenants, scopes
// and limits are those of the API.
func (s *Server) addMCP(mux *http.ServeMux) {
	handler := sdk.NewStreamableHTTPHandler(s.mcpServer, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	mux.Handle("/mcp", s.withBody(handler))
}

// mcpServer makes the MCP server of one request.
func (s *Server) mcpServer(r *http.Request) *sdk.Server {
	secret, _ := s.credentials(r)
	own, err := client.New(client.Config{URL: "http://localhost" + s.config.Prefix, Key: secret, HTTP: &http.Client{Transport: within{s}}, Retries: -1})
	if err != nil {
		return nil // the guard has let nobody through without credentials
	}
	return mcpserver.New(mcpserver.Config{Sessions: own, Server: own, Version: s.config.Version, Agent: func(ctx context.Context, name string) (session.Definition, error) {
		if name == "" {
			return session.Definition{Name: "assistant", SystemPrompt: "You are a helpful assistant."}, nil
		}
		return own.Agent(ctx, name)
	}})
}

// within carries requests to the server of this process.
type within struct{ s *Server }

// RoundTrip serves a request. The body is read while it is written, so that
// streams work; closing it ends the request.
func (t within) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	in := r.Clone(ctx)
	in.RequestURI, in.Host, in.RemoteAddr = r.URL.RequestURI(), r.URL.Host, "127.0.0.1:0"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	body, out := io.Pipe()
	w := &answer{header: http.Header{}, out: out, begun: make(chan struct{})}
	go func() {
		defer cancel()
		defer out.Close() //nolint:errcheck // it returns none
		defer func() {    // logged answers for panics; what it lets through breaks the response off
			if recover() != nil {
				out.CloseWithError(io.ErrUnexpectedEOF) //nolint:gosec // it returns none
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		t.s.ServeHTTP(w, in)
		w.WriteHeader(http.StatusOK)
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		body.Close() //nolint:errcheck,gosec // it returns none; the handler ends with its context
		return nil, context.Cause(ctx)
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: reading{body, cancel}, ContentLength: -1, Request: r,
	}, nil
}

// answer is a response that is being written.
type answer struct {
	header http.Header
	out    *io.PipeWriter

	begun  chan struct{} // closed when status and sent are there
	status int
	sent   http.Header
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	}
}

func (a *answer) Write(data []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.out.Write(data)
}

// Flush has nothing to do: whoever reads has it already.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

// SetWriteDeadline has nothing to do: a reader in this process that goes away
// closes the body.
func (a *answer) SetWriteDeadline(time.Time) error { return nil }

// reading is the body of a response.
type reading struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (r reading) Close() error {
	r.cancel()
	return r.PipeReader.Close()
}

// Package mcp gives agents the tools of MCP servers: programs that it starts and
// talks to over standard input and output, or services over streamable HTTP.
// It uses only tools, no prompts and resources, and answers no requests of a
// server.
package mcp

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Config says how to connect to servers. The zero value is ready for use.
type Config struct {
	// LookupEnv returns the value of ${NAME} in a server's env, headers and
	// url; nil: os.LookupEnv.
	LookupEnv func(name string) (value string, ok bool)

	Dir string   // working directory of commands; "": that of this process
	Env []string // names of variables that commands see, besides safeVariables and their own env

	StartTimeout time.Duration // to start, connect and list the tools; 0: 30 s
	CallTimeout  time.Duration // of one call; 0: 1 minute
	StopTimeout  time.Duration // for a command to end before it is killed; 0: 2 s
	MaxResult    int           // bytes of a result; 0: 64 KiB
	MaxTools     int           // of one server; more are an error; 0: 2,000

	// Retries is how often a call tries to reconnect to a server that died; 0:
	// 3, negative: never. Backoff is the wait before each; nil: 200 ms, doubled
	// each time.
	Retries int
	Backoff func(retry int) time.Duration

	Transport http.RoundTripper // for HTTP; nil: a new one
	Logger    *slog.Logger      // warns about unusable tools; nil: silent
}

// Dial is Connect for callers that need only the tools and a closer.
func (c Config) Dial(ctx context.Context, server session.MCPServer) ([]tool.Tool, io.Closer, error) {
	s, err := Connect(ctx, c, server)
	if err != nil {
		return nil, nil, err
	}
	tools := s.Tools()
	return tools, s, nil
}

// Server is a connected server with its tools. When it dies, the next call
// reconnects.
type Server struct {
	config  Config
	id      string
	open    func(ctx context.Context) (*connection, error)
	secrets secrets
	tools   []tool.Tool

	closing context.Context // ends when Close begins: nothing starts any more
	close   context.CancelFunc

	lock    chan struct{} // guards current; a channel, so that waiting can be cancelled
	current *connection   // nil: none
}

// Connect starts a program or connects to a service and lists its tools. On an
// error nothing is left running. The caller closes the server.
func Connect(ctx context.Context, c Config, server session.MCPServer) (*Server, error) {
	c = c.withDefaults()
	s := &Server{config: c, id: server.ID, lock: make(chan struct{}, 1)}
	s.closing, s.close = context.WithCancel(context.WithoutCancel(ctx))
	err := s.prepare(server)
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		s.close()
		return nil, s.secrets.redactError(fmt.Errorf("connect mcp server %q: %w", server.ID, err))
	}
	return s, nil
}

func (c Config) withDefaults() Config {
	if c.LookupEnv == nil {
		c.LookupEnv = os.LookupEnv
	}
	c.StartTimeout = cmp.Or(max(c.StartTimeout, 0), 30*time.Second)
	c.CallTimeout = cmp.Or(max(c.CallTimeout, 0), time.Minute)
	c.StopTimeout = cmp.Or(max(c.StopTimeout, 0), 2*time.Second)
	c.MaxResult = cmp.Or(max(c.MaxResult, 0), 64<<10)
	c.MaxTools = cmp.Or(max(c.MaxTools, 0), 2000)
	c.Retries = cmp.Or(c.Retries, 3)
	if c.Backoff == nil {
		c.Backoff = func(retry int) time.Duration { return 200 * time.Millisecond << min(retry-1, 6) }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// prepare resolves the references and chooses between program and service.
func (s *Server) prepare(server session.MCPServer) error {
	if (server.Command == "") == (server.URL == "") {
		return &session.InvalidError{Field: "mcp", Reason: "needs either a command or a url"}
	}
	resolved, found, err := s.config.resolve(server)
	s.secrets = found
	if err != nil {
		return err
	}
	if server.URL != "" {
		s.open, err = s.serviceOpener(resolved)
		return err
	}
	s.open = s.programOpener(resolved)
	return nil
}

// start connects for the first time, without retries.
func (s *Server) start(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, s.config.StartTimeout)
	defer stop()
	l, err := s.open(ctx)
	if err != nil {
		return err
	}
	found, err := s.list(ctx, l)
	if err != nil {
		l.close()
		return l.explain(err)
	}
	s.current, s.tools = l, s.wrapTools(found)
	return nil
}

func (s *Server) list(ctx context.Context, l *connection) ([]*sdk.Tool, error) {
	var found []*sdk.Tool
	for t, err := range l.session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		if found = append(found, t); len(found) > s.config.MaxTools {
			return nil, fmt.Errorf("list tools: the server has more than %d", s.config.MaxTools)
		}
	}
	return found, nil
}

// Tools lists the server's tools in its order. A name is made of the server's id
// and the tool's own name, in characters that every provider accepts, and never
// changes. A tool without a usable schema is left out and logged.
func (s *Server) Tools() []tool.Tool { return slices.Clone(s.tools) }

// Close ends the connection, and the program with all its child processes.
// Running calls fail. It may be called twice.
func (s *Server) Close() error {
	s.close()
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	if s.current != nil {
		s.current.close()
		s.current = nil
	}
	return nil
}

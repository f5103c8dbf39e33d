// Package mcp gives agents the tools of MCP servers: programs that are started
// and spoken to over their standard input and output, or services reached over
// streamable HTTP. Only tools are used; a server's prompts, resources and
// requests of its own are not.
package mcp

import (
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

// Config says how servers are reached. The zero value is ready for use.
type Config struct {
	// LookupEnv finds what ${NAME} means in a server's env, headers and url;
	// nil is the environment of this process.
	LookupEnv func(name string) (value string, ok bool)

	Dir string   // where commands start; "": where this process did
	Env []string // variables of this process that commands see, besides a harmless few and their own

	StartTimeout time.Duration // to start, greet and list the tools; 0: 30 s
	CallTimeout  time.Duration // of one call; 0: 1 minute
	StopTimeout  time.Duration // a command has to end when asked, before it is killed; 0: 2 s
	MaxResult    int           // bytes of a result; 0: 64 KiB
	MaxTools     int           // of one server; more are an error; 0: 2,000

	// Retries is how often a call tries again to reach a server that died; 0: 3,
	// negative: never. Backoff is the time before each; nil begins at 200 ms and
	// doubles.
	Retries int
	Backoff func(retry int) time.Duration

	Transport http.RoundTripper // for HTTP; nil: one of its own
	Logger    *slog.Logger      // told what a server lists and cannot be used; nil: silent
}

// Dial is Connect for whoever wants no more than the tools and a way to end it.
func (c Config) Dial(ctx context.Context, server session.MCPServer) ([]tool.Tool, io.Closer, error) {
	s, err := Connect(ctx, c, server)
	if err != nil {
		return nil, nil, err
	}
	tools := s.Tools()
	return tools, s, nil
}

// Server is a server that was reached, with its tools. When it dies, the next
// call reaches it again.
type Server struct {
	config  Config
	id      string
	open    func(ctx context.Context) (*link, error)
	secrets secrets
	tools   []tool.Tool

	closing context.Context // ends when Close begins: nothing is started any more
	close   context.CancelFunc

	turn    chan struct{} // full while somebody uses current
	current *link         // nil: none
}

// Connect starts or reaches a server and lists its tools. On an error nothing
// is left running. The caller closes the server.
func Connect(ctx context.Context, c Config, server session.MCPServer) (*Server, error) {
	c = c.withDefaults()
	s := &Server{config: c, id: server.ID, turn: make(chan struct{}, 1)}
	s.closing, s.close = context.WithCancel(context.WithoutCancel(ctx))
	err := s.prepare(server)
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		s.close()
		return nil, s.secrets.told(fmt.Errorf("connect mcp server %q: %w", server.ID, err))
	}
	return s, nil
}

func (c Config) withDefaults() Config {
	if c.LookupEnv == nil {
		c.LookupEnv = os.LookupEnv
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.StartTimeout, 30 * time.Second}, {&c.CallTimeout, time.Minute}, {&c.StopTimeout, 2 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.MaxResult <= 0 {
		c.MaxResult = 64 << 10
	}
	if c.MaxTools <= 0 {
		c.MaxTools = 2000
	}
	if c.Retries == 0 {
		c.Retries = 3
	}
	if c.Backoff == nil {
		c.Backoff = func(retry int) time.Duration { return 200 * time.Millisecond << min(retry-1, 6) }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// prepare finds out how the server is reached.
func (s *Server) prepare(server session.MCPServer) error {
	if (server.Command == "") == (server.URL == "") {
		return &session.InvalidError{Field: "mcp", Reason: "needs a command or a url, and not both"}
	}
	resolved, found, err := s.config.resolve(server)
	s.secrets = found
	if err != nil {
		return err
	}
	if server.URL != "" {
		s.open, err = s.service(resolved)
		return err
	}
	s.open = s.program(resolved)
	return nil
}

// start reaches the server for the first time. One that cannot be is not
// asked again.
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
	s.current, s.tools = l, s.adopt(found)
	return nil
}

// list asks for the tools, page by page.
func (s *Server) list(ctx context.Context, l *link) ([]*sdk.Tool, error) {
	var found []*sdk.Tool
	for t, err := range l.session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		if found = append(found, t); len(found) > s.config.MaxTools {
			return nil, fmt.Errorf("list tools: there are more than %d", s.config.MaxTools)
		}
	}
	return found, nil
}

// Tools are the server's, in its order. A name is the server's id and the
// tool's own, in letters every provider takes; it is the same every time. A
// tool without a usable schema is left out and logged.
func (s *Server) Tools() []tool.Tool { return slices.Clone(s.tools) }

// Close ends the connection, and the program with all it started. Running
// calls fail. It may be called twice.
func (s *Server) Close() error {
	s.close()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.current != nil {
		s.current.close()
		s.current = nil
	}
	return nil
}

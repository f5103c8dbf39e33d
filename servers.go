package holdfast

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Dial reaches a tool server of a definition. It returns the server's tools
// and what ends the connection. Package tool/mcp has one.
type Dial func(ctx context.Context, server session.MCPServer) ([]tool.Tool, io.Closer, error)

// servers are the tool servers that were reached, each once for all sessions.
type servers struct {
	dial Dial
	life context.Context // the runtime's

	mu     sync.Mutex // guards open
	open   map[string]*connection
	closed bool
}

// connection is one server, reached or being reached.
type connection struct {
	ready chan struct{} // closed when the rest is set
	tools []tool.Tool
	end   io.Closer
	err   error
}

// tools reaches a server, or returns what it offered when it was reached
// before. Whoever does not want to wait goes; the server is reached for the
// next. A failure is forgotten: whoever comes next tries again.
func (s *servers) tools(ctx context.Context, server session.MCPServer) ([]tool.Tool, error) {
	raw, err := session.JSON(server)
	if err != nil {
		return nil, err
	}
	key := string(raw)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, session.ErrClosed
	}
	c, known := s.open[key]
	if !known {
		if s.open == nil {
			s.open = map[string]*connection{}
		}
		c = &connection{ready: make(chan struct{})}
		s.open[key] = c
	}
	s.mu.Unlock()
	if !known {
		go s.connect(c, key, server)
	}
	select {
	case <-c.ready:
		return c.tools, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *servers) connect(c *connection, key string, server session.MCPServer) {
	c.tools, c.end, c.err = s.reach(s.life, server)
	if c.err != nil {
		s.mu.Lock()
		delete(s.open, key)
		s.mu.Unlock()
	}
	close(c.ready)
}

// reach dials and turns a panic into an error.
func (s *servers) reach(ctx context.Context, server session.MCPServer) (tools []tool.Tool, end io.Closer, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &session.PanicError{Where: "tool server " + server.ID, Value: v}
		}
		if err != nil {
			err = fmt.Errorf("tool server %s: %w", server.ID, err)
		}
	}()
	return s.dial(ctx, server)
}

// close ends all connections.
func (s *servers) close() error {
	s.mu.Lock()
	s.closed = true
	open := s.open
	s.open = nil
	s.mu.Unlock()
	var errs []error
	for _, c := range open {
		<-c.ready
		if c.end != nil {
			errs = append(errs, c.end.Close())
		}
	}
	return errors.Join(errs...)
}

package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/session"
)

// maxMessage is the most bytes of one message of a server.
const maxMessage = 16 << 20

// connection is one connection to a server. It ends once.
type connection struct {
	session *sdk.ClientSession
	ended   chan struct{} // closed when the connection has ended
	broken  atomic.Bool   // a call has found it lost, maybe before ended is closed
	release func()        // stops the program or the HTTP transport
	stderr  func() string // the end of the program's standard error; "" for none
}

// connect opens a connection over a transport. On an error the caller closes
// only what it opened itself.
func connect(ctx context.Context, transport sdk.Transport) (*connection, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "holdfast"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	opened, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return nil, err
	}
	l := &connection{session: opened, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		_ = opened.Wait() // the reason does not matter
	}()
	return l, nil
}

func (l *connection) isLost() bool {
	select {
	case <-l.ended:
		return true
	default:
		return l.broken.Load()
	}
}

// close ends the connection and what it runs on, and waits for both.
func (l *connection) close() {
	_ = l.session.Close() // it has ended either way
	l.release()
	<-l.ended
}

// explain adds the end of the program's standard error, often the real reason.
func (l *connection) explain(err error) error {
	if text := l.stderr(); text != "" {
		return fmt.Errorf("%w; its standard error says: %s", err, text)
	}
	return err
}

// connection returns the open connection, or a new one if it was lost.
func (s *Server) connection(ctx context.Context) (*connection, error) {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.closing.Err() != nil {
		return nil, fmt.Errorf("mcp server %q: %w", s.id, session.ErrClosed)
	}
	if s.current != nil && !s.current.isLost() {
		return s.current, nil
	}
	if s.current != nil {
		s.current.close()
		s.current = nil
	}
	for retry := 0; ; {
		l, err := s.reconnect(ctx)
		if err == nil {
			s.current = l
			return l, nil
		}
		if retry++; retry > s.config.Retries || ctx.Err() != nil || s.closing.Err() != nil {
			return nil, fmt.Errorf("reconnect to mcp server %q: %w", s.id, err)
		}
		s.pause(ctx, s.config.Backoff(retry))
	}
}

// reconnect tries once. Close interrupts it.
func (s *Server) reconnect(ctx context.Context) (*connection, error) {
	ctx, stop := context.WithTimeout(ctx, s.config.StartTimeout)
	defer stop()
	defer context.AfterFunc(s.closing, stop)() //nolint:contextcheck // the call ends with either
	return s.open(ctx)
}

func (s *Server) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.closing.Done():
	}
}

// errLost is for a call that may have run before its server died.
var errLost = errors.New("the connection was lost during the call, which may have taken effect")

// call calls a tool of the server. If the connection is lost, the call is
// repeated only if it is repeatable.
func (s *Server) call(ctx context.Context, params *sdk.CallToolParams, repeatable bool) (*sdk.CallToolResult, error) {
	for try := 0; ; try++ {
		l, err := s.connection(ctx)
		if err != nil {
			return nil, err
		}
		result, err := l.session.CallTool(ctx, params)
		switch {
		case err == nil:
			return result, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !isLost(err):
			return nil, fmt.Errorf("mcp server %q: %w", s.id, err)
		}
		l.broken.Store(true)
		if !repeatable || try >= s.config.Retries {
			return nil, l.explain(fmt.Errorf("mcp server %q: %w: %w", s.id, errLost, err))
		}
		s.pause(ctx, s.config.Backoff(try+1))
	}
}

// isLost reports whether a call got no answer because its connection ended. A
// JSON-RPC error is an answer, also if a service refused the request.
func isLost(err error) bool {
	var answer *jsonrpc.Error
	return errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, sdk.ErrSessionMissing) || !errors.As(err, &answer)
}

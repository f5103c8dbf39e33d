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

// maxMessage bounds one message of a server, in bytes.
const maxMessage = 16 << 20

// link is one connection. It ends once.
type link struct {
	session *sdk.ClientSession
	ended   chan struct{} // closed when the connection is over
	broken  atomic.Bool   // a call found it lost, maybe before it has ended
	release func()        // gives back what is below the connection
	said    func() string // what the program last said on its own, "" for none
}

// greet makes a link of a transport. On an error there is nothing to close
// but what the caller opened.
func greet(ctx context.Context, transport sdk.Transport) (*link, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "holdfast"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	opened, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return nil, err
	}
	l := &link{session: opened, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		_ = opened.Wait() // however it ended, it is over
	}()
	return l, nil
}

// over reports that the connection is lost.
func (l *link) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return l.broken.Load()
	}
}

// close ends the connection and what is below it, and waits for both.
func (l *link) close() {
	_ = l.session.Close() // it is over either way
	l.release()
	<-l.ended
}

// explain adds what the program said last, which often is the reason.
func (l *link) explain(err error) error {
	if said := l.said(); said != "" {
		return fmt.Errorf("%w; it said: %s", err, said)
	}
	return err
}

// reach is the connection, made anew if it was lost.
func (s *Server) reach(ctx context.Context) (*link, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.closing.Err() != nil {
		return nil, fmt.Errorf("mcp server %q: %w", s.id, session.ErrClosed)
	}
	if s.current != nil && !s.current.over() {
		return s.current, nil
	}
	if s.current != nil {
		s.current.close()
		s.current = nil
	}
	for retry := 0; ; {
		l, err := s.again(ctx)
		if err == nil {
			s.current = l
			return l, nil
		}
		if retry++; retry > s.config.Retries || ctx.Err() != nil || s.closing.Err() != nil {
			return nil, fmt.Errorf("reach mcp server %q again: %w", s.id, err)
		}
		s.pause(ctx, s.config.Backoff(retry))
	}
}

// again makes one try, which ends early when the server is closed.
func (s *Server) again(ctx context.Context) (*link, error) {
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

// errLost is what a call is told that may have run before its server died.
var errLost = errors.New("the server was lost during the call; whether it took effect is not known")

// call calls a tool of the server. A call that is lost with its connection is
// made again only if repeatable says that this does no harm.
func (s *Server) call(ctx context.Context, params *sdk.CallToolParams, repeatable bool) (*sdk.CallToolResult, error) {
	for try := 0; ; try++ {
		l, err := s.reach(ctx)
		if err != nil {
			return nil, err
		}
		result, err := l.session.CallTool(ctx, params)
		switch {
		case err == nil:
			return result, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !lost(err):
			return nil, fmt.Errorf("mcp server %q: %w", s.id, err)
		}
		l.broken.Store(true)
		if !repeatable || try >= s.config.Retries {
			return nil, l.explain(fmt.Errorf("mcp server %q: %w: %w", s.id, errLost, err))
		}
		s.pause(ctx, s.config.Backoff(try+1))
	}
}

// lost reports a call without an answer because its connection is over. An
// answer that is an error is an answer, and so is a request that a service
// refused or that never reached it.
func lost(err error) bool {
	var answer *jsonrpc.Error
	return errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, sdk.ErrSessionMissing) || !errors.As(err, &answer)
}

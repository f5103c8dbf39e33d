// Package acp serves sessions to an editor by the Agent Client Protocol,
// version 1: JSON-RPC messages over standard input and output.
//
// An editor that goes away interrupts what its sessions execute, and loses
// nothing: session/load shows what was written and continues it.
package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Sessions are the verbs that editors need. A holdfast.Runtime has them, and so
// has a client.Client.
type Sessions interface {
	Create(ctx context.Context, def session.Definition, opts ...holdfast.Option) (session.Session, error)
	Execute(ctx context.Context, id string, a holdfast.Action, opts ...holdfast.Option) (session.Session, error)
	Cancel(ctx context.Context, id string) error
	Get(ctx context.Context, id string, opts ...holdfast.Option) (session.Session, error)
	List(ctx context.Context, q store.Query) (store.Page, error)
	Log(ctx context.Context, id string, after int64) iter.Seq2[session.LogEntry, error]
	Follow(ctx context.Context, id string, after int64) iter.Seq2[holdfast.Update, error]
	Respond(ctx context.Context, id string, r session.Response) error
}

// Folder is where a session works, as the editor says.
type Folder struct {
	Dir     string              // absolute
	Servers []session.MCPServer // tool servers of the editor, with their secrets: for the process, not for the store
}

// Workspace runs the agents of sessions in one folder.
type Workspace struct {
	Sessions
	Definition session.Definition // of new sessions
	Options    []holdfast.Option  // of new sessions; WithSeed is not among them
	// Modes says that sessions can change their permission mode here.
	Modes bool
	Close func() error // when no session uses it any more; nil: nothing to do
}

// Config says what is served.
type Config struct {
	In  io.Reader // what the editor writes
	Out io.Writer // what it reads: nothing else may be written there

	Sessions Sessions // to list sessions and to find them
	Open     func(ctx context.Context, f Folder) (Workspace, error)
	// ContextLength returns how many tokens fit into a model; 0: not known. Nil
	// knows none.
	ContextLength func(model string) int
	Version       string // of the program
}

// Serve serves until the editor closes its end or the context ends. What is
// executing then is interrupted and can be continued.
func Serve(ctx context.Context, c Config) error {
	if c.In == nil || c.Out == nil || c.Sessions == nil || c.Open == nil {
		return &session.InvalidError{Field: "config", Reason: "In, Out, Sessions and Open are required"}
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &server{config: c, conn: newConn(c.In, c.Out), threads: map[string]*thread{}, end: cancel}
	read := make(chan error, 1)
	go func() { read <- s.readAll(ctx) }()
	var err error
	select {
	case err = <-read:
	case <-ctx.Done(): // the read ends with the program
	}
	cancel()
	s.conn.close()
	s.work.Wait()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, s.closeAll())
}

// server is one connection to an editor.
type server struct {
	config Config
	conn   *conn
	end    context.CancelFunc
	work   sync.WaitGroup // requests and followers

	mu      sync.Mutex // guards what follows
	client  clientCapabilities
	threads map[string]*thread // sessions that are open, by id
}

// readAll reads messages and answers each in a goroutine of its own: a prompt
// lasts as long as a turn. Cancels are taken in at once.
func (s *server) readAll(ctx context.Context) error {
	for {
		f, err := s.conn.read()
		if err != nil {
			return err
		}
		if f.ID == nil {
			s.notified(ctx, f)
			continue
		}
		s.work.Go(func() {
			result, err := s.handle(ctx, f.Method, f.Params)
			if err == nil {
				err = s.conn.succeed(f.ID, result)
			} else {
				err = s.conn.fail(f.ID, err)
			}
			if err != nil {
				s.end() // nobody reads any more
				return
			}
			s.answered(ctx, f, result)
		})
	}
}

// handle carries out a request.
func (s *server) handle(ctx context.Context, method string, params json.RawMessage) (any, error) {
	switch method {
	case "initialize":
		return with(params, s.initialize)
	case "session/new":
		return with(params, func(in openRequest) (openResponse, error) { return s.newSession(ctx, in) })
	case "session/load":
		return with(params, func(in openRequest) (openResponse, error) { return s.loadSession(ctx, in, true) })
	case "session/resume":
		return with(params, func(in openRequest) (openResponse, error) { return s.loadSession(ctx, in, false) })
	case "session/list":
		return with(params, func(in listRequest) (listResponse, error) { return s.listSessions(ctx, in) })
	case "session/close":
		return with(params, func(in sessionRequest) (none, error) { return none{}, s.closeSession(ctx, in.SessionID) })
	case "session/delete":
		return with(params, func(in sessionRequest) (none, error) { return none{}, s.deleteSession(ctx, in.SessionID) })
	case "session/set_mode":
		return with(params, func(in setModeRequest) (none, error) { return none{}, s.setMode(ctx, in) })
	case "session/prompt":
		return with(params, func(in promptRequest) (promptResponse, error) { return s.prompt(ctx, in) })
	}
	return nil, &rpcError{codeNoMethod, fmt.Sprintf("the method %q is not offered; initialize says what is", method)}
}

// with decodes the parameters of a request.
func with[In, Out any](params json.RawMessage, do func(In) (Out, error)) (any, error) {
	var in In
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, &rpcError{codeInvalidParams, "the parameters: " + err.Error()}
	}
	return do(in)
}

// notified takes a notification in. One that is not known is ignored, as
// JSON-RPC has it.
func (s *server) notified(ctx context.Context, f frame) {
	var in sessionRequest
	if f.Method != "session/cancel" || json.Unmarshal(f.Params, &in) != nil {
		return
	}
	s.mu.Lock()
	t := s.threads[in.SessionID]
	s.mu.Unlock()
	if t != nil {
		now := t.markCancelled()
		s.work.Go(func() { t.cancelTurn(ctx, now) })
	}
}

// answered says what a session offers and continues what was interrupted, once
// the editor knows the session.
func (s *server) answered(ctx context.Context, f frame, result any) {
	opened, ok := result.(openResponse)
	var in sessionRequest
	if !ok || json.Unmarshal(f.Params, &in) != nil {
		return
	}
	t, err := s.thread(cmp.Or(opened.SessionID, in.SessionID))
	if err != nil {
		return
	}
	if err := t.offerCommands(); err != nil {
		s.end() // nobody reads any more
		return
	}
	t.takeUp(ctx)
}

const protocolVersion = 1

func (s *server) initialize(in initializeRequest) (initializeResponse, error) {
	s.mu.Lock()
	s.client = in.ClientCapabilities
	s.mu.Unlock()
	return initializeResponse{
		ProtocolVersion: protocolVersion, // a client that speaks another one goes away
		AgentCapabilities: agentCapabilities{
			LoadSession:        true,
			PromptCapabilities: promptCapabilities{Image: true, Audio: true, EmbeddedContext: true},
			MCPCapabilities:    mcpCapabilities{HTTP: true},
		},
		AgentInfo:   implementation{Name: "holdfast", Title: "Holdfast", Version: s.config.Version},
		AuthMethods: []none{},
	}, nil
}

// update sends a notification about a session.
func (s *server) update(id string, update any) error {
	return s.conn.notify("session/update", sessionUpdate{id, update})
}

package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
)

// maxLine is the longest message that is read: prompts carry images.
const maxLine = 64 << 20

// The codes of errors, as JSON-RPC and the protocol define them.
const (
	codeParse         = -32700
	codeNoMethod      = -32601
	codeInvalidParams = -32602
	codeInternal      = -32603
	codeNotFound      = -32002
)

// rpcError is an error on the wire.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// frame is one message of either direction: a request has a method and an id,
// a notification a method, a response an id.
type frame struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// conn exchanges JSON-RPC messages, one in each line.
type conn struct {
	in *bufio.Reader

	writing sync.Mutex // guards out and the order of messages
	out     io.Writer

	mu      sync.Mutex // guards what follows
	last    int64
	waiting map[string]chan frame // requests to the client, by their id
	closed  bool
}

func newConn(in io.Reader, out io.Writer) *conn {
	return &conn{in: bufio.NewReader(in), out: out, waiting: map[string]chan frame{}}
}

// read returns the next request or notification. Responses go to whoever waits
// for them. io.EOF says that the client is gone.
func (c *conn) read() (frame, error) {
	for {
		line, err := c.line()
		if err != nil {
			return frame{}, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var f frame
		if err := json.Unmarshal(line, &f); err != nil {
			if err := c.fail(nil, &rpcError{codeParse, "this line is no JSON-RPC message: " + err.Error()}); err != nil {
				return frame{}, err
			}
			continue
		}
		if f.Method != "" {
			return f, nil
		}
		c.mu.Lock()
		answer := c.waiting[string(f.ID)]
		delete(c.waiting, string(f.ID))
		c.mu.Unlock()
		if answer != nil {
			answer <- f
		}
	}
}

func (c *conn) line() ([]byte, error) {
	var line []byte
	for {
		part, err := c.in.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, fmt.Errorf("read a message: it is longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// close ends the wait of everybody who asked the client something.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for id, answer := range c.waiting {
		delete(c.waiting, id)
		close(answer)
	}
}

func (c *conn) write(f frame) error {
	f.Version = "2.0"
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err = c.out.Write(append(line, '\n'))
	return err
}

// notify sends a notification.
func (c *conn) notify(method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return c.write(frame{Method: method, Params: raw})
}

// succeed responds to a request.
func (c *conn) succeed(id json.RawMessage, result any) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return c.write(frame{ID: id, Result: raw})
}

// fail responds to a request with an error.
func (c *conn) fail(id json.RawMessage, err error) error {
	if id == nil {
		id = json.RawMessage("null")
	}
	return c.write(frame{ID: id, Error: asRPC(err)})
}

// errGone says that the client went away while it was asked something.
var errGone = errors.New("the client is gone")

// call asks the client and waits for its response. When the context ends, the
// client is told that nobody waits.
func (c *conn) call(ctx context.Context, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errGone
	}
	c.last++
	id := json.RawMessage(fmt.Sprint(c.last))
	answer := make(chan frame, 1)
	c.waiting[string(id)] = answer
	c.mu.Unlock()
	if err := c.write(frame{ID: id, Method: method, Params: raw}); err != nil {
		return err
	}
	select {
	case f, ok := <-answer:
		switch {
		case !ok:
			return errGone
		case f.Error != nil:
			return f.Error
		}
		return json.Unmarshal(f.Result, result)
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.waiting, string(id))
		c.mu.Unlock()
		if err := c.notify("$/cancel_request", map[string]json.RawMessage{"requestId": id}); err != nil {
			return err
		}
		return context.Cause(ctx)
	}
}

// asRPC returns an error as the client gets it.
func asRPC(err error) *rpcError {
	var known *rpcError
	code := codeInternal
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, session.ErrNotFound):
		code = codeNotFound
	case errors.Is(err, session.ErrInvalid), errors.Is(err, session.ErrUnsupported):
		code = codeInvalidParams
	}
	return &rpcError{code, err.Error()}
}

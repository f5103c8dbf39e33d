package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
)

// maxEvent is the largest event that is read: a message with its attachments.
const maxEvent = 64 << 20

// Follow yields the changes of a session after a number, then every change and
// every piece of an answer as it comes, until the context ends. A broken
// connection is made again and goes on after the last change: no change is
// missed and none comes twice. The pieces of an answer whose connection broke
// are void, which Dropped says.
func (c *Client) Follow(ctx context.Context, ref string, after int64) iter.Seq2[holdfast.Update, error] {
	return c.follow(ctx, ref, after, false)
}

// follow is Follow, or with once only what is there already.
func (c *Client) follow(ctx context.Context, ref string, after int64, once bool) iter.Seq2[holdfast.Update, error] {
	return func(yield func(holdfast.Update, error) bool) {
		f := &follower{client: c, ref: ref, after: after, once: once, yield: yield}
		for wait := c.c.Backoff; ; wait = min(2*wait, 10*time.Second) {
			before := f.after
			err := f.connect(ctx)
			if f.ended || ctx.Err() != nil {
				return
			}
			if !errors.Is(err, errBroken) {
				yield(holdfast.Update{}, err)
				return
			}
			if !f.drop() {
				return
			}
			if f.after > before {
				wait = c.c.Backoff
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	}
}

// errBroken is a stream that ended and can be continued.
var errBroken = errors.New("the connection broke")

// follower is one call of Follow.
type follower struct {
	client *Client
	ref    string
	after  int64
	once   bool // end where everything that is there was yielded
	yield  func(holdfast.Update, error) bool
	open   map[holdfast.Attempt]bool // attempts of which pieces were yielded
	ended  bool                      // the reader wants no more
}

// connect opens the stream and reads it to its end. An error that is not
// errBroken is final.
func (f *follower) connect(ctx context.Context) error {
	res, err := f.client.send(ctx, call{
		path: sessionPath(f.ref, "/events"), query: url.Values{"after": {strconv.FormatInt(f.after, 10)}},
		header: http.Header{"Accept": {"text/event-stream"}},
	}, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // what there is of it
		err := readProblem(res, data)
		if res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusBadGateway || res.StatusCode == http.StatusTooManyRequests {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		return err
	}
	return f.read(res.Body)
}

// read reads events until the stream ends.
func (f *follower) read(stream io.Reader) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxEvent)
	var name, data string
	for lines.Scan() {
		line := lines.Text()
		switch field, value, _ := strings.Cut(line, ": "); {
		case line == "" && name != "":
			if err := f.take(name, data); err != nil || f.ended {
				return err
			}
			name, data = "", ""
		case field == "event":
			name = value
		case field == "data":
			data = value
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("an event is larger than %d bytes", maxEvent)
	}
	return errBroken
}

// take yields one event.
func (f *follower) take(name, data string) error {
	var u holdfast.Update
	var target any
	switch name {
	case "record":
		u.Record = &session.LogEntry{}
		target = u.Record
	case "delta":
		u.Delta = &holdfast.Delta{}
		target = u.Delta
	case "dropped":
		u.Dropped = &holdfast.Dropped{}
		target = u.Dropped
	case "gone":
		return f.gone(data)
	case "caught-up":
		f.ended = f.once
		return nil
	default: // what newer servers send
		return nil
	}
	if err := json.Unmarshal([]byte(data), target); err != nil {
		return fmt.Errorf("read an event of the server: %w", err)
	}
	f.note(u)
	f.ended = !f.yield(u, nil)
	return nil
}

// gone returns why the server ended the stream: errBroken where another try
// may help.
func (f *follower) gone(data string) error {
	var p problem.Problem
	if err := json.Unmarshal([]byte(data), &p); err != nil || p.RetryAfter > 0 {
		return errBroken
	}
	return p.Err()
}

// note remembers where to go on from, and which answers are in progress.
func (f *follower) note(u holdfast.Update) {
	switch {
	case u.Record != nil:
		f.after = u.Record.Seq
		if _, ok := u.Record.Change.(session.InferenceAnswered); ok {
			f.open = nil
		}
	case u.Delta != nil:
		if f.open == nil {
			f.open = map[holdfast.Attempt]bool{}
		}
		f.open[u.Delta.Attempt] = true
	case u.Dropped != nil:
		delete(f.open, u.Dropped.Attempt)
	}
}

// drop says that the pieces of unfinished answers are void: after a break they
// come again from their beginning.
func (f *follower) drop() bool {
	for a := range f.open {
		if !f.yield(holdfast.Update{Dropped: &holdfast.Dropped{Attempt: a}}, nil) {
			return false
		}
	}
	f.open = nil
	return true
}

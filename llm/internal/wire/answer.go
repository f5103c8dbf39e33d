package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
)

var (
	errTooLarge = errors.New("too large")
	errLine     = errors.New("line too long")
)

// maxLine is the most bytes of one line: a whole answer may be one line.
const maxLine = 8 << 20

// done ends a stream at some servers.
const done = "[DONE]"

// Answer is the body of a response: one document or a stream of events.
type Answer struct {
	client *Client
	guard  *guard
	body   io.ReadCloser
	reader *bufio.Reader

	line []byte // the line being read; reused
	data []byte // of the event being read; reused
	good int    // how many events and documents were valid JSON
	over bool   // the stream has announced its end
}

func newAnswer(c *Client, g *guard, body io.ReadCloser) *Answer {
	return &Answer{
		client: c, guard: g, body: body,
		reader: bufio.NewReaderSize(&guardedBody{body: body, guard: g, left: c.config.MaxBytes}, 16<<10),
	}
}

// Ending is called when the answer is complete and only the end of the stream is
// missing: from then on a short pause ends the request.
func (a *Answer) Ending() {
	a.guard.idle = min(a.guard.idle, endingIdle)
	a.guard.reset()
}

const (
	endingIdle = 5 * time.Second       // for what follows an answer, such as its usage
	drainIdle  = 50 * time.Millisecond // for the rest of a stream that announced its end
	drainBytes = 4 << 10
)

// Close ends the request, also in the middle of the answer. A stream that
// announced its end is read completely if the rest comes at once, so that the
// connection can be reused.
func (a *Answer) Close() {
	if a.over {
		a.guard.idle = drainIdle
		a.guard.reset()
		_, _ = io.CopyN(io.Discard, a.reader, drainBytes) // the rest is not needed
	}
	a.guard.stop()
	_ = a.body.Close() // the rest is not needed
}

// Whole reports an answer that is one document, whatever its content type says:
// some servers do not stream and do not say so. A web page is an error.
func (a *Answer) Whole() (bool, error) {
	for {
		next, err := a.reader.Peek(1)
		if err != nil {
			return false, a.fail(err)
		}
		switch c := next[0]; c {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF: // keep-alives and a byte order mark
			if _, err := a.reader.Discard(1); err != nil {
				return false, a.fail(err)
			}
		case '<':
			start, _ := a.reader.Peek(4 << 10) // as much as has arrived
			return false, a.client.webPage(start)
		default:
			return c == '{' || c == '[', nil
		}
	}
}

func (c *Client) webPage(page []byte) error {
	return c.Final("it answered with a web page" + c.pageTitle(page) + ", not with JSON; check the URL")
}

// All reads an answer that is one JSON document.
func (a *Answer) All() ([]byte, error) {
	raw, err := io.ReadAll(a.reader)
	if err != nil {
		return nil, a.fail(err)
	}
	raw = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("\ufeff"))
	switch {
	case json.Valid(raw):
		a.good++
		return raw, nil
	case len(raw) == 0:
		return nil, a.client.Transient("it answered with nothing")
	case raw[0] == '<':
		return nil, a.client.webPage(raw)
	case raw[0] == '{' || raw[0] == '[':
		return nil, a.client.Transient("its answer was cut off or is not JSON")
	}
	return nil, a.client.Final("its answer is not JSON")
}

// Next returns the JSON of the next event, or io.EOF at the end of the stream.
// It is valid until the next call. An event of one line is returned as soon as
// the line is complete.
func (a *Answer) Next() ([]byte, error) {
	if a.over {
		return nil, io.EOF
	}
	a.data = a.data[:0]
	for {
		line, err := a.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, a.fail(err)
		}
		last := err != nil
		value, isData := dataLine(line)
		switch {
		case isData && len(a.data) == 0 && string(value) == done:
			a.over = true
			return nil, io.EOF
		case isData && len(a.data) == 0 && json.Valid(value):
			a.good++
			return value, nil
		case isData && len(value) > 0:
			if a.data = append(append(a.data, value...), '\n'); len(a.data) > maxLine {
				return nil, a.fail(errLine)
			}
		}
		if len(a.data) > 0 && (last || len(line) == 0) {
			return a.multiLine(last)
		}
		if last {
			return nil, io.EOF
		}
	}
}

// multiLine returns an event of several lines.
func (a *Answer) multiLine(last bool) ([]byte, error) {
	switch {
	case json.Valid(a.data):
		a.good++
		return a.data, nil
	case last:
		return nil, a.client.Transient("its answer was cut off")
	case a.good > 0:
		return nil, a.client.Transient("a part of its answer is not JSON")
	}
	return nil, a.client.Final("its answer is not JSON")
}

// Over is called when an event of the protocol has announced the end.
func (a *Answer) Over() { a.over = true }

// Done reports that the stream announced its end, and did not merely stop.
func (a *Answer) Done() bool { return a.over }

func dataLine(line []byte) ([]byte, bool) {
	value, ok := bytes.CutPrefix(line, []byte("data:"))
	return bytes.TrimSpace(value), ok
}

// readLine reads a line without its end. The last one may come with io.EOF.
func (a *Answer) readLine() ([]byte, error) {
	a.line = a.line[:0]
	for {
		piece, err := a.reader.ReadSlice('\n')
		if len(a.line)+len(piece) > maxLine {
			return nil, errLine
		}
		if len(a.line) == 0 && err == nil {
			return bytes.TrimRight(piece, "\r\n"), nil // the usual case copies nothing
		}
		a.line = append(a.line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(a.line, "\r\n"), err
		}
	}
}

// fail translates the error of a read.
func (a *Answer) fail(err error) error {
	switch {
	case a.guard.ended() != nil:
		return a.guard.ended()
	case a.guard.timedOut():
		return a.client.Transient("nothing arrived for " + a.guard.idle.String())
	case errors.Is(err, errTooLarge):
		return a.client.Final("its answer is larger than the limit")
	case errors.Is(err, errLine):
		return a.client.Final("a line of its answer is longer than the limit")
	case errors.Is(err, io.EOF):
		return a.client.Transient("it answered with nothing")
	}
	return a.client.Transient("the connection broke: " + a.client.clean(errorText(err), 200))
}

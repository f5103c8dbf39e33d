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

// maxLine is the longest line of a stream: an answer may come in one piece.
const maxLine = 8 << 20

// done is what some servers say in place of a last event.
const done = "[DONE]"

// Answer is what a server says, in one piece or as a stream of events.
type Answer struct {
	client *Client
	guard  *guard
	body   io.ReadCloser
	reader *bufio.Reader

	line []byte // the line being read; reused
	data []byte // of the event being read; reused
	good int    // events and documents that were JSON
	over bool   // the stream said that it is over
}

func newAnswer(c *Client, g *guard, body io.ReadCloser) *Answer {
	return &Answer{
		client: c, guard: g, body: body,
		reader: bufio.NewReaderSize(&watched{body: body, guard: g, left: c.config.MaxBytes}, 16<<10),
	}
}

// Ending says that the answer is there and only its end is missing. The server
// is given a moment for that, not as long as for an answer.
func (a *Answer) Ending() {
	a.guard.idle = min(a.guard.idle, endingIdle)
	a.guard.alive()
}

const (
	endingIdle = 5 * time.Second       // for what follows an answer, such as its usage
	drainIdle  = 50 * time.Millisecond // for the end of a stream that said it is over
	drainBytes = 4 << 10
)

// Close ends the request, also in the middle of its answer. A stream that said
// it is over is read to its end if that comes at once: then the connection
// serves the next request too.
func (a *Answer) Close() {
	if a.over {
		a.guard.idle = drainIdle
		a.guard.alive()
		_, _ = io.CopyN(io.Discard, a.reader, drainBytes) // whatever it was, it is not wanted
	}
	a.guard.stop()
	_ = a.body.Close() // there is nobody left who wants the rest
}

// Whole reports an answer in one piece, whatever its content type says: some
// servers do not stream and do not say so. A web page is an error.
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
			start, _ := a.reader.Peek(4 << 10) // what is there of it
			return false, a.client.Final("it answered with a web page, not as a model does" + a.client.titled(start))
		default:
			return c == '{' || c == '[', nil
		}
	}
}

// All is an answer in one piece. It is JSON.
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
		return nil, a.client.Final("it answered with a web page, not as a model does" + a.client.titled(raw))
	case raw[0] == '{' || raw[0] == '[':
		return nil, a.client.Transient("its answer broke off or is no JSON")
	}
	return nil, a.client.Final("its answer is no JSON")
}

// Next is the JSON of the next event, or io.EOF when the stream is over. It is
// valid until the next call. An event is handed on as soon as its line is
// there; one spread over several lines, when it ends.
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
		value, isData := dataOf(line)
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
			return a.gathered(last)
		}
		if last {
			return nil, io.EOF
		}
	}
}

// gathered is an event of several lines.
func (a *Answer) gathered(last bool) ([]byte, error) {
	switch {
	case json.Valid(a.data):
		a.good++
		return a.data, nil
	case last:
		return nil, a.client.Transient("its answer broke off")
	case a.good > 0:
		return nil, a.client.Transient("a part of its answer is no JSON")
	}
	return nil, a.client.Final("its answer is no JSON")
}

// Over says that the stream is, in a way only its protocol knows.
func (a *Answer) Over() { a.over = true }

// Done reports that the stream said it is over, and did not merely end.
func (a *Answer) Done() bool { return a.over }

// dataOf is the value of a data line.
func dataOf(line []byte) ([]byte, bool) {
	value, ok := bytes.CutPrefix(line, []byte("data:"))
	return bytes.TrimSpace(value), ok
}

// readLine is the next line without its end. The last one may come with io.EOF.
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

// fail is the error of a read that did not go well.
func (a *Answer) fail(err error) error {
	switch {
	case a.guard.ended() != nil:
		return a.guard.ended()
	case a.guard.fired():
		return a.client.Transient("nothing arrived for " + a.guard.idle.String())
	case errors.Is(err, errTooLarge):
		return a.client.Final("its answer is larger than allowed")
	case errors.Is(err, errLine):
		return a.client.Final("a line of its answer is longer than allowed")
	case errors.Is(err, io.EOF):
		return a.client.Transient("it answered with nothing")
	}
	return a.client.Transient("the connection broke: " + a.client.clean(plain(err), 200))
}

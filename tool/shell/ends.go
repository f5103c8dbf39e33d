package shell

import (
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/tool"
)

// ends keeps the beginning and the end of a stream of any length.
type ends struct {
	head, tail []byte // the tail is a ring once it is full
	half       int
	next       int // where the ring goes on
	total      int64
}

func newEnds(most int) *ends { return &ends{half: max(most/2, 1)} }

// readFrom reads until the stream ends, however it ends: what came is kept.
func (e *ends) readFrom(in io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := in.Read(buffer)
		e.write(buffer[:n])
		if err != nil {
			return
		}
	}
}

func (e *ends) write(p []byte) {
	e.total += int64(len(p))
	if room := e.half - len(e.head); room > 0 {
		n := min(room, len(p))
		e.head = append(e.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > e.half {
		p = p[len(p)-e.half:]
	}
	if room := e.half - len(e.tail); room > 0 {
		n := min(room, len(p))
		e.tail = append(e.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(e.tail[e.next:], p)
		e.next = (e.next + n) % e.half
		p = p[n:]
	}
}

// text is what was kept, made harmless, with a line that says what was not.
func (e *ends) text() string {
	if e.total == 0 {
		return "[no output]"
	}
	head, tail := string(e.head), string(e.tail[e.next:])+string(e.tail[:e.next])
	cut := e.total - int64(len(head)+len(tail))
	if cut == 0 {
		return tool.Plain(head + tail)
	}
	return fmt.Sprintf("%s\n[cut: %d of %d bytes]\n%s", tool.Plain(head), cut, e.total, tool.Plain(tail))
}

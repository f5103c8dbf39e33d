package shell

import (
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/tool"
)

// headTail keeps the beginning and the end of a stream of any length.
type headTail struct {
	head, tail []byte // tail is a ring once it is full
	half       int
	next       int // where the ring is written next
	total      int64
}

func newHeadTail(most int) *headTail { return &headTail{half: max(most/2, 1)} }

// readFrom reads until the end or an error; either way the text is kept.
func (e *headTail) readFrom(in io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := in.Read(buffer)
		e.write(buffer[:n])
		if err != nil {
			return
		}
	}
}

func (e *headTail) write(p []byte) {
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

// text returns the kept text without control characters, with a line that says
// how much was cut.
func (e *headTail) text() string {
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

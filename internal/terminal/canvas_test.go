package terminal

import (
	"bytes"
	"testing"
)

// A line of somebody else goes above a drawing, which is then made anew.
func TestNotice_standsAboveADrawing(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	s := &Screen{w: &written, Terminal: true}
	s.Notice("before")
	c := &Canvas{to: s, Live: true, Lines: func(int, int) []string { return []string{"one", "two"} }}
	stop, began, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	first := true
	go func() {
		defer close(stopped)
		c.Animate(stop, func() {
			if first {
				first = false
				close(began)
			}
		})
	}()
	<-began
	s.Notice("meanwhile")
	close(stop)
	<-stopped
	s.Notice("after")
	const drawing = "\rone\x1b[K\ntwo\x1b[K\n\x1b[J"
	const erased = "\x1b[2A\r\x1b[J"
	switch got := written.String(); got {
	case "before\n" + drawing + erased + "meanwhile\n" + drawing + "after\n", // the first frame was drawn before the notice,
		"before\nmeanwhile\n" + drawing + "after\n": // or after it
	default:
		t.Errorf("the screen got %q", got)
	}
}

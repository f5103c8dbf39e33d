package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/mattn/go-runewidth"
)

// terminal is a real one of the system with so many columns: what a program
// writes to its end comes out at ours.
func terminal(t *testing.T, columns uint16) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	control := func(request uintptr, data unsafe.Pointer) {
		t.Helper()
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ours.Fd(), request, uintptr(data)); errno != 0 {
			t.Fatalf("set up terminal: %v", errno)
		}
	}
	var locked, number int32
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&locked))
	control(syscall.TIOCGPTN, unsafe.Pointer(&number))
	size := [4]uint16{24, columns}
	control(syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	return ours, theirs
}

func TestProgress_onARealTerminal(t *testing.T) {
	t.Parallel()
	for _, columns := range []uint16{100, 24} {
		ours, theirs := terminal(t, columns)
		p := &program{err: newScreen(theirs), getenv: func(string) string { return "" }}
		g := p.progress("copying", "session")
		g.report(2, 4)
		shown := make(chan string)
		go func() {
			data, _ := io.ReadAll(ours) // ends with an error when the other end is closed
			shown <- string(data)
		}()
		for end := time.Now().Add(20 * time.Second); !drawn(g) && time.Now().Before(end); {
			<-time.After(10 * time.Millisecond)
		}
		g.end()
		if err := theirs.Close(); err != nil {
			t.Fatal(err)
		}
		frames := strings.Split(<-shown, clearLine)
		if len(frames) < 3 {
			t.Fatalf("%d columns: frames %q", columns, frames)
		}
		if w := runewidth.StringWidth(frames[1]); w >= int(columns) || !strings.HasPrefix(frames[1], "copying  ") {
			t.Errorf("%d columns: a frame of %d: %q", columns, w, frames[1])
		}
		if wide := strings.Contains(frames[1], "█"); wide != (columns == 100) {
			t.Errorf("%d columns: there is a bar: %t, in %q", columns, wide, frames[1])
		}
		if last := frames[len(frames)-1]; !strings.HasPrefix(last, "copying: 2 of 4 sessions in ") {
			t.Errorf("%d columns: it ends with %q", columns, last)
		}
	}
}

func drawn(g *progress) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shown
}

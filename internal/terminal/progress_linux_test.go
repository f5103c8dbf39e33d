package terminal

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/holdfast-dev/holdfast/internal/ptytest"
)

func TestProgress_onARealTerminal(t *testing.T) {
	t.Parallel()
	for _, columns := range []uint16{100, 24} {
		ours, theirs := ptytest.Open(t, columns)
		p := &Console{Err: NewScreen(theirs), Getenv: func(string) string { return "" }}
		g := p.Progress("copying", "session")
		g.Report(2, 4)
		shown := make(chan string)
		go func() {
			data, _ := io.ReadAll(ours) // ends with an error when the other end is closed
			shown <- string(data)
		}()
		for end := time.Now().Add(20 * time.Second); !drawn(g) && time.Now().Before(end); {
			<-time.After(10 * time.Millisecond)
		}
		g.End()
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
		if last := frames[len(frames)-1]; !strings.HasPrefix(strings.Join(strings.Fields(last), " "), "copying: 2 of 4 sessions in ") || strings.Contains(last, "sessions\r\n") != (columns == 24) {
			t.Errorf("%d columns: it ends with %q", columns, last)
		}
	}
}

func drawn(g *Progress) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shown
}

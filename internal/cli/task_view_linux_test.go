package cli

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/ptytest"
)

// What stays on the screen is the task as it stands, once.
func TestTaskView_leavesOneDrawing(t *testing.T) {
	t.Parallel()
	d, folder := taskDesk(t)
	if code := d.startTask("s\n", folder); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, d.err)
	}
	const wide = 1000 // the question is no part of the drawing
	shown := strings.Join(ptytest.Shown(t, d.err.String(), wide), "\n")
	for _, once := range []string{"note it · completed · ", "✓ note it", "3 turns · 2 tool calls"} {
		if strings.Count(shown, once) != 1 {
			t.Errorf("%q is not there once in\n%s", once, shown)
		}
	}
	if strings.Contains(shown, "▸ note it") || strings.Contains(shown, "executing") {
		t.Errorf("something old stands in\n%s", shown)
	}
}

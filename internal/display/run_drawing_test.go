package display

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Each pattern is drawn with the units it has come to.
func TestRunDrawing_drawsEveryPattern(t *testing.T) {
	t.Parallel()
	at := func(c *RunState, unit string, m mark, note string) {
		p := c.at(unit)
		p.mark, p.note = m, note
	}
	for _, one := range []struct {
		example string
		happens func(*RunState)
		want    string
	}{
		{"workflow-recipe", func(c *RunState) {
			at(c, "task/ideas", markDone, "")
			at(c, "task/choice", markDone, `"stew"`)
			at(c, "task/recipe", markGoing, "")
		}, "    ✓ ideas     cook\n    ✓ choice    a person    \"stew\"\n  ┌ ▸ recipe    cook        after choice\n  └ · shopping  cook        after choice"},
		{"routing-support", func(c *RunState) {
			at(c, "router#0", markDone, "")
			at(c, "router#1", markDone, "→ technical")
			at(c, "route/technical/step/0", markFailed, "it broke")
		}, "  ✓ router       desk        → technical\n  ✗ technical 1  engineer    it broke\n  · technical 2  engineer"},
		{"routing-reviewed", func(*RunState) {}, "  · router  triage      urgent or routine\n  · review  a person"},
		{"parallel-hiring", func(c *RunState) {
			at(c, "branch/skills/step/0", markDone, "")
			at(c, "branch/interview/step/0", markHalted, "")
		}, "  ┌ ✓ skills       reader\n  └ ‖ interview 1  reader\n    · interview 2  a person\n    · interview 3  reader\n    · reduce       a person"},
		{"evaluator-speech", func(c *RunState) {
			at(c, "draft", markDone, "")
			at(c, "eval/2#0", markDone, "score 60")
			at(c, "gate/2", markAsking, "go on?")
		}, "  ✓ draft    speaker\n  ✓ judge 1  listener    score 60\n  ? gate 1   a person    go on?"},
		{"orchestrator-editor", func(c *RunState) {
			at(c, "plan#0", markDone, "")
			at(c, "worker/1", markGoing, "")
			c.at("worker/1").task = "the fair"
		}, "    ✓ plan      desk\n  ┌ · worker 0  reporter\n  └ ▸ worker 1  reporter    the fair\n    · reduce    a person\n    · writeup   a person"},
		{"graph-bug-triage", func(c *RunState) {
			at(c, "node/cause@1", markDone, "")
			at(c, "node/fix@1", markDone, "")
			at(c, "node/fix@2", markDone, "")
		}, "  ✓ cause   analyst      → fix\n  ✓ fix ×2  developer    → test\n  · test    tester       → fix or report\n  · report  analyst      ends here"},
	} {
		s, err := spec.Load("../../examples/workflows/"+one.example+".yaml", nil)
		if err != nil {
			t.Fatal(err)
		}
		c := NewRunState()
		one.happens(c)
		got := strings.Join(RunDrawing{To: &terminal.Screen{}, Frame: -1, Now: time.Now()}.Lines(s, c), "\n")
		if got != one.want {
			t.Errorf("%s is drawn as\n%s\nwant\n%s", one.example, got, one.want)
		}
	}
}

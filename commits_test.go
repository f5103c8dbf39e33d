package holdfast_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/tool"
)

// TestExecute_durableCommits counts the transactions of the driver: one for a
// pure action; for a turn of k answers and tools the beginning, the k, and the
// save.
func TestExecute_durableCommits(t *testing.T) {
	var commits atomic.Int64
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{OnWrite: func(point string) {
		if point == "before commit" {
			commits.Add(1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	look := toolFunc{spec: tool.Spec{Name: "look"}}
	h := open(t, func(c *holdfast.Config) {
		c.Store, c.Tools = st, toolSet(t, look)
		var replies []scripted.Reply
		for i := range 3 {
			replies = append(replies, scripted.Reply{ToolCalls: []session.ToolCall{callOf(fmt.Sprint(i), "look")}})
		}
		script(c, append(replies, scripted.Reply{Text: "seen"}, scripted.Reply{Text: "again"})...)
	})
	s := h.create()
	for _, c := range []struct {
		action holdfast.Action
		want   int64
	}{
		{holdfast.WriteMetadata{Key: "k", Value: 1}, 1},
		{holdfast.SendMessage{Text: "look three times"}, 4 + 3 + 2},
		{holdfast.SendMessage{Text: "and again"}, 1 + 2},
		{holdfast.RenameSession{To: "looker"}, 1},
	} {
		before := commits.Load()
		h.do(s.ID(), c.action)
		if got := commits.Load() - before; got != c.want {
			t.Errorf("%s made %d commits, want %d", c.action.Name(), got, c.want)
		}
	}
}

package memory

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// Of the room of a compacted window, and of its last messages, what names files
// in use.
const (
	pathShare    = 0.15
	pathMessages = 4
)

// SummaryQuestion asks a model for what is worth keeping of messages that leave
// the window, where no policy has a question of its own.
const SummaryQuestion = "Earlier parts of this conversation leave the window now. Write down what is needed to go on without them: " +
	"the goal, decisions and why, what was done, files and their state, results, open ends. No introduction."

// Compaction is what leaves a window that is too full, and what stays.
type Compaction struct {
	Moved   session.WindowMoved // without strategy and summary
	Leaving []session.Message
	Tokens  int // of what stays
}

// Compact chooses what leaves a window so that its messages take room tokens,
// as near as can be. The first message stays, the newest group, then what names
// files in use, up to a share of the room, then the newest of the rest. A call
// stays with its results. Path returns the file that a call is about, if any.
func Compact(s session.Session, room int, with With, path func(session.ToolCall) string) Compaction {
	shown := s.WindowMessages()
	groups := session.Groups(shown)
	cost := make([]int, len(groups))
	for i, g := range groups {
		for _, m := range shown[g.From:g.To] {
			cost[i] += with.Tokens(m)
		}
	}
	stays := make([]bool, len(groups))
	left := room
	keep := func(i int) {
		if !stays[i] {
			stays[i] = true
			left -= cost[i]
		}
	}
	for i, g := range groups {
		m := shown[g.From]
		if i == 0 || i == len(groups)-1 || g.Open || m.Role == session.RoleSystem || m.Role == session.RoleDeveloper {
			keep(i)
		}
	}
	share, recent := int(pathShare*float64(room)), max(0, len(shown)-pathMessages)
	inUse := pathsIn(shown[recent:], path)
	for i := len(groups) - 1; i >= 0; i-- {
		if !stays[i] && groups[i].To <= recent && cost[i] <= min(share, left) && names(shown[groups[i].From:groups[i].To], inUse) {
			share -= cost[i]
			keep(i)
		}
	}
	from := len(groups)
	for from > 0 && (stays[from-1] || cost[from-1] <= left) {
		from--
		keep(from)
	}
	return leave(s, shown, groups, stays, from, cost)
}

// leave returns the change that shows the groups that stay and everything from
// one on.
func leave(s session.Session, shown []session.Message, groups []session.Group, stays []bool, from int, cost []int) Compaction {
	window := s.Window()
	c := Compaction{Moved: session.WindowMoved{Limit: len(groups), From: window.FromSeq, Keep: []int64{}}}
	c.Moved.To = s.Seq() + 1
	if from < len(groups) {
		c.Moved.To = shown[groups[from].From].Seq
	}
	for i, g := range groups {
		if stays[i] {
			c.Tokens += cost[i]
			if i < from {
				for _, m := range shown[g.From:g.To] {
					c.Moved.Keep = append(c.Moved.Keep, m.Seq)
				}
			}
			continue
		}
		c.Leaving = append(c.Leaving, shown[g.From:g.To]...)
		c.Moved.Groups++
		c.Moved.Tokens += cost[i]
	}
	return c
}

// pathsIn returns the files that the calls of some messages are about.
func pathsIn(messages []session.Message, path func(session.ToolCall) string) []string {
	var paths []string
	for _, m := range messages {
		for _, call := range m.ToolCalls {
			if p := path(call); p != "" && !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// names reports messages that mention one of some files.
func names(messages []session.Message, paths []string) bool {
	for _, m := range messages {
		text := m.Content.Text()
		if m.ToolResult != nil {
			text += m.ToolResult.Content
		}
		for _, call := range m.ToolCalls {
			text += string(call.Arguments)
		}
		if slices.ContainsFunc(paths, func(p string) bool { return strings.Contains(text, p) }) {
			return true
		}
	}
	return false
}

// Summarise has with.Summarise write what is worth keeping of what leaves, and
// adds it to the move. After an error the move has no summary.
func (c *Compaction) Summarise(ctx context.Context, s session.Session, with With) error {
	summary, err := summarise(ctx, s.Window(), c.Leaving, with)
	if err != nil {
		return err
	}
	c.Moved.Strategy, c.Moved.Summary = session.PruneSummary, &summary
	return nil
}

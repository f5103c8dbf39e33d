package display

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
)

// TurnView shows a turn while it runs: the answer word by word on standard
// output, and what tools do in lines of their own on standard error. It shows
// the items of the session, wherever the turn runs. Each word of an answer is
// shown once, also where a connection broke and the answer comes from its
// beginning again.
type TurnView struct {
	*terminal.Console
	before session.Session // the turn
	items  *projector.Projector

	mu       sync.Mutex // guards the rest
	seen     int64      // the last change that was heard of
	tables   terminal.Tables
	wrap     terminal.Wrapper
	style    terminal.Markdown
	shown    []byte // of the answer that is coming
	draft    []byte // what there is of it; shorter where it comes again
	thought  string // before the answer, and not shown yet
	whole    bool   // nothing is added to that thought any more
	thinks   bool   // what was thought is shown, and may go on
	Printed  bool   // some of an answer was shown
	open     bool   // the last line of it has no end yet
	waitLine *terminal.WaitLine
}

// NewTurnView begins to show turns of a session. The caller ends it.
func NewTurnView(p *terminal.Console, before session.Session) *TurnView {
	n := &TurnView{Console: p, before: before, items: projector.Of(before), seen: before.Seq(), style: terminal.Markdown{Screen: p.Out}}
	n.waitLine = p.NewWaitLine(&n.mu)
	n.waitLine.Begin()
	return n
}

// IsBehind reports that the session has changes that were not heard of.
func (n *TurnView) IsBehind(s session.Session) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !s.IsZero() && n.seen < s.Seq()
}

// CatchUp shows the messages that were not heard of.
func (n *TurnView) CatchUp(s session.Session) {
	for _, m := range s.All() {
		if m.Seq > n.seen {
			n.Take(holdfast.Update{Record: &session.LogEntry{Record: session.Record{Seq: m.Seq, At: m.CreatedAt, Change: session.MessageAdded{Message: m}}}})
		}
	}
}

// End leaves the terminal as a new line finds it.
func (n *TurnView) End() {
	n.waitLine.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waitLine.StopWaiting()
	n.endLine()
}

// Take shows an update.
func (n *TurnView) Take(u holdfast.Update) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if u.Record != nil {
		n.seen = u.Record.Seq
	}
	answer, whole := "", false
	for _, c := range n.items.Apply(u) {
		said := c.Item.Message != nil && c.Item.Message.Role == session.RoleAssistant
		switch {
		case said && c.Op == projector.Grew:
			n.draft = append(n.draft, c.Item.Message.Text...)
			n.showDraft()
		case said && c.Op == projector.Withdrawn:
			n.draft = n.draft[:0]
		case said && c.Op == projector.Finished:
			answer, whole = answer+c.Item.Message.Text, true
		case c.Item.Reasoning != nil:
			n.think(c)
		case c.Item.Call != nil:
			n.showThought()
			n.showCall(c)
		}
	}
	if whole {
		n.settle(answer)
		n.thinks = false
	}
	if d := u.Dropped; d != nil && d.Again { // else the error of the turn says how it ended
		n.askAgain(*d)
	}
}

// think keeps what a model thinks before it answers, until the answer comes.
func (n *TurnView) think(c projector.Change) {
	switch {
	case c.Op == projector.Withdrawn:
		n.thought = ""
	case c.Op == projector.Grew && !n.thinks:
		n.thought, n.whole = n.thought+c.Item.Reasoning.Text, false
	case c.Op == projector.Finished && !n.thinks:
		n.thought, n.whole = c.Item.Reasoning.Text, true
	case c.Op == projector.Finished:
		n.thinks = false
	}
}

// showThought shows the beginning of what was thought, folded into one line.
func (n *TurnView) showThought() {
	if strings.TrimSpace(n.thought) == "" {
		return
	}
	n.printLine("thought · %s", n.thought)
	n.thought, n.thinks = "", !n.whole
}

// showDraft shows what was not shown yet of the answer that is coming.
func (n *TurnView) showDraft() {
	if bytes.HasPrefix(n.shown, n.draft) {
		return
	}
	if !bytes.HasPrefix(n.draft, n.shown) {
		n.voidShown()
	}
	n.showThought()
	n.waitLine.StopWaiting()
	n.Printed, n.open = true, true
	width := n.Out.Width()
	n.print(n.wrap.Write(n.tables.Write(n.ForOutput(string(n.draft[len(n.shown):])), width), width))
	n.shown = append(n.shown, n.draft[len(n.shown):]...)
}

// print writes text of an answer in its colours.
func (n *TurnView) print(text string) {
	fmt.Fprint(n.Out, strings.ReplaceAll(n.style.Write(text), string(terminal.SoftBreak), "\n"))
}

// settle shows what is left of an answer that is whole.
func (n *TurnView) settle(answer string) {
	n.draft = append(n.draft[:0], answer...)
	if len(answer) < len(n.shown) {
		n.voidShown()
	}
	n.showDraft()
	n.endLine()
	n.shown, n.draft = n.shown[:0], n.draft[:0]
}

// voidShown says that what was shown of an answer is void. The line stands
// among the words of the answers, so that a reader of those alone knows too.
func (n *TurnView) voidShown() {
	n.endLine()
	fmt.Fprintln(n.Out, n.Out.Paint(terminal.Dim, "(this answer was interrupted and does not count)"))
	n.shown, n.Printed = n.shown[:0], false
}

// askAgain says why the model is asked again, and when.
func (n *TurnView) askAgain(d holdfast.Dropped) {
	text := "asking again in " + terminal.DurationText(time.Duration(d.PauseSeconds*float64(time.Second)))
	if d.Reason != "" {
		text += " · " + terminal.Shortened(d.Reason, 200)
	}
	n.waitLine.StopWaiting()
	if len(n.shown) > 0 {
		n.voidShown()
	} else {
		text = "no answer, " + text
	}
	n.Err.Status("%s", text)
	n.waitLine.Begin()
}

// showCall shows a tool that begins or ends. A call that was refused only
// fails.
func (n *TurnView) showCall(c projector.Change) {
	call := c.Item.Call
	switch {
	case call.State == projector.CallRunning && call.Result == nil && c.Op != projector.Withdrawn:
		n.printLine("→ %s %s", call.Name, argumentsText(call.Arguments))
		n.showSubagent(call)
	case c.Op == projector.Finished:
		took, mark, end := "", "✓", ""
		if call.StartedAt != nil {
			took = " · " + terminal.DurationText(call.EndedAt.Sub(*call.StartedAt))
		}
		if call.Result.IsError {
			mark, end = "✗", " · "+terminal.Shortened(call.Result.Content, 200)
			took = " failed" + took
		}
		n.printLine("%s %s%s%s", mark, call.Name, took, end)
		n.waitLine.Begin()
	}
}

// showSubagent says where the agent works that a call gives work to.
func (n *TurnView) showSubagent(call *projector.Call) {
	var work struct {
		Subagent string `json:"subagent"`
	}
	if call.Name == SpawnTool && json.Unmarshal(call.Arguments, &work) == nil && slices.Contains(n.before.Definition().Subagents, work.Subagent) {
		n.printLine("→ agent %s works in session %s", work.Subagent, ShortID(holdfast.SubagentID(n.before, call.CallID)))
	}
}

// printLine writes one line that fits the terminal.
func (n *TurnView) printLine(format string, args ...any) {
	n.endLine()
	n.waitLine.StopWaiting()
	columns := n.Err.Width()
	if columns <= 0 {
		columns = terminal.DefaultWidth
	}
	n.Err.Status("%s", runewidth.Truncate(terminal.OneLine(fmt.Sprintf(format, args...)), columns-1, "…"))
}

// endLine ends the line of an answer that something else follows.
func (n *TurnView) endLine() {
	if n.open {
		width := n.Out.Width()
		n.print(n.wrap.Write(n.tables.End(width), width) + n.wrap.End(width))
		fmt.Fprintln(n.Out, n.style.End())
		n.open = false
	}
}

// SpawnTool is the tool that gives work to a subagent.
const SpawnTool = "spawn_subagent"

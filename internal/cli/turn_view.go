package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
)

// turnView shows a turn while it runs: the answer word by word on standard
// output, and what tools do in lines of their own on standard error. It shows
// the items of the session, wherever the turn runs. Each word of an answer is
// shown once, also where a connection broke and the answer comes from its
// beginning again.
type turnView struct {
	*program
	before session.Session // the turn
	items  *projector.Projector

	mu       sync.Mutex // guards the rest
	seen     int64      // the last change that was heard of
	wrap     wrapper
	style    markdown
	shown    []byte // of the answer that is coming
	draft    []byte // what there is of it; shorter where it comes again
	printed  bool   // some of an answer was shown
	open     bool   // the last line of it has no end yet
	waitLine *waitLine
}

// newTurnView begins to show turns of a session. The caller ends it.
func (p *program) newTurnView(before session.Session) *turnView {
	n := &turnView{program: p, before: before, items: projector.Of(before), seen: before.Seq(), style: markdown{screen: p.out}}
	n.waitLine = p.newWaitLine(&n.mu)
	n.waitLine.begin()
	return n
}

// executeShown executes a turn and shows it while it runs. Printed says that
// an answer was shown.
func (p *program) executeShown(ctx context.Context, e *env, id string, a holdfast.Action, opts []holdfast.Option) (s session.Session, printed bool, err error) {
	before, err := e.Get(ctx, id, holdfast.WithTail())
	if err != nil {
		return before, false, err
	}
	n := p.newTurnView(before)
	defer n.end()
	follow, cancel := context.WithCancel(ctx)
	heard, over := make(chan struct{}, 1), make(chan struct{})
	updates := e.Follow(follow, id, before.Seq())
	go func() {
		defer close(over)
		for u, err := range updates {
			if err != nil {
				return // the turn does not depend on it, and has the answer
			}
			n.hear(u)
			select {
			case heard <- struct{}{}:
			default:
			}
		}
	}()
	s, err = e.Execute(ctx, id, a, opts...)
	late := time.NewTimer(hearing)
	defer late.Stop()
	for waits := true; waits && n.isBehind(s); {
		select {
		case <-heard:
		case <-over:
			waits = false
		case <-late.C:
			waits = false
		}
	}
	cancel()
	<-over
	if n.isBehind(s) {
		n.catchUp(s)
	}
	return s, n.printed, err
}

// isBehind reports that the session has changes that were not heard of.
func (n *turnView) isBehind(s session.Session) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !s.IsZero() && n.seen < s.Seq()
}

// catchUp shows the messages that were not heard of.
func (n *turnView) catchUp(s session.Session) {
	for _, m := range s.All() {
		if m.Seq > n.seen {
			n.hear(holdfast.Update{Record: &session.LogEntry{Record: session.Record{Seq: m.Seq, At: m.CreatedAt, Change: session.MessageAdded{Message: m}}}})
		}
	}
}

// end leaves the terminal as a new line finds it.
func (n *turnView) end() {
	n.waitLine.close()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waitLine.stopWaiting()
	n.endLine()
}

// hear shows an update.
func (n *turnView) hear(u holdfast.Update) {
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
		case c.Item.Call != nil:
			n.showCall(c)
		}
	}
	if whole {
		n.settle(answer)
	}
	if d := u.Dropped; d != nil && d.Again { // else the error of the turn says how it ended
		n.askAgain(*d)
	}
}

// showDraft shows what was not shown yet of the answer that is coming.
func (n *turnView) showDraft() {
	if bytes.HasPrefix(n.shown, n.draft) {
		return
	}
	if !bytes.HasPrefix(n.draft, n.shown) {
		n.voidShown()
	}
	n.waitLine.stopWaiting()
	n.printed, n.open = true, true
	n.print(n.wrap.write(n.forOutput(string(n.draft[len(n.shown):])), n.out.width()))
	n.shown = append(n.shown, n.draft[len(n.shown):]...)
}

// print writes text of an answer in its colours.
func (n *turnView) print(text string) {
	fmt.Fprint(n.out, strings.ReplaceAll(n.style.write(text), string(softBreak), "\n"))
}

// settle shows what is left of an answer that is whole.
func (n *turnView) settle(answer string) {
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
func (n *turnView) voidShown() {
	n.endLine()
	fmt.Fprintln(n.out, n.out.paint(dim, "(the answer was interrupted, asking again)"))
	n.shown, n.printed = n.shown[:0], false
}

// askAgain says why the model is asked again, and when.
func (n *turnView) askAgain(d holdfast.Dropped) {
	text := "asking again in " + durationText(time.Duration(d.PauseSeconds*float64(time.Second)))
	if d.Reason != "" {
		text += " · " + shortened(d.Reason, 200)
	}
	n.waitLine.stopWaiting()
	if len(n.shown) > 0 {
		n.voidShown()
	} else {
		text = "no answer, " + text
	}
	n.err.status("%s", text)
	n.waitLine.begin()
}

// showCall shows a tool that begins or ends. A call that was refused only
// fails.
func (n *turnView) showCall(c projector.Change) {
	call := c.Item.Call
	switch {
	case call.State == projector.CallRunning && call.Result == nil && c.Op != projector.Withdrawn:
		n.printLine("→ %s %s", call.Name, argumentsText(call.Arguments))
		n.showSubagent(call)
	case c.Op == projector.Finished:
		took, mark, end := "", "✓", ""
		if call.StartedAt != nil {
			took = " · " + durationText(call.EndedAt.Sub(*call.StartedAt))
		}
		if call.Result.IsError {
			mark, end = "✗", " · "+shortened(call.Result.Content, 200)
			took = " failed" + took
		}
		n.printLine("%s %s%s%s", mark, call.Name, took, end)
		n.waitLine.begin()
	}
}

// showSubagent says where the agent works that a call gives work to.
func (n *turnView) showSubagent(call *projector.Call) {
	var work struct {
		Subagent string `json:"subagent"`
	}
	if call.Name == spawnTool && json.Unmarshal(call.Arguments, &work) == nil && slices.Contains(n.before.Definition().Subagents, work.Subagent) {
		n.printLine("→ agent %s works in session %s", work.Subagent, shortID(holdfast.SubagentID(n.before, call.CallID)))
	}
}

// printLine writes one line that fits the terminal.
func (n *turnView) printLine(format string, args ...any) {
	n.endLine()
	n.waitLine.stopWaiting()
	columns := n.err.width()
	if columns <= 0 {
		columns = defaultWidth
	}
	n.err.status("%s", runewidth.Truncate(oneLine(fmt.Sprintf(format, args...)), columns-1, "…"))
}

// endLine ends the line of an answer that something else follows.
func (n *turnView) endLine() {
	if n.open {
		n.print(n.wrap.end(n.out.width()))
		fmt.Fprintln(n.out, n.style.end())
		n.open = false
	}
}

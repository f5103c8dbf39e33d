package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// turnView shows a turn while it runs: the answer word by word on standard
// output, and what tools do in lines of their own on standard error.
type turnView struct {
	*program
	id string // of the session

	mu       sync.Mutex // tools run side by side: guards the rest
	style    markdown
	printed  bool // some of an answer was shown
	open     bool // the last line of it has no end yet
	calls    map[string]call
	waitLine *waitLine
}

// call is a tool at work.
type call struct {
	arguments json.RawMessage
	begun     time.Time
}

// newTurnView begins to show turns of a session. The caller ends it.
func (p *program) newTurnView(id string) *turnView {
	n := &turnView{program: p, id: id, style: markdown{screen: p.out}, calls: map[string]call{}}
	n.waitLine = p.newWaitLine(&n.mu)
	return n
}

// executeShown executes a turn and shows it while it runs. Printed says that
// an answer was shown.
func (p *program) executeShown(ctx context.Context, e *env, id string, a holdfast.Action, opts []holdfast.Option) (s session.Session, printed bool, err error) {
	n := p.newTurnView(id)
	defer n.end()
	if e.server != nil {
		stop, err := n.followTurn(ctx, e)
		if err != nil {
			return s, false, err
		}
		s, err = e.Execute(ctx, id, a, opts...)
		stop(s)
		return s, n.printed, err
	}
	defer n.listen(e)()
	s, err = e.Execute(ctx, id, a, append(opts, holdfast.Stream(n.showDelta))...)
	return s, n.printed, err
}

// listen shows what happens in a runtime here, until it is stopped.
func (n *turnView) listen(e *env) (stop func()) {
	stops := []func(){
		holdfast.On(e.rt, n.stepStarted, 0),
		holdfast.On(e.rt, n.attemptFailed, 0),
		holdfast.On(e.rt, n.toolStarted, 0),
		holdfast.On(e.rt, n.toolFinished, 0),
		holdfast.On(e.rt, n.subagentStarted, 0),
	}
	return func() {
		for _, stop := range stops {
			stop()
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

// showDelta shows a piece of the answer.
func (n *turnView) showDelta(d llm.Delta) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if d.ToolCall != nil {
		n.calls[d.ToolCall.ID] = call{arguments: d.ToolCall.Arguments}
	}
	if d.Text == "" {
		return
	}
	n.waitLine.stopWaiting()
	n.printed, n.open = true, true
	fmt.Fprint(n.out, n.style.write(n.forOutput(d.Text)))
}

func (n *turnView) stepStarted(e holdfast.StepStarted) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.SessionID == n.id {
		n.endLine()
		n.waitLine.begin()
	}
}

// attemptFailed says that what was shown of an answer is void. The line stands
// among the words of the answers, so that a reader of those alone knows too.
func (n *turnView) attemptFailed(e holdfast.AttemptFailed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.SessionID != n.id || !e.Retry {
		return // the error of the turn says how it ended
	}
	again := n.failures.describeRetry(n.id, e.Attempt)
	n.waitLine.stopWaiting()
	defer n.waitLine.begin()
	if !n.open {
		n.err.status("no answer, %s", again)
		return
	}
	n.endLine()
	fmt.Fprintln(n.out, n.out.paint(dim, "(the answer was interrupted, asking again)"))
	n.err.status("%s", again)
	n.printed = false
}

func (n *turnView) toolStarted(e holdfast.ToolStarted) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.SessionID != n.id {
		return
	}
	c := n.calls[e.CallID]
	c.begun = e.Time
	n.calls[e.CallID] = c
	n.printLine("→ %s %s", e.Tool, argumentsText(c.arguments))
}

func (n *turnView) toolFinished(e holdfast.ToolFinished) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.SessionID != n.id {
		return
	}
	text := "✓ " + e.Tool
	if e.IsError {
		text = "✗ " + e.Tool + " failed"
	}
	if c := n.calls[e.CallID]; !c.begun.IsZero() {
		text += " · " + durationText(e.Time.Sub(c.begun))
	}
	if e.IsError {
		if why := n.failures.reasonOf(e.CallID); why != "" {
			text += " · " + why
		}
	}
	n.printLine("%s", text)
}

func (n *turnView) subagentStarted(e holdfast.SubagentStarted) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.SessionID == n.id {
		n.printLine("→ agent %s works in session %s", e.Agent, shortID(e.ChildID))
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
		fmt.Fprintln(n.out, n.style.end())
		n.open = false
	}
}

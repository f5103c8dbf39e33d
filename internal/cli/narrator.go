package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
)

// narrator shows a turn while it goes on: the answer word by word on standard
// output, and what tools do in lines of their own on standard error.
type narrator struct {
	*program
	id string // of the session

	mu    sync.Mutex // tools run side by side: guards the rest
	style markdown
	spoke bool // some of an answer was shown
	open  bool // the last line of it has no end yet
	begun map[string]time.Time
}

// narrate begins to show the turns of a session. The caller stops it.
func (p *program) narrate(h *home, id string) (n *narrator, stop func()) {
	n = &narrator{program: p, id: id, style: markdown{screen: p.out}, begun: map[string]time.Time{}}
	stops := []func(){
		holdfast.On(h.Runtime, n.stepStarted, 0),
		holdfast.On(h.Runtime, n.attemptFailed, 0),
		holdfast.On(h.Runtime, n.toolStarted, 0),
		holdfast.On(h.Runtime, n.toolFinished, 0),
		holdfast.On(h.Runtime, n.subagentStarted, 0),
	}
	return n, func() {
		for _, stop := range stops {
			stop()
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.endLine()
	}
}

// hear shows a piece of the answer.
func (n *narrator) hear(d llm.Delta) {
	if d.Text == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spoke, n.open = true, true
	fmt.Fprint(n.out, n.style.write(n.shown(d.Text)))
}

func (n *narrator) stepStarted(e holdfast.StepStarted) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.SessionID == n.id {
		n.endLine()
	}
}

// attemptFailed says that what was shown of an answer is void. The line stands
// among the words of the answers, so that a reader of those alone knows too.
func (n *narrator) attemptFailed(e holdfast.AttemptFailed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.SessionID != n.id || !e.Retry {
		return // how it ends is told otherwise
	}
	if !n.open {
		n.err.status("no answer, asking again")
		return
	}
	n.endLine()
	fmt.Fprintln(n.out, n.out.paint(dim, "(the answer broke off, asking again)"))
	n.spoke = false
}

func (n *narrator) toolStarted(e holdfast.ToolStarted) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.SessionID != n.id {
		return
	}
	n.begun[e.CallID] = e.Time
	n.tell("→ %s", oneLine(e.Tool))
}

func (n *narrator) toolFinished(e holdfast.ToolFinished) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.SessionID != n.id {
		return
	}
	result := "✓ %s"
	if e.IsError {
		result = "✗ %s failed"
	}
	if begun, ok := n.begun[e.CallID]; ok {
		n.tell(result+" · %s", oneLine(e.Tool), spell(e.Time.Sub(begun)))
		return
	}
	n.tell(result, oneLine(e.Tool))
}

func (n *narrator) subagentStarted(e holdfast.SubagentStarted) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.SessionID == n.id {
		n.tell("→ agent %s works in session %s", oneLine(e.Agent), shortID(e.ChildID))
	}
}

func (n *narrator) tell(format string, args ...any) {
	n.endLine()
	n.err.status(format, args...)
}

// endLine ends the line of an answer that something else follows.
func (n *narrator) endLine() {
	if n.open {
		fmt.Fprintln(n.out, n.style.end())
		n.open = false
	}
}

package strands

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

// thread is a conversation sorted by units.
type thread struct {
	workflow.Conversation
	named map[string][]session.Message // by unit
	loose []*exchange                  // of units that are not named, in order
	units []string                     // of each message, as far as it is known
}

// exchange is what was said in one unit that no message names.
type exchange struct {
	first    int // the place of its first message in the conversation
	messages []session.Message
	taken    bool
}

func newThread(c workflow.Conversation) *thread {
	t := &thread{Conversation: c, named: map[string][]session.Message{}, units: make([]string, len(c.Messages))}
	for i, m := range c.Messages {
		if m.Unit != "" {
			t.named[m.Unit] = append(t.named[m.Unit], m)
			t.units[i] = m.Unit
			continue
		}
		// Between two messages of one exchange stands no other.
		n := len(t.loose)
		if n == 0 || m.Role == session.RoleUser || t.loose[n-1].end() != i {
			t.loose = append(t.loose, &exchange{first: i})
			n++
		}
		t.loose[n-1].messages = append(t.loose[n-1].messages, m)
	}
	return t
}

func (x *exchange) end() int { return x.first + len(x.messages) }

// answer returns the text of the last message, if that is an answer.
func answer(said []session.Message) (string, bool) {
	if len(said) == 0 {
		return "", false
	}
	last := said[len(said)-1]
	return last.Content.Text(), last.Role == session.RoleAssistant && len(last.ToolCalls) == 0
}

// threadOf returns the conversation of a unit's agent. The other program has no
// lanes.
func (h *history) threadOf(u workflow.Unit) *thread {
	var found *thread
	for _, t := range h.threads {
		if t.Agent == u.Agent && t.Lane == u.Lane {
			return t
		}
		if t.Agent == u.Agent && t.Lane == workflow.LaneMain {
			found = t
		}
	}
	if found == nil {
		found = newThread(workflow.Conversation{Agent: u.Agent, Lane: u.Lane})
		h.threads = append(h.threads, found)
	}
	return found
}

// claim returns what was said in a unit that is done: what bears its name and,
// if that is no answer, the next exchange that bears none. One that ends with
// the recorded answer comes before one that stands earlier.
func (t *thread) claim(u workflow.Unit, recorded *string) []session.Message {
	said := t.named[u.Key]
	if _, answered := answer(said); answered {
		return t.withoutRemoved(said)
	}
	var next *exchange
	for _, x := range t.loose {
		text, answered := answer(x.messages)
		if x.taken || !answered {
			continue
		}
		if recorded != nil && strings.TrimSpace(text) == strings.TrimSpace(*recorded) {
			next = x
			break
		}
		if next == nil {
			next = x
		}
	}
	if next == nil {
		return t.withoutRemoved(said)
	}
	more := t.take(next, u.Key)
	for len(said) > 0 && len(more) > 0 && more[0].Role == session.RoleUser { // asked again after a crash
		more = more[1:]
	}
	return append(said[:len(said):len(said)], more...)
}

// take gives an exchange to a unit.
func (t *thread) take(x *exchange, unit string) []session.Message {
	x.taken = true
	for i := x.first; i < x.end(); i++ {
		t.units[i] = unit
	}
	if t.Summary == "" && x.end() <= t.Removed {
		return ofUnit(x.messages, "")
	}
	return ofUnit(x.messages, unit)
}

// withoutRemoved takes the unit from messages all of which were removed without
// a summary: no model is shown them.
func (t *thread) withoutRemoved(said []session.Message) []session.Message {
	if len(said) == 0 || t.Summary != "" {
		return said
	}
	last := len(t.units) - 1
	for last >= 0 && t.units[last] != said[0].Unit {
		last--
	}
	if last >= t.Removed {
		return said
	}
	return ofUnit(said, "")
}

func ofUnit(said []session.Message, unit string) []session.Message {
	said = slices.Clone(said)
	for i := range said {
		said[i].Unit = unit
	}
	return said
}

// ahead returns what was said in a unit that is not done: what bears its name,
// or the end of the conversation, if that is a question without an answer. An
// answer at the end counts where the question is the very one the unit would ask.
func (t *thread) ahead(u workflow.Unit) []session.Message {
	if said := t.named[u.Key]; len(said) > 0 {
		return said
	}
	if len(t.loose) == 0 {
		return nil
	}
	x := t.loose[len(t.loose)-1]
	if x.taken || x.end() != len(t.Messages) || x.messages[0].Role != session.RoleUser {
		return nil
	}
	if _, answered := answer(x.messages); answered {
		input, err := u.Input()
		if err != nil || input != x.messages[0].Content.Text() {
			return nil
		}
	}
	return t.take(x, u.Key)
}

// addSummary records the summary of a conversation up to the last unit that it
// covers completely.
func (t *thread) addSummary(w *workflow.Recorder) {
	if t.Summary == "" {
		return
	}
	removed := min(t.Removed, len(t.units))
	for i := removed - 1; i >= 0; i-- {
		if last := t.units[i]; last != "" && !slices.Contains(t.units[removed:], last) {
			w.AddSummary(t.Agent, t.Lane, t.units[0], last, t.Summary)
			return
		}
	}
}

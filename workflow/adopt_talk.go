package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// hiddenUnit marks messages that stay in the log and are shown to nobody.
const hiddenUnit = "\x00hidden"

// thread is a Talk sorted by exchanges.
type thread struct {
	Talk
	named map[string][]session.Message // by unit
	loose []*exchange                  // of units that are not named, in order
	units []string                     // of each message, as far as it is known
}

// exchange is what was said in one unit nobody names.
type exchange struct {
	first    int // its place in the talk
	messages []session.Message
	taken    bool
}

func newThread(t Talk) *thread {
	made := &thread{Talk: t, named: map[string][]session.Message{}, units: make([]string, len(t.Messages))}
	for i, m := range t.Messages {
		if m.Unit != "" {
			made.named[m.Unit] = append(made.named[m.Unit], m)
			made.units[i] = m.Unit
			continue
		}
		// Between two messages of one exchange stands no other.
		n := len(made.loose)
		if n == 0 || m.Role == session.RoleUser || made.loose[n-1].end() != i {
			made.loose = append(made.loose, &exchange{first: i})
			n++
		}
		made.loose[n-1].messages = append(made.loose[n-1].messages, m)
	}
	return made
}

func (x *exchange) end() int { return x.first + len(x.messages) }

// answer is the text of the last message, if that is an answer.
func answer(said []session.Message) (string, bool) {
	if len(said) == 0 {
		return "", false
	}
	last := said[len(said)-1]
	return last.Content.Text(), last.Role == session.RoleAssistant && len(last.ToolCalls) == 0
}

// threadOf is where the agent of a unit speaks. Other programs have no lanes.
func (p *past) threadOf(u unit) *thread {
	var found *thread
	for _, t := range p.threads {
		if t.Agent != u.agent {
			continue
		}
		if t.Lane == u.lane {
			return t
		}
		if t.Lane == laneMain {
			found = t
		}
	}
	if found == nil {
		found = newThread(Talk{Agent: u.agent, Lane: u.lane})
		p.threads = append(p.threads, found)
	}
	return found
}

func (p *past) systemOf(u unit) string {
	for _, t := range p.threads {
		if t.Agent == u.agent && t.Lane == u.lane {
			return t.System
		}
	}
	return ""
}

// claim is what was said in a unit that is done: what bears its name and, if
// that is no answer, the next exchange that bears none. One that ends with the
// very answer goes before one that stands earlier.
func (t *thread) claim(u unit, rec record) []session.Message {
	said := t.named[u.key]
	if _, answered := answer(said); answered {
		return t.sight(said)
	}
	var next *exchange
	for _, x := range t.loose {
		text, answered := answer(x.messages)
		if x.taken || !answered {
			continue
		}
		if !rec.lost && strings.TrimSpace(text) == strings.TrimSpace(rec.response) {
			next = x
			break
		}
		if next == nil {
			next = x
		}
	}
	if next == nil {
		return t.sight(said)
	}
	more := t.take(next, u.key)
	for len(said) > 0 && len(more) > 0 && more[0].Role == session.RoleUser { // asked again after a crash
		more = more[1:]
	}
	return append(said[:len(said):len(said)], more...)
}

func (t *thread) take(x *exchange, unit string) []session.Message {
	x.taken = true
	for i := x.first; i < x.end(); i++ {
		t.units[i] = unit
	}
	said := slices.Clone(x.messages)
	if t.Summary == "" && x.end() <= t.Removed {
		for i := range said {
			said[i].Unit = hiddenUnit
		}
	}
	return said
}

// sight hides what bears a unit's name when all of it was removed and nothing
// stands for it.
func (t *thread) sight(said []session.Message) []session.Message {
	if len(said) == 0 || t.Summary != "" {
		return said
	}
	unit := said[0].Unit
	last := len(t.units) - 1
	for last >= 0 && t.units[last] != unit {
		last--
	}
	if last >= t.Removed {
		return said
	}
	said = slices.Clone(said)
	for i := range said {
		said[i].Unit = hiddenUnit
	}
	return said
}

// ahead is what was said in a unit that is not done: what bears its name, or
// the end of the talk, if that is a question without an answer. An answer at
// the end counts where the question is the very one the unit would ask.
func (t *thread) ahead(u unit) []session.Message {
	if said := t.named[u.key]; len(said) > 0 {
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
		input, err := u.input()
		if err != nil || input != x.messages[0].Content.Text() {
			return nil
		}
	}
	return t.take(x, u.key)
}

// summarised is the last unit all of whose messages a summary stands for.
func (t *thread) summarised() string {
	if t.Summary == "" {
		return ""
	}
	shown := map[string]bool{}
	for _, unit := range t.units[min(t.Removed, len(t.units)):] {
		shown[unit] = true
	}
	for i := min(t.Removed, len(t.units)) - 1; i >= 0; i-- {
		if unit := t.units[i]; unit != "" && !shown[unit] {
			return unit
		}
	}
	return ""
}

// spend makes what the agents have used what the files say.
func (p *past) spend(r *run, had, want map[string]AgentUse) {
	calls := map[string]int{}
	first := map[string]func(session.Usage, bool){} // puts what an agent has used into its first answer
	for i, c := range p.changes {
		advanced, ok := c.(session.UnitAdvanced)
		if !ok {
			continue
		}
		answered, ok := advanced.Change.(session.InferenceAnswered)
		if !ok {
			continue
		}
		calls[advanced.Agent]++
		if first[advanced.Agent] == nil {
			first[advanced.Agent] = func(used session.Usage, estimated bool) {
				answered.Usage = used
				advanced.Estimated, advanced.Change = estimated, answered
				p.changes[i] = advanced
			}
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(want)) {
		target, now := want[agent], had[agent]
		used := session.Usage{Input: max(0, target.Input-now.Input), Output: max(0, target.Output-now.Output)}
		missing := target.Calls - now.Calls - calls[agent]
		if put := first[agent]; put != nil {
			put(used, target.Estimated)
			used = session.Usage{}
		} else if used.Total() > 0 {
			missing = max(missing, 1)
		}
		for n := range missing {
			p.add(r, session.UnitAdvanced{
				Unit: "usage/" + agent, Agent: agent, Estimated: target.Estimated,
				Change: session.InferenceAnswered{StepID: fmt.Sprintf("adopted-%d", n), Usage: used},
			})
			used = session.Usage{}
		}
	}
}

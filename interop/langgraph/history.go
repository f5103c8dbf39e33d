package langgraph

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/interop/foreign"
)

// maxBranches is how many branches of a thread become sessions. Each has all
// messages up to where it began.
const maxBranches = 100

// thread is what was read of a thread, the branch of the last checkpoint last.
type thread struct {
	id       string
	created  time.Time
	count    int // checkpoints
	forgot   int // branches above maxBranches
	branches []*branch
}

// branch is a line of checkpoints, each of which has the end of the one before.
type branch struct {
	last     checkpoint     // without its messages
	messages []message      // of all its checkpoints
	places   map[string]int // where the last message with a digest is among them
	shown    int            // where those of the last checkpoint begin
}

// add adds the next checkpoint. One without messages says nothing.
func (t *thread) add(c checkpoint) {
	if t.count++; t.count == 1 {
		t.created = c.at
	}
	state := c.messages
	if c.messages = nil; len(state) == 0 {
		return
	}
	for i, b := range slices.Backward(t.branches) {
		if from, known := b.find(state); known && b.endsIn(state, from) {
			b.grow(c, state, from.history)
			t.branches = append(slices.Delete(t.branches, i, i+1), b)
			return
		}
	}
	next := &branch{}
	if n := len(t.branches); n > 0 {
		last := t.branches[n-1]
		from, known := last.find(state)
		if !known { // everything was replaced
			last.grow(c, state, from.history)
			return
		}
		next.grow(last.last, last.messages[:from.history], 0)
	}
	next.grow(c, state, len(next.messages))
	if t.branches = append(t.branches, next); len(t.branches) > maxBranches {
		t.branches = slices.Delete(t.branches, 0, 1)
		t.forgot++
	}
}

// meeting is where a state meets the messages of a branch.
type meeting struct{ history, state int }

// find finds the first message of a state that a branch has. Without any, the
// state stands behind the branch.
func (b *branch) find(state []message) (at meeting, known bool) {
	for i, m := range state {
		if j, ok := b.places[m.digest]; ok {
			return meeting{j, i}, true
		}
	}
	return meeting{len(b.messages), 0}, false
}

// endsIn reports whether all that a branch has from there on is in the state.
func (b *branch) endsIn(state []message, from meeting) bool {
	end, state := b.messages[from.history:], state[from.state:]
	return len(end) <= len(state) && slices.EqualFunc(end, state[:len(end)], func(a, b message) bool { return a.digest == b.digest })
}

// grow puts a state in the place of what a branch has from there on. All of that
// is in the state.
func (b *branch) grow(c checkpoint, state []message, from int) {
	if b.places == nil {
		b.places = map[string]int{}
	}
	b.last, b.shown, b.messages = c, from, append(b.messages[:from], state...)
	for i, m := range state {
		b.places[m.digest] = from + i
	}
}

// conversations returns the thread and then the branches that were given up.
func (t *thread) conversations() []foreign.Conversation {
	var all []foreign.Conversation
	empty := 0
	for i, b := range slices.Backward(t.branches) {
		c := foreign.Conversation{Format: Format, ID: t.id, Agent: "langgraph", CreatedAt: t.created, UpdatedAt: b.last.at}
		if i < len(t.branches)-1 {
			c.ID += "-" + b.last.id
			c.Name = t.id + " at " + b.last.at.UTC().Format(time.DateTime)
			if !slices.ContainsFunc(b.messages, func(m message) bool { return m.Kind == "human" }) {
				empty++
				continue
			}
		}
		for _, name := range b.last.others {
			c.Report.Drop("channel_values." + name)
		}
		for j, m := range b.messages {
			if j == b.shown {
				c.From = len(c.Messages)
			}
			add(&c, m)
		}
		if c.From > 0 {
			c.Report.Note("messages that only earlier checkpoints have are history, which a model is not shown: %d", c.From)
		}
		all = append(all, c)
	}
	if n := len(all); n > 1 {
		all[0].Report.Note("branches that were given up are sessions of their own: %d", n-1)
	}
	if t.forgot > 0 {
		all[0].Report.Note("left out older branches that were given up: %d", t.forgot)
	}
	if empty > 0 {
		all[0].Report.Note("left out branches without a message of a user: %d", empty)
	}
	return all
}

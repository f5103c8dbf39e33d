package holdfast

import (
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// live has the answers that are being given in this process, by session. A
// turn adds to its answer and waits for nobody; those who follow read it at
// their own pace, so that a slow one costs the turn neither time nor memory.
type live struct {
	mu    sync.Mutex // guards rooms and the users of each
	rooms map[store.Ref]*room
}

// room is where a turn and those who follow it meet.
type room struct {
	ref   store.Ref
	users int

	mu     sync.Mutex // guards the rest, and what answers hold
	answer *answer    // the one being given, nil for none
	bells  map[chan struct{}]bool
}

// enter comes into a session's room. Whoever enters leaves once.
func (l *live) enter(ref store.Ref) *room {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, open := l.rooms[ref]
	if !open {
		if l.rooms == nil {
			l.rooms = map[store.Ref]*room{}
		}
		r = &room{ref: ref, bells: map[chan struct{}]bool{}}
		l.rooms[ref] = r
	}
	r.users++
	return r
}

func (l *live) leave(r *room) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.users--; r.users == 0 {
		delete(l.rooms, r.ref)
	}
}

// bell rings when there is more of an answer, or no more. It holds one ring.
func (r *room) bell() (ring <-chan struct{}, stop func()) {
	bell := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bells[bell] = true
	return bell, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.bells, bell)
	}
}

func (r *room) ring() {
	for bell := range r.bells {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

// answer is one attempt at an answer, as far as it has come.
type answer struct {
	executionID string
	stepID      string
	attempt     int
	base        int64 // the last change in the log when the model was asked

	pieces []piece // guarded by the room
	void   bool    // it was dropped; guarded by the room
}

// piece is a part of an answer of one kind: text, reasoning or a tool call.
type piece struct {
	text    []byte
	thought bool
	call    *session.ToolCall
}

// begin makes an answer the one that is being given. The one before is in the
// log by now, or never will be.
func (r *room) begin(a *answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = a
	r.ring()
}

// end says that an answer is in the log, or never will be.
func (r *room) end(a *answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answer == a { // it may be that of a turn that took this one's place
		r.answer = nil
	}
	r.ring()
}

// drop makes an answer void and is the next attempt at it.
func (r *room) drop(a *answer) (next *answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next = &answer{executionID: a.executionID, stepID: a.stepID, attempt: a.attempt + 1, base: a.base}
	a.void = true
	if r.answer == a {
		r.answer = next
	}
	r.ring()
	return next
}

// add takes in a part of an answer. Text is joined to the text before it.
func (r *room) add(a *answer, d llm.Delta) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.write(d.Reasoning, true)
	a.write(d.Text, false)
	if d.ToolCall != nil {
		a.pieces = append(a.pieces, piece{call: copied(d.ToolCall)})
	}
	r.ring()
}

func (a *answer) write(text string, thought bool) {
	if text == "" {
		return
	}
	if last := len(a.pieces) - 1; last >= 0 && a.pieces[last].call == nil && a.pieces[last].thought == thought {
		a.pieces[last].text = append(a.pieces[last].text, text...)
		return
	}
	a.pieces = append(a.pieces, piece{text: []byte(text), thought: thought})
}

func copied(c *session.ToolCall) *session.ToolCall {
	return &session.ToolCall{ID: c.ID, Name: c.Name, Arguments: slices.Clone(c.Arguments)}
}

// current is the answer being given, nil for none.
func (r *room) current() *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answer
}

// voided reports that an answer was dropped.
func (r *room) voided(a *answer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return a.void
}

// place is how far somebody has read an answer.
type place struct{ piece, byte int }

// rest is what an answer holds after a place, and the place after that.
func (r *room) rest(a *answer, from place) ([]llm.Delta, place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var parts []llm.Delta
	for i := from.piece; i < len(a.pieces); i++ {
		p := a.pieces[i]
		switch text := string(p.text[from.byte:]); {
		case p.call != nil:
			parts = append(parts, llm.Delta{ToolCall: copied(p.call)})
			from = place{piece: i + 1}
			continue
		case text != "" && p.thought:
			parts = append(parts, llm.Delta{Reasoning: text})
		case text != "":
			parts = append(parts, llm.Delta{Text: text})
		}
		from = place{piece: i, byte: len(p.text)} // it may still grow
		if i+1 < len(a.pieces) {
			from = place{piece: i + 1}
		}
	}
	return parts, from
}

package holdfast

import (
	"cmp"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// broadcasts has the sessions of this process that are answering or followed.
type broadcasts struct {
	mu   sync.Mutex // guards open and the users of each
	open map[store.Ref]*broadcast
}

// broadcast has the answers in progress of one session and wakes its followers.
// An answer is kept once, whoever follows: followers read it at their own pace,
// and no writer waits for them.
type broadcast struct {
	ref   store.Ref
	users int
	reads sharedReads

	mu      sync.Mutex         // guards the rest, and the changing fields of answers
	answers []*answer          // in progress, one for each unit, the oldest first
	records []session.LogEntry // what was written, where the store has no log
	wakers  map[chan struct{}]bool
}

// join returns the broadcast of a session. The caller leaves it once.
func (l *broadcasts) join(ref store.Ref) *broadcast {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, found := l.open[ref]
	if !found {
		if l.open == nil {
			l.open = map[store.Ref]*broadcast{}
		}
		b = &broadcast{ref: ref, wakers: map[chan struct{}]bool{}}
		l.open[ref] = b
	}
	b.users++
	return b
}

func (l *broadcasts) leave(b *broadcast) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.users--; b.users == 0 {
		delete(l.open, b.ref)
	}
}

// subscribe returns a channel that receives when an answer grew or ended. It
// holds one signal.
func (b *broadcast) subscribe() (woken <-chan struct{}, stop func()) {
	waker := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wakers[waker] = true
	return waker, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.wakers, waker)
	}
}

func (b *broadcast) wake() {
	for waker := range b.wakers {
		select {
		case waker <- struct{}{}:
		default:
		}
	}
}

// answer is one attempt at an answer, as far as it has come.
type answer struct {
	name   Attempt
	base   int64     // the last change in the log when the model was asked
	failed []Dropped // the attempts before it

	pieces  []piece // guarded by the broadcast, as are the rest
	written bool    // its record is being written: nothing more is added
	void    bool    // it will have no record,
	why     Dropped // for this reason, where one is known
}

// piece is a part of an answer of one kind: text, reasoning or a tool call.
type piece struct {
	text      []byte
	reasoning bool
	call      *session.ToolCall
}

// begin makes a the answer in progress of its unit. The one before is in the
// log by now, or never will be.
func (b *broadcast) begin(a *answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replace(b.inProgress(a.name.Unit), a)
}

// end takes an answer away: it is in the log, or never will be.
func (b *broadcast) end(a *answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replace(a, nil)
}

// drop makes an answer void and returns the next attempt at it.
func (b *broadcast) drop(a *answer, why Dropped) (next *answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.why = why
	next = &answer{name: a.name, base: a.base, failed: append(slices.Clip(a.failed), why)}
	next.name.Number++
	if b.inProgress(a.name.Unit) != a { // another turn has begun in its place
		a.void = !a.written
		return next
	}
	b.replace(a, next)
	return next
}

// replace puts next (nil for none) in the place of old (nil for none).
func (b *broadcast) replace(old, next *answer) {
	i := len(b.answers)
	if old != nil {
		old.void = old.void || !old.written
		if at := slices.Index(b.answers, old); at >= 0 {
			b.answers, i = slices.Delete(b.answers, at, at+1), at
		}
	}
	if next != nil {
		b.answers = slices.Insert(b.answers, i, next)
	}
	b.wake()
}

// inProgress finds the answer of a unit, nil for none.
func (b *broadcast) inProgress(unit string) *answer {
	for _, a := range b.answers {
		if a.name.Unit == unit {
			return a
		}
	}
	return nil
}

// add takes in a part of an answer. Text is joined to the text before it.
func (b *broadcast) add(a *answer, d llm.Delta) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.write(d.Reasoning, true)
	a.write(d.Text, false)
	if d.ToolCall != nil {
		a.pieces = append(a.pieces, piece{call: cloneCall(d.ToolCall)})
	}
	b.wake()
}

func (a *answer) write(text string, reasoning bool) {
	if text == "" {
		return
	}
	if last := len(a.pieces) - 1; last >= 0 && a.pieces[last].call == nil && a.pieces[last].reasoning == reasoning {
		a.pieces[last].text = append(a.pieces[last].text, text...)
		return
	}
	a.pieces = append(a.pieces, piece{text: []byte(text), reasoning: reasoning})
}

func cloneCall(c *session.ToolCall) *session.ToolCall {
	return &session.ToolCall{ID: c.ID, Name: c.Name, Arguments: slices.Clone(c.Arguments)}
}

// settle says what is about to be written of an answer: its record, or a
// change after which it has none.
func (b *broadcast) settle(a *answer, written bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.written, a.void = written, a.void || !written
	b.wake()
}

// current appends the answers in progress to list.
func (b *broadcast) current(list []*answer) []*answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(list, b.answers...)
}

// isReadable reports an answer that a follower may begin to read: there is some
// of it, and its record was not yet written.
func (b *broadcast) isReadable(a *answer) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(a.pieces) > 0 && !a.written && !a.void
}

// isVoid reports an answer that will have no record.
func (b *broadcast) isVoid(a *answer) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return a.void
}

// dropped says that an answer came to nothing, and why.
func (b *broadcast) dropped(a *answer) Dropped {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := a.why
	d.Attempt = a.name
	return d
}

// showWritten keeps what was written of a session for its followers, where the
// store has no log. Records that are known already are left out.
func (rt *Runtime) showWritten(s session.Session) {
	if rt.logs != nil {
		return
	}
	rt.broadcasts.mu.Lock()
	b := rt.broadcasts.open[store.Ref{Tenant: s.Info().Tenant, ID: s.ID()}]
	rt.broadcasts.mu.Unlock()
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range session.Unsaved(s) {
		if n := len(b.records); n == 0 || b.records[n-1].Seq < r.Seq {
			b.records = append(b.records, session.LogEntry{Record: r})
		}
	}
	b.wake()
}

// recordsAfter returns the records that were kept after a number.
func (b *broadcast) recordsAfter(seq int64) []session.LogEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	from, _ := slices.BinarySearchFunc(b.records, seq+1, func(e session.LogEntry, seq int64) int { return cmp.Compare(e.Seq, seq) })
	return slices.Clone(b.records[from:])
}

// place is how far a follower has read an answer.
type place struct{ piece, byte int }

// after returns what an answer holds after a place, and the place after that.
func (b *broadcast) after(a *answer, from place) ([]llm.Delta, place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var parts []llm.Delta
	for i := from.piece; i < len(a.pieces); i++ {
		p := a.pieces[i]
		switch text := string(p.text[from.byte:]); {
		case p.call != nil:
			parts = append(parts, llm.Delta{ToolCall: cloneCall(p.call)})
			from = place{piece: i + 1}
			continue
		case text != "" && p.reasoning:
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

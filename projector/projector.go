package projector

import (
	"cmp"
	"iter"
	"slices"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// Projector keeps the items of one session. It is not safe for concurrent use.
type Projector struct {
	id        string
	execution string // the last one that began

	entries   []*entry // in the order of the log
	ids       map[string]*entry
	index     map[string][]*entry // those that later changes are about, by key
	drafts    map[string]*draft   // answers in progress, by unit
	spans     []session.Span      // the part of the log that counts
	discarded []session.Span      // stretches that never counted

	changes []Change // of the update that is being applied
}

// New returns a projector of the session with an id. It has no items.
func New(id string) *Projector {
	return &Projector{id: id, ids: map[string]*entry{}, index: map[string][]*entry{}, drafts: map[string]*draft{}, spans: []session.Span{{From: 1}}}
}

// Replay reads a log to a version; 0 is all of it, the open tail included.
func Replay(id string, log iter.Seq2[session.LogEntry, error], version int64) (*Projector, error) {
	p := New(id)
	for e, err := range log {
		if err != nil {
			return nil, err
		}
		if version == 0 || e.Version > 0 && e.Version <= version {
			p.Apply(holdfast.Update{Record: &e})
		}
	}
	return p, nil
}

// Of projects what a session holds of its transcript and, of a workflow run, of
// its ledger: for a session that was loaded whole, also from a store without a
// log. Nothing that was taken back is in it.
func Of(s session.Session) *Projector {
	p := New(s.ID())
	var records []session.Record
	for _, m := range s.All() {
		records = append(records, session.Record{Seq: m.Seq, At: m.CreatedAt, Change: session.MessageAdded{Message: m}})
	}
	records = append(records, s.Ledger()...)
	slices.SortStableFunc(records, func(a, b session.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, r := range records {
		p.Apply(holdfast.Update{Record: &session.LogEntry{Record: r}})
	}
	return p
}

// Apply takes an update in. Updates come in the order of Follow, records may
// also come from a log. A change that shows nothing changes nothing.
func (p *Projector) Apply(u holdfast.Update) []Change {
	p.changes = nil
	switch {
	case u.Delta != nil:
		p.delta(*u.Delta)
	case u.Dropped != nil:
		p.drop(u.Dropped.Unit)
	case u.Record != nil && !u.Record.Discarded:
		p.record(u.Record.Record)
	}
	return p.changes
}

// Items lists what there is to show: in the order of the log, then the answers
// in progress.
func (p *Projector) Items() []Item {
	var items []Item
	for _, e := range p.entries {
		if e.shown {
			items = append(items, e.item())
		}
	}
	for _, unit := range sortedKeys(p.drafts) {
		for _, e := range p.drafts[unit].blocks {
			items = append(items, e.item())
		}
	}
	return items
}

// Item finds an item that is shown.
func (p *Projector) Item(id string) (Item, bool) {
	if e := p.ids[id]; e != nil && e.shown {
		return e.item(), true
	}
	for _, d := range p.drafts {
		for _, e := range d.blocks {
			if e.id == id {
				return e.item(), true
			}
		}
	}
	return Item{}, false
}

// entry is an item with what it was before: a session that goes back shows it
// as it was then. Items in states do not change.
type entry struct {
	id     string
	states []state
	now    int    // the state that is shown
	shown  bool   // false: withdrawn
	text   []byte // of a draft
	always bool   // it stays when the transcript is cleared or rewound
}

// state is an item after a change.
type state struct {
	seq  int64
	item Item
}

func (e *entry) item() Item {
	i := e.states[e.now].item
	if e.text == nil {
		return i
	}
	return i.withText(string(e.text))
}

// withText returns a message or reasoning with another text.
func (i Item) withText(text string) Item {
	switch {
	case i.Message != nil:
		m := *i.Message
		m.Text, i.Message = text, &m
	case i.Reasoning != nil:
		r := *i.Reasoning
		r.Text, i.Reasoning = text, &r
	}
	return i
}

func (p *Projector) emit(op Op, i Item) { p.changes = append(p.changes, Change{op, i}) }

// add shows a new item. One whose id is taken gets another.
func (p *Projector) add(i Item) *entry {
	if p.ids[i.ID] != nil {
		i.ID = withSeq(i.ID, i.Seq)
	}
	e := &entry{id: i.ID, states: []state{{i.Seq, i}}, shown: true}
	p.keep(e)
	p.emit(Added, i)
	if i.Done {
		p.emit(Finished, i)
	}
	return e
}

func (p *Projector) keep(e *entry) {
	p.entries = append(p.entries, e)
	p.ids[e.id] = e
	if key := e.states[0].item.key(); key != "" {
		p.index[key] = append(p.index[key], e)
	}
}

const pendingKey = "pending"

func callKey(unit, id string) string { return "call/" + unit + "/" + id }
func unitKey(unit string) string     { return "unit/" + unit }

// key is under which later changes find an item; empty: none is about it.
func (i Item) key() string {
	switch {
	case i.Call != nil:
		return callKey(i.Unit, i.Call.CallID)
	case i.Pending != nil:
		return pendingKey
	case i.Work != nil:
		return unitKey(i.Unit)
	case i.Task != nil:
		return i.Task.key()
	}
	return ""
}

// update shows another state of an item.
func (p *Projector) update(e *entry, seq int64, i Item) {
	before := e.item()
	e.states, e.text = append(e.states, state{seq, i}), nil
	e.now = len(e.states) - 1
	switch {
	case !e.shown:
		e.shown = true
		p.emit(Added, i)
		if i.Done {
			p.emit(Finished, i)
		}
	case i.Done && !before.Done:
		p.emit(Finished, i)
	default:
		p.emit(Updated, i)
	}
}

// respan shows every item as the part of the log that counts leaves it.
func (p *Projector) respan() {
	for _, e := range p.entries {
		was, shown := e.now, e.shown
		before := e.item()
		e.shown = false
		for i := len(e.states) - 1; i >= 0 && !e.shown; i-- {
			if p.counts(e, e.states[i].seq) {
				e.now, e.shown = i, true
			}
		}
		switch {
		case shown && !e.shown:
			p.emit(Withdrawn, before)
		case !shown && e.shown:
			p.emit(Added, e.item())
			if e.item().Done {
				p.emit(Finished, e.item())
			}
		case e.shown && e.now != was:
			p.emit(Updated, e.item())
		}
	}
}

func (p *Projector) counts(e *entry, seq int64) bool {
	if e.always {
		return !session.Holds(p.discarded, seq)
	}
	return session.Holds(p.spans, seq)
}

// last finds the newest shown item under a key that matches.
func (p *Projector) last(key string, match func(Item) bool) *entry {
	for _, e := range slices.Backward(p.index[key]) {
		if e.shown && match(e.states[e.now].item) {
			return e
		}
	}
	return nil
}

func anyItem(Item) bool { return true }

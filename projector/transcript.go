package projector

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// draft is an answer in progress.
type draft struct {
	attempt holdfast.Attempt
	blocks  []*entry
	runs    int // of text and reasoning
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func withSeq(id string, seq int64) string { return fmt.Sprintf("%s#%d", id, seq) }

// delta adds to the answer in progress of a unit.
func (p *Projector) delta(d holdfast.Delta) {
	now := p.drafts[d.Unit]
	if now == nil || now.attempt != d.Attempt {
		p.drop(d.Unit)
		now = &draft{attempt: d.Attempt}
		p.drafts[d.Unit] = now
	}
	p.grow(now, TypeReasoning, d.Reasoning)
	p.grow(now, TypeMessage, d.Text)
	if d.ToolCall != nil {
		p.draftCall(now, *d.ToolCall)
	}
}

// grow adds text to the last block, or begins one of another type.
func (p *Projector) grow(d *draft, t Type, text string) {
	if text == "" {
		return
	}
	if n := len(d.blocks); n > 0 && d.blocks[n-1].states[0].item.Type == t {
		last := d.blocks[n-1]
		last.text = append(last.text, text...)
		p.emit(Grew, last.states[0].item.withText(text))
		return
	}
	i := p.draftItem(d, fmt.Sprint(d.runs), t)
	if d.runs++; t == TypeMessage {
		i.Message = &Message{Role: session.RoleAssistant}
	} else {
		i.Reasoning = &Reasoning{}
	}
	d.blocks = append(d.blocks, &entry{id: i.ID, states: []state{{0, i}}, shown: true, text: []byte(text)})
	p.emit(Added, i)
	p.emit(Grew, i.withText(text))
}

func (p *Projector) draftItem(d *draft, name string, t Type) Item {
	return Item{
		ID: d.attempt.StepID + "/" + name, Type: t, SessionID: p.id,
		Unit: d.attempt.Unit, ExecutionID: d.attempt.ExecutionID, StepID: d.attempt.StepID,
	}
}

// draftCall shows a tool call when it begins, and again when its arguments are
// whole.
func (p *Projector) draftCall(d *draft, c session.ToolCall) {
	i := p.draftItem(d, "call/"+c.ID, TypeCall)
	i.Call = &Call{CallID: c.ID, Name: c.Name, Arguments: c.Arguments, State: CallStreaming}
	for _, e := range d.blocks {
		if e.id == i.ID {
			e.states[0].item = i
			p.emit(Updated, i)
			return
		}
	}
	d.blocks = append(d.blocks, &entry{id: i.ID, states: []state{{0, i}}, shown: true})
	p.emit(Added, i)
}

// drop withdraws the answer in progress of a unit.
func (p *Projector) drop(unit string) {
	d := p.drafts[unit]
	if d == nil {
		return
	}
	delete(p.drafts, unit)
	for _, e := range d.blocks {
		p.emit(Withdrawn, e.item())
	}
}

// message shows a message: its content, then its tool calls. What was streamed
// of it becomes what was written.
func (p *Projector) message(m session.Message, at Item) {
	at.Unit, at.StepID = m.Unit, m.StepID
	if m.ExecutionID != "" {
		at.ExecutionID = m.ExecutionID
	}
	if m.ToolResult != nil {
		p.result(m, at)
	}
	base := m.ID
	var streamed *draft
	if m.Role == session.RoleAssistant && m.StepID != "" {
		base = m.StepID
		if d := p.drafts[m.Unit]; d != nil && d.attempt.StepID == m.StepID {
			streamed = d
		}
	}
	blocks := blocksOf(m, base, at)
	if streamed != nil {
		delete(p.drafts, m.Unit)
		for _, e := range streamed.blocks {
			if !slices.ContainsFunc(blocks, e.drafts) {
				p.emit(Withdrawn, e.item())
			}
		}
	}
	for _, i := range blocks {
		p.write(streamed, i)
	}
}

// drafts reports an entry that was streamed of an item.
func (e *entry) drafts(i Item) bool { return e.id == i.ID && e.states[0].item.Type == i.Type }

// blocksOf returns the items of a message. Content that says nothing is left
// out where something else does.
func blocksOf(m session.Message, base string, at Item) []Item {
	var items []Item
	runs := 0
	block := func(t Type, parts session.Content) {
		i := at
		i.ID, i.Type, i.Done = fmt.Sprintf("%s/%d", base, runs), t, true
		runs++
		if t == TypeReasoning {
			i.Reasoning = &Reasoning{MessageID: m.ID, Text: reasoningText(parts), Content: parts}
		} else {
			i.Message = &Message{MessageID: m.ID, Role: m.Role, Name: m.Name, Text: parts.Text(), Content: parts, Trace: m.Trace}
		}
		items = append(items, i)
	}
	content := m.Clone().Content
	for from := 0; from < len(content); {
		to, t := from, typeOf(content[from])
		for to < len(content) && typeOf(content[to]) == t {
			to++
		}
		if !empty(content[from:to]) {
			block(t, content[from:to])
		}
		from = to
	}
	if len(items) == 0 && len(m.ToolCalls) == 0 && m.ToolResult == nil {
		block(TypeMessage, content)
	}
	for _, c := range m.ToolCalls {
		i := at
		i.ID, i.Type = base+"/call/"+c.ID, TypeCall
		i.Call = &Call{CallID: c.ID, Name: c.Name, Arguments: bytes.Clone(c.Arguments), State: CallCalled}
		items = append(items, i)
	}
	return items
}

func typeOf(part session.Part) Type {
	if part.Type == session.PartReasoning {
		return TypeReasoning
	}
	return TypeMessage
}

func empty(parts session.Content) bool {
	return !slices.ContainsFunc(parts, func(part session.Part) bool {
		written := part.Type == session.PartText || part.Type == session.PartReasoning
		return !written || part.Text != "" || part.Signature != "" || part.Data != ""
	})
}

func reasoningText(parts session.Content) string {
	var text strings.Builder
	for _, part := range parts {
		text.WriteString(part.Text)
	}
	return text.String()
}

// write shows an item of a message, in the place of its draft.
func (p *Projector) write(streamed *draft, i Item) {
	at := -1
	if streamed != nil {
		at = slices.IndexFunc(streamed.blocks, func(e *entry) bool { return e.drafts(i) })
	}
	if at < 0 {
		p.add(i)
		return
	}
	e := streamed.blocks[at]
	e.states, e.text = []state{{i.Seq, i}}, nil
	p.keep(e)
	if i.Done {
		p.emit(Finished, i)
	} else {
		p.emit(Updated, i)
	}
}

// call finds the item of a tool call that matches: that of the step, else the
// newest without a result.
func (p *Projector) call(at Item, id string, match func(*Call) bool) *entry {
	key := callKey(at.Unit, id)
	if at.StepID != "" {
		if e := p.last(key, func(i Item) bool { return match(i.Call) && i.StepID == at.StepID }); e != nil {
			return e
		}
	}
	return p.last(key, func(i Item) bool { return match(i.Call) && i.Call.Result == nil })
}

// changeCall updates the item of a tool call. A call that no message has made
// gets an item of its own.
func (p *Projector) changeCall(e *entry, at Item, id, name string, change func(*Call)) {
	i := at
	if e != nil {
		i = e.item()
	} else {
		i.ID, i.Type, i.Call = withSeq(at.StepID+"/call/"+id, at.Seq), TypeCall, &Call{CallID: id, Name: name, State: CallCalled}
	}
	c := *i.Call
	change(&c)
	i.Call, i.Done = &c, i.Done || c.Result != nil && (c.finished || c.StartedAt == nil)
	if i.Done {
		c.State = CallDone
	}
	if e != nil {
		p.update(e, at.Seq, i)
	} else {
		p.add(i)
	}
}

func anyCall(*Call) bool { return true }

func (p *Projector) result(m session.Message, at Item) {
	r := m.ToolResult
	e := p.call(at, r.CallID, func(c *Call) bool { return c.Result == nil })
	p.changeCall(e, at, r.CallID, r.ToolName, func(c *Call) {
		c.Result = &Result{MessageID: m.ID, Content: r.Content, IsError: r.IsError, Synthetic: r.Synthetic}
		c.EndedAt = &at.At
	})
}

func (p *Projector) started(c session.ToolStarted, at Item) {
	at.StepID = c.StepID
	p.changeCall(p.call(at, c.CallID, anyCall), at, c.CallID, c.ToolName, func(call *Call) {
		call.State, call.StartedAt = CallRunning, &at.At
	})
}

func (p *Projector) finished(c session.ToolFinished, at Item) {
	at.StepID = c.StepID
	p.changeCall(p.call(at, c.CallID, anyCall), at, c.CallID, c.ToolName, func(call *Call) {
		call.finished, call.EndedAt, call.ChildSessionID = true, &at.At, c.ChildSessionID
	})
	p.settle(func(i Item) bool { return i.Unit == at.Unit && i.Pending.CallID == c.CallID && i.StepID == c.StepID }, at.Seq)
}

package openai

import (
	"cmp"
	"strings"

	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// encoder turns the steps of a turn into the events of a response, and into the
// response itself.
type encoder struct {
	response response
	send     func(event) bool // false: the reader is gone

	after   cursor // of the last event that the reader has
	probing bool   // the reader may have the beginning of this answer
	held    []event
	gone    bool

	change  int64 // the last one that was read
	events  int64 // that this change has made
	answer  *answer
	shown   map[string]*shown // by the id of their item of the projector
	outputs int               // items that were begun
	failure string            // the last error of the model
}

// shown is an item of the response that was begun.
type shown struct {
	index int // in the stream
	item  item
	text  strings.Builder
	done  bool
}

func newEncoder(r response, after cursor, send func(event) bool) *encoder {
	return &encoder{response: r, after: after, send: send, shown: map[string]*shown{}}
}

// begin sends what comes before the first change.
func (e *encoder) begin(change int64) {
	e.change = change
	e.emit(event{Type: "response.created", Response: e.snapshot()})
	e.emit(event{Type: "response.in_progress", Response: e.snapshot()})
}

// step takes one step in. It reports whether the reader is there.
func (e *encoder) step(s protocol.Step) bool {
	if s.Record != nil {
		if a, ok := s.Record.Change.(session.InferenceAnswered); ok && (e.answer == nil || e.answer.step != a.StepID) {
			e.startAnswer(a.StepID)
		}
		e.change, e.events = s.Record.Seq, 0
	}
	// Read from the log, the parts of an answer come one by one with their ends.
	// All of it is shown before its parts end, as when it is streamed.
	isEnd := func(c projector.Change) bool { return c.Op == projector.Finished }
	for _, c := range s.Changes {
		if !isEnd(c) {
			e.show(c)
		}
	}
	for _, c := range s.Changes {
		if isEnd(c) {
			e.show(c)
		}
	}
	if s.Record != nil {
		if _, ok := s.Record.Change.(session.MessageAdded); ok {
			e.endProbe()
		}
	}
	if s.End {
		at := s.Record.At.Unix()
		e.response.CompletedAt = &at
		e.end(s.Record.Change)
	}
	return !e.gone
}

func (e *encoder) startAnswer(step string) {
	e.endProbe()
	e.answer = newAnswer(step, e.change)
	if e.after.inAnswer() && e.change >= e.after.change() {
		e.probing = true
	}
}

// emit sends an event about the last change.
func (e *encoder) emit(v event) {
	v.SequenceNumber = int64(newCursor(e.change, e.events, 0))
	e.events++
	e.put(v)
}

// emitSaid sends an event about an answer in progress.
func (e *encoder) emitSaid(v event) {
	v.SequenceNumber = int64(e.answer.cursor())
	e.put(v)
	if e.probing && e.answer.cursor().position() == e.after.position() {
		if e.answer.cursor()&(1<<checkBits-1) == e.after&(1<<checkBits-1) { // the reader has all of this
			e.probing, e.held, e.after = false, nil, e.answer.cursor()
		} else {
			e.endProbe()
		}
	}
}

// endProbe sends what was held back: the reader has another answer, which is void.
func (e *encoder) endProbe() {
	if !e.probing {
		return
	}
	held := e.held
	e.probing, e.held, e.after = false, nil, 0
	for _, v := range held {
		e.put(v)
	}
}

func (e *encoder) put(v event) {
	switch {
	case e.send == nil || e.gone:
	case e.probing:
		e.held = append(e.held, v)
	case cursor(v.SequenceNumber) > e.after:
		e.gone = !e.send(v)
	}
}

// snapshot returns the response as it is now.
func (e *encoder) snapshot() *response {
	r := e.response
	r.Output = append([]item{}, e.response.Output...)
	return &r
}

func (e *encoder) show(c projector.Change) {
	i := c.Item
	switch {
	case i.Unit != "":
	case i.Message != nil && i.Message.Role == session.RoleAssistant:
		e.said(c, i.Message.Text)
	case i.Reasoning != nil:
		e.said(c, i.Reasoning.Text)
	case i.Pending != nil && c.Op == projector.Added:
		e.asked(i)
	case i.Call != nil:
		e.called(c)
	case i.Usage != nil && c.Op == projector.Added:
		e.used(*i.Usage)
	case i.Status != nil && len(i.Status.Errors) > 0:
		e.failure = i.Status.Errors[len(i.Status.Errors)-1].Message
	}
}

// said shows a message or reasoning: as it grows, or whole from the log.
func (e *encoder) said(c projector.Change, text string) {
	s := e.shown[c.Item.ID]
	switch c.Op {
	case projector.Withdrawn:
		if s != nil && !s.done {
			e.drop(c.Item.ID, s)
		}
	case projector.Added:
		if s == nil {
			s = e.beginText(c.Item)
		}
		e.grow(s, text)
	case projector.Grew:
		e.grow(s, text)
	case projector.Finished:
		if rest, ok := strings.CutPrefix(text, s.text.String()); ok {
			e.grow(s, rest)
		}
		e.finishText(s, text)
	}
}

// beginText shows an empty message or reasoning.
func (e *encoder) beginText(i projector.Item) *shown {
	if e.answer == nil || e.answer.step != i.StepID {
		e.startAnswer(i.StepID)
	}
	s := &shown{index: e.outputs}
	e.outputs++
	empty, name := outputText(""), strings.ReplaceAll(i.ID, "/", "_")
	if i.Reasoning != nil {
		empty = part{Type: "reasoning_text", Text: empty.Text}
		s.item = item{ID: "rs_" + name, Type: "reasoning", Summary: &[]part{}, Content: []part{}, Status: "in_progress"}
	} else {
		s.item = item{ID: "msg_" + name, Type: "message", Role: "assistant", Content: []part{}, Status: "in_progress"}
	}
	e.shown[i.ID] = s
	e.answer.say(s.item.Type[:1])
	begun := s.item
	e.emitSaid(event{Type: "response.output_item.added", OutputIndex: &s.index, Item: &begun})
	e.answer.say("+")
	e.emitSaid(event{Type: "response.content_part.added", OutputIndex: &s.index, ItemID: s.item.ID, ContentIndex: new(int), Part: &empty})
	return s
}

// grow sends more of a text, in two pieces where the reader has the first.
func (e *encoder) grow(s *shown, text string) {
	for text != "" {
		now, rest := text, ""
		if e.probing {
			now, rest = e.answer.cut(text, e.after)
		}
		s.text.WriteString(now)
		e.answer.say(now)
		v := event{Type: "response.output_text.delta", OutputIndex: &s.index, ItemID: s.item.ID, ContentIndex: new(int), Delta: &now, Logprobs: &[]string{}}
		if s.item.Type == "reasoning" {
			v.Type, v.Logprobs = "response.reasoning_text.delta", nil
		}
		e.emitSaid(v)
		text = rest
	}
}

func (e *encoder) finishText(s *shown, text string) {
	e.endProbe()
	whole := outputText(text)
	v := event{Type: "response.output_text.done", OutputIndex: &s.index, ItemID: s.item.ID, ContentIndex: new(int), Text: &text, Logprobs: &[]string{}}
	if s.item.Type == "reasoning" {
		whole = part{Type: "reasoning_text", Text: &text}
		v.Type, v.Logprobs = "response.reasoning_text.done", nil
	}
	s.item.Content, s.item.Status = []part{whole}, "completed"
	e.emit(v)
	e.emit(event{Type: "response.content_part.done", OutputIndex: &s.index, ItemID: s.item.ID, ContentIndex: new(int), Part: &whole})
	e.finish(s)
}

// finish shows an item that is whole.
func (e *encoder) finish(s *shown) {
	s.done = true
	e.response.Output = append(e.response.Output, s.item)
	whole := s.item
	e.emit(event{Type: "response.output_item.done", OutputIndex: &s.index, Item: &whole})
}

// drop ends an item whose answer is void. It is not part of the response.
func (e *encoder) drop(id string, s *shown) {
	delete(e.shown, id)
	e.answer = nil
	s.item.Status = "incomplete"
	text := s.text.String()
	s.item.Content = []part{outputText(text)}
	void := s.item
	e.put(event{Type: "response.output_item.done", SequenceNumber: int64(newCursor(e.change, maxPosition, 0)), OutputIndex: &s.index, Item: &void})
}

// whole shows an item from its beginning to its end.
func (e *encoder) whole(id string, i item) {
	s := &shown{index: e.outputs, item: i}
	e.outputs++
	e.shown[id] = s
	begun := i
	begun.Status = "in_progress"
	if i.Type == "function_call" {
		begun.Arguments = new(string)
	}
	e.emit(event{Type: "response.output_item.added", OutputIndex: &s.index, Item: &begun})
	if i.Type == "function_call" {
		e.emit(event{Type: "response.function_call_arguments.delta", OutputIndex: &s.index, ItemID: i.ID, Delta: i.Arguments})
		e.emit(event{Type: "response.function_call_arguments.done", OutputIndex: &s.index, ItemID: i.ID, Name: i.Name, Arguments: i.Arguments})
	}
	e.finish(s)
}

// asked shows a call that waits for the client: a function that it carries out, a
// question, or an approval.
func (e *encoder) asked(i projector.Item) {
	p := i.Pending.PendingCall
	arguments := string(p.Arguments)
	if p.Kind == session.PendingApproval {
		e.whole(i.ID, item{ID: approvalPrefix + p.ID, Type: "mcp_approval_request", Name: p.Tool, Arguments: &arguments, ServerLabel: serverLabel})
		return
	}
	e.whole(i.ID, item{ID: "fc_" + p.ID, Type: "function_call", Status: "completed", CallID: p.CallID, Name: p.Tool, Arguments: &arguments})
}

// How tools that the server runs, and their approvals, are shown.
const (
	serverLabel    = "holdfast"
	approvalPrefix = "mcpr_"
)

// called shows a tool that the server has run. One that waits, or was called in
// an earlier turn, is shown elsewhere.
func (e *encoder) called(c projector.Change) {
	call := c.Item.Call
	switch {
	case call.StartedAt == nil || call.Arguments == nil:
	case e.shown[c.Item.ID] == nil:
		arguments := string(call.Arguments)
		s := &shown{index: e.outputs, item: item{
			ID: "mcp_" + strings.ReplaceAll(c.Item.ID, "/", "_"), Type: "mcp_call", Status: "in_progress", Name: call.Name, Arguments: &arguments, ServerLabel: serverLabel,
		}}
		e.outputs++
		e.shown[c.Item.ID] = s
		begun := s.item
		e.emit(event{Type: "response.output_item.added", OutputIndex: &s.index, Item: &begun})
		e.emit(event{Type: "response.mcp_call.in_progress", OutputIndex: &s.index, ItemID: s.item.ID})
	case c.Op == projector.Finished && call.Result != nil && !e.shown[c.Item.ID].done:
		s := e.shown[c.Item.ID]
		s.item.Status = "completed"
		result := call.Result.Content
		if call.Result.IsError {
			s.item.Status, s.item.Error = "failed", &result
		} else {
			s.item.Output = &result
		}
		e.emit(event{Type: "response.mcp_call." + s.item.Status, OutputIndex: &s.index, ItemID: s.item.ID})
		e.finish(s)
	}
}

func (e *encoder) used(u projector.Usage) {
	if e.response.Usage == nil {
		e.response.Usage = &usage{}
	}
	sum := *e.response.Usage
	sum.InputTokens += u.Usage.Input
	sum.InputTokensDetails.CachedTokens += u.Usage.CacheRead
	sum.OutputTokens += u.Usage.Output
	sum.OutputTokensDetails.ReasoningTokens += u.Usage.Reasoning
	sum.TotalTokens = sum.InputTokens + sum.OutputTokens
	e.response.Usage = &sum
	if u.FinishReason == "length" {
		e.response.IncompleteDetails = &incomplete{Reason: "max_output_tokens"}
	}
}

// end shows how the turn ended.
func (e *encoder) end(c session.Change) {
	e.endProbe()
	r := &e.response
	finished, ok := c.(session.ExecutionFinished)
	status := session.ExecutionCompleted // a turn that waits for the client is complete
	if ok {
		status = finished.Status
	}
	switch {
	case status == session.ExecutionFailed:
		r.Status, r.Error = "failed", &responseError{Code: "server_error", Message: cmp.Or(e.failure, "the model failed")}
	case status == session.ExecutionStopped && finished.Stop != nil && finished.Stop.Reason == session.StopUserRequested:
		r.Status = "cancelled"
	case status == session.ExecutionStopped:
		r.Status, r.IncompleteDetails = "incomplete", &incomplete{Reason: "stopped"}
		if finished.Stop != nil {
			r.IncompleteDetails.Reason = string(finished.Stop.Reason)
		}
	case r.IncompleteDetails != nil:
		r.Status = "incomplete"
	default:
		r.Status = "completed"
	}
	name := r.Status
	if name == "cancelled" { // there is no event of that name
		name = "incomplete"
	}
	e.emit(event{Type: "response." + name, Response: e.snapshot()})
}

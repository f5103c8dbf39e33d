package holdfast

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Update is what happened to a session: exactly one of its fields is set.
type Update struct {
	// Record is a change of the log. Its number is the cursor to go on from. What
	// it holds is shared with other followers and must not be changed.
	Record *session.LogEntry `json:"record,omitempty"`
	// Delta is a piece of an answer in progress. It is no part of the log: it
	// has no number and is not seen again.
	Delta *Delta `json:"delta,omitempty"`
	// Dropped says that an attempt at an answer came to nothing.
	Dropped *Dropped `json:"dropped,omitempty"`
}

// Attempt names what deltas belong to: the unit of a workflow ("" in a chat or
// a task), the execution, the step that the answer will open, and how often
// the model had failed at it before.
type Attempt struct {
	Unit        string `json:"unit,omitempty"`
	ExecutionID string `json:"executionId"`
	StepID      string `json:"stepId"`
	Number      int    `json:"attempt"`
}

// Delta is a piece of an answer: some text, some reasoning or a tool call.
type Delta struct {
	Attempt
	Text      string            `json:"text,omitempty"`
	Reasoning string            `json:"reasoning,omitempty"`
	ToolCall  *session.ToolCall `json:"toolCall,omitempty"` // when it begins, and again when its arguments are whole
}

// Dropped is an attempt that came to nothing: its deltas are void, if there
// were any.
type Dropped struct {
	Attempt
	Again        bool    `json:"again,omitempty"`        // the model is asked again,
	PauseSeconds float64 `json:"pauseSeconds,omitempty"` // after this time,
	Reason       string  `json:"reason,omitempty"`       // because of this
}

// Follow is Watch with the answers in progress. It yields the changes after a
// number, then what is there of the answers in progress, then every change and
// every piece as it comes, until the context ends. A slow reader gets more text
// at a time; nobody waits for it.
//
// The units of a workflow may answer at the same time; deltas say which unit
// they belong to. The deltas of an attempt are all of it. They end with the
// inference_answered record of their step, which takes their place (of a unit:
// the unit_advanced record that holds it), or with Dropped: the model failed
// and is asked again, or the execution was interrupted. An answer that ended
// before its first piece was read comes as its record alone, an attempt that
// failed before its first piece as Dropped alone.
//
// Deltas are seen in the process that runs the turn and through any view of
// its runtime. In other processes Follow is Watch. On a store without a log it
// yields what this process writes from the call until the context ends, and
// nothing that was there before.
func (rt *Runtime) Follow(ctx context.Context, id string, after int64) iter.Seq2[Update, error] {
	if ref, err := rt.openRef(id); err == nil && rt.logs == nil {
		kept := rt.broadcasts.join(ref)
		context.AfterFunc(ctx, func() { rt.broadcasts.leave(kept) })
	}
	return func(yield func(Update, error) bool) {
		ref, err := rt.openRef(id)
		if err != nil {
			yield(Update{}, err)
			return
		}
		f := &follower{rt: rt, ref: ref, broadcast: rt.broadcasts.join(ref), cursor: after, yield: yield, dropped: map[string]Attempt{}}
		defer rt.broadcasts.leave(f.broadcast)
		f.follow(ctx)
	}
}

// follower is one call of Follow.
type follower struct {
	rt        *Runtime
	ref       store.Ref
	broadcast *broadcast
	cursor    int64
	yield     func(Update, error) bool

	readings []*reading         // of answers in progress
	dropped  map[string]Attempt // the last one that was dropped, by unit
}

// reading is how far a follower has read an answer it has begun to read.
type reading struct {
	*answer
	at    place
	ended bool // its record or Dropped was yielded: no more deltas
}

func (f *follower) follow(ctx context.Context) {
	written, stop := f.rt.subscribeChanges(f.ref)
	defer stop()
	grown, stop := f.broadcast.subscribe()
	defer stop()
	now := f.broadcast.current(nil)
	for _, a := range now { // what failed earlier is no news
		f.dropped[a.name.Unit] = a.name.before()
	}
	for unread := true; ; {
		// The answers are looked at before the log: one that is no longer in
		// progress is in the log by then, if it ever will be.
		now = f.broadcast.current(now[:0])
		over := slices.ContainsFunc(f.readings, func(r *reading) bool { return !r.ended && !slices.Contains(now, r.answer) })
		if unread || over || slices.ContainsFunc(now, func(a *answer) bool { return a.base > f.cursor }) {
			if !f.readLog(ctx) {
				return
			}
		}
		if !f.forget(now) || !f.deltas(now) {
			return
		}
		var err error
		if unread, err = f.await(ctx, written, grown); err != nil {
			if ctx.Err() == nil {
				f.yield(Update{}, err)
			}
			return
		}
	}
}

// readLog yields what the log holds after the cursor. It reports whether to
// continue.
func (f *follower) readLog(ctx context.Context) bool {
	yield := func(e session.LogEntry, err error) bool { return f.record(ctx, e, err) }
	return readPages(&f.cursor, yield, func(after int64) ([]session.LogEntry, error) {
		if f.rt.logs == nil {
			return f.broadcast.recordsAfter(after), nil
		}
		return f.broadcast.reads.read(ctx, after, func(ctx context.Context) ([]session.LogEntry, error) { return f.rt.logs.Log(ctx, f.ref, after, 0) })
	})
}

// record yields a change, after what it ends: the rest of the answer whose
// record it is, and that an answer is void.
func (f *follower) record(ctx context.Context, e session.LogEntry, err error) bool {
	if err != nil {
		if ctx.Err() == nil { // the context's end is no news
			f.yield(Update{}, err)
		}
		return false
	}
	unit, step := AnsweredStep(e.Change)
	for _, r := range f.readings {
		switch {
		case r.ended:
		case f.broadcast.isVoid(r.answer):
			if !f.drop(r) {
				return false
			}
		case step != "" && r.name.StepID == step && r.name.Unit == unit:
			if !f.rest(r) {
				return false
			}
			r.ended = true
		}
	}
	return f.yield(Update{Record: &e}, nil)
}

// forget drops the readings of answers that are no longer in progress.
func (f *follower) forget(now []*answer) bool {
	for i := 0; i < len(f.readings); {
		r := f.readings[i]
		if slices.Contains(now, r.answer) {
			i++
			continue
		}
		f.readings = slices.Delete(f.readings, i, i+1)
		if !r.ended && !f.drop(r) {
			return false
		}
	}
	return true
}

// deltas yields what there is of the answers in progress. An answer waits for
// the changes before it.
func (f *follower) deltas(now []*answer) bool {
	for _, a := range now {
		if a.base > f.cursor {
			continue
		}
		for _, d := range a.failed {
			if !f.yieldDropped(d) {
				return false
			}
		}
		i := slices.IndexFunc(f.readings, func(r *reading) bool { return r.answer == a })
		switch {
		case i >= 0 && f.readings[i].ended:
			continue
		case i < 0 && !f.broadcast.isReadable(a):
			continue
		case i < 0:
			i = len(f.readings)
			f.readings = append(f.readings, &reading{answer: a})
		}
		if !f.rest(f.readings[i]) {
			return false
		}
	}
	return true
}

// rest yields what was not yet read of an answer.
func (f *follower) rest(r *reading) bool {
	var parts []llm.Delta
	parts, r.at = f.broadcast.after(r.answer, r.at)
	for _, d := range parts {
		delta := &Delta{Attempt: r.name, Text: d.Text, Reasoning: d.Reasoning, ToolCall: d.ToolCall}
		if !f.yield(Update{Delta: delta}, nil) {
			return false
		}
	}
	return true
}

// drop says that what was yielded of an answer is void.
func (f *follower) drop(r *reading) bool {
	r.ended = true
	return f.yieldDropped(f.broadcast.dropped(r.answer))
}

// yieldDropped yields that an attempt came to nothing, once.
func (f *follower) yieldDropped(d Dropped) bool {
	if last, ok := f.dropped[d.Unit]; ok && last.StepID == d.StepID && last.Number >= d.Number {
		return true
	}
	f.dropped[d.Unit] = d.Attempt
	return f.yield(Update{Dropped: &d}, nil)
}

// before is the attempt before one.
func (a Attempt) before() Attempt {
	a.Number--
	return a
}

// await waits until an answer or the log may have grown: unread says that it
// may be the log.
func (f *follower) await(ctx context.Context, written, grown <-chan struct{}) (unread bool, err error) {
	timer := time.NewTimer(f.rt.config.Poll)
	defer timer.Stop()
	select {
	case <-grown:
		return f.rt.logs == nil, nil
	case <-written:
		return true, nil
	case <-timer.C:
		return true, nil
	case <-f.rt.closing.Done():
		return false, session.ErrClosed
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

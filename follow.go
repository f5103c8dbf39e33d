package holdfast

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Update is what happened to a session: exactly one of its fields is set.
type Update struct {
	// Record is a change of the log. Its number is the cursor to go on from.
	Record *session.LogEntry `json:"record,omitempty"`
	// Delta is a piece of an answer that is being given, and no part of the
	// log: it has no number and is not seen again.
	Delta *Delta `json:"delta,omitempty"`
	// Dropped says that the deltas of an answer are void.
	Dropped *Attempt `json:"dropped,omitempty"`
}

// Attempt names what deltas belong to: the execution, the step that the answer
// will open, and how often the model had failed at it before.
type Attempt struct {
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

// Follow is Watch with the answers that are being given. It yields the changes
// after a number, then what is there of the answer in progress, then every
// piece as it comes, all in order, until the context ends. One who reads
// slowly gets more text at a time and keeps nobody waiting.
//
// The deltas of an answer are all of it. They end with the inference_answered
// record of their step, which takes their place, or with Dropped: the model
// failed and is asked again, or the execution was broken off. An answer that
// was given while nobody read comes as its record alone.
//
// Deltas are seen in the process that runs the turn and through any view of
// its runtime. In other processes Follow is Watch.
func (rt *Runtime) Follow(ctx context.Context, id string, after int64) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		ref, err := rt.logged(id)
		if err != nil {
			yield(Update{}, err)
			return
		}
		f := &follower{rt: rt, ref: ref, room: rt.live.enter(ref), cursor: after, yield: yield}
		defer rt.live.leave(f.room)
		f.follow(ctx)
	}
}

// follower is one call of Follow.
type follower struct {
	rt     *Runtime
	ref    store.Ref
	room   *room
	cursor int64
	yield  func(Update, error) bool

	shown *answer // the one whose deltas were yielded last, until it has its end
	read  place   // how far
}

func (f *follower) follow(ctx context.Context) {
	written, stop := f.rt.bell(f.ref)
	defer stop()
	said, stop := f.room.bell()
	defer stop()
	for unread := true; ; {
		// The answer is looked at before the log: one that is no longer being
		// given is in the log by then, if it ever will be.
		now := f.room.current()
		over := f.shown != nil && f.shown != now
		if unread || over || now != nil && now.base > f.cursor {
			if !f.rt.read(ctx, f.ref, &f.cursor, func(e session.LogEntry, err error) bool { return f.record(ctx, e, err) }) {
				return
			}
		}
		if over && !f.drop() || !f.hear(now) {
			return
		}
		var err error
		if unread, err = f.await(ctx, written, said); err != nil {
			if ctx.Err() == nil {
				f.yield(Update{}, err)
			}
			return
		}
	}
}

// record yields a change. What follows an answer in the log is its record or
// says that there will be none.
func (f *follower) record(ctx context.Context, e session.LogEntry, err error) bool {
	if err != nil {
		if ctx.Err() == nil { // the context's end is no news
			f.yield(Update{}, err)
		}
		return false
	}
	if f.shown != nil {
		settle := f.drop
		if own, ok := e.Change.(session.InferenceAnswered); ok && own.StepID == f.shown.stepID && !f.room.voided(f.shown) {
			settle = f.rest
		}
		if !settle() {
			return false
		}
		f.shown = nil
	}
	return f.yield(Update{Record: &e}, nil)
}

// hear yields what there is of the answer being given. It waits for the
// changes before the answer, and comes too late when there are some after it.
func (f *follower) hear(now *answer) bool {
	if now == nil || now.base != f.cursor {
		return true
	}
	if f.shown == nil {
		f.shown, f.read = now, place{}
	}
	on := f.rest()
	if f.read == (place{}) { // nothing was said yet
		f.shown = nil
	}
	return on
}

// rest yields what was not yet read of the answer that is shown.
func (f *follower) rest() bool {
	var parts []llm.Delta
	parts, f.read = f.room.rest(f.shown, f.read)
	for _, d := range parts {
		delta := &Delta{Attempt: f.shown.name(), Text: d.Text, Reasoning: d.Reasoning, ToolCall: d.ToolCall}
		if !f.yield(Update{Delta: delta}, nil) {
			return false
		}
	}
	return true
}

// drop says that what is shown is void, if anything still is.
func (f *follower) drop() bool {
	if f.shown == nil {
		return true
	}
	name := f.shown.name()
	f.shown = nil
	return f.yield(Update{Dropped: &name}, nil)
}

func (a *answer) name() Attempt {
	return Attempt{ExecutionID: a.executionID, StepID: a.stepID, Number: a.attempt}
}

// await waits for more of an answer, or for the log: unread says that it may
// have grown.
func (f *follower) await(ctx context.Context, written, said <-chan struct{}) (unread bool, err error) {
	timer := time.NewTimer(f.rt.config.Poll)
	defer timer.Stop()
	select {
	case <-said:
		return false, nil
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

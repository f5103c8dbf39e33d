package agui

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sse"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// respondBelow brings responses to subagents of the thread, and continues them
// and then the thread. A subagent may come to wait again, and the thread with it:
// the run shows what happened in the thread when all of them rest.
func (x *exchange) respondBelow(s session.Session, responses []response) error {
	t := protocol.Turn{SessionID: s.ID(), After: s.Seq()}
	var ids []string
	for _, r := range responses {
		id := s.ID()
		if r.subagent != "" {
			id = r.subagent
			ids = append(ids, id)
		}
		if err := x.Runtime.Respond(x.Request.Context(), id, r.Response); err != nil {
			return err
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if slices.ContainsFunc(responses, func(r response) bool { return r.subagent == "" }) {
		ids = append(ids, s.ID())
	}
	done, err := x.ContinueAll(x.Request.Context(), ids)
	if err != nil {
		return err
	}
	return x.withStream(s, func(e *encoder, out *sse.Writer) error {
		if err := x.rest(done, out); err != nil {
			return err
		}
		now, err := x.Settled(x.Request.Context(), s.ID())
		if err != nil {
			return err
		}
		if now.Running() && !now.Waiting() { // somebody else works on it
			err = x.Stream(t, out, nil, e.step)
		} else {
			var steps []protocol.Step
			steps, _, err = x.Read(x.Request.Context(), t)
			for _, step := range steps {
				e.step(step)
			}
		}
		if err == nil {
			now, err = x.Settled(x.Request.Context(), s.ID())
		}
		if err != nil {
			return err
		}
		return x.finish(e, now)
	})
}

// rest waits until work in the background has ended.
func (x *exchange) rest(done <-chan error, out *sse.Writer) error {
	beat := time.NewTicker(x.Heartbeat)
	defer beat.Stop()
	for done != nil {
		select {
		case <-done:
			return nil
		case <-x.Drain:
			return session.ErrClosed
		case <-x.Request.Context().Done():
			return x.Request.Context().Err()
		case <-beat.C:
			out.Beat()
		}
	}
	return nil
}

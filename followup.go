package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// deliver continues the session with messages and responses that arrived after
// the loop last read the inbox. When that fails, what was saved before stays
// the result; so does an execution that was stopped, which is what its caller
// has to learn.
func (x *execution) deliver(ctx context.Context, s session.Session) (session.Session, error) {
	stopped := s.Execution() != nil && s.Execution().Status == session.ExecutionStopped
	seen := ""
	for last := s; ; {
		first, err := x.nextItem(ctx, last)
		if err != nil || first == "" || first == seen {
			return s, nil
		}
		seen = first
		y := &execution{rt: x.rt, ref: x.ref, action: ContinueExecution{}, opts: options{stream: x.opts.stream, busy: Reject}}
		next, err := y.attempt(ctx)
		switch {
		case err == nil:
			last = next
			if !stopped {
				s = next
			}
		case !stopped && (errors.Is(err, session.ErrExecutionFailed) || errors.Is(err, session.ErrAfterSave)):
			return next, err
		default: // the message stays in the inbox for whoever comes next
			x.rt.config.Logger.Warn("follow-up not delivered", "session", x.ref.ID, "error", x.rt.redactText(err.Error()))
			return s, nil
		}
	}
}

// enqueue leaves a message in the inbox of a running session. If the session
// became idle meanwhile, the message is taken from there at once. One that is
// being answered, or waits already, is not left there again.
func (x *execution) enqueue(ctx context.Context) (session.Session, error) {
	rt := x.rt
	send, ok := x.action.(sender)
	if !ok {
		return session.Session{}, &session.InvalidError{Field: "OnBusy", Reason: "only SendMessage can be enqueued"}
	}
	m, err := send.sent().message(rt.config.NewID)
	if err != nil {
		return session.Session{}, err
	}
	item := store.Item{ID: m.ID, Kind: store.ItemFollowUp, Payload: session.Values{}}
	if len(x.keys) > 0 {
		item.ID = x.keys[0].Name // the same key twice is one item
	}
	if s, done, err := x.replay(ctx); done || err != nil {
		return s, err
	}
	if x.repeats {
		return session.Session{}, &session.QueuedError{ID: x.ref.ID, InboxID: item.ID}
	}
	if item.Payload["message"], err = session.JSON(m); err != nil {
		return session.Session{}, err
	}
	if err := rt.post(ctx, x.ref, &item, x.keys); err != nil {
		return session.Session{}, err
	}
	if _, live, err := rt.leases.Holding(ctx, x.ref); err != nil || live {
		return session.Session{}, errors.Join(&session.QueuedError{ID: x.ref.ID, InboxID: item.ID}, err)
	}
	y := &execution{rt: rt, ref: x.ref, action: ContinueExecution{}, opts: options{stream: x.opts.stream}}
	s, err := y.attempt(ctx)
	if errors.Is(err, session.ErrInvalid) { // another has taken it
		return session.Session{}, &session.QueuedError{ID: x.ref.ID, InboxID: item.ID}
	}
	return s, err
}

// nextItem returns the id of the first inbox item that the session can continue
// with, or "".
func (x *execution) nextItem(ctx context.Context, s session.Session) (string, error) {
	if x.rt.inboxes == nil {
		return "", nil
	}
	items, err := x.rt.inboxes.Inbox(ctx, x.ref)
	if err != nil {
		return "", err
	}
	for _, item := range items {
		if item.Kind == store.ItemFollowUp && !s.Waiting() {
			return item.ID, nil
		}
		if r, bad := decodeResponse(item); item.Kind == store.ItemResponse && !bad && s.Waiting() {
			if p, known := s.PendingCall(r.PendingID); known && p.Waiting() {
				return item.ID, nil
			}
		}
	}
	return "", nil
}

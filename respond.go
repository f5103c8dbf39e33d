package holdfast

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Respond settles a pending call, of a session of any kind and from any
// process. The response waits in the session's inbox until whoever runs the
// session takes it, once; ContinueExecution runs a conversation that nobody is
// running. The first response counts: the same again changes nothing, another
// one is a RespondedError. One that the call does not take is an InvalidError.
func (rt *Runtime) Respond(ctx context.Context, id string, r session.Response) error {
	ref, err := rt.openRef(id)
	if err != nil {
		return err
	}
	if rt.inboxes == nil {
		return rt.unsupported("an inbox")
	}
	if err := checkSize("the response", len(r.Text), rt.config.Limits.Message, "Message"); err != nil {
		return err
	}
	s, err := rt.store.Load(ctx, ref, rt.tails != nil)
	if err != nil {
		return err
	}
	p, known := s.PendingCall(r.PendingID)
	if known {
		r.PendingID = p.ID // it may have been named by its tool call
	}
	if earlier, responded := s.ResponseTo(r.PendingID); responded && (!known || !p.Waiting()) {
		return checkRepeated(id, earlier, r)
	}
	if !known {
		return &session.NotFoundError{What: "pending call", ID: r.PendingID, Available: pendingIDs(s)}
	}
	if err := p.Check(r); err != nil {
		return err
	}
	if p.Expired(rt.config.Now()) && !p.BySpec() { // a run takes a late answer until it has used the default
		return &session.InvalidError{Field: "pendingId", Reason: fmt.Sprintf("%s expired at %s", p.ID, p.ExpiresAt.Format(time.RFC3339))}
	}
	r.By = cmp.Or(r.By, rt.who.Actor)
	raw, err := session.JSON(r)
	if err != nil {
		return err
	}
	_, err = rt.Post(ctx, id, store.Item{ID: responseID(p.ID), Kind: store.ItemResponse, Payload: session.Values{"response": raw}})
	if err != nil {
		return err
	}
	return rt.checkFirst(ctx, ref, r)
}

func responseID(pendingID string) string { return "response:" + pendingID }

// decodeResponse reads a response from the inbox; bad says that it cannot be read.
func decodeResponse(item store.Item) (r *session.Response, bad bool) {
	r = new(session.Response)
	if json.Unmarshal(item.Payload["response"], r) != nil || r.PendingID == "" {
		return nil, true
	}
	return r, false
}

func pendingIDs(s session.Session) []string {
	ids := []string{}
	for _, p := range s.PendingCalls() {
		if p.Waiting() {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// checkRepeated accepts a response that repeats the first one and refuses any
// other.
func checkRepeated(id string, first, second session.Response) error {
	if first.Same(second) {
		return nil
	}
	return &session.RespondedError{ID: id, Response: first}
}

// checkFirst finds out whether a response that was posted is the one that
// counts: an item of its id may have been there before.
func (rt *Runtime) checkFirst(ctx context.Context, ref store.Ref, r session.Response) error {
	items, err := rt.inboxes.Inbox(ctx, ref)
	if err != nil {
		return err
	}
	for _, item := range items {
		if item.ID == responseID(r.PendingID) {
			if first, bad := decodeResponse(item); !bad {
				return checkRepeated(ref.ID, *first, r)
			}
		}
	}
	s, err := rt.store.Load(ctx, ref, rt.tails != nil) // somebody has taken it already
	if err != nil {
		return err
	}
	if first, responded := s.ResponseTo(r.PendingID); responded {
		return checkRepeated(ref.ID, first, r)
	}
	return nil
}

// checkResponded refuses to continue an execution whose calls wait for
// responses, while no inbox item and no expiry lets it continue.
func (x *execution) checkResponded(ctx context.Context, s session.Session) error {
	if !s.Waiting() {
		return nil
	}
	now := x.rt.config.Now()
	for _, p := range s.PendingCalls() {
		if !p.Waiting() || p.Expired(now) {
			return nil
		}
	}
	if item, err := x.nextItem(ctx, s); err != nil || item != "" {
		return err
	}
	return &session.InvalidError{Field: "execution", Reason: fmt.Sprintf("it waits for responses to %d pending calls; respond to them first", len(pendingIDs(s)))}
}

// PendingQuery says which pending calls to list. The zero value lists all of
// the tenant.
type PendingQuery struct {
	Kinds  []session.Kind // of sessions; empty: all
	UserID string
	Limit  int    // sessions a page; 0: 50
	Cursor string // Next of the page before
}

// Pending is a pending call with the session it belongs to.
type Pending struct {
	Session session.Info `json:"session"`
	session.PendingCall
}

// PendingPage is one page of pending calls, those of one session together.
type PendingPage struct {
	Items []Pending `json:"items"`
	Next  string    `json:"next,omitempty"`
}

// Pending lists the calls that wait for a response, across all sessions of the
// tenant, those of the session that was updated last first.
func (rt *Runtime) Pending(ctx context.Context, q PendingQuery) (PendingPage, error) {
	if len(q.Kinds) == 0 {
		q.Kinds = session.Kinds()
	}
	page, err := rt.List(ctx, store.Query{Kinds: q.Kinds, UserID: q.UserID, Pending: true, Limit: q.Limit, Cursor: q.Cursor})
	if err != nil {
		return PendingPage{}, err
	}
	found := PendingPage{Items: []Pending{}, Next: page.Next}
	for _, info := range page.Items {
		s, err := rt.store.Load(ctx, store.Ref{Tenant: rt.who.Tenant, ID: info.ID}, rt.tails != nil)
		if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
			continue // it breaks itself alone, and List names it
		}
		if err != nil {
			return found, err
		}
		for _, p := range s.PendingCalls() {
			if p.Waiting() {
				found.Items = append(found.Items, Pending{Session: info, PendingCall: p})
			}
		}
	}
	return found, nil
}

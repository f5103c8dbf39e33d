package holdfast

import (
	"context"
	"encoding/json"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Inbox lists what has arrived for a session and is not taken, in order.
func (rt *Runtime) Inbox(ctx context.Context, id string) ([]store.Item, error) {
	ref, err := rt.openRef(id)
	if err != nil {
		return nil, err
	}
	if rt.inboxes == nil {
		return nil, rt.unsupported("an inbox")
	}
	return rt.inboxes.Inbox(ctx, ref)
}

// Post leaves something in a session's inbox. It needs no lease; an id that
// was there before is dropped. An empty id or time is filled in.
func (rt *Runtime) Post(ctx context.Context, id string, item store.Item) (store.Item, error) {
	ref, err := rt.openRef(id)
	if err != nil {
		return item, err
	}
	if rt.inboxes == nil {
		return item, rt.unsupported("an inbox")
	}
	if item.ID == "" {
		item.ID = rt.config.NewID()
	}
	if item.At.IsZero() {
		item.At = rt.config.Now()
	}
	if item.Payload, err = rt.cleanPayload(item); err != nil {
		return item, err
	}
	return item, rt.inboxes.Post(ctx, ref, item)
}

// cleanPayload returns what an item carries without secrets. It refuses a
// follow-up whose message could not be sent.
func (rt *Runtime) cleanPayload(item store.Item) (session.Values, error) {
	kept := make(session.Values, len(item.Payload))
	for key, raw := range item.Payload {
		masked, err := rt.redactJSON(raw)
		if err != nil {
			return nil, err
		}
		kept[key] = masked
	}
	if item.Kind != store.ItemFollowUp {
		return kept, nil
	}
	var m session.Message
	if err := json.Unmarshal(item.Payload["message"], &m); err != nil {
		return nil, &session.InvalidError{Field: "payload.message", Reason: "a follow-up carries a message"}
	}
	m, err := SendMessage{Message: &m}.message(func() string { return item.ID })
	if err != nil {
		return nil, err
	}
	if m, err = rt.redactMessage(m); err != nil {
		return nil, err
	}
	kept["message"], err = session.JSON(m)
	return kept, err
}

// inboxReader is the inbox as the agent loop sees it.
type inboxReader struct{ e *Environment }

// Waiting reads the inbox.
func (in inboxReader) Waiting(ctx context.Context) ([]agent.Incoming, error) {
	items, err := in.e.Inbox(ctx)
	if err != nil {
		in.e.readFailed = true
		return nil, err
	}
	arrived := make([]agent.Incoming, 0, len(items))
	for _, item := range items {
		next := agent.Incoming{ID: item.ID, Kind: string(item.Kind)}
		switch item.Kind {
		case store.ItemFollowUp:
			in.e.followUp(&next, item)
		case store.ItemResponse:
			next.Response, next.Unusable = decodeResponse(item)
		case store.ItemCancel:
			next.Cancel, next.ExecutionID = true, item.Payload.String("executionId")
		}
		arrived = append(arrived, next)
	}
	return arrived, nil
}

// followUp reads a message from the inbox. One that cannot be sent is dropped:
// it must not keep the session from ever speaking again.
func (e *Environment) followUp(next *agent.Incoming, item store.Item) {
	var m session.Message
	err := json.Unmarshal(item.Payload["message"], &m)
	if err == nil {
		m, err = SendMessage{Message: &m}.message(func() string { return item.ID })
	}
	if err != nil {
		next.Unusable = true
		e.x.rt.config.Logger.Warn("inbox item dropped", "session", e.x.ref.ID, "item", item.ID, "error", e.x.rt.redactText(err.Error()))
		return
	}
	next.Message = &m
	var keys []store.Key
	if json.Unmarshal(item.Payload["keys"], &keys) == nil && len(keys) > 0 {
		if e.itemKeys == nil {
			e.itemKeys = map[string][]store.Key{}
		}
		e.itemKeys[item.ID] = keys
	}
}

package holdfast

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

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
// was there before is dropped, and so is a message whose id was sent before. A
// different message under that id is a ConflictError. An empty id or time is
// filled in.
func (rt *Runtime) Post(ctx context.Context, id string, item store.Item) (store.Item, error) {
	ref, err := rt.openRef(id)
	if err != nil {
		return item, err
	}
	if rt.inboxes == nil {
		return item, rt.unsupported("an inbox")
	}
	if err := checkSize("the item of the inbox", item.Payload.Size(), rt.config.Limits.Message, "Message"); err != nil {
		return item, err
	}
	var keys []store.Key
	var m session.Message
	if item.Kind == store.ItemFollowUp && json.Unmarshal(item.Payload["message"], &m) == nil {
		x := &execution{rt: rt, ref: ref, action: SendMessage{Message: &m}}
		if keys, err = x.findKeys(); err != nil {
			return item, err
		}
		if _, sent, err := rt.keyUse(ctx, ref, keys); sent || err != nil {
			return item, err
		}
	}
	if rt.once != nil && rt.once.ref == ref {
		item.ID = rt.OnceItem()
	}
	if err = rt.post(ctx, ref, &item, keys); err == nil && rt.once != nil { // it fills in what the item lacks
		rt.keysWritten([]store.Key{rt.once.key})
	}
	return item, err
}

// post leaves an item in an inbox, with the keys by which a message is known.
func (rt *Runtime) post(ctx context.Context, ref store.Ref, item *store.Item, keys []store.Key) (err error) {
	if item.ID == "" {
		item.ID = rt.config.NewID()
	}
	if item.At.IsZero() {
		item.At = rt.config.Now()
	}
	if item.Payload, err = rt.cleanPayload(*item); err != nil {
		return err
	}
	if len(keys) == 0 {
		delete(item.Payload, "keys")
		return rt.inboxes.Post(ctx, ref, *item)
	}
	if item.Payload["keys"], err = session.JSON(keys); err != nil {
		return err
	}
	if err := rt.inboxes.Post(ctx, ref, *item); err != nil {
		return err
	}
	return rt.checkPosted(ctx, ref, item.ID, keys)
}

// checkPosted finds out whether an item that was posted was dropped because one
// of its id was there before, with another request in it.
func (rt *Runtime) checkPosted(ctx context.Context, ref store.Ref, itemID string, keys []store.Key) error {
	items, err := rt.inboxes.Inbox(ctx, ref)
	if err != nil {
		return err
	}
	for _, there := range items {
		if there.ID != itemID {
			continue
		}
		for _, known := range keysOfItem(there) {
			if slices.ContainsFunc(keys, func(k store.Key) bool { return k.Name == known.Name && k.Fingerprint != known.Fingerprint }) {
				return &session.ConflictError{ID: ref.ID, Reason: session.ReasonKeyReused}
			}
		}
		return nil
	}
	_, _, err = rt.keyUse(ctx, ref, keys) // somebody has taken it already
	return err
}

// keysOfItem returns the keys of a message in an inbox.
func keysOfItem(item store.Item) []store.Key {
	var keys []store.Key
	if json.Unmarshal(item.Payload["keys"], &keys) != nil {
		return nil
	}
	return keys
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
			if err := in.e.followUp(ctx, &next, item); err != nil {
				in.e.readFailed = true
				return nil, err
			}
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
// it must not keep the session from ever speaking again. So is one that was sent
// already, by a call that was not queued.
func (e *Environment) followUp(ctx context.Context, next *agent.Incoming, item store.Item) error {
	rt := e.x.rt
	var m session.Message
	err := json.Unmarshal(item.Payload["message"], &m)
	if err == nil {
		m, err = SendMessage{Message: &m}.message(func() string { return item.ID })
	}
	if err != nil {
		next.Unusable = true
		rt.config.Logger.Warn("inbox item dropped", "session", e.x.ref.ID, "item", item.ID, "error", rt.redactText(err.Error()))
		return nil
	}
	keys := keysOfItem(item)
	if len(keys) == 0 || rt.keys == nil {
		next.Message = &m
		return nil
	}
	if e.itemKeys == nil {
		e.itemKeys, e.keyItems = map[string][]store.Key{}, map[string]string{}
	}
	for _, key := range keys {
		_, sent, err := rt.keys.Key(ctx, e.x.ref, key.Name)
		if err != nil {
			return err
		}
		if with := cmp.Or(e.keyItems[key.Name], item.ID); sent || with != item.ID {
			next.Unusable = true
			return nil
		}
	}
	for _, key := range keys {
		e.keyItems[key.Name] = item.ID
	}
	next.Message, e.itemKeys[item.ID] = &m, keys
	return nil
}

package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// ItemKind is what an inbox item asks for.
type ItemKind string

// The kinds of inbox item.
const (
	ItemFollowUp     ItemKind = "follow_up"
	ItemStepFeedback ItemKind = "step_feedback"
	ItemApproval     ItemKind = "approval"
	ItemResponse     ItemKind = "response" // to a pending call
	ItemCancel       ItemKind = "cancel"
	ItemSuspend      ItemKind = "suspend"
	ItemWrapUp       ItemKind = "wrap_up"
	ItemSetting      ItemKind = "setting"
)

// ItemKinds lists every kind.
func ItemKinds() []ItemKind {
	return []ItemKind{ItemFollowUp, ItemStepFeedback, ItemApproval, ItemResponse, ItemCancel, ItemSuspend, ItemWrapUp, ItemSetting}
}

// Item is something that arrived while a session was executing.
type Item struct {
	ID      string         `json:"id"` // the same id twice is one item
	Kind    ItemKind       `json:"kind"`
	Payload session.Values `json:"payload"`
	At      time.Time      `json:"at"`
}

// maxItemID bounds an item's id, in bytes.
const maxItemID = 255

// Check returns a copy of the item as a store keeps it, or an InvalidError.
func (i Item) Check() (Item, error) {
	if i.ID == "" || len(i.ID) > maxItemID || !printable(i.ID) {
		return Item{}, &session.InvalidError{Field: "item.id", Reason: fmt.Sprintf("%q is not 1 to %d printable bytes", i.ID, maxItemID)}
	}
	if !slices.Contains(ItemKinds(), i.Kind) {
		return Item{}, &session.InvalidError{Field: "item.kind", Reason: fmt.Sprintf("%q is no kind of inbox item", i.Kind)}
	}
	payload := make(session.Values, len(i.Payload))
	for key, raw := range i.Payload {
		value, err := session.JSON(raw)
		if err != nil {
			return Item{}, &session.InvalidError{Field: "item.payload", Reason: fmt.Sprintf("the value of %q is not JSON", key)}
		}
		payload[key] = value
	}
	i.Payload, i.At = payload, session.Instant(i.At)
	return i, nil
}

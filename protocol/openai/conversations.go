package openai

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"

	"github.com/google/uuid"
)

const conversationPrefix = "conv_"

type conversation struct {
	ID        string            `json:"id"`
	Object    string            `json:"object"`
	CreatedAt int64             `json:"created_at"`
	Metadata  map[string]string `json:"metadata"`
}

type conversationRequest struct {
	Items    json.RawMessage   `json:"items,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

func createConversation(x *exchange) error {
	var r conversationRequest
	if err := x.decode(&r); err != nil {
		return err
	}
	messages, err := x.parseConversationItems(r.Items)
	if err != nil {
		return err
	}
	seed := session.Seed{Messages: messages}
	if len(r.Metadata) > 0 {
		raw, err := session.JSON(r.Metadata)
		if err != nil {
			return err
		}
		seed.Metadata = session.Values{userKey: raw}
	}
	s, err := x.Runtime.Create(x.Request.Context(), session.Definition{Name: definitionName, Tools: []string{}}, holdfast.WithSeed(seed))
	if err != nil {
		return err
	}
	return x.Write(conversationOf(s))
}

func (x *exchange) parseConversationItems(raw json.RawMessage) ([]session.Message, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	messages, approvals, err := x.parseItems("items", raw)
	if err == nil && len(approvals) > 0 {
		err = refuse("items", "An approval is given with the next response.")
	}
	for i := range messages {
		messages[i].ID = "msg_" + uuid.NewString()
	}
	return messages, err
}

func conversationOf(s session.Session) conversation {
	c := conversation{ID: conversationPrefix + s.ID(), Object: "conversation", CreatedAt: s.Info().CreatedAt.Unix(), Metadata: map[string]string{}}
	_ = json.Unmarshal(s.Metadata()[userKey], &c.Metadata) // absent: none
	return c
}

// conversation returns the session that the path names.
func (x *exchange) conversation(opts ...holdfast.Option) (session.Session, error) {
	return x.findConversation(x.Request.Context(), strings.TrimPrefix(x.Request.PathValue("id"), conversationPrefix), opts...)
}

// findConversation returns the session that is a conversation.
func (x *exchange) findConversation(ctx context.Context, id string, opts ...holdfast.Option) (session.Session, error) {
	s, err := x.Settled(ctx, id, opts...)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInvalid) || err == nil && s.Status() == session.Deleted {
		err = missing("Conversation", conversationPrefix+id)
	}
	return s, err
}

func retrieveConversation(x *exchange) error {
	s, err := x.conversation()
	if err != nil {
		return err
	}
	return x.Write(conversationOf(s))
}

func updateConversation(x *exchange) error {
	var r conversationRequest
	if err := x.decode(&r); err != nil {
		return err
	}
	if len(r.Items) > 0 {
		return refuse("items", "Add items with POST .../items.")
	}
	s, err := x.conversation()
	if err != nil {
		return err
	}
	all := conversationOf(s).Metadata
	maps.Copy(all, r.Metadata)
	if s, err = x.Runtime.Execute(x.Request.Context(), s.ID(), holdfast.WriteMetadata{Key: userKey, Value: all}); err != nil {
		return err
	}
	return x.Write(conversationOf(s))
}

func deleteConversation(x *exchange) error {
	s, err := x.conversation()
	if err != nil {
		return err
	}
	if _, err := x.Runtime.Execute(x.Request.Context(), s.ID(), holdfast.DeleteSession{}); err != nil {
		return err
	}
	return x.Write(deletion{ID: conversationPrefix + s.ID(), Object: "conversation.deleted", Deleted: true})
}

// addMessages adds to a conversation what was said elsewhere. No model is asked.
type addMessages struct {
	Messages []session.Message `json:"messages"`
}

// Name is openai.AddMessages.
func (addMessages) Name() string { return "openai.AddMessages" }

// Execute adds the messages.
func (a addMessages) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	changes := make([]session.Change, len(a.Messages))
	for i, m := range a.Messages {
		changes[i] = session.MessageAdded{Message: m}
	}
	return s.With(holdfast.Env(ctx).Now(), changes...)
}

func addItems(x *exchange) error {
	var r conversationRequest
	if err := x.decode(&r); err != nil {
		return err
	}
	messages, err := x.parseConversationItems(r.Items)
	if err != nil {
		return err
	}
	s, err := x.conversation()
	if err != nil {
		return err
	}
	if s.Running() {
		return waitsFor(s)
	}
	if _, err := x.Runtime.Execute(x.Request.Context(), s.ID(), addMessages{messages}, holdfast.IfVersion(s.Version())); err != nil {
		return err
	}
	added := page[item]{Object: "list", Data: itemsOf(messages)}
	if n := len(added.Data); n > 0 {
		added.FirstID, added.LastID = &added.Data[0].ID, &added.Data[n-1].ID
	}
	return x.Write(added)
}

// itemsOf returns messages as items, tool calls among them.
func itemsOf(messages []session.Message) []item {
	items := []item{}
	for _, m := range messages {
		if len(m.Content) > 0 || m.ToolResult != nil {
			items = append(items, itemOf(m))
		}
		for _, call := range m.ToolCalls {
			arguments := string(call.Arguments)
			items = append(items, item{ID: "fc_" + m.ID + "_" + call.ID, Type: "function_call", Status: "completed", CallID: call.ID, Name: call.Name, Arguments: &arguments})
		}
	}
	return items
}

func (x *exchange) conversationItems() ([]item, error) {
	s, err := x.conversation(holdfast.Whole())
	if err != nil {
		return nil, err
	}
	return itemsOf(s.Messages()), nil
}

func listItems(x *exchange) error {
	items, err := x.conversationItems()
	if err != nil {
		return err
	}
	return x.writePage(items)
}

func retrieveItem(x *exchange) error {
	items, err := x.conversationItems()
	if err != nil {
		return err
	}
	for _, i := range items {
		if i.ID == x.Request.PathValue("item") {
			return x.Write(i)
		}
	}
	return missing("Item", x.Request.PathValue("item"))
}

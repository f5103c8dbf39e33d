package acp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
)

// view shows a session to the editor. Only one goroutine at a time shows
// something: that of the load, then the one that follows.
type view struct {
	s      *server
	id     string
	dir    string
	modes  bool // the editor knows the permission mode
	items  *projector.Projector
	model  string            // that answered last
	used   int64             // tokens of the last inference
	cost   session.Cost      // of all
	drafts map[string]string // what was shown of messages that are still written, by item
	broken map[string]int    // how often a message was begun and taken back, by item
	calls  map[string]string // what was last shown of tool calls, by id

	mu      sync.Mutex // guards what follows
	seen    int64      // the last change that was shown
	err     error      // why nothing more is shown
	changed chan struct{}
	hidden  map[string]bool // messages that the editor shows itself
}

func newView(s *server, id, dir string, modes bool) *view {
	return &view{
		s: s, id: id, dir: dir, modes: modes, items: projector.New(id), drafts: map[string]string{}, broken: map[string]int{}, calls: map[string]string{},
		changed: make(chan struct{}), hidden: map[string]bool{},
	}
}

// hide says that the editor shows a message itself.
func (v *view) hide(messageID string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hidden[messageID] = true
}

func (v *view) isHidden(messageID string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.hidden[messageID]
}

// replay reads the log of the session, and shows what it has come to where that
// is asked for.
func (t *thread) replay(ctx context.Context, show bool) error {
	v := t.view
	var plan json.RawMessage
	for e, err := range t.Log(ctx, v.id, 0) {
		if err != nil {
			return err
		}
		v.items.Apply(holdfast.Update{Record: &e})
		v.seen = e.Seq
		if written, ok := e.Change.(session.MetadataWritten); ok && written.Key == tasksKey && !e.Discarded {
			plan = written.Value
		}
	}
	for _, i := range v.items.Items() {
		if i.Type == projector.TypeUsage {
			v.count(i)
			continue
		}
		if !show {
			continue
		}
		if err := v.show(projector.Change{Op: projector.Added, Item: i}); err != nil {
			return err
		}
	}
	if !show {
		return nil
	}
	if err := v.showTasks(plan); err != nil || v.model == "" {
		return err
	}
	return v.showUsage()
}

// follow shows what happens to the session until the context ends.
func (v *view) follow(ctx context.Context, from Sessions) {
	var failed error
	for u, err := range from.Follow(ctx, v.id, v.seen) {
		if err == nil {
			err = v.take(u)
		}
		if err != nil {
			failed = err
			break
		}
	}
	if failed == nil {
		failed = context.Canceled
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err = failed
	close(v.changed)
}

// take shows an update.
func (v *view) take(u holdfast.Update) error {
	for _, c := range v.items.Apply(u) {
		if err := v.show(c); err != nil {
			return err
		}
	}
	if u.Record == nil {
		return nil
	}
	if written, ok := u.Record.Change.(session.MetadataWritten); ok && written.Key == tasksKey && !u.Record.Discarded {
		if err := v.showTasks(written.Value); err != nil {
			return err
		}
	}
	if err := v.showMode(u.Record.Change); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = u.Record.Seq
	close(v.changed)
	v.changed = make(chan struct{})
	return nil
}

// showMode sends the permission mode where a change sets it, whoever made it.
func (v *view) showMode(c session.Change) error {
	mode, ok := session.ChangedPermissionMode(c)
	if !ok || !v.modes {
		return nil
	}
	return v.s.update(v.id, modeUpdate{"current_mode_update", mode})
}

// caughtUp waits until the editor has been shown the changes up to a number.
func (v *view) caughtUp(ctx context.Context, seq int64) error {
	for {
		v.mu.Lock()
		seen, err, changed := v.seen, v.err, v.changed
		v.mu.Unlock()
		if seen >= seq || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// show sends what happened to an item. What was withdrawn stays on the screen:
// the protocol has no way to take it back.
func (v *view) show(c projector.Change) error {
	switch i := c.Item; i.Type {
	case projector.TypeMessage, projector.TypeReasoning:
		return v.showText(c.Op, i)
	case projector.TypeCall:
		return v.showCall(c.Op, i)
	case projector.TypeUsage:
		if c.Op != projector.Added {
			return nil
		}
		v.count(i)
		return v.showUsage()
	}
	return nil // the rest is asked about, or ends the turn
}

// showText sends messages and reasoning: whole ones at once, others as they grow.
func (v *view) showText(op projector.Op, i projector.Item) error {
	kind := "agent_thought_chunk"
	var (
		text    string
		content session.Content
	)
	if i.Reasoning != nil {
		text = i.Reasoning.Text
		content = session.Text(text)
	} else {
		switch i.Message.Role {
		case session.RoleUser:
			kind = "user_message_chunk"
		case session.RoleAssistant:
			kind = "agent_message_chunk"
		default:
			return nil
		}
		if v.isHidden(i.Message.MessageID) {
			return nil
		}
		text, content = i.Message.Text, i.Message.Content
	}
	shown, drafted := v.drafts[i.ID]
	switch op {
	case projector.Added:
		if !i.Done {
			v.drafts[i.ID] = ""
			return nil
		}
		for _, b := range blocksOf(content) {
			if err := v.s.update(v.id, chunk{kind, b, v.messageID(i.ID)}); err != nil {
				return err
			}
		}
	case projector.Grew:
		v.drafts[i.ID] = shown + text
		return v.s.update(v.id, chunk{kind, textBlock(text), v.messageID(i.ID)})
	case projector.Finished:
		delete(v.drafts, i.ID)
		if rest, ok := strings.CutPrefix(text, shown); drafted && ok && rest != "" {
			return v.s.update(v.id, chunk{kind, textBlock(rest), v.messageID(i.ID)})
		}
	case projector.Withdrawn:
		delete(v.drafts, i.ID)
		if drafted && shown != "" {
			v.broken[i.ID]++
			return v.s.update(v.id, chunk{kind, textBlock(brokenText), v.messageID(i.ID) + "/broken"})
		}
	}
	return nil
}

// brokenText follows an answer that the model did not finish.
const brokenText = "\n\n*(This answer broke off. It is asked for again.)*\n\n"

// messageID names a message. One that is begun again is another one.
func (v *view) messageID(item string) string {
	return item + strings.Repeat("+", v.broken[item])
}

// say sends a text of the program itself.
func (v *view) say(text string) error {
	return v.s.update(v.id, chunk{"agent_message_chunk", textBlock(text), ""})
}

// count adds an inference to what was used.
func (v *view) count(i projector.Item) {
	v.model, v.used = i.Usage.Model, i.Usage.Usage.Input+i.Usage.Usage.Output
	v.cost += i.Usage.Cost
}

// showUsage sends how full the model's context is, and what the session has cost.
func (v *view) showUsage() error {
	u := usageUpdate{Kind: "usage_update", Used: v.used}
	if v.s.config.ContextLength != nil {
		u.Size = int64(v.s.config.ContextLength(v.model))
	}
	if v.cost > 0 {
		u.Cost = &money{v.cost.Dollars(), "USD"}
	}
	return v.s.update(v.id, u)
}

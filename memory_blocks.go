package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Blocks lists the blocks of the session's definition.
func (h *memoryHandle) Blocks(ctx context.Context) ([]memory.Block, error) {
	s, err := h.current(ctx)
	if err != nil {
		return nil, err
	}
	blocks := []memory.Block{}
	policy := s.Definition().Memory
	if policy == nil {
		return blocks, nil
	}
	for _, b := range policy.Blocks {
		if memory.Scope(b.MemoryScope()) == memory.ScopeUser && h.who.ID == "" {
			continue
		}
		block, err := h.readBlock(ctx, s, b)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, block)
	}
	return blocks, nil
}

// readBlock returns a block as it is now.
func (h *memoryHandle) readBlock(ctx context.Context, s session.Session, b session.MemoryBlock) (memory.Block, error) {
	scope, key := memory.Scope(b.MemoryScope()), session.BlockKey(b.Name)
	if scope == memory.ScopeSession {
		return variableBlock(s, b), nil
	}
	owner, err := h.owner(scope)
	if err != nil {
		return memory.Block{}, err
	}
	e, found, err := h.rt.memories.Entry(ctx, owner, key, 0)
	if err != nil || !found {
		return memory.BlockOf(b), err
	}
	return entryBlock(b, e), nil
}

func entryBlock(b session.MemoryBlock, e store.Entry) memory.Block {
	return memory.BlockOf(b).Written(store.EntryText(e.Value), e.Version, e.UpdatedAt)
}

// variableBlock is a block of the session's own.
func variableBlock(s session.Session, b session.MemoryBlock) memory.Block {
	e, found := variable(s, session.BlockKey(b.Name))
	if !found {
		return memory.BlockOf(b)
	}
	return memory.BlockOf(b).Written(store.EntryText(e.Value), e.Version, e.UpdatedAt)
}

// EditBlock changes a block.
func (h *memoryHandle) EditBlock(ctx context.Context, name string, edit memory.BlockEdit, opts ...memory.Option) (memory.Block, error) {
	o, err := memory.Collect("EditBlock", opts, "IfVersion", "Once")
	if err != nil {
		return memory.Block{}, err
	}
	s, err := h.current(ctx)
	if err != nil {
		return memory.Block{}, err
	}
	b, err := declaredBlock(s, name)
	if err != nil {
		return memory.Block{}, err
	}
	if h.env != nil && b.ReadOnly {
		return memory.Block{}, &session.BlockError{Block: name, Reason: session.BlockReadOnly}
	}
	scope := memory.Scope(b.MemoryScope())
	owner, err := h.owner(scope)
	if err != nil {
		return memory.Block{}, err
	}
	callID := ""
	if tail := agent.WriterOf(ctx); tail != nil && h.env != nil {
		callID = tail.CallID()
	} else if o.Once != "" {
		callID = "key " + o.Once
	}
	if scope != memory.ScopeSession {
		return h.editShared(ctx, owner, b, edit, o.IfVersion, callID)
	}
	action := EditBlock{Block: name, BlockEdit: edit, IfVersion: o.IfVersion}
	if h.env == nil && o.Once != "" {
		s, err = h.rt.Execute(ctx, h.ref.ID, action, IdempotencyKey(o.Once))
	} else {
		action.callID = callID
		s, err = h.changeVariable(ctx, action)
	}
	if err != nil {
		return memory.Block{}, err
	}
	return variableBlock(s, b), nil
}

// declaredBlock finds a block of a session's definition.
func declaredBlock(s session.Session, name string) (session.MemoryBlock, error) {
	policy := s.Definition().Memory
	b, ok := policy.Block(name)
	if !ok {
		return b, &session.NotFoundError{What: "block", ID: name, Available: policy.BlockNames()}
	}
	return b, nil
}

// editShared changes a block that several sessions share. What another session
// writes in between is kept: the edit is then made to that text. A tool call
// that has made its edit before, and runs again after a crash, makes it no
// second time.
func (h *memoryHandle) editShared(ctx context.Context, owner store.Owner, b session.MemoryBlock, edit memory.BlockEdit, want *int64, callID string) (memory.Block, error) {
	memo := store.Memo{Key: session.BlockKey(b.Name), At: h.rt.config.Now(), SessionID: h.ref.ID, CallID: callID}
	if callID != "" {
		never := int64(math.MaxInt64) // a version that is not there: only a call that is known passes
		memo.IfVersion = &never
		if e, err := h.rt.memories.Remember(ctx, owner, memo); err == nil && e.Version == 0 {
			return memory.BlockOf(b), nil // it was forgotten since
		} else if err == nil {
			return entryBlock(b, e), nil
		} else if !errors.Is(err, session.ErrConflict) {
			return memory.Block{}, err
		}
	}
	for {
		e, found, err := h.rt.memories.Entry(ctx, owner, memo.Key, 0)
		if err != nil {
			return memory.Block{}, err
		}
		text := b.Text
		if found {
			text = store.EntryText(e.Value)
		}
		if memo.Value, err = h.rt.editedText(b, edit, text); err != nil {
			return memory.Block{}, err
		}
		memo.IfVersion = want
		if want == nil {
			memo.IfVersion = &e.Version // 0 where there is none
		}
		written, err := h.rt.memories.Remember(ctx, owner, memo)
		if err == nil {
			return entryBlock(b, written), nil
		}
		if want != nil || !errors.Is(err, session.ErrConflict) || ctx.Err() != nil {
			return memory.Block{}, err
		}
	}
}

// editedText is the value of a block after an edit, without known secrets.
func (rt *Runtime) editedText(b session.MemoryBlock, edit memory.BlockEdit, text string) (json.RawMessage, error) {
	edit.Text = rt.redactText(edit.Text)
	text, err := edit.Apply(b, text)
	if err != nil {
		return nil, err
	}
	return session.JSON(text)
}

// EditBlock changes the text of a block of the session's own. IfVersion, where
// set, must be the block's version; 0 means that nobody has written to it.
type EditBlock struct {
	Block string `json:"block"`
	memory.BlockEdit
	IfVersion *int64 `json:"ifVersion,omitempty"`

	callID string // of the tool call that edits; it does so once
}

// Name is EditBlock.
func (EditBlock) Name() string               { return "EditBlock" }
func (EditBlock) statuses() []session.Status { return onlyOpen }

// Execute edits.
func (a EditBlock) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	b, err := declaredBlock(s, a.Block)
	if err != nil {
		return s, err
	}
	if b.MemoryScope() != string(memory.ScopeSession) {
		return s, &session.InvalidError{Field: "block", Reason: "is shared by sessions: edit it through the session's memory"}
	}
	key := session.BlockKey(b.Name)
	if a.callID != "" && s.Variables()[key].CallID == a.callID {
		return s, nil
	}
	if err := checkVariableVersion(s, key, a.IfVersion, actionTime(ctx)); err != nil {
		return s, err
	}
	text, err := a.Apply(b, variableBlock(s, b).Text)
	if err != nil {
		return s, err
	}
	raw, err := session.JSON(text)
	if err != nil {
		return s, err
	}
	return s.With(actionTime(ctx), session.VariableStored{Key: key, Value: raw, CallID: a.callID})
}

// checkBlock refuses to store under the key of a block what is no text of it,
// and an agent's change of one that it may only read. A nil value removes it.
func (h *memoryHandle) checkBlock(ctx context.Context, scope memory.Scope, key string, value json.RawMessage) error {
	if !strings.HasPrefix(key, session.BlockKey("")) {
		return nil
	}
	s, err := h.current(ctx)
	if err != nil {
		return err
	}
	policy := s.Definition().Memory
	if b, ok := policy.BlockAt(string(scope), key); ok && b.ReadOnly && h.env != nil {
		return &session.BlockError{Block: b.Name, Reason: session.BlockReadOnly}
	}
	if value == nil {
		return nil
	}
	return checkBlockValue(policy, scope, key, value)
}

// checkBlockValue refuses a value that is stored under the key of a block and is
// no text of it.
func checkBlockValue(policy *session.MemoryPolicy, scope memory.Scope, key string, value json.RawMessage) error {
	b, ok := policy.BlockAt(string(scope), key)
	if !ok {
		return nil
	}
	var text string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return &session.InvalidError{Field: "value", Reason: "of the block " + b.Name + " is not a string"}
	}
	return b.Check(text)
}

// showsBlock reports whether an entry is a block that the agent sees in its
// prompt anyway; outside of an action there are none.
func (h *memoryHandle) showsBlock(scope memory.Scope, key string) bool {
	if h.env == nil {
		return false
	}
	_, shown := h.env.policy.BlockAt(string(scope), key)
	return shown
}

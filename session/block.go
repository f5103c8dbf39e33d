package session

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MemoryBlock is a named text that is always part of the agent's system prompt, as a
// definition declares it. What is written to it is an entry of its scope, under
// the key BlockKey(Name).
type MemoryBlock struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"` // what belongs in it, for the model
	Scope       string `json:"scope,omitempty"`       // session (default), user or agent
	Limit       int    `json:"limit,omitempty"`       // characters; 0: DefaultBlockLimit
	Text        string `json:"text,omitempty"`        // until somebody writes another
	ReadOnly    bool   `json:"readOnly,omitempty"`    // the agent cannot change it
}

// The limits of blocks. MaxBlockLimit times the bytes of a character in JSON is
// less than what an entry may have.
const (
	DefaultBlockLimit = 2000
	MaxBlockLimit     = 20_000
	maxBlocks         = 32
	maxBlockName      = 64
)

const blockSpace = "blocks/"

// BlockKey is the key of the entry that has a block's text.
func BlockKey(name string) string { return blockSpace + name }

// MemoryScope is the scope that keeps the block's text.
func (b MemoryBlock) MemoryScope() string { return cmp.Or(b.Scope, "session") }

// MaxChars is how many characters the block's text may have.
func (b MemoryBlock) MaxChars() int { return cmp.Or(b.Limit, DefaultBlockLimit) }

// Check refuses a text that is too long for the block.
func (b MemoryBlock) Check(text string) error {
	if n := utf8.RuneCountInString(text); n > b.MaxChars() {
		return &BlockError{Block: b.Name, Reason: BlockTooLong, Have: n, Want: b.MaxChars()}
	}
	return nil
}

// Block finds a block that the policy declares.
func (p *MemoryPolicy) Block(name string) (MemoryBlock, bool) {
	if p != nil {
		for _, b := range p.Blocks {
			if b.Name == name {
				return b, true
			}
		}
	}
	return MemoryBlock{}, false
}

// BlockAt finds the block whose text is kept in a scope under a key.
func (p *MemoryPolicy) BlockAt(scope, key string) (MemoryBlock, bool) {
	name, ok := strings.CutPrefix(key, blockSpace)
	if !ok {
		return MemoryBlock{}, false
	}
	b, found := p.Block(name)
	return b, found && b.MemoryScope() == scope
}

// BlockNames lists the blocks that the policy declares.
func (p *MemoryPolicy) BlockNames() []string {
	names := []string{}
	if p != nil {
		for _, b := range p.Blocks {
			names = append(names, b.Name)
		}
	}
	return names
}

// blocks checks the blocks of a policy.
func (c *problems) blocks(m *MemoryPolicy) {
	if len(m.Blocks) > maxBlocks {
		c.add("memory.blocks", "there are %d, at most %d are taken", len(m.Blocks), maxBlocks)
	}
	seen := map[string]bool{}
	for i := range m.Blocks {
		b, field := &m.Blocks[i], fmt.Sprintf("memory.blocks[%d]", i)
		cleanAll(&b.Name, &b.Description, &b.Scope, &b.Text)
		switch {
		case b.Name == "":
			c.add(field+".name", "is missing")
		case len(b.Name) > maxBlockName || strings.Contains(b.Name, "/") || checkVariableKey(BlockKey(b.Name)) != nil:
			c.add(field+".name", "%s is not 1 to %d bytes without slashes and control characters", quoted(b.Name), maxBlockName)
		case seen[b.Name]:
			c.add(field+".name", "%s is there twice", quoted(b.Name))
		}
		seen[b.Name] = true
		c.scopes(field+".scope", []string{b.MemoryScope()})
		if b.Limit < 0 || b.Limit > MaxBlockLimit {
			c.add(field+".limit", "%d is not between 1 and %d characters", b.Limit, MaxBlockLimit)
		} else if err := b.Check(b.Text); err != nil {
			c.add(field+".text", "has %d characters, the limit is %d", utf8.RuneCountInString(b.Text), b.MaxChars())
		}
	}
}

// BlockReason says why a block was not changed.
type BlockReason string

// The reasons why a block is not changed.
const (
	BlockTooLong      BlockReason = "too_long"      // Have characters would be more than Want
	BlockTextMissing  BlockReason = "text_missing"  // the text to replace is not in it
	BlockTextRepeated BlockReason = "text_repeated" // the text to replace is in it Have times
	BlockNoLine       BlockReason = "no_line"       // it has Have lines and not Want
	BlockReadOnly     BlockReason = "read_only"     // the agent may only read it
)

// BlockError says why a block was not changed. It is as it was.
type BlockError struct {
	Block      string
	Reason     BlockReason
	Have, Want int
}

func (e *BlockError) Error() string {
	text := "block " + quoted(e.Block)
	switch e.Reason {
	case BlockTooLong:
		return fmt.Sprintf("%s would have %d characters, its limit is %d: shorten or replace what it has", text, e.Have, e.Want)
	case BlockTextMissing:
		return text + " does not contain the old text: give it exactly as it is in the block"
	case BlockTextRepeated:
		return fmt.Sprintf("%s contains the old text %d times: give more of what is around the one to replace", text, e.Have)
	case BlockNoLine:
		return fmt.Sprintf("%s has %d lines, so nothing can be inserted after line %d", text, e.Have, e.Want)
	case BlockReadOnly:
		return text + " can only be read by the agent"
	}
	return text + " was not changed: " + string(e.Reason)
}
func (e *BlockError) Unwrap() []error { return []error{ErrBlock, ErrInvalid} }

package memory

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
)

// Block is a named text that is always part of the agent's system prompt.
type Block struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Scope       Scope     `json:"scope"`
	Text        string    `json:"text"`
	Size        int       `json:"size"`  // characters of Text
	Limit       int       `json:"limit"` // characters it may have
	ReadOnly    bool      `json:"readOnly,omitempty"`
	Version     int64     `json:"version"`   // 0: the text is the definition's
	UpdatedAt   time.Time `json:"updatedAt"` // zero for version 0
}

// BlockOf returns a declared block that nobody has written to.
func BlockOf(b session.MemoryBlock) Block {
	return Block{
		Name: b.Name, Description: b.Description, Scope: Scope(b.MemoryScope()), Text: b.Text, Size: utf8.RuneCountInString(b.Text),
		Limit: b.MaxChars(), ReadOnly: b.ReadOnly,
	}
}

// Written returns the block with a text that was written to it.
func (b Block) Written(text string, version int64, at time.Time) Block {
	b.Text, b.Size, b.Version, b.UpdatedAt = text, utf8.RuneCountInString(text), version, at
	return b
}

// BlockEdit is a change of a block's text.
type BlockEdit struct {
	Do   BlockDo `json:"do"`
	Text string  `json:"text"`          // the new text
	Old  string  `json:"old,omitempty"` // of BlockReplace: what it replaces; it must be there once
	// Line is for BlockInsert: the line after which the text becomes a line of
	// its own; 0: before the first.
	Line int `json:"line,omitempty"`
}

// BlockDo says what a BlockEdit does.
type BlockDo string

// What a BlockEdit can do.
const (
	BlockSet     BlockDo = "set"     // the whole text is another
	BlockReplace BlockDo = "replace" // a part of it is another
	BlockAppend  BlockDo = "append"  // a line is added at its end
	BlockInsert  BlockDo = "insert"  // a line is added elsewhere
)

// Apply returns the text after the edit. It refuses with an InvalidError what
// is no edit, and with a BlockError what does not fit the block or its text.
func (e BlockEdit) Apply(b session.MemoryBlock, text string) (string, error) {
	after := e.Text
	switch e.Do {
	case BlockSet:
	case BlockReplace:
		if e.Old == "" {
			return text, &session.InvalidError{Field: "old", Reason: "is empty: give the text to replace"}
		}
		switch n := strings.Count(text, e.Old); n {
		case 0:
			return text, &session.BlockError{Block: b.Name, Reason: session.BlockTextMissing}
		case 1:
			after = strings.Replace(text, e.Old, e.Text, 1)
		default:
			return text, &session.BlockError{Block: b.Name, Reason: session.BlockTextRepeated, Have: n}
		}
	case BlockAppend:
		if text != "" {
			after = strings.TrimSuffix(text, "\n") + "\n" + e.Text
		}
	case BlockInsert:
		lines := linesOf(text)
		if e.Line < 0 || e.Line > len(lines) {
			return text, &session.BlockError{Block: b.Name, Reason: session.BlockNoLine, Have: len(lines), Want: e.Line}
		}
		lines = append(lines[:e.Line:e.Line], append([]string{e.Text}, lines[e.Line:]...)...)
		after = strings.Join(lines, "\n")
	default:
		return text, &session.InvalidError{Field: "do", Reason: fmt.Sprintf("%q is not set, replace, append or insert", e.Do)}
	}
	if !utf8.ValidString(after) {
		return text, &session.InvalidError{Field: "text", Reason: "is not valid UTF-8"}
	}
	return after, b.Check(after)
}

func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// Prompt is the part of a system prompt that shows blocks, "" for none. Texts
// are indented, so that none can pass for the marks around it; one that another
// definition allowed to be longer is cut to its limit.
func Prompt(blocks []Block) string {
	if len(blocks) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Your memory blocks. They are always shown as they are now; each line of them is indented by four spaces that are not part of it.\n")
	for _, block := range blocks {
		text, about := block.Text, fmt.Sprintf("%d of %d characters", block.Size, block.Limit)
		if block.Size > block.Limit {
			text = string([]rune(text)[:block.Limit])
			about += ", the rest is not shown"
		}
		if block.ReadOnly {
			about += ", read-only"
		}
		fmt.Fprintf(&b, "\n[block %s: %s]", block.Name, about)
		if block.Description != "" {
			b.WriteString(" " + strings.Join(strings.Fields(block.Description), " "))
		}
		b.WriteString("\n    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n")
	}
	return b.String()
}

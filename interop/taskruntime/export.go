package taskruntime

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/task"
)

// ExportOptions choose what Export writes. The zero value is the whole task in
// its newest state.
type ExportOptions struct {
	At      int64 // a version; 0: the newest state, the open tail included
	Compact bool  // long texts are cut and images left out
}

// Export writes a task as a session_runtime_v2 snapshot. With At it has no
// queues: what waits in an inbox belongs to no version.
func Export(ctx context.Context, x *task.Executor, id string, o ExportOptions) (json.RawMessage, error) {
	t, err := x.View(ctx, id, o.At)
	if err != nil {
		return nil, err
	}
	v := newView(t)
	if o.Compact {
		v.history, v.cuts = shorten(v.history)
	}
	return v.payload()
}

// Snapshot is for task.Config.Snapshot: it writes a task as Export does.
func Snapshot(v task.View) (json.RawMessage, error) { return newView(v).payload() }

// The most characters of a text and of a result in a compact export.
const (
	maxText   = 50_000
	maxResult = 10_000
)

// cut is a text that a compact export has shortened, or an image it left out.
type cut struct {
	Message       int `json:"message"`
	Block         int `json:"block"` // 0 where the message is one text
	OriginalBytes int `json:"originalBytes"`
}

// shorten cuts long texts and replaces images by a line of text.
func shorten(history []historyMessage) ([]historyMessage, []cut) {
	var cuts []cut
	out := make([]historyMessage, len(history))
	for i, t := range history {
		out[i] = t
		if t.text != nil {
			if text, ok := cutText(*t.text, maxText); ok {
				cuts = append(cuts, cut{i, 0, len(*t.text)})
				out[i] = textMessage(t.role, text)
			}
			continue
		}
		short := historyMessage{role: t.role}
		before := len(cuts)
		for j, b := range t.blocks {
			next, original := b.shorten()
			if original > 0 {
				cuts = append(cuts, cut{i, j, original})
			}
			short.blocks = append(short.blocks, next)
		}
		if len(cuts) > before {
			out[i] = short
		}
	}
	return out, cuts
}

// shorten returns the block, cut if it is long, and its old size if it was cut.
func (b block) shorten() (block, int) {
	o, err := readObject(b.raw)
	if err != nil {
		return b, 0
	}
	switch b.kind {
	case blockText:
		text := o.text("text")
		if short, ok := cutText(text, maxText); ok {
			return textBlock(short), len(text)
		}
	case blockToolResult:
		content, _ := o.get("content")
		text := contentText(content)
		if short, ok := cutText(text, maxResult); ok || isArray(content) && len(content) > maxResult {
			b.raw = o.with("content", rawJSON(short)).JSON()
			return b, len(content)
		}
	case blockImage:
		size, ok := o.number("originalSizeBytes")
		if !ok {
			size = int64(len(o.text("data")))
		}
		return textBlock(fmt.Sprintf("[Image: %s, %d KB]", cmp.Or(o.text("mimeType"), "unknown type"), (size+1023)/1024)), len(b.raw)
	}
	return b, 0
}

// with replaces the value at key.
func (o object) with(key string, value json.RawMessage) object {
	next := make(object, len(o))
	for i, m := range o {
		if next[i] = m; m.key == key {
			next[i].value = value
		}
	}
	return next
}

// cutText cuts a text after n characters and adds a line that says so.
func cutText(text string, n int) (string, bool) {
	if len(text) <= n || utf8.RuneCountInString(text) <= n {
		return text, false
	}
	end := 0
	for range n {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return fmt.Sprintf("%s\n[cut here: %d of %d bytes]", text[:end], end, len(text)), true
}

package taskruntime

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/task"
)

// ExportOptions say what of a task is exported. The zero value is all of it,
// as it stands.
type ExportOptions struct {
	At      int64 // a version; 0: the newest state, the open tail included
	Compact bool  // long texts are cut and images left out
}

// Viewer reads tasks: a task.Executor, or the client of a server.
type Viewer interface {
	View(ctx context.Context, id string, version int64) (task.View, error)
}

// Export is a task as a snapshot that others can read. Of an earlier version
// it has no queues: what waits in an inbox belongs to no version.
func Export(ctx context.Context, x Viewer, id string, o ExportOptions) (json.RawMessage, error) {
	t, err := x.View(ctx, id, o.At)
	if err != nil {
		return nil, err
	}
	v := viewOf(t)
	if o.Compact {
		v.turns, v.cuts = shortened(v.turns)
	}
	return v.payload()
}

// Snapshot is a task as a snapshot that others can read, for
// task.Config.Snapshot.
func Snapshot(v task.View) (json.RawMessage, error) { return viewOf(v).payload() }

// The most characters that a compact export leaves of a text.
const (
	mostText   = 50_000
	mostResult = 10_000
)

// cut is a text that a compact export has shortened, or an image it left out.
type cut struct {
	Message       int `json:"message"`
	Block         int `json:"block"` // 0 where the message is one text
	OriginalBytes int `json:"originalBytes"`
}

// shortened cuts long texts and takes images out.
func shortened(turns []passage) ([]passage, []cut) {
	var cuts []cut
	out := make([]passage, len(turns))
	for i, t := range turns {
		out[i] = t
		if t.text != nil {
			if text, ok := cutText(*t.text, mostText); ok {
				cuts = append(cuts, cut{i, 0, len(*t.text)})
				out[i] = textPassage(t.role, text)
			}
			continue
		}
		short := passage{role: t.role}
		before := len(cuts)
		for j, b := range t.blocks {
			next, original := b.shortened()
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

// shortened is the block, cut where it is long, and how long it was then.
func (b block) shortened() (block, int) {
	o, err := readObject(b.raw)
	if err != nil {
		return b, 0
	}
	switch b.kind {
	case blockText:
		text := o.text("text")
		if short, ok := cutText(text, mostText); ok {
			return textBlock(short), len(text)
		}
	case blockToolResult:
		content, _ := o.get("content")
		text := contentText(content)
		if short, ok := cutText(text, mostResult); ok || isArray(content) && len(content) > mostResult {
			b.raw = o.with("content", raw(short)).JSON()
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

// with has another value at key.
func (o object) with(key string, value json.RawMessage) object {
	next := make(object, len(o))
	for i, m := range o {
		if next[i] = m; m.key == key {
			next[i].value = value
		}
	}
	return next
}

// cutText ends a text after n characters, with a line that says so.
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

package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// previewed makes the Diff of a tool's spec of a function that returns the name
// of a file, as shown, and its text before and after a call.
func previewed[In any](texts func(ctx context.Context, in In) (name, before, after string, err error)) func(context.Context, tool.Call) (string, error) {
	return func(ctx context.Context, c tool.Call) (string, error) {
		var in In
		if err := json.Unmarshal(c.Arguments, &in); err != nil {
			return "", &session.InvalidError{Field: "arguments", Reason: err.Error()}
		}
		name, before, after, err := texts(ctx, in)
		if err != nil {
			return "", err
		}
		return unifiedDiff(name, before, after), nil
	}
}

// writtenTexts returns what file_write would replace, and by what.
func (w *Workspace) writtenTexts(ctx context.Context, in writeArguments) (name, before, after string, err error) {
	w, name, leave, err := w.enterChangeable(ctx, in.Path)
	if err != nil {
		return "", "", "", err
	}
	defer leave()
	if name, err = w.followLinks(name); err != nil {
		return "", "", "", err
	}
	had, err := w.content(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", "", "", err
	case binary(had):
		had = fmt.Appendf(nil, "[binary, %d bytes]\n", len(had))
	}
	return w.shown(name), string(had), in.Content, nil
}

// editedTexts returns a file before and after file_edit.
func (w *Workspace) editedTexts(ctx context.Context, in editArguments) (name, before, after string, err error) {
	w, name, leave, err := w.enterChangeable(ctx, in.Path)
	if err != nil {
		return "", "", "", err
	}
	defer leave()
	if name, err = w.followLinks(name); err != nil {
		return "", "", "", err
	}
	before, after, _, err = w.replaced(name, in)
	return w.shown(name), before, after, err
}

const (
	aroundChange = 3       // lines that a diff shows before and after a change
	maxDiff      = 1 << 20 // bytes of a diff; the arguments of the call are whole
	maxTable     = 1 << 22 // pairs of lines that are compared; beyond, all of them are shown as replaced
)

// unifiedDiff returns the difference between two texts in the usual form, ""
// where there is none. A new file has no text before.
func unifiedDiff(name, before, after string) string {
	if before == after {
		return ""
	}
	old := "a/" + name
	if before == "" {
		old = "/dev/null"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ b/%s\n", old, name)
	for _, h := range hunks(compareLines(linesOf(before), linesOf(after))) {
		h.write(&b)
	}
	if b.Len() <= maxDiff {
		return b.String()
	}
	whole := b.String()
	kept := whole[:strings.LastIndexByte(whole[:maxDiff], '\n')+1]
	return kept + fmt.Sprintf("[cut: %d more lines]\n", strings.Count(whole[len(kept):], "\n"))
}

// linesOf splits a text. The last line says where it has no end.
func linesOf(text string) []string {
	lines := slices.Collect(strings.Lines(text))
	if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
		lines[n-1] += "\n\\ No newline at end of file\n"
	}
	return lines
}

// diffLine is a line of a diff: kept (' '), removed ('-') or added ('+').
type diffLine struct {
	mark byte
	text string
}

// compareLines finds a shortest way from one text to another.
func compareLines(a, b []string) []diffLine {
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	lines := marked(nil, ' ', a[:start])
	lines = append(lines, compareMiddle(a[start:len(a)-end], b[start:len(b)-end])...)
	return marked(lines, ' ', a[len(a)-end:])
}

func marked(to []diffLine, mark byte, lines []string) []diffLine {
	for _, line := range lines {
		to = append(to, diffLine{mark, line})
	}
	return to
}

// compareMiddle compares by the longest common subsequence.
func compareMiddle(a, b []string) []diffLine {
	if len(a) == 0 || len(b) == 0 || len(a) > maxTable/len(b) {
		return marked(marked(nil, '-', a), '+', b)
	}
	width := len(b) + 1
	common := make([]int32, (len(a)+1)*width) // of a[i:] and b[j:]
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	var lines []diffLine
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			lines = append(lines, diffLine{' ', a[i]})
			i, j = i+1, j+1
		case common[(i+1)*width+j] >= common[i*width+j+1]:
			lines = append(lines, diffLine{'-', a[i]})
			i++
		default:
			lines = append(lines, diffLine{'+', b[j]})
			j++
		}
	}
	return marked(marked(lines, '-', a[i:]), '+', b[j:])
}

// hunk is a piece of a diff with the lines around it.
type hunk struct {
	from, to int // the number of its first line, before and after
	lines    []diffLine
}

// hunks leaves out what is far from a change.
func hunks(lines []diffLine) []hunk {
	var found []hunk
	from, to, last := 1, 1, -1 // last: the index of the last line that is shown
	for i, l := range lines {
		if l.mark != ' ' {
			start := max(i-aroundChange, last+1)
			end := min(i+aroundChange, len(lines)-1)
			if last < 0 || start > last+1 {
				before := i - start // these are kept lines, on both sides
				found = append(found, hunk{from: from - before, to: to - before})
				last = start - 1
			}
			if end > last {
				h := &found[len(found)-1]
				h.lines = append(h.lines, lines[last+1:end+1]...)
				last = end
			}
		}
		if l.mark != '+' {
			from++
		}
		if l.mark != '-' {
			to++
		}
	}
	return found
}

func (h hunk) write(b *strings.Builder) {
	removed, added := 0, 0
	for _, l := range h.lines {
		if l.mark != '+' {
			removed++
		}
		if l.mark != '-' {
			added++
		}
	}
	fmt.Fprintf(b, "@@ -%s +%s @@\n", rangeOf(h.from, removed), rangeOf(h.to, added))
	for _, l := range h.lines {
		b.WriteByte(l.mark)
		b.WriteString(l.text)
	}
}

// rangeOf writes where lines stand. No line stands before the next one.
func rangeOf(first, count int) string {
	if count == 0 {
		first--
	}
	if count == 1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d,%d", first, count)
}

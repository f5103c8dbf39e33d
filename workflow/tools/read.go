package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

type readArguments struct {
	Path     string `json:"path" jsonschema:"the file, absolute or relative to the working directory"`
	Encoding string `json:"encoding,omitempty" jsonschema:"utf-8 where it is left out"`
}

func (b *Box) readTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: "file_read", Nature: tool.ReadOnly,
		Description: "Read a text file, whole.",
	}, b.readFile)
}

func (b *Box) readFile(_ context.Context, in readArguments) (string, error) {
	set, err := findCharset(in.Encoding)
	if err != nil {
		return "", err
	}
	data, err := b.folders.read(in.Path)
	if err != nil {
		return "", err
	}
	text, err := set.decode(data)
	if err != nil {
		return "", fmt.Errorf("%s %w", displayPath(in.Path), err)
	}
	return text, nil
}

// What head and tail read where nothing is said, and how many lines.
const (
	headBytes = 1 << 20
	tailBytes = 10 << 20
	someLines = 10
)

type linesArguments struct {
	Path       string `json:"path" jsonschema:"the file, absolute or relative to the working directory"`
	Lines      *int   `json:"lines,omitempty" jsonschema:"how many lines; 10 where it is left out"`
	BytesLimit *int   `json:"bytes_limit,omitempty" jsonschema:"how many bytes are read at most"`
}

func (in linesArguments) check() error {
	switch {
	case in.Lines != nil && *in.Lines < 1:
		return &session.InvalidError{Field: "lines", Reason: "is less than 1"}
	case in.BytesLimit != nil && (*in.BytesLimit < 1 || *in.BytesLimit > maxFile):
		return &session.InvalidError{Field: "bytes_limit", Reason: fmt.Sprintf("is not from 1 to %d", maxFile)}
	}
	return nil
}

func (b *Box) headTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: "head", Nature: tool.ReadOnly,
		Description: "The first lines of a text file, with their numbers.",
	}, b.head)
}

func (b *Box) head(_ context.Context, in linesArguments) (string, error) {
	if err := in.check(); err != nil {
		return "", err
	}
	file, _, err := b.folders.open(in.Path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	limit := valueOr(in.BytesLimit, headBytes)
	data, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return "", regular.ShortError(displayPath(in.Path), err)
	}
	cut := len(data) > limit
	lines, err := linesOf(in.Path, data[:min(len(data), limit)])
	if err != nil {
		return "", err
	}
	wanted := valueOr(in.Lines, someLines)
	text := numbered(lines[:min(len(lines), wanted)], 1)
	if cut && len(lines) <= wanted {
		text += fmt.Sprintf("\n[cut: only the first %d bytes were read]", limit)
	}
	return text, nil
}

func (b *Box) tailTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: "tail", Nature: tool.ReadOnly,
		Description: "The last lines of a text file, with their numbers.",
	}, b.tail)
}

func (b *Box) tail(ctx context.Context, in linesArguments) (string, error) {
	if err := in.check(); err != nil {
		return "", err
	}
	file, info, err := b.folders.open(in.Path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	limit := int64(valueOr(in.BytesLimit, tailBytes))
	start := max(0, info.Size()-limit)
	before, err := countLines(ctx, file, start)
	if err != nil {
		return "", regular.ShortError(displayPath(in.Path), err)
	}
	data, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		return "", regular.ShortError(displayPath(in.Path), err)
	}
	lines, err := linesOf(in.Path, data)
	if err != nil {
		return "", err
	}
	wanted := valueOr(in.Lines, someLines)
	skipped := max(0, len(lines)-wanted)
	text := numbered(lines[skipped:], before+skipped+1)
	if start > 0 && skipped == 0 {
		text = fmt.Sprintf("[cut: only the last %d bytes were read]\n", limit) + text
	}
	return text, nil
}

// countLines reads the first bytes of a file and counts the lines that end in
// them.
func countLines(ctx context.Context, file *os.File, size int64) (int, error) {
	count, chunk := 0, make([]byte, 64<<10)
	for size > 0 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := file.Read(chunk[:min(int64(len(chunk)), size)])
		count += bytes.Count(chunk[:n], []byte("\n"))
		size -= int64(n)
		if errors.Is(err, io.EOF) { // it has become shorter
			return count, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return count, nil
}

// linesOf splits the content of a file into lines, without what ends them and
// the white space before that.
func linesOf(path string, data []byte) ([]string, error) {
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, fmt.Errorf("%s %w", displayPath(path), errBinary)
	}
	if len(data) == 0 {
		return nil, nil
	}
	text := strings.ToValidUTF8(string(data), string(utf8.RuneError))
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\r\v\f")
	}
	return lines, nil
}

func numbered(lines []string, from int) string {
	if len(lines) == 0 {
		return "[the file is empty]"
	}
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%4d | %s", from+i, line)
	}
	return b.String()
}

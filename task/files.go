package task

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// How often a file is read and a folder listed, without a write in between,
// before the answer is the one that was given.
const (
	readSpan       = 30_000 // milliseconds
	listSpan       = 60_000
	maxRemembered  = 20_000
	readTimesInRow = 2
)

// argument is the first text among some arguments of a call.
func argument(call session.ToolCall, names ...string) string {
	var args map[string]json.RawMessage
	if json.Unmarshal(call.Arguments, &args) != nil {
		return ""
	}
	for _, name := range names {
		var text string
		if json.Unmarshal(args[name], &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// pathOf is the file or folder a call is about, "" where it names none.
func pathOf(call session.ToolCall) string {
	p := argument(call, "path", "file_path", "filePath", "file", "filename", "directory", "dir")
	if p == "" {
		return ""
	}
	return path.Clean(filepath.ToSlash(p))
}

// targetOf is what a call is about: a path, an address, a command, or all of
// its input.
func targetOf(call session.ToolCall) string {
	if p := pathOf(call); p != "" {
		return p
	}
	if t := argument(call, "url", "command", "query", "pattern"); t != "" {
		return t
	}
	return sortedInput(call.Arguments)
}

// sortedInput is input as JSON with sorted keys.
func sortedInput(input json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return string(input)
	}
	sorted, err := session.JSON(v)
	if err != nil {
		return string(input)
	}
	return string(sorted)
}

// use is what a call does with files.
type use int

const (
	usesNone use = iota
	usesRead
	usesList
	usesSearch
	usesWrite
	usesAnything // nobody knows which files
)

func useOf(name string, effects tool.Effects) use {
	switch {
	case effects == 0, effects.Has(tool.Shell | tool.System | tool.MCP):
		return usesAnything
	case effects.Has(tool.Write | tool.Delete):
		return usesWrite
	case !effects.Has(tool.Read):
		return usesNone
	case strings.Contains(name, "list"):
		return usesList
	case strings.Contains(name, "search"), strings.Contains(name, "find"), strings.Contains(name, "glob"), strings.Contains(name, "grep"):
		return usesSearch
	}
	return usesRead
}

// rememberedResult returns the result of an equal call of a moment ago, where this one
// would be one too many.
func rememberedResult(s session.Session, call session.ToolCall, t tool.Spec, now int64) (string, bool) {
	files := stateOf(s).Files
	var seen session.Count
	span := int64(readSpan)
	switch useOf(call.Name, t.Effects) {
	case usesRead:
		seen, _ = files.Reads.Get(pathOf(call))
	case usesList:
		seen, _ = files.Listings.Get(pathOf(call))
		span = listSpan
	default:
		return "", false
	}
	if seen.Count < readTimesInRow || now-seen.PrevAt >= span {
		return "", false
	}
	result, ok := lastResult(s, call)
	if !ok {
		return "", false
	}
	return rememberedText + firstChars(result, maxRemembered), true
}

// lastResult is the newest good result of an equal call.
func lastResult(s session.Session, call session.ToolCall) (string, bool) {
	input := sortedInput(call.Arguments)
	results := map[string]string{}
	for i := s.Len() - 1; i >= 0; i-- {
		m := s.Message(i)
		if t := m.ToolResult; t != nil && !t.IsError && !t.Synthetic && t.ToolName == call.Name && !strings.HasPrefix(t.Content, rememberedText) {
			results[t.CallID] = t.Content
		}
		for _, earlier := range m.ToolCalls {
			if text, ok := results[earlier.ID]; ok && earlier.ID != call.ID && sortedInput(earlier.Arguments) == input {
				return text, true
			}
		}
	}
	return "", false
}

func firstChars(text string, n int) string {
	if len(text) <= n {
		return text
	}
	runes := []rune(text)
	return string(runes[:min(len(runes), n)])
}

// located is a path of a call on this machine.
func (r *Run) located(p string) string {
	if filepath.IsAbs(filepath.FromSlash(p)) {
		return filepath.FromSlash(p)
	}
	return filepath.Join(workspaceOf(r.session()).Root, filepath.FromSlash(p))
}

// exists reports whether the file of a call that writes is there.
func (r *Run) exists(call session.ToolCall, t tool.Spec) bool {
	p := pathOf(call)
	if p == "" || useOf(call.Name, t.Effects) != usesWrite {
		return false
	}
	_, err := os.Lstat(r.located(p))
	return err == nil
}

// fileEvent is what became of the file of a call that wrote.
func (r *Run) fileEvent(c ended) (session.Change, bool) {
	p := pathOf(c.call)
	if p == "" || c.result.IsError || useOf(c.call.Name, c.spec.Effects) != usesWrite {
		return nil, false
	}
	info, err := os.Lstat(r.located(p))
	switch {
	case err == nil && c.existed:
		return event("file_modified", fileChanged{Path: p, Bytes: new(info.Size())}), true
	case err == nil:
		return event("file_created", fileChanged{Path: p, Bytes: new(info.Size())}), true
	case c.existed:
		return event("file_deleted", fileChanged{Path: p}), true
	}
	return event("file_modified", fileChanged{Path: p}), true // it lies where this process cannot look
}

// track keeps which files and folders a call that went well has touched.
func track(s *session.TaskState, c ended, stepID string, now int64) {
	p := pathOf(c.call)
	kind := useOf(c.call.Name, c.spec.Effects)
	switch {
	case kind == usesAnything:
		s.Files.Reads, s.Files.Listings = session.Pairs[session.Count]{}, session.Pairs[session.Count]{}
		return
	case p == "":
		return
	}
	switch kind {
	case usesRead:
		s.Files.Reads = again(s.Files.Reads, p, now)
		s.Files.Read = s.Files.Read.Without(p).With(p, session.FileRead{Step: stepID, Bytes: int64(len(c.result.Content))})
	case usesList:
		s.Files.Listings = again(s.Files.Listings, p, now)
	case usesWrite:
		s.Files.Reads = s.Files.Reads.Without(p)
		s.Files.Listings = s.Files.Listings.Without(p).Without(path.Dir(p))
		if !c.existed {
			s.Files.Created = newest(s.Files.Created, p)
		}
	}
}

func again(counts session.Pairs[session.Count], p string, now int64) session.Pairs[session.Count] {
	c, _ := counts.Get(p)
	return counts.Without(p).With(p, session.Count{Count: c.Count + 1, LastAt: now, PrevAt: c.LastAt})
}

// newest returns a list with an entry once, at the end.
func newest(list []string, entry string) []string { return append(without(list, entry), entry) }

func without(list []string, entry string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(e string) bool { return e == entry })
}

package permission

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// ForCall returns the requests to evaluate for a tool call: the given request
// with what the call says, once, or once for each path that the arguments name.
func (q Request) ForCall(call session.ToolCall, spec tool.Spec) []Request {
	named := readArguments(call.Arguments)
	q.Tool, q.Known, q.Input, q.Effects, q.Server = call.Name, true, call.Arguments, spec.Effects, spec.Server
	if spec.Effects.Has(tool.Network) && spec.Effects.Has(tool.Export) {
		// What a tool for HTTP requests does depends on the request.
		q.Effects = q.Effects&^(tool.Network|tool.Export) | OfHTTP(cmp.Or(named.text("method"), "GET"), named.given("body", "data"), named.given("headers"))
	}
	if spec.Effects.Has(tool.Shell) {
		q.Command = named.text("command", "cmd", "script")
	}
	q.Domain, q.URL = named.host(), named.text(urlNames...)
	q.Type = approvalType(q.Effects)
	q.Deep = spec.Deep
	paths := named.paths()
	if len(paths) == 0 && spec.Deep {
		paths = []string{"."}
	}
	if len(paths) == 0 || q.Effects.Within(tool.Network|tool.Export|tool.Shell) {
		return []Request{q}
	}
	requests := make([]Request, len(paths))
	for i, p := range paths {
		requests[i] = q
		requests[i].Path, requests[i].ResolvedPath = filepath.ToSlash(p), ResolvePath(q.Workspace.Root, p)
	}
	return requests
}

// Strictest evaluates requests and returns the strictest decision with its
// request: deny before ask before allow.
func (e Engine) Strictest(requests []Request) (Request, Result) {
	first, decided := requests[0], e.Evaluate(requests[0])
	for _, q := range requests[1:] {
		if v := e.Evaluate(q); effectRank(v.Decision) > effectRank(decided.Decision) {
			first, decided = q, v
		}
	}
	return first, decided
}

// OfHTTP returns the effect of an HTTP request: Export if it can send data,
// else Network.
func OfHTTP(method string, hasBody, hasCustomHeaders bool) tool.Effects {
	asks := strings.EqualFold(method, "GET") || strings.EqualFold(method, "HEAD")
	if asks && !hasBody && !hasCustomHeaders {
		return tool.Network
	}
	return tool.Export
}

// approvalType names what kind of approval a call needs.
func approvalType(e tool.Effects) string {
	switch {
	case e == 0:
		return "tool"
	case e.Has(tool.Location):
		return "location_access"
	case e.Has(tool.Export):
		return "data_export"
	case e.Has(tool.Shell):
		return "run_command"
	case e.Has(tool.Delete):
		return "delete_file"
	case e.Has(tool.Interact):
		return "computer_use"
	case e.Has(tool.External | tool.MCP):
		return "external_service"
	case e.Has(tool.Network):
		return "network_access"
	}
	return "tool"
}

// arguments are those of a call, by name.
type arguments map[string]json.RawMessage

func readArguments(raw json.RawMessage) arguments {
	var named arguments
	if json.Unmarshal(raw, &named) != nil {
		return nil
	}
	return named
}

// text returns the first of some arguments that is a text.
func (a arguments) text(names ...string) string {
	for _, name := range names {
		var s string
		if json.Unmarshal(a[name], &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

// given reports whether one of the arguments is not empty.
func (a arguments) given(names ...string) bool {
	for _, name := range names {
		switch text := strings.TrimSpace(string(a[name])); text {
		case "", "null", `""`, "{}", "[]":
		default:
			return true
		}
	}
	return false
}

// pathNames are what tools call the paths they work on.
var pathNames = []string{
	"path", "file_path", "filePath", "file", "filename", "dir", "directory", "folder",
	"from", "to", "source", "destination", "src", "dst", "old_path", "new_path", "oldPath", "newPath", "paths", "files_to_delete",
}

// paths returns all paths that the arguments name.
func (a arguments) paths() []string {
	var found []string
	for _, name := range pathNames {
		if p := a.text(name); p != "" {
			found = append(found, p)
			continue
		}
		var several []string
		if raw, ok := a[name]; ok && json.Unmarshal(raw, &several) == nil {
			found = append(found, several...)
		}
	}
	return found
}

// urlNames are what tools call the address they ask.
var urlNames = []string{"url", "uri", "href", "endpoint"}

// host returns the host that the arguments name.
func (a arguments) host() string {
	if u, err := url.Parse(a.text(urlNames...)); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return a.text("domain", "host")
}

// ResolvePath follows every symbolic link of a path. It returns "" if that fails.
// A path that does not exist yet is resolved by its folder.
func ResolvePath(root, p string) string {
	if !filepath.IsAbs(p) {
		if root == "" {
			return ""
		}
		p = filepath.FromSlash(root) + string(filepath.Separator) + p
	}
	if strings.Contains(p, "..") { // a link on the way changes what .. means
		if led, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.ToSlash(led)
		}
	}
	p = filepath.Clean(p)
	rest := ""
	for {
		led, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.ToSlash(filepath.Join(led, rest))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		if _, err := os.Lstat(p); err == nil { // a dangling link
			return ""
		}
		up := filepath.Dir(p)
		if up == p {
			return ""
		}
		p, rest = up, filepath.Join(filepath.Base(p), rest)
	}
}

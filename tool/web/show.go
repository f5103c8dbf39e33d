package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/holdfast-dev/holdfast/tool"
)

// show reads an answer and puts it in words. An answer that says it failed is
// an error result.
func (f *fetcher) show(r request, u *url.URL, resp *http.Response) (tool.Result, error) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, f.config.MaxBody+1))
	if err != nil {
		return tool.Result{}, fmt.Errorf("read answer after %d bytes: %w", len(raw), err)
	}
	long := int64(len(raw)) > f.config.MaxBody
	if long {
		raw = raw[:f.config.MaxBody]
	}
	failed := resp.StatusCode >= 400
	text, err := readable(resp.Header.Get("Content-Type"), raw)
	if err != nil {
		return tool.Result{}, fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	text = tool.Head(tool.Plain(text), f.config.MaxResult)
	if long {
		text += fmt.Sprintf("\n[cut: the answer is longer than %d bytes]", f.config.MaxBody)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Status: %d\n", resp.StatusCode)
	if u.String() != r.url {
		fmt.Fprintf(&b, "URL: %s\n", u)
	}
	if !r.brief {
		fmt.Fprintf(&b, "Headers: %s\n", headers(resp.Header))
	}
	if r.method != http.MethodHead {
		fmt.Fprintf(&b, "Body:\n%s", text)
	}
	return tool.Result{Content: b.String(), IsError: failed}, nil
}

// headers are those of an answer as JSON, without the cookies it sets, which
// are credentials.
func headers(h http.Header) string {
	const most = 8 << 10
	shown := make(map[string]string, len(h))
	for name, values := range h {
		if name != "Set-Cookie" {
			shown[name] = strings.Join(values, ", ")
		}
	}
	raw, err := json.Marshal(shown)
	if err != nil {
		return "{}"
	}
	return tool.Head(tool.Plain(string(raw)), most)
}

var errBinary = errors.New("it is no text and cannot be shown")

// readable is a body as text, by its type. Without a type it is looked at.
func readable(contentType string, raw []byte) (string, error) {
	if len(raw) == 0 {
		return "[no content]", nil
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind == "" || kind == "application/octet-stream" {
		kind, params, err = mime.ParseMediaType(http.DetectContentType(raw))
	}
	if err != nil || !textual(kind) || strings.ContainsRune(string(raw[:min(len(raw), 1024)]), 0) {
		return "", fmt.Errorf("%s, %d bytes: %w", kind, len(raw), errBinary)
	}
	text := decoded(raw, params["charset"])
	if kind == "text/html" || kind == "application/xhtml+xml" {
		return pageText(text), nil
	}
	return text, nil
}

func textual(kind string) bool {
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") {
		return true
	}
	switch strings.TrimPrefix(strings.TrimPrefix(kind, "application/"), "x-") {
	case "json", "xml", "javascript", "ecmascript", "yaml", "toml", "ndjson", "jsonl", "www-form-urlencoded", "sql", "sh", "graphql":
		return true
	}
	return false
}

// decoded is a body in UTF-8. Besides UTF-8 the old western character set is
// understood, which is also what servers mean that name none and send no UTF-8.
func decoded(raw []byte, charset string) string {
	switch strings.ToLower(charset) {
	case "iso-8859-1", "latin1", "windows-1252", "us-ascii", "":
		if utf8.Valid(raw) {
			break
		}
		if text, err := charmap.Windows1252.NewDecoder().Bytes(raw); err == nil {
			return string(text)
		}
	}
	return string(raw)
}

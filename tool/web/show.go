package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/egress"
)

// show reads an answer and puts it in words. An answer that says it failed is
// an error result.
func (f *fetcher) show(r request, resp *http.Response) (tool.Result, error) {
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
	if at := resp.Request.URL.String(); at != r.url {
		fmt.Fprintf(&b, "URL: %s\n", at)
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

// readable is a body as a person would read it.
func readable(contentType string, raw []byte) (string, error) {
	if len(raw) == 0 {
		return "[no content]", nil
	}
	text, html, err := egress.Text(contentType, raw)
	if html {
		text = pageText(text)
	}
	return text, err
}

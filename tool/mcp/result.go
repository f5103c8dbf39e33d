package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/tool"
)

// result turns an answer into text: content without a text form becomes a note,
// and structured content is added unless a text part is the same JSON.
func (s *Server) result(r *sdk.CallToolResult) tool.Result {
	if r.NeedsInput() {
		return tool.Result{Content: "the server asks for more input, which is not supported; call the tool with complete arguments", IsError: true}
	}
	var parts []string
	repeated := false
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok && r.StructuredContent != nil {
			repeated = repeated || sameValue(t.Text, r.StructuredContent)
		}
		if part := contentText(c); part != "" {
			parts = append(parts, part)
		}
	}
	if r.StructuredContent != nil && !repeated {
		if raw, err := json.Marshal(r.StructuredContent); err == nil {
			parts = append(parts, string(raw))
		}
	}
	text := cmp.Or(strings.Join(parts, "\n"), "[no content]")
	// Secrets go first: a cut through one would leave half of it.
	return tool.Result{Content: tool.Head(tool.Plain(s.secrets.mask(text)), s.config.MaxResult), IsError: r.IsError}
}

// sameValue reports whether a text is the JSON of a value.
func sameValue(text string, value any) bool {
	var decoded any
	return json.Unmarshal([]byte(text), &decoded) == nil && reflect.DeepEqual(decoded, value)
}

func contentText(c sdk.Content) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return fmt.Sprintf("[image, %s, %d bytes: not shown]", c.MIMEType, len(c.Data))
	case *sdk.AudioContent:
		return fmt.Sprintf("[audio, %s, %d bytes: not shown]", c.MIMEType, len(c.Data))
	case *sdk.ResourceLink:
		return strings.TrimSpace(fmt.Sprintf("[resource %s: %s] %s", c.Name, c.URI, c.Description))
	case *sdk.EmbeddedResource:
		switch {
		case c.Resource == nil:
			return ""
		case c.Resource.Blob != nil:
			return fmt.Sprintf("[resource %s, %s, %d bytes: not shown]", c.Resource.URI, c.Resource.MIMEType, len(c.Resource.Blob))
		}
		return fmt.Sprintf("[resource %s]\n%s", c.Resource.URI, c.Resource.Text)
	}
	return "[content of an unknown type: not shown]"
}

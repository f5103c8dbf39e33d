package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/tool"
)

// result is what a server answered as text: what cannot be shown becomes a
// note, and structured content is there unless the text says the same.
func (s *Server) result(r *sdk.CallToolResult) tool.Result {
	if r.NeedsInput() {
		return tool.Result{Content: "the server asks for input, which cannot be given here", IsError: true}
	}
	var parts []string
	told := false
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok && r.StructuredContent != nil {
			told = told || sameValue(t.Text, r.StructuredContent)
		}
		if part := shown(c); part != "" {
			parts = append(parts, part)
		}
	}
	if r.StructuredContent != nil && !told {
		if raw, err := json.Marshal(r.StructuredContent); err == nil {
			parts = append(parts, string(raw))
		}
	}
	text := strings.Join(parts, "\n")
	if text == "" {
		text = "[no content]"
	}
	// Secrets go first: a cut through one would leave half of it.
	return tool.Result{Content: tool.Head(tool.Plain(s.secrets.masked(text)), s.config.MaxResult), IsError: r.IsError}
}

// sameValue reports a text that is the JSON of a value.
func sameValue(text string, value any) bool {
	var told any
	return json.Unmarshal([]byte(text), &told) == nil && reflect.DeepEqual(told, value)
}

// shown is one piece of content as text.
func shown(c sdk.Content) string {
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
	return "[content of a kind that cannot be shown]"
}

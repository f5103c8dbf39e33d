package permission

import (
	"strings"

	"github.com/holdfast-dev/holdfast/tool"
)

// Effects is what a tool does to the world.
type Effects = tool.Effects

// The effects, as tools declare them.
const (
	Read     = tool.Read
	Write    = tool.Write
	Delete   = tool.Delete
	Shell    = tool.Shell
	Network  = tool.Network
	Export   = tool.Export
	External = tool.External
	Browser  = tool.Browser
	System   = tool.System
	Location = tool.Location
	MCP      = tool.MCP
	Interact = tool.Interact
)

// ParseEffects reads effects by their names.
func ParseEffects(names ...string) (Effects, error) { return tool.ParseEffects(names...) }

// OfHTTP returns the effect of an HTTP request: Export if it can send data,
// else Network.
func OfHTTP(method string, hasBody, hasCustomHeaders bool) Effects {
	asks := strings.EqualFold(method, "GET") || strings.EqualFold(method, "HEAD")
	if asks && !hasBody && !hasCustomHeaders {
		return Network
	}
	return Export
}

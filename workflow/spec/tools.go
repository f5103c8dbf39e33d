package spec

import "strings"

// Tools are what agents of a spec may call, besides what they name themselves.
type Tools struct {
	Python        []string       `json:"python,omitempty"` // names, as NativeTool takes them
	HTTPExecutors []HTTPExecutor `json:"http_executors,omitempty"`
	MCP           []MCPServer    `json:"mcp,omitempty"`
}

// Has says whether a name is a tool or a server of this section.
func (t Tools) Has(name string) bool {
	for _, p := range t.Python {
		if p == name || NativeTool(p) == NativeTool(name) {
			return true
		}
	}
	for _, e := range t.HTTPExecutors {
		if e.ID == name {
			return true
		}
	}
	for _, m := range t.MCP {
		if m.ID == name {
			return true
		}
	}
	return false
}

// HTTPExecutor is a web service as a tool. Headers may hold ${NAME}, which is
// replaced when a request is made and never before.
type HTTPExecutor struct {
	ID                 string      `json:"id"`
	BaseURL            string      `json:"base_url"`
	Headers            Map[string] `json:"headers,omitempty"`
	TimeoutMS          int         `json:"timeout_ms"`
	Description        string      `json:"description,omitempty"`
	Examples           Examples    `json:"examples,omitempty"`
	CommonEndpoints    []Endpoint  `json:"common_endpoints,omitempty"`
	ResponseFormat     string      `json:"response_format,omitempty"`
	AuthenticationInfo string      `json:"authentication_info,omitempty"`
}

// Examples are values of any shape.
type Examples []any

// MarshalJSON keeps floats.
func (e Examples) MarshalJSON() ([]byte, error) { return marshal([]any(e)) }

// Endpoint is a path of a web service worth knowing.
type Endpoint struct {
	Path        string `json:"path"`
	Description string `json:"description"`
	Method      string `json:"method,omitempty"`
}

// MCPServer is a tool server: a Command to start, or a URL to reach.
type MCPServer struct {
	ID      string      `json:"id"`
	Command string      `json:"command,omitempty"`
	Args    []string    `json:"args,omitempty"`
	Env     Map[string] `json:"env,omitempty"`
	URL     string      `json:"url,omitempty"`
	Headers Map[string] `json:"headers,omitempty"`
}

// native are the tools that come with the program; the value says why
// one that is known is not available.
var native = map[string]string{
	"calculator": "", "current_time": "", "file_read": "", "file_write": "", "grep": "", "search": "", "head": "", "tail": "",
	"http_request": "", "web_fetch": "", "tavily_search": "", "spec_verify": "", "Skill": "",
	"python_exec":       "it would run code outside any sandbox",
	"duckduckgo_search": "its service has no interface for programs",
}

// NativeTool is the short name of a tool: specs may write strands_cli.tools.X
// for X. A name of another form is returned as it is.
func NativeTool(name string) string { return strings.TrimPrefix(name, "strands_cli.tools.") }

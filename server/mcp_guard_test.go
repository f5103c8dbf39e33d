package server_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/apikey"
)

// guardedTool is how a tool of /mcp is called about what a tenant has.
type guardedTool struct {
	scope     apikey.Scope
	arguments map[string]string
	names     bool // something of a tenant
}

// guardedTools returns every tool that /mcp has. What they name is made first: a
// chat that says the word secret, a task and a run.
func guardedTools(t *testing.T, c mcpClient) map[string]guardedTool {
	t.Helper()
	made := func(tool string, arguments map[string]string) string {
		got, failed := c.call(tool, arguments)
		if failed != "" {
			t.Fatalf("%s: %s", tool, failed)
		}
		return got.Session
	}
	const spec = `{version: 0, name: asks, runtime: {provider: offline}, agents: {writer: {prompt: "Write."}}, pattern: {type: chain, config: {steps: [{type: hitl, prompt: "secret?"}, {agent: writer}]}}}`
	chat := made("session_send", map[string]string{"text": "secret", "name": "chat"})
	job := made("task_start", map[string]string{"prompt": "secret"})
	run := made("workflow_run", map[string]string{"spec": spec})
	paused := c.follow("workflow_status", map[string]string{"run": run}, "paused")
	tools := map[string]guardedTool{
		"session_send":    {apikey.Write, map[string]string{"session": chat, "text": "hi"}, true},
		"session_read":    {apikey.Read, map[string]string{"session": chat}, true},
		"session_search":  {apikey.Read, map[string]string{"words": "chat"}, false},
		"pending_respond": {apikey.Write, map[string]string{"session": run, "pending": paused.Pending[0].ID, "action": "answer", "text": "x"}, true},
		"task_start":      {apikey.Write, map[string]string{"prompt": "x"}, false},
		"task_status":     {apikey.Read, map[string]string{"task": job}, true},
		"workflow_run":    {apikey.Write, map[string]string{"spec": spec}, false},
		"workflow_status": {apikey.Read, map[string]string{"run": run}, true},
	}
	listed, err := c.s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range listed.Tools {
		if _, known := tools[tool.Name]; !known {
			t.Errorf("the tool %s is not among those that are called here", tool.Name)
		}
	}
	if len(listed.Tools) != len(tools) {
		t.Errorf("%d tools are offered, and %d called here", len(listed.Tools), len(tools))
	}
	return tools
}

// Each tool needs a key with the scope, sees its own tenant, and refuses
// arguments that it does not know by their names.
func TestMCP_toolsHaveTheKeysAndTenantsOfTheAPI(t *testing.T) {
	t.Parallel()
	n := newNode(t, working(launchingModel{}))
	all := []apikey.Scope{apikey.Read, apikey.Write, apikey.Approve}
	own, other := n.mcp(t, n.key("default", all...)), n.mcp(t, n.key("other", all...))
	lacking := map[apikey.Scope]mcpClient{}
	for _, scope := range all {
		lacking[scope] = n.mcp(t, n.key("default", slices.DeleteFunc(slices.Clone(all), func(s apikey.Scope) bool { return s == scope })...))
	}
	for name, tool := range guardedTools(t, own) {
		check := func(what string, c mcpClient, arguments any, want string) {
			t.Helper()
			said := callRaw(t, c, name, arguments)
			if !strings.Contains(said, want) || strings.Contains(said, "secret") {
				t.Errorf("%s with %s says %q, want %q", name, what, said, want)
			}
			for _, inside := range []string{"json:", "Go struct", "Go value"} { // of no use to a caller
				if strings.Contains(said, inside) {
					t.Errorf("%s with %s says %q: %s", name, what, inside, said)
				}
			}
		}
		check("a key without the scope", lacking[tool.scope], tool.arguments, "scope "+string(tool.scope))
		if tool.names {
			check("the key of another tenant", other, tool.arguments, "not found")
		}
		more := map[string]any{"nonsense": true}
		wrong := map[string]any{}
		for key, value := range tool.arguments {
			more[key], wrong[key] = value, []int{1}
		}
		check("an argument that it does not know", own, more, "nonsense")
		check("arguments of the wrong type", own, wrong, "type")
		callRaw(t, own, name, json.RawMessage(`[1]`)) // fails
	}
	if got, err := other.s.CallTool(t.Context(), &sdk.CallToolParams{Name: "session_search", Arguments: map[string]any{}}); err != nil || !strings.Contains(content(t, got), `"sessions":[]`) {
		t.Errorf("another tenant finds %v, %v", got, err)
	}
	chat, failed := own.call("session_send", map[string]string{"text": "secret"})
	if failed != "" {
		t.Fatal(failed)
	}
	for what, c := range map[string]mcpClient{"another tenant": other, "a key that may not read": lacking[apikey.Read]} {
		if got, err := c.s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "holdfast://sessions/" + chat.Session}); err == nil {
			t.Errorf("%s reads %v", what, got.Contents)
		}
	}
}

// callRaw calls a tool with any arguments and returns what it says where it
// failed.
func callRaw(t *testing.T, c mcpClient, name string, arguments any) string {
	t.Helper()
	got, err := c.s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		return err.Error()
	}
	if !got.IsError {
		t.Errorf("%s with %v is carried out: %s", name, arguments, content(t, got))
	}
	return content(t, got)
}

// content is what a result says.
func content(t *testing.T, r *sdk.CallToolResult) string {
	t.Helper()
	var all strings.Builder
	for _, c := range r.Content {
		text, ok := c.(*sdk.TextContent)
		if !ok {
			t.Fatalf("%T is no text", c)
		}
		all.WriteString(text.Text)
	}
	return all.String()
}

// A body that is no request of the protocol is refused, and says nothing of the
// program's inside.
func TestMCP_bodiesThatAreNoRequest(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	header := map[string]string{"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
	for _, body := range []string{
		``, `{"`, `[]`, `7`, `{}`, `{"jsonrpc":"2.0","id":1,"method":1}`, `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`,
		`{"jsonrpc":"2.0","id":1,"method":"nothing"}`, `{"jsonrpc":"2.0","id":{},"method":"tools/list"}`,
	} {
		got := n.do("POST", "/mcp", request{body: body, header: header})
		if got.status >= 500 || got.status == 200 && !strings.Contains(string(got.body), `"error"`) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for _, key := range []string{"-", "hf_wrong"} {
			refused(t, n.do(method, "/mcp", request{key: key, body: "{}", header: header}), 401, "unauthenticated")
		}
	}
}

package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
)

// bearer is a transport with a key.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// mcpClient is a client of /mcp of a node.
type mcpClient struct {
	t *testing.T
	s *sdk.ClientSession
}

func (n *node) mcp(t *testing.T, key string) mcpClient {
	t.Helper()
	transport := &sdk.StreamableClientTransport{Endpoint: n.http.URL + "/mcp", HTTPClient: &http.Client{Transport: bearer(key)}}
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return mcpClient{t, s}
}

// mcpResult is the part of results that tests look at.
type mcpResult struct {
	Session, Status, Title, Reply, Response string
	Pending                                 []struct{ ID, Kind, Tool, Prompt string }
}

// call calls a tool. Failed is what it says where it failed.
func (c mcpClient) call(name string, arguments map[string]string) (got mcpResult, failed string) {
	c.t.Helper()
	result, err := c.s.CallTool(c.t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		return got, err.Error()
	}
	if result.IsError {
		text, ok := result.Content[0].(*sdk.TextContent)
		if !ok {
			c.t.Fatalf("the error of %s has no text", name)
		}
		return got, text.Text
	}
	raw, err := json.Marshal(result.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &got)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return got, ""
}

// follow calls a tool until its result has the status.
func (c mcpClient) follow(name string, arguments map[string]string, status string) mcpResult {
	c.t.Helper()
	for over := time.Now().Add(time.Minute); ; {
		got, failed := c.call(name, arguments)
		if failed == "" && got.Status == status {
			return got
		}
		if failed != "" || time.Now().After(over) {
			c.t.Fatalf("%s: it is %+v and not %s: %s", name, got, status, failed)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestMCP_aTaskIsStartedFollowedAndApproved(t *testing.T) {
	t.Parallel()
	ran := make(chan struct{}, 1)
	n := newNode(t, working(launchingModel{}, launchTool(t, ran)))
	c := n.mcp(t, n.key("default", apikey.Read, apikey.Write, apikey.Approve))
	spec := map[string]string{"prompt": "launch it", "title": "rocket", "key": "one"}
	started, failed := c.call("task_start", spec)
	if again, _ := c.call("task_start", spec); failed != "" || again.Session != started.Session {
		t.Fatalf("started %+v, then %+v: %s", started, again, failed)
	}
	id := map[string]string{"task": started.Session}
	blocked := c.follow("task_status", id, "blocked")
	if blocked.Title != "rocket" || len(blocked.Pending) != 1 || blocked.Pending[0].Kind != "approval" || blocked.Pending[0].Tool != "launch" {
		t.Fatalf("%+v", blocked)
	}
	approve := map[string]string{"session": started.Session, "pending": blocked.Pending[0].ID, "action": "approve"}
	writer := n.mcp(t, n.key("default", apikey.Read, apikey.Write))
	if _, failed := writer.call("pending_respond", approve); !strings.Contains(failed, "scope approve") {
		t.Errorf("a key without the scope: %q", failed)
	}
	if _, failed := c.call("pending_respond", approve); failed != "" {
		t.Fatal(failed)
	}
	if ended := c.follow("task_status", id, "completed"); ended.Response != "It flies." || len(ended.Pending) != 0 || len(ran) != 1 {
		t.Errorf("%+v, launched %d times", ended, len(ran))
	}
	if _, failed := n.mcp(t, n.key("other", apikey.Read)).call("task_status", id); !strings.Contains(failed, "not found") {
		t.Errorf("another tenant: %q", failed)
	}
}

func TestMCP_aWorkflowIsRunAndItsQuestionAnswered(t *testing.T) {
	t.Parallel()
	n := newNode(t, working(inOrder(says("final"))))
	c := n.mcp(t, n.admin)
	spec := map[string]string{"key": "one", "name": "asked", "spec": `
version: 0
name: asks
runtime: {provider: offline}
agents: {writer: {prompt: "Write."}}
pattern: {type: chain, config: {steps: [{type: hitl, prompt: "Good?"}, {agent: writer, input: "{{steps[0].response}}"}]}}
`}
	started, failed := c.call("workflow_run", spec)
	if again, _ := c.call("workflow_run", spec); failed != "" || again.Session != started.Session || started.Title != "asked" {
		t.Fatalf("started %+v, then %+v: %s", started, again, failed)
	}
	id := map[string]string{"run": started.Session}
	paused := c.follow("workflow_status", id, "paused")
	if len(paused.Pending) != 1 || paused.Pending[0].Kind != "question" || !strings.Contains(paused.Pending[0].Prompt, "Good?") {
		t.Fatalf("%+v", paused)
	}
	if _, failed := c.call("pending_respond", map[string]string{"session": started.Session, "pending": paused.Pending[0].ID, "action": "answer", "text": "yes"}); failed != "" {
		t.Fatal(failed)
	}
	if ended := c.follow("workflow_status", id, "completed"); ended.Response != "final" {
		t.Errorf("%+v", ended)
	}
	for _, bad := range []struct {
		tool string
		in   map[string]string
		says string
	}{
		{"workflow_run", map[string]string{"spec": "name: x"}, "version"},
		{"workflow_status", map[string]string{"run": "none"}, "not found"},
		{"pending_respond", map[string]string{"session": started.Session, "pending": "none", "action": "answer", "text": "x"}, "none"},
		{"task_start", map[string]string{"prompt": "x", "priority": "high"}, "priority"},
	} {
		if _, failed := c.call(bad.tool, bad.in); !strings.Contains(failed, bad.says) {
			t.Errorf("%s %v: %q does not say %q", bad.tool, bad.in, failed, bad.says)
		}
	}
}

// launchingModel calls launch once where it is offered.
type launchingModel struct{}

func (launchingModel) Infer(_ context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	offered := slices.ContainsFunc(r.Tools, func(t llm.Tool) bool { return t.Name == "launch" })
	called := slices.ContainsFunc(r.Messages, func(m session.Message) bool { return m.ToolResult != nil })
	if offered && !called {
		return llm.Response{ToolCalls: []session.ToolCall{{ID: "c1", Name: "launch", Arguments: []byte(`{}`)}}}, nil
	}
	return llm.Response{Content: session.Text("It flies.")}, nil
}

// A client that goes away does not stop the answer.
func TestMCP_aCallThatIsGivenUpIsAnsweredAllTheSame(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	n := newNode(t, func(h *holdfast.Config, _ *server.Config) {
		h.Models = llm.Map{offline.Name: heldModel{asked, release}}
	})
	c := n.mcp(t, n.admin)
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	message := map[string]string{"text": "hello", "name": "held", "key": "k"}
	go func() {
		_, err := c.s.CallTool(ctx, &sdk.CallToolParams{Name: "session_send", Arguments: message})
		ended <- err
	}()
	<-asked
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("the call that was given up: %v", err)
	}
	close(release)
	again, failed := c.call("session_send", message)
	if failed != "" || again.Reply != "here" {
		t.Errorf("%+v %s", again, failed)
	}
}

// heldModel says that it is asked and waits. Only the end of what asks it fails
// it, as it would a model behind a network.
type heldModel struct{ asked, release chan struct{} }

func (m heldModel) Infer(ctx context.Context, _ llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	select {
	case m.asked <- struct{}{}:
	case <-m.release:
	}
	select {
	case <-m.release:
		return llm.Response{Content: session.Text("here")}, nil
	case <-ctx.Done():
		return llm.Response{}, context.Cause(ctx)
	}
}

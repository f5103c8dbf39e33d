package workflow_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// box is a toolbox that hands out what it has and remembers what was asked for.
type box struct {
	tools  []tool.Tool
	mu     sync.Mutex // branches ask at once
	wanted []string
	closed bool
}

func (b *box) For(names []string, listed bool, _ func(string) bool) ([]tool.Tool, error) {
	wanted := strings.Join(names, "+")
	if !listed {
		wanted = "all+" + wanted
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = append(b.wanted, wanted)
	return b.tools, nil
}

func (b *box) Close() error {
	b.closed = true
	return nil
}

func toolbox(tools ...tool.Tool) func(context.Context, *spec.Spec, *spec.Snapshot) (workflow.Toolbox, error) {
	return func(context.Context, *spec.Spec, *spec.Snapshot) (workflow.Toolbox, error) {
		return &box{tools: tools}, nil
	}
}

// counted is a tool that counts how often it ran.
type counted struct {
	tool.Tool
	ran *atomic.Int64
}

func (c counted) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	c.ran.Add(1)
	return c.Tool.Call(ctx, call)
}

func counter(name string, ran *atomic.Int64) tool.Tool {
	return counted{tool.Fake(name, "", "seen by "+name), ran}
}

// calling is an answer that asks for a tool.
func calling(name string) llm.Response {
	return llm.Response{
		ToolCalls:    []session.ToolCall{{ID: "c-" + name, Name: name, Arguments: []byte("{}")}},
		FinishReason: "tool_calls", Usage: session.Usage{Input: 10, Output: 5},
	}
}

const toolChain = head + `
agents: {a: {prompt: A}, b: {prompt: B, tools: [look]}}
context_policy: {retrieval: {jit_tools: [grep]}}
pattern: {type: chain, config: {steps: [{agent: a, input: one}, {agent: b, input: two}, {agent: b, input: three, tool_overrides: [other]}]}}
tools: {http_executors: [{id: look, base_url: "https://example.com"}, {id: other, base_url: "https://example.com"}]}
`

func TestTools_ofAUnit(t *testing.T) {
	t.Parallel()
	b := &box{tools: []tool.Tool{tool.Fake("look", "", "seen")}}
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		if m := r.Messages[len(r.Messages)-1]; m.ToolResult != nil {
			return said("it says " + m.ToolResult.Content), nil
		}
		return calling("look"), nil
	})
	s.host.Tools = func(context.Context, *spec.Spec, *spec.Snapshot) (workflow.Toolbox, error) { return b, nil }
	s.completes("it says seen")(s.start(toolChain))
	if got := strings.Join(b.wanted, ", "); got != "all+grep, look+grep, other+grep" || !b.closed {
		t.Errorf("asked for %s; closed: %t", got, b.closed)
	}
	st := s.state()
	if st.Usage.ByAgent["a"] != 30 || st.Usage.ByAgent["b"] != 60 || st.Agents["b"].Calls != 4 {
		t.Errorf("used %+v", st.Agents)
	}
	// Another set of tools is the same conversation: two exchanges of four.
	if got := len(s.asked[4].Messages); got != 5 {
		t.Errorf("the last unit was shown %d messages", got)
	}
}

func TestTools_finishedCallsAreNotMadeAgainOnResume(t *testing.T) {
	t.Parallel()
	var ran, again atomic.Int64
	var broken atomic.Bool
	broken.Store(true)
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		switch last := r.Messages[len(r.Messages)-1]; {
		case last.ToolResult == nil:
			return calling("look"), nil
		case last.ToolResult.ToolName == "look":
			return calling("again"), nil
		case broken.Load():
			return llm.Response{}, errors.New("no")
		}
		return said("found"), nil
	})
	s.host.Tools = toolbox(counter("look", &ran), counter("again", &again))
	one := head + "agents: {a: {prompt: A}}\npattern: {type: chain, config: {steps: [{agent: a, input: one}]}}\n"
	s.fails(workflow.KindProvider, "step/0", "no")(s.start(one))
	broken.Store(false)
	s.completes("found")(s.resume(workflow.ResumeOptions{}))
	if s.calls() != 4 || ran.Load() != 1 || again.Load() != 1 {
		t.Errorf("%d calls, tools ran %d and %d times", s.calls(), ran.Load(), again.Load())
	}
	if got := len(s.asked[3].Messages); got != 5 {
		t.Errorf("the resumed unit was shown %d messages", got)
	}
	if st := s.state(); st.Usage.ByAgent["a"] != 45 {
		t.Errorf("used %+v", st.Usage)
	}
}

func TestTools_anErrorIsAResultForTheModel(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		if m := r.Messages[len(r.Messages)-1]; m.ToolResult != nil {
			return said(m.ToolResult.Content), nil
		}
		return calling("nobody"), nil
	})
	s.host.Tools = toolbox(tool.Fake("look", "", ""))
	res, err := s.start(head + "agents: {a: {prompt: A}}\npattern: {type: chain, config: {steps: [{agent: a, input: one}]}}\n")
	if err != nil || !strings.Contains(res.LastResponse, `unknown tool "nobody"`) {
		t.Errorf("the run ended as %+v (%v)", res, err)
	}
}

package holdfast_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// desk answers for tool servers and counts.
type desk struct {
	mu     sync.Mutex
	dialed map[string]int
	ended  int
	fail   error
}

func (d *desk) dial(_ context.Context, server session.MCPServer) ([]tool.Tool, io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dialed == nil {
		d.dialed = map[string]int{}
	}
	d.dialed[server.ID]++
	if d.fail != nil {
		return nil, nil, d.fail
	}
	return []tool.Tool{tool.Fake(server.ID+"_look", "look", "seen by "+server.ID)}, d, nil
}

func (d *desk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended++
	return nil
}

func served(ids ...string) session.Definition {
	def := agentDef
	for _, id := range ids {
		def.MCP = append(def.MCP, session.MCPServer{ID: id, Command: "server-" + id})
	}
	return def
}

func TestServers_areReachedOnceAndGiveTheirTools(t *testing.T) {
	d := &desk{}
	h := open(t, func(c *holdfast.Config) {
		c.MCP = d.dial
		script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "left_look")}}, scripted.Reply{Text: "done"})
	})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := h.Create(t.Context(), served("left", "right"))
			if err != nil {
				t.Error(err)
				return
			}
			got, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "look"})
			if err != nil || got.Message(2).ToolResult.Content != "seen by left" {
				t.Errorf("%+v, %v", got.Message(2), err)
			}
		})
	}
	wg.Wait()
	if d.dialed["left"] != 1 || d.dialed["right"] != 1 {
		t.Errorf("dialed %v", d.dialed)
	}
	if err := h.Close(); err != nil || d.ended != 2 {
		t.Errorf("%d ended, %v", d.ended, err)
	}
}

// Whoever does not want to wait for a server does not have to, and the next one
// finds it reached.
func TestServers_oneThatIsSlowKeepsNobody(t *testing.T) {
	d, begun, free := &desk{}, make(chan struct{}, 1), make(chan struct{})
	h := open(t, func(c *holdfast.Config) {
		c.MCP = func(ctx context.Context, server session.MCPServer) ([]tool.Tool, io.Closer, error) {
			begun <- struct{}{}
			<-free
			return d.dial(ctx, server)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := h.Create(ctx, served("left"))
		gone <- err
	}()
	<-begun
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	close(free)
	if _, err := h.Create(t.Context(), served("left")); err != nil || d.dialed["left"] != 1 {
		t.Errorf("then: %v, dialed %v", err, d.dialed)
	}
}

func TestServers_oneThatCannotBeReachedRefusesTheDefinition(t *testing.T) {
	d := &desk{fail: errBoom}
	h := open(t, func(c *holdfast.Config) { c.MCP = d.dial })
	_, err := h.Create(t.Context(), served("left"))
	if !errors.Is(err, session.ErrDefinition) || !strings.Contains(err.Error(), "tool server left") {
		t.Errorf("%v", err)
	}
	d.fail = nil
	if _, err := h.Create(t.Context(), served("left")); err != nil {
		t.Errorf("when it is back: %v", err)
	}
	h = open(t, nil)
	if _, err := h.Create(t.Context(), served("left")); !errors.Is(err, session.ErrDefinition) {
		t.Errorf("not set up: %v", err)
	}
}

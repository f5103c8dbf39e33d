package catalog_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/catalog"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// What the whole house makes of a real server, tools and all.

type city struct {
	City string `json:"city"`
}

// house is a runtime that finds its models in a catalog.
func house(t *testing.T, environ ...string) *holdfast.Runtime {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	models, err := catalog.New(catalog.Config{Environ: environ, Client: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	weather, err := tool.Func(tool.Spec{Name: "weather", Description: "the weather in a city", Nature: tool.ReadOnly},
		func(_ context.Context, in city) (string, error) { return "snow in " + in.City, nil })
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewSet(weather, tool.Fake("anything", "takes anything", "it ran"))
	if err != nil {
		t.Fatal(err)
	}
	rt, err := holdfast.New(holdfast.Config{Store: inmem.New(inmem.Config{}), Models: models, Tools: tools, Secrets: models.Secrets()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func TestRuntime_oneTurnOnEitherProtocol(t *testing.T) {
	t.Parallel()
	replies := []provtest.Reply{
		{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After-Ms": {"1"}}},
		{Reasoning: []string{"snow?"}, Signature: "seal", Text: []string{"Let me look."}, Usage: provtest.Usage{Input: 1000, Output: 100}, Calls: []provtest.Call{
			{ID: "call_1", Name: "weather", Arguments: []string{`{"city":`, `"Oslo"}`}}, {ID: "call_2", Name: "weather", Arguments: []string{`{"city":`}}, {ID: "call_3", Name: "no such"}, {ID: "call_4", Name: "anything", Arguments: []string{"not json"}},
		}},
		{Text: []string{"Yes: ", "snow. My key is " + key}, Usage: provtest.Usage{Input: 2000, Output: 50}},
	}
	for model, start := range map[string]func(provtest.Config) *provtest.Server{
		"openai/gpt-4.1": provtest.OpenAI, "anthropic/claude-opus-5": provtest.Anthropic,
	} {
		server := start(provtest.Config{Key: key, Replies: replies})
		t.Cleanup(server.Close)
		rt := house(t, "OPENAI_API_KEY="+key, "OPENAI_BASE_URL="+server.URL, "ANTHROPIC_API_KEY="+key, "ANTHROPIC_BASE_URL="+server.URL)
		s, err := rt.Create(t.Context(), session.Definition{Name: "weather", SystemPrompt: "Be brief.", Model: model})
		if err != nil {
			t.Fatal(err)
		}
		var streamed strings.Builder
		s, err = rt.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "Do I need a coat in Oslo?"}, holdfast.Stream(func(d llm.Delta) { streamed.WriteString(d.Text) }))
		if err != nil {
			t.Fatalf("%s: %v", model, err)
		}
		if !strings.HasPrefix(s.Reply(), "Yes: snow.") || strings.Contains(s.Reply(), key) || !strings.HasPrefix(streamed.String(), "Let me look.Yes: snow.") {
			t.Errorf("%s: replied %q, streamed %q", model, s.Reply(), streamed.String())
		}
		results := map[string]string{}
		for _, m := range s.WindowMessages() {
			if m.ToolResult != nil {
				results[m.ToolResult.CallID] = m.ToolResult.Content
			}
		}
		if results["call_1"] != "snow in Oslo" || !strings.Contains(results["call_3"], "unknown tool") ||
			results["call_2"] != "not run: the arguments are not a JSON object" || results["call_4"] != results["call_2"] {
			t.Errorf("%s: results %q", model, results)
		}
		if e := s.Execution(); e == nil || e.Usage.Input != 3000 || e.Usage.Output != 150 || e.Cost == 0 {
			t.Errorf("%s: execution %+v", model, e)
		}
		if calls := server.Calls(); calls != (provtest.Calls{Received: 3, Answered: 2}) {
			t.Errorf("%s: the server counts %+v", model, calls)
		}
	}
}

func TestRuntime_wrongKeyEndsTheTurnAndIsNotSeen(t *testing.T) {
	t.Parallel()
	server := provtest.OpenAI(provtest.Config{Key: key})
	t.Cleanup(server.Close)
	rt := house(t, "OPENAI_API_KEY=sk-another-0123456789", "OPENAI_BASE_URL="+server.URL)
	s, err := rt.Create(t.Context(), session.Definition{Name: "a", Model: "openai/gpt-4.1"})
	if err != nil {
		t.Fatal(err)
	}
	s, err = rt.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"})
	var told *llm.ProviderError
	if !errors.As(err, &told) || told.Status != http.StatusUnauthorized || !errors.Is(err, session.ErrExecutionFailed) {
		t.Errorf("got %v", err)
	}
	raw, encodeErr := session.JSON(s)
	if encodeErr != nil || strings.Contains(string(raw)+err.Error(), "sk-another") || server.Calls().Received != 1 {
		t.Errorf("asked %d times, %v: %s", server.Calls().Received, err, raw)
	}
}

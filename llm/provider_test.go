package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/anthropic"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
)

// What every provider promises, whatever its protocol.

const key = "sk-test-0123456789abcdef"

// provider is one adapter and the server it is tested against.
type provider struct {
	name  string
	start func(provtest.Config) *provtest.Server
	model func(settings) (llm.Model, error)
}

// settings are what tests change.
type settings struct {
	url      string
	client   *http.Client
	idle     time.Duration
	maxBytes int64
	key      string
}

func providers() []provider {
	return []provider{
		{"openai", provtest.OpenAI, func(s settings) (llm.Model, error) {
			return openai.New(openai.Config{Model: "m-1", URL: s.url, Key: s.key, Client: s.client, Idle: s.idle, MaxBytes: s.maxBytes})
		}},
		{"anthropic", provtest.Anthropic, func(s settings) (llm.Model, error) {
			return anthropic.New(anthropic.Config{Model: "m-1", URL: s.url, Key: s.key, Client: s.client, Idle: s.idle, MaxBytes: s.maxBytes})
		}},
	}
}

// each runs a test for every provider.
func each(t *testing.T, test func(t *testing.T, p provider)) {
	t.Helper()
	t.Parallel()
	for _, p := range providers() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// serve starts a server and a model that speaks to it.
func (p provider) serve(t *testing.T, c provtest.Config, s settings) (*provtest.Server, llm.Model) {
	t.Helper()
	server := p.start(c)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s.url, s.client = server.URL, &http.Client{Transport: transport}
	if s.key == "" {
		s.key = key
	}
	model, err := p.model(s)
	if err != nil {
		t.Fatal(err)
	}
	return server, model
}

// answers is a model whose server gives one reply.
func (p provider) answers(t *testing.T, reply provtest.Reply) llm.Model {
	t.Helper()
	_, model := p.serve(t, provtest.Config{Replies: []provtest.Reply{reply}, Key: key}, settings{})
	return model
}

// hi is a request with one message.
func hi() llm.Request {
	return llm.Request{Messages: []session.Message{{ID: "1", Role: session.RoleUser, Content: session.Text("hi")}}}
}

// keep adds an answer to a session, as the loop does.
func keep(r llm.Response) error {
	s, err := session.New(session.Identity{ID: "s", AgentID: "0b9e7c3e-1d1f-4c56-9c1c-0f1a2b3c4d5e", Tenant: "t"}, session.Definition{Name: "d"}, session.Seed{}, time.Unix(1, 0))
	if err != nil {
		return err
	}
	_, err = s.With(time.Unix(2, 0), session.MessageAdded{Message: session.Message{
		ID: "m", Role: session.RoleAssistant, Content: r.Content, ToolCalls: r.ToolCalls,
	}})
	return err
}

// rich is a reply with everything in it, and full is what comes of it.
func rich() provtest.Reply {
	return provtest.Reply{
		Reasoning: []string{"Let me ", "think…"}, Signature: "seal",
		Text: []string{"Hel", "lo\n", "wörld 👋"},
		Calls: []provtest.Call{
			{ID: "call_a", Name: "weather", Arguments: []string{`{"ci`, `ty":"Os`, `lo"}`}},
			{ID: "call_b", Name: "clock"},
		},
		Model: "m-1-2026", Usage: provtest.Usage{Input: 100, Output: 50},
	}
}

func full(p provider) llm.Response {
	thought := session.Part{Type: session.PartReasoning, Text: "Let me think…"}
	if p.name == "anthropic" {
		thought.Signature = "seal"
	}
	return llm.Response{
		Content: session.Content{thought, {Type: session.PartText, Text: "Hello\nwörld 👋"}},
		ToolCalls: []session.ToolCall{
			{ID: "call_a", Name: "weather", Arguments: json.RawMessage(`{"city":"Oslo"}`)},
			{ID: "call_b", Name: "clock", Arguments: json.RawMessage(`{}`)},
		},
		FinishReason: "tool_calls", Model: p.name + "/m-1-2026", Usage: session.Usage{Input: 100, Output: 50},
	}
}

func TestInfer_oneAnswerHoweverItArrives(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		for name, change := range map[string]func(*provtest.Reply){
			"as it should":        func(*provtest.Reply) {},
			"byte by byte":        func(r *provtest.Reply) { r.Split = 1 },
			"seven bytes a time":  func(r *provtest.Reply) { r.Split = 7 },
			"lines end with crlf": func(r *provtest.Reply) { r.Newline = "\r\n" },
			"byte order mark":     func(r *provtest.Reply) { r.BOM = true },
			"keep-alive comments": func(r *provtest.Reply) { r.Comments = true },
			"no blank lines":      func(r *provtest.Reply) { r.Tight = true },
			"wrong content type":  func(r *provtest.Reply) { r.ContentType = "text/html" },
			"in one piece":        func(r *provtest.Reply) { r.Whole = true },
			"one piece, and bom":  func(r *provtest.Reply) { r.Whole, r.BOM = true, true },
			"one piece as stream": func(r *provtest.Reply) { r.Whole, r.ContentType = true, "text/event-stream" },
			"all at once":         func(r *provtest.Reply) { r.Newline, r.BOM, r.Comments, r.Split = "\r\n", true, true, 3 },
		} {
			reply := rich()
			change(&reply)
			got, err := p.answers(t, reply).Infer(t.Context(), hi(), nil)
			if err != nil || !reflect.DeepEqual(got, full(p)) {
				t.Errorf("%s: got %+v, %v\nwant %+v", name, got, err, full(p))
			}
		}
	})
}

func TestInfer_emitsThePieces(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		var thought, said strings.Builder
		var calls []string
		_, err := p.answers(t, rich()).Infer(t.Context(), hi(), func(d llm.Delta) {
			thought.WriteString(d.Reasoning)
			said.WriteString(d.Text)
			if c := d.ToolCall; c != nil {
				calls = append(calls, fmt.Sprintf("%s %s %s", c.ID, c.Name, c.Arguments))
			}
		})
		want := []string{"call_a weather ", "call_b clock ", `call_a weather {"city":"Oslo"}`, "call_b clock {}"}
		if err != nil || thought.String() != "Let me think…" || said.String() != "Hello\nwörld 👋" || !reflect.DeepEqual(calls, want) {
			t.Errorf("thought %q, said %q, called %q, %v", thought.String(), said.String(), calls, err)
		}
	})
}

func TestInfer_firstPieceDoesNotWaitForTheRest(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		begun := map[string]int{"openai": 2, "anthropic": 4}[p.name] // events up to the first word
		model := p.answers(t, provtest.Reply{Text: []string{"first", "second"}, HangEvents: begun})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var heard string
		_, err := model.Infer(ctx, hi(), func(d llm.Delta) {
			heard += d.Text
			cancel() // the server never says the rest
		})
		if heard != "first" || !errors.Is(err, context.Canceled) {
			t.Errorf("heard %q, %v", heard, err)
		}
	})
}

func TestInfer_connectionsAreUsedAgain(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		// The end of the stream comes a little after it said that it is over.
		server, model := p.serve(t, provtest.Config{Replies: []provtest.Reply{{Text: []string{"a"}, Linger: 3 * time.Millisecond}}}, settings{})
		n := 0
		for range 20 { // a busy machine may be late for a while
			before := server.Connections()
			for range 10 {
				if _, err := model.Infer(t.Context(), hi(), nil); err != nil {
					t.Fatal(err)
				}
			}
			if n = server.Connections() - before; n <= 5 {
				return
			}
		}
		t.Errorf("%d connections for 10 requests, however often", n)
	})
}

func TestInfer_finishReasonsAreTheContracts(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		for said, want := range map[string]map[string]string{
			"openai": {"stop": "stop", "length": "length", "content_filter": "content_filter", "": "stop"},
			"anthropic": {
				"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "refusal": "refusal", "pause_turn": "pause_turn",
				"model_context_window_exceeded": "length",
			},
		}[p.name] {
			got, err := p.answers(t, provtest.Reply{Text: []string{"a"}, Finish: said}).Infer(t.Context(), hi(), nil)
			if err != nil || got.FinishReason != want {
				t.Errorf("%q became %q, %v", said, got.FinishReason, err)
			}
		}
	})
}

func TestInfer_usageInTheSessionsWords(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		told := provtest.Usage{Input: 100, Output: 50, CacheRead: 30, CacheWrite: 20, Reasoning: 10}
		want := session.Usage{Input: 100, Output: 50, CacheRead: 30, CacheWrite: 20, Reasoning: 10}
		if p.name == "anthropic" { // its input leaves the cache out, and it does not tell thoughts apart
			want.Input, want.Reasoning = 150, 0
		}
		for _, whole := range []bool{true, false} {
			got, err := p.answers(t, provtest.Reply{Text: []string{"a"}, Usage: told, Whole: whole}).Infer(t.Context(), hi(), nil)
			if err != nil || got.Usage != want {
				t.Errorf("got %+v, %v, want %+v", got.Usage, err, want)
			}
		}
	})
}

func TestInfer_usageThatLiesIsNotTold(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		lies := map[string]string{
			"openai": `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":-5,` +
				`"completion_tokens":1e300,"prompt_tokens_details":{"cached_tokens":99},"completion_tokens_details":null}}`,
			"anthropic": `{"type":"message_start","message":{"content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":` +
				`{"input_tokens":-5,"output_tokens":1e300,"cache_read_input_tokens":"many","cache_creation_input_tokens":null}}}`,
		}
		got, err := p.answers(t, provtest.Reply{Events: []string{lies[p.name]}}).Infer(t.Context(), hi(), nil)
		if err != nil || got.Usage != (session.Usage{}) || got.Content.Text() != "a" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestInfer_malformedArgumentsDoNotLoseTheAnswer(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		for written, want := range map[string]string{
			`{"city": "Os`:          `{"malformed_arguments":"{\"city\": \"Os"}`,
			`[1]`:                   `{"malformed_arguments":"[1]"}`,
			`city=Oslo`:             `{"malformed_arguments":"city=Oslo"}`,
			`null`:                  `{}`,
			` `:                     `{}`,
			`"{\"city\":\"Oslo\"}"`: `{"city":"Oslo"}`,
		} {
			reply := provtest.Reply{Text: []string{"a"}, Calls: []provtest.Call{{ID: "c", Name: "weather", Arguments: []string{written}}}}
			got, err := p.answers(t, reply).Infer(t.Context(), hi(), nil)
			if err != nil || len(got.ToolCalls) != 1 || string(got.ToolCalls[0].Arguments) != want || got.Content.Text() != "a" {
				t.Errorf("%q: got %+v, %v", written, got, err)
				continue
			}
			// A session takes it: nothing that was paid for is refused there.
			if err := keep(got); err != nil {
				t.Errorf("%q: a session refuses the answer: %v", written, err)
			}
		}
	})
}

func TestInfer_emptyAnswerIsAnAnswer(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		got, err := p.answers(t, provtest.Reply{}).Infer(t.Context(), hi(), nil)
		if err != nil || len(got.Content) != 0 || got.FinishReason != "stop" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestInfer_brokenTextIsReplaced(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		events := map[string][]string{
			"openai": {"{\"choices\":[{\"delta\":{\"content\":\"a\xff\xc3b\"},\"finish_reason\":\"stop\"}]}"},
			"anthropic": {
				"{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\xff\xc3b\"}}",
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`,
			},
		}
		got, err := p.answers(t, provtest.Reply{Events: events[p.name]}).Infer(t.Context(), hi(), nil)
		if err != nil || got.Content.Text() != "a\ufffd\ufffdb" {
			t.Errorf("got %q, %v", got.Content.Text(), err)
		}
	})
}

func TestModels_listsWhatTheServerOffers(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		_, model := p.serve(t, provtest.Config{Models: []string{"b", "a"}, Key: key}, settings{})
		lister, ok := model.(interface {
			Models(context.Context) ([]string, error)
		})
		if !ok {
			t.Fatal("it lists no models")
		}
		got, err := lister.Models(t.Context())
		if err != nil || !reflect.DeepEqual(got, []string{"a", "b"}) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

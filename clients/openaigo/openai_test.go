// Package openaigo has the stories of OpenAI's client for Go against the real
// program. ../openai-go.test.js starts the program and the model, and runs them.
package openaigo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

const model = "script/model"

func newClient(t *testing.T, opts ...option.RequestOption) openai.Client {
	t.Helper()
	url, key := os.Getenv("HOLDFAST_CLIENT_URL"), os.Getenv("HOLDFAST_CLIENT_KEY")
	if url == "" || key == "" {
		t.Fatal("there is no server: run the stories with make clients-test")
	}
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(url), option.WithAPIKey(key), option.WithMaxRetries(0)}, opts...)...)
}

// control asks whoever started the server to do something: restart kills the
// server and starts it again, go-on lets a model go on that waits in the middle of
// its answer, asked counts the requests to the model.
func control(t *testing.T, what string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, os.Getenv("HOLDFAST_CLIENT_CONTROL")+"/"+what, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", what, response.StatusCode, text, err)
	}
	return string(text)
}

// asked is how many requests the model has got.
func asked(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(control(t, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ask(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

func create(t *testing.T, client openai.Client, params responses.ResponseNewParams) *responses.Response {
	t.Helper()
	r, err := client.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func checkText(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the answer is %q, want %q", got, want)
	}
}

// seen is what a reader has got of a stream.
type seen struct {
	id, text string
	last     int64
	ended    bool
}

// read reads a stream to its end, or until a text has come.
func (s *seen) read(stream *ssestream.Stream[responses.ResponseStreamEventUnion], until string) error {
	for stream.Next() {
		e := stream.Current()
		s.last = e.SequenceNumber
		switch e.Type {
		case "response.created":
			s.id = e.Response.ID
		case "response.output_text.delta":
			s.text += e.Delta
		case "response.completed":
			s.ended = true
		}
		if until != "" && strings.Contains(s.text, until) {
			return nil
		}
	}
	return stream.Err()
}

func TestResponses_continueForkAndStream(t *testing.T) {
	client := newClient(t)
	first := create(t, client, ask("hello"))
	checkText(t, first.OutputText(), "heard hello of 1")
	more := ask("more")
	more.PreviousResponseID = openai.String(first.ID)
	checkText(t, create(t, client, more).OutputText(), "heard more of 2")
	other := ask("else") // the first is not the last any more: a fork
	other.PreviousResponseID = openai.String(first.ID)
	checkText(t, create(t, client, other).OutputText(), "heard else of 2")
	again, err := client.Responses.Get(t.Context(), first.ID, responses.ResponseGetParams{})
	if err != nil {
		t.Fatal(err)
	}
	checkText(t, again.OutputText(), "heard hello of 1")

	var s seen
	if err := s.read(client.Responses.NewStreaming(t.Context(), ask("hello")), ""); err != nil || !s.ended {
		t.Fatalf("the stream ends with %v: %+v", err, s)
	}
	checkText(t, s.text, "heard hello of 1")
}

func TestResponses_aFunctionOfTheClient(t *testing.T) {
	client := newClient(t)
	question := ask("weather?")
	question.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", map[string]any{"type": "object"}, false)}
	first := create(t, client, question)
	if len(first.Output) != 1 || first.Output[0].Type != "function_call" {
		t.Fatalf("the output is %s", first.RawJSON())
	}
	call := first.Output[0].AsFunctionCall()
	if call.Name != "get_weather" || !strings.Contains(call.Arguments, "Bern") {
		t.Errorf("the call is %s", call.RawJSON())
	}
	result := responses.ResponseInputItemParamOfFunctionCallOutput("sunny")
	result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
	question.PreviousResponseID = openai.String(first.ID)
	question.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{result}}
	checkText(t, create(t, client, question).OutputText(), "the tool says sunny")
}

func TestResponses_inTheBackground(t *testing.T) {
	client := newClient(t)
	quick := ask("quick")
	quick.Background = openai.Bool(true)
	r := create(t, client, quick)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for r.Status != responses.ResponseStatusCompleted {
		var err error
		if r, err = client.Responses.Get(ctx, r.ID, responses.ResponseGetParams{}); err != nil {
			t.Fatal(err)
		}
		if r.Status == responses.ResponseStatusFailed {
			t.Fatal(r.RawJSON())
		}
		time.Sleep(20 * time.Millisecond) // between two questions
	}
	checkText(t, r.OutputText(), "heard quick of 1")
	slow := ask("slow")
	slow.Background = openai.Bool(true)
	cancelled, err := client.Responses.Cancel(t.Context(), create(t, client, slow).ID)
	if err != nil || cancelled.Status != responses.ResponseStatusCancelled {
		t.Errorf("the response is %v, %v", cancelled, err)
	}
}

func TestResponses_areRefusedByName(t *testing.T) {
	choose := ask("x")
	choose.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffortLow}
	for _, c := range []struct {
		client openai.Client
		params responses.ResponseNewParams
		status int
		param  string
	}{
		{newClient(t), choose, 400, "reasoning"},
		{newClient(t, option.WithAPIKey("hf_wrong")), ask("x"), 401, ""},
	} {
		_, err := c.client.Responses.New(t.Context(), c.params)
		var refused *openai.Error
		if !errors.As(err, &refused) || refused.StatusCode != c.status || refused.Param != c.param {
			t.Errorf("the error is %v, want %d about %q", err, c.status, c.param)
		}
	}
}

func TestChatCompletions(t *testing.T) {
	client := newClient(t)
	said := []openai.ChatCompletionMessageParamUnion{openai.UserMessage("first of go")}
	ids := []string{}
	for _, want := range []string{"heard first of go of 1", "heard second of go of 2"} {
		c, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: model, Messages: said})
		if err != nil {
			t.Fatal(err)
		}
		checkText(t, c.Choices[0].Message.Content, want)
		session, _, _ := strings.Cut(c.ID, "_")
		ids = append(ids, session)
		said = append(said, c.Choices[0].Message.ToParam(), openai.UserMessage("second of go"))
	}
	if ids[0] != ids[1] {
		t.Errorf("a history that is resent goes on in another session: %v", ids)
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: model, Messages: said[:1]})
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		whole.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	checkText(t, whole.Choices[0].Message.Content, "heard first of go of 1")
}

// A server that is killed in the middle of an answer loses and repeats nothing.
func TestResponses_goOnAfterAKill(t *testing.T) {
	client := newClient(t)
	before := asked(t)
	var s seen
	stream := client.Responses.NewStreaming(t.Context(), ask("slow"))
	if err := s.read(stream, "two"); err != nil {
		t.Fatal(err)
	}
	control(t, "restart")
	if err := s.read(stream, ""); err == nil || s.ended {
		t.Fatalf("the stream of a server that was killed ends with %v: %+v", err, s)
	}
	resumed := client.Responses.GetStreaming(t.Context(), s.id, responses.ResponseGetParams{StartingAfter: openai.Int(s.last)})
	control(t, "go-on")
	if err := s.read(resumed, ""); err != nil || !s.ended {
		t.Fatalf("what is resumed ends with %v: %+v", err, s)
	}
	checkText(t, s.text, "one two three")
	if n := asked(t) - before; n != 2 {
		t.Errorf("the model was asked %d times instead of 2", n)
	}
	next := ask("next")
	next.PreviousResponseID = openai.String(s.id)
	checkText(t, create(t, client, next).OutputText(), "heard next of 2")
}

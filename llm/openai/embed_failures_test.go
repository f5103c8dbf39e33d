package openai_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/openai"
)

func TestEmbed_refusesAnswersThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	one := `{"index":0,"embedding":[1,2]}`
	for name, c := range map[string]struct {
		body  string
		again bool // a TransientError
	}{
		"too few":               {`{"data":[` + one + `]}`, false},
		"too many":              {`{"data":[` + one + `,{"index":1,"embedding":[1,2]},{"index":2,"embedding":[1,2]}]}`, false},
		"none":                  {`{}`, false},
		"one twice":             {`{"data":[` + one + `,` + one + `]}`, false},
		"an index too high":     {`{"data":[` + one + `,{"index":2,"embedding":[1,2]}]}`, false},
		"a negative index":      {`{"data":[` + one + `,{"index":-1,"embedding":[1,2]}]}`, false},
		"two dimensions":        {`{"data":[` + one + `,{"index":1,"embedding":[1,2,3]}]}`, false},
		"no dimensions":         {`{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`, false},
		"null":                  {`{"data":[` + one + `,{"index":1,"embedding":null}]}`, false},
		"not numbers":           {`{"data":[` + one + `,{"index":1,"embedding":["a","b"]}]}`, false},
		"too large a number":    {`{"data":[` + one + `,{"index":1,"embedding":[1,1e39]}]}`, false},
		"NaN in base64":         {`{"data":[` + one + `,{"index":1,"embedding":"` + encoded(1, float32(math.NaN())) + `"}]}`, false},
		"infinity in base64":    {`{"data":[` + one + `,{"index":1,"embedding":"` + encoded(1, float32(math.Inf(1))) + `"}]}`, false},
		"base64 cut off":        {`{"data":[` + one + `,{"index":1,"embedding":"AACAPwA="}]}`, false},
		"no base64":             {`{"data":[` + one + `,{"index":1,"embedding":"%%%"}]}`, false},
		"a web page":            {`<html><title>Welcome</title></html>`, false},
		"NaN":                   {`{"data":[` + one + `,{"index":1,"embedding":[1,NaN]}]}`, true},
		"broken off":            {`{"data":[` + one + `,{"index":1,"emb`, true},
		"nothing":               {``, true},
		"an error as an answer": {`{"error":{"message":"overloaded","type":"server_error"}}`, true},
	} {
		_, e := embedder(t, openai.EmbedderConfig{}, says(200, c.body))
		got, err := e.Embed(t.Context(), []string{"a", "b"})
		var transient *llm.TransientError
		var refused *llm.ProviderError
		if got != nil || !errors.As(err, &refused) || errors.As(err, &transient) != c.again {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestEmbed_allAnswersHaveOneDimension(t *testing.T) {
	t.Parallel()
	grows := func(first, then string) func(http.ResponseWriter, embedRequest) {
		var mu sync.Mutex
		return func(w http.ResponseWriter, r embedRequest) {
			mu.Lock()
			defer mu.Unlock()
			says(200, `{"data":[{"index":0,"embedding":[`+first+`]}]}`)(w, r)
			first = then
		}
	}
	_, e := embedder(t, openai.EmbedderConfig{}, grows("1,2", "1,2,3"))
	if _, err := e.Embed(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if got, err := e.Embed(t.Context(), []string{"a"}); err == nil {
		t.Errorf("another dimension than before: got %v", got)
	}
	server, e := embedder(t, openai.EmbedderConfig{Dimensions: 3}, grows("1,2", "1,2,3"))
	if got, err := e.Embed(t.Context(), []string{"a"}); err == nil || server.received()[0].Dimensions != 3 {
		t.Errorf("another dimension than asked for: got %v, asked for %+v", got, server.received()[0])
	}
	if got, err := e.Embed(t.Context(), []string{"a"}); err != nil || len(got[0]) != 3 {
		t.Errorf("got %v, %v", got, err)
	}
	// An answer that is no good decides nothing.
	_, e = embedder(t, openai.EmbedderConfig{}, grows("", "1,2,3"))
	if got, err := e.Embed(t.Context(), []string{"a"}); err == nil {
		t.Errorf("no dimensions: got %v", got)
	}
	if got, err := e.Embed(t.Context(), []string{"a"}); err != nil || len(got[0]) != 3 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestEmbed_tellsFailuresThatMayPassFromOthers(t *testing.T) {
	t.Parallel()
	busy := func(w http.ResponseWriter, r embedRequest) {
		w.Header().Set("Retry-After", "7")
		says(429, `{"error":{"message":"Rate limit reached","type":"rate_limit_error"}}`)(w, r)
	}
	broken := func(w http.ResponseWriter, _ embedRequest) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"data":[{"index":0,`)
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, embedRequest)
		again  bool
		after  time.Duration
	}{
		"busy":        {busy, true, 7 * time.Second},
		"server":      {says(503, ""), true, 0},
		"connection":  {broken, true, 0},
		"no money":    {says(429, `{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}`), false, 0},
		"bad key":     {says(401, `{"error":{"message":"Incorrect API key provided: sk-123456789","code":"invalid_api_key"}}`), false, 0},
		"no model":    {says(404, `{"error":{"message":"The model does not exist"}}`), false, 0},
		"bad request": {says(400, `{"error":{"message":"'dimensions' is unsupported by this model"}}`), false, 0},
	} {
		server, e := embedder(t, openai.EmbedderConfig{Key: "sk-123456789", Provider: "acme"}, c.answer)
		got, err := e.Embed(t.Context(), []string{"a"})
		var transient *llm.TransientError
		var refused *llm.ProviderError
		if got != nil || !errors.As(err, &refused) || refused.Provider != "acme" || errors.As(err, &transient) != c.again {
			t.Errorf("%s: got %v, %v", name, got, err)
			continue
		}
		if transient != nil && transient.After != c.after {
			t.Errorf("%s: wait for %v, want %v", name, transient.After, c.after)
		}
		if strings.Contains(err.Error(), "sk-123456789") {
			t.Errorf("%s: the key is in %q", name, err)
		}
		if n := len(server.received()); n != 1 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}

func TestEmbed_endsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	hold := make(chan struct{})
	_, e := embedder(t, openai.EmbedderConfig{}, func(http.ResponseWriter, embedRequest) {
		cancel()
		<-hold
	})
	got, err := e.Embed(ctx, []string{"a"})
	close(hold)
	if got != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", got, err)
	}
}

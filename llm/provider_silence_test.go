package llm_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/llm"
)

// recording keeps the body of the last answer.
type recording struct {
	http.RoundTripper
	body []byte
}

func (r *recording) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	r.body, err = io.ReadAll(answer.Body)
	_ = answer.Body.Close() // it was read
	answer.Body = io.NopCloser(bytes.NewReader(r.body))
	return answer, err
}

// recorded returns the events of a reply as its server sends them.
func (p provider) recorded(t *testing.T, reply provtest.Reply) []string {
	t.Helper()
	server := p.start(provtest.Config{Replies: []provtest.Reply{reply}})
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	kept := &recording{RoundTripper: transport}
	model, err := p.model(settings{url: server.URL, key: key, client: &http.Client{Transport: kept}})
	if err == nil {
		_, err = model.Infer(t.Context(), hi(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(string(kept.body), "\n\n"), "\n\n")
}

// replayed answers with recorded events, each after a pause. It has no network,
// so that its time can be that of a bubble.
type replayed struct {
	events []string
	pause  time.Duration
	silent bool // after the last event, until the client goes
}

func (r replayed) RoundTrip(request *http.Request) (*http.Response, error) {
	body, server := io.Pipe()
	ctx := request.Context()
	context.AfterFunc(ctx, func() { _ = server.CloseWithError(ctx.Err()) }) // as a connection does
	go func() {
		for _, event := range r.events {
			select {
			case <-time.After(r.pause):
			case <-ctx.Done():
				return
			}
			if _, err := io.WriteString(server, strings.TrimSuffix(event, "\n\n")+"\n\n"); err != nil {
				return
			}
		}
		if !r.silent {
			_ = server.Close()
		}
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: request}, nil
}

// model speaks to the recording.
func (r replayed) model(t *testing.T, p provider, idle time.Duration) llm.Model {
	t.Helper()
	model, err := p.model(settings{url: "http://recorded.test", key: key, client: &http.Client{Transport: r}, idle: idle})
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// A server that never closes, or breaks after the last word, has answered.
func TestInfer_anAnswerIsOneBeforeTheStreamEnds(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		last := map[string]int{"openai": 3, "anthropic": 6}[p.name] // events up to the reason to end
		events := p.recorded(t, provtest.Reply{Text: []string{"all of it"}, Finish: map[string]string{"openai": "length", "anthropic": "max_tokens"}[p.name]})
		if len(events) <= last {
			t.Fatalf("only %d events: %q", len(events), events)
		}
		for sent := last; sent <= len(events); sent++ {
			synctest.Test(t, func(t *testing.T) {
				model := replayed{events: events[:sent], silent: true}.model(t, p, time.Minute)
				if got, err := model.Infer(t.Context(), hi(), nil); err != nil || got.Content.Text() != "all of it" || got.FinishReason != "length" {
					t.Errorf("silent after %d events: got %+v, %v", sent, got, err)
				}
			})
		}
	})
}

func TestInfer_slowIsNotIdle(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		// Longer in all than the longest silence, but never silent that long.
		events := p.recorded(t, provtest.Reply{Text: strings.Split(strings.Repeat("a ", 12), " ")})
		synctest.Test(t, func(t *testing.T) {
			model := replayed{events: events, pause: 900 * time.Millisecond}.model(t, p, time.Second)
			if got, err := model.Infer(t.Context(), hi(), nil); err != nil || got.Content.Text() != strings.Repeat("a", 12) {
				t.Errorf("got %q, %v", got.Content.Text(), err)
			}
			late := replayed{events: events, pause: 1100 * time.Millisecond}.model(t, p, time.Second)
			if got, err := late.Infer(t.Context(), hi(), nil); err == nil {
				t.Errorf("silent for too long: got %q", got.Content.Text())
			}
		})
	})
}

package holdfast_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// loopback is a provider on this machine that thinks for a moment and then
// streams two words. It knows when the first of them left.
type loopback struct {
	began time.Time
	sent  atomic.Int64 // since began
}

func (p *loopback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	_ = out.Flush()              // who has left misses nothing
	time.Sleep(time.Millisecond) // the client waits for the first word, not for the headers
	for i, choice := range []string{
		`{"index":0,"delta":{"role":"assistant","content":"Hello"}}`, `{"index":0,"delta":{"content":" there"}}`,
		`{"index":0,"delta":{},"finish_reason":"stop"}`,
	} {
		if i == 0 {
			p.sent.Store(int64(time.Since(p.began)))
		}
		fmt.Fprintf(w, `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[%s]}`+"\n\n", choice)
		_ = out.Flush()
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// late is how long ago the first word left.
func (p *loopback) late() time.Duration { return time.Since(p.began) - time.Duration(p.sent.Load()) }

// raw reads the stream with nothing but an HTTP client.
func (p *loopback) raw(ctx context.Context, client *http.Client, url string) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() {
		return 0, lines.Err()
	}
	late := p.late()
	_, err = io.Copy(io.Discard, response.Body)
	return late, err
}

// first runs a turn and says when its first word arrived with the one who
// executes it and with one who follows, 0 where that one saw the record only.
func (p *loopback) first(ctx context.Context, rt *holdfast.Runtime, id string, after int64) (streamed, followed time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := make(chan time.Duration, 1)
	go func() {
		defer close(heard)
		for u, err := range rt.Follow(ctx, id, after) {
			switch {
			case err != nil:
				return
			case u.Delta != nil:
				heard <- p.late()
				return
			}
			if _, over := u.Record.Change.(session.InferenceAnswered); over {
				return
			}
		}
	}()
	_, err = rt.Execute(ctx, id, holdfast.SendMessage{Text: "hi"}, holdfast.Stream(func(llm.Delta) {
		if streamed == 0 {
			streamed = p.late()
		}
	}))
	if err != nil {
		cancel()
	}
	return streamed, <-heard, err
}

// From the moment a provider's first word leaves it to the moment somebody has
// it: a plain HTTP client, the one who executes the turn, and one who follows
// the session, one after another. Own is what lies between the first two.
func BenchmarkStream_firstWord(b *testing.B) {
	p := &loopback{began: time.Now()}
	server := httptest.NewServer(p)
	defer server.Close()
	client := server.Client()
	model, err := openai.New(openai.Config{URL: server.URL, Model: "m", Key: "none", Client: client})
	if err != nil {
		b.Fatal(err)
	}
	st, err := sqlite.Open(b.Context(), b.TempDir()+"/sessions.db", sqlite.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": model}, DefaultModel: "demo"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = rt.Close() }()
	s, err := rt.Create(b.Context(), session.Definition{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	var raw, streamed, followed []time.Duration
	for b.Loop() {
		plain, err := p.raw(b.Context(), client, server.URL+"/chat/completions")
		if err != nil {
			b.Fatal(err)
		}
		own, other, err := p.first(b.Context(), rt, s.ID(), s.Info().Seq)
		if err == nil {
			s, err = rt.Execute(b.Context(), s.ID(), holdfast.ClearSession{}) // so that every turn is the first
		}
		if err != nil {
			b.Fatal(err)
		}
		raw, streamed = append(raw, plain), append(streamed, own)
		if other > 0 {
			followed = append(followed, other)
		}
	}
	middle := func(all []time.Duration) float64 {
		if len(all) == 0 {
			return 0
		}
		slices.Sort(all)
		return float64(all[len(all)/2]) / float64(time.Microsecond)
	}
	b.ReportMetric(middle(raw), "raw-µs")
	b.ReportMetric(middle(streamed), "streamed-µs")
	b.ReportMetric(middle(followed), "followed-µs")
	b.ReportMetric(middle(streamed)-middle(raw), "own-µs")
	b.ReportMetric(middle(streamed)/middle(raw), "ratio")
}

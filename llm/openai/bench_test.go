package openai_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/openai"
)

// How much later the first word arrives than at a client that does nothing
// but read: the two take turns on one server.
func BenchmarkFirstWord(b *testing.B) {
	server := provtest.OpenAI(provtest.Config{Replies: []provtest.Reply{{Text: []string{"first"}, Usage: provtest.Usage{Input: 1}}}})
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	model, err := openai.New(openai.Config{Model: "m", URL: server.URL, Client: client})
	if err != nil {
		b.Fatal(err)
	}
	body := `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`
	var ours, raw []float64
	for b.Loop() {
		began := time.Now()
		if _, err := model.Infer(b.Context(), hi(), func(d llm.Delta) {
			if d.Text != "" {
				ours = append(ours, float64(time.Since(began)))
			}
		}); err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		raw = append(raw, float64(firstWord(b, client, server.URL, body).Sub(began)))
	}
	b.ReportMetric(median(ours)/median(raw), "of-raw")
	b.ReportMetric(median(ours)/1e3, "µs-first-word")
}

// firstWord asks as plainly as can be and is when the first word was there.
func firstWord(b *testing.B, client *http.Client, url, body string) time.Time {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var read []byte
	piece := make([]byte, 4096)
	for !bytes.Contains(read, []byte("first")) {
		n, err := response.Body.Read(piece)
		read = append(read, piece[:n]...)
		if err != nil && n == 0 {
			b.Fatal(err)
		}
	}
	at := time.Now()
	if _, err := io.Copy(io.Discard, response.Body); err != nil { // so that the connection is used again
		b.Fatal(err)
	}
	return at
}

func median(times []float64) float64 {
	slices.Sort(times)
	return times[len(times)/2]
}

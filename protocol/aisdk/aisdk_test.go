package aisdk_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// agents has one agent.
type agents struct{}

func (agents) Names() []string { return []string{"helper"} }
func (agents) Get(name string) (session.Definition, error) {
	if name != "helper" {
		return session.Definition{}, &session.NotFoundError{What: "agent", ID: name}
	}
	return session.Definition{Name: "helper", Model: "m"}, nil
}

// failing fails once in the middle of each answer.
type failing struct{ asked atomic.Int32 }

func (m *failing) Infer(_ context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if m.asked.Add(1)%2 == 1 {
		emit(llm.Delta{Text: "void words"})
		return llm.Response{}, &llm.TransientError{Err: errors.New("it broke")}
	}
	emit(llm.Delta{Text: "valid words"})
	return llm.Response{Content: session.Text("valid words"), FinishReason: "stop"}, nil
}

func TestStream(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"m": &failing{}}, DefaultModel: "m", Backoff: func(int) time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	keys := apikey.New(rt, nil)
	s, err := server.New(server.Config{Runtime: rt, Keys: keys, Agents: agents{}})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() { s.Close(); h.Close() })
	key := func(tenant string, scopes ...apikey.Scope) string {
		_, secret, err := keys.Create(t.Context(), apikey.Key{Tenant: tenant, Scopes: scopes}, "test")
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	do := func(method, path, key, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+key)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		var b bytes.Buffer
		if _, err := b.ReadFrom(response.Body); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, b.String()
	}
	own := key("default", apikey.Read, apikey.Write)
	message := func(chat, id string) string {
		return `{"id":"` + chat + `","trigger":"submit-message","messages":[{"id":"` + id + `","role":"user","parts":[{"type":"text","text":"go"}]}]}`
	}

	// What was streamed of an attempt that failed is taken back where the client
	// knows how; older ones get its end, and no chunk that they refuse.
	for _, version := range []string{"5", "7"} {
		status, body := do("POST", "/aisdk/helper?ai="+version, own, message("chat-"+version, "m1"))
		if status != 200 || !strings.Contains(body, `"delta":"valid words"`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Fatalf("%d %s", status, body)
		}
		if version == "5" && strings.Contains(body, "reset-step") {
			t.Errorf("version 5 gets a chunk that it refuses: %s", body)
		}
		if starts, ends := strings.Count(body, "text-start"), strings.Count(body, "text-end"); starts != ends {
			t.Errorf("version %s: %d texts begin and %d end", version, starts, ends)
		}
	}
	// The same message again is not sent again: its turn is shown.
	if status, body := do("POST", "/aisdk/helper", own, message("chat-5", "m1")); status != 200 || strings.Contains(body, "void") || strings.Count(body, "valid words") != 1 {
		t.Errorf("the same message again: %d %s", status, body)
	}
	reader, other := key("default", apikey.Read), key("other", apikey.Read, apikey.Write)
	for _, c := range []struct {
		method, path, key, body string
		status                  int
	}{
		{"POST", "/aisdk/helper", "wrong", message("x", "m"), 401},
		{"POST", "/aisdk/helper", reader, message("x", "m"), 403},
		{"POST", "/aisdk/nobody", own, message("x", "m"), 404},
		{"GET", "/aisdk/helper/chat-5/stream", other, "", 404},
		{"GET", "/aisdk/helper/chat-5/stream", own, "", 204},
		{"POST", "/aisdk/helper", own, `{"id":"x","messages":[],"temperature":1}`, 422},
		{"POST", "/aisdk/helper?ai=8", own, message("x", "m"), 422},
	} {
		if status, body := do(c.method, c.path, c.key, c.body); status != c.status || strings.Contains(body, "valid words") || strings.HasPrefix(body, "{") {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
		}
	}
}

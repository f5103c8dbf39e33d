// Package protocoltest runs a server for the tests of protocols.
package protocoltest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
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
	"github.com/holdfast-dev/holdfast/tool"
)

// Agents are definitions by name.
type Agents map[string]session.Definition

// Names are sorted.
func (a Agents) Names() []string { return slices.Sorted(maps.Keys(a)) }

// Get returns a definition.
func (a Agents) Get(name string) (session.Definition, error) {
	if def, ok := a[name]; ok {
		return def, nil
	}
	return session.Definition{}, &session.NotFoundError{What: "agent", ID: name}
}

// Site is a server under test.
type Site struct {
	t    testing.TB
	keys *apikey.Keys
	URL  string
}

// Start starts a server with a model that is called m, and the agent helper,
// which has all tools. More adds agents, or changes that one.
func Start(t testing.TB, model llm.Model, more Agents, tools ...tool.Tool) *Site {
	t.Helper()
	agents := Agents{"helper": {Name: "helper", Model: "m"}}
	maps.Copy(agents, more)
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	rt, err := holdfast.New(holdfast.Config{
		Store: st, Models: llm.Map{"m": model}, DefaultModel: "m", Tools: set, Definitions: agents, Backoff: func(int) time.Duration { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	s := &Site{t: t, keys: apikey.New(rt, nil)}
	handler, err := server.New(server.Config{Runtime: rt, Keys: s.keys, Agents: agents, Models: func() []string { return []string{"m"} }})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(handler)
	t.Cleanup(func() { handler.Close(); h.Close() })
	s.URL = h.URL
	return s
}

// Key makes a key.
func (s *Site) Key(tenant string, scopes ...apikey.Scope) string {
	s.t.Helper()
	_, secret, err := s.keys.Create(s.t.Context(), apikey.Key{Tenant: tenant, Scopes: scopes}, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// Do sends a request and returns the status and the body. See gets each line of
// the body when it comes.
func (s *Site) Do(method, path, key, body string, see ...func(line string)) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var b strings.Builder
	for in := bufio.NewReader(response.Body); ; {
		line, err := in.ReadString('\n')
		b.WriteString(line)
		for _, f := range see {
			f(line)
		}
		if errors.Is(err, io.EOF) {
			return response.StatusCode, b.String()
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// FailingModel fails once in the middle of each answer: it says "void words", and
// then "valid words".
type FailingModel struct{ asked atomic.Int32 }

// Infer answers.
func (m *FailingModel) Infer(_ context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if m.asked.Add(1)%2 == 1 {
		emit(llm.Delta{Text: "void words"})
		return llm.Response{}, &llm.TransientError{Err: errors.New("it broke")}
	}
	emit(llm.Delta{Text: "valid words"})
	return llm.Response{Content: session.Text("valid words"), FinishReason: "stop"}, nil
}

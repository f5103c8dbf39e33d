//go:build unix

package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool/mcp"
)

// spoken is the server as an HTTP handler. What clients leave open ends with
// the test.
func spoken(t *testing.T) http.Handler {
	server := newServer()
	t.Cleanup(func() {
		for open := range server.Sessions() {
			_ = open.Close()
		}
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
}

// service is a server over HTTP; before sees every request.
func service(t *testing.T, before func(*http.Request)) session.MCPServer {
	t.Helper()
	handler := spoken(t)
	return served(t, func(w http.ResponseWriter, r *http.Request) {
		before(r)
		handler.ServeHTTP(w, r)
	})
}

func served(t *testing.T, answer http.HandlerFunc) session.MCPServer {
	t.Helper()
	web := httptest.NewServer(answer)
	t.Cleanup(web.Close)
	return session.MCPServer{ID: "test", URL: web.URL + "/mcp"}
}

func TestService_toolsAreUsable(t *testing.T) {
	t.Parallel()
	var keys, requests atomic.Int64
	server := service(t, func(r *http.Request) {
		requests.Add(1)
		if r.Header.Get("Authorization") == "Bearer sesame-0123456789" {
			keys.Add(1)
		}
	})
	server.Headers = map[string]string{"authorization": "Bearer ${THE_KEY}"}
	c := quick()
	c.LookupEnv = func(string) (string, bool) { return "sesame-0123456789", true }
	usable(t, connect(t, c, server))
	if keys.Load() == 0 || keys.Load() != requests.Load() {
		t.Errorf("%d of %d requests had the key", keys.Load(), requests.Load())
	}
}

func TestService_aForgottenSessionIsMadeAgain(t *testing.T) {
	t.Parallel()
	var current atomic.Pointer[http.Handler]
	restart := func() {
		// Servers of before the stateless protocol know a session by its id.
		next := spoken(t)
		current.Store(&next)
	}
	restart()
	var sessions atomic.Int64
	s := connect(t, quick(), served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
			http.Error(w, "too new for this server", http.StatusBadRequest)
			return
		}
		if r.Header.Get("Mcp-Session-Id") != "" {
			sessions.Add(1)
		}
		(*current.Load()).ServeHTTP(w, r)
	}))
	for range 2 {
		if got := must(t, s, "test__echo", map[string]any{"text": "hi"}); got.Content != "hi" {
			t.Errorf("got %+v", got)
		}
		restart()
	}
	if sessions.Load() == 0 {
		t.Error("no request had a session: the test shows nothing")
	}
}

func TestService_headersStayWithTheirServer(t *testing.T) {
	t.Parallel()
	var leaked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked.Add(1)
		if r.Header.Get("X-Key") != "" {
			t.Errorf("the key went elsewhere")
		}
	}))
	t.Cleanup(elsewhere.Close)
	server := served(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	server.Headers = map[string]string{"X-Key": "${THE_KEY}"}
	c := quick()
	c.LookupEnv = func(string) (string, bool) { return "sesame-0123456789", true }
	if _, err := mcp.Connect(t.Context(), c, server); err == nil || !strings.Contains(err.Error(), "not followed, because the headers may hold credentials") {
		t.Errorf("got %v", err)
	}
	if leaked.Load() != 0 {
		t.Errorf("%d requests went elsewhere", leaked.Load())
	}
}

func TestService_badAnswersAreErrors(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"no protocol": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>It works!</html>") },
		"not json": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "}{")
		},
		"refused": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"broken":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"silent": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not seen
			<-r.Context().Done()
		},
		"too long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			piece := []byte(`"` + strings.Repeat("x", 1<<20))
			for range 40 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
			t.Error("40 MiB were read")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := quick()
			c.StartTimeout = 20 * time.Second
			if name == "silent" {
				c.StartTimeout = 300 * time.Millisecond
			}
			if s, err := mcp.Connect(t.Context(), c, served(t, answer)); err == nil {
				_ = s.Close()
				t.Error("connected")
			}
		})
	}
	for _, bad := range []string{"ftp://x", "//x", "http://", "x"} {
		if _, err := mcp.Connect(t.Context(), quick(), session.MCPServer{ID: "x", URL: bad}); err == nil || !strings.Contains(err.Error(), "not an http or https URL") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestService_secretsInAddressesAreNotTold(t *testing.T) {
	t.Parallel()
	c := quick()
	c.LookupEnv = func(string) (string, bool) { return "sesame 0123456789", true }
	_, err := mcp.Connect(t.Context(), c, session.MCPServer{ID: "x", URL: "http://127.0.0.1:1/?key=${THE_KEY}"})
	if err == nil || strings.Contains(err.Error(), "0123456789") {
		t.Errorf("got %v", err)
	}
}

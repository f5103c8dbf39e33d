package client_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
)

// changed serves a node's answers as another version of the program would give
// them.
func (n *node) changed(t *testing.T, request func(*http.Request), answer func([]byte) []byte) *client.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request(r)
		if strings.HasSuffix(r.URL.Path, "/events") {
			n.api.ServeHTTP(&rewriting{w, answer}, r)
			return
		}
		made := httptest.NewRecorder()
		n.api.ServeHTTP(made, r)
		for name, values := range made.Header() {
			w.Header()[name] = values
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(made.Code)
		_, _ = w.Write(answer(made.Body.Bytes())) // a reader that went away needs none
	}))
	t.Cleanup(s.Close)
	c, err := client.New(client.Config{URL: s.URL, Key: n.key, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rewriting changes every piece of an answer that is written.
type rewriting struct {
	http.ResponseWriter
	change func([]byte) []byte
}

func (w *rewriting) Write(data []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(w.change(data)); err != nil {
		return 0, err
	}
	return len(data), nil
}

func (w *rewriting) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func asItIs(data []byte) []byte { return data }

// A server of another version is never misunderstood: what it lacks is a missing
// route, and what this program cannot read a newer format.
func TestClient_serverOfAnotherVersion(t *testing.T) {
	t.Parallel()
	n := newNode(t, llm.Map{offline.Name: offline.Model{}})
	made := create(t, n.client(t))
	ctx := t.Context()

	older := n.changed(t, func(r *http.Request) { r.URL.Path = strings.Replace(r.URL.Path, "/v1/", "/v0/", 1) }, asItIs)
	var told *problem.Problem
	if _, err := older.Get(ctx, made.ID); !errors.As(err, &told) || told.Code != problem.CodeNoRoute || errors.Is(err, session.ErrNotFound) {
		t.Errorf("a route that an older server lacks: %v", err)
	}

	newer := n.changed(t, func(*http.Request) {}, func(data []byte) []byte {
		data = bytes.ReplaceAll(data, []byte(`"formatVersion":1`), []byte(`"formatVersion":9`))
		return bytes.ReplaceAll(data, []byte(`"session_created"`), []byte(`"session_hatched"`))
	})
	var format *session.NewerFormatError
	if _, err := newer.Get(ctx, made.ID); !errors.As(err, &format) || format.Have != "9" {
		t.Errorf("a document of a newer server: %v", err)
	}
	for _, err := range newer.Log(ctx, made.ID, 0) {
		if !errors.As(err, &format) || !strings.Contains(err.Error(), "session_hatched") {
			t.Errorf("a change that only a newer server knows: %v", err)
		}
		break
	}
	for _, err := range newer.Follow(ctx, made.ID, 0) {
		if !errors.As(err, &format) {
			t.Errorf("the same change as an event: %v", err)
		}
		break
	}

	chatty := n.changed(t, func(*http.Request) {}, func(data []byte) []byte {
		return bytes.ReplaceAll(data, []byte(`"status":"active"`), []byte(`"mood":{"of":["a newer server"]},"status":"active"`))
	})
	var answer *client.AnswerError
	if _, err := chatty.Info(ctx, made.ID); !errors.As(err, &answer) || !strings.Contains(err.Error(), "mood") {
		t.Errorf("a field that only a newer server has: %v", err)
	}
}

//go:build unix

package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The first look shows chats, a fork, a question and an approval, and both go on
// when they are responded to. The user's own store is left alone.
func TestServe_demo(t *testing.T) {
	t.Parallel()
	own := filepath.Join(t.TempDir(), "own.db")
	s := startServer(t, "sqlite:"+own, "--demo", "--quiet")
	key := firstKey.FindString(s.await(t, "administrator's key"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	call := func(method, path, body string, into any) {
		t.Helper()
		q, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+key)
		q.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		raw, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= 300 || into != nil && json.Unmarshal(raw, into) != nil {
			t.Fatalf("%s %s: %d %s, %v", method, path, res.StatusCode, raw, err)
		}
	}
	await := func(what string, done func() bool) {
		t.Helper()
		for !done() {
			select {
			case <-ctx.Done():
				t.Fatalf("not in time: %s", what)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	var pending struct {
		Items []struct {
			ID, Kind string
			Session  struct{ SessionID string }
		}
	}
	await("a question and an approval", func() bool {
		call(http.MethodGet, "/v1/pending", "", &pending)
		return len(pending.Items) == 2
	})
	responses := map[string]string{"approval": `{"action":"approve"}`, "question": `{"action":"answer","text":"yes"}`}
	for _, p := range pending.Items {
		call(http.MethodPost, "/v1/sessions/"+p.Session.SessionID+"/pending/"+url.PathEscape(p.ID), responses[p.Kind], nil)
	}
	var sessions struct {
		Items []struct {
			Name, Origin   string
			Task, Workflow *struct{ Status string }
		}
	}
	await("the task and the run are completed", func() bool {
		call(http.MethodGet, "/v1/sessions", "", &sessions)
		completed := 0
		for _, i := range sessions.Items {
			for _, w := range []*struct{ Status string }{i.Task, i.Workflow} {
				if w != nil && w.Status == "completed" {
					completed++
				}
			}
		}
		return completed == 2
	})
	if len(sessions.Items) != 6 {
		t.Errorf("there are %d sessions: %+v", len(sessions.Items), sessions.Items)
	}
	type model struct{ Name string }
	var models struct{ Items []model }
	if call(http.MethodGet, "/v1/models", "", &models); !slices.Contains(models.Items, model{"offline/demo"}) {
		t.Errorf("the models are %q", models.Items)
	}
	if _, err := os.Stat(own); !os.IsNotExist(err) {
		t.Errorf("the user's own store was touched: %v", err)
	}
}

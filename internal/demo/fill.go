package demo

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// mechanic is the agent of the sample task.
const mechanic = "mechanic"

// clockFile is what the sample task repairs.
const clockFile = "name = clock\ntimeout = 3O\n"

//go:embed run.yaml
var runSpec string

// Workspace makes a folder with what the sample task repairs.
func Workspace() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "clock.ini"), []byte(clockFile), 0o600)
}

// Fill makes the sample sessions through the API of a server: chats, a fork, a
// run that asks a question and a task that waits for an approval.
func Fill(ctx context.Context, url, key string) error {
	f := &filler{ctx: ctx, url: url, key: key}
	trip := f.create("guide", "Trip to Oslo", "Answer travellers, briefly.", nil)
	f.say(trip, "Do I need a coat in Oslo?")
	before := f.say(trip, "And how do I get there?") - 1
	branch := f.post("/v1/sessions/"+trip+"/fork", map[string]any{"at": before, "name": "Trip to Oslo, by train"}).SessionID
	f.say(branch, "Can I go there by train?")
	f.request(http.MethodPut, "/v1/sessions/"+trip+"/memory/session/city", "Oslo")
	sums := f.create("clerk", "Sums", "Compute; never guess.", []string{"calculator"})
	f.say(sums, "What is 17 % of 4,230?")
	poem := f.create("poet", "A haiku", "Write poems.", []string{})
	f.say(poem, "Write a haiku about logs.")
	f.post("/v1/sessions/"+poem+"/actions/CompleteSession", map[string]any{})
	f.post("/v1/runs", map[string]any{"name": "A tweet, approved by you", "spec": runSpec})
	f.post("/v1/tasks", map[string]any{
		"title": "Repair the clock", "prompt": "The clock does not start. Find out why, and repair it.",
		"definition": map[string]any{"name": mechanic, "model": Name, "tools": []string{"file_read", "file_edit"}},
		"plan": map[string]any{"steps": []map[string]string{
			{"description": "Find the cause"}, {"description": "Repair it"},
		}},
	})
	return f.failed
}

// filler sends requests until one fails.
type filler struct {
	ctx      context.Context
	url, key string
	failed   error
}

// answer is what is read of responses.
type answer struct {
	SessionID string `json:"sessionId"`
	Session   struct {
		Version int64 `json:"version"`
	} `json:"session"`
}

// create makes a session and returns its id.
func (f *filler) create(agent, name, prompt string, tools []string) string {
	return f.post("/v1/sessions", map[string]any{
		"name": name, "definition": map[string]any{"name": agent, "systemPrompt": prompt, "model": Name, "tools": tools},
	}).SessionID
}

// say sends a message and returns the version that its turn made.
func (f *filler) say(id, text string) int64 {
	return f.post("/v1/sessions/"+id+"/messages", map[string]any{"text": text}).Session.Version
}

func (f *filler) post(path string, body any) answer { return f.request(http.MethodPost, path, body) }

func (f *filler) request(method, path string, body any) (a answer) {
	if f.failed != nil {
		return a
	}
	a, f.failed = f.send(method, path, body)
	if f.failed != nil {
		f.failed = fmt.Errorf("make the sample sessions: %s %s: %w", method, path, f.failed)
	}
	return a
}

func (f *filler) send(method, path string, body any) (a answer, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return a, err
	}
	q, err := http.NewRequestWithContext(f.ctx, method, f.url+path, bytes.NewReader(data))
	if err != nil {
		return a, err
	}
	q.Header.Set("Authorization", "Bearer "+f.key)
	q.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return a, err
	}
	defer func() { _ = res.Body.Close() }()
	if data, err = io.ReadAll(res.Body); err != nil {
		return a, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return a, fmt.Errorf("%s: %s", res.Status, data)
	}
	err = json.Unmarshal(data, &a)
	return a, err
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// failures knows why models and tools failed: the events of a runtime carry no
// text. It is safe for concurrent use.
type failures struct {
	mu     sync.Mutex
	models map[string]error  // by session, the last one; guarded by mu
	tools  map[string]string // by call; guarded by mu
	keys   *strings.Replacer // takes the values of keys out of a text; guarded by mu
}

func newFailures() *failures {
	return &failures{models: map[string]error{}, tools: map[string]string{}, keys: strings.NewReplacer()}
}

// setSecrets takes the values of keys, by name, out of what is printed.
func (f *failures) setSecrets(secrets map[string]string) {
	var pairs []string
	for name, value := range secrets {
		if value != "" {
			pairs = append(pairs, value, "[secret:"+name+"]")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys = strings.NewReplacer(pairs...)
}

// redact returns a text without the values of keys.
func (f *failures) redact(text string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys.Replace(text)
}

// watchModel returns a model whose failures are known. It has the price, the counter
// and the length that the model has.
func (f *failures) watchModel(m llm.Model) llm.Model {
	w := watchedModel{Model: m, failures: f}
	if priced, ok := m.(llm.Priced); ok {
		return pricedWatchedModel{watchedModel: w, Priced: priced}
	}
	return w
}

// watchTools returns tools whose failures are known.
func (f *failures) watchTools(tools []tool.Tool) []tool.Tool {
	known := make([]tool.Tool, len(tools))
	for i, t := range tools {
		known[i] = watchedTool{Tool: t, failures: f}
	}
	return known
}

// noteTool remembers why a call failed.
func (f *failures) noteTool(callID, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tools[callID] = shortened(f.keys.Replace(why), 200)
}

// reasonOf returns what a tool said when a call failed, "" where it never ran.
func (f *failures) reasonOf(callID string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tools[callID]
}

// describeRetry says when a session's model is asked again after an attempt, and why.
func (f *failures) describeRetry(id string, attempt int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	err, ok := f.models[id]
	if !ok {
		return "asking again"
	}
	pause := backoff(attempt)
	var transient *llm.TransientError
	if errors.As(err, &transient) {
		err = transient.Err
		if transient.After > 0 {
			pause = transient.After
		}
	}
	why := err.Error()
	var told *llm.ProviderError
	if errors.As(err, &told) {
		why = told.Message
		if told.Status != 0 {
			why = fmt.Sprintf("status %d: %s", told.Status, why)
		}
	}
	return fmt.Sprintf("asking again in %s · %s", durationText(pause), shortened(why, 200))
}

// backoff returns the pause after an attempt that failed, where the server does not
// say how long it wants to be left alone.
func backoff(attempt int) time.Duration {
	return min(250*time.Millisecond<<min(attempt, 10), 8*time.Second)
}

type watchedModel struct {
	llm.Model
	failures *failures
}

type pricedWatchedModel struct {
	watchedModel
	llm.Priced
}

// Infer asks the model and remembers why it failed.
func (w watchedModel) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	response, err := w.Model.Infer(ctx, r, emit)
	if err != nil {
		w.failures.mu.Lock()
		defer w.failures.mu.Unlock()
		w.failures.models[r.SessionID] = err
	}
	return response, err
}

// CountTokens counts as the model does, if it does.
func (w watchedModel) CountTokens(m session.Message) (tokens int, counter string) {
	if c, ok := w.Model.(llm.TokenCounter); ok {
		return c.CountTokens(m)
	}
	return 0, ""
}

// ContextLength returns the model's, 0 where it is not known.
func (w watchedModel) ContextLength() int {
	if c, ok := w.Model.(llm.ContextLength); ok {
		return c.ContextLength()
	}
	return 0
}

type watchedTool struct {
	tool.Tool
	failures *failures
}

// Call runs the tool and remembers why it failed.
func (w watchedTool) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	result, err := w.Tool.Call(ctx, c)
	if err != nil || result.IsError {
		why := result.Content
		if err != nil {
			why = err.Error()
		}
		w.failures.noteTool(c.ID, why)
	}
	return result, err
}

package session

import (
	"encoding/json"
	"strings"
)

// Expense is what one answer of a model used.
type Expense struct {
	Agent string // that asked, in a workflow run; "": the session's
	Model string
	Usage Usage
	Cost  Cost
}

// usedByTask is the event with which a task counts every answer it gets, also
// those outside of an execution: plans, summaries, reports.
const usedByTask = "llm_usage"

// ExpenseKinds are the kinds of change that may be an expense.
func ExpenseKinds() []string {
	return []string{InferenceAnswered{}.Kind(), UnitAdvanced{}.Kind(), WindowMoved{}.Kind(), SessionTitled{}.Kind(), usedByTask}
}

// ExpenseOf returns what a change in a session of a kind says was used. What a
// subagent used is an expense of its own session.
func ExpenseOf(kind Kind, c Change) (Expense, bool) {
	switch c := c.(type) {
	case InferenceAnswered:
		return Expense{Model: c.Model, Usage: c.Usage, Cost: c.Cost}, kind != KindTask // a task counts it as well
	case UnitAdvanced:
		e, ok := ExpenseOf(kind, c.Change)
		e.Agent = c.Agent
		return e, ok
	case SessionTitled:
		return Expense{Model: c.Model, Usage: c.Usage, Cost: c.Cost}, true
	case WindowMoved:
		if s := c.Summary; s != nil {
			return Expense{Model: s.Model, Usage: s.Usage, Cost: s.Cost}, s.Usage != Usage{} || s.Cost != 0
		}
	case TaskEvent:
		if c.Name == usedByTask {
			return taskExpense(c.Data)
		}
	}
	return Expense{}, false
}

func taskExpense(data json.RawMessage) (Expense, bool) {
	var said struct {
		Provider string `json:"providerType"`
		Model    string `json:"modelId"`
		Used     struct {
			Input      int64   `json:"inputTokens"`
			Output     int64   `json:"outputTokens"`
			CacheRead  int64   `json:"cachedTokens"`
			CacheWrite int64   `json:"cacheWriteTokens"`
			Cost       float64 `json:"cost"`
		} `json:"delta"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return Expense{}, false
	}
	u := said.Used
	return Expense{
		Model: strings.TrimPrefix(said.Provider+"/"+said.Model, "/"), Cost: Dollars(u.Cost),
		Usage: Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite},
	}, true
}

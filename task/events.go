package task

import (
	"encoding/json"

	"github.com/holdfast-dev/holdfast/session"
)

// What events say.
type (
	llmRetry struct {
		Attempt int    `json:"attempt"`
		DelayMS int64  `json:"delayMs"`
		Error   string `json:"error"`
	}
	llmError struct {
		Attempt int    `json:"attempt"`
		Error   string `json:"error"`
	}
	usageDelta struct {
		Input      int64   `json:"inputTokens"`
		Output     int64   `json:"outputTokens"`
		Cached     int64   `json:"cachedTokens"`
		CacheWrite int64   `json:"cacheWriteTokens,omitempty"`
		Cost       float64 `json:"cost"`
	}
	usageSum struct {
		Input  int64   `json:"inputTokens"`
		Output int64   `json:"outputTokens"`
		Total  int64   `json:"totalTokens,omitempty"`
		Cost   float64 `json:"cost"`
	}
	llmUsage struct {
		ProviderType string     `json:"providerType"`
		ModelID      string     `json:"modelId"`
		Delta        usageDelta `json:"delta"`
		Totals       usageSum   `json:"totals"`
	}
	toolCalled struct {
		CallID string          `json:"callId"`
		Tool   string          `json:"tool"`
		Input  json.RawMessage `json:"input,omitempty"`
	}
	toolAnswered struct {
		CallID string `json:"callId"`
		Tool   string `json:"tool"`
		Result string `json:"result"`
	}
	toolFailed struct {
		CallID        string          `json:"callId"`
		Tool          string          `json:"tool"`
		Input         json.RawMessage `json:"input,omitempty"`
		Error         string          `json:"error"`
		Disabled      bool            `json:"disabled,omitempty"`
		DisabledScope string          `json:"disabledScope,omitempty"`
	}
	toolBlocked struct {
		Tool   string                   `json:"tool"`
		CallID string                   `json:"callId"`
		Reason session.PermissionReason `json:"reason"`
	}
	fileChanged struct {
		Path  string `json:"path"`
		Bytes *int64 `json:"sizeBytes,omitempty"`
	}
	stepEvent struct {
		Step    session.PlanStep `json:"step"`
		Error   string           `json:"error,omitempty"`
		Timeout int64            `json:"timeout,omitempty"`
	}
	planEvent struct {
		Plan   session.Plan `json:"plan"`
		Reason string       `json:"reason,omitempty"`
	}
	note struct {
		Message string `json:"message"`
		Reason  string `json:"reason,omitempty"`
	}
	taskCreated struct {
		Title         string `json:"title"`
		Prompt        string `json:"prompt"`
		Workspace     string `json:"workspaceId,omitempty"`
		ExecutionMode string `json:"executionMode"`
		Run           int    `json:"run"`
	}
	taskResumed struct {
		Message        string `json:"message"`
		NewRun         bool   `json:"newRunStarted,omitempty"`
		PreviousStatus string `json:"previousStatus,omitempty"`
	}
	taskStatus struct {
		Status         string `json:"status"`
		TerminalStatus string `json:"terminalStatus,omitempty"`
		FailureClass   string `json:"failureClass,omitempty"`
		Error          string `json:"error,omitempty"`
	}
	taskCompleted struct {
		Status         string   `json:"status"`
		TerminalStatus string   `json:"terminalStatus"`
		FailureClass   string   `json:"failureClass,omitempty"`
		ResultSummary  string   `json:"resultSummary,omitempty"`
		CompletedAt    int64    `json:"completedAt"`
		StopReasons    []string `json:"stopReasons"`
	}
	feedbackEvent struct {
		ID      string `json:"id"`
		StepID  string `json:"stepId"`
		Action  string `json:"action"`
		Message string `json:"message,omitempty"`
		Reason  string `json:"reason,omitempty"`
	}
	delivered struct {
		ID string `json:"id"`
	}
	grantsDropped struct {
		Keys []string `json:"keys"`
	}
	granted struct {
		Key   string         `json:"key"`
		Grant *session.Grant `json:"grant"`
	}
	ruleEvent struct {
		Rule *session.Rule `json:"rule"`
	}
	checked struct {
		Attempt     int    `json:"attempt"`
		MaxAttempts int    `json:"maxAttempts,omitempty"`
		Message     string `json:"message"`
		WillRetry   *bool  `json:"willRetry,omitempty"`
	}
	workspaceChanged struct {
		ID       string `json:"workspaceId"`
		Path     string `json:"path"`
		Previous string `json:"previousWorkspaceId,omitempty"`
	}
	fuseBlown struct {
		TaskID      string   `json:"taskId"`
		Policy      string   `json:"policy"`
		Reason      string   `json:"reason"`
		Turns       int      `json:"turnsUsed"`
		Fuse        int      `json:"emergencyFuseMaxTurns"`
		NextActions []string `json:"nextActions"`
	}
	windowExhausted struct {
		TaskID        string `json:"taskId"`
		Policy        string `json:"policy"`
		Turns         int    `json:"turnsUsed"`
		Window        int    `json:"windowTurnCap"`
		LifetimeTurns int    `json:"lifetimeTurnsUsed"`
		Lifetime      int    `json:"maxLifetimeTurns"`
	}
	softLanding struct {
		Phase         string `json:"phase"`
		Left          int    `json:"remainingTurns"`
		Reserve       int    `json:"reserveTurns"`
		Window        int    `json:"maxTurns"`
		Turns         int    `json:"usedTurns"`
		LifetimeLeft  int    `json:"lifetimeRemainingTurns"`
		Lifetime      int    `json:"lifetimeMaxTurns"`
		LifetimeTurns int    `json:"lifetimeUsedTurns"`
	}
	compactionStarted struct {
		Window       int     `json:"continuationWindow"`
		Ratio        float64 `json:"contextRatio"`
		Threshold    float64 `json:"thresholdRatio"`
		Stops        int     `json:"toolUseStopStreak"`
		NoMutation   bool    `json:"noMutation"`
		TokensBefore int     `json:"tokensBefore"`
	}
	compactionCompleted struct {
		Window       int `json:"continuationWindow"`
		TokensBefore int `json:"tokensBefore"`
		TokensAfter  int `json:"tokensAfter"`
		Removed      int `json:"removedMessages"`
	}
	compactionFailed struct {
		Window       int    `json:"continuationWindow"`
		Reason       string `json:"reason"`
		TokensBefore int    `json:"tokensBefore"`
	}
	contextRecovery struct {
		Phase         string `json:"phase"`
		StepID        string `json:"stepId"`
		Attempt       int    `json:"attempt"`
		MaxAttempts   int    `json:"maxAttempts"`
		TokensBefore  int    `json:"tokensBefore"`
		TokensAfter   int    `json:"tokensAfter"`
		Removed       int    `json:"removedApproxTokens"`
		Reason        string `json:"reason"`
		ProviderError string `json:"providerError"`
	}
	contractEscalated struct {
		Reason    string `json:"reason"`
		Repeats   int    `json:"repeatedFingerprintCount"`
		Threshold int    `json:"threshold"`
		Dominant  string `json:"dominantFingerprint"`
	}
	continuationDecision struct {
		Policy           string  `json:"policy"`
		Window           int     `json:"continuationWindow"`
		Continuations    int     `json:"continuationCount"`
		MaxContinuations int     `json:"maxAutoContinuations"`
		Score            float64 `json:"progressScore"`
		MinScore         float64 `json:"progressThreshold"`
		Risk             float64 `json:"loopRiskIndex"`
		Repeats          int     `json:"repeatedFingerprintCount"`
		Dominant         string  `json:"dominantFingerprint"`
		NoProgress       int     `json:"noProgressStreak"`
		Warning          int     `json:"loopWarningThreshold"`
		Critical         int     `json:"loopCriticalThreshold"`
		Allowed          bool    `json:"allowed"`
		Reason           string  `json:"reason"`
	}
	safetyStop struct {
		TaskID           string   `json:"taskId"`
		Policy           string   `json:"policy"`
		Reason           string   `json:"reason"`
		Score            float64  `json:"progressScore"`
		Risk             float64  `json:"loopRiskIndex"`
		Repeats          int      `json:"repeatedFingerprintCount"`
		NoProgress       int      `json:"noProgressStreak"`
		Continuations    int      `json:"continuationCount"`
		MaxContinuations int      `json:"maxAutoContinuations"`
		NextActions      []string `json:"nextActions"`
	}
	breakerTripped struct {
		NoProgress  int      `json:"noProgressStreak"`
		Threshold   int      `json:"threshold"`
		Dominant    string   `json:"dominantFingerprint"`
		NextActions []string `json:"nextActions"`
	}
	continuationBlocked struct {
		Reason     string  `json:"reason"`
		Suggestion string  `json:"suggestion"`
		Score      float64 `json:"progressScore"`
		Risk       float64 `json:"loopRiskIndex"`
		NoProgress int     `json:"noProgressStreak"`
	}
	actionHint struct {
		Type  string `json:"type"`
		Label string `json:"label"`
	}
	turnLimitError struct {
		Message string     `json:"message"`
		Code    string     `json:"errorCode"`
		Hint    actionHint `json:"actionHint"`
	}
	continuationStarted struct {
		Mode             ContinueMode `json:"mode"`
		Continuations    int          `json:"continuationCount"`
		Window           int          `json:"continuationWindow"`
		MaxContinuations int          `json:"maxAutoContinuations"`
		Score            float64      `json:"progressScore"`
		Risk             float64      `json:"loopRiskIndex"`
	}
	budgetReset struct {
		Reason        string   `json:"reason"`
		Mode          string   `json:"mode"`
		Continuations int      `json:"continuationCount"`
		Window        int      `json:"continuationWindow"`
		Before        usageSum `json:"previousUsageTotals"`
	}
	recoveryBlocked struct {
		Reason string `json:"reason"`
	}
	recoveryStarted struct {
		Attempt          int    `json:"attempt"`
		MaxAttempts      int    `json:"maxAttempts"`
		Policy           string `json:"policy"`
		Turns            int    `json:"turnsUsed"`
		Window           int    `json:"windowTurnCap"`
		Continuations    int    `json:"continuationCount"`
		MaxContinuations int    `json:"maxAutoContinuations"`
		LifetimeTurns    int    `json:"lifetimeTurnsUsed"`
		Lifetime         int    `json:"maxLifetimeTurns"`
		CanRecover       bool   `json:"canRecover"`
	}
	recoveryCompleted struct {
		Attempt       int `json:"attempt"`
		Continuations int `json:"continuationCount"`
		Window        int `json:"continuationWindow"`
	}
	checklistEvent struct {
		Checklist session.Checklist `json:"checklist"`
	}
)

func usageTotals(u session.TaskUsage) usageSum {
	return usageSum{Input: u.EarlierInput + u.Input, Output: u.EarlierOutput + u.Output, Cost: costUsed(u)}
}

// event makes a task event.
func event(name string, payload any) session.TaskEvent {
	return session.TaskEvent{Name: name, Data: raw(payload)}
}

package session

import (
	"encoding/json"
	"slices"
)

// TaskState is everything a task has come to: eleven buckets, its plan and
// what it has asked a person. Its JSON is that of the interchange format
// session_runtime_v2, where fields marked with omitempty are additions. Times
// are Unix milliseconds, 0 is never.
//
// The queues are the session's inbox: the fold leaves them empty, and whoever
// reads a task joins them.
type TaskState struct {
	Transcript   TaskTranscript   `json:"transcript"`
	Tooling      TaskTooling      `json:"tooling"`
	Files        TaskFiles        `json:"files"`
	Loop         TaskLoop         `json:"loop"`
	Recovery     TaskRecovery     `json:"recovery"`
	Queues       TaskQueues       `json:"queues"`
	Worker       TaskWorker       `json:"worker"`
	Permissions  Permissions      `json:"permissions"`
	Verification TaskVerification `json:"verification"`
	Checklist    Checklist        `json:"checklist"`
	Usage        TaskUsage        `json:"usage"`
	Tracker      TrackerState     `json:"trackerState"`
	Settings     TaskSettings     `json:"settings"`
	Plan         *Plan            `json:"plan"`
	Approvals    []Approval       `json:"approvals"`
	Foreign      Foreign          `json:"foreign"`
}

// TaskTranscript is what was said last; the history itself is the session's
// window.
type TaskTranscript struct {
	LastUserMessage                       string        `json:"lastUserMessage"`
	LastAssistantOutput                   *string       `json:"lastAssistantOutput"`
	LastNonVerificationOutput             *string       `json:"lastNonVerificationOutput"`
	LastAssistantText                     *string       `json:"lastAssistantText"`
	ExplicitChatSummaryBlock              *string       `json:"explicitChatSummaryBlock"`
	ExplicitChatSummaryCreatedAt          int64         `json:"explicitChatSummaryCreatedAt"`
	ExplicitChatSummarySourceMessageCount int           `json:"explicitChatSummarySourceMessageCount"`
	StepOutcomeSummaries                  []StepOutcome `json:"stepOutcomeSummaries"`
}

// StepOutcome is what came of a step of the plan.
type StepOutcome struct {
	StepID         string   `json:"stepId"`
	Description    string   `json:"description"`
	Status         string   `json:"status"` // completed or failed
	MutatedFiles   []string `json:"mutatedFiles"`
	OutcomeSummary string   `json:"outcomeSummary"`
}

// TaskTooling is what tools were used and how they fared.
type TaskTooling struct {
	ToolResultMemory            []ToolMemory       `json:"toolResultMemory"`
	WebEvidenceMemory           []WebEvidence      `json:"webEvidenceMemory"`
	ToolUsageCounts             Pairs[int]         `json:"toolUsageCounts"`
	SuccessfulToolUsageCounts   Pairs[int]         `json:"successfulToolUsageCounts"`
	ToolUsageEventsSinceDecay   int                `json:"toolUsageEventsSinceDecay"`
	ToolSelectionEpoch          int                `json:"toolSelectionEpoch"`
	DiscoveredDeferredToolNames Set                `json:"discoveredDeferredToolNames"`
	ToolFailures                Pairs[ToolFailure] `json:"toolFailures,omitzero"`
	LastWebFetchFailure         *WebFailure        `json:"lastWebFetchFailure,omitempty"`
	BudgetCounters              *BudgetCounters    `json:"budgetCounters,omitempty"`
	StartedCalls                Set                `json:"startedCalls,omitzero"` // calls that began and have no result
}

// ToolMemory is a result worth remembering.
type ToolMemory struct {
	Tool      string `json:"tool"`
	Summary   string `json:"summary"`
	Timestamp int64  `json:"timestamp"`
}

// WebEvidence is a page that was seen.
type WebEvidence struct {
	Tool        string `json:"tool"`
	URL         string `json:"url"`
	Title       string `json:"title,omitempty"`
	SourceClass string `json:"sourceClass,omitempty"`
	PublishDate string `json:"publishDate,omitempty"`
	Timestamp   int64  `json:"timestamp"`
}

// ToolFailure counts how often a tool has failed, and until when it is off.
type ToolFailure struct {
	Systemic       int    `json:"systemic"`
	InputDependent int    `json:"inputDependent"`
	LastError      string `json:"lastError"`
	DisabledUntil  int64  `json:"disabledUntil"`
	Disables       int    `json:"disables"` // in a row
	Scope          string `json:"scope"`    // provider or global
}

// WebFailure is the last page that could not be had.
type WebFailure struct {
	Timestamp int64  `json:"timestamp"`
	Tool      string `json:"tool"`
	URL       string `json:"url,omitempty"`
	Error     string `json:"error,omitempty"`
	Status    int    `json:"status,omitempty"`
}

// BudgetCounters count calls of a task.
type BudgetCounters struct {
	ToolCalls         int `json:"toolCalls"`
	WebSearchCalls    int `json:"webSearchCalls"`
	DuplicatesBlocked int `json:"duplicatesBlocked"`
}

// TaskFiles is which files were read.
type TaskFiles struct {
	FilesReadTracker Pairs[FileRead] `json:"filesReadTracker"`
	FileReads        Pairs[Count]    `json:"fileReads,omitzero"`
	DirListings      Pairs[Count]    `json:"dirListings,omitzero"`
}

// FileRead is a file that a step has read.
type FileRead struct {
	Step      string `json:"step"`
	SizeBytes int64  `json:"sizeBytes"`
}

// Count is how often something was done, and when last.
type Count struct {
	Count  int   `json:"count"`
	LastAt int64 `json:"lastAt"`
	PrevAt int64 `json:"prevAt,omitempty"` // the time before
}

// TrackerState is which files and folders a task has touched.
type TrackerState struct {
	ReadFiles    []string `json:"readFiles"`
	CreatedFiles []string `json:"createdFiles"`
	Directories  []string `json:"directories"`
}

// TaskLoop is how far the loop of turns has come.
type TaskLoop struct {
	GlobalTurnCount                          int             `json:"globalTurnCount"` // in this window
	LifetimeTurnCount                        int             `json:"lifetimeTurnCount"`
	ContinuationCount                        int             `json:"continuationCount"`
	ContinuationWindow                       int             `json:"continuationWindow"` // starts at 1
	WindowStartEventCount                    int64           `json:"windowStartEventCount"`
	NoProgressStreak                         int             `json:"noProgressStreak"`
	LastLoopFingerprint                      string          `json:"lastLoopFingerprint"`
	CompactionCount                          int             `json:"compactionCount"`
	LastCompactionAt                         int64           `json:"lastCompactionAt"`
	LastCompactionTokensBefore               int64           `json:"lastCompactionTokensBefore"`
	LastCompactionTokensAfter                int64           `json:"lastCompactionTokensAfter"`
	BlockedLoopFingerprintForWindow          *string         `json:"blockedLoopFingerprintForWindow"`
	PendingLoopStrategySwitchMessage         string          `json:"pendingLoopStrategySwitchMessage"`
	SoftDeadlineTriggered                    bool            `json:"softDeadlineTriggered"`
	WrapUpRequested                          bool            `json:"wrapUpRequested"`
	TurnWindowSoftExhaustedNotified          bool            `json:"turnWindowSoftExhaustedNotified"`
	FollowUpRecoveryAttemptsInCurrentMessage int             `json:"followUpRecoveryAttemptsInCurrentMessage"`
	LastFollowUpRecoveryBlockReason          string          `json:"lastFollowUpRecoveryBlockReason"`
	IterationCount                           int             `json:"iterationCount"`
	CurrentStepID                            *string         `json:"currentStepId"`
	LastPreCompactionFlushAt                 int64           `json:"lastPreCompactionFlushAt"`
	LastPreCompactionFlushTokenCount         int64           `json:"lastPreCompactionFlushTokenCount"`
	StreakWindow                             int             `json:"streakWindow,omitempty"`
	SoftLandingInjected                      bool            `json:"softLandingInjected,omitempty"`
	BlockedLoop                              *Signature      `json:"blockedLoop,omitempty"`
	Kernel                                   *KernelCounters `json:"kernel,omitempty"`
}

// Signature is a call by its tool and its input, whose keys are sorted.
type Signature struct {
	Tool  string `json:"tool"`
	Input string `json:"input"`
}

// KernelCounters are the counts of the step that runs: a crash does not refill
// what it may use.
type KernelCounters struct {
	StepID             string `json:"stepId"`
	Iterations         int    `json:"iterations"`
	LLMCalls           int    `json:"llmCalls"`
	Empty              int    `json:"empty"`
	Recovered          int    `json:"recovered"`
	Repeated           int    `json:"repeated"`
	ContextRecoveries  int    `json:"contextRecoveries"`
	MaxTokenRecoveries int    `json:"maxTokenRecoveries"`
	Notes              Set    `json:"notes,omitempty"` // hints that were given, each once
}

// TaskRecovery is what was done about failures.
type TaskRecovery struct {
	RecoveryRequestActive        bool    `json:"recoveryRequestActive"`
	LastRecoveryFailureSignature string  `json:"lastRecoveryFailureSignature"`
	RecoveredFailureStepIDs      Set     `json:"recoveredFailureStepIds"`
	LastRecoveryClass            *string `json:"lastRecoveryClass"`
	LastToolDisabledScope        *string `json:"lastToolDisabledScope"`
	LastRetryReason              *string `json:"lastRetryReason"`
}

// TaskQueues is what waits to be taken up.
type TaskQueues struct {
	PendingFollowUps   []FollowUp     `json:"pendingFollowUps"`
	StepFeedbackSignal *StepFeedback  `json:"stepFeedbackSignal"` // the oldest
	Feedback           []StepFeedback `json:"feedback,omitempty"` // the rest, in order
}

// FollowUp is a message for a task that is at work.
type FollowUp struct {
	Message                string          `json:"message"`
	Images                 json.RawMessage `json:"images,omitempty"`
	QuotedAssistantMessage json.RawMessage `json:"quotedAssistantMessage,omitempty"`
	IntegrationMentions    json.RawMessage `json:"integrationMentions,omitempty"`
	AgentConfigOverride    json.RawMessage `json:"agentConfigOverride,omitempty"`
	ID                     string          `json:"id,omitempty"`
	QueuedAt               int64           `json:"queuedAt,omitempty"`
}

// StepFeedback is what a person says about a step.
type StepFeedback struct {
	StepID  string `json:"stepId"`
	Action  string `json:"action"` // retry, skip, stop or drift
	Message string `json:"message,omitempty"`
	ID      string `json:"id,omitempty"`
}

// TaskWorker is what other agents were given.
type TaskWorker struct {
	DispatchedMentionedAgents bool            `json:"dispatchedMentionedAgents"`
	VerificationAgentState    json.RawMessage `json:"verificationAgentState"`
}

// TaskVerification is what was checked.
type TaskVerification struct {
	VerificationEvidenceEntries          []Evidence `json:"verificationEvidenceEntries"`
	NonBlockingVerificationFailedStepIDs Set        `json:"nonBlockingVerificationFailedStepIds"`
	BlockingVerificationFailedStepIDs    Set        `json:"blockingVerificationFailedStepIds"`
}

// Evidence is one check and how it came out.
type Evidence struct {
	Kind       string `json:"kind"`
	OK         bool   `json:"ok"`
	Detail     string `json:"detail"`
	CapturedAt int64  `json:"capturedAt"`
}

// Checklist is the agent's own list of what is to be done.
type Checklist struct {
	Items                   []ChecklistItem `json:"items"`
	UpdatedAt               int64           `json:"updatedAt"`
	VerificationNudgeNeeded bool            `json:"verificationNudgeNeeded"`
	NudgeReason             *string         `json:"nudgeReason"`
	ReminderArmed           bool            `json:"reminderArmed,omitempty"`
	NudgeClearedFor         string          `json:"nudgeClearedFor,omitempty"`
}

// ChecklistItem is one line of it.
type ChecklistItem struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Kind      string `json:"kind"`   // implementation, verification or other
	Status    string `json:"status"` // pending, in_progress, completed or blocked
	CreatedAt int64  `json:"createdAt"`
	UpdatedAt int64  `json:"updatedAt"`
}

// TaskUsage is what a task has used: in this window, and in those before.
type TaskUsage struct {
	TotalInputTokens        int64   `json:"totalInputTokens"`
	TotalOutputTokens       int64   `json:"totalOutputTokens"`
	TotalCost               float64 `json:"totalCost"`
	UsageOffsetInputTokens  int64   `json:"usageOffsetInputTokens"`
	UsageOffsetOutputTokens int64   `json:"usageOffsetOutputTokens"`
	UsageOffsetCost         float64 `json:"usageOffsetCost"`
}

// Plan is the steps of a task.
type Plan struct {
	Description string     `json:"description"`
	Steps       []PlanStep `json:"steps"`
}

// PlanStep is one of them. An empty kind is primary.
type PlanStep struct {
	ID                   string `json:"id"`
	Description          string `json:"description"`
	Kind                 string `json:"kind,omitempty"` // primary, verification or recovery
	Status               string `json:"status"`         // pending, in_progress, completed, failed or skipped
	StartedAt            int64  `json:"startedAt,omitempty"`
	CompletedAt          int64  `json:"completedAt,omitempty"`
	Error                string `json:"error,omitempty"`
	VerificationAttempts int    `json:"verificationAttempts,omitempty"`
	Waived               bool   `json:"waived,omitempty"`
}

// Approval is something a task asked a person to allow.
type Approval struct {
	ID          string          `json:"id"`
	TaskID      string          `json:"taskId"`
	CallID      string          `json:"callId"`
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Details     json.RawMessage `json:"details,omitempty"`
	Status      string          `json:"status"` // pending, approved, denied, expired or cancelled
	RequestedAt int64           `json:"requestedAt"`
	ExpiresAt   int64           `json:"expiresAt,omitempty"`
	ResolvedAt  int64           `json:"resolvedAt,omitempty"`
	Action      string          `json:"action,omitempty"`
	By          string          `json:"by,omitempty"`
}

// TaskSettings is how a task was started. It is no part of the interchange
// format.
type TaskSettings struct {
	Budget     json.RawMessage `json:"budget,omitempty"`
	AutoResume bool            `json:"autoResume"`
	Deep       bool            `json:"deep,omitempty"`
	PlanMode   string          `json:"planMode,omitempty"` // auto or none
	ModeSeq    int64           `json:"modeSeq,omitempty"`  // the change that set the permission mode

	Capabilities map[string]bool `json:"capabilities,omitempty"` // of the workspace
}

// Foreign keeps what an imported snapshot has and nobody here knows: top-level
// keys, and keys of buckets by "bucket.key".
type Foreign = Pairs[json.RawMessage]

// NewTaskState is the state of a task that has just begun.
func NewTaskState() TaskState {
	s := TaskState{}
	s.Loop.ContinuationWindow = 1
	s.Permissions.Mode = "default"
	return s.normal()
}

// Step finds a step of the plan.
func (p *Plan) Step(id string) (PlanStep, bool) {
	if p == nil {
		return PlanStep{}, false
	}
	for _, s := range p.Steps {
		if s.ID == id {
			return s, true
		}
	}
	return PlanStep{}, false
}

// forkTask leaves behind what belongs to the parent alone: grants, open
// approvals and the right to go on by itself. A task that has not ended waits
// to be resumed.
func (b *body) forkTask() {
	if b.st.Task == nil {
		b.info.Task = nil
		return
	}
	next := b.taskState()
	next.Permissions.TemporaryGrants, next.Settings.AutoResume = Pairs[Grant]{}, false
	next.Approvals = slices.DeleteFunc(slices.Clone(next.Approvals), func(a Approval) bool { return a.Status == "pending" })
	b.setTask(next)
	row := TaskRow{}
	if b.info.Task != nil {
		row = b.info.Task.Clone()
	}
	row.PendingApprovals = 0
	if row.Status != "completed" && row.Status != "failed" && row.Status != "cancelled" {
		row.Status, row.TerminalStatus = "interrupted", "resume_available"
	}
	b.info.Task = &row
}

// AllFeedback is the feedback that waits, the oldest first.
func (q TaskQueues) AllFeedback() []StepFeedback {
	if q.StepFeedbackSignal == nil {
		return slices.Clone(q.Feedback)
	}
	return append([]StepFeedback{*q.StepFeedbackSignal}, q.Feedback...)
}

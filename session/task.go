package session

import (
	"encoding/json"
)

// TaskState is everything a task has come to, in groups by what needs it.
// Times are Unix milliseconds, 0 is never.
//
// The queues are the session's inbox: the fold leaves them empty, and whoever
// reads a task joins them.
type TaskState struct {
	Said      TaskSaid     `json:"said"`
	Tools     TaskTools    `json:"tools"`
	Files     TaskFiles    `json:"files"`
	Loop      TaskLoop     `json:"loop"`
	Steps     TaskSteps    `json:"steps"`
	Recovery  TaskRecovery `json:"recovery"`
	Queues    TaskQueues   `json:"queues"`
	Checklist Checklist    `json:"checklist"`
	Usage     TaskUsage    `json:"usage"`
	Settings  TaskSettings `json:"settings"`
	Plan      *Plan        `json:"plan"`
	// Imported keeps what another program's task carried and nothing here
	// reads. Only the package that imported it knows the keys.
	Imported Pairs[json.RawMessage] `json:"imported"`

	earlier *Permissions // of a state that an earlier version wrote
}

// TaskSaid is the newest of each kind of text; the history is the session's
// window.
type TaskSaid struct {
	User   string  `json:"user"`
	Answer *string `json:"answer"` // of the model
	Result *string `json:"result"` // the newest answer that is not from a verification step
	Shown  *string `json:"shown"`  // the answer that was shown last
}

// TaskTools is which tools were used and how they fared.
type TaskTools struct {
	Results     []ToolMemory       `json:"results"`
	Pages       []Page             `json:"pages"`
	Calls       Pairs[int]         `json:"calls"`     // by tool
	Successes   Pairs[int]         `json:"successes"` // by tool
	SinceHalved int                `json:"sinceHalved"`
	Halvings    int                `json:"halvings"` // of Calls and Successes, which fade with time
	Found       Set                `json:"found"`    // deferred tools that a search has found
	Failures    Pairs[ToolFailure] `json:"failures,omitzero"`
	PageFailure *PageFailed        `json:"pageFailure,omitempty"`
	Counts      *BudgetCounters    `json:"counts,omitempty"`
	Started     Set                `json:"started,omitzero"` // calls that began and have no result
}

// ToolMemory is a result worth remembering.
type ToolMemory struct {
	Tool    string `json:"tool"`
	Summary string `json:"summary"`
	At      int64  `json:"at"`
}

// Page is a web page that was read. Title and day of publication are those that
// the page gives; only an imported task has a class of pages.
type Page struct {
	Tool      string `json:"tool"`
	URL       string `json:"url"`
	Title     string `json:"title,omitempty"`
	Class     string `json:"class,omitempty"`
	Published string `json:"published,omitempty"`
	At        int64  `json:"at"`
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

// PageFailed is the last web page that could not be read.
type PageFailed struct {
	At     int64  `json:"at"`
	Tool   string `json:"tool"`
	URL    string `json:"url,omitempty"`
	Error  string `json:"error,omitempty"`
	Status int    `json:"status,omitempty"`
}

// BudgetCounters count calls of a task.
type BudgetCounters struct {
	ToolCalls         int `json:"toolCalls"`
	WebSearchCalls    int `json:"webSearchCalls"`
	DuplicatesBlocked int `json:"duplicatesBlocked"`
}

// TaskFiles is which files were read and created.
type TaskFiles struct {
	Read     Pairs[FileRead] `json:"read"`
	Reads    Pairs[Count]    `json:"reads,omitzero"`    // since the last write
	Listings Pairs[Count]    `json:"listings,omitzero"` // of folders, since the last write
	Created  []string        `json:"created"`
}

// FileRead is a file that a step has read.
type FileRead struct {
	Step  string `json:"step"`
	Bytes int64  `json:"bytes"`
}

// Count is how often something was done, and when last.
type Count struct {
	Count  int   `json:"count"`
	LastAt int64 `json:"lastAt"`
	PrevAt int64 `json:"prevAt,omitempty"` // the time before
}

// TaskLoop counts turns and keeps what stops a task from turning in circles.
// A window is the turns between two continuations.
type TaskLoop struct {
	Turns         int   `json:"turns"` // in this window
	LifetimeTurns int   `json:"lifetimeTurns"`
	Iterations    int   `json:"iterations"`
	Continuations int   `json:"continuations"`
	Window        int   `json:"window"`      // its number, from 1
	WindowStart   int64 `json:"windowStart"` // the last change before the window

	NoProgress       int        `json:"noProgress"`                 // windows in a row
	NoProgressWindow int        `json:"noProgressWindow,omitempty"` // the last one counted
	Fingerprint      string     `json:"fingerprint"`                // of the call that failed most in the last window
	Blocked          *Signature `json:"blocked,omitempty"`          // a call that must not be made again in this window
	BlockedText      *string    `json:"blockedText"`                // the same as a text; all that is known of an imported one
	Advice           string     `json:"advice"`                     // for the next turn: try another way

	Compactions  int   `json:"compactions"`
	CompactedAt  int64 `json:"compactedAt"`
	TokensBefore int64 `json:"tokensBefore"` // the last compaction
	TokensAfter  int64 `json:"tokensAfter"`

	SoftDeadline    bool   `json:"softDeadline"` // it has passed
	WrapUp          bool   `json:"wrapUp"`       // somebody asked for it
	LowTurnsNoted   bool   `json:"lowTurnsNoted"`
	LandingNoted    bool   `json:"landingNoted,omitempty"`
	FollowUpRetries int    `json:"followUpRetries"`
	FollowUpBlock   string `json:"followUpBlock"` // why a follow-up was not tried again
}

// Signature is a call by its tool and its input, whose keys are sorted.
type Signature struct {
	Tool  string `json:"tool"`
	Input string `json:"input"`
}

// TaskSteps is what became of the steps of the plan.
type TaskSteps struct {
	Current        *string       `json:"current"`          // the step that runs
	Counts         *StepCounts   `json:"counts,omitempty"` // of the step that runs
	Outcomes       []StepOutcome `json:"outcomes"`
	Evidence       []Evidence    `json:"evidence"`
	FailedOptional Set           `json:"failedOptional"` // steps whose verification failed and may
	FailedRequired Set           `json:"failedRequired"` // steps whose verification failed and must not
}

// StepOutcome is what came of a step of the plan.
type StepOutcome struct {
	StepID      string   `json:"stepId"`
	Description string   `json:"description"`
	Status      string   `json:"status"` // completed or failed
	Files       []string `json:"files"`  // that it changed
	Summary     string   `json:"summary"`
}

// Evidence is one check and how it came out.
type Evidence struct {
	Kind   string `json:"kind"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	At     int64  `json:"at"`
}

// StepCounts are the counts of the step that runs: a crash does not refill
// what it may use.
type StepCounts struct {
	StepID             string `json:"stepId"`
	Iterations         int    `json:"iterations"`
	LLMCalls           int    `json:"llmCalls"`
	Empty              int    `json:"empty"`
	Recovered          int    `json:"recovered"`
	Repeated           int    `json:"repeated"`
	ContextRecoveries  int    `json:"contextRecoveries"`
	MaxTokenRecoveries int    `json:"maxTokenRecoveries"`
	Notes              Set    `json:"notes,omitempty"` // hints that were given, each once
	Pause              string `json:"pause,omitempty"` // why the step pauses before its next request
}

// TaskRecovery is what was done about failures.
type TaskRecovery struct {
	Active        bool    `json:"active"`    // a recovery step runs
	Failure       string  `json:"failure"`   // the signature of the last failure that was recovered
	Recovered     Set     `json:"recovered"` // failed steps that were
	Class         *string `json:"class"`
	DisabledScope *string `json:"disabledScope"` // of the tool that was disabled last
	RetryReason   *string `json:"retryReason"`
}

// TaskQueues is what waits to be taken up, the oldest first.
type TaskQueues struct {
	FollowUps []FollowUp     `json:"followUps"`
	Feedback  []StepFeedback `json:"feedback"`
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
	Input         int64   `json:"input"` // tokens
	Output        int64   `json:"output"`
	Cost          float64 `json:"cost"`
	EarlierInput  int64   `json:"earlierInput"`
	EarlierOutput int64   `json:"earlierOutput"`
	EarlierCost   float64 `json:"earlierCost"`
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
	Waived               bool   `json:"waived,omitempty"` // the task may complete though the step failed
}

// TaskSettings is how a task was started.
type TaskSettings struct {
	Budget     json.RawMessage `json:"budget,omitempty"`
	AutoResume bool            `json:"autoResume"`
	Deep       bool            `json:"deep,omitempty"`
	PlanMode   string          `json:"planMode,omitempty"` // auto or none
	ModeSeq    int64           `json:"modeSeq,omitempty"`  // the change that set the permission mode

	Capabilities map[string]bool `json:"capabilities,omitempty"` // of the workspace
}

// NewTaskState is the state of a task that has just begun.
func NewTaskState() TaskState {
	s := TaskState{}
	s.Loop.Window = 1
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

// forkTask leaves behind what belongs to the parent alone: the right to go on
// by itself. A task that has not ended waits
// to be resumed.
func (b *body) forkTask() {
	if b.st.Task == nil {
		b.info.Task = nil
		return
	}
	next := b.taskState()
	next.Settings.AutoResume = false
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

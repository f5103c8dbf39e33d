package session

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

// ForkPoint is where a fork left its parent.
type ForkPoint struct {
	Version int64 `json:"version"`
	Seq     int64 `json:"seq"`
	Depth   int   `json:"depth,omitempty"` // how many forks lie above this one
}

// TaskRow is the part of a task that listings show.
type TaskRow struct {
	Title          string `json:"title"`
	Prompt         string `json:"prompt"`
	Status         string `json:"status"`
	TerminalStatus string `json:"terminalStatus,omitempty"`

	FailureClass                string          `json:"failureClass,omitempty"`
	Error                       string          `json:"error,omitempty"`
	StopReasons                 []string        `json:"stopReasons,omitempty"`
	WorkspaceID                 string          `json:"workspaceId,omitempty"`
	WorkspacePath               string          `json:"workspacePath,omitempty"`
	ExecutionMode               string          `json:"executionMode,omitempty"`
	PermissionMode              string          `json:"permissionMode,omitempty"`
	Run                         int             `json:"run,omitempty"`
	StartedAt                   int64           `json:"startedAt,omitempty"` // times are Unix milliseconds
	CompletedAt                 int64           `json:"completedAt,omitempty"`
	LastRunDurationMS           int64           `json:"lastRunDurationMs,omitempty"`
	ResultSummary               string          `json:"resultSummary,omitempty"`
	OutputFiles                 []string        `json:"outputFiles,omitempty"`
	BestKnownOutcome            json.RawMessage `json:"bestKnownOutcome,omitempty"`
	SuccessCriteria             json.RawMessage `json:"successCriteria,omitempty"`
	CurrentAttempt              int             `json:"currentAttempt,omitempty"`
	MaxAttempts                 int             `json:"maxAttempts,omitempty"`
	AwaitingUserInputReasonCode string          `json:"awaitingUserInputReasonCode,omitempty"`
	RetryReason                 string          `json:"retryReason,omitempty"`
	RecoveryClass               string          `json:"recoveryClass,omitempty"`
	ToolDisabledScope           string          `json:"toolDisabledScope,omitempty"`
	LastProgressScore           *float64        `json:"lastProgressScore,omitempty"`
	AutoContinueBlockReason     string          `json:"autoContinueBlockReason,omitempty"`
	PendingApprovals            int             `json:"pendingApprovals,omitempty"`
	Projection                  *TaskProjection `json:"projection,omitempty"`
}

func (r *TaskRow) clean() {
	*r = r.Clone()
	cleanAll(&r.Title, &r.Prompt, &r.Status, &r.TerminalStatus, &r.FailureClass, &r.Error, &r.WorkspaceID, &r.WorkspacePath, &r.ExecutionMode,
		&r.PermissionMode, &r.ResultSummary, &r.AwaitingUserInputReasonCode, &r.RetryReason, &r.RecoveryClass, &r.ToolDisabledScope, &r.AutoContinueBlockReason)
	r.StopReasons, r.OutputFiles = cleanList(r.StopReasons), cleanList(r.OutputFiles)
}

// Clone is a deep copy; lists that are empty are nil.
func (r TaskRow) Clone() TaskRow {
	r.StopReasons, r.OutputFiles = slices.Clone(r.StopReasons), slices.Clone(r.OutputFiles)
	if len(r.StopReasons) == 0 {
		r.StopReasons = nil
	}
	if len(r.OutputFiles) == 0 {
		r.OutputFiles = nil
	}
	r.BestKnownOutcome, r.SuccessCriteria = bytes.Clone(r.BestKnownOutcome), bytes.Clone(r.SuccessCriteria)
	r.LastProgressScore, r.Projection = clonePtr(r.LastProgressScore), clonePtr(r.Projection)
	return r
}

// WorkflowRow is the part of a workflow run that listings show.
type WorkflowRow struct {
	Name     string `json:"name"`
	SpecHash string `json:"specHash"`
	Pattern  string `json:"pattern"`
	Status   string `json:"status"`
	Error    string `json:"error,omitempty"`

	UnitsDone int  `json:"unitsDone,omitempty"` // by agents
	Units     int  `json:"units,omitempty"`     // that there will be; 0: the pattern decides as it goes
	Cost      Cost `json:"cost,omitempty"`
}

func (r *WorkflowRow) clean() { cleanAll(&r.Name, &r.SpecHash, &r.Pattern, &r.Status, &r.Error) }

// Info is a session's header: everything a listing needs, nothing that grows.
type Info struct {
	ID           string       `json:"sessionId"`
	Name         string       `json:"name"`
	Tenant       string       `json:"tenant"`
	UserID       string       `json:"userId"`
	ParentID     string       `json:"parentId"` // null in JSON when there is no parent
	Origin       Origin       `json:"origin"`
	Fork         *ForkPoint   `json:"fork"`
	Kind         Kind         `json:"kind"`
	Task         *TaskRow     `json:"task"`
	Workflow     *WorkflowRow `json:"workflow"`
	Depth        int          `json:"depth"`
	Status       Status       `json:"status"`
	Version      int64        `json:"version"`
	Seq          int64        `json:"seq"` // last change sealed into Version
	AgentName    string       `json:"agentName"`
	AgentLabel   string       `json:"agentLabel"`
	MessageCount int          `json:"messageCount"`
	Pending      int          `json:"pending,omitempty"` // calls that wait for a response
	CreatedAt    time.Time    `json:"createdAt"`
	UpdatedAt    time.Time    `json:"updatedAt"`
	ExpiresAt    *time.Time   `json:"expiresAt"`
}

type plainInfo Info

// MarshalJSON writes null for a missing parent.
func (i Info) MarshalJSON() ([]byte, error) {
	wire := struct {
		plainInfo
		ParentID *string `json:"parentId"`
	}{plainInfo: plainInfo(i)}
	if i.ParentID != "" {
		wire.ParentID = &i.ParentID
	}
	return encode(wire)
}

// UnmarshalJSON refuses unknown fields and values outside their rules.
func (i *Info) UnmarshalJSON(data []byte) error {
	var wire plainInfo // JSON null leaves a string empty
	if err := DecodeStrict("header", data, &wire); err != nil {
		return err
	}
	info, err := Info(wire).normal()
	if err != nil {
		return err
	}
	*i = info
	return nil
}

// normal is a deep copy as a session keeps it.
func (i Info) normal() (Info, error) {
	i = i.clone()
	cleanAll(&i.AgentName, &i.AgentLabel)
	if i.Task != nil {
		i.Task.clean()
	}
	if i.Workflow != nil {
		i.Workflow.clean()
	}
	i.CreatedAt, i.UpdatedAt, i.ExpiresAt = Instant(i.CreatedAt), Instant(i.UpdatedAt), instantPtr(i.ExpiresAt)
	return i, i.check()
}

func (i Info) check() error {
	if err := CheckID(i.ID); err != nil {
		return err
	}
	if err := CheckTenant(i.Tenant); err != nil {
		return err
	}
	if err := checkUser(i.UserID); err != nil {
		return err
	}
	if err := checkName(i.Name); err != nil {
		return err
	}
	if i.ParentID != "" {
		if err := checkID("parentId", i.ParentID); err != nil {
			return err
		}
	}
	if err := oneOf("origin", i.Origin, origins()); err != nil {
		return err
	}
	if err := oneOf("kind", i.Kind, Kinds()); err != nil {
		return err
	}
	if err := oneOf("status", i.Status, Statuses()); err != nil {
		return err
	}
	if i.Fork != nil && (i.Fork.Version < 0 || i.Fork.Seq < 0 || i.Fork.Depth < 0) {
		return invalid("fork", "version, seq and depth are not negative")
	}
	if i.Version < 0 || i.Seq < 0 || i.Depth < 0 || i.MessageCount < 0 || i.Pending < 0 {
		return invalid("header", "version, seq, depth, messageCount and pending are not negative")
	}
	if i.Version >= maxSeq || i.Seq >= maxSeq {
		return invalid("header", "version and seq are less than %d", int64(maxSeq))
	}
	return nil
}

// clone is a deep copy.
func (i Info) clone() Info {
	i.Fork, i.Workflow, i.ExpiresAt = clonePtr(i.Fork), clonePtr(i.Workflow), clonePtr(i.ExpiresAt)
	if i.Task != nil {
		row := i.Task.Clone()
		i.Task = &row
	}
	return i
}

// Infos is a list of headers.
type Infos []Info

// First is the first header, if there is one.
func (l Infos) First() (Info, bool) {
	if len(l) == 0 {
		return Info{}, false
	}
	return l[0], true
}

// WithStatus keeps the sessions in that status.
func (l Infos) WithStatus(status Status) Infos {
	return l.where(func(i Info) bool { return i.Status == status })
}

// WithAgent keeps the sessions of that agent.
func (l Infos) WithAgent(name string) Infos {
	return l.where(func(i Info) bool { return i.AgentName == name })
}

func (l Infos) where(keep func(Info) bool) Infos {
	kept := Infos{}
	for _, i := range l {
		if keep(i) {
			kept = append(kept, i.clone())
		}
	}
	return kept
}

// MarshalJSON writes [] for an empty list.
func (l Infos) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return encode([]Info(l))
}

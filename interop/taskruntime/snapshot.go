package taskruntime

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// The interchange format of a task.
const (
	SnapshotSchema  = "session_runtime_v2"
	SnapshotVersion = 2
)

// The most that a plan's summary lists.
const (
	mostCompleted = 20
	mostFailed    = 10
)

// view is a task as a snapshot shows it.
type view struct {
	sessionID string
	seq       int64 // the last change it covers
	now       int64
	model     string
	override  bool // the model was chosen in the session
	state     session.TaskState
	turns     []passage
	cuts      []cut // of a compact export
}

func viewOf(t task.View) view {
	s := t.Session
	v := view{sessionID: s.ID(), seq: t.Seq, now: t.At.UnixMilli(), model: s.Model(), override: s.State().Model != "", state: session.NewTaskState()}
	if t := s.Task(); t != nil {
		v.state = *t
	}
	v.state.Queues = t.Queues
	if v.state.Queues.PendingFollowUps == nil {
		v.state.Queues.PendingFollowUps = []session.FollowUp{}
	}
	if summary := s.Window().Summary; summary != nil && v.state.Transcript.ExplicitChatSummaryBlock == nil {
		text := summary.Text
		v.state.Transcript.ExplicitChatSummaryBlock = &text
		v.state.Transcript.ExplicitChatSummaryCreatedAt = summary.CreatedAt.UnixMilli()
	}
	v.turns, _ = normalise(turnsOf(s.WindowMessages()))
	return v
}

// payload is the snapshot, its keys in the order of the format. What another
// program left in the state stands where it stood, as far as the format says
// where that is.
func (v view) payload() (json.RawMessage, error) {
	state := v.state
	state.Tooling.StartedCalls = nil // the history has no call without a result
	state.Permissions.TemporaryGrants = surviving(state.Permissions.TemporaryGrants)
	foreign := state.Foreign

	o := object{{"schema", raw(SnapshotSchema)}, {"version", raw(SnapshotVersion)}, {"conversationHistory", historyJSON(v.turns)}}
	o = append(o, bucket("trackerState", state.Tracker, foreign))
	if state.Plan != nil {
		o = append(o, member{"planSummary", raw(summaryOf(state.Plan, state.Recovery.RecoveredFailureStepIDs))})
	} else if kept, ok := foreign.Get("planSummary"); ok {
		o = append(o, member{"planSummary", kept})
	}
	o = append(o,
		bucket("transcript", state.Transcript, foreign), bucket("tooling", state.Tooling, foreign), bucket("files", state.Files, foreign),
		bucket("loop", state.Loop, foreign), bucket("recovery", state.Recovery, foreign), bucket("queues", state.Queues, foreign),
		bucket("worker", state.Worker, foreign), bucket("permissions", state.Permissions, foreign),
		bucket("verification", state.Verification, foreign), bucket("checklist", state.Checklist, foreign),
		member{"timestamp", raw(v.now)}, member{"messageCount", raw(len(v.turns))},
	)
	for _, key := range modelKeys {
		kept, ok := foreign.Get(key)
		switch {
		case ok && !v.override:
			o = append(o, member{key, kept})
		case key == "llmProfileUsed":
			o = append(o, member{key, raw("")})
		default:
			o = append(o, member{key, raw(v.model)})
		}
	}
	o = append(o, bucket("usageTotals", totalsOf(state.Usage), foreign))
	for key, value := range foreign.All() {
		if !inBucket(key) && !known(key) {
			o = append(o, member{key, value})
		}
	}
	o = append(o, member{"sessionId", raw(v.sessionID)}, member{"seq", raw(v.seq)})
	if state.Plan != nil {
		o = append(o, member{"plan", raw(state.Plan)})
	}
	o = append(o, member{"usage", raw(state.Usage)})
	if len(state.Approvals) > 0 {
		o = append(o, member{"approvals", raw(state.Approvals)})
	}
	if len(v.cuts) > 0 {
		o = append(o, member{"truncated", raw(v.cuts)})
	}
	return sealedPayload(o)
}

// modelKeys say which model the task was with. Those that came with an import
// are kept until the session chooses a model of its own.
var modelKeys = []string{"modelId", "modelKey", "llmProfileUsed", "resolvedModelKey"}

// known reports a top-level key that the format gives a place.
func known(key string) bool {
	switch key {
	case "schema", "version", "conversationHistory", "trackerState", "planSummary", "transcript", "tooling", "files", "loop", "recovery",
		"queues", "worker", "permissions", "verification", "checklist", "timestamp", "messageCount", "modelId", "modelKey", "llmProfileUsed",
		"resolvedModelKey", "usageTotals", "sessionId", "seq", "plan", "usage", "approvals", "truncated", "digest", "estimatedSizeBytes":
		return true
	}
	return false
}

// inBucket reports a foreign key that was found inside a bucket.
func inBucket(key string) bool {
	name, _, ok := strings.Cut(key, ".")
	switch name {
	case "trackerState", "transcript", "tooling", "files", "loop", "recovery", "queues", "worker", "permissions", "verification", "checklist", "usageTotals":
		return ok
	}
	return false
}

// bucket is a bucket with the keys that another program left in it.
func bucket(name string, value any, foreign session.Foreign) member {
	data := raw(value)
	for key, extra := range foreign.All() {
		if inner, ok := strings.CutPrefix(key, name+"."); ok {
			comma := ","
			if string(data) == "{}" {
				comma = ""
			}
			data = append(append(append(data[:len(data)-1], comma...), raw(inner)...), ':')
			data = append(append(data, extra...), '}')
		}
	}
	return member{name, data}
}

func historyJSON(turns []passage) json.RawMessage {
	out := []byte{'['}
	for i, t := range turns {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, t.JSON()...)
	}
	return append(out, ']')
}

// sealedPayload adds size and digest, which are those of everything else.
func sealedPayload(o object) (json.RawMessage, error) {
	body, err := compactJSON(o.JSON())
	if err != nil {
		return nil, &session.SnapshotError{Where: "payload", Reason: err.Error()}
	}
	end := object{{"digest", raw(digestOf(body))}, {"estimatedSizeBytes", raw(len(body))}}.JSON()
	return append(append(body[:len(body)-1], ','), end[1:]...), nil
}

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// checkDigest refuses a payload that is not the one that was written. Where
// there is no digest nothing is said.
func checkDigest(where string, o object) error {
	want, ok := o.get("digest")
	if !ok {
		return nil
	}
	var rest object
	for _, m := range o {
		if m.key != "digest" && m.key != "estimatedSizeBytes" {
			rest = append(rest, m)
		}
	}
	body, err := compactJSON(rest.JSON())
	if err != nil {
		return &session.SnapshotError{Where: where, Reason: err.Error()}
	}
	if have := digestOf(body); jsonText(want) != have {
		return &session.SnapshotError{Where: where + ": digest", Reason: "is not that of the snapshot, which was changed or cut"}
	}
	return nil
}

func surviving(grants session.Pairs[session.Grant]) session.Pairs[session.Grant] {
	var kept session.Pairs[session.Grant]
	for key, g := range grants.All() {
		if g.SurvivesRestart {
			kept = kept.With(key, g)
		}
	}
	return kept
}

// planSummary is a plan for readers that know no plans.
type planSummary struct {
	Description    string          `json:"description"`
	CompletedSteps []string        `json:"completedSteps"`
	FailedSteps    []failedSummary `json:"failedSteps"`
}

type failedSummary struct {
	Description string `json:"description"`
	Error       string `json:"error"`
}

func summaryOf(p *session.Plan, recovered session.Set) planSummary {
	s := planSummary{Description: p.Description, CompletedSteps: []string{}, FailedSteps: []failedSummary{}}
	for _, step := range p.Steps {
		switch {
		case step.Status == "completed" && len(s.CompletedSteps) < mostCompleted:
			s.CompletedSteps = append(s.CompletedSteps, step.Description)
		case step.Status == "failed" && len(s.FailedSteps) < mostFailed && !recovered.Has(step.ID):
			s.FailedSteps = append(s.FailedSteps, failedSummary{step.Description, step.Error})
		}
	}
	return s
}

// usageTotals is what a task has used over all its windows.
type usageTotals struct {
	InputTokens  int64   `json:"inputTokens"`
	OutputTokens int64   `json:"outputTokens"`
	Cost         float64 `json:"cost"`
}

func totalsOf(u session.TaskUsage) usageTotals {
	return usageTotals{
		u.UsageOffsetInputTokens + u.TotalInputTokens, u.UsageOffsetOutputTokens + u.TotalOutputTokens, u.UsageOffsetCost + u.TotalCost,
	}
}

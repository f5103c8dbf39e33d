package taskruntime

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// Schema and version of the snapshots that Export writes.
const (
	SnapshotSchema  = "session_runtime_v2"
	SnapshotVersion = 2
)

// The most steps that a plan's summary lists.
const (
	maxCompleted = 20
	maxFailed    = 10
)

// view holds everything that a snapshot shows.
type view struct {
	sessionID string
	seq       int64 // the last change that the snapshot covers
	now       int64
	model     string
	override  bool // the model was changed in the session
	state     session.TaskState
	history   []historyMessage
	cuts      []cut // of a compact export
}

func newView(t task.View) view {
	s := t.Session
	v := view{sessionID: s.ID(), seq: t.Seq, now: t.At.UnixMilli(), model: s.Model(), override: s.State().Model != "", state: session.NewTaskState()}
	if t := s.Task(); t != nil {
		v.state = *t
	}
	v.state.Queues = t.Queues
	v.addSummary(s)
	v.history, _ = normalise(historyOf(s.WindowMessages()))
	return v
}

// addSummary adds the summary at the start of the window, unless it is the
// imported one.
func (v *view) addSummary(s session.Session) {
	const key = "transcript.explicitChatSummary"
	summary := s.Window().Summary
	if summary == nil {
		return
	}
	if kept, ok := v.state.Imported.Get(key + "Block"); ok && jsonText(kept) == summary.Text {
		return
	}
	v.state.Imported = v.state.Imported.With(key+"Block", rawJSON(summary.Text)).
		With(key+"CreatedAt", rawJSON(summary.CreatedAt.UnixMilli())).
		With(key+"SourceMessageCount", rawJSON(max(s.Info().MessageCount-len(s.WindowMessages()), 0)))
}

// addSignal moves the oldest feedback to the field of its own in the format.
func (v *view) addSignal() {
	if q := &v.state.Queues; len(q.Feedback) > 0 {
		v.state.Imported = v.state.Imported.With(signalKey, rawJSON(q.Feedback[0]))
		q.Feedback = q.Feedback[1:]
	}
	if v.state.Queues.FollowUps == nil {
		v.state.Queues.FollowUps = []session.FollowUp{}
	}
}

// The most paths in trackerState.
const (
	maxTrackedFiles   = 50
	maxTrackedFolders = 20
)

// addTracker adds the files and folders that were read since the import.
func (v *view) addTracker() {
	add := func(key string, paths []string, most int) {
		kept, _ := v.state.Imported.Get(key)
		var list []string
		_ = json.Unmarshal(kept, &list) // anything but a list is replaced
		for _, p := range paths {
			list = append(slices.DeleteFunc(list, func(other string) bool { return other == p }), p)
		}
		if len(list) > 0 {
			v.state.Imported = v.state.Imported.With(key, rawJSON(list[max(0, len(list)-most):]))
		}
	}
	files := v.state.Files
	read := pathsIn(files.Reads)
	if _, imported := v.state.Imported.Get("trackerState.readFiles"); !imported {
		read = pathsIn(files.Read)
	}
	add("trackerState.readFiles", read, maxTrackedFiles)
	add("trackerState.directories", pathsIn(files.Listings), maxTrackedFolders)
}

func pathsIn[V any](p session.Pairs[V]) (paths []string) {
	for path := range p.All() {
		paths = append(paths, path)
	}
	return paths
}

// payload writes the snapshot, its keys in the order of the format. Unknown
// fields of an imported snapshot go back to where they were.
func (v view) payload() (json.RawMessage, error) {
	v.state.Permissions.TemporaryGrants = survivingGrants(v.state.Permissions.TemporaryGrants)
	v.addSignal()
	v.addTracker()
	state := &v.state

	o := object{{"schema", rawJSON(SnapshotSchema)}, {"version", rawJSON(SnapshotVersion)}, {"conversationHistory", historyJSON(v.history)}}
	for _, b := range buckets {
		if b.name != "usage" {
			o = append(o, b.write(state))
		}
		if b.name != "trackerState" {
			continue
		}
		if state.Plan != nil {
			o = append(o, member{"planSummary", rawJSON(summarisePlan(state.Plan, state.Recovery.Recovered))})
		} else if kept, ok := state.Imported.Get("planSummary"); ok {
			o = append(o, member{"planSummary", kept})
		}
	}
	o = append(o, member{"timestamp", rawJSON(v.now)}, member{"messageCount", rawJSON(len(v.history))})
	for _, key := range modelKeys {
		kept, ok := state.Imported.Get(key)
		switch {
		case ok && !v.override:
			o = append(o, member{key, kept})
		case key == "llmProfileUsed":
			o = append(o, member{key, rawJSON("")})
		default:
			o = append(o, member{key, rawJSON(v.model)})
		}
	}
	totals, _ := readObject(rawJSON(totalsOf(state.Usage)))
	var rest object
	for key, value := range state.Imported.All() {
		if extra, ok := strings.CutPrefix(key, "usageTotals."); ok {
			totals = append(totals, member{extra, value})
		} else if !inBucket(key) && !known(key) {
			rest = append(rest, member{key, value})
		}
	}
	o = append(append(o, member{"usageTotals", totals.JSON()}), rest...)
	o = append(o, member{"sessionId", rawJSON(v.sessionID)}, member{"seq", rawJSON(v.seq)})
	if state.Plan != nil {
		o = append(o, member{"plan", rawJSON(state.Plan)})
	}
	o = append(o, bucketNamed("usage").write(state))
	if len(state.Approvals) > 0 {
		o = append(o, member{"approvals", rawJSON(state.Approvals)})
	}
	if len(v.cuts) > 0 {
		o = append(o, member{"truncated", rawJSON(v.cuts)})
	}
	return sealPayload(o)
}

// modelKeys name the model. Imported values stay until the session's model is
// changed.
var modelKeys = []string{"modelId", "modelKey", "llmProfileUsed", "resolvedModelKey"}

// known reports whether the format has this top-level key.
func known(key string) bool {
	switch key {
	case "schema", "version", "conversationHistory", "trackerState", "planSummary", "transcript", "tooling", "files", "loop", "recovery",
		"queues", "worker", "permissions", "verification", "checklist", "timestamp", "messageCount", "modelId", "modelKey", "llmProfileUsed",
		"resolvedModelKey", "usageTotals", "sessionId", "seq", "plan", "usage", "approvals", "truncated", "digest", "estimatedSizeBytes":
		return true
	}
	return false
}

// inBucket reports whether an imported key belongs inside a bucket.
func inBucket(key string) bool {
	name, _, ok := strings.Cut(key, ".")
	return ok && (name == "usageTotals" || slices.ContainsFunc(buckets, func(b bucket) bool { return b.name == name }))
}

func historyJSON(history []historyMessage) json.RawMessage {
	return listJSON(history, historyMessage.JSON)
}

// sealPayload adds the size and the digest of everything else.
func sealPayload(o object) (json.RawMessage, error) {
	body, err := compactJSON(o.JSON())
	if err != nil {
		return nil, &session.SnapshotError{Where: "payload", Reason: err.Error()}
	}
	end := object{{"digest", rawJSON(digestOf(body))}, {"estimatedSizeBytes", rawJSON(len(body))}}.JSON()
	return append(append(body[:len(body)-1], ','), end[1:]...), nil
}

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// checkDigest refuses a snapshot that differs from its digest. A snapshot
// without a digest passes.
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
		return &session.SnapshotError{Where: where + ": digest", Reason: "does not match; the snapshot was changed or cut after it was written"}
	}
	return nil
}

func survivingGrants(grants session.Pairs[session.Grant]) session.Pairs[session.Grant] {
	var kept session.Pairs[session.Grant]
	for key, g := range grants.All() {
		if g.SurvivesRestart {
			kept = kept.With(key, g)
		}
	}
	return kept
}

// planSummary shows a plan to programs without plans.
type planSummary struct {
	Description    string          `json:"description"`
	CompletedSteps []string        `json:"completedSteps"`
	FailedSteps    []failedSummary `json:"failedSteps"`
}

type failedSummary struct {
	Description string `json:"description"`
	Error       string `json:"error"`
}

func summarisePlan(p *session.Plan, recovered session.Set) planSummary {
	s := planSummary{Description: p.Description, CompletedSteps: []string{}, FailedSteps: []failedSummary{}}
	for _, step := range p.Steps {
		switch {
		case step.Status == "completed" && len(s.CompletedSteps) < maxCompleted:
			s.CompletedSteps = append(s.CompletedSteps, step.Description)
		case step.Status == "failed" && len(s.FailedSteps) < maxFailed && !recovered.Has(step.ID):
			s.FailedSteps = append(s.FailedSteps, failedSummary{step.Description, step.Error})
		}
	}
	return s
}

// usageTotals sums the usage of a task over all its windows.
type usageTotals struct {
	InputTokens  int64   `json:"inputTokens"`
	OutputTokens int64   `json:"outputTokens"`
	Cost         float64 `json:"cost"`
}

func totalsOf(u session.TaskUsage) usageTotals {
	return usageTotals{
		u.EarlierInput + u.Input, u.EarlierOutput + u.Output, u.EarlierCost + u.Cost,
	}
}

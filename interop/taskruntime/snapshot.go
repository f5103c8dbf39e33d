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
	state     State
	turns     []passage
	cuts      []cut // of a compact export
}

func viewOf(t task.View) view {
	s := t.Session
	v := view{sessionID: s.ID(), seq: t.Seq, now: t.At.UnixMilli(), model: s.Model(), override: s.State().Model != "", state: stateOf(s)}
	v.state.Queues = t.Queues
	v.addSummary(s)
	v.turns, _ = normalise(turnsOf(s.WindowMessages()))
	return v
}

// addSummary shows the summary that the window begins with, unless it is the
// one that was imported.
func (v *view) addSummary(s session.Session) {
	const key = "transcript.explicitChatSummary"
	summary := s.Window().Summary
	if summary == nil {
		return
	}
	if kept, ok := v.state.Imported.Get(key + "Block"); ok && jsonText(kept) == summary.Text {
		return
	}
	v.state.Imported = v.state.Imported.With(key+"Block", raw(summary.Text)).
		With(key+"CreatedAt", raw(summary.CreatedAt.UnixMilli())).
		With(key+"SourceMessageCount", raw(max(s.Info().MessageCount-len(s.WindowMessages()), 0)))
}

// addSignal shows the oldest feedback alone, as the format has it.
func (v *view) addSignal() {
	if q := &v.state.Queues; len(q.Feedback) > 0 {
		v.state.Imported = v.state.Imported.With(signalKey, raw(q.Feedback[0]))
		q.Feedback = q.Feedback[1:]
	}
	if v.state.Queues.FollowUps == nil {
		v.state.Queues.FollowUps = []session.FollowUp{}
	}
}

// The most paths that trackerState has.
const (
	mostTrackedFiles   = 50
	mostTrackedFolders = 20
)

// addTracker adds the files and folders that were read since the import.
func (v *view) addTracker() {
	add := func(key string, paths []string, most int) {
		kept, _ := v.state.Imported.Get(key)
		var list []string
		_ = json.Unmarshal(kept, &list) // what is no list is replaced
		for _, p := range paths {
			list = append(slices.DeleteFunc(list, func(other string) bool { return other == p }), p)
		}
		if len(list) > 0 {
			v.state.Imported = v.state.Imported.With(key, raw(list[max(0, len(list)-most):]))
		}
	}
	files := v.state.Files
	read := pathsIn(files.Reads)
	if _, imported := v.state.Imported.Get("trackerState.readFiles"); !imported {
		read = pathsIn(files.Read)
	}
	add("trackerState.readFiles", read, mostTrackedFiles)
	add("trackerState.directories", pathsIn(files.Listings), mostTrackedFolders)
}

func pathsIn[V any](p session.Pairs[V]) (paths []string) {
	for path := range p.All() {
		paths = append(paths, path)
	}
	return paths
}

// payload is the snapshot, its keys in the order of the format. What another
// program left in the state stands where it stood, as far as the format says
// where that is.
func (v view) payload() (json.RawMessage, error) {
	v.state.Permissions.TemporaryGrants = surviving(v.state.Permissions.TemporaryGrants)
	v.addSignal()
	v.addTracker()
	state := &v.state

	o := object{{"schema", raw(SnapshotSchema)}, {"version", raw(SnapshotVersion)}, {"conversationHistory", historyJSON(v.turns)}}
	for _, b := range buckets {
		if b.name != "usage" {
			o = append(o, b.write(state))
		}
		if b.name != "trackerState" {
			continue
		}
		if state.Plan != nil {
			o = append(o, member{"planSummary", raw(summaryOf(state.Plan, state.Recovery.Recovered))})
		} else if kept, ok := state.Imported.Get("planSummary"); ok {
			o = append(o, member{"planSummary", kept})
		}
	}
	o = append(o, member{"timestamp", raw(v.now)}, member{"messageCount", raw(len(v.turns))})
	for _, key := range modelKeys {
		kept, ok := state.Imported.Get(key)
		switch {
		case ok && !v.override:
			o = append(o, member{key, kept})
		case key == "llmProfileUsed":
			o = append(o, member{key, raw("")})
		default:
			o = append(o, member{key, raw(v.model)})
		}
	}
	totals, _ := readObject(raw(totalsOf(state.Usage)))
	var rest object
	for key, value := range state.Imported.All() {
		if extra, ok := strings.CutPrefix(key, "usageTotals."); ok {
			totals = append(totals, member{extra, value})
		} else if !inBucket(key) && !known(key) {
			rest = append(rest, member{key, value})
		}
	}
	o = append(append(o, member{"usageTotals", totals.JSON()}), rest...)
	o = append(o, member{"sessionId", raw(v.sessionID)}, member{"seq", raw(v.seq)})
	if state.Plan != nil {
		o = append(o, member{"plan", raw(state.Plan)})
	}
	o = append(o, bucketNamed("usage").write(state))
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

// inBucket reports an imported key that was found inside a bucket.
func inBucket(key string) bool {
	name, _, ok := strings.Cut(key, ".")
	return ok && (name == "usageTotals" || slices.ContainsFunc(buckets, func(b bucket) bool { return b.name == name }))
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
		u.EarlierInput + u.Input, u.EarlierOutput + u.Output, u.EarlierCost + u.Cost,
	}
}

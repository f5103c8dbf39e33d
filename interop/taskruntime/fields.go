package taskruntime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// bucket is an object of a snapshot. A bucket without fields has the fields of
// the group of the same name in session.TaskState.
type bucket struct {
	name     string
	required bool
	fields   []field
}

// field maps a field of a bucket to a field of session.TaskState.
type field struct {
	name     string
	path     string            // group and field; empty: not used here, kept for the next export
	fallback string            // for a field without a path that is absent; equal values are not kept, except lists
	added    bool              // an addition of Holdfast to the format, written if not empty
	renames  map[string]string // our key inside the value: the format's key
}

// buckets and their fields are in the order of the format.
var buckets = []bucket{
	{name: "trackerState", fields: []field{
		{name: "readFiles", fallback: "[]"}, {name: "createdFiles", path: "files.created"}, {name: "directories", fallback: "[]"},
	}},
	{name: "transcript", required: true, fields: []field{
		{name: "lastUserMessage", path: "said.user"}, {name: "lastAssistantOutput", path: "said.answer"},
		{name: "lastNonVerificationOutput", path: "said.result"}, {name: "lastAssistantText", path: "said.shown"},
		{name: "explicitChatSummaryBlock", fallback: "null"}, {name: "explicitChatSummaryCreatedAt", fallback: "0"},
		{name: "explicitChatSummarySourceMessageCount", fallback: "0"},
		{name: "stepOutcomeSummaries", path: "steps.outcomes", renames: map[string]string{"files": "mutatedFiles", "summary": "outcomeSummary"}},
	}},
	{name: "tooling", required: true, fields: []field{
		{name: "toolResultMemory", path: "tools.results", renames: map[string]string{"at": "timestamp"}},
		{name: "webEvidenceMemory", path: "tools.pages", renames: map[string]string{"at": "timestamp", "class": "sourceClass", "published": "publishDate"}},
		{name: "toolUsageCounts", path: "tools.calls"}, {name: "successfulToolUsageCounts", path: "tools.successes"},
		{name: "toolUsageEventsSinceDecay", path: "tools.sinceHalved"}, {name: "toolSelectionEpoch", path: "tools.halvings"},
		{name: "discoveredDeferredToolNames", path: "tools.found"}, {name: "toolFailures", path: "tools.failures", added: true},
		{name: "lastWebFetchFailure", path: "tools.pageFailure", added: true, renames: map[string]string{"at": "timestamp"}},
		{name: "budgetCounters", path: "tools.counts", added: true},
	}},
	{name: "files", required: true, fields: []field{
		{name: "filesReadTracker", path: "files.read", renames: map[string]string{"bytes": "sizeBytes"}},
		{name: "fileReads", path: "files.reads", added: true}, {name: "dirListings", path: "files.listings", added: true},
	}},
	{name: "loop", required: true, fields: []field{
		{name: "globalTurnCount", path: "loop.turns"}, {name: "lifetimeTurnCount", path: "loop.lifetimeTurns"},
		{name: "continuationCount", path: "loop.continuations"}, {name: "continuationWindow", path: "loop.window"},
		{name: "windowStartEventCount", path: "loop.windowStart"}, {name: "noProgressStreak", path: "loop.noProgress"},
		{name: "lastLoopFingerprint", path: "loop.fingerprint"}, {name: "compactionCount", path: "loop.compactions"},
		{name: "lastCompactionAt", path: "loop.compactedAt"}, {name: "lastCompactionTokensBefore", path: "loop.tokensBefore"},
		{name: "lastCompactionTokensAfter", path: "loop.tokensAfter"}, {name: "blockedLoopFingerprintForWindow", path: "loop.blockedText"},
		{name: "pendingLoopStrategySwitchMessage", path: "loop.advice"}, {name: "softDeadlineTriggered", path: "loop.softDeadline"},
		{name: "wrapUpRequested", path: "loop.wrapUp"}, {name: "turnWindowSoftExhaustedNotified", path: "loop.lowTurnsNoted"},
		{name: "followUpRecoveryAttemptsInCurrentMessage", path: "loop.followUpRetries"},
		{name: "lastFollowUpRecoveryBlockReason", path: "loop.followUpBlock"}, {name: "iterationCount", path: "loop.iterations"},
		{name: "currentStepId", path: "steps.current"}, {name: "lastPreCompactionFlushAt", fallback: "0"},
		{name: "lastPreCompactionFlushTokenCount", fallback: "0"}, {name: "streakWindow", path: "loop.noProgressWindow", added: true},
		{name: "softLandingInjected", path: "loop.landingNoted", added: true}, {name: "blockedLoop", path: "loop.blocked", added: true},
		{name: "kernel", path: "steps.counts", added: true},
	}},
	{name: "recovery", required: true, fields: []field{
		{name: "recoveryRequestActive", path: "recovery.active"}, {name: "lastRecoveryFailureSignature", path: "recovery.failure"},
		{name: "recoveredFailureStepIds", path: "recovery.recovered"}, {name: "lastRecoveryClass", path: "recovery.class"},
		{name: "lastToolDisabledScope", path: "recovery.disabledScope"}, {name: "lastRetryReason", path: "recovery.retryReason"},
	}},
	{name: "queues", required: true, fields: []field{
		{name: "pendingFollowUps", path: "queues.followUps"}, {name: "stepFeedbackSignal", fallback: "null"}, {name: "feedback", path: "queues.feedback", added: true},
	}},
	{name: "worker", required: true, fields: []field{{name: "dispatchedMentionedAgents", fallback: "false"}, {name: "verificationAgentState", fallback: "{}"}}},
	{name: "permissions"},
	{name: "verification", required: true, fields: []field{
		{name: "verificationEvidenceEntries", path: "steps.evidence", renames: map[string]string{"at": "capturedAt"}},
		{name: "nonBlockingVerificationFailedStepIds", path: "steps.failedOptional"},
		{name: "blockingVerificationFailedStepIds", path: "steps.failedRequired"},
	}},
	{name: "checklist"},
	{name: "usage", fields: []field{
		{name: "totalInputTokens", path: "usage.input"}, {name: "totalOutputTokens", path: "usage.output"}, {name: "totalCost", path: "usage.cost"},
		{name: "usageOffsetInputTokens", path: "usage.earlierInput"}, {name: "usageOffsetOutputTokens", path: "usage.earlierOutput"},
		{name: "usageOffsetCost", path: "usage.earlierCost"},
	}},
}

func bucketNamed(name string) bucket {
	i := slices.IndexFunc(buckets, func(b bucket) bool { return b.name == name })
	if i < 0 {
		return bucket{name: name}
	}
	return buckets[i]
}

func (b bucket) field(s *session.TaskState, name string) (field, bool) {
	for _, f := range b.allFields(s) {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

func (b bucket) allFields(s *session.TaskState) []field {
	group, ok := structField(reflect.ValueOf(s).Elem(), b.name)
	if b.fields != nil || !ok {
		return b.fields
	}
	var list []field
	for i := range group.NumField() {
		name, how, _ := strings.Cut(group.Type().Field(i).Tag.Get("json"), ",")
		list = append(list, field{name: name, path: b.name + "." + name, added: how != ""})
	}
	return list
}

func (f field) value(s *session.TaskState) reflect.Value {
	group, name, _ := strings.Cut(f.path, ".")
	v, _ := structField(reflect.ValueOf(s).Elem(), group)
	v, _ = structField(v, name)
	return v
}

// structField finds a struct's field by its exact JSON name.
func structField(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// read sets the fields of a state from an object. Fields that are absent or null
// keep their values; keep is called for fields without a path.
func (b bucket) read(value json.RawMessage, s *session.TaskState, keep func(key string, value json.RawMessage)) error {
	o, err := readObject(value)
	if err != nil {
		return &fieldError{b.name, err.Error()}
	}
	for _, m := range o {
		f, ok := b.field(s, m.key)
		switch {
		case ok && string(m.value) == "null":
		case !ok, f.path == "":
			if !ok || f.fallback == "[]" || string(m.value) != f.fallback {
				keep(b.name+"."+m.key, m.value)
			}
		default:
			v := f.value(s)
			fresh := reflect.New(v.Type())
			if err := json.Unmarshal(f.renameParts(m.value, true), fresh.Interface()); err != nil {
				return &fieldError{b.name + "." + m.key, reasonOf(err)}
			}
			v.Set(fresh.Elem())
		}
	}
	return nil
}

// write writes the bucket, with the unknown fields that an import kept.
func (b bucket) write(s *session.TaskState) member {
	var o object
	for _, f := range b.allFields(s) {
		switch {
		case f.path == "":
			value, ok := s.Imported.Get(b.name + "." + f.name)
			if !ok {
				value = json.RawMessage(f.fallback)
			}
			o = append(o, member{f.name, value})
		case f.added && isEmpty(f.value(s)):
		default:
			o = append(o, member{f.name, f.renameParts(rawJSON(f.value(s).Interface()), false)})
		}
	}
	for key, value := range s.Imported.All() {
		inner, ok := strings.CutPrefix(key, b.name+".")
		if _, known := b.field(s, inner); ok && !known {
			o = append(o, member{inner, value})
		}
	}
	return member{b.name, o.JSON()}
}

func isEmpty(v reflect.Value) bool {
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

// renameParts changes keys inside a value to the names of the state (ours), or
// to those of the format.
func (f field) renameParts(value json.RawMessage, ours bool) json.RawMessage {
	if len(f.renames) == 0 {
		return value
	}
	if o, err := readObject(value); err == nil {
		for i := range o {
			for our, theirs := range f.renames {
				switch {
				case ours && o[i].key == theirs:
					o[i].key = our
				case !ours && o[i].key == our:
					o[i].key = theirs
				default:
					continue
				}
				break
			}
		}
		return o.JSON()
	}
	list, ok := array(value)
	if !ok {
		return value
	}
	for i := range list {
		list[i] = f.renameParts(list[i], ours)
	}
	return rawJSON(list)
}

// differences lists the paths, below path, where the kept value lost or changed
// something of the value that came. Added keys do not count.
func differences(path string, came, kept json.RawMessage) []string {
	a, errA := compactJSON(came)
	b, errB := compactJSON(kept)
	if errA != nil || errB != nil {
		return []string{path}
	}
	if bytes.Equal(a, b) {
		return nil
	}
	x, errX := readObject(a)
	y, errY := readObject(b)
	if errX == nil && errY == nil {
		var list []string
		for _, m := range x {
			other, ok := y.get(m.key)
			if !ok {
				list = append(list, path+"."+m.key)
				continue
			}
			list = append(list, differences(path+"."+m.key, m.value, other)...)
		}
		return list
	}
	v, okV := array(a)
	w, okW := array(b)
	if !okV || !okW || len(v) != len(w) {
		return []string{path}
	}
	var list []string
	for i := range v {
		list = append(list, differences(fmt.Sprintf("%s[%d]", path, i), v[i], w[i])...)
	}
	return list
}

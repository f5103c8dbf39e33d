package taskruntime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// bucket is an object of a snapshot. One without fields has the fields of the
// group of the same name in a task's state.
type bucket struct {
	name     string
	required bool
	fields   []field
}

// field is a field of a bucket and where a task's state has it.
type field struct {
	name  string
	place string            // group and field; empty: nothing here reads it, and it is kept as it came
	none  string            // the value of a field without a place where none came; a list is kept even so
	added bool              // Holdfast adds it to the format, where it says something
	parts map[string]string // parts of the value by their names in the state
}

// buckets are in the order of the format, and so are their fields.
var buckets = []bucket{
	{name: "trackerState", fields: []field{
		{name: "readFiles", none: "[]"}, {name: "createdFiles", place: "files.created"}, {name: "directories", none: "[]"},
	}},
	{name: "transcript", required: true, fields: []field{
		{name: "lastUserMessage", place: "said.user"}, {name: "lastAssistantOutput", place: "said.answer"},
		{name: "lastNonVerificationOutput", place: "said.result"}, {name: "lastAssistantText", place: "said.shown"},
		{name: "explicitChatSummaryBlock", none: "null"}, {name: "explicitChatSummaryCreatedAt", none: "0"},
		{name: "explicitChatSummarySourceMessageCount", none: "0"},
		{name: "stepOutcomeSummaries", place: "steps.outcomes", parts: map[string]string{"files": "mutatedFiles", "summary": "outcomeSummary"}},
	}},
	{name: "tooling", required: true, fields: []field{
		{name: "toolResultMemory", place: "tools.results", parts: map[string]string{"at": "timestamp"}},
		{name: "webEvidenceMemory", place: "tools.pages", parts: map[string]string{"at": "timestamp", "class": "sourceClass", "published": "publishDate"}},
		{name: "toolUsageCounts", place: "tools.calls"}, {name: "successfulToolUsageCounts", place: "tools.successes"},
		{name: "toolUsageEventsSinceDecay", place: "tools.sinceHalved"}, {name: "toolSelectionEpoch", place: "tools.halvings"},
		{name: "discoveredDeferredToolNames", place: "tools.found"}, {name: "toolFailures", place: "tools.failures", added: true},
		{name: "lastWebFetchFailure", place: "tools.pageFailure", added: true, parts: map[string]string{"at": "timestamp"}},
		{name: "budgetCounters", place: "tools.counts", added: true},
	}},
	{name: "files", required: true, fields: []field{
		{name: "filesReadTracker", place: "files.read", parts: map[string]string{"bytes": "sizeBytes"}},
		{name: "fileReads", place: "files.reads", added: true}, {name: "dirListings", place: "files.listings", added: true},
	}},
	{name: "loop", required: true, fields: []field{
		{name: "globalTurnCount", place: "loop.turns"}, {name: "lifetimeTurnCount", place: "loop.lifetimeTurns"},
		{name: "continuationCount", place: "loop.continuations"}, {name: "continuationWindow", place: "loop.window"},
		{name: "windowStartEventCount", place: "loop.windowStart"}, {name: "noProgressStreak", place: "loop.noProgress"},
		{name: "lastLoopFingerprint", place: "loop.fingerprint"}, {name: "compactionCount", place: "loop.compactions"},
		{name: "lastCompactionAt", place: "loop.compactedAt"}, {name: "lastCompactionTokensBefore", place: "loop.tokensBefore"},
		{name: "lastCompactionTokensAfter", place: "loop.tokensAfter"}, {name: "blockedLoopFingerprintForWindow", place: "loop.blockedText"},
		{name: "pendingLoopStrategySwitchMessage", place: "loop.advice"}, {name: "softDeadlineTriggered", place: "loop.softDeadline"},
		{name: "wrapUpRequested", place: "loop.wrapUp"}, {name: "turnWindowSoftExhaustedNotified", place: "loop.lowTurnsNoted"},
		{name: "followUpRecoveryAttemptsInCurrentMessage", place: "loop.followUpRetries"},
		{name: "lastFollowUpRecoveryBlockReason", place: "loop.followUpBlock"}, {name: "iterationCount", place: "loop.iterations"},
		{name: "currentStepId", place: "steps.current"}, {name: "lastPreCompactionFlushAt", none: "0"},
		{name: "lastPreCompactionFlushTokenCount", none: "0"}, {name: "streakWindow", place: "loop.noProgressWindow", added: true},
		{name: "softLandingInjected", place: "loop.landingNoted", added: true}, {name: "blockedLoop", place: "loop.blocked", added: true},
		{name: "kernel", place: "steps.counts", added: true},
	}},
	{name: "recovery", required: true, fields: []field{
		{name: "recoveryRequestActive", place: "recovery.active"}, {name: "lastRecoveryFailureSignature", place: "recovery.failure"},
		{name: "recoveredFailureStepIds", place: "recovery.recovered"}, {name: "lastRecoveryClass", place: "recovery.class"},
		{name: "lastToolDisabledScope", place: "recovery.disabledScope"}, {name: "lastRetryReason", place: "recovery.retryReason"},
	}},
	{name: "queues", required: true, fields: []field{
		{name: "pendingFollowUps", place: "queues.followUps"}, {name: "stepFeedbackSignal", none: "null"}, {name: "feedback", place: "queues.feedback", added: true},
	}},
	{name: "worker", required: true, fields: []field{{name: "dispatchedMentionedAgents", none: "false"}, {name: "verificationAgentState", none: "{}"}}},
	{name: "permissions"},
	{name: "verification", required: true, fields: []field{
		{name: "verificationEvidenceEntries", place: "steps.evidence", parts: map[string]string{"at": "capturedAt"}},
		{name: "nonBlockingVerificationFailedStepIds", place: "steps.failedOptional"},
		{name: "blockingVerificationFailedStepIds", place: "steps.failedRequired"},
	}},
	{name: "checklist"},
	{name: "usage", fields: []field{
		{name: "totalInputTokens", place: "usage.input"}, {name: "totalOutputTokens", place: "usage.output"}, {name: "totalCost", place: "usage.cost"},
		{name: "usageOffsetInputTokens", place: "usage.earlierInput"}, {name: "usageOffsetOutputTokens", place: "usage.earlierOutput"},
		{name: "usageOffsetCost", place: "usage.earlierCost"},
	}},
}

func bucketNamed(name string) bucket {
	i := slices.IndexFunc(buckets, func(b bucket) bool { return b.name == name })
	if i < 0 {
		return bucket{name: name}
	}
	return buckets[i]
}

func (b bucket) field(s *State, name string) (field, bool) {
	for _, f := range b.all(s) {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// all are the fields of the bucket.
func (b bucket) all(s *State) []field {
	group, ok := structField(reflect.ValueOf(s).Elem(), b.name)
	if b.fields != nil || !ok {
		return b.fields
	}
	var list []field
	for i := range group.NumField() {
		name, how, _ := strings.Cut(group.Type().Field(i).Tag.Get("json"), ",")
		list = append(list, field{name: name, place: b.name + "." + name, added: how != ""})
	}
	return list
}

// in is the field in a state.
func (f field) in(s *State) reflect.Value {
	group, name, _ := strings.Cut(f.place, ".")
	v, _ := structField(reflect.ValueOf(s).Elem(), group)
	v, _ = structField(v, name)
	return v
}

// structField finds a struct's field by its name in JSON, to the letter.
func structField(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			if inner, ok := structField(v.Field(i), name); ok {
				return inner, true
			}
		}
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// read sets the fields of a state that an object has. Fields that are absent
// or null keep their values; what has no place is given to keep.
func (b bucket) read(value json.RawMessage, s *State, keep func(key string, value json.RawMessage)) error {
	o, err := readObject(value)
	if err != nil {
		return &fieldError{b.name, err.Error()}
	}
	for _, m := range o {
		f, ok := b.field(s, m.key)
		switch {
		case ok && string(m.value) == "null":
		case !ok, f.place == "":
			if !ok || f.none == "[]" || string(m.value) != f.none {
				keep(b.name+"."+m.key, m.value)
			}
		default:
			v := f.in(s)
			fresh := reflect.New(v.Type())
			if err := json.Unmarshal(f.renamed(m.value, true), fresh.Interface()); err != nil {
				return &fieldError{b.name + "." + m.key, reasonOf(err)}
			}
			v.Set(fresh.Elem())
		}
	}
	return nil
}

// write is the bucket of a state, with the keys that another program left in
// it.
func (b bucket) write(s *State) member {
	var o object
	for _, f := range b.all(s) {
		switch {
		case f.place == "":
			value, ok := s.Imported.Get(b.name + "." + f.name)
			if !ok {
				value = json.RawMessage(f.none)
			}
			o = append(o, member{f.name, value})
		case f.added && empty(f.in(s)):
		default:
			o = append(o, member{f.name, f.renamed(raw(f.in(s).Interface()), false)})
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

func empty(v reflect.Value) bool {
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

// renamed gives the parts of a value the names of the state, or those of the
// format.
func (f field) renamed(value json.RawMessage, ours bool) json.RawMessage {
	if len(f.parts) == 0 {
		return value
	}
	if o, err := readObject(value); err == nil {
		for i := range o {
			for our, theirs := range f.parts {
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
		list[i] = f.renamed(list[i], ours)
	}
	return raw(list)
}

// altered lists the places where a value that was read says something else
// than what came: what was cut, repaired or is not known. The paths begin
// with path. Keys that were added do not count.
func altered(path string, came, kept json.RawMessage) []string {
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
			list = append(list, altered(path+"."+m.key, m.value, other)...)
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
		list = append(list, altered(fmt.Sprintf("%s[%d]", path, i), v[i], w[i])...)
	}
	return list
}

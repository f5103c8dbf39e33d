package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// place is where a field of a task's state has gone: to a bucket and a field,
// with the parts of its value renamed. One without a bucket is kept among what
// was imported, and dropped where it says nothing.
type place struct {
	bucket, field string
	parts         map[string]string
}

// oldPlaces has the names that fields of a task's state had in stores and logs
// of earlier versions. Old and new names differ in every bucket, so that a
// state may be read without knowing which form it has.
var oldPlaces = map[string]map[string]place{
	"transcript": {
		"lastUserMessage": {bucket: "said", field: "user"}, "lastAssistantOutput": {bucket: "said", field: "answer"},
		"lastNonVerificationOutput": {bucket: "said", field: "result"}, "lastAssistantText": {bucket: "said", field: "shown"},
		"explicitChatSummaryBlock": {}, "explicitChatSummaryCreatedAt": {}, "explicitChatSummarySourceMessageCount": {},
		"stepOutcomeSummaries": {"steps", "outcomes", map[string]string{"mutatedFiles": "files", "outcomeSummary": "summary"}},
	},
	"tooling": {
		"toolResultMemory":  {"tools", "results", map[string]string{"timestamp": "at"}},
		"webEvidenceMemory": {"tools", "pages", map[string]string{"timestamp": "at", "sourceClass": "class", "publishDate": "published"}},
		"toolUsageCounts":   {bucket: "tools", field: "calls"}, "successfulToolUsageCounts": {bucket: "tools", field: "successes"},
		"toolUsageEventsSinceDecay": {bucket: "tools", field: "sinceHalved"}, "toolSelectionEpoch": {bucket: "tools", field: "halvings"},
		"discoveredDeferredToolNames": {bucket: "tools", field: "found"}, "toolFailures": {bucket: "tools", field: "failures"},
		"lastWebFetchFailure": {"tools", "pageFailure", map[string]string{"timestamp": "at"}},
		"budgetCounters":      {bucket: "tools", field: "counts"}, "startedCalls": {bucket: "tools", field: "started"},
	},
	"files": {
		"filesReadTracker": {"files", "read", map[string]string{"sizeBytes": "bytes"}},
		"fileReads":        {bucket: "files", field: "reads"}, "dirListings": {bucket: "files", field: "listings"},
	},
	"trackerState": {"createdFiles": {bucket: "files", field: "created"}, "readFiles": {}, "directories": {}},
	"loop": {
		"globalTurnCount": {bucket: "loop", field: "turns"}, "lifetimeTurnCount": {bucket: "loop", field: "lifetimeTurns"},
		"iterationCount": {bucket: "loop", field: "iterations"}, "continuationCount": {bucket: "loop", field: "continuations"},
		"continuationWindow": {bucket: "loop", field: "window"}, "windowStartEventCount": {bucket: "loop", field: "windowStart"},
		"noProgressStreak": {bucket: "loop", field: "noProgress"}, "streakWindow": {bucket: "loop", field: "noProgressWindow"},
		"lastLoopFingerprint": {bucket: "loop", field: "fingerprint"}, "blockedLoop": {bucket: "loop", field: "blocked"},
		"blockedLoopFingerprintForWindow": {bucket: "loop", field: "blockedText"}, "pendingLoopStrategySwitchMessage": {bucket: "loop", field: "advice"},
		"compactionCount": {bucket: "loop", field: "compactions"}, "lastCompactionAt": {bucket: "loop", field: "compactedAt"},
		"lastCompactionTokensBefore": {bucket: "loop", field: "tokensBefore"}, "lastCompactionTokensAfter": {bucket: "loop", field: "tokensAfter"},
		"softDeadlineTriggered": {bucket: "loop", field: "softDeadline"}, "wrapUpRequested": {bucket: "loop", field: "wrapUp"},
		"turnWindowSoftExhaustedNotified": {bucket: "loop", field: "lowTurnsNoted"}, "softLandingInjected": {bucket: "loop", field: "landingNoted"},
		"followUpRecoveryAttemptsInCurrentMessage": {bucket: "loop", field: "followUpRetries"},
		"lastFollowUpRecoveryBlockReason":          {bucket: "loop", field: "followUpBlock"},
		"currentStepId":                            {bucket: "steps", field: "current"}, "kernel": {bucket: "steps", field: "counts"},
		"lastPreCompactionFlushAt": {}, "lastPreCompactionFlushTokenCount": {},
	},
	"recovery": {
		"recoveryRequestActive": {bucket: "recovery", field: "active"}, "lastRecoveryFailureSignature": {bucket: "recovery", field: "failure"},
		"recoveredFailureStepIds": {bucket: "recovery", field: "recovered"}, "lastRecoveryClass": {bucket: "recovery", field: "class"},
		"lastToolDisabledScope": {bucket: "recovery", field: "disabledScope"}, "lastRetryReason": {bucket: "recovery", field: "retryReason"},
	},
	"queues": {"pendingFollowUps": {bucket: "queues", field: "followUps"}, "stepFeedbackSignal": {}},
	"worker": {"dispatchedMentionedAgents": {}, "verificationAgentState": {}},
	"verification": {
		"verificationEvidenceEntries":          {"steps", "evidence", map[string]string{"capturedAt": "at"}},
		"nonBlockingVerificationFailedStepIds": {bucket: "steps", field: "failedOptional"},
		"blockingVerificationFailedStepIds":    {bucket: "steps", field: "failedRequired"},
	},
	"usage": {
		"totalInputTokens": {bucket: "usage", field: "input"}, "totalOutputTokens": {bucket: "usage", field: "output"}, "totalCost": {bucket: "usage", field: "cost"},
		"usageOffsetInputTokens": {bucket: "usage", field: "earlierInput"}, "usageOffsetOutputTokens": {bucket: "usage", field: "earlierOutput"},
		"usageOffsetCost": {bucket: "usage", field: "earlierCost"},
	},
}

// UnmarshalJSON reads a state in its present form and in that of earlier
// versions.
func (s *TaskState) UnmarshalJSON(data []byte) error {
	// Every old state has this key, and text cannot hold it: its quotes are
	// escaped there.
	if bytes.Contains(data, []byte(`"transcript":`)) {
		var err error
		if data, err = upgradeTask(data); err != nil {
			return err
		}
	}
	type plain TaskState
	if !bytes.Contains(data, []byte(`"permissions":`)) && !bytes.Contains(data, []byte(`"approvals":`)) {
		return DecodeStrict("task", data, (*plain)(s))
	}
	data, earlier, err := earlierPermissions(data)
	if err != nil {
		return err
	}
	if err := DecodeStrict("task", data, (*plain)(s)); err != nil {
		return err
	}
	s.earlier = earlier
	return nil
}

// earlierPermissions takes out what is no part of a task's state any more:
// permissions are the session's, and questions are pending calls. A call that
// an old task waits for is made again.
func earlierPermissions(data []byte) ([]byte, *Permissions, error) {
	var buckets map[string]json.RawMessage
	if err := DecodeStrict("task", data, &buckets); err != nil {
		return nil, nil, err
	}
	raw, there := buckets[permissionBucket]
	delete(buckets, permissionBucket)
	delete(buckets, "approvals")
	data, err := JSON(buckets)
	if err != nil || !there {
		return data, nil, err
	}
	var fields map[string]json.RawMessage
	if err := DecodeStrict("task.permissions", raw, &fields); err != nil {
		return nil, nil, err
	}
	delete(fields, "latestPromptContext")
	if raw, err = JSON(fields); err != nil {
		return nil, nil, err
	}
	var p Permissions
	return data, &p, DecodeStrict("task.permissions", raw, &p)
}

// upgradeTask gives an old state its present form; one that has it stays as it
// is.
func upgradeTask(data []byte) ([]byte, error) {
	var buckets map[string]json.RawMessage
	if err := DecodeStrict("task", data, &buckets); err != nil {
		return nil, err
	}
	var imported Pairs[json.RawMessage]
	if old, ok := buckets["foreign"]; ok {
		if err := DecodeStrict("task.foreign", old, &imported); err != nil {
			return nil, err
		}
		delete(buckets, "foreign")
	}
	moved := map[string]map[string]json.RawMessage{}
	for _, bucket := range slices.Sorted(maps.Keys(oldPlaces)) {
		raw, ok := buckets[bucket]
		if !ok {
			continue
		}
		var fields map[string]json.RawMessage
		if err := DecodeStrict("task."+bucket, raw, &fields); err != nil {
			return nil, err
		}
		delete(buckets, bucket)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			p, old := oldPlaces[bucket][name]
			if !old {
				p = place{bucket: bucket, field: name}
			}
			value, err := p.value(fields[name])
			switch {
			case err != nil:
				return nil, err
			case p.bucket == "" && !saysNothing(value):
				imported = imported.With(bucket+"."+name, value)
			case p.bucket != "":
				if moved[p.bucket] == nil {
					moved[p.bucket] = map[string]json.RawMessage{}
				}
				moved[p.bucket][p.field] = value
			}
		}
	}
	for bucket, fields := range moved {
		raw, err := JSON(fields)
		if err != nil {
			return nil, err
		}
		buckets[bucket] = raw
	}
	if imported.Len() > 0 {
		raw, err := JSON(imported)
		if err != nil {
			return nil, err
		}
		buckets["imported"] = raw
	}
	return JSON(buckets)
}

// value renames the parts of a value, at any depth.
func (p place) value(raw json.RawMessage) (json.RawMessage, error) {
	if len(p.parts) == 0 {
		return raw, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, decodeProblem("task."+p.bucket+"."+p.field, err)
	}
	return JSON(p.renamed(v))
}

func (p place) renamed(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = p.renamed(v[i])
		}
	case map[string]any:
		for _, old := range slices.Sorted(maps.Keys(p.parts)) {
			if value, ok := v[old]; ok {
				delete(v, old)
				v[p.parts[old]] = value
			}
		}
	}
	return v
}

func saysNothing(value json.RawMessage) bool {
	switch string(bytes.TrimSpace(value)) {
	case "", "null", "0", "false", `""`, "[]", "{}":
		return true
	}
	return false
}

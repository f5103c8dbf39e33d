package storetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func roundtripBehaviours() []behaviour {
	return []behaviour{
		{name: "roundtrip/everyFieldAndEveryChange", check: everyFieldAndEveryChange},
		{name: "roundtrip/hostileStrings", check: hostileStrings},
		{name: "roundtrip/jsonStaysAsItCame", check: jsonStaysAsItCame},
		{name: "roundtrip/nilAndEmptyToolsDiffer", check: nilAndEmptyTools},
		{name: "roundtrip/timesKeepMicroseconds", check: timesKeepMicroseconds},
		{name: "roundtrip/updatedAtGrowsWhateverTheClockSays", check: updatedAtGrows},
	}
}

// everyFieldAndEveryChange lives through a session's whole life on a store,
// comparing after each save, and proves at the end that no kind of change and
// no field was left out.
func everyFieldAndEveryChange(t testing.TB, d Data) {
	st := d.Open(t)
	_, inboxes := st.(store.Inboxes)
	taken := (session.InboxTaken{}).Kind()
	kinds := map[string]bool{taken: !inboxes}
	fields := map[string]bool{}
	// seen compares what came back and notes what it covered.
	seen := func(before, saved session.Session) session.Session {
		t.Helper()
		for _, r := range session.Unsaved(before) {
			kinds[r.Change.Kind()] = true
		}
		loaded := load(t, d.Open(t), store.RefOf(saved))
		wantSame(t, loaded, saved)
		if logs, ok := st.(store.Logs); ok {
			run, err := store.Whole(t.Context(), logs, loadWhole(t, st, store.RefOf(saved), 0))
			if err != nil {
				t.Fatalf("read the whole: %v", err)
			}
			if saved, err = store.Whole(t.Context(), logs, saved); err != nil {
				t.Fatalf("read the whole: %v", err)
			}
			sameWhole(t, run, saved)
			sameRecords(t, st, before)
		}
		for _, part := range []any{loaded.Info(), loaded.Definition(), loaded.State()} {
			recordFields(reflect.ValueOf(part), reflect.TypeOf(part).Name(), fields)
		}
		return saved
	}
	for _, fresh := range firstVersions(t) {
		s := seen(fresh, create(t, st, fresh))
		for _, step := range changesOf(s) {
			changes := step.changes
			if inboxes && step.takes != "" {
				post(t, st, store.RefOf(s), item(step.takes))
			} else if !inboxes { // there is nothing to take, and a store may say so
				changes = slices.DeleteFunc(slices.Clone(changes), func(c session.Change) bool { return c.Kind() == taken })
			}
			next := withChanges(t, s, changes...)
			s = seen(next, save(t, st, next))
		}
		if _, ok := st.(store.Tails); ok {
			worked := mustAppend(t, st, withMessage(t, s, "refused"))
			refused, err := session.DiscardTail(s, s.Seq()+1, worked.Seq(), start().Add(time.Hour))
			if err != nil {
				t.Fatalf("discard: %v", err)
			}
			s = seen(refused, save(t, st, refused))
		}
		first, next := s, withMessage(t, s, "later")
		s = seen(next, save(t, st, next))
		if s.Workflow() == nil { // a run does not go back
			back, err := s.Rewound(first, start().Add(2*time.Hour))
			if err != nil {
				t.Fatalf("rewind: %v", err)
			}
			s = seen(back, save(t, st, back))
		}
		child := newFork(t, s, s.ID()+"-fork")
		child = newFork(t, seen(child, create(t, st, child)), s.ID()+"-fork-of-fork")
		seen(child, create(t, st, child))
	}
	for _, kind := range session.ChangeKinds() {
		_, tails := st.(store.Tails)
		if !kinds[kind] && (tails || kind != (session.TailDiscarded{}).Kind()) {
			t.Errorf("no session of this suite has the change %s", kind)
		}
	}
	for _, field := range missingFields(fields) {
		t.Errorf("no session of this suite sets the field %s", field)
	}
}

// sameRecords fails the test unless the log ends with what was pending.
func sameRecords(t testing.TB, st store.Store, before session.Session) {
	t.Helper()
	want := session.Unsaved(before)
	entries, err := ability[store.Logs](t, st).Log(t.Context(), store.RefOf(before), want[0].Seq-1, 0)
	if err != nil {
		t.Fatalf("log: %v", err)
	}
	have := make([]session.Record, len(entries))
	for i, e := range entries {
		have[i] = e.Record
	}
	if g, w := string(encode(t, have)), string(encode(t, want)); g != w {
		t.Errorf("log:\n got %s\nwant %s", g, w)
	}
}

// changeSet holds the changes of one save.
type changeSet struct {
	takes   string // an inbox item that must be there
	changes []session.Change
}

// changesOf has every change that an existing session of this kind may have and
// that needs no other session.
func changesOf(s session.Session) []changeSet {
	switch s.Info().Kind {
	case session.KindTask:
		return taskChanges()
	case session.KindWorkflow:
		return runChanges()
	}
	expires := start().Add(48 * time.Hour)
	return []changeSet{
		{changes: []session.Change{
			session.NameChanged{Name: "renamed"}, session.SessionTitled{Title: "not this", Model: "other/model", Usage: fullUsage(), Cost: 3}, session.ExpiryChanged{ExpiresAt: &expires},
			session.MetadataWritten{Key: "a", Value: []byte(`{"deep":[1,null]}`)}, session.MetadataWritten{Key: "b", Value: []byte(`1`)},
			session.MetadataRemoved{Key: "b"},
			session.VariableStored{Key: "v/one", Value: []byte(`[1]`), Labels: fullLabels(), CallID: "call-1"}, session.VariableStored{Key: "v/two", Value: []byte(`2`)},
			session.VariableDeleted{Key: "v/two"},
			session.SystemPromptChanged{Text: "Speak up."}, session.ModelChanged{Model: "other/model", Params: fullParams()},
			session.ResponseFormatChanged{ResponseFormat: &session.ResponseFormat{Type: "json_schema", Schema: []byte(`{"type":"object"}`), Name: "n", Strict: true}},
		}},
		{changes: executionBegins()},
		{changes: callsWait()},
		{takes: "item", changes: executionEnds()},
		{changes: []session.Change{session.StatusChanged{Status: session.Suspended, Reason: "later"}}},
		{changes: []session.Change{session.StatusChanged{Status: session.Deleted}}},
		{changes: []session.Change{session.StatusChanged{Status: session.Active}}},
		{changes: []session.Change{session.SessionImported{Format: "other", Version: 7, UpdatedAt: start(), Dropped: []string{"a.b"}}}},
		{changes: []session.Change{session.TranscriptCleared{}}},
	}
}

func executionBegins() []session.Change {
	steps, cost, deadline := int64(9), session.Dollars(1.5), start().Add(time.Hour)
	seconds, tokens := 12.5, int64(1000)
	message := func(m session.Message) session.Change {
		m.ExecutionID, m.CreatedAt = "e1", start()
		return session.MessageAdded{Message: m}
	}
	return []session.Change{
		session.ExecutionStarted{ExecutionID: "e1", RequestID: "r1", RootRequestID: "r0", Budget: &session.Budget{
			MaxSteps: &steps, MaxTokens: &tokens, MaxSeconds: &seconds, MaxCost: &cost, Deadline: &deadline},
			Tools: []session.ClientTool{{Name: "click", Description: "clicks", Schema: []byte(`{"type":"object"}`)}}},
		message(session.Message{
			ID: "u1", Role: session.RoleUser, Name: "ann", RequestID: "r1", RootRequestID: "r0", ParentRequestID: "r0-5", Unit: "unit", Lane: "lane",
			Metadata: session.Values{"k": []byte(`"v"`)}, Content: fullContent(),
		}),
		session.InferenceAnswered{
			StepID: "s1", Model: "other/model", StartedAt: start(), FinishReason: "tool_calls", Cost: session.Dollars(0.25), ActiveSeconds: 1.5,
			Usage: fullUsage(), Recalled: []string{"m0", "agent/tester/key"},
			Reasons: []session.RecallReason{{Score: 0.75, Words: []string{"boat"}, Meaning: 0.5}, {Score: 1}},
		},
		message(session.Message{ID: "a1", Role: session.RoleAssistant, StepID: "s1", Trace: true, Content: session.Text("let me see"), ToolCalls: []session.ToolCall{
			{ID: "c1", Name: "look", Arguments: []byte(`{"at":"it"}`)}}}),
		session.ToolStarted{StepID: "s1", CallID: "c1", ToolName: "look"},
	}
}

// callsWait has calls that wait for responses, and one that was approved.
func callsWait() []session.Change {
	scope := session.Scope{Kind: session.ScopeDomain, ToolName: "t", ToolPrefix: "p", Domain: "example.org"}
	expires, otherwise := start().Add(time.Hour), "no"
	call := session.PendingCall{
		ID: "p1", Kind: session.PendingApproval, CallID: "c1", ExecutionID: "e1", StepID: "s1", Tool: "look", Arguments: []byte(`{"at":"it"}`),
		Prompt: "look?", Context: "at it", ChildID: "child", Diff: "-a\n+b\n", Details: []byte(`{"k":1}`), Default: &otherwise, AskedAt: start(), ExpiresAt: &expires,
	}
	var permitted []session.Change
	for i, s := range []session.Scope{
		scope, {Kind: session.ScopePath, Path: "/a"}, {Kind: session.ScopeCommandPrefix, Prefix: "git"}, {Kind: session.ScopeMCPServer, ServerName: "s"},
	} {
		rule := session.Rule{
			ID: fmt.Sprint("r", i), Source: session.SourceSession, Effect: session.EffectAllow, Scope: s, CreatedAt: 1, Metadata: session.Values{"why": json.RawMessage(`"asked"`)},
		}
		call.Choices = append(call.Choices, session.Choice{Value: "allow_session", Label: "always", Rule: &rule})
		permitted = append(permitted, session.PermissionRuleAdded(rule))
	}
	second := session.PendingCall{ID: "p2", Kind: session.PendingQuestion, CallID: "c2", Prompt: "which?"}
	return append(permitted, []session.Change{
		session.CallPending{Call: call}, session.CallPending{Call: second}, session.ExecutionWaiting{ActiveSeconds: 1.5},
		session.CallResponded{Response: session.Response{GoOn: true,
			PendingID: "p1", Action: session.RespondApprove, Choice: "allow_session", Text: "go", IsError: true, By: "ann",
			Spent: &session.Spent{Steps: 1, Usage: fullUsage(), Cost: 2},
		}},
		session.PermissionModeChanged(session.PermissionPlan),
		session.TaskEvent{Name: "permission_granted", Data: []byte(`{"key":"tool:x","grant":{"grantedAt":1,"expiresAt":2,"instance":"i","survivesRestart":true}}`)},
		session.PermissionNoted{Scope: "tool:y", Note: session.NoteDenied}, session.PermissionNoted{Scope: "tool:y", Note: session.NoteAnswered},
		session.PermissionNoted{Scope: "tool:y", Note: session.NoteDenied}, session.PermissionNoted{Scope: "tool:z", Note: session.NoteExecuted}, session.PermissionNoted{Scope: "tool:z", Note: session.NoteTainted},
	}...)
}

func executionEnds() []session.Change {
	signal := session.Signal{Reason: session.StopError, Message: "broke", Context: session.Values{"n": []byte(`1`)}, Source: "model"}
	return []session.Change{
		session.ExecutionContinued{Recovery: true},
		session.ToolFinished{StepID: "s1", CallID: "c1", ToolName: "look", IsError: true, Synthetic: true, ChildSessionID: "child", ActiveSeconds: 2,
			Spent: &session.Spent{Steps: 2, Usage: session.Usage{Input: 3}, Cost: 4}},
		session.MessageAdded{Message: session.Message{ID: "t1", Role: session.RoleTool, StepID: "s1", ExecutionID: "e1", CreatedAt: start(),
			ToolResult: &session.ToolResult{CallID: "c1", ToolName: "look", Content: "nothing", IsError: true, Synthetic: true}}},
		session.StepFinished{StepID: "s1", Type: session.StepTools, Signals: []session.Signal{signal}, Errors: []session.Failure{{Kind: "tool", Message: "broke"}}, ActiveSeconds: 3},
		session.InferenceFailed{StepID: "s2", Model: "other/model", StartedAt: start(), Errors: []session.Failure{{Kind: "model", Message: "down"}}, ActiveSeconds: 4},
		session.InboxTaken{ItemID: "item", ItemKind: string(store.ItemFollowUp)},
		session.ExecutionFinished{Status: session.ExecutionFailed, Stop: &signal, Signals: []session.Signal{signal}, Errors: []session.Failure{{Kind: "e", Message: "m"}}, ActiveSeconds: 5},
		session.WindowMoved{Strategy: session.PruneSummary, Limit: 3, To: 1, Keep: []int64{1}, Groups: 2, Tokens: 99, Summary: &session.Summary{
			Text: "they looked", FromSeq: 1, ToSeq: 2, Model: "test/model", Usage: fullUsage(), Cost: session.Dollars(0.5), CreatedAt: start()}},
	}
}

func fullUsage() session.Usage {
	return session.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Reasoning: 5}
}

func fullContent() session.Content {
	return session.Content{
		{Type: session.PartText, Text: "look at this"},
		{Type: session.PartImage, URL: "https://example.org/x.png", MediaType: "image/png"},
		{Type: session.PartFile, Name: "x.pdf", FileID: "f1"},
		{Type: session.PartAudio, Data: "AAAA", MediaType: "audio/wav"},
		{Type: session.PartReasoning, Text: "hm", Signature: "sig"},
		{Type: "hologram", Raw: []byte(`{"type":"hologram","rays":[1,2]}`)},
	}
}

func fullParams() *session.ModelParams {
	tokens, temperature, topP := 100, 0.5, 0.25
	return &session.ModelParams{
		MaxOutputTokens: &tokens, Temperature: &temperature, TopP: &topP, Stop: []string{"END"}, Options: session.Values{"o": []byte(`{"x":1}`)},
	}
}

// firstVersions are version-0 sessions, one with every field of an identity, a
// seed and a definition, and one of each kind that has changes of its own.
func firstVersions(t testing.TB) []session.Session {
	t.Helper()
	expires := start().Add(24 * time.Hour)
	limit, slack, threshold := 20, 2, 0.5
	steps, tokens, seconds, cost, deadline := int64(5), int64(6), 7.5, session.Dollars(8), start().Add(time.Hour)
	def := session.Definition{
		Name: "full", Label: "Full", Description: "everything", SystemPrompt: "Be whole.", Model: "test/model", ModelParams: fullParams(),
		Tools: []string{"look"}, ToolsDeny: []string{"shout"}, Skills: []string{"tact"}, Capabilities: []string{"sight"}, Subagents: []string{"helper"},
		MCP: []session.MCPServer{
			{ID: "local", Command: "serve", Args: []string{"-v"}, Env: map[string]string{"A": "b"}},
			{ID: "far", URL: "https://example.org/mcp", Headers: map[string]string{"X": "y"}},
		},
		ResponseFormat: &session.ResponseFormat{Type: "json", Schema: []byte(`{}`), Name: "n", Strict: true},
		Budget:         &session.Budget{MaxSteps: &steps, MaxTokens: &tokens, MaxSeconds: &seconds, MaxCost: &cost, Deadline: &deadline},
		Memory: &session.MemoryPolicy{
			Strategy: session.PruneSummary, Limit: &limit, SummaryPrompt: "Sum up.", SummaryModel: "test/small", Slack: &slack, ToolTrace: "current",
			Recall: &session.Recall{Limit: 3, Threshold: &threshold, Scopes: []string{"user"}}, Tools: true, Scopes: []string{"session"},
			Blocks: []session.MemoryBlock{{Name: "plan", Description: "What to do next.", Scope: "session", Limit: 500, Text: "Nothing yet.", ReadOnly: true}},
			Facts:  &session.Facts{Model: "test/small", Prompt: "Find names.", Scope: "agent"},
		},
		Metadata: session.Values{"from": []byte(`"definition"`)},
	}
	seed := session.Seed{
		Model: "seed/model", ModelParams: fullParams(), ResponseFormat: &session.ResponseFormat{Type: "text"},
		Metadata: session.Values{"from": []byte(`"seed"`), "only": []byte(`true`)}, Variables: session.Values{"kept": []byte(`"value"`)},
		Messages: []session.Message{{ID: "seed1", Role: session.RoleUser, Content: session.Text("seeded"), CreatedAt: start().Add(-time.Hour)}},
	}
	full, err := session.New(session.Identity{
		ID: "full", AgentID: "agent", Name: "A name", UserID: "ann", ParentID: "elsewhere", ParentAgentID: "parent-agent",
		Origin: session.OriginSubagent, Depth: 2, ExpiresAt: &expires, CreatedAt: start().Add(-time.Hour),
	}, def, seed, start())
	if err != nil {
		t.Fatalf("make the full session: %v", err)
	}
	return []session.Session{
		full,
		newSessionFrom(t, session.Identity{ID: "task", Kind: session.KindTask}),
		newSessionFrom(t, session.Identity{ID: "flow", Kind: session.KindWorkflow}),
	}
}

// taskChanges has every change of a task.
func taskChanges() []changeSet {
	score := 0.5
	row := session.TaskRow{
		Title: "title", Prompt: "prompt", Status: "completed", TerminalStatus: "ok", FailureClass: "unknown", Error: "broke", StopReasons: []string{"completed"},
		WorkspaceID: "w", WorkspacePath: "/w", ExecutionMode: "execute", PermissionMode: "default", Run: 1, StartedAt: 1, CompletedAt: 2, LastRunDurationMS: 1,
		ResultSummary: "done", OutputFiles: []string{"a.go"}, BestKnownOutcome: []byte(`{}`), SuccessCriteria: []byte(`{"type":"file_exists"}`),
		CurrentAttempt: 1, MaxAttempts: 3, AwaitingUserInputReasonCode: "code", RetryReason: "again", RecoveryClass: "local_runtime", ToolDisabledScope: "global",
		LastProgressScore: &score, AutoContinueBlockReason: "loop", PendingApprovals: 1, Projection: &session.TaskProjection{
			BudgetUsage: session.BudgetUsage{Turns: 1, LifetimeTurns: 2, ToolCalls: 3, WebSearchCalls: 4, DuplicatesBlocked: 5}, ContinuationCount: 1, ContinuationWindow: 2,
			LifetimeTurnsUsed: 2, CompactionCount: 1, LastCompactionAt: 1, LastCompactionTokensBefore: 9, LastCompactionTokensAfter: 3, NoProgressStreak: 1, LastLoopFingerprint: "f",
			StepsDone: 1, Steps: 2, ItemsDone: 3, Items: 4, Cost: 5,
		},
	}
	sets := []changeSet{
		{changes: []session.Change{session.TaskRowChanged{Task: row}}},
		{changes: []session.Change{session.TaskRestored{State: fullTask(), Permissions: fullPermissions()}}},
		{changes: []session.Change{session.TaskStateChanged{Buckets: map[string]map[string]json.RawMessage{
			"loop": {"globalTurnCount": []byte("3")}, "tooling": {"toolUsageCounts": []byte(`[["read",2],["a",null]]`)},
		}}}},
	}
	says := map[string]string{
		"plan_": `{"plan":{"description":"Tidy.","steps":[{"id":"1","description":"Sweep.","status":"pending"}]}}`,
		"step_": `{"step":{"id":"1","description":"Sweep.","status":"completed"}}`, "task_list_": `{"checklist":{"items":[],"updatedAt":2}}`,
		"approval_":        `{"approval":{"id":"a","taskId":"t","callId":"c","type":"tool","description":"d","status":"pending","requestedAt":1}}`,
		"permission_rule_": `{"rule":{"source":"session","effect":"allow","scope":{"kind":"tool","toolName":"read"}}}`,
		"permission_mode_": `{"mode":"plan"}`, "permission_granted": `{"key":"tool:x","grant":{"grantedAt":1}}`, "permission_grants_": `{"keys":["tool:x"]}`,
	}
	for _, name := range session.TaskEventNames() {
		data := `{"message":"said"}`
		for prefix, text := range says {
			if strings.HasPrefix(name, prefix) {
				data = text
			}
		}
		sets = append(sets, changeSet{changes: []session.Change{session.TaskEvent{Name: name, Data: []byte(data)}}})
	}
	return sets
}

// runChanges has every change of a workflow run.
func runChanges() []changeSet {
	system, answer, expires := "Write.", "yes", start().Add(time.Hour)
	return []changeSet{
		{changes: []session.Change{
			session.WorkflowBegun{
				Spec: []byte(`{"spec":"YQ=="}`), Variables: []session.RunVariable{{Name: "n", Value: "v"}}, Runtime: []byte(`{"provider":"p"}`), Extra: []byte(`{}`),
			},
			session.WorkflowRowChanged{Workflow: session.WorkflowRow{Name: "flow", SpecHash: "abc", Pattern: "chain", Status: "running"}},
		}},
		{changes: []session.Change{
			session.UnitStarted{Unit: "step/0", Lane: "main", Agent: "writer", System: &system},
			session.MessageAdded{Message: session.Message{ID: "in", Role: session.RoleUser, Content: session.Text("Write."), Unit: "step/0", Lane: "main"}},
			session.UnitAdvanced{Unit: "step/0", Agent: "writer", Estimated: true, Change: session.InferenceAnswered{
				StepID: "s", Usage: session.Usage{Input: 3, Output: 2}, Cost: 7, StartedAt: start(),
			}},
			session.UnitFinished{Unit: "step/0", Agent: "writer", Result: []byte(`{"response":"Done."}`), Note: "noted", Seconds: 1.5},
		}},
		{changes: []session.Change{
			session.QuestionPut{Question: session.Question{Unit: "step/1", Prompt: "Good?", Context: "A draft.", Default: &answer, TimeoutAt: &expires}, Seconds: 2},
			session.QuestionPut{Question: session.Question{Unit: "step/2", Prompt: "Really?"}, Seconds: 2},
			session.CallPending{Call: session.PendingCall{ID: "p1", Kind: session.PendingQuestion, Unit: "step/4", Prompt: "And?"}},
			session.CallPending{Call: session.PendingCall{ID: "p2", Kind: session.PendingQuestion, Unit: "step/5", Prompt: "Or?"}},
			session.CallResponded{Response: session.Response{PendingID: "p2", Action: session.RespondAnswer, Text: "or"}, Unit: "step/5"},
		}},
		{changes: []session.Change{
			session.QuestionAnswered{Unit: "step/2", Response: "yes", TimedOut: true},
			session.WorkflowSpecChanged{Spec: []byte(`{"spec":"Yg=="}`), Runtime: []byte(`{}`), Variables: []session.RunVariable{{Name: "n", Value: "w"}}},
			session.UnitsReset{Units: []string{"step/0"}, Finished: 1},
			session.ArtifactWritten{Path: "/out/a.md", SHA256: "00"},
			session.BudgetWarned{Budget: "max_tokens", Used: 8, Limit: 10},
			session.UnitFailed{Unit: "step/3", Agent: "writer", Error: session.Failure{Kind: "error", Message: "broke"}, Seconds: 3},
			session.WorkflowRowChanged{Workflow: session.WorkflowRow{Name: "flow", SpecHash: "abc", Pattern: "chain", Status: "failed", Error: "broke", UnitsDone: 1, Units: 2, Cost: 7}},
		}},
	}
}

func hostileStrings(t testing.TB, d Data) {
	st := d.Open(t)
	for i, text := range []string{
		"", " ", "\x00", "a\x00b", "\r\n\t\v\b", `"quoted" \back\slash\`, "'; drop table sessions; --", "$1 %s {{.}} ${HOME} ?",
		"<script>alert('&amp;')</script>", "\u2028\u2029\ufeff", "\U0001F468\u200d\U0001F469\u200d\U0001F467 e\u0301 \u202eright-to-left", "\xff\xfe\xc3\x28 not UTF-8",
		"\ufffd", "null", "true", "-0", "../../etc/passwd", strings.Repeat("long \u00e4 ", 1<<13),
	} {
		s := newSessionFrom(t, session.Identity{ID: fmt.Sprintf("hostile-%d", i)})
		s = withChanges(t, s,
			session.SystemPromptChanged{Text: text}, session.ModelChanged{Model: text}, session.MetadataWritten{Key: "key", Value: quote(t, text[:min(len(text), 1000)])},
			session.MessageAdded{Message: session.Message{ID: "m", Role: session.RoleUser, Name: text, Content: session.Content{
				{Type: session.PartText, Text: text}, {Type: session.PartFile, Name: text}}}},
			session.MessageAdded{Message: session.Message{ID: "a", Role: session.RoleAssistant, ToolCalls: []session.ToolCall{
				{ID: text, Name: "tool" + text, Arguments: []byte(`{"a":` + string(quote(t, text)) + `}`)}}}},
			session.MessageAdded{Message: session.Message{ID: "r", Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: text, ToolName: text, Content: text}}},
		)
		created := create(t, st, s)
		wantSame(t, load(t, st, store.RefOf(s)), created)
	}
	for _, name := range []string{"'; --", `"\`, "%_", "ünï ☃ \u202e", "null"} {
		s := create(t, st, withChanges(t, newSessionFrom(t, session.Identity{ID: "named", UserID: name}), session.NameChanged{Name: name}, session.VariableStored{Key: name, Value: []byte(`1`)}))
		wantSame(t, load(t, st, ref("named")), s)
		if have := find(t, st, store.Query{Name: name, UserID: name}); !slices.Equal(have, []string{"named"}) {
			t.Errorf("by the name %q: %v", name, have)
		}
		if err := st.Delete(t.Context(), ref("named"), 0); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
}

// jsonStaysAsItCame has values that a store which decodes JSON would change.
func jsonStaysAsItCame(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "raw"))
	values := []string{
		`12345678901234567890`, `1.0`, `1e400`, `-0`, `0.1000`, `null`, `{}`, `[]`, `""`, `{"b":1,"a":2}`, `[[[[[[[[1]]]]]]]]`,
	}
	for i, raw := range values {
		s = withChanges(t, s, session.MetadataWritten{Key: fmt.Sprint(i), Value: []byte(raw)}, session.VariableStored{Key: fmt.Sprint(i), Value: []byte(raw)})
	}
	saved := save(t, st, s)
	loaded := load(t, st, ref("raw"))
	wantSame(t, loaded, saved)
	for i, raw := range values {
		key := fmt.Sprint(i)
		if m, v := string(loaded.Metadata()[key]), string(loaded.Variables()[key].Value); m != raw || v != raw {
			t.Errorf("%s came back as %s in the metadata and %s in the variables", raw, m, v)
		}
	}
}

func nilAndEmptyTools(t testing.TB, d Data) {
	st := d.Open(t)
	for name, tools := range map[string][]string{"nil": nil, "empty": {}, "some": {"b", "a"}} {
		s, err := session.New(session.Identity{ID: "tools-" + name, AgentID: name}, session.Definition{Name: "tester", Tools: tools, ToolsDeny: tools}, session.Seed{}, start())
		if err != nil {
			t.Fatalf("make: %v", err)
		}
		created := create(t, st, s)
		saved := save(t, st, withNote(t, created, "x"))
		child := create(t, st, newFork(t, saved, "fork-"+name))
		for _, id := range []string{"tools-" + name, child.ID()} {
			def := load(t, st, ref(id)).Definition()
			for _, have := range [][]string{def.Tools, def.ToolsDeny} {
				if (have == nil) != (tools == nil) || !slices.Equal(have, tools) {
					t.Errorf("%s: tools %#v came back as %#v", id, tools, have)
				}
			}
		}
	}
}

func timesKeepMicroseconds(t testing.TB, d Data) {
	st := d.Open(t)
	zone := time.FixedZone("far", -9*3600-1800)
	moment := time.Date(2026, 12, 31, 23, 59, 59, 999999999, zone)
	want := time.Date(2027, 1, 1, 9, 29, 59, 999999000, time.UTC)
	s, err := session.New(session.Identity{ID: "exact", AgentID: "a", ExpiresAt: &moment}, session.Definition{Name: "tester"}, session.Seed{}, moment)
	if err != nil {
		t.Fatalf("make: %v", err)
	}
	c := commit(s, "create")
	c.At = moment
	if _, err := st.Create(t.Context(), s, c); err != nil {
		t.Fatalf("create: %v", err)
	}
	loaded, i := load(t, st, ref("exact")), info(t, st, ref("exact"))
	for what, have := range map[string]time.Time{
		"createdAt": i.CreatedAt, "updatedAt": i.UpdatedAt, "expiresAt": *i.ExpiresAt, "state.createdAt": loaded.State().CreatedAt,
	} {
		if !have.Equal(want) || have.Location() != time.UTC {
			t.Errorf("%s: %s, want %s", what, have, want)
		}
	}
}

func updatedAtGrows(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "clock"))
	created := s.Info().CreatedAt
	for i, at := range []time.Time{start(), start(), start().Add(-48 * time.Hour), {}, start().Add(time.Minute), start().Add(time.Minute + 500), start()} {
		before := s.Info().UpdatedAt
		if d.Clock != nil {
			d.Clock.Set(at)
		}
		next := withNote(t, s, fmt.Sprint(i))
		c := commit(next, "test")
		c.At = at
		var err error
		if s, err = st.Save(t.Context(), next, c); err != nil {
			t.Fatalf("save at %s: %v", at, err)
		}
		after := info(t, st, ref("clock"))
		if after.UpdatedAt.Sub(before) < time.Microsecond || !after.CreatedAt.Equal(created) {
			t.Errorf("a save at %s moved updatedAt from %s to %s", at, before, after.UpdatedAt)
		}
		if at.After(before.Add(time.Microsecond)) && !after.UpdatedAt.Equal(session.Instant(at)) {
			t.Errorf("a save at %s is dated %s", at, after.UpdatedAt)
		}
		wantSame(t, load(t, st, ref("clock")), s)
	}
}

package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

var update = flag.Bool("update", false, "write golden files that are missing; those that exist are for ever")

func at(seconds int) time.Time {
	return noon.Add(time.Duration(seconds)*time.Second + 123456*time.Microsecond)
}

// samples has one change of each kind with every field set.
func samples() []session.Change {
	stop := session.Signal{Reason: session.StopSteps, Message: "5 of 5 steps", Context: session.Values{"used": json.RawMessage("5")}, Source: "budget"}
	failed := []session.Failure{{Kind: "rate_limit", Message: "429 <slow down>"}}
	used := session.Usage{Input: 12, Output: 7, CacheRead: 3, CacheWrite: 2, Reasoning: 1}
	window := session.Window{FromSeq: 9, Keep: []int64{2}, Summary: &session.Summary{
		Text: "they spoke of tea", FromSeq: 2, ToSeq: 8, Model: "openai/gpt-4.1-mini", Usage: used, Cost: 1500, CreatedAt: at(9),
	}}
	list := []session.Change{
		session.SessionCreated{Header: sampleHeader(), Definition: sampleDefinition(), State: sampleState(window, stop, failed, used)},
		session.SessionForked{SessionID: "fork-1", AgentID: "agent-2", ParentID: "s-1", Fork: session.ForkPoint{Version: 3, Seq: 41}},
		session.SessionImported{Format: "instructor-php", Version: 7, UpdatedAt: at(1), Dropped: []string{"state.llmConfig.apiKey"}},
		session.SessionRewound{
			Version: 2, Seq: 40, MessageCount: 3, Spans: []session.Span{{From: 1, To: 17}, {From: 30}},
			State: sampleState(window, stop, failed, used),
		},
		session.StatusChanged{Status: session.Failed, Reason: "given up"},
		session.NameChanged{Name: "tea & biscuits"},
		session.ExpiryChanged{ExpiresAt: ptr(at(3600))},
		session.MetadataWritten{Key: "colour", Value: json.RawMessage(`{"name":"<green>","rgb":[0,128,0]}`)},
		session.MetadataRemoved{Key: "colour"},
		session.VariableStored{Key: "notes/tea", Value: json.RawMessage(`null`)},
		session.VariableDeleted{Key: "notes/tea"},
		session.SystemPromptChanged{Text: "Answer in rhyme."},
		session.ModelChanged{Model: "anthropic/claude", Params: sampleDefinition().ModelParams},
		session.ResponseFormatChanged{ResponseFormat: sampleDefinition().ResponseFormat},
		session.MessageAdded{Message: session.Message{
			ID: "m-1", Seq: 1, CreatedAt: at(2), Role: session.RoleAssistant, Name: "weather", Content: session.Content{
				{Type: session.PartReasoning, Text: "hm", Signature: "c2ln"},
				{Type: session.PartText, Text: "Let me look. 🌧"},
				{Type: session.PartImage, URL: "https://example.com/x.png", MediaType: "image/png"},
				{Type: session.PartFile, FileID: "file-1", Name: "a.pdf", Data: "AAAA"},
				{Type: "hologram", Raw: json.RawMessage(`{"type":"hologram","depth":3}`)},
			},
			ToolCalls:   []session.ToolCall{{ID: "call-1", Name: "forecast", Arguments: json.RawMessage(`{"city":"Oslo"}`)}},
			ExecutionID: "x-1", StepID: "step-1", Unit: "unit-1", Lane: "left", Trace: true, RequestID: "r-2", RootRequestID: "r-1",
			Metadata: session.Values{"k": json.RawMessage(`1.0`)},
		}},
		session.TranscriptCleared{},
		session.WindowMoved{
			Strategy: session.PruneSummary, Limit: 4, From: 2, To: 9, Keep: []int64{2}, Groups: 3, Tokens: 900, Summary: window.Summary,
		},
		session.ExecutionStarted{ExecutionID: "x-1", Budget: sampleDefinition().Budget, RequestID: "r-2", RootRequestID: "r-1"},
		session.ExecutionContinued{},
		session.InferenceAnswered{
			StepID: "step-1", Model: "openai/gpt-4.1-mini", StartedAt: at(3), FinishReason: "tool_calls", Usage: used, Cost: 42, ActiveSeconds: 1.25,
		},
		session.InferenceFailed{StepID: "step-2", Model: "openai/gpt-4.1-mini", StartedAt: at(4), Errors: failed, ActiveSeconds: 2},
		session.ToolStarted{StepID: "step-1", CallID: "call-1", ToolName: "forecast"},
		session.ToolFinished{
			StepID: "step-1", CallID: "call-1", ToolName: "forecast", IsError: true, Synthetic: true, ChildSessionID: "child-1", ActiveSeconds: 3,
		},
		session.StepFinished{StepID: "step-1", Type: session.StepTools, Signals: []session.Signal{stop}, Errors: failed, ActiveSeconds: 3.5},
		session.ExecutionFinished{
			Status: session.ExecutionStopped, Stop: &stop, Signals: []session.Signal{stop}, Errors: failed, ActiveSeconds: 4,
		},
		session.InboxTaken{ItemID: "item-1", ItemKind: "follow_up"},
		session.TailDiscarded{From: 12, To: 15},
		session.TaskRowChanged{Task: session.TaskRow{Title: "Tidy", Prompt: "Tidy the shed.", Status: "executing", TerminalStatus: "ok"}},
		session.WorkflowRowChanged{Workflow: session.WorkflowRow{
			Name: "review", SpecHash: "sha256:00", Pattern: "chain", Status: "failed", Error: "no model",
		}},
		session.WorkflowBegun{
			Spec: json.RawMessage(`{"path":"/specs/tea.yaml","spec":"bmFtZTogdGVhCg=="}`), Variables: []session.RunVariable{{Name: "topic", Value: "<tea>"}},
			Runtime: json.RawMessage(`{"provider":"openai"}`), Extra: json.RawMessage(`{"colour":"green"}`),
		},
		session.WorkflowSpecChanged{Spec: json.RawMessage(`{"path":"/specs/tea.yaml"}`), Runtime: json.RawMessage(`{"provider":"openai"}`)},
		session.UnitStarted{Unit: "step/0", Lane: "main", Agent: "writer", System: ptr("Write well.")},
		session.UnitAdvanced{Unit: "step/0", Agent: "writer", Estimated: true, Change: session.InferenceAnswered{
			StepID: "step-1", Model: "openai/gpt-4.1-mini", StartedAt: at(3), FinishReason: "stop", Usage: used, Cost: 42, ActiveSeconds: 1.25,
		}},
		session.UnitFinished{Unit: "step/0", Agent: "writer", Result: json.RawMessage(`{"response":"<green>"}`), Note: "## noon\n", Seconds: 2.5},
		session.UnitFailed{Unit: "step/1", Agent: "writer", Error: failed[0], Seconds: 3},
		session.QuestionPut{Question: session.Question{
			Unit: "step/2", Prompt: "Go on?", Context: "A draft.", Default: ptr("yes"), TimeoutAt: ptr(at(600)),
		}, Seconds: 4},
		session.QuestionAnswered{Unit: "step/2", Response: "yes", TimedOut: true},
		session.ArtifactWritten{Path: "/out/tea.md", SHA256: "00"},
		session.BudgetWarned{Budget: "max_tokens", Used: 80, Limit: 100},
	}
	list = append(list, taskSamples()...)
	restored := session.NewTaskState() // additions to the state leave its form as it is
	restored.Said.User = "Sweep <now>."
	restored.Tools.Calls = pairs("read_file", 2)
	restored.Plan = &session.Plan{Description: "Tidy.", Steps: []session.PlanStep{{ID: "1", Description: "Sweep.", Status: "pending"}}}
	restored.Imported = pairs("skills", json.RawMessage(`{"b":null}`))
	may := session.Permissions{Mode: session.PermissionDefault, SessionRules: []session.Rule{}}
	return append(list, session.TaskRestored{State: restored, Permissions: &may},
		session.CallPending{Call: session.PendingCall{
			ID: "p-1", Kind: session.PendingApproval, CallID: "call-1", ExecutionID: "e-1", StepID: "s-1", Tool: "shell",
			Arguments: json.RawMessage(`{"command":"make"}`), Prompt: "Run make?", Context: "in /src",
			Choices: []session.Choice{{Value: "allow_once", Label: "Allow"}, {Value: "allow_session", Label: "Allow always", Rule: &session.Rule{
				Source: session.SourceSession, Effect: session.EffectAllow, Scope: session.Scope{Kind: session.ScopeCommandPrefix, Prefix: "make"},
			}}},
			Details: json.RawMessage(`{"reason":"mode"}`), Default: ptr("deny"), AskedAt: at(1), ExpiresAt: ptr(at(60)),
		}},
		session.CallResponded{Response: session.Response{
			PendingID: "p-1", Action: session.RespondDeny, Choice: "deny_once", Text: "not now", IsError: true, By: "ann",
		}, Unit: "step/1"},
		session.ExecutionWaiting{ActiveSeconds: 1.5},
		session.PermissionNoted{Scope: "tool:shell", Note: session.NoteDenied},
		session.UnitsReset{Units: []string{"step/1", "step/2"}, Finished: 1},
		session.SessionTitled{Title: "tea & biscuits", Model: "openai/gpt-4.1-mini", Usage: used, Cost: 42},
	)
}

// taskSamples has every change of a task.
func taskSamples() []session.Change {
	says := map[string]string{
		"plan":            `{"plan":{"description":"Tidy.","steps":[{"id":"1","description":"Sweep.","kind":"primary","status":"in_progress","startedAt":1}]},"reason":"asked"}`,
		"step":            `{"step":{"id":"1","description":"Sweep.","status":"failed","startedAt":1,"completedAt":2,"error":"no broom","verificationAttempts":1,"waived":true},"error":"no broom"}`,
		"task_list":       `{"checklist":{"items":[{"id":"i","title":"Sweep","kind":"implementation","status":"completed","createdAt":1,"updatedAt":2}],"updatedAt":2,"verificationNudgeNeeded":true,"nudgeReason":"check it","reminderArmed":true,"nudgeClearedFor":"h"}}`,
		"approval":        `{"approval":{"id":"a","taskId":"t","callId":"c","type":"run_command","description":"make","details":{"command":"make"},"status":"denied","requestedAt":1,"expiresAt":9,"resolvedAt":2,"action":"deny_once","by":"ana"}}`,
		"permission_rule": `{"rule":{"id":"r","source":"session","effect":"allow","scope":{"kind":"command_prefix","prefix":"git status"},"createdAt":1}}`,
		"permission_mode": `{"mode":"accept_edits"}`, "permission_granted": `{"key":"tool:x","grant":{"grantedAt":1,"expiresAt":2,"instance":"i"}}`,
		"permission_grants": `{"keys":["tool:x"]}`,
	}
	list := []session.Change{session.TaskStateChanged{Buckets: map[string]map[string]json.RawMessage{
		"loop": {"turns": json.RawMessage("3")}, "tools": {"calls": json.RawMessage(`[["read",2],["write",null]]`)},
	}}}
	for _, name := range session.TaskEventNames() {
		data := `{"message":"<said>"}`
		for prefix, text := range says {
			if strings.HasPrefix(name, prefix) && name != "step_timeout" && !strings.HasPrefix(name, "step_feedback") && !strings.HasPrefix(name, "step_contract") {
				data = text
			}
		}
		list = append(list, session.TaskEvent{Name: name, Data: json.RawMessage(data)})
	}
	return list
}

func sampleHeader() session.Info {
	return session.Info{
		ID: "s-1", Name: "tea", Tenant: session.DefaultTenant, UserID: "ana", ParentID: "s-0", Origin: session.OriginSubagent,
		Kind: session.KindChat, Depth: 1, Status: session.Active, AgentName: "weather", AgentLabel: "Weather",
		CreatedAt: at(0), UpdatedAt: at(0), ExpiresAt: ptr(at(3600)),
	}
}

func sampleDefinition() session.Definition {
	return session.Definition{
		Name: "weather", Label: "Weather", Description: "Knows the weather.", SystemPrompt: "Answer in one short sentence.",
		Model: "openai/gpt-4.1-mini", ModelParams: &session.ModelParams{
			MaxOutputTokens: ptr(200), Temperature: ptr(0.5), TopP: ptr(1.0), Stop: []string{"END"},
			Options: session.Values{"seed": json.RawMessage("7")},
		},
		Tools: []string{}, ToolsDeny: []string{"shell"}, Skills: []string{"maps"}, Capabilities: []string{"files"}, Subagents: []string{"scout"},
		MCP: []session.MCPServer{
			{ID: "local", Command: "mcp", Args: []string{"-v"}, Env: map[string]string{"API_KEY": "${WEATHER_KEY}"}},
			{ID: "remote", URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}},
		},
		ResponseFormat: &session.ResponseFormat{Type: "json_schema", Schema: json.RawMessage(`{"type":"object"}`), Name: "answer", Strict: true},
		Budget: &session.Budget{
			MaxSteps: ptr(int64(5)), MaxTokens: ptr(int64(1000)), MaxSeconds: ptr(90.5), MaxCost: ptr(session.Dollars(0.25)), Deadline: ptr(at(600)),
		},
		Memory: &session.MemoryPolicy{
			Strategy: session.PruneSummary, Limit: ptr(4), SummaryPrompt: "Sum up.", SummaryModel: "openai/gpt-4.1-nano", Slack: ptr(2),
			ToolTrace: "current", Recall: &session.Recall{Limit: 3, Threshold: ptr(0.7), Scopes: []string{"user"}}, Tools: true, Scopes: []string{"session", "user"},
		},
		Metadata: session.Values{"team": json.RawMessage(`"north"`)},
	}
}

func sampleState(window session.Window, stop session.Signal, failed []session.Failure, used session.Usage) session.State {
	return session.State{
		AgentID: "agent-1", ParentAgentID: "agent-0", CreatedAt: at(0), UpdatedAt: at(9), SystemPrompt: "Answer.", Model: "m",
		ModelParams: sampleDefinition().ModelParams, ResponseFormat: sampleDefinition().ResponseFormat,
		Metadata:  session.Values{"team": json.RawMessage(`"north"`)},
		Variables: map[string]session.Variable{"a/b": {Value: json.RawMessage("[1]"), Deleted: true, Version: 2, CreatedAt: at(1), UpdatedAt: at(2)}},
		Messages:  []session.Message{}, Window: window, ExecutionCount: 2, InferenceCount: 3, Usage: used, Cost: 42,
		Execution: &session.Execution{
			ID: "x-1", Number: 2, Status: session.ExecutionStopped, StartedAt: at(3), CompletedAt: ptr(at(8)), ActiveSeconds: 4,
			Budget: sampleDefinition().Budget, Usage: used, Cost: 42, Signals: []session.Signal{stop}, Stop: &stop, Errors: failed,
			RequestID: "r-2", RootRequestID: "r-1",
			Steps: []session.Step{{
				ID: "step-1", Number: 1, Type: session.StepTools, Model: "m", StartedAt: at(3), CompletedAt: ptr(at(4)), FinishReason: "tool_calls",
				Usage: used, Cost: 42, MessageIDs: []string{"m-1"}, Errors: failed,
				ToolExecutions: []session.ToolExecution{{CallID: "call-1", ToolName: "forecast", StartedAt: at(3), CompletedAt: ptr(at(4)), IsError: true, Synthetic: true, ChildSessionID: "child-1"}},
			}},
		},
	}
}

// sampleSession is a saved session whose document shows every part.
func sampleSession(t failer) session.Session {
	t.Helper()
	records := []session.Record{{Seq: 1, At: at(0), Change: samples()[0]}}
	records = append(records, session.Record{Seq: 2, At: at(1), Change: session.MessageAdded{
		Message: session.Message{ID: "m-0", CreatedAt: at(1), Role: session.RoleUser, Content: session.Text("A coat in <Oslo>?")},
	}})
	for _, c := range samples() {
		if m, ok := c.(session.MessageAdded); ok {
			records = append(records, session.Record{Seq: 3, At: at(2), Change: m})
		}
	}
	records = append(records, session.Record{Seq: 4, At: at(3), Change: session.MessageAdded{Message: session.Message{
		ID: "m-2", CreatedAt: at(3), Role: session.RoleTool,
		ToolResult: &session.ToolResult{CallID: "call-1", ToolName: "forecast", Content: "rain", IsError: true, Synthetic: true},
	}}})
	s, err := session.Fold(records)
	if err != nil {
		t.Fatalf("fold the samples: %v", err)
	}
	return session.Seal(s, at(10))
}

func sampleFiles(t failer) map[string][]byte {
	t.Helper()
	files := map[string][]byte{"document_v1.json": append(document(t, sampleSession(t)), '\n')}
	for i, c := range samples() {
		r := session.Record{Seq: int64(i + 1), At: at(i), Change: c}
		if m, ok := c.(session.MessageAdded); ok {
			m.Message.Seq = r.Seq
			r.Change = m
		}
		raw, err := r.MarshalJSON()
		if err != nil {
			t.Fatalf("encode %s: %v", c.Kind(), err)
		}
		files[goldenName(c.Kind())] = append(raw, '\n')
	}
	return files
}

// goldenName is the file of a kind. Of kinds whose form has changed the earlier
// ones are kept beside it.
func goldenName(kind string) string {
	if kind == "task_state_changed" || kind == "task_restored" {
		kind += "_v3"
	}
	return filepath.Join("changes", kind+".json")
}

// writeMissing never touches a file that is there: what was once written must
// be readable for ever, so a golden file is only ever added.
func writeMissing(dir string, files map[string][]byte) error {
	for name, data := range files {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func TestGolden_updateWritesOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "old.json")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeMissing(dir, map[string][]byte{"old.json": []byte("new"), "added.json": []byte("new")}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"old.json": "old", "added.json": "new"} {
		if have, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(have) != want {
			t.Errorf("%s holds %q (%v), want %q", name, have, err, want)
		}
	}
}

// Not parallel: with -update it writes what the subtests read.
func TestGolden_everyKindOfChangeHasAFileThatStaysAsItIs(t *testing.T) {
	files := sampleFiles(t)
	if *update {
		if err := writeMissing("testdata", files); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range session.ChangeKinds() {
		t.Run(kind, func(t *testing.T) {
			name := goldenName(kind)
			raw, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatalf("%v; add a sample of the kind, then run with -update", err)
			}
			var r session.Record
			if err := json.Unmarshal(raw, &r); err != nil {
				t.Fatal(err)
			}
			if r.Change.Kind() != kind {
				t.Errorf("the file of %s holds %s", kind, r.Change.Kind())
			}
			again, err := r.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			sameBytes(t, "the record read and written", append(again, '\n'), raw)
			sameBytes(t, "the sample", files[name], raw)
			if _, open := r.Change.(session.TaskEvent); !open { // what an event says is the business of who runs tasks
				unknownFieldIsNamed(t, raw, kind)
			}
		})
	}
	stored, err := os.ReadDir(filepath.Join("testdata", "changes"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range stored {
		if kind := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(f.Name(), ".json"), "_v2"), "_v3"); !slices.Contains(session.ChangeKinds(), kind) {
			t.Errorf("%s is of a kind this program no longer reads", f.Name())
		}
	}
}

func unknownFieldIsNamed(t *testing.T, raw []byte, kind string) {
	t.Helper()
	altered := bytes.Replace(raw, []byte(`"data":{`), []byte(`"data":{"surprise":1,`), 1)
	altered = bytes.Replace(altered, []byte(`1,}`), []byte(`1}`), 1)
	var invalid *session.InvalidError
	if err := json.Unmarshal(altered, new(session.Record)); !errors.As(err, &invalid) || invalid.Field != kind+".surprise" {
		t.Errorf("an unknown field gave %v, want an InvalidError for %s.surprise", err, kind)
	}
	var newer *session.NewerFormatError
	unknown := bytes.Replace(raw, []byte(`"kind":"`), []byte(`"kind":"future_`), 1)
	if err := json.Unmarshal(unknown, new(session.Record)); !errors.As(err, &newer) || !strings.Contains(err.Error(), "future_"+kind) {
		t.Errorf("an unknown kind gave %v, want a NewerFormatError that names it", err)
	}
}

func TestGolden_documentStaysAsItIs(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "document_v1.json"))
	if err != nil {
		t.Fatalf("%v; run with -update", err)
	}
	s, err := session.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, "the document read and written", append(document(t, s), '\n'), raw)
	sameBytes(t, "the sample", append(document(t, sampleSession(t)), '\n'), raw)
	sameParts(t, s, sampleSession(t))
	if want := `{"format":"holdfast.session","formatVersion":1,"header":{"sessionId":`; !bytes.HasPrefix(raw, []byte(want)) {
		t.Errorf("the document begins with %.80s", raw)
	}
	beginning, _, _ := bytes.Cut(raw, []byte(`"definition"`))
	info, err := session.DecodeHeader(beginning)
	if err != nil || info.ID != "s-1" || info.Version != 1 {
		t.Errorf("the header alone is %+v (%v)", info, err)
	}
}

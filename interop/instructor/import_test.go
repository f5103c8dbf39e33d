package instructor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/interop/instructor"
	"github.com/holdfast-dev/holdfast/session"
)

var now = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func file(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func imported(t *testing.T, name string) (session.Session, foreign.Report) {
	t.Helper()
	s, report, err := instructor.Import(file(t, name), foreign.Options{Now: now})
	if err != nil {
		t.Fatalf("import %s: %v", name, err)
	}
	return s, report
}

func at(second int) time.Time { return time.Date(2026, 2, 22, 10, 0, second, 0, time.UTC) }

func TestImport_smallSessionIsReadyToBeCreated(t *testing.T) {
	t.Parallel()
	s, report := imported(t, "small.json")
	info := s.Info()
	want := session.Info{
		ID: "7c9e6679-7425-40de-944b-e07fc1f90ae7", Tenant: "default", Origin: session.OriginImport, Kind: session.KindChat, Status: session.Active,
		AgentName: "helper", AgentLabel: "Helper", MessageCount: 2, CreatedAt: at(0), UpdatedAt: now,
	}
	if !reflect.DeepEqual(info, want) {
		t.Errorf("header is\n %+v, want\n %+v", info, want)
	}
	if !reflect.DeepEqual(report, foreign.Report{Models: []string{"openai"}}) {
		t.Errorf("report is %+v, want nothing but the model", report)
	}
	d := s.Definition()
	if d.Tools != nil || d.ToolsDeny == nil || len(d.ToolsDeny) != 0 {
		t.Errorf("tools are %#v and %#v, want nil and empty", d.Tools, d.ToolsDeny)
	}
	if s.SystemPrompt() != "Answer briefly." || s.Model() != "openai" || s.AgentID() != "0b6f2f4e-1b8a-4c7e-9a53-0d6e6f6a1f10" {
		t.Errorf("prompt %q, model %q, agent %q", s.SystemPrompt(), s.Model(), s.AgentID())
	}
	if m := s.Message(1); m.ID != "m2" || m.Role != session.RoleAssistant || m.Content.Text() != "Hi there." || !m.CreatedAt.Equal(at(2)) {
		t.Errorf("second message is %+v", m)
	}
	records := session.Unsaved(s)
	last := records[len(records)-1].Change
	if want := (session.SessionImported{Format: instructor.Format, Version: 3, UpdatedAt: at(0), Dropped: []string{}}); !reflect.DeepEqual(last, want) {
		t.Errorf("last change is %+v, want %+v", last, want)
	}
	folded, err := session.Fold(records)
	if err != nil || folded.Info().MessageCount != 2 || folded.Info().Origin != session.OriginImport {
		t.Errorf("its log folds to %+v: %v", folded.Info(), err)
	}
}

func TestImport_definition(t *testing.T) {
	t.Parallel()
	s, report := imported(t, "tools.json")
	d := s.Definition()
	want := session.Definition{
		Name: "support-agent", Label: "Support Agent!", Description: "Answers.", SystemPrompt: "Answer briefly.", Model: "openai/gpt-4.1",
		ModelParams: &session.ModelParams{MaxOutputTokens: ptr(1024), Temperature: ptr(0.3), TopP: ptr(0.9), Stop: []string{"END"},
			Options: session.Values{"seed": []byte("7"), "headers": []byte("{}")}},
		Tools: []string{"search", "read_file"}, Skills: []string{"citing"}, Capabilities: []string{"web"},
		Budget: &session.Budget{MaxSteps: ptr(int64(20)), MaxTokens: ptr(int64(50000)), MaxSeconds: ptr(90.0), MaxCost: ptr(session.Dollars(0.5)),
			Deadline: ptr(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))},
		Metadata: session.Values{"team": []byte(`"north"`), "imported.tasks": []byte(`["reserved"]`)},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("definition is\n %+v, want\n %+v", d, want)
	}
	if !slices.Contains(report.Renamed, foreign.Rename{Path: "definition.name", From: "Support Agent!", To: "support-agent"}) {
		t.Errorf("renamed are %+v", report.Renamed)
	}
	if !reflect.DeepEqual(report.Models, []string{"openai/gpt-4.1", "anthropic/claude-x"}) || !reflect.DeepEqual(report.Tools, []string{"search", "read_file"}) {
		t.Errorf("needs models %v and tools %v", report.Models, report.Tools)
	}
}

func TestImport_state(t *testing.T) {
	t.Parallel()
	s, _ := imported(t, "tools.json")
	st := s.State()
	if s.Status() != session.Suspended || s.Info().ParentID != "parent-1" || s.Info().AgentName != "support-agent" {
		t.Errorf("header is %+v", s.Info())
	}
	if st.SystemPrompt != "Answer at length." || st.Model != "anthropic/claude-x" || st.ModelParams != nil {
		t.Errorf("prompt %q, model %q, params %+v", st.SystemPrompt, st.Model, st.ModelParams)
	}
	if f := st.ResponseFormat; f == nil || f.Type != "json_schema" || f.Name != "answer" || !f.Strict || string(f.Schema) != `{"type":"object"}` {
		t.Errorf("response format is %+v", f)
	}
	if got := st.Metadata; got.String("ticket") != "OPS-142" || string(got["nested"]) != `{"kept":1}` || len(got) != 3 || len(s.Tasks()) != 1 {
		t.Errorf("metadata is %s", got)
	}
	if w := st.Window.Summary; w == nil || w.Text != "Earlier: greetings.\n\nAnd tea." || !w.CreatedAt.Equal(at(0)) {
		t.Errorf("summary is %+v", w)
	}
	if shown := s.WindowMessages(); len(shown) != 5 || st.Window.FromSeq != shown[0].Seq {
		t.Errorf("the window shows %d messages from %d on, want all 5 behind the summary", len(shown), st.Window.FromSeq)
	}
}

func TestImport_messages(t *testing.T) {
	t.Parallel()
	s, report := imported(t, "tools.json")
	var ids []string
	for _, m := range s.All() {
		ids = append(ids, m.ID)
	}
	if want := []string{"m1", "m2", "m3", "m4", "m5"}; !reflect.DeepEqual(ids, want) {
		t.Fatalf("messages are %v, want the buffer before the messages", ids)
	}
	wantParts := session.Content{
		{Type: "text", Text: "What is in these?"},
		{Type: "image", URL: "https://example.com/a.png"},
		{Type: "image", MediaType: "image/png", Data: "iVBORw0KGgo="},
		{Type: "file", Name: "a.pdf", MediaType: "application/pdf", Data: "JVBERi0="},
		{Type: "file", FileID: "file-1"},
		{Type: "audio", MediaType: "audio/wav", Data: "UklGRg=="},
		{Type: "video", Raw: []byte(`{"type":"video","video":{"url":"https://example.com/v.mp4"}}`)},
	}
	if got := s.Message(0); !reflect.DeepEqual(got.Content, wantParts) || got.Name != "ada" {
		t.Errorf("parts are\n %+v, want\n %+v", got.Content, wantParts)
	}
	calls := s.Message(1)
	if calls.ExecutionID != "ex-1" || calls.StepID != "st-1" || !calls.Trace || calls.Metadata.String("shade") != "blue" || len(calls.Metadata) != 1 {
		t.Errorf("fields of the calling message are %+v", calls)
	}
	want := []session.ToolCall{
		{ID: "call-1", Name: "search", Arguments: []byte(`{"limit":3,"q":"tea"}`)},
		{ID: "call-2", Name: "read_file", Arguments: []byte(`{}`)},
	}
	if !reflect.DeepEqual(calls.ToolCalls, want) {
		t.Errorf("calls are %+v", calls.ToolCalls)
	}
	if r := s.Message(3); r.Content != nil || *r.ToolResult != (session.ToolResult{CallID: "call-2", ToolName: "read_file", Content: "no such file", IsError: true}) {
		t.Errorf("result is %+v %+v", r, r.ToolResult)
	}
	if err := session.ValidTranscript(s.Messages()); err != nil {
		t.Errorf("a valid transcript became invalid: %v", err)
	}
	if m := s.Message(4); m.StepID != "st-2" || m.ExecutionID != "ex-1" {
		t.Errorf("the answer belongs to step %q of %q, want what its step says", m.StepID, m.ExecutionID)
	}
	if !strings.Contains(strings.Join(report.Notes, "\n"), "sections[3] is a section that the model does not see") {
		t.Errorf("notes are %q", report.Notes)
	}
}

func TestImport_execution(t *testing.T) {
	t.Parallel()
	s, _ := imported(t, "tools.json")
	e := s.Execution()
	if e == nil || e.ID != "ex-1" || e.Number != 4 || e.Status != session.ExecutionCompleted || !e.CompletedAt.Equal(at(6)) || e.ActiveSeconds != 2.25 {
		t.Fatalf("execution is %+v", e)
	}
	if want := (session.Usage{Input: 250, Output: 30, CacheRead: 2, CacheWrite: 1, Reasoning: 3}); e.Usage != want || s.State().Usage != want {
		t.Errorf("usage is %+v and %+v, want %+v", e.Usage, s.State().Usage, want)
	}
	if s.InferenceCount() != 2 || s.State().ExecutionCount != 4 {
		t.Errorf("%d inferences, %d executions", s.InferenceCount(), s.State().ExecutionCount)
	}
	if len(e.Signals) != 1 || e.Stop == nil || e.Stop.Reason != session.StopCompleted || e.Stop.Source != "Loop" {
		t.Errorf("signals are %+v, stop %+v", e.Signals, e.Stop)
	}
	wantErrors := []session.Failure{{Kind: `App\HttpException`, Message: "401 with key [secret:apiKey]"}}
	if len(e.Steps) != 2 || !reflect.DeepEqual(e.Errors, wantErrors) || !reflect.DeepEqual(e.Steps[0].Errors, wantErrors) {
		t.Fatalf("errors are %+v", e.Errors)
	}
	first := e.Steps[0]
	if first.Type != session.StepTools || first.FinishReason != "tool_calls" || first.Number != 1 || !reflect.DeepEqual(first.MessageIDs, []string{"m2", "m3", "m4"}) {
		t.Errorf("first step is %+v", first)
	}
	if len(first.ToolExecutions) != 2 || first.ToolExecutions[0].IsError || !first.ToolExecutions[1].IsError || first.ToolExecutions[1].CallID != "call-2" || !first.ToolExecutions[1].CompletedAt.Equal(at(4)) {
		t.Errorf("tool executions are %+v", first.ToolExecutions)
	}
	if last := e.Steps[1]; last.Type != session.StepFinal || !reflect.DeepEqual(last.MessageIDs, []string{"m5"}) {
		t.Errorf("last step is %+v, want the one message the transcript has", last)
	}
	if s.Reply() != "Tea, mostly." {
		t.Errorf("the reply is %q", s.Reply())
	}
}

func TestImport_reportsWhatIsNotKept(t *testing.T) {
	t.Parallel()
	s, report := imported(t, "tools.json")
	wantDropped := []string{
		"definition.llmConfig.apiKey",
		"definition.llmConfig.apiUrl",
		"definition.llmConfig.contextLength",
		"definition.llmConfig.endpoint",
		"definition.llmConfig.maxOutputLength",
		"definition.llmConfig.metadata",
		"definition.llmConfig.options.headers.Authorization",
		"definition.llmConfig.pricing",
		"definition.llmConfig.queryParams",
		"definition.metadata.api_token",
		"state.context.messageStore.parameters",
		"state.context.messageStore.sections[*].messages",
		"state.context.messageStore.sections[*].messages[*].parentId",
		"state.context.metadata.nested.password",
		"state.execution.stepExecutions[*].step.inferenceResponse.reasoningContent",
		"state.execution.stepExecutions[*].step.inferenceResponse.responseData",
		"state.execution.stepExecutions[*].step.inputMessages",
		"state.execution.stepExecutions[*].step.outputMessages[*]",
		"state.execution.stepExecutions[*].step.toolExecutions[*].error",
		"state.execution.stepExecutions[*].step.toolExecutions[*].result",
		"state.llmConfig.apiKey",
	}
	if !reflect.DeepEqual(report.Dropped, wantDropped) {
		t.Errorf("dropped are\n %s", strings.Join(report.Dropped, "\n "))
	}
	if !reflect.DeepEqual(report.Unknown, []string{"extra", "header.color"}) {
		t.Errorf("unknown are %v", report.Unknown)
	}
	records := session.Unsaved(s)
	if c, ok := records[len(records)-1].Change.(session.SessionImported); !ok || !reflect.DeepEqual(c.Dropped, wantDropped) || c.Version != 12 {
		t.Errorf("the import change is %+v", c)
	}
}

func TestImport_noSecretAnywhere(t *testing.T) {
	t.Parallel()
	secrets := []string{"sk-live-4711-aaaa", "qp-secret-99887766", "hdr-secret-555", "tok-secret-123456", "pw-secret-424242"}
	raw := string(file(t, "tools.json"))
	s, report := imported(t, "tools.json")
	document, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	log, err := json.Marshal(session.Unsaved(s))
	if err != nil {
		t.Fatal(err)
	}
	all := string(document) + string(log) + fmt.Sprintf("%+v", report)
	for _, secret := range secrets {
		if !strings.Contains(raw, secret) {
			t.Errorf("the file does not have %q: this test tests nothing", secret)
		}
		if strings.Contains(all, secret) {
			t.Errorf("%q got through", secret)
		}
	}
	for _, gone := range []string{"input copy", "lost", `"raw":"body"`} {
		if strings.Contains(all, gone) {
			t.Errorf("%q is stored", gone)
		}
	}
}

func TestImport_olderFilesAndRunningExecutions(t *testing.T) {
	t.Parallel()
	s, report := imported(t, "old.json")
	if c := s.Message(1).ToolCalls; len(c) != 1 || c[0].ID != "c1" || c[0].Name != "weather" || string(c[0].Arguments) != `{"city":"Oslo"}` || s.Message(1).Metadata != nil {
		t.Errorf("calls are %+v, metadata %v", c, s.Message(1).Metadata)
	}
	if r := s.Message(2).ToolResult; r == nil || r.CallID != "c1" || r.Content != "rain" {
		t.Errorf("first result is %+v", r)
	}
	if r := s.Message(4).ToolResult; r == nil || *r != (session.ToolResult{CallID: "c2", ToolName: "wind", Content: "calm"}) {
		t.Errorf("second result is %+v", r)
	}
	last := s.Message(5)
	if len(last.ToolCalls) != 1 || s.Len() != 6 {
		t.Errorf("the orphaned call became %+v", last)
	}
	if sent := session.Sendable(s.WindowMessages()); session.ValidTranscript(sent) != nil || len(sent) != 7 {
		t.Errorf("what is sent has %d messages, want the repaired 7", len(sent))
	}
	e := s.Execution()
	if e.Status != session.ExecutionStopped || e.Stop == nil || e.Stop.Reason != session.StopInterrupted || s.Running() || e.CompletedAt == nil {
		t.Errorf("execution is %+v, stop %+v", e, e.Stop)
	}
	if len(e.Steps) != 1 || e.Steps[0].ID != "st-1" || e.Usage.Input != 5 {
		t.Errorf("steps are %+v", e.Steps)
	}
	if !strings.Contains(strings.Join(report.Notes, "\n"), "was in_progress and is stopped now") {
		t.Errorf("notes are %q", report.Notes)
	}
	if _, err := s.With(now, session.ExecutionStarted{ExecutionID: "ex-10"}); err != nil {
		t.Errorf("the session cannot be executed again: %v", err)
	}
}

func TestImport_phpListsAndMaps(t *testing.T) {
	t.Parallel()
	n := 0
	s, report, err := instructor.Import(file(t, "quirks.json"), foreign.Options{Now: now, NewMessageID: func() string { n++; return fmt.Sprintf("new-%d", n) }})
	if err != nil {
		t.Fatal(err)
	}
	d := s.Definition()
	if d.Tools == nil || len(d.Tools) != 0 || !reflect.DeepEqual(d.ToolsDeny, []string{"rm", "mv"}) || !reflect.DeepEqual(d.Capabilities, []string{"a", "b"}) {
		t.Errorf("lists are %#v %#v %#v", d.Tools, d.ToolsDeny, d.Capabilities)
	}
	if d.Budget == nil || *d.Budget != (session.Budget{}) || d.Model != "" || d.ModelParams != nil {
		t.Errorf("budget %+v, model %q %+v", d.Budget, d.Model, d.ModelParams)
	}
	var ids []string
	for _, m := range s.All() {
		ids = append(ids, m.ID)
	}
	if want := []string{"m1", "new-1", "new-2", "new-3", "m4", "m10"}; !reflect.DeepEqual(ids, want) {
		t.Errorf("ids are %v, want %v", ids, want)
	}
	if !reflect.DeepEqual(report.Renamed, []foreign.Rename{{Path: "state.context.messageStore.sections[0].messages[1].id", From: "m1", To: "new-1"}}) {
		t.Errorf("renamed are %+v", report.Renamed)
	}
	calls := s.Message(1).ToolCalls
	if len(calls) != 2 || calls[0].ID == "" || calls[0].ID == calls[1].ID || string(calls[1].Arguments) != `{"0":"x","1":"y"}` {
		t.Fatalf("calls are %+v", calls)
	}
	if s.Message(2).ToolResult.CallID != calls[1].ID || s.Message(3).ToolResult.CallID != calls[0].ID {
		t.Errorf("results name %q and %q", s.Message(2).ToolResult.CallID, s.Message(3).ToolResult.CallID)
	}
	if s.Message(4).Content.Text() != "plain" || s.Execution() != nil || s.Status() != session.Completed {
		t.Errorf("message %+v, execution %+v", s.Message(4), s.Execution())
	}
}

func TestImport_underAnotherName(t *testing.T) {
	t.Parallel()
	s, _, err := instructor.Import(file(t, "small.json"), foreign.Options{NewID: "copy", AgentID: "agent-2", Tenant: "acme", Now: now})
	if err != nil || s.ID() != "copy" || s.AgentID() != "agent-2" || s.Tenant() != "acme" || s.Version() != 0 {
		t.Errorf("imported as %q, %q, %q: %v", s.ID(), s.AgentID(), s.Tenant(), err)
	}
	for _, opts := range []foreign.Options{{NewID: "../x"}, {Tenant: "a b"}} {
		if _, _, err := instructor.Import(file(t, "small.json"), opts); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", opts, err)
		}
	}
}

func ptr[T any](v T) *T { return &v }

package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

func TestCheckID_hostileIDs(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "A", "0", "a-b_c", "A1", "6f0c9d5e-8d0e-4b6e-9f7a-2f1c3a7b9e11", strings.Repeat("a", 128)} {
		if err := session.CheckID(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range append(hostile()[:2], "-a", "_a", ".", "..", "a.b", "a/b", `a\b`, "a b", "a\n", "\na", "a\x00", "é", "ａ", "a\u200b", "a%00",
		"CON:", "~", "$HOME", "a;drop", strings.Repeat("a", 129), strings.Repeat("x", 1<<20), "a\xff", "\ufeffa", "a\r\n") {
		err := session.CheckID(bad)
		refused(t, err, "id")
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("the error repeats an id of %d bytes", len(bad))
		}
		refused(t, session.CheckTenant(bad), "tenant")
	}
}

func TestDefinition_reportsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	d := session.Definition{
		Name: "Not Good", Tools: []string{"a", " "}, ToolsDeny: []string{""}, Skills: []string{"\t"}, Capabilities: []string{""}, Subagents: []string{""},
		ModelParams: &session.ModelParams{
			MaxOutputTokens: ptr(-1), Temperature: ptr(math.NaN()), TopP: ptr(1.5), Options: session.Values{"x": json.RawMessage("{")},
		},
		ResponseFormat: &session.ResponseFormat{Type: " ", Schema: json.RawMessage("nope")},
		Budget: &session.Budget{
			MaxSteps: ptr(int64(-1)), MaxTokens: ptr(int64(-1)), MaxSeconds: ptr(math.Inf(1)), MaxCost: ptr(session.Cost(-1)),
		},
		Memory: &session.MemoryPolicy{
			Strategy: "forget", Limit: ptr(0), SummaryPrompt: "x", Slack: ptr(-1), ToolTrace: "none", Scopes: []string{"world"},
			Recall: &session.Recall{Limit: 101, Threshold: ptr(2.0), Scopes: []string{"moon"}},
		},
		MCP: []session.MCPServer{
			{Command: "x", URL: "y"}, {ID: "a", Command: "x", Env: map[string]string{"API_KEY": "sk-123"}}, {ID: "a", URL: "u"},
		},
		Metadata: session.Values{"tasks": nil, "holdfast.x": nil, "bad\n": nil, "nojson": json.RawMessage("?"), "big": json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)},
	}
	want := []string{
		"name", "tools", "toolsDeny", "skills", "capabilities", "subagents", "modelParams.maxOutputTokens", "modelParams.temperature",
		"modelParams.topP", "modelParams.options.x", "responseFormat.type", "responseFormat.schema", "budget.maxSteps", "budget.maxTokens",
		"budget.maxSeconds", "budget.maxCost", "memory.strategy", "memory.limit", "memory.summaryPrompt", "memory.slack", "memory.toolTrace",
		"memory.scopes", "memory.recall.limit", "memory.recall.threshold", "memory.recall.scopes", "mcp[0].id", "mcp[0]", "mcp[1]", "mcp[2].id",
		"metadata", "metadata.big", "metadata", "metadata.nojson", "metadata",
	}
	var have []string
	for _, p := range d.Problems() {
		have = append(have, p.Field)
		if p.Message == "" || strings.Contains(p.Message, "sk-123") {
			t.Errorf("%s says %q", p.Field, p.Message)
		}
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("have %q\nwant %q", have, want)
	}
	_, err := session.New(session.Identity{ID: "s", AgentID: "a"}, d, session.Seed{}, noon)
	var wrong *session.DefinitionError
	if !errors.As(err, &wrong) || len(wrong.Problems) != len(want) {
		t.Errorf("New gave %v", err)
	}
	for _, p := range wrong.Problems {
		if !strings.Contains(err.Error(), p.Field+": "+p.Message) {
			t.Errorf("the text lacks %s", p.Field)
		}
	}
}

func TestDefinition_goodOnesHaveNoProblems(t *testing.T) {
	t.Parallel()
	for _, d := range []session.Definition{
		{Name: "a"}, sampleDefinition(), {Name: "0_-", Budget: &session.Budget{}, Memory: &session.MemoryPolicy{Strategy: session.PruneAll}},
		{Name: "a", Budget: &session.Budget{MaxSteps: ptr(int64(0)), MaxCost: ptr(session.Cost(0))}, Memory: &session.MemoryPolicy{Limit: ptr(1)}},
	} {
		if p := d.Problems(); p != nil {
			t.Errorf("%s: %v", d.Name, p)
		}
	}
}

func TestDefinition_nameListsKeepOrderAndDropRepeats(t *testing.T) {
	t.Parallel()
	d := session.Definition{Name: "a", Tools: []string{"z", "a", "z", "A", "a"}, Skills: []string{"b", "b"}}
	s, err := session.New(session.Identity{ID: "s", AgentID: "a"}, d, session.Seed{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	if have := s.Definition().Tools; !reflect.DeepEqual(have, []string{"z", "a", "A"}) {
		t.Errorf("tools %q", have)
	}
	if len(d.Tools) != 5 {
		t.Error("the caller's list was changed")
	}
}

func TestSecretKey(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"apiKey", "api_key", "API-KEY", "token", "access_token", "secret", "client.secret", "password", "Authorization", "bearer", "auth"} {
		if !session.SecretKey(key) {
			t.Errorf("%s is no secret", key)
		}
	}
	for _, key := range []string{"maxOutputTokens", "max_tokens", "tokens", "author", "key", "name", ""} {
		if session.SecretKey(key) {
			t.Errorf("%s is a secret", key)
		}
	}
}

func TestMetadata_keysAndSizes(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for _, key := range []string{"tasks", "holdfast.", "holdfast.x", "", "a\nb", "a\x00", "a\xff", strings.Repeat("k", 257)} {
		next, err := s.WithMetadata(key, json.RawMessage("1"), noon)
		refused(t, err, "key")
		if next.Seq() != s.Seq() {
			t.Errorf("%q changed the session", key)
		}
		_, err = s.WithoutMetadata(key, noon)
		refused(t, err, "key")
	}
	for _, key := range []string{"Tasks", "holdfast", "a b", "é", "<&>", strings.Repeat("k", 256)} {
		next, err := s.WithMetadata(key, json.RawMessage(` {"a" : null} `), noon)
		if err != nil || string(next.Metadata()[key]) != `{"a":null}` {
			t.Errorf("%q holds %s (%v)", key, next.Metadata()[key], err)
		}
	}
	fits := json.RawMessage(`"` + strings.Repeat("x", 64<<10-2) + `"`)
	if _, err := s.WithMetadata("k", fits, noon); err != nil {
		t.Errorf("64 KiB: %v", err)
	}
	_, err := s.WithMetadata("k", append(fits, ' ', '\n'), noon) // space is not kept
	if err != nil {
		t.Errorf("64 KiB and space: %v", err)
	}
	_, err = s.WithMetadata("k", json.RawMessage(`"`+strings.Repeat("x", 64<<10-1)+`"`), noon)
	refused(t, err, "value")
	for _, bad := range []string{"", "{", "nope", "1 2", "\"\xff\"", strings.Repeat("[", 5000) + strings.Repeat("]", 5000)} {
		_, err := s.WithMetadata("k", json.RawMessage(bad), noon)
		refused(t, err, "value")
	}
	next, err := s.WithMetadata("k", nil, noon)
	if err != nil || string(next.Metadata()["k"]) != "null" {
		t.Errorf("null is %s (%v)", next.Metadata()["k"], err)
	}
	gone, err := next.WithoutMetadata("k", noon)
	if _, there := gone.Metadata()["k"]; err != nil || there {
		t.Errorf("removed key is there: %t (%v)", there, err)
	}
	if same, err := gone.WithoutMetadata("k", noon); err != nil || same.Seq() != gone.Seq() {
		t.Errorf("removing a missing key made a change (%v)", err)
	}
}

func TestVariables_countWritesAndDeletions(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for _, key := range []string{"", "/a", "a/", "a//b", ".", "a/../b", "a/./b", "..", "a\n", strings.Repeat("k", 257)} {
		_, err := s.WithVariable(key, nil, noon)
		refused(t, err, "key")
	}
	big := json.RawMessage(`"` + strings.Repeat("x", 256<<10-2) + `"`)
	if _, err := s.WithVariable("k", big, noon); err != nil {
		t.Errorf("256 KiB: %v", err)
	}
	_, err := s.WithVariable("k", json.RawMessage(`"`+strings.Repeat("x", 256<<10-1)+`"`), noon)
	refused(t, err, "value")

	s = apply(t, s, session.VariableStored{Key: "a/b", Value: json.RawMessage("1")}, session.VariableStored{Key: "a/b", Value: json.RawMessage("2")})
	v := s.Variables()["a/b"]
	if string(v.Value) != "2" || v.Version != 2 || !v.UpdatedAt.After(v.CreatedAt) {
		t.Errorf("%+v", v)
	}
	s = apply(t, s, session.VariableDeleted{Key: "a/b"}, session.VariableDeleted{Key: "a/b"}, session.VariableDeleted{Key: "never"})
	if len(s.Variables()) != 0 || s.State().Variables["a/b"].Version != 3 {
		t.Errorf("deleted: %+v", s.State().Variables)
	}
	s = apply(t, s, session.VariableStored{Key: "a/b"})
	if v := s.Variables()["a/b"]; v.Version != 4 || !v.CreatedAt.Equal(v.UpdatedAt) || string(v.Value) != "null" {
		t.Errorf("stored anew: %+v", v)
	}
}

func TestTasks_rules(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s, err := s.WithTasks([]session.TaskItem{
		{Content: " boil water "}, {Content: "brew", Status: " in_progress ", ActiveForm: " Brewing "}, {Content: "drink", Status: session.TaskCompleted},
	}, noon)
	if err != nil {
		t.Fatal(err)
	}
	want := []session.TaskItem{
		{Content: "boil water", Status: session.TaskPending, ActiveForm: "boil water"},
		{Content: "brew", Status: session.TaskInProgress, ActiveForm: "Brewing"},
		{Content: "drink", Status: session.TaskCompleted, ActiveForm: "drink"},
	}
	if have := s.Tasks(); !reflect.DeepEqual(have, want) {
		t.Errorf("%+v", have)
	}
	if have := string(s.Metadata()["tasks"]); !strings.HasPrefix(have, `[{"content":"boil water","status":"pending","activeForm":"boil water"}`) {
		t.Errorf("kept as %s", have)
	}
	many := make([]session.TaskItem, 21)
	for i := range many {
		many[i].Content = fmt.Sprint(i)
	}
	for field, bad := range map[string][]session.TaskItem{
		"tasks":            many,
		"tasks[1].content": {{Content: "a"}, {Content: " \t"}},
		"tasks[0].status":  {{Content: "a", Status: "done"}},
		"tasks[2].status":  {{Content: "a", Status: session.TaskInProgress}, {Content: "b"}, {Content: "c", Status: session.TaskInProgress}},
	} {
		next, err := s.WithTasks(bad, noon)
		refused(t, err, field)
		if !reflect.DeepEqual(next.Tasks(), want) {
			t.Errorf("%s: the list changed", field)
		}
	}
	if _, err := s.WithTasks(many[:20], noon); err != nil {
		t.Errorf("20 items: %v", err)
	}
	if s, err = s.WithTasks(nil, noon); err != nil || len(s.Tasks()) != 0 || string(s.Metadata()["tasks"]) != "[]" {
		t.Errorf("an empty list is %s (%v)", s.Metadata()["tasks"], err)
	}
}

func TestStatus_restoreLeadsBack(t *testing.T) {
	t.Parallel()
	for _, before := range []session.Status{session.Active, session.Suspended, session.Completed, session.Failed} {
		s, err := newSession(t).WithStatus(before, "", noon)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := s.WithStatus(before, "", noon); err != nil || same.Seq() != s.Seq() {
			t.Errorf("moving to the same status made a change (%v)", err)
		}
		deleted, err := s.WithStatus(session.Deleted, "tidy", noon)
		if err != nil || deleted.StatusBeforeDeletion() != before {
			t.Errorf("before deletion: %s, want %s (%v)", deleted.StatusBeforeDeletion(), before, err)
		}
		restored, err := deleted.WithStatus(before, "", noon)
		if err != nil || !reflect.DeepEqual(restored.Metadata(), s.Metadata()) {
			t.Errorf("restoring left %v (%v)", restored.Metadata(), err)
		}
	}
	_, err := newSession(t).WithStatus("Deleted", "", noon)
	refused(t, err, "status")
	_, err = newSession(t).WithStatus(session.Failed, strings.Repeat("x", 2001), noon)
	refused(t, err, "reason")
}

func TestRows_belongToTheirKind(t *testing.T) {
	t.Parallel()
	for _, c := range []session.Change{session.TaskRowChanged{}, session.WorkflowRowChanged{}} {
		_, err := newSession(t).With(noon, c)
		refused(t, err, "kind")
	}
	for kind, c := range map[session.Kind]session.Change{
		session.KindTask:     session.TaskRowChanged{Task: session.TaskRow{Title: "bad\xff"}},
		session.KindWorkflow: session.WorkflowRowChanged{Workflow: session.WorkflowRow{Name: "bad\xff"}},
	} {
		s, err := session.New(session.Identity{ID: "s", AgentID: "a", Kind: kind}, session.Definition{Name: "agent"}, session.Seed{}, noon)
		if err != nil {
			t.Fatal(err)
		}
		s = session.Seal(apply(t, s, c), noon)
		decoded, err := session.Decode(document(t, s))
		if err != nil {
			t.Fatal(err)
		}
		sameParts(t, decoded, s)
	}
}

func TestMessage_rules(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	result := &session.ToolResult{CallID: "c"}
	call := []session.ToolCall{{ID: "c", Name: "t"}}
	for name, tt := range map[string]struct {
		m     session.Message
		field string
	}{
		"no id":             {session.Message{Role: session.RoleUser}, "message.id"},
		"long id":           {session.Message{ID: strings.Repeat("x", 256), Role: session.RoleUser}, "message.id"},
		"no role":           {session.Message{ID: "m"}, "message.role"},
		"odd role":          {session.Message{ID: "m", Role: "function"}, "message.role"},
		"tool, no result":   {session.Message{ID: "m", Role: session.RoleTool}, "message.toolResult"},
		"user with result":  {session.Message{ID: "m", Role: session.RoleUser, ToolResult: result}, "message.toolResult"},
		"user calls":        {session.Message{ID: "m", Role: session.RoleUser, ToolCalls: call}, "message.toolCalls"},
		"call without name": {session.Message{ID: "m", Role: session.RoleAssistant, ToolCalls: []session.ToolCall{{ID: "c"}}}, "message.toolCalls"},
		"arguments no JSON": {session.Message{ID: "m", Role: session.RoleAssistant, ToolCalls: []session.ToolCall{{ID: "c", Name: "t", Arguments: json.RawMessage("{")}}}, "message.toolCalls.arguments"},
		"arguments a list":  {session.Message{ID: "m", Role: session.RoleAssistant, ToolCalls: []session.ToolCall{{ID: "c", Name: "t", Arguments: json.RawMessage("[]")}}}, "message.toolCalls.arguments"},
		"part, no type":     {session.Message{ID: "m", Role: session.RoleUser, Content: session.Content{{Text: "x"}}}, "message.content"},
		"part, no raw":      {session.Message{ID: "m", Role: session.RoleUser, Content: session.Content{{Type: "smell"}}}, "message.content"},
		"part, other raw":   {session.Message{ID: "m", Role: session.RoleUser, Content: session.Content{{Type: "smell", Raw: json.RawMessage(`{"type":"taste"}`)}}}, "message.content"},
		"metadata":          {session.Message{ID: "m", Role: session.RoleUser, Metadata: session.Values{"k": json.RawMessage("?")}}, "message.metadata.k"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.WithMessage(tt.m, noon)
			refused(t, err, tt.field)
		})
	}
	s = apply(t, s, session.MessageAdded{Message: session.Message{ID: "m", Seq: 99, Role: session.RoleAssistant, ToolCalls: call}})
	if m := s.Message(0); m.Seq != 2 || string(m.ToolCalls[0].Arguments) != "{}" || m.Content.Text() != "" || !m.Content.Blank() {
		t.Errorf("%+v", m)
	}
}

func TestContent_isAStringWhenItIsOneText(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]session.Content{
		`""`: nil, `"hi"`: session.Text("hi"),
		`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`: {{Type: session.PartText, Text: "a"}, {Type: session.PartText, Text: "b"}},
		`[{"type":"text","text":"a","signature":"s"}]`:            {{Type: session.PartText, Text: "a", Signature: "s"}},
		`[{"type":"smell","x":1}]`:                                {{Type: "smell", Raw: json.RawMessage(`{"type":"smell","x":1}`)}},
	} {
		raw, err := json.Marshal(c)
		if err != nil || string(raw) != want {
			t.Errorf("%+v is %s (%v), want %s", c, raw, err, want)
		}
		var back session.Content
		if err := json.Unmarshal([]byte(want), &back); err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%s was read as %+v (%v)", want, back, err)
		}
	}
	for _, bad := range []string{"1", "{}", "[1]", "[null]", `[{"text":"x"}]`, `[{"type":"text","Text":"x"}]`, `[{"type":1}]`} {
		if err := json.Unmarshal([]byte(bad), new(session.Content)); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s gave %v", bad, err)
		}
	}
	if two := (session.Content{{Type: session.PartText, Text: "a"}, {Type: session.PartImage}, {Type: session.PartText, Text: "b"}}).Text(); two != "a\nb" {
		t.Errorf("texts join as %q", two)
	}
}

func TestInfos(t *testing.T) {
	t.Parallel()
	list := session.Infos{{ID: "a", Status: session.Active, AgentName: "x"}, {ID: "b", Status: session.Failed, AgentName: "y", Fork: &session.ForkPoint{Seq: 1}}}
	if first, ok := list.First(); !ok || first.ID != "a" {
		t.Errorf("first is %+v", first)
	}
	if _, ok := (session.Infos{}).First(); ok {
		t.Error("an empty list has a first")
	}
	failed := list.WithStatus(session.Failed)
	if len(failed) != 1 || failed[0].ID != "b" || len(list.WithAgent("x")) != 1 || len(list.WithAgent("z")) != 0 {
		t.Errorf("failed: %+v", failed)
	}
	failed[0].Fork.Seq = 9
	if list[1].Fork.Seq != 1 {
		t.Error("a filtered list shares memory with its source")
	}
	if raw, err := json.Marshal(session.Infos(nil)); err != nil || string(raw) != "[]" {
		t.Errorf("no headers are %s (%v)", raw, err)
	}
}

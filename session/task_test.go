package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

// sampleTask has every field of a task's state set, the queues apart.
func sampleTask() session.TaskState {
	s := session.NewTaskState()
	s.Said = session.TaskSaid{
		User: "Sweep <now>.", Answer: ptr("Checked."), Result: ptr("Swept."), Shown: ptr("Checked."),
	}
	s.Tools = session.TaskTools{
		Results: []session.ToolMemory{{Tool: "read_file", Summary: "a floor", At: 3}},
		Pages:   []session.Page{{Tool: "web_fetch", URL: "https://example.com", Title: "T", Class: "docs", Published: "2026-01-01", At: 4}},
		Calls:   pairs("read_file", 2, "web_fetch", 1), Successes: pairs("read_file", 1),
		SinceHalved: 3, Halvings: 1, Found: session.NewSet("broom"),
		Failures:    pairs("shell", session.ToolFailure{Systemic: 1, InputDependent: 2, LastError: "no broom", DisabledUntil: 9, Disables: 1, Scope: "global"}),
		PageFailure: &session.PageFailed{At: 4, Tool: "web_fetch", URL: "https://example.com/x", Error: "gone", Status: 410},
		Counts:      &session.BudgetCounters{ToolCalls: 3, WebSearchCalls: 1, DuplicatesBlocked: 2}, Started: session.NewSet("call-1"),
	}
	s.Files = session.TaskFiles{
		Read: pairs("floor.go", session.FileRead{Step: "1", Bytes: 9}), Reads: pairs("floor.go", session.Count{Count: 2, LastAt: 3, PrevAt: 1}),
		Listings: pairs(".", session.Count{Count: 1, LastAt: 2, PrevAt: 1}), Created: []string{"wall.go"},
	}
	s.Loop = session.TaskLoop{
		Turns: 3, LifetimeTurns: 7, Continuations: 1, Window: 2, WindowStart: 40, NoProgress: 1,
		Fingerprint: "shell::{}::no", Compactions: 1, CompactedAt: 6, TokensBefore: 900, TokensAfter: 300,
		BlockedText: ptr("shell::{}"), Advice: "try a mop", SoftDeadline: true, WrapUp: true,
		LowTurnsNoted: true, FollowUpRetries: 1, FollowUpBlock: "spent", Iterations: 3,
		NoProgressWindow: 2, LandingNoted: true,
		Blocked: &session.Signature{Tool: "shell", Input: "{}"},
	}
	s.Recovery = session.TaskRecovery{
		Active: true, Failure: "1:local_runtime", Recovered: session.NewSet("0"),
		Class: ptr("local_runtime"), DisabledScope: ptr("global"), RetryReason: ptr("failed"),
	}
	s.Steps = session.TaskSteps{
		Current: ptr("1"), Counts: &session.StepCounts{
			StepID: "1", Iterations: 2, LLMCalls: 3, Empty: 1, Recovered: 1, Repeated: 1, ContextRecoveries: 1, MaxTokenRecoveries: 1, Notes: session.NewSet("loop"), Pause: "denied",
		},
		Outcomes:       []session.StepOutcome{{StepID: "1", Description: "Sweep.", Status: "completed", Files: []string{"floor.go"}, Summary: "clean"}},
		Evidence:       []session.Evidence{{Kind: "shell_command", OK: true, Detail: "exit 0", At: 7}},
		FailedOptional: session.NewSet("2"), FailedRequired: session.NewSet("3"),
	}
	s.Checklist = session.Checklist{
		Items:     []session.ChecklistItem{{ID: "i", Title: "Sweep", Kind: "implementation", Status: "completed", CreatedAt: 1, UpdatedAt: 2}},
		UpdatedAt: 2, VerificationNudgeNeeded: true, NudgeReason: ptr("check it"), ReminderArmed: true, NudgeClearedFor: "hash",
	}
	s.Usage = session.TaskUsage{
		Input: 10, Output: 20, Cost: 0.5, EarlierInput: 1, EarlierOutput: 2, EarlierCost: 0.25,
	}
	s.Settings = session.TaskSettings{Budget: json.RawMessage(`{"maxTurns":9}`), AutoResume: true, Deep: true, PlanMode: "auto", ModeSeq: 3, Capabilities: map[string]bool{"shell": true}}
	s.Plan = &session.Plan{Description: "Tidy.", Steps: []session.PlanStep{{
		ID: "1", Description: "Sweep.", Kind: "verification", Status: "failed", StartedAt: 1, CompletedAt: 2, Error: "no broom", VerificationAttempts: 1, Waived: true,
	}}}
	s.Imported = pairs("skills", json.RawMessage(`{"b":null,"a":1}`), "permissions.recentSensitiveSources", json.RawMessage(`null`))
	return s
}

// samplePermissions has every field set.
func samplePermissions() session.Permissions {
	return session.Permissions{
		Mode: session.PermissionAcceptEdits, SessionRules: []session.Rule{{
			ID: "r", Source: session.SourceSession, Effect: session.EffectAllow, Scope: session.Scope{Kind: session.ScopeCommandPrefix, Prefix: "git status"},
			CreatedAt: 1, Metadata: session.Values{"why": json.RawMessage(`"asked"`)},
		}},
		TemporaryGrants: pairs("tool:x", session.Grant{GrantedAt: 1, ExpiresAt: 2, Instance: "i", SurvivesRestart: true}),
		DenialTracking:  pairs("tool:y", session.Denial{ConsecutiveDenials: 1, TotalDenials: 2, PromptedAtTotal: 1}),
	}
}

// pairs makes an ordered map of keys and values in turn.
func pairs[V any](key string, value V, more ...any) session.Pairs[V] {
	p := session.Pairs[V]{}.With(key, value)
	for i := 0; i < len(more); i += 2 {
		p = p.With(more[i].(string), more[i+1].(V))
	}
	return p
}

// taskSession is a task at version 1.
func taskSession(t failer) session.Session {
	t.Helper()
	s, err := session.New(session.Identity{ID: "t-1", AgentID: "agent-1", Kind: session.KindTask}, session.Definition{Name: "worker"}, session.Seed{}, noon)
	if err != nil {
		t.Fatalf("make a task: %v", err)
	}
	return session.Seal(s, noon)
}

func event(name, data string) session.TaskEvent {
	return session.TaskEvent{Name: name, Data: json.RawMessage(data)}
}

func TestTaskState_sampleHasEveryField(t *testing.T) {
	t.Parallel()
	var unset []string
	var look func(v reflect.Value, path string)
	look = func(v reflect.Value, path string) {
		switch {
		case v.Kind() == reflect.Pointer && !v.IsNil():
			look(v.Elem(), path)
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				if !v.Type().Field(i).IsExported() && v.Type() == reflect.TypeFor[session.TaskState]() {
					continue // no part of what is kept
				}
				look(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case v.Kind() == reflect.Slice && v.Len() > 0 && v.Type().Elem().Kind() == reflect.Struct:
			look(v.Index(0), path)
		case v.IsZero() && !strings.Contains(path, ".Queues.") && !strings.Contains(path, "Scope.") && !strings.Contains(path, "MatchedRule."):
			unset = append(unset, path)
		}
	}
	look(reflect.ValueOf(sampleTask()), "task")
	if len(unset) > 0 {
		t.Errorf("not set: %v", unset)
	}
}

func TestTaskState_encodesListsNeverNull(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]session.TaskState{"new": session.NewTaskState(), "folded": *apply(t, taskSession(t), event("executing", `{}`)).Task()} {
		raw, err := session.JSON(s)
		if err != nil {
			t.Fatal(err)
		}
		var buckets map[string]json.RawMessage
		if err := json.Unmarshal(raw, &buckets); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`"outcomes":[]`, `"results":[]`, `"calls":[]`, `"found":[]`, `"read":[]`,
			`"recovered":[]`, `"followUps":[]`, `"feedback":[]`, `"evidence":[]`, `"items":[]`,
			`"created":[]`, `"imported":[]`, `"window":1`, `"plan":null`, `"current":null`,
		} {
			if !strings.Contains(string(raw), want) {
				t.Errorf("%s: no %s in %s", name, want, raw)
			}
		}
		for _, addition := range []string{"failures", "reads", "counts", "blocked", "reminderArmed", "pageFailure", "started"} {
			if strings.Contains(string(raw), `"`+addition+`"`) {
				t.Errorf("%s: the addition %s is there without a value", name, addition)
			}
		}
	}
}

func TestTaskState_collectionsKeepTheNewest(t *testing.T) {
	t.Parallel()
	s := session.NewTaskState()
	for i := range 600 {
		key := fmt.Sprint(i)
		s.Steps.Outcomes = append(s.Steps.Outcomes, session.StepOutcome{StepID: key})
		s.Tools.Results = append(s.Tools.Results, session.ToolMemory{Tool: key, Summary: strings.Repeat("é", 2001)})
		s.Tools.Pages = append(s.Tools.Pages, session.Page{URL: key})
		s.Steps.Evidence = append(s.Steps.Evidence, session.Evidence{Kind: key})
		s.Files.Read = s.Files.Read.With(key, session.FileRead{})
		s.Files.Created = append(s.Files.Created, key)
	}
	moves, _, err := session.TaskMoves(session.NewTaskState(), s)
	if err != nil {
		t.Fatal(err)
	}
	for how, c := range map[string]session.Change{"moved": moves, "restored": session.TaskRestored{State: s}} {
		have := apply(t, taskSession(t), c).Task()
		for what, n := range map[string][2]int{
			"outcomes": {len(have.Steps.Outcomes), 200}, "results": {len(have.Tools.Results), 50},
			"pages": {len(have.Tools.Pages), 100}, "evidence": {len(have.Steps.Evidence), 200},
			"read":    {have.Files.Read.Len(), 500},
			"created": {len(have.Files.Created), 50},
			"summary": {len([]rune(have.Tools.Results[0].Summary)), 2000},
		} {
			if n[0] != n[1] {
				t.Errorf("%s: %s has %d, want %d", how, what, n[0], n[1])
			}
		}
		if first := have.Tools.Results[0].Tool; first != "550" {
			t.Errorf("%s: the oldest result is %s, want 550", how, first)
		}
		if _, ok := have.Files.Read.Get("99"); ok {
			t.Errorf("%s: an old file is still there", how)
		}
	}
}

func TestTaskState_oneRuleTooManyIsRefusedAndNoneDropped(t *testing.T) {
	t.Parallel()
	full := session.Permissions{Mode: session.PermissionDefault}
	for i := range session.MaxSessionRules {
		full.SessionRules = append(full.SessionRules, session.Rule{
			Source: session.SourceSession, Effect: session.EffectAllow, Scope: session.Scope{Kind: session.ScopeTool, ToolName: fmt.Sprint("tool-", i)},
		})
	}
	s := apply(t, taskSession(t), session.TaskRestored{State: session.NewTaskState(), Permissions: &full})
	rule := `{"source":"session","effect":"deny","scope":{"kind":"tool","toolName":"more"}}`
	over := full.Clone()
	over.SessionRules = append(over.SessionRules, session.Rule{Source: "session", Effect: "deny", Scope: session.Scope{Kind: "tool", ToolName: "more"}})
	moves := session.TaskStateChanged{Buckets: map[string]map[string]json.RawMessage{"permissions": {"sessionRules": mustJSON(t, over.SessionRules)}}}
	for how, c := range map[string]session.Change{
		"added": event("permission_rule_added", `{"rule":`+rule+`}`), "moved": moves, "restored": session.TaskRestored{State: session.NewTaskState(), Permissions: &over},
	} {
		next, err := s.With(noon, c)
		var wrong *session.RuleError
		if !errors.As(err, &wrong) || next.Seq() != s.Seq() {
			t.Errorf("%s: %v, now at %d", how, err, next.Seq())
		}
	}
	s = apply(t, s, event("permission_rule_added", `{"rule":`+strings.Replace(strings.Replace(rule, "more", "tool-7", 1), "deny", "allow", 1)+`}`))
	if n := len(s.Permissions().SessionRules); n != session.MaxSessionRules {
		t.Errorf("a rule that is there makes %d", n)
	}
	s = apply(t, s, event("permission_rule_removed", `{"rule":{"source":"session","effect":"allow","scope":{"kind":"tool","toolName":"tool-7"}}}`))
	s = apply(t, s, event("permission_rule_added", `{"rule":`+rule+`}`))
	if rules := s.Permissions().SessionRules; len(rules) != session.MaxSessionRules || rules[len(rules)-1].Effect != session.EffectDeny {
		t.Errorf("%d rules, the last %+v", len(rules), rules[len(rules)-1])
	}
}

// Two who go on from one session at once must not meet in its memory.
func TestTaskState_foldingLeavesTheOlderStateAlone(t *testing.T) {
	t.Parallel()
	long := sampleTask()
	long.Tools.Results[0].Summary = strings.Repeat("x", 2000)
	s := apply(t, taskSession(t), session.TaskRestored{State: long})
	before := document(t, s)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, c := range taskSamples() {
				if _, err := s.With(noon, c); err != nil {
					t.Errorf("%s: %v", c.Kind(), err)
				}
				_ = s.Task()
			}
		})
	}
	all.Wait()
	sameBytes(t, "the session others went on from", document(t, s), before)
	got := s.Task()
	skills, _ := got.Imported.Get("skills")
	got.Plan.Steps[0].Status, skills[0] = "scribbled", 'x'
	sameBytes(t, "the session after its copy was written to", document(t, s), before)
}

func TestTaskRestored_isTheWholeState(t *testing.T) {
	t.Parallel()
	want := sampleTask()
	withQueue := want
	withQueue.Queues.FollowUps = []session.FollowUp{{Message: "not mine"}}
	s := apply(t, taskSession(t), event("plan_created", `{"plan":{"description":"old","steps":[]}}`), session.TaskRestored{State: withQueue})
	if have := s.Task(); !reflect.DeepEqual(*have, *want.Clone()) {
		t.Errorf("have %+v\nwant %+v", have, want)
	}
	chat := newSession(t)
	for _, c := range []session.Change{session.TaskRestored{State: want}, event("executing", `{}`), session.TaskStateChanged{}} {
		_, err := chat.With(noon, c)
		refused(t, err, "kind")
	}
	bad := want
	bad.Imported = pairs("x", json.RawMessage("{"))
	if _, err := taskSession(t).With(noon, session.TaskRestored{State: bad}); err == nil {
		t.Error("what is no JSON was taken")
	}
	bad = want
	bad.Plan = &session.Plan{Steps: []session.PlanStep{{ID: "a"}, {ID: "a"}}}
	_, err := taskSession(t).With(noon, session.TaskRestored{State: bad})
	refused(t, err, "plan")
	_, err = taskSession(t).With(noon, session.TaskRestored{State: want, Permissions: &session.Permissions{Mode: "reckless"}})
	refused(t, err, "permissionMode")
}

func TestFork_ofATaskLeavesGrantsAndPromptsBehind(t *testing.T) {
	t.Parallel()
	work, may := sampleTask(), samplePermissions()
	for status, want := range map[string][2]string{
		"executing": {"interrupted", "resume_available"}, "blocked": {"interrupted", "resume_available"}, "pending": {"interrupted", "resume_available"},
		"completed": {"completed", "ok"}, "failed": {"failed", "ok"}, "cancelled": {"cancelled", "ok"},
	} {
		s := session.Seal(apply(t, taskSession(t), session.TaskRestored{State: work, Permissions: &may},
			session.TaskRowChanged{Task: session.TaskRow{Title: "t", Status: status, TerminalStatus: "ok", PendingApprovals: 1, ExecutionMode: "debug"}}), noon)
		fork, err := s.Fork("t-2", "agent-2", noon)
		if err != nil {
			t.Fatal(err)
		}
		row := fork.Info().Task
		if row.Status != want[0] || row.TerminalStatus != want[1] || row.PendingApprovals != 0 || row.Title != "t" || row.ExecutionMode != "debug" {
			t.Errorf("%s: row %+v", status, row)
		}
		have, kept := *fork.Task(), *s.Task()
		if fork.Permissions().TemporaryGrants.Len() != 0 || have.Settings.AutoResume {
			t.Errorf("%s: grants %v autoResume %t", status, fork.Permissions().TemporaryGrants, have.Settings.AutoResume)
		}
		kept.Settings.AutoResume = false
		if !reflect.DeepEqual(have, kept) {
			t.Errorf("%s: the rest differs\nhave %+v\nwant %+v", status, have, kept)
		}
		if s.Permissions().TemporaryGrants.Len() != 1 || s.Info().Task.Status != status {
			t.Errorf("%s: the parent changed", status)
		}
	}
}

package storetest

import (
	"encoding/json"

	"github.com/holdfast-dev/holdfast/session"
)

// fullTask has every field of a task's state set. The queues are the inbox
// and never part of it.
func fullTask() session.TaskState {
	text := func(s string) *string { return &s }
	s := session.NewTaskState()
	s.Said = session.TaskSaid{
		User: "<tidy> \u2028", Answer: text("checked"), Result: text("tidied"), Shown: text("\x00"),
	}
	s.Tools = session.TaskTools{
		Results: []session.ToolMemory{{Tool: "read", Summary: "s", At: 1}},
		Pages:   []session.Page{{Tool: "web_fetch", URL: "u", Title: "t", Class: "c", Published: "p", At: 1}},
		Calls:   session.Pairs[int]{}.With("b", 2).With("a", 1), Successes: session.Pairs[int]{}.With("b", 1),
		SinceHalved: 1, Halvings: 2, Found: session.NewSet("z", "y"),
		Failures: session.Pairs[session.ToolFailure]{}.With("read", session.ToolFailure{
			Systemic: 1, InputDependent: 2, LastError: "e", DisabledUntil: 3, Disables: 4, Scope: "global"}),
		PageFailure: &session.PageFailed{At: 1, Tool: "web_fetch", URL: "u", Error: "e", Status: 500},
		Counts:      &session.BudgetCounters{ToolCalls: 1, WebSearchCalls: 2, DuplicatesBlocked: 3}, Started: session.NewSet("c1"),
	}
	count := session.Pairs[session.Count]{}.With("a", session.Count{Count: 1, LastAt: 2, PrevAt: 1})
	s.Files = session.TaskFiles{
		Read: session.Pairs[session.FileRead]{}.With("a", session.FileRead{Step: "1", Bytes: 2}), Reads: count, Listings: count, Created: []string{"b"},
	}
	s.Loop = session.TaskLoop{
		Turns: 1, LifetimeTurns: 2, Continuations: 3, Window: 4, WindowStart: 5, NoProgress: 6,
		Fingerprint: "f", Compactions: 7, CompactedAt: 8, TokensBefore: 9, TokensAfter: 10,
		BlockedText: text("b"), Advice: "m", SoftDeadline: true, WrapUp: true,
		LowTurnsNoted: true, FollowUpRetries: 11, FollowUpBlock: "r", Iterations: 12,
		NoProgressWindow: 15, LandingNoted: true,
		Blocked: &session.Signature{Tool: "t", Input: "{}"},
	}
	s.Recovery = session.TaskRecovery{
		Active: true, Failure: "s", Recovered: session.NewSet("1"),
		Class: text("c"), DisabledScope: text("global"), RetryReason: text("r"),
	}
	s.Steps = session.TaskSteps{
		Current: text("1"), Counts: &session.StepCounts{
			StepID: "1", Iterations: 1, LLMCalls: 2, Empty: 3, Recovered: 4, Repeated: 5, ContextRecoveries: 6, MaxTokenRecoveries: 7, Notes: session.NewSet("n"), Pause: "p",
		},
		Outcomes:       []session.StepOutcome{{StepID: "1", Description: "d", Status: "completed", Files: []string{"a"}, Summary: "o"}},
		Evidence:       []session.Evidence{{Kind: "k", OK: true, Detail: "d", At: 1}},
		FailedOptional: session.NewSet("1"), FailedRequired: session.NewSet("2"),
	}
	s.Checklist = session.Checklist{
		Items:     []session.ChecklistItem{{ID: "i", Title: "t", Kind: "implementation", Status: "completed", CreatedAt: 1, UpdatedAt: 2}},
		UpdatedAt: 2, VerificationNudgeNeeded: true, NudgeReason: text("r"), ReminderArmed: true, NudgeClearedFor: "h",
	}
	s.Usage = session.TaskUsage{
		Input: 1, Output: 2, Cost: 0.1, EarlierInput: 3, EarlierOutput: 4, EarlierCost: 0.2,
	}
	s.Settings = session.TaskSettings{Budget: []byte(`{"maxTurns":1}`), AutoResume: true, Deep: true, PlanMode: "auto", ModeSeq: 2, Capabilities: map[string]bool{"shell": true, "network": false}}
	s.Plan = &session.Plan{Description: "d", Steps: []session.PlanStep{{
		ID: "1", Description: "d", Kind: "verification", Status: "failed", StartedAt: 1, CompletedAt: 2, Error: "e", VerificationAttempts: 1, Waived: true,
	}}}
	s.Imported = session.Pairs[json.RawMessage]{}.With("skills", []byte(`{"b":null,"a":[1.0]}`)).With("loop.mood", []byte(`"good"`)).With("numbers", []byte(`{"b":12345678901234567890,"a":1.0}`))
	return s
}

func fullPermissions() *session.Permissions {
	scope := session.Scope{Kind: session.ScopeDomain, ToolName: "t", ToolPrefix: "p", Domain: "example.org"}
	rule := session.Rule{ID: "r", Source: session.SourceSession, Effect: session.EffectAllow, Scope: scope, CreatedAt: 1, Metadata: session.Values{"why": json.RawMessage(`"asked"`)}}
	more := func(s session.Scope) session.Rule {
		return session.Rule{Source: session.SourceSession, Effect: session.EffectDeny, Scope: s}
	}
	return &session.Permissions{
		Mode: session.PermissionPlan, SessionRules: []session.Rule{
			rule, more(session.Scope{Kind: session.ScopePath, Path: "/a"}), more(session.Scope{Kind: session.ScopeCommandPrefix, Prefix: "git"}),
			more(session.Scope{Kind: session.ScopeMCPServer, ServerName: "s"}),
		},
		TemporaryGrants: session.Pairs[session.Grant]{}.With("tool:x", session.Grant{GrantedAt: 1, ExpiresAt: 2, Instance: "i", SurvivesRestart: true}),
		DenialTracking:  session.Pairs[session.Denial]{}.With("tool:y", session.Denial{ConsecutiveDenials: 1, TotalDenials: 2, PromptedAtTotal: 3}),
	}
}

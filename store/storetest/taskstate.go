package storetest

import "github.com/holdfast-dev/holdfast/session"

// fullTask has every field of a task's state set. The queues are the inbox
// and never part of it.
func fullTask() session.TaskState {
	text := func(s string) *string { return &s }
	s := session.NewTaskState()
	s.Transcript = session.TaskTranscript{
		LastUserMessage: "<tidy> \u2028", LastAssistantOutput: text("checked"), LastNonVerificationOutput: text("tidied"), LastAssistantText: text("\x00"),
		ExplicitChatSummaryBlock: text("so far"), ExplicitChatSummaryCreatedAt: 1, ExplicitChatSummarySourceMessageCount: 2,
		StepOutcomeSummaries: []session.StepOutcome{{StepID: "1", Description: "d", Status: "completed", MutatedFiles: []string{"a"}, OutcomeSummary: "o"}},
	}
	s.Tooling = session.TaskTooling{
		ToolResultMemory:  []session.ToolMemory{{Tool: "read", Summary: "s", Timestamp: 1}},
		WebEvidenceMemory: []session.WebEvidence{{Tool: "web_fetch", URL: "u", Title: "t", SourceClass: "c", PublishDate: "p", Timestamp: 1}},
		ToolUsageCounts:   session.Pairs[int]{}.With("b", 2).With("a", 1), SuccessfulToolUsageCounts: session.Pairs[int]{}.With("b", 1),
		ToolUsageEventsSinceDecay: 1, ToolSelectionEpoch: 2, DiscoveredDeferredToolNames: session.NewSet("z", "y"),
		ToolFailures: session.Pairs[session.ToolFailure]{}.With("read", session.ToolFailure{
			Systemic: 1, InputDependent: 2, LastError: "e", DisabledUntil: 3, Disables: 4, Scope: "global"}),
		LastWebFetchFailure: &session.WebFailure{Timestamp: 1, Tool: "web_fetch", URL: "u", Error: "e", Status: 500},
		BudgetCounters:      &session.BudgetCounters{ToolCalls: 1, WebSearchCalls: 2, DuplicatesBlocked: 3}, StartedCalls: session.NewSet("c1"),
	}
	count := session.Pairs[session.Count]{}.With("a", session.Count{Count: 1, LastAt: 2, PrevAt: 1})
	s.Files = session.TaskFiles{
		FilesReadTracker: session.Pairs[session.FileRead]{}.With("a", session.FileRead{Step: "1", SizeBytes: 2}), FileReads: count, DirListings: count,
	}
	s.Tracker = session.TrackerState{ReadFiles: []string{"a"}, CreatedFiles: []string{"b"}, Directories: []string{"."}}
	s.Loop = session.TaskLoop{
		GlobalTurnCount: 1, LifetimeTurnCount: 2, ContinuationCount: 3, ContinuationWindow: 4, WindowStartEventCount: 5, NoProgressStreak: 6,
		LastLoopFingerprint: "f", CompactionCount: 7, LastCompactionAt: 8, LastCompactionTokensBefore: 9, LastCompactionTokensAfter: 10,
		BlockedLoopFingerprintForWindow: text("b"), PendingLoopStrategySwitchMessage: "m", SoftDeadlineTriggered: true, WrapUpRequested: true,
		TurnWindowSoftExhaustedNotified: true, FollowUpRecoveryAttemptsInCurrentMessage: 11, LastFollowUpRecoveryBlockReason: "r", IterationCount: 12,
		CurrentStepID: text("1"), LastPreCompactionFlushAt: 13, LastPreCompactionFlushTokenCount: 14, StreakWindow: 15, SoftLandingInjected: true,
		BlockedLoop: &session.Signature{Tool: "t", Input: "{}"},
		Kernel: &session.KernelCounters{
			StepID: "1", Iterations: 1, LLMCalls: 2, Empty: 3, Recovered: 4, Repeated: 5, ContextRecoveries: 6, MaxTokenRecoveries: 7, Notes: session.NewSet("n"),
		},
	}
	s.Recovery = session.TaskRecovery{
		RecoveryRequestActive: true, LastRecoveryFailureSignature: "s", RecoveredFailureStepIDs: session.NewSet("1"),
		LastRecoveryClass: text("c"), LastToolDisabledScope: text("global"), LastRetryReason: text("r"),
	}
	s.Worker = session.TaskWorker{DispatchedMentionedAgents: true, VerificationAgentState: []byte(`{"b":12345678901234567890,"a":1.0}`)}
	s.Permissions = fullPermissions()
	s.Verification = session.TaskVerification{
		VerificationEvidenceEntries:          []session.Evidence{{Kind: "k", OK: true, Detail: "d", CapturedAt: 1}},
		NonBlockingVerificationFailedStepIDs: session.NewSet("1"), BlockingVerificationFailedStepIDs: session.NewSet("2"),
	}
	s.Checklist = session.Checklist{
		Items:     []session.ChecklistItem{{ID: "i", Title: "t", Kind: "implementation", Status: "completed", CreatedAt: 1, UpdatedAt: 2}},
		UpdatedAt: 2, VerificationNudgeNeeded: true, NudgeReason: text("r"), ReminderArmed: true, NudgeClearedFor: "h",
	}
	s.Usage = session.TaskUsage{
		TotalInputTokens: 1, TotalOutputTokens: 2, TotalCost: 0.1, UsageOffsetInputTokens: 3, UsageOffsetOutputTokens: 4, UsageOffsetCost: 0.2,
	}
	s.Settings = session.TaskSettings{Budget: []byte(`{"maxTurns":1}`), AutoResume: true, Deep: true, PlanMode: "auto", ModeSeq: 2, Capabilities: map[string]bool{"shell": true, "network": false}}
	s.Plan = &session.Plan{Description: "d", Steps: []session.PlanStep{{
		ID: "1", Description: "d", Kind: "verification", Status: "failed", StartedAt: 1, CompletedAt: 2, Error: "e", VerificationAttempts: 1, Waived: true,
	}}}
	s.Approvals = []session.Approval{{
		ID: "a", TaskID: "t", CallID: "c", Type: "tool", Description: "d", Details: []byte(`{"k":1}`), Status: "approved", RequestedAt: 1, ExpiresAt: 2, ResolvedAt: 3,
		Action: "allow_once", By: "ann",
	}}
	s.Foreign = session.Foreign{}.With("skills", []byte(`{"b":null,"a":[1.0]}`)).With("loop.mood", []byte(`"good"`))
	return s
}

func fullPermissions() session.Permissions {
	scope := session.Scope{Kind: session.ScopeDomain, ToolName: "t", ToolPrefix: "p", Domain: "example.org"}
	rule := session.Rule{ID: "r", Source: session.SourceSession, Effect: session.EffectAllow, Scope: scope, CreatedAt: 1, Metadata: map[string]any{"why": "asked"}}
	more := func(s session.Scope) session.Rule {
		return session.Rule{Source: session.SourceSession, Effect: session.EffectDeny, Scope: s}
	}
	whole := session.Scope{Kind: "any", ToolName: "t", ToolPrefix: "p", Path: "/a", Prefix: "git", ServerName: "s", Domain: "d"} // shown, never applied
	return session.Permissions{
		Mode: session.PermissionPlan, SessionRules: []session.Rule{
			rule, more(session.Scope{Kind: session.ScopePath, Path: "/a"}), more(session.Scope{Kind: session.ScopeCommandPrefix, Prefix: "git"}),
			more(session.Scope{Kind: session.ScopeMCPServer, ServerName: "s"}),
		},
		TemporaryGrants: session.Pairs[session.Grant]{}.With("tool:x", session.Grant{GrantedAt: 1, ExpiresAt: 2, Instance: "i", SurvivesRestart: true}),
		DenialTracking:  session.Pairs[session.Denial]{}.With("tool:y", session.Denial{ConsecutiveDenials: 1, TotalDenials: 2, PromptedAtTotal: 3}),
		LatestPromptContext: &session.PromptContext{
			Scope: &whole, Reason: session.PermissionReason{Type: "mode", Summary: "s", Metadata: map[string]any{"n": 1.5}},
			MatchedRule: &session.Rule{ID: "m", Source: session.SourceProfile, Effect: session.EffectAsk, Scope: whole, CreatedAt: 1, Metadata: map[string]any{"k": "v"}}, ScopePreview: "p",
			SuggestedActions: []session.SuggestedAction{{Action: "allow_once", Label: "l", Effect: session.EffectAllow, Destination: "session"}},
			ServerName:       "s", SecurityContext: []byte(`{"x":1}`),
		},
	}
}

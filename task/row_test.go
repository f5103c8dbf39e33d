package task_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

func TestCanonical_isWhereATaskReallyStands(t *testing.T) {
	t.Parallel()
	active := []string{"pending", "queued", "planning", "executing"}
	resting := []string{"paused", "blocked", "interrupted"}
	ended := []string{"completed", "failed", "cancelled"}
	for _, c := range []struct {
		statuses []string
		terminal string
		at       int64
		want     string // "": the status itself
	}{
		{ended, "", 0, ""},
		{ended, "failed", 1, ""},
		{ended, "resume_available", 1, ""},
		{ended, "awaiting_approval", 0, ""},
		{active, "failed", 0, "failed"},
		{active, "failed", 1, "failed"},
		{active, "resume_available", 0, "interrupted"},
		{active, "resume_available", 1, "interrupted"},
		{active, "awaiting_approval", 0, "blocked"},
		{active, "awaiting_approval", 1, "blocked"},
		{active, "needs_user_action", 1, "completed"},
		{active, "needs_user_action", 0, "paused"},
		{active, "ok", 0, "completed"},
		{active, "partial_success", 0, "completed"},
		{active, "", 1, "completed"},
		{active, "", 0, ""},
		{resting, "ok", 1, "completed"},
		{resting, "partial_success", 1, "completed"},
		{resting, "needs_user_action", 1, "completed"},
		{resting, "failed", 1, "failed"},
		{resting, "ok", 0, ""},
		{resting, "partial_success", 0, ""},
		{resting, "needs_user_action", 0, ""},
		{resting, "failed", 0, ""},
		{resting, "awaiting_approval", 1, ""},
		{resting, "resume_available", 1, ""},
		{resting, "", 1, ""},
	} {
		for _, status := range c.statuses {
			want := c.want
			if want == "" {
				want = status
			}
			row := session.TaskRow{Status: status, TerminalStatus: c.terminal, CompletedAt: c.at}
			if got := task.Canonical(row); got != want {
				t.Errorf("%s/%q, ended at %d: %s, want %s", status, c.terminal, c.at, got, want)
			}
		}
	}
}

func TestMoves_onlyTheseAreMade(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"pending":     {"queued", "planning", "executing"},
		"queued":      {"planning", "executing"},
		"planning":    {"executing", "paused", "blocked", "interrupted"},
		"executing":   {"paused", "blocked", "interrupted", "completed"},
		"paused":      {"executing"},
		"blocked":     {"executing", "paused"},
		"interrupted": {"executing"},
	}
	ended := []string{"completed", "failed", "cancelled"}
	for _, from := range task.Statuses() {
		for _, to := range task.Statuses() {
			err := task.CheckMove(session.TaskRow{Status: from, Run: 1}, session.TaskRow{Status: to, Run: 1})
			switch {
			case slices.Contains(ended, from):
				if !errors.Is(err, session.ErrTaskTerminal) {
					t.Errorf("%s to %s: %v", from, to, err)
				}
			case from == to, to == "failed", to == "cancelled", slices.Contains(allowed[from], to):
				if err != nil {
					t.Errorf("%s to %s: %v", from, to, err)
				}
			case !errors.Is(err, session.ErrInvalid):
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
	}
}

func TestMoves_onlyANewRunLeadsOnFromAnEnd(t *testing.T) {
	t.Parallel()
	before := session.TaskRow{Status: "paused", TerminalStatus: "ok", CompletedAt: 1, Run: 3} // as other programs leave it
	for name, c := range map[string]struct {
		after session.TaskRow
		ok    bool
	}{
		"a new run":               {session.TaskRow{Status: "executing", Run: 4}, true},
		"a run that is skipped":   {session.TaskRow{Status: "executing", Run: 5}, false},
		"the same run":            {session.TaskRow{Status: "executing", Run: 3}, false},
		"a new run that is over":  {session.TaskRow{Status: "completed", Run: 4}, false},
		"a failure":               {session.TaskRow{Status: "failed", Run: 3}, false},
		"the same with a comment": {session.TaskRow{Status: "paused", TerminalStatus: "ok", CompletedAt: 1, Run: 3, Error: "x"}, false},
	} {
		err := task.CheckMove(before, c.after)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, session.ErrTaskTerminal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKinds_haveTheirStatusAndClass(t *testing.T) {
	t.Parallel()
	for _, c := range [][4]string{ // kind, class given, terminal status, class
		{"success", "", "ok", ""}, {"success", "tool_error", "ok", ""},
		{"external_completed", "", "ok", ""}, {"deterministic_handled", "", "ok", ""},
		{"partial_success", "", "partial_success", "contract_error"}, {"partial_success", "tool_error", "partial_success", "tool_error"},
		{"timed_out", "", "partial_success", "budget_exhausted"}, {"cancelled", "", "partial_success", "budget_exhausted"},
		{"needs_user_action", "", "needs_user_action", ""}, {"needs_user_action", "user_blocker", "needs_user_action", "user_blocker"},
		{"failed", "", "failed", "unknown"}, {"failed", "tool_error", "failed", "tool_error"},
	} {
		if status, class := task.StatusOfKind(c[0], c[1]); status != c[2] || class != c[3] {
			t.Errorf("%s with %q is %s/%s", c[0], c[1], status, class)
		}
	}
}

func TestOutcome_followsWhatThereIsToShow(t *testing.T) {
	t.Parallel()
	nothing := session.TaskRow{ResultSummary: strings.Repeat("x", 159) + "  "}
	long := session.TaskRow{ResultSummary: strings.Repeat("é", 160)}
	file := session.TaskRow{OutputFiles: []string{"a.txt"}}
	before := session.TaskRow{BestKnownOutcome: []byte(`{"resultSummary":"","outputFiles":["b.txt"]}`)}
	for name, c := range map[string]struct {
		wish task.Wish
		row  session.TaskRow
		want task.Wish
	}{
		"blocked":                    {task.Wish{Status: "blocked"}, file, task.Wish{Status: "blocked", TerminalStatus: "awaiting_approval"}},
		"awaiting approval":          {task.Wish{Status: "executing", TerminalStatus: "awaiting_approval"}, nothing, task.Wish{Status: "blocked", TerminalStatus: "awaiting_approval"}},
		"paused":                     {task.Wish{Status: "paused", Class: "budget_exhausted"}, file, task.Wish{Status: "paused", TerminalStatus: "needs_user_action", Class: "budget_exhausted"}},
		"needs the user":             {task.Wish{Status: "failed", TerminalStatus: "needs_user_action"}, nothing, task.Wish{Status: "paused", TerminalStatus: "needs_user_action"}},
		"completed needs the user":   {task.Wish{Status: "completed", TerminalStatus: "needs_user_action"}, nothing, task.Wish{Status: "completed", TerminalStatus: "needs_user_action"}},
		"interrupted":                {task.Wish{Status: "interrupted"}, file, task.Wish{Status: "interrupted", TerminalStatus: "resume_available"}},
		"failed with nothing":        {task.Wish{Status: "failed"}, nothing, task.Wish{Status: "failed", TerminalStatus: "failed", Class: "unknown"}},
		"failed with a class":        {task.Wish{Status: "failed", Class: "tool_error"}, nothing, task.Wish{Status: "failed", TerminalStatus: "failed", Class: "tool_error"}},
		"failed with a file":         {task.Wish{Status: "failed", Class: "tool_error"}, file, task.Wish{Status: "completed", TerminalStatus: "partial_success", Class: "tool_error"}},
		"failed with a long summary": {task.Wish{Status: "failed"}, long, task.Wish{Status: "completed", TerminalStatus: "partial_success", Class: "contract_error"}},
		"failed with an old file":    {task.Wish{Status: "failed"}, before, task.Wish{Status: "completed", TerminalStatus: "partial_success", Class: "contract_error"}},
		"failed verification":        {task.Wish{Status: "failed", Class: "required_verification"}, file, task.Wish{Status: "failed", TerminalStatus: "failed", Class: "required_verification"}},
		"failed by the user":         {task.Wish{Status: "failed", Class: "user_blocker"}, file, task.Wish{Status: "failed", TerminalStatus: "failed", Class: "user_blocker"}},
		"completed as failed":        {task.Wish{Status: "completed", TerminalStatus: "failed"}, file, task.Wish{Status: "failed", TerminalStatus: "failed", Class: "unknown"}},
		"completed in part":          {task.Wish{Status: "completed", TerminalStatus: "partial_success"}, nothing, task.Wish{Status: "completed", TerminalStatus: "partial_success", Class: "contract_error"}},
		"completed with a class":     {task.Wish{Status: "completed", Class: "tool_error"}, file, task.Wish{Status: "completed", TerminalStatus: "partial_success", Class: "tool_error"}},
		"completed without evidence": {task.Wish{Status: "completed", Class: "tool_error"}, nothing, task.Wish{Status: "completed", TerminalStatus: "ok"}},
		"completed unverified":       {task.Wish{Status: "completed", Class: "required_verification"}, file, task.Wish{Status: "completed", TerminalStatus: "ok"}},
		"completed":                  {task.Wish{Status: "completed", TerminalStatus: "ok"}, nothing, task.Wish{Status: "completed", TerminalStatus: "ok"}},
	} {
		if got := c.wish.Settled(c.row); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestGate_failedStepsKeepATaskFromCompleting(t *testing.T) {
	t.Parallel()
	state := func(change func(*session.TaskState)) session.TaskState {
		s := session.NewTaskState()
		s.Plan = &session.Plan{Steps: []session.PlanStep{{ID: "a", Status: "completed"}, {ID: "b", Status: "failed"}, {ID: "c", Status: "skipped"}}}
		change(&s)
		return s
	}
	failed := task.Wish{Status: "failed", Class: "contract_error", Error: "Completion blocked: unresolved failed step(s): b"}
	completed := task.Wish{Status: "completed", TerminalStatus: "ok"}
	for name, c := range map[string]struct {
		change func(*session.TaskState)
		want   task.Wish
	}{
		"a failed step":        {func(*session.TaskState) {}, failed},
		"one that is made up":  {func(s *session.TaskState) { s.Recovery.Recovered = session.NewSet("b") }, completed},
		"one that is waived":   {func(s *session.TaskState) { s.Plan.Steps[1].Waived = true }, completed},
		"one that blocks none": {func(s *session.TaskState) { s.Steps.FailedOptional = session.NewSet("b") }, completed},
		"a verification": {func(s *session.TaskState) { s.Steps.FailedRequired = session.NewSet("b") },
			task.Wish{Status: "failed", Class: "required_verification", Error: failed.Error}},
		"two": {func(s *session.TaskState) { s.Plan.Steps[0].Status = "failed" },
			task.Wish{Status: "failed", Class: "contract_error", Error: "Completion blocked: unresolved failed step(s): a, b"}},
		"no plan": {func(s *session.TaskState) { s.Plan = nil }, completed},
	} {
		if got := completed.Gated(state(c.change)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	paused := task.Wish{Status: "paused"}
	if got := paused.Gated(state(func(*session.TaskState) {})); got != paused {
		t.Errorf("a pause became %+v", got)
	}
}

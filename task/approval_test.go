package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

// asked is a house whose task waits for the approval of one write.
func asked(t *testing.T, change ...func(*task.Config)) (*house, *counter) {
	t.Helper()
	c, write := writer()
	h := newHouse(t, script("call:c1:write:{}", "done"), append(change, with(write))...)
	h.start(job())
	h.stands("blocked", "awaiting_approval", "")
	if c.ran() != 0 {
		t.Fatal("the tool ran before anybody allowed it")
	}
	return h, c
}

func (h *house) respond(id, action string, o task.RespondOptions) (task.Row, error) {
	return h.x.Respond(context.Background(), "t1", responseOf(id, action, "ann"), o)
}

// responseOf answers an approval with one of the choices.
func responseOf(id, choice, by string) session.Response {
	r := session.Response{PendingID: id, Action: session.RespondApprove, Choice: choice, By: by}
	if strings.HasPrefix(choice, "deny") {
		r.Action = session.RespondDeny
	}
	return r
}

func promptOf(t *testing.T, p session.PendingCall) (d session.PromptContext) {
	t.Helper()
	if err := json.Unmarshal(p.Details, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestApproval_isDurableAndNobodyWaits(t *testing.T) {
	t.Parallel()
	h, _ := asked(t)
	a := h.open()
	if a.Kind != session.PendingApproval || a.CallID != "c1" || a.Tool != "write" || a.AskedAt.IsZero() || a.ExpiresAt != nil {
		t.Errorf("the approval is %+v", a)
	}
	if d := promptOf(t, a); d.Type != "tool" || d.ScopePreview != "tool write" {
		t.Errorf("the prompt is %+v", d)
	}
	if _, live, err := h.rt.Holder(context.Background(), "t1"); err != nil || live {
		t.Errorf("the lease is held: %v %v", live, err)
	}
	if row := h.row(); row.PendingApprovals != 1 {
		t.Errorf("%d approvals are shown", row.PendingApprovals)
	}
	s, err := h.rt.Get(context.Background(), "t1")
	if err != nil || s.Info().Task.Status != "blocked" {
		t.Errorf("the version says %v, %v", s.Info().Task.Status, err)
	}
	before := h.seq()
	if _, err := h.x.Resume(context.Background(), "t1"); !errors.Is(err, session.ErrNotResumable) {
		t.Errorf("resumed: %v", err)
	}
	if h.seq() != before {
		t.Error("a refused resume wrote something")
	}
}

func TestRespond_allowRunsTheCallOnceAndGoesOn(t *testing.T) {
	t.Parallel()
	h, c := asked(t)
	a := h.open()
	reply, err := h.respond(a.ID, "allow_once", task.RespondOptions{})
	if err != nil || reply.Status != "completed" {
		t.Fatalf("%+v, %v", reply, err)
	}
	h.stands("completed", "ok", "")
	if c.ran() != 1 || h.calls() != 2 {
		t.Errorf("the tool ran %d times, the model was asked %d times", c.ran(), h.calls())
	}
	if got := h.responded(); len(got) != 1 || got[0].Action != session.RespondApprove || got[0].Choice != "allow_once" || got[0].By != "ann" {
		t.Errorf("the responses are %+v", got)
	}
	if h.count("task_resumed") != 1 {
		t.Errorf("events are %v", h.events())
	}
}

func TestRespond_denyGivesTheCallAnErrorAndPauses(t *testing.T) {
	t.Parallel()
	h, c := asked(t)
	reply, err := h.respond(h.open().ID, "deny_once", task.RespondOptions{})
	if err != nil {
		t.Fatalf("%+v, %v", reply, err)
	}
	h.stands("paused", "needs_user_action", "")
	if row := h.row(); row.Error != "User denied approval" || row.PendingApprovals != 0 || c.ran() != 0 {
		t.Errorf("the row is %+v, the tool ran %d times", row, c.ran())
	}
	result, err := h.x.Resume(context.Background(), "t1")
	if err != nil || result.Row.Status != "completed" || c.ran() != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	last := h.asked[1].Messages
	if r := last[len(last)-1].ToolResult; r == nil || !r.IsError || !strings.Contains(r.Content, "denied") {
		t.Errorf("the model was told %+v", last[len(last)-1])
	}
	if h.count("tool_blocked") != 1 {
		t.Errorf("events are %v", h.events())
	}
}

func TestRespond_denyMayLetTheModelGoOn(t *testing.T) {
	t.Parallel()
	h, c := asked(t)
	reply, err := h.respond(h.open().ID, "deny_once", task.RespondOptions{GoOn: true})
	if err != nil || reply.Status != "completed" || c.ran() != 0 {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestRespond_theFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	h, c := asked(t)
	a := h.open()
	if _, err := h.respond(a.ID, "deny_once", task.RespondOptions{}); err != nil {
		t.Fatal(err)
	}
	before := h.seq()
	if reply, err := h.respond(a.ID, "deny_once", task.RespondOptions{}); err != nil {
		t.Errorf("the same again: %+v, %v", reply, err)
	}
	_, err := h.respond(a.ID, "allow_once", task.RespondOptions{})
	var resolved *session.RespondedError
	if !errors.As(err, &resolved) || resolved.Response.Choice != "deny_once" {
		t.Errorf("another answer: %v", err)
	}
	if reply, err := h.respond("nobody", "allow_once", task.RespondOptions{}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("an unknown one: %+v, %v", reply, err)
	}
	if _, err := h.respond(a.ID, "allow_for_ever", task.RespondOptions{}); err == nil {
		t.Error("an answer there is not was taken")
	}
	if h.seq() != before || c.ran() != 0 {
		t.Error("late answers wrote something")
	}
}

func TestRespond_anAnswerThatWasNotOfferedLeavesTheApprovalOpen(t *testing.T) {
	t.Parallel()
	h, _ := asked(t)
	for _, action := range []string{"allow_workspace", "allow_profile", "yes"} { // nobody keeps rules here
		if _, err := h.respond(h.open().ID, action, task.RespondOptions{}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", action, err)
		}
	}
	if items, err := h.rt.Inbox(context.Background(), "t1"); err != nil || len(items) != 0 {
		t.Errorf("the inbox has %v, %v", items, err)
	}
}

func TestRespond_fromAnotherProcess(t *testing.T) {
	t.Parallel()
	st := inmem.New(inmem.Config{})
	c, write := writer()
	one := houseOn(t, st, script("call:c1:write:{}"), with(write))
	one.start(job())
	other := houseOn(t, st, script("done"), with(write))
	reply, err := other.respond(one.open().ID, "allow_once", task.RespondOptions{})
	if err != nil || reply.Status != "completed" || c.ran() != 1 || other.calls() != 1 {
		t.Errorf("%+v, %v; the tool ran %d times", reply, err, c.ran())
	}
}

func TestRespond_withoutRunningLeavesATaskThatCanBeResumed(t *testing.T) {
	t.Parallel()
	h, c := asked(t)
	reply, err := h.respond(h.open().ID, "allow_once", task.RespondOptions{NoRun: true})
	if err != nil || reply.Status != "blocked" || reply.PendingApprovals != 1 || c.ran() != 0 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if result, err := h.x.Resume(context.Background(), "t1"); err != nil || result.Row.Status != "completed" || c.ran() != 1 {
		t.Errorf("%+v, %v; the tool ran %d times", result, err, c.ran())
	}
}

func TestRespond_whatWasAllowedIsStillHeldToHardPolicy(t *testing.T) {
	t.Parallel()
	c, write := writer()
	h := newHouse(t, script("call:c1:write:{}", "done"), with(write))
	s := job()
	s.Workspace.Capabilities = map[string]bool{"write": true}
	h.start(s)
	if err := h.x.AddRule(context.Background(), "t1", session.Rule{Effect: "deny", Scope: session.Scope{Kind: "tool", ToolName: "write"}}); err != nil {
		t.Fatal(err)
	}
	reply, err := h.respond(h.open().ID, "allow_once", task.RespondOptions{})
	if err != nil || reply.Status != "completed" || c.ran() != 0 {
		t.Errorf("%+v, %v; the tool ran %d times", reply, err, c.ran())
	}
}

func TestRespond_aSessionRuleIsKeptWithTheAnswer(t *testing.T) {
	t.Parallel()
	c, write := writer()
	h := newHouse(t, script("call:c1:write:{}", "call:c2:write:{}", "done"), with(write))
	h.start(job())
	if reply, err := h.respond(h.open().ID, "allow_session", task.RespondOptions{}); err != nil || reply.Status != "completed" {
		t.Fatalf("%+v, %v", reply, err)
	}
	rules := h.permissions().SessionRules
	if c.ran() != 2 || len(rules) != 1 || rules[0].Source != "session" || rules[0].Fingerprint() != "allow:tool:write" {
		t.Errorf("the tool ran %d times, rules are %+v", c.ran(), rules)
	}
	commits, err := h.rt.Commits(context.Background(), "t1", 0)
	if err != nil {
		t.Fatal(err)
	}
	var at int64
	for e, err := range h.rt.Log(context.Background(), "t1", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if kind := e.Change.Kind(); kind == "call_responded" || kind == "permission_rule_added" {
			i := slices.IndexFunc(commits, func(c store.CommitInfo) bool { return c.FirstSeq <= e.Seq && e.Seq <= c.LastSeq })
			if at != 0 && commits[i].Version != at {
				t.Error("the answer and its rule are two writes")
			}
			at = commits[i].Version
		}
	}
	if at == 0 {
		t.Error("neither the answer nor the rule is in the log")
	}
}

// fullRules keeps no rule at all until it is mended.
type fullRules struct {
	task.RuleStore
	mended bool
	kept   []session.Rule
}

func (f *fullRules) Policy(context.Context, task.Workspace) (*permission.Policy, error) {
	return permission.Compile(f.kept, nil), nil
}

func (f *fullRules) Add(_ context.Context, _ task.Workspace, r session.Rule) (bool, error) {
	if !f.mended {
		return false, errors.New("the disk is full")
	}
	if slices.ContainsFunc(f.kept, func(have session.Rule) bool { return have.Fingerprint() == r.Fingerprint() }) {
		return false, nil
	}
	f.kept = append(f.kept, r)
	return true, nil
}

func TestRespond_aRuleThatCannotBeKeptLeavesTheApprovalOpen(t *testing.T) {
	t.Parallel()
	rules := &fullRules{}
	h, c := asked(t, func(c *task.Config) { c.Rules = rules })
	a := h.open()
	before := h.seq()
	if _, err := h.respond(a.ID, "allow_workspace", task.RespondOptions{}); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("answered: %v", err)
	}
	if h.seq() != before || h.open().ID != a.ID || c.ran() != 0 {
		t.Error("the approval is not as it was")
	}
	rules.mended = true
	reply, err := h.respond(a.ID, "allow_workspace", task.RespondOptions{})
	if err != nil || reply.Status != "completed" || c.ran() != 1 {
		t.Errorf("%+v, %v", reply, err)
	}
	if len(rules.kept) != 1 || rules.kept[0].Source != "workspace_db" || h.count("permission_rule_added") != 1 || len(h.permissions().SessionRules) != 0 {
		t.Errorf("kept are %+v", rules.kept)
	}
}

func TestApproval_expiresForWhoeverLooksFirst(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	clock := func(c *task.Config) {
		c.Clock, c.PendingTimeout = func() time.Time { return now }, time.Minute
	}
	look := map[string]func(h *house, id string) error{
		"an answer": func(h *house, id string) error {
			_, err := h.respond(id, "allow_once", task.RespondOptions{})
			var resolved *session.RespondedError
			if !errors.As(err, &resolved) || resolved.Response.Action != session.RespondExpire {
				return err
			}
			return nil
		},
		"a look": func(h *house, _ string) error {
			_, err := h.x.Settle(context.Background(), "t1")
			return err
		},
	}
	for name, by := range look {
		now = time.UnixMilli(1_000_000)
		h, c := asked(t, clock)
		a := h.open()
		if a.ExpiresAt == nil || !a.ExpiresAt.Equal(a.AskedAt.Add(time.Minute)) {
			t.Errorf("it ends at %v, asked at %v", a.ExpiresAt, a.AskedAt)
		}
		now = now.Add(time.Minute)
		if err := by(h, a.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		h.stands("paused", "needs_user_action", "")
		if row := h.row(); row.Error != "Approval request timed out" || h.responded()[0].Action != session.RespondExpire || c.ran() != 0 {
			t.Errorf("%s: %+v", name, row)
		}
	}
}

func TestApproval_outlivesARestartWithItsPrompt(t *testing.T) {
	t.Parallel()
	st := inmem.New(inmem.Config{})
	_, write := writer()
	one := houseOn(t, st, script("call:c1:write:{}"), with(write))
	one.start(job())
	a := one.open()
	other := houseOn(t, st, script("done"), with(write))
	found, err := other.x.Recover(context.Background())
	if err != nil || len(found) != 0 {
		t.Errorf("recovered %+v, %v", found, err)
	}
	b := other.open()
	if a.ID != b.ID || string(a.Details) != string(b.Details) {
		t.Errorf("the prompt is %s, was %s", b.Details, a.Details)
	}
}

func TestTerminal_openApprovalsEndWithTheTask(t *testing.T) {
	t.Parallel()
	h, c := asked(t)
	a := h.open()
	row, err := h.x.Cancel(context.Background(), "t1")
	if err != nil || row.Status != "cancelled" || row.TerminalStatus != "" || row.PendingApprovals != 0 {
		t.Fatalf("%+v, %v", row, err)
	}
	if got := h.responded(); len(got) != 1 || got[0].Action != session.RespondCancel {
		t.Errorf("the responses are %+v", got)
	}
	before := h.seq()
	if _, err := h.respond(a.ID, "allow_once", task.RespondOptions{}); !errors.Is(err, session.ErrTaskTerminal) {
		t.Errorf("a late answer: %v", err)
	}
	if h.seq() != before || c.ran() != 0 {
		t.Error("a late answer wrote something")
	}
	if items, err := h.rt.Inbox(context.Background(), "t1"); err != nil || len(items) != 0 {
		t.Errorf("the inbox has %v, %v", items, err)
	}
}

func TestApproval_typesFollowWhatTheCallDoes(t *testing.T) {
	t.Parallel()
	for effects, want := range map[tool.Effects]string{
		tool.Delete: "delete_file", tool.Shell: "run_command", tool.Export: "data_export",
		tool.Location: "location_access", tool.External: "external_service", tool.Browser: "computer_use",
		tool.Write: "tool", 0: "tool",
	} {
		c := &counter{name: "act"}
		h := newHouse(t, script(`call:c1:act:{"command":"make thing"}`), with(declared{c, effects}))
		s := job()
		s.Workspace.Capabilities = map[string]bool{"shell": true, "delete": true}
		h.start(s)
		if got := promptOf(t, h.open()).Type; got != want {
			t.Errorf("%v: %s, want %s", effects.Names(), got, want)
		}
	}
}

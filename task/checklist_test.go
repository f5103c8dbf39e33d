package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

func item(title, kind, status string) task.ItemInput {
	return task.ItemInput{Title: title, Kind: kind, Status: status}
}

var listKinds = []string{"task_list_created", "task_list_updated", "task_list_verification_nudged"}

func TestChecklist_refusalsInOrder(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 501)
	many := slices.Repeat([]task.ItemInput{item("a", "", "pending")}, 101)
	// Each list has everything that a later row is refused for.
	for _, c := range []struct {
		items []task.ItemInput
		want  string
	}{
		{nil, "Session checklist must contain at least one item."},
		{[]task.ItemInput{}, "Session checklist must contain at least one item."},
		{append(many, item("", "x", "y")), "Session checklist may contain at most 100 items."},
		{[]task.ItemInput{item("ok", "", "pending"), item(" \t", "x", "y")}, "Checklist item 2 is missing a title."},
		{[]task.ItemInput{item(long, "x", "y")}, "Checklist item 1 has a title longer than 500 characters."},
		{[]task.ItemInput{item(" a ", "x", "y")}, `Checklist item "a" has an invalid status.`},
		{[]task.ItemInput{{ID: strings.Repeat("i", 129), Title: "a", Kind: "x", Status: "pending"}}, `Checklist item "a" has an invalid kind.`},
		{[]task.ItemInput{{ID: strings.Repeat("i", 129), Title: "a", Status: "pending"}}, `Checklist item "a" has an id longer than 128 characters.`},
		{
			[]task.ItemInput{{ID: "i", Title: "a", Status: "in_progress"}, {ID: " i ", Title: "b", Status: "in_progress"}},
			`Checklist contains duplicate item id "i".`,
		},
		{
			[]task.ItemInput{item("a", "", "in_progress"), item("b", "", "in_progress")},
			"Session checklist may contain at most one item with status in_progress.",
		},
	} {
		s := newSite(t, task.Config{}, scripted.New())
		id := s.create(spec())
		s.with(id, func(r *task.Run) {
			_, err := r.CreateChecklist(context.Background(), c.items)
			var refused *session.ChecklistError
			if !errors.As(err, &refused) || refused.Message != c.want {
				t.Errorf("%v, want %q", err, c.want)
			}
			// Whether there is one comes first, whatever the list is like.
			if _, err := r.UpdateChecklist(context.Background(), c.items); err == nil || err.Error() != "task_list_update failed: no session checklist exists yet." {
				t.Errorf("update without one: %v", err)
			}
			if len(r.ChecklistItems()) != 0 {
				t.Error("a refused list was taken")
			}
			if _, err := r.CreateChecklist(context.Background(), []task.ItemInput{item("a", "", "pending")}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.CreateChecklist(context.Background(), c.items); err == nil || err.Error() != "task_list_create failed: a session checklist already exists." {
				t.Errorf("create with one: %v", err)
			}
			before := r.Checklist()
			if _, err := r.UpdateChecklist(context.Background(), c.items); !errors.As(err, &refused) || refused.Message != c.want {
				t.Errorf("update: %v, want %q", err, c.want)
			}
			if fmt.Sprint(r.Checklist()) != fmt.Sprint(before) {
				t.Error("a refused update changed the list")
			}
		})
		if got := s.events(id, listKinds...); len(got) != 1 {
			t.Errorf("%d events, want the one of the list that was taken", len(got))
		}
	}
}

// An update stamps what it changed and nothing else.
func TestChecklist_onlyChangedItemsAreStamped(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.create(spec())
	s.with(id, func(r *task.Run) {
		made, err := r.CreateChecklist(context.Background(), []task.ItemInput{item(" a ", "", "pending"), item("b", "other", "pending")})
		if err != nil {
			t.Fatal(err)
		}
		t0 := s.clock().UnixMilli()
		a, b := made.Items[0], made.Items[1]
		if a.Title != "a" || a.Kind != "implementation" || !strings.HasPrefix(a.ID, "task_item_") || a.CreatedAt != t0 || made.UpdatedAt != t0 {
			t.Errorf("made %+v", made)
		}
		s.pass(time.Second)
		next, err := r.UpdateChecklist(context.Background(), []task.ItemInput{
			{ID: b.ID, Title: "b", Kind: "other", Status: "pending"}, {ID: a.ID, Title: "a", Status: "completed"}, {ID: "mine", Title: "c", Status: "pending"},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []session.ChecklistItem{
			b,
			{ID: a.ID, Title: "a", Kind: "implementation", Status: "completed", CreatedAt: t0, UpdatedAt: t0 + 1000},
			{ID: "mine", Title: "c", Kind: "implementation", Status: "pending", CreatedAt: t0 + 1000, UpdatedAt: t0 + 1000},
		}
		if !slices.Equal(next.Items, want) || next.UpdatedAt != t0+1000 {
			t.Errorf("updated\n%+v, want\n%+v", next.Items, want)
		}
	})
}

func TestNudge_truthTable(t *testing.T) {
	t.Parallel()
	done, open := item("work", "", "completed"), item("more", "", "pending")
	step := func(description, kind, status string) *session.Plan {
		p := planOf("work", description)
		p.Steps[1].Kind, p.Steps[1].Status = kind, status
		return p
	}
	for name, c := range map[string]struct {
		items []task.ItemInput
		plan  *session.Plan
		mode  string
		want  bool
	}{
		"all work is done":         {items: []task.ItemInput{done}, want: true},
		"beside something else":    {items: []task.ItemInput{done, item("x", "other", "pending")}, want: true},
		"work is left":             {items: []task.ItemInput{done, open}},
		"work is blocked":          {items: []task.ItemInput{done, item("x", "", "blocked")}},
		"no work at all":           {items: []task.ItemInput{item("x", "other", "completed")}},
		"it will be verified":      {items: []task.ItemInput{done, item("v", "verification", "pending")}},
		"it was verified":          {items: []task.ItemInput{done, item("v", "verification", "completed")}},
		"verified mode":            {items: []task.ItemInput{done}, mode: "verified"},
		"debug mode":               {items: []task.ItemInput{done}, mode: "debug", want: true},
		"a step of that kind":      {items: []task.ItemInput{done}, plan: step("look", "verification", "pending")},
		"a skipped step":           {items: []task.ItemInput{done}, plan: step("look", "verification", "skipped"), want: true},
		"a step called so":         {items: []task.ItemInput{done}, plan: step(" Verify ", "", "pending")},
		"verification":             {items: []task.ItemInput{done}, plan: step("verification", "", "pending")},
		"verify: …":                {items: []task.ItemInput{done}, plan: step("Verify: it builds", "", "pending")},
		"verify - …":               {items: []task.ItemInput{done}, plan: step("verify - it builds", "", "pending")},
		"verify …":                 {items: []task.ItemInput{done}, plan: step("verify that", "", "pending")},
		"verification: …":          {items: []task.ItemInput{done}, plan: step("verification: it builds", "", "pending")},
		"verification …":           {items: []task.ItemInput{done}, plan: step("verification of it", "", "pending")},
		"a word that begins alike": {items: []task.ItemInput{done}, plan: step("verifying", "", "pending"), want: true},
		"a step that speaks of it": {items: []task.ItemInput{done}, plan: step("then verify", "", "pending"), want: true},
	} {
		s := newSite(t, task.Config{}, scripted.New())
		sp := spec()
		sp.ExecutionMode = c.mode
		if c.plan != nil {
			sp.Plan = c.plan
		}
		id := s.create(sp)
		s.with(id, func(r *task.Run) {
			got, err := r.CreateChecklist(context.Background(), c.items)
			if err != nil {
				t.Fatal(err)
			}
			if got.VerificationNudgeNeeded != c.want || got.ReminderArmed != c.want || (got.NudgeReason != nil) != c.want {
				t.Errorf("%s: nudge %v, armed %v; want %v", name, got.VerificationNudgeNeeded, got.ReminderArmed, c.want)
			}
		})
		if n := len(s.events(id, "task_list_verification_nudged")); (n == 1) != c.want {
			t.Errorf("%s: %d events of a nudge", name, n)
		}
	}
}

// A nudge that was cleared stays so, whatever is read and however often the
// process starts, until the items are others.
func TestNudge_clearedUntilTheItemsChange(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.create(spec())
	work := task.ItemInput{ID: "w", Title: "work", Status: "completed"}
	s.with(id, func(r *task.Run) {
		if err := r.ClearVerificationNudge(context.Background()); err != nil {
			t.Fatal(err)
		}
		if n := len(s.events(id, listKinds...)); n != 0 {
			t.Errorf("clearing nothing wrote %d events", n)
		}
		if _, err := r.CreateChecklist(context.Background(), []task.ItemInput{work}); err != nil {
			t.Fatal(err)
		}
		if err := r.ClearVerificationNudge(context.Background()); err != nil {
			t.Fatal(err)
		}
		if c := r.Checklist(); c.VerificationNudgeNeeded || c.NudgeReason != nil || c.ReminderArmed || c.NudgeClearedFor == "" {
			t.Errorf("cleared it is %+v", c)
		}
	})
	s.open(task.Config{})
	s.with(id, func(r *task.Run) {
		for range 3 {
			if r.Checklist().VerificationNudgeNeeded {
				t.Fatal("a getter raised it again")
			}
		}
		if c, err := r.UpdateChecklist(context.Background(), []task.ItemInput{work}); err != nil || c.VerificationNudgeNeeded {
			t.Errorf("the same items raised it again: %v, %v", c.VerificationNudgeNeeded, err)
		}
		work.Title = "other work"
		if c, err := r.UpdateChecklist(context.Background(), []task.ItemInput{work}); err != nil || !c.VerificationNudgeNeeded {
			t.Errorf("other items did not raise it: %v", err)
		}
	})
}

// Getters hand out copies.
func TestChecklist_gettersChangeNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.create(spec())
	var kept *task.Run
	s.with(id, func(r *task.Run) {
		if _, err := r.CreateChecklist(context.Background(), []task.ItemInput{item("a", "", "pending")}); err != nil {
			t.Fatal(err)
		}
		kept = r
	})
	before := len(s.events(id))
	kept.ChecklistItems()[0].Title = "changed"
	kept.Checklist().Items[0].Title = "changed"
	kept.Output().Messages[0].Role = "nobody"
	if kept.ChecklistItems()[0].Title != "a" || kept.Output().Messages[0].Role != session.RoleUser {
		t.Error("what a getter handed out was the state itself")
	}
	_, _, _, _ = kept.Project(), kept.Output(), kept.Verification(), kept.Recovery()
	if after := len(s.events(id)); after != before {
		t.Errorf("looking wrote %d changes", after-before)
	}
}

// The plan and the mode move a nudge when they change, and only then.
func TestNudge_followsThePlan(t *testing.T) {
	t.Parallel()
	model := scripted.New(
		replyCalls(callOf("c1", "task_list_create", `{"items":[{"title":"work","status":"completed"}]}`)),
		reply("first done, at length"), reply("second done, at length"),
	)
	s := newSite(t, task.Config{}, model)
	sp := spec()
	sp.Plan.Steps[1].Kind = "verification"
	sp.ID = "planned"
	id := s.create(sp)
	s.with(id, func(r *task.Run) {
		if c, err := r.CreateChecklist(context.Background(), []task.ItemInput{item("work", "", "completed")}); err != nil || c.VerificationNudgeNeeded {
			t.Fatalf("nudge %v, %v", c.VerificationNudgeNeeded, err)
		}
	})
	if _, err := s.x.SetStepFeedback(context.Background(), id, session.StepFeedback{StepID: "s2", Action: "skip"}); err != nil {
		t.Fatal(err)
	}
	s.with(id, func(r *task.Run) {
		if _, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"}); err != nil {
			t.Fatal(err)
		}
		if !r.Checklist().VerificationNudgeNeeded {
			t.Error("the step that verifies was skipped, and nobody is told")
		}
	})
	kinds := []string{}
	for _, e := range s.events(id, append(listKinds, "step_skipped")...) {
		kinds = append(kinds, e.Kind)
	}
	if want := []string{"task_list_created", "step_skipped", "task_list_updated", "task_list_verification_nudged"}; !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
}

// The reminder is in one request and in no transcript.
func TestReminder_inOneRequestOnly(t *testing.T) {
	t.Parallel()
	model := scripted.New(
		replyCalls(callOf("c1", "task_list_create", `{"items":[{"title":"work","status":"completed"}]}`)),
		replyCalls(callOf("c2", "task_list_list", `{}`)), reply("first done, at length"), reply("second done, at length"),
	)
	s := newSite(t, task.Config{}, model)
	row, err := s.x.Start(context.Background(), spec())
	if err != nil || row.Status != task.Completed {
		t.Fatalf("%s, %v; a nudge is advice and ends nothing", row.Status, err)
	}
	var with []int
	for i, r := range model.Requests() {
		for _, m := range r.Messages {
			if strings.HasPrefix(m.Content.Text(), "CHECKLIST REMINDER:") {
				with = append(with, i)
			}
		}
	}
	if !slices.Equal(with, []int{1}) {
		t.Errorf("the reminder is in requests %v, want the second alone", with)
	}
	for _, m := range s.messages(row.ID) {
		if strings.HasPrefix(m.Content.Text(), "CHECKLIST REMINDER:") {
			t.Error("the reminder is in the transcript")
		}
	}
	var shown struct {
		ImmediateReminder string                  `json:"immediateReminder"`
		Items             []session.ChecklistItem `json:"items"`
	}
	for _, m := range s.messages(row.ID) {
		if m.ToolResult != nil && m.ToolResult.CallID == "c1" {
			if err := json.Unmarshal([]byte(m.ToolResult.Content), &shown); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(shown.Items) != 1 || !strings.HasPrefix(shown.ImmediateReminder, "CHECKLIST REMINDER:") {
		t.Errorf("the tool showed %+v", shown)
	}
	if s.state(row.ID).Checklist.ReminderArmed {
		t.Error("the reminder is still armed")
	}
}

func TestChecklistTools_wherever(t *testing.T) {
	t.Parallel()
	for _, tl := range task.ChecklistTools(nil) {
		_, err := tl.Call(context.Background(), tool.Call{Arguments: json.RawMessage(`{"items":[]}`)})
		if tl.Spec().Name == "task_list_list" {
			_, err = tl.Call(context.Background(), tool.Call{Arguments: json.RawMessage(`{}`)})
		}
		if err == nil || err.Error() != "Session checklist tools are not available in this context." {
			t.Errorf("%s without a run: %v", tl.Spec().Name, err)
		}
	}
	for mode, offered := range map[string]bool{"execute": true, "verified": true, "debug": true, "chat": false, "plan": false, "analyze": false} {
		model := scripted.New(replyCalls(callOf("c1", "task_list_list", `{}`)), reply("first done, at length"), reply("second done, at length"))
		s := newSite(t, task.Config{}, model)
		sp := spec()
		sp.ExecutionMode = mode
		row, err := s.x.Start(context.Background(), sp)
		if err != nil {
			t.Fatal(err)
		}
		shown := 0
		for _, tl := range model.Requests()[0].Tools {
			if strings.HasPrefix(tl.Name, "task_list_") {
				shown++
			}
		}
		if (shown == 3) != offered {
			t.Errorf("%s: %d checklist tools are offered", mode, shown)
		}
		for _, m := range s.messages(row.ID) {
			if r := m.ToolResult; r != nil && r.IsError == offered {
				t.Errorf("%s: the call came to %q", mode, r.Content)
			} else if r != nil && !offered && r.Content != `Tool "task_list_list" is only available in execute, verified, or debug mode.` {
				t.Errorf("%s: %q", mode, r.Content)
			}
		}
	}
}

// What the three events say is all there is to a checklist: folding them alone
// gives the checklist that the whole log gives.
func TestChecklist_foldOfItsEventsAlone(t *testing.T) {
	t.Parallel()
	s, runs := newSite(t, task.Config{}, scripted.New()), 0
	property.Check(t, func(rt *property.T) {
		runs++
		sp := spec()
		sp.ID = fmt.Sprintf("job-%d", runs)
		id := s.create(sp)
		s.with(id, func(r *task.Run) {
			for range rt.Repeat(1, 8) {
				s.pass(time.Second)
				items := property.SliceOfN(property.Custom(func(rt *property.T) task.ItemInput {
					return task.ItemInput{
						ID: property.SampledFrom([]string{"", "a", "b", "c"}).Draw(rt, "id"), Title: property.SampledFrom([]string{"x", "y", ""}).Draw(rt, "title"),
						Kind:   property.SampledFrom([]string{"", "verification", "other", "bad"}).Draw(rt, "kind"),
						Status: property.SampledFrom([]string{"completed", "completed", "pending", "in_progress"}).Draw(rt, "status"),
					}
				}), 0, 3).Draw(rt, "items")
				switch property.IntRange(0, 3).Draw(rt, "call") {
				case 0:
					_, _ = r.CreateChecklist(context.Background(), items)
				case 1, 2:
					_, _ = r.UpdateChecklist(context.Background(), items)
				case 3:
					_ = r.ClearVerificationNudge(context.Background())
				}
			}
		})
		last := session.NewTaskState().Checklist
		for _, e := range s.events(id, listKinds...) {
			raw, _ := json.Marshal(e.Data["checklist"])
			last = session.Checklist{}
			if err := json.Unmarshal(raw, &last); err != nil {
				rt.Fatal(err)
			}
		}
		whole := s.state(id).Checklist
		whole.ReminderArmed, last.ReminderArmed = false, false
		if a, b := jsonOf(t, whole), jsonOf(t, last); a != b {
			rt.Errorf("the events give\n%s, the log\n%s", b, a)
		}
	})
}

// A reminder that no request has carried yet is carried by the first one of
// the next process.
func TestReminder_survivesACrash(t *testing.T) {
	t.Parallel()
	model := scripted.New(reply("it is done"))
	s := newSite(t, task.Config{}, model)
	id := s.working(oneStep())
	s.with(id, func(r *task.Run) {
		if _, err := r.CreateChecklist(context.Background(), []task.ItemInput{item("work", "", "completed")}); err != nil {
			t.Fatal(err)
		}
	})
	s.open(task.Config{})
	if _, err := s.step(id); err != nil {
		t.Fatal(err)
	}
	last := model.Requests()[0].Messages
	if text := last[len(last)-1].Content.Text(); !strings.HasPrefix(text, "CHECKLIST REMINDER:") {
		t.Errorf("the request ends with %q", text)
	}
}

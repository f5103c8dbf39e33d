package taskruntime_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

func TestExport_anyVersionIsExact(t *testing.T) {
	t.Parallel()
	s := importing(t)
	id := s.create(spec())
	first := s.export(id, taskruntime.ExportOptions{At: 1})
	s.with(id, func(r *task.Run) {
		if _, err := r.CreateChecklist(t.Context(), []task.ItemInput{{Title: "one", Status: "pending"}}); err != nil {
			t.Fatal(err)
		}
	})
	if now := s.export(id, taskruntime.ExportOptions{}); len(at(t, at(t, now, "checklist"), "items")) < 10 {
		t.Errorf("no checklist in %s", now)
	}
	samePayload(t, s.export(id, taskruntime.ExportOptions{At: 1}), first)
	fork, err := s.rt.Fork(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	samePayload(t, s.export(fork.ID(), taskruntime.ExportOptions{}), s.export(id, taskruntime.ExportOptions{}), "sessionId", "seq")
	if _, err := taskruntime.Export(t.Context(), s.x, id, taskruntime.ExportOptions{At: 99}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("version 99: %v", err)
	}
	if _, err := taskruntime.Export(t.Context(), s.x, "nobody", taskruntime.ExportOptions{}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
}

func TestExport_compactCutsAndSaysSo(t *testing.T) {
	t.Parallel()
	s := importing(t)
	long, result := strings.Repeat("é", 50_001), strings.Repeat("r", 10_001)
	history := fmt.Sprintf(`[{"role":"user","content":%s},{"role":"assistant","content":[{"type":"text","text":%s},{"type":"tool_use","id":"c","name":"n","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":%s}]},
		{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","mimeType":"image/png","data":"AAAA","originalSizeBytes":5000}]},{"role":"user","content":"short"}]`,
		quote(long), quote(long), quote(result))
	in := s.imported(string(put(t, json.RawMessage(foreign), "conversationHistory", json.RawMessage(history))), taskruntime.ImportOptions{})
	whole := s.export(in.Row.ID, taskruntime.ExportOptions{})
	if at(t, whole, "truncated") != nil || !strings.Contains(string(whole), long) {
		t.Error("an export that is not compact was cut")
	}
	short := s.export(in.Row.ID, taskruntime.ExportOptions{Compact: true})
	want := fmt.Sprintf(`[{"message":0,"block":0,"originalBytes":%d},{"message":1,"block":0,"originalBytes":%d},{"message":2,"block":0,"originalBytes":%d},{"message":3,"block":1,"originalBytes":`,
		len(long), len(long), len(result)+2)
	if have := string(at(t, short, "truncated")); !strings.HasPrefix(have, want) {
		t.Errorf("cuts %s\nwant %s", have, want)
	}
	var messages []struct{ Content json.RawMessage }
	if err := json.Unmarshal(at(t, short, "conversationHistory"), &messages); err != nil {
		t.Fatal(err)
	}
	if first := string(messages[0].Content); !strings.HasPrefix(first, `"`+strings.Repeat("é", 50_000)+`\n[`) {
		t.Errorf("the first message ends with %s", first[len(first)-60:])
	}
	if image := string(messages[3].Content); !strings.Contains(image, "image/png") || !strings.Contains(image, "5 KB") || strings.Contains(image, "AAAA") {
		t.Errorf("the image is %s", image)
	}
	if string(messages[4].Content) != `"short"` {
		t.Errorf("the short message is %s", messages[4].Content)
	}
	again := s.imported(string(short), taskruntime.ImportOptions{})
	if !slices.ContainsFunc(again.Report.Warnings, func(w string) bool { return strings.Contains(w, "cut") }) {
		t.Errorf("no warning of the cuts: %v", again.Report.Warnings)
	}
}

func TestExport_grantsThatDoNotSurviveStayBehind(t *testing.T) {
	t.Parallel()
	s := importing(t)
	id := s.create(spec())
	for key, o := range map[string]task.GrantOptions{"tool:here": {}, "tool:anywhere": {SurvivesRestart: true}} {
		if err := s.x.Grant(t.Context(), id, key, o); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.grants(id); n != 2 {
		t.Fatalf("%d grants", n)
	}
	grants := string(at(t, at(t, s.export(id, taskruntime.ExportOptions{}), "permissions"), "temporaryGrants"))
	if strings.Contains(grants, "tool:here") || !strings.Contains(grants, "tool:anywhere") {
		t.Errorf("exported %s", grants)
	}
}

// A fork is the task at a version, without what belongs to the other alone.
func TestFork_ofATaskWaitsToBeResumed(t *testing.T) {
	t.Parallel()
	s := importing(t)
	id := s.imported(foreign, taskruntime.ImportOptions{}).Row.ID
	s.with(id, func(r *task.Run) {
		if _, err := r.UpdateChecklist(t.Context(), []task.ItemInput{{Title: "later", Status: "pending"}}); err != nil {
			t.Fatal(err)
		}
	})
	if err := s.x.Grant(t.Context(), id, "tool:x", task.GrantOptions{SurvivesRestart: true}); err != nil {
		t.Fatal(err)
	}
	for version, title := range map[int64]string{1: "Mend", 2: "later"} {
		fork, err := s.rt.Fork(t.Context(), id, holdfast.At(version))
		if err != nil {
			t.Fatal(err)
		}
		state, row := s.state(fork.ID()), fork.Info().Task
		if state.Checklist.Items[0].Title != title || row.Status != task.Interrupted || row.TerminalStatus != task.TerminalResumeAvailable || state.Settings.AutoResume {
			t.Errorf("version %d: %+v %+v", version, state.Checklist, row)
		}
		if len(state.Queues.FollowUps) != 0 || len(state.Queues.Feedback) != 0 || s.grants(fork.ID()) != 0 {
			t.Errorf("version %d: queues %+v grants %d", version, state.Queues, s.grants(fork.ID()))
		}
	}
}

package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

// taskChange is a change of a task: an event, fields that moved, or a whole
// state.
func taskChange(t *property.T, s session.Session) session.Change {
	switch property.IntRange(0, 9).Draw(t, "taskKind") {
	case 0:
		return session.TaskRestored{State: moved(t, sampleTask())}
	case 1, 2, 3:
		older := session.NewTaskState()
		if now := s.Task(); now != nil {
			older = *now
		}
		c, _, err := session.TaskMoves(older, moved(t, older))
		if err != nil {
			t.Fatal(err)
		}
		return c
	case 4:
		return session.TaskRowChanged{Task: session.TaskRow{Title: text().Draw(t, "title"), Status: property.SampledFrom([]string{"executing", "completed"}).Draw(t, "rowStatus")}}
	case 5, 6:
		list := checklist().Draw(t, "checklist")
		name := property.SampledFrom([]string{"task_list_created", "task_list_updated", "task_list_verification_nudged"}).Draw(t, "event")
		return event(name, string(mustJSON(t, map[string]any{"checklist": list})))
	}
	events := taskSamples()
	return events[property.IntRange(0, len(events)-1).Draw(t, "event")]
}

func mustJSON(t failer, v any) json.RawMessage {
	t.Helper()
	raw, err := session.JSON(v)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return raw
}

func checklist() property.Generator[session.Checklist] {
	return property.Custom(func(t *property.T) session.Checklist {
		c := session.Checklist{Items: []session.ChecklistItem{}, UpdatedAt: property.Int64Range(0, 9).Draw(t, "updatedAt"), NudgeReason: optional(text()).Draw(t, "reason")}
		for i := range t.Repeat(0, 3) {
			c.Items = append(c.Items, session.ChecklistItem{ID: fmt.Sprint(i), Title: text().Draw(t, "title"), Kind: "other", Status: "pending"})
		}
		return c
	})
}

func counts() property.Generator[session.Pairs[int]] {
	return property.Custom(func(t *property.T) session.Pairs[int] {
		var p session.Pairs[int]
		for range t.Repeat(0, 6) {
			key := name().Draw(t, "key")
			if property.Bool().Draw(t, "again") { // it moves to the end
				p = p.Without(key)
			}
			p = p.With(key, property.IntRange(0, 3).Draw(t, "count"))
		}
		return p
	})
}

// moved is a state of which some fields were set anew.
func moved(t *property.T, s session.TaskState) session.TaskState {
	next := *s.Clone()
	sets := []func(){
		func() { next.Said.User = text().Draw(t, "said") },
		func() { next.Said.Shown = optional(text()).Draw(t, "text") },
		func() {
			next.Tools.Calls = counts().Draw(t, "used")
			next.Tools.Successes = counts().Draw(t, "succeeded")
		},
		func() {
			next.Tools.Found = session.NewSet(property.SliceOfN(name(), 0, 3).Draw(t, "found")...)
		},
		func() {
			next.Tools.Failures = next.Tools.Failures.With(name().Draw(t, "tool"), session.ToolFailure{LastError: text().Draw(t, "error")})
		},
		func() { next.Tools.Failures = session.Pairs[session.ToolFailure]{} },
		func() {
			next.Files.Read = next.Files.Read.With(text().Draw(t, "path"), session.FileRead{Bytes: 1})
		},
		func() {
			next.Loop.Turns++
			next.Steps.Current = optional(text()).Draw(t, "step")
		},
		func() {
			next.Steps.Counts = optional(property.Just(session.StepCounts{StepID: "1", Iterations: 2})).Draw(t, "kernel")
		},
		func() {
			next.Recovery.Recovered = next.Recovery.Recovered.With(text().Draw(t, "recovered"))
		},
		func() { next.Usage.Cost = property.Float64Range(0, 10).Draw(t, "cost") },
		func() {
			next.Files.Created = append(slices.Clone(next.Files.Created), text().Draw(t, "created"))
		},
		func() { next.Settings.AutoResume = !next.Settings.AutoResume },
		func() { next.Checklist = checklist().Draw(t, "list") },
	}
	for range t.Repeat(0, 5) {
		sets[property.IntRange(0, len(sets)-1).Draw(t, "set")]()
	}
	return *next.Clone()
}

// What TaskMoves says, folded on the older state, is the newer one: to the
// byte, the order of pairs included.
func TestTaskMoves_leadFromOneStateToTheOther(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		older := session.NewTaskState()
		if property.Bool().Draw(t, "full") {
			older = sampleTask()
		}
		older = moved(t, older)
		newer := moved(t, older)
		c, some, err := session.TaskMoves(older, newer)
		if err != nil {
			t.Fatal(err)
		}
		have, want := mustJSON(t, older), mustJSON(t, newer)
		if some == reflect.DeepEqual(older, newer) {
			t.Fatalf("moved %t from %s to %s", some, have, want)
		}
		s := apply(t, taskSession(t), session.TaskRestored{State: older})
		if some {
			s = apply(t, s, c)
		}
		sameBytes(t, "the newer state", mustJSON(t, s.Task()), want)
	})
}

func TestTaskMoves_holdOnlyWhatMoved(t *testing.T) {
	t.Parallel()
	older := sampleTask()
	newer := *older.Clone()
	newer.Loop.Turns = 9
	newer.Tools.Calls = newer.Tools.Calls.Without("web_fetch").With("read_file", 3).With("shell", 1)
	c, _, err := session.TaskMoves(older, newer)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"buckets":{"loop":{"turns":9},"tools":{"calls":[["web_fetch",null],["read_file",3],["shell",1]]}}}`
	if have := string(mustJSON(t, c)); have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
	if _, some, err := session.TaskMoves(older, *older.Clone()); some || err != nil {
		t.Errorf("nothing moved: %t, %v", some, err)
	}
}

func TestTaskStateChanged_refusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{
		"bucket": `{"buckets":{"moods":{"x":1}}}`, "field": `{"buckets":{"loop":{"x":1}}}`, "event's": `{"buckets":{"plan":{"steps":[]}}}`, "queues": `{"buckets":{"queues":{"feedback":[]}}}`,
		"type": `{"buckets":{"loop":{"turns":"three"}}}`, "old type": `{"buckets":{"loop":{"globalTurnCount":"three"}}}`, "old queue": `{"buckets":{"queues":{"pendingFollowUps":[]}}}`, "no pair": `{"buckets":{"tools":{"calls":[["a",1,2]]}}}`,
		"no key": `{"buckets":{"tools":{"calls":[[null,1]]}}}`, "pair's type": `{"buckets":{"tools":{"calls":[["a","x"]]}}}`,
		"newer part of a field": `{"buckets":{"steps":{"counts":{"stepId":"1","mood":"good"}}}}`, "newer part of a pair": `{"buckets":{"tools":{"failures":[["a",{"mood":1}]]}}}`,
		"not a map": `{"buckets":[]}`, "mode": `{"buckets":{"permissions":{"mode":"reckless"}}}`,
	} {
		raw := `{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"task_state_changed","data":` + bad + `}`
		var r session.Record
		err := json.Unmarshal([]byte(raw), &r)
		if err == nil {
			_, err = taskSession(t).With(noon, r.Change)
		}
		var invalid *session.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A viewer who reads nothing but the three events about the checklist sees
// the checklist there is.
func TestChecklist_foldsFromItsEventsAlone(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		s := taskSession(t)
		alone := session.NewTaskState().Checklist
		for range t.Repeat(1, 25) {
			c := taskChange(t, s)
			if m, ok := c.(session.TaskStateChanged); ok {
				delete(m.Buckets, "checklist") // a run moves nothing of it but the reminder
			}
			if _, restored := c.(session.TaskRestored); restored {
				continue // comes with the event
			}
			next, err := s.With(noon, c)
			if err != nil {
				continue
			}
			s = next
			if e, ok := c.(session.TaskEvent); ok && strings.HasPrefix(e.Name, "task_list_") {
				var said struct{ Checklist session.Checklist }
				if err := json.Unmarshal(e.Data, &said); err != nil {
					t.Fatal(err)
				}
				alone = said.Checklist
			}
		}
		if now := s.Task(); now != nil && !reflect.DeepEqual(now.Checklist, alone) {
			t.Fatalf("the fold has %+v\nthe events %+v", now.Checklist, alone)
		}
	})
}

// A log folded whole, and any beginning of it with the rest on top, give one
// state, also when the beginning was stored as a head between.
func TestTaskFold_anyPrefixPlusTheRest(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		s := taskSession(t)
		start := s
		for range t.Repeat(1, 20) {
			if next, err := s.With(moment().Draw(t, "at"), taskChange(t, s)); err == nil {
				s = next
			}
		}
		records := session.Unsaved(s)
		cut := property.IntRange(0, len(records)).Draw(t, "cut")
		prefix, err := session.FoldFrom(start, records[:cut])
		if err != nil {
			t.Fatal(err)
		}
		head, err := session.EncodeHead(session.Seal(prefix, noon))
		if err != nil {
			t.Fatal(err)
		}
		stored, err := session.DecodeHead(head, nil)
		if err != nil {
			t.Fatal(err)
		}
		for what, from := range map[string]session.Session{"prefix": prefix, "stored": stored} {
			whole, err := session.FoldFrom(from, records[cut:])
			if err != nil {
				t.Fatal(err)
			}
			sameBytes(t, what+" and the rest", mustJSON(t, whole.State().Task), mustJSON(t, s.State().Task))
			sameBytes(t, what+" and the rest", mustJSON(t, whole.Info().Task), mustJSON(t, s.Info().Task))
		}
	})
}

func TestTaskMoves_keepTheOrderOfPairs(t *testing.T) {
	t.Parallel()
	older := session.NewTaskState()
	older.Tools.Calls = pairs("a", 1, "b", 2, "c", 3)
	newer := *older.Clone()
	newer.Tools.Calls = newer.Tools.Calls.Without("a").With("a", 1)
	c, _, err := session.TaskMoves(older, newer)
	if err != nil {
		t.Fatal(err)
	}
	s := apply(t, taskSession(t), session.TaskRestored{State: older}, c)
	if have := string(mustJSON(t, s.Task().Tools.Calls)); have != `[["b",2],["c",3],["a",1]]` {
		t.Errorf("have %s", have)
	}
}

func TestTaskMoves_leaveWhatTheyAreGivenAlone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3000)
	newer := session.NewTaskState()
	newer.Tools.Results = []session.ToolMemory{{Summary: long}}
	newer.Steps.Outcomes = []session.StepOutcome{{StepID: "1"}}
	if _, _, err := session.TaskMoves(session.NewTaskState(), newer); err != nil {
		t.Fatal(err)
	}
	if newer.Tools.Results[0].Summary != long || newer.Steps.Outcomes[0].Files != nil {
		t.Error("the state that was given is another")
	}
}

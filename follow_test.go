package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

func TestFollow_recordsThenTheAnswerSoFarThenEveryPiece(t *testing.T) {
	h, m := openTypist(t, nil)
	s := h.create()
	done := h.sending(s.ID(), "hi")
	m.say("One ", "two ", "three ")
	late := h.follow(s.ID(), 0)
	late.sees("session_created", "user: hi", "execution_started", "…One two three ")
	m.say("four ")
	late.sees("…four ")
	again := h.follow(s.ID(), 3) // as one who reconnects
	again.sees("…One two three four ")
	m.say("five", ".")
	<-done
	for _, who := range []*seat{late, again} {
		who.sees("…five", "inference_answered", "assistant: One two three four five", "step_finished", "execution_finished")
	}
}

func TestFollow_answerOfAnEarlierTimeIsItsRecordAlone(t *testing.T) {
	h, m := openTypist(t, nil)
	s := h.create()
	done := h.sending(s.ID(), "hi")
	m.say("all of it", ".")
	<-done
	h.follow(s.ID(), 3).sees("inference_answered", "assistant: all of it", "step_finished", "execution_finished")
}

func TestFollow_answerThatEndsWhileTheLogIsReadIsItsRecordAlone(t *testing.T) {
	h, m := openTypist(t, nil)
	s := h.create()
	done := h.sending(s.ID(), "hi")
	m.say("half")
	who := h.follow(s.ID(), 0)
	who.sees("session_created") // the answer was looked at, the log is not read to its end
	m.say(" and half", ".")
	<-done
	who.sees("user: hi", "execution_started", "inference_answered", "assistant: half and half", "step_finished", "execution_finished")
	done = h.sending(s.ID(), "again")
	m.say("more")
	who.sees("user: again", "execution_started", "…more")
	m.say(".")
	<-done
}

func TestFollow_slowReaderGetsMoreAtATime(t *testing.T) {
	h, m := openTypist(t, nil)
	s := h.create()
	done := h.sending(s.ID(), "hi")
	m.say("0")
	slow := h.follow(s.ID(), 3)
	slow.sees("…0")
	var rest strings.Builder
	for i := range 200 { // the turn goes on while nobody reads
		m.say(fmt.Sprint(i))
		fmt.Fprint(&rest, i)
	}
	m.say(".")
	<-done
	got, updates := "", 0
	for {
		u, err, ok := slow.next()
		if err != nil || !ok {
			t.Fatal(err)
		}
		if u.Record != nil {
			break
		}
		got += u.Delta.Text
		updates++
	}
	if got != rest.String() || updates > 3 {
		t.Errorf("%d updates, text %q", updates, got)
	}
}

func TestFollow_failedAttemptIsDropped(t *testing.T) {
	h, m := openTypist(t, nil)
	s := h.create()
	done := h.sending(s.ID(), "hi")
	m.say("wrong ")
	early := h.follow(s.ID(), 3)
	early.sees("…wrong ")
	slow := h.follow(s.ID(), 3)
	slow.sees("…wrong ")
	m.say("too")
	early.sees("…too")
	m.say("!")
	early.sees("dropped 0")
	m.say("right")
	early.sees("…right")
	fresh := h.follow(s.ID(), 3)
	fresh.sees("…right")
	m.say(".")
	<-done
	for _, who := range []*seat{early, fresh} {
		who.sees("inference_answered", "assistant: right")
	}
	var kinds []string // one who slept must learn that it was dropped before the record
	for len(kinds) == 0 || kinds[len(kinds)-1] != "inference_answered" {
		u, err, ok := slow.next()
		if err != nil || !ok {
			t.Fatal(err)
		}
		kinds = append(kinds, sessionQueue(u))
	}
	if all := strings.Join(kinds, " "); !strings.Contains(all, "dropped 0") || strings.Index(all, "dropped 0") < strings.LastIndex(all, "too") {
		t.Errorf("saw %q", kinds)
	}
}

// An attempt that fails before its first word is told too, with the reason; to
// those who came later it is no news.
func TestFollow_attemptWithoutAWordIsDropped(t *testing.T) {
	h, m := openTypist(t, nil)
	s := h.create()
	done := h.sending(s.ID(), "hi")
	m.say("a")
	who := h.follow(s.ID(), 3)
	who.sees("…a")
	m.say("!", "!", "right")
	who.sees("dropped 0")
	u, err, _ := who.next()
	if err != nil || u.Dropped == nil || u.Dropped.Number != 1 || !u.Dropped.Again || u.Dropped.Reason != "broken off" {
		t.Fatalf("got %+v, %v", u, err)
	}
	who.sees("…right")
	h.follow(s.ID(), 3).sees("…right")
	m.say(".")
	who.sees("inference_answered", "assistant: right")
	<-done
}

// A store without a log shows what this process writes.
func TestFollow_onAStoreWithoutALog(t *testing.T) {
	st, err := file.Open(t.TempDir(), file.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	work := toolFunc{spec: tool.Spec{Name: "work"}, call: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: "ok"}, nil
	}}
	h := open(t, func(c *holdfast.Config) {
		c.Store, c.Tools = st, toolSet(t, work)
		script(c, scripted.Reply{Text: "let me see", ToolCalls: []session.ToolCall{callOf("1", "work")}}, scripted.Reply{Text: "done"})
	})
	s := h.create()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // only so that a test that fails ends
	defer cancel()
	updates := h.Follow(ctx, s.ID(), s.Seq())
	<-h.sending(s.ID(), "hi")
	var got []string
	for u, err := range updates {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, sessionQueue(u))
		if _, over := u.Record.Change.(session.ExecutionFinished); over {
			break
		}
	}
	want := []string{
		"user: hi", "execution_started", "inference_answered", "assistant: let me see", "tool_started", "tool: ", "tool_finished",
		"step_finished", "inference_answered", "assistant: done", "step_finished", "execution_finished",
	}
	if !slices.Equal(got, want) {
		t.Errorf("saw %q", got)
	}
}

func TestFollow_cancelAndInterruptionDropTheAnswer(t *testing.T) {
	for name, end := range map[string]func(h *house, id string, interrupt func()) error{
		"cancel":       func(h *house, id string, _ func()) error { return h.Cancel(context.Background(), id) },
		"interruption": func(_ *house, _ string, interrupt func()) error { interrupt(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			h, m := openTypist(t, nil)
			s := h.create()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			done := make(chan error, 1)
			go func() {
				_, err := h.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "hi"})
				done <- err
			}()
			m.say("half")
			who := h.follow(s.ID(), 3)
			who.sees("…half")
			if err := end(h, s.ID(), interrupt); err != nil {
				t.Fatal(err)
			}
			who.sees("dropped 0")
			if err := <-done; (err == nil) != (name == "cancel") {
				t.Fatal(err)
			}
			if name == "cancel" {
				who.sees("inbox_taken", "execution_finished")
				return
			}
			go func() {
				_, err := h.Execute(t.Context(), s.ID(), holdfast.ContinueExecution{})
				done <- err
			}()
			m.say("whole")
			who.sees("execution_continued", "…whole")
			m.say(".")
			who.sees("inference_answered", "assistant: whole")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// failing is a store that stops taking writes to the tail.
type failing struct {
	*inmem.Store
	broken atomic.Bool
}

func (f *failing) Append(ctx context.Context, s session.Session, a store.Append) (session.Session, error) {
	if f.broken.Load() {
		return s, errors.New("disk full")
	}
	return f.Store.Append(ctx, s, a)
}

func TestFollow_answerThatCannotBeWrittenIsDropped(t *testing.T) {
	st := &failing{Store: inmem.New(inmem.Config{})}
	h, m := openTypist(t, func(c *holdfast.Config) { c.Store = st })
	s := h.create()
	done := make(chan error, 1)
	go func() {
		_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"})
		done <- err
	}()
	m.say("all of it")
	who := h.follow(s.ID(), 3)
	who.sees("…all of it")
	st.broken.Store(true)
	m.say(".")
	who.sees("dropped 0")
	if err := <-done; err == nil {
		t.Error("the turn ended well")
	}
}

func TestFollow_stepsComeInOrderWithTheirTools(t *testing.T) {
	work := toolFunc{spec: tool.Spec{Name: "work"}, call: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: "ok"}, nil
	}}
	h := open(t, func(c *holdfast.Config) {
		c.Tools = toolSet(t, work)
		script(c, scripted.Reply{Text: "let me see", ToolCalls: []session.ToolCall{callOf("1", "work")}}, scripted.Reply{Text: "done"})
	})
	s := h.create()
	who := h.follow(s.ID(), 0)
	h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	var steps []string
	answered := map[string]bool{}
	for len(steps) < 2 {
		u, err, ok := who.next()
		if err != nil || !ok {
			t.Fatal(err)
		}
		switch {
		case u.Delta != nil && (answered[u.Delta.StepID] || u.Delta.ExecutionID == ""):
			t.Errorf("a delta after the record that takes its place: %+v", u.Delta)
		case u.Record != nil:
			if a, ok := u.Record.Change.(session.InferenceAnswered); ok {
				answered[a.StepID] = true
				steps = append(steps, a.StepID)
			}
		}
	}
}

func TestFollow_otherTenantsAndMissingSessionsAreNotThere(t *testing.T) {
	h, m := openTypist(t, nil)
	s := h.create()
	done := h.sending(s.ID(), "hi")
	m.say("private")
	other := &house{Runtime: h.For(holdfast.Identity{Tenant: "other"}), t: t}
	for who, id := range map[*house]string{other: s.ID(), h: "nobody"} {
		if u, err, _ := who.follow(id, 0).next(); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%s: got %v, %v", id, u, err)
		}
	}
	m.say(".")
	<-done
}

func TestFollow_secretsAreMaskedAlsoInPieces(t *testing.T) {
	const secret = "sk-0123456789"
	h, m := openTypist(t, func(c *holdfast.Config) { c.Secrets = map[string]string{"KEY": secret} })
	s := h.create()
	var streamed strings.Builder
	done := make(chan error, 1)
	go func() {
		_, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}, holdfast.Stream(func(d llm.Delta) { streamed.WriteString(d.Text) }))
		done <- err
	}()
	m.say("the key ", "is s", "k-01", "23456789", " and s")
	who := h.follow(s.ID(), 3)
	who.sees("…the key is [secret:KEY] and ")
	m.say(".")
	who.sees("…s", "inference_answered", "assistant: the key is [secret:KEY] and s")
	if err := <-done; err != nil || streamed.String() != "the key is [secret:KEY] and s" {
		t.Errorf("streamed %q, %v", streamed.String(), err)
	}
}

func TestFollow_secretsAreMaskedInToolCalls(t *testing.T) {
	const secret = "sk-0123456789"
	said := make(chan struct{})
	model := streaming(func(ctx context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
		for _, arguments := range []string{"", `{"key":"` + secret + `"}`, `{"key":"` + secret} {
			emit(llm.Delta{ToolCall: &session.ToolCall{ID: "1", Name: "work", Arguments: json.RawMessage(arguments)}})
		}
		close(said)
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	})
	h := open(t, func(c *holdfast.Config) {
		c.Models, c.Secrets = llm.Map{"demo": model}, map[string]string{"KEY": secret}
	})
	s := h.create()
	done := h.sending(s.ID(), "hi")
	<-said
	who := h.follow(s.ID(), 3)
	for _, want := range []string{"", `{"key":"[secret:KEY]"}`, ""} {
		u, err, ok := who.next()
		if err != nil || !ok || u.Delta == nil || u.Delta.ToolCall == nil || string(u.Delta.ToolCall.Arguments) != want {
			t.Fatalf("got %+v, %v, want arguments %q", u.Delta, err, want)
		}
	}
	if err := h.Cancel(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	soon(t, done)
}

func TestFollow_forkHasItsParentsRecordsAndItsOwnAnswer(t *testing.T) {
	h, m := openTypist(t, nil)
	parent := h.create()
	done := h.sending(parent.ID(), "hi")
	m.say("hello", ".")
	<-done
	fork, err := h.Fork(t.Context(), parent.ID())
	if err != nil {
		t.Fatal(err)
	}
	done = h.sending(fork.ID(), "and you?")
	m.say("fine")
	h.follow(fork.ID(), 0).sees(
		"session_created", "user: hi", "execution_started", "inference_answered", "assistant: hello", "step_finished", "execution_finished",
		"session_forked", "user: and you?", "execution_started", "…fine")
	m.say(".")
	<-done
	h.follow(parent.ID(), 6).sees("execution_finished")
}

func TestFollow_endsWithTheRuntime(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	who := h.follow(s.ID(), 0)
	who.sees("session_created")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err, _ := who.next(); !errors.Is(err, session.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// The form an update has on the wire, for ever.
func TestUpdate_json(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	name := holdfast.Attempt{ExecutionID: "e", StepID: "s", Number: 1}
	for want, u := range map[string]holdfast.Update{
		`{"record":{"seq":7,"at":"2026-03-01T09:00:00Z","kind":"execution_continued","data":{},"version":2}}`: {
			Record: &session.LogEntry{Record: session.Record{Seq: 7, At: at, Change: session.ExecutionContinued{}}, Version: 2}},
		`{"delta":{"executionId":"e","stepId":"s","attempt":1,"text":"Hi"}}`: {Delta: &holdfast.Delta{Attempt: name, Text: "Hi"}},
		`{"delta":{"executionId":"e","stepId":"s","attempt":1,"toolCall":{"id":"c","name":"look","arguments":null}}}`: {
			Delta: &holdfast.Delta{Attempt: name, ToolCall: &session.ToolCall{ID: "c", Name: "look"}}},
		`{"dropped":{"executionId":"e","stepId":"s","attempt":1}}`: {Dropped: &holdfast.Dropped{Attempt: name}},
		`{"dropped":{"executionId":"e","stepId":"s","attempt":1,"again":true,"pauseSeconds":0.5,"reason":"busy"}}`: {
			Dropped: &holdfast.Dropped{Attempt: name, Again: true, PauseSeconds: 0.5, Reason: "busy"}},
	} {
		if got, err := json.Marshal(u); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

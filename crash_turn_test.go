package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/anthropic"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

// The turn that crashing processes work on: four model calls and five tool
// calls, of every nature, alone and side by side.

var crashAgent = session.Definition{Name: "booker", SystemPrompt: "Book what is asked for.", Model: "recorded"}

// crashTools are the agent's tools.
var crashTools = []tool.Spec{
	{Name: "look_up", Description: "Finds trains.", Nature: tool.ReadOnly},
	{Name: "reserve", Description: "Holds a seat.", Nature: tool.Idempotent, Parallel: true},
	{Name: "charge", Description: "Takes money.", Nature: tool.Once},
	{Name: "mail", Description: "Sends a letter.", Nature: tool.Once, Parallel: true},
}

// crashCalls are the tool calls of each answer; the last one has none.
var crashCalls = [][]provtest.Call{
	{{ID: "find", Name: "look_up", Arguments: []string{`{"to":`, `"Oslo"}`}}, {ID: "hold", Name: "reserve", Arguments: []string{`{"seat":7}`}}},
	{{ID: "pay", Name: "charge", Arguments: []string{`{"amount":`, `40}`}}},
	{{ID: "letter", Name: "mail", Arguments: []string{`{}`}}, {ID: "check", Name: "look_up", Arguments: []string{`{"to":"Oslo"}`}}},
	nil,
}

// callOrigin finds the step that asks for a call, and the nature of its tool.
func callOrigin(id string) (step int, nature tool.Nature) {
	for i, calls := range crashCalls {
		for _, call := range calls {
			if call.ID != id {
				continue
			}
			for _, spec := range crashTools {
				if spec.Name == call.Name {
					return i + 1, spec.Nature
				}
			}
		}
	}
	panic("no such call: " + id)
}

func answerKey(step int) string { return fmt.Sprint("answer ", step) }

func answerStep(key string) (step int) {
	if _, err := fmt.Sscanf(key, "answer %d", &step); err != nil {
		panic(err)
	}
	return step
}

// takeUp is how a process takes up a turn that may have been begun.
type takeUp string

const (
	byKey      takeUp = "key"      // it sends the message again, with its key
	byContinue takeUp = "continue" // it continues the session, or sends the message if there is nothing to
	byRecover  takeUp = "recover"  // it recovers all sessions first

	onlyContinue takeUp = "only continue" // it continues at once or not at all
	onlyRecover  takeUp = "only recover"  // it recovers what nobody works on
)

// turnJob is what the processes of a turn are told.
type turnJob struct {
	Protocol string
	TakeUp   takeUp
}

// turnScenario is the turn on a store. A session's id is also its tenant, so
// that nobody recovers the session of another run.
func turnScenario(storeName, protocol string) *crashtest.Scenario {
	takeUps := []takeUp{byContinue, byRecover, byKey}
	if storeName == "file" {
		takeUps = takeUps[:2] // it has no keys
	}
	return &crashtest.Scenario{
		Name: "turn", Row: "turn", Work: workOnTurn, MostLost: 1,
		Prepare: func(ctx context.Context, r *crashtest.Run, st store.Store) (any, error) {
			rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{crashAgent.Model: scripted.New()}})
			if err != nil {
				return nil, err
			}
			_, err = rt.For(holdfast.Identity{Tenant: r.ID}).Create(ctx, crashAgent, holdfast.WithID(r.ID))
			return turnJob{protocol, takeUps[r.Number%len(takeUps)]}, errors.Join(err, rt.Close())
		},
		Reply: replyToTurn,
		Load:  loadTurn,
		Once:  func(call string) bool { _, nature := callOrigin(call); return nature == tool.Once },
		Check: nothingLost,
		CheckEnd: func(r, undisturbed *crashtest.Run) []error {
			return append(sameRequests(r, undisturbed), sameSession(r, undisturbed)...)
		},
	}
}

// replyToTurn reads which step a request asks for, and answers slowly enough
// for a crash to come in between.
func replyToTurn(r *crashtest.Run, body []byte) (key, detail string, reply provtest.Reply, err error) {
	step, err := requestedStep(body, len(crashCalls))
	if err != nil {
		return "", "", reply, err
	}
	n := int64(step)
	reply = provtest.Reply{
		Reasoning: []string{"Hm ", fmt.Sprint(step), "."}, Signature: fmt.Sprint("c2VhbA", step),
		Text: []string{"Step ", fmt.Sprint(step), "."}, Calls: crashCalls[step-1], Pause: time.Millisecond,
		Usage: provtest.Usage{Input: 100 * n, Output: 10 * n, CacheRead: n},
	}
	if reply.Calls == nil {
		reply.Text = []string{"All ", "is ", "booked."}
	}
	return answerKey(step), withoutID(string(body), r.ID), reply, nil
}

// requestedStep returns which of so many answers a request asks for: the one
// after those it contains.
func requestedStep(body []byte, most int) (int, error) {
	var request struct{ Messages []struct{ Role string } }
	if err := json.Unmarshal(body, &request); err != nil {
		return 0, err
	}
	step := 1
	for _, m := range request.Messages {
		if m.Role == "assistant" {
			step++
		}
	}
	if step > most {
		return 0, fmt.Errorf("there is no answer %d", step)
	}
	return step, nil
}

// workOnTurn brings the turn to its end.
func workOnTurn(ctx context.Context, w *crashtest.Worker) (err error) {
	var j turnJob
	if err := w.Job(&j); err != nil {
		return err
	}
	var m llm.Model
	if j.Protocol == "anthropic" {
		m, err = anthropic.New(anthropic.Config{Model: "recorded", URL: w.Model, Header: w.Header()})
	} else {
		m, err = openai.New(openai.Config{Model: "recorded", URL: w.Model, Header: w.Header()})
	}
	if err != nil {
		return err
	}
	m = crashtest.Model{Model: m, Worker: w, Key: func(r llm.Request, _ string) string { return answerKey(r.Inference + 1) }}
	var tools []tool.Tool
	for _, spec := range crashTools {
		tools = append(tools, crashtest.Tool{Worker: w, About: spec, Takes: 8 * time.Millisecond})
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		return err
	}
	retries := 0
	rt, err := holdfast.New(holdfast.Config{
		Store: w.Store, Models: llm.Map{crashAgent.Model: m}, Tools: set, Lease: w.Lease, ModelRetries: &retries, Poll: 20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	return j.TakeUp.run(ctx, rt.For(holdfast.Identity{Tenant: w.Run}), w.Run)
}

// run takes the turn up in one way.
func (how takeUp) run(ctx context.Context, rt *holdfast.Runtime, id string) error {
	stream := holdfast.Stream(func(llm.Delta) {})
	send := holdfast.SendMessage{Text: "Please book trip " + id + "."}
	switch how {
	case byKey:
		_, err := rt.Execute(ctx, id, send, holdfast.IdempotencyKey("turn "+id), stream)
		return err
	case onlyContinue:
		_, err := rt.Execute(ctx, id, holdfast.ContinueExecution{}, holdfast.OnBusy(holdfast.Reject), stream)
		return err
	case byRecover, onlyRecover:
		done, err := rt.Recover(ctx)
		for _, r := range done {
			err = errors.Join(err, r.Err)
		}
		if err == nil && len(done) == 0 && how == onlyRecover {
			err = session.ErrBusy // another process works on it: nothing to recover
		}
		if err != nil || how == onlyRecover {
			return err
		}
	}
	s, err := rt.Get(ctx, id, holdfast.WithTail())
	switch {
	case err != nil:
	case s.Running() || s.HasTail():
		_, err = rt.Execute(ctx, id, holdfast.ContinueExecution{}, stream)
	case s.State().ExecutionCount == 0:
		_, err = rt.Execute(ctx, id, send, stream)
	}
	return err
}

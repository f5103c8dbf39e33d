package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

// A turn that waits three times: for an answer and an approval, for a client's
// result beside a call that runs at once, and for an approval that is denied.
// Processes are killed at every point at which the store writes, between asking
// and responding too. Each response takes effect exactly once.

var waitTools = []tool.Spec{
	{Name: "look_up", Nature: tool.ReadOnly, Effects: tool.Read},
	{Name: "charge", Nature: tool.Once, Effects: tool.External},
}

var waitCalls = [][]provtest.Call{
	{
		{ID: "which", Name: tool.AskPersonName, Arguments: []string{`{"question":"Which seat?","options":["window","aisle"]}`}},
		{ID: "pay", Name: "charge", Arguments: []string{`{"amount":40}`}},
	},
	{{ID: "screen", Name: "browser", Arguments: []string{`{}`}}, {ID: "find", Name: "look_up", Arguments: []string{`{}`}}},
	{{ID: "more", Name: "charge", Arguments: []string{`{"amount":1000}`}}},
	nil,
}

// waitResponses are the responses, by the tool call.
var waitResponses = map[string]session.Response{
	"which":  {Action: session.RespondAnswer, Text: "aisle"},
	"pay":    {Action: session.RespondApprove},
	"screen": {Action: session.RespondResult, Text: "clicked"},
	"more":   {Action: session.RespondDeny, Text: "too much"},
}

func waitScenario() *crashtest.Scenario {
	return &crashtest.Scenario{
		Name: "wait", Row: "a turn that waits", Work: workOnWaitingTurn, MostLost: 1,
		Prepare: func(ctx context.Context, r *crashtest.Run, st store.Store) (any, error) {
			rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{crashAgent.Model: scripted.New()}})
			if err != nil {
				return nil, err
			}
			_, err = rt.For(holdfast.Identity{Tenant: r.ID}).Create(ctx, crashAgent, holdfast.WithID(r.ID))
			return nil, errors.Join(err, rt.Close())
		},
		Reply: replyToWaitingTurn,
		Load:  loadWaitingTurn,
		Once:  func(call string) bool { return call == "pay" || call == "more" },
		CheckEnd: func(r, undisturbed *crashtest.Run) []error {
			s := r.Last.State.(session.Session)
			faults := sameSession(r, undisturbed)
			for call, want := range map[string]string{"which": "aisle", "screen": "clicked", "more": "not run: the user denied it: too much"} {
				if got := resultsIn(s)[call]; got != want {
					faults = append(faults, fmt.Errorf("the result of %s is %q, want %q", call, got, want))
				}
			}
			if n := len(s.PendingCalls()); n > 0 || s.Info().Pending > 0 {
				faults = append(faults, fmt.Errorf("%d calls still wait", n))
			}
			return faults
		},
	}
}

func resultsIn(s session.Session) map[string]string {
	found := map[string]string{}
	for _, m := range s.Messages() {
		if m.ToolResult != nil {
			found[m.ToolResult.CallID] += m.ToolResult.Content // twice would show
		}
	}
	return found
}

func replyToWaitingTurn(_ *crashtest.Run, body []byte) (key, detail string, reply provtest.Reply, err error) {
	step, err := requestedStep(body, len(waitCalls))
	if err != nil {
		return "", "", reply, err
	}
	return answerKey(step), "", provtest.Reply{Text: []string{"Step."}, Calls: waitCalls[step-1]}, nil
}

// loadWaitingTurn counts the calls that this program runs.
func loadWaitingTurn(ctx context.Context, r *crashtest.Run, st store.Store) (crashtest.Found, error) {
	f, err := loadTurn(ctx, r, st)
	for _, call := range []string{"which", "screen", "more"} {
		delete(f.Started, call)
		delete(f.Results, call)
	}
	return f, err
}

// workOnWaitingTurn sends, responds and continues until the turn is over.
func workOnWaitingTurn(ctx context.Context, w *crashtest.Worker) (err error) {
	m, err := openai.New(openai.Config{Model: "recorded", URL: w.Model, Header: w.Header()})
	if err != nil {
		return err
	}
	tools := []tool.Tool{tool.AskPerson()}
	for _, spec := range waitTools {
		tools = append(tools, crashtest.Tool{Worker: w, About: spec, Takes: time.Millisecond})
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		return err
	}
	retries := 0
	model := crashtest.Model{Model: m, Worker: w, Key: func(r llm.Request, _ string) string { return answerKey(r.Inference + 1) }}
	rt, err := holdfast.New(holdfast.Config{
		Store: w.Store, Models: llm.Map{crashAgent.Model: model}, Tools: set, Lease: w.Lease, ModelRetries: &retries, Poll: 20 * time.Millisecond,
		Permissions: &holdfast.Permissions{},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	view := rt.For(holdfast.Identity{Tenant: w.Run})
	for {
		s, err := view.Get(ctx, w.Run, holdfast.WithTail())
		if err != nil {
			return err
		}
		var next holdfast.Action = holdfast.ContinueExecution{}
		switch {
		case s.State().ExecutionCount == 0:
			next = holdfast.SendMessage{Text: "Please book.", Tools: []session.ClientTool{{Name: "browser"}}}
		case s.Waiting():
			w.Point("before responding")
			for _, p := range s.PendingCalls() {
				response := waitResponses[p.CallID]
				response.PendingID = p.ID
				if err := view.Respond(ctx, w.Run, response); err != nil {
					return err
				}
				w.Point("responded to " + p.CallID)
			}
		case !s.Running() && !s.HasTail():
			return nil
		}
		if _, err := view.Execute(ctx, w.Run, next); err != nil {
			return err
		}
	}
}

func TestCrash_pendingCalls(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]int{"sqlite": 1, "postgres": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := crashtest.Config{Store: name, Protocol: "openai", Together: 4}
			if name == "postgres" {
				config.Lease, config.Together = 2*time.Second, 8
			}
			if crashtest.RandomKills() > 0 {
				every = 1
			}
			place := crashtest.NewPlace(t, config)
			plan := place.MustRehearse(t, waitScenario())
			place.KillAll(t, crashtest.Cells(plan, crashtest.Every(every, plan.Kills())), 0).Log(t, name+", killed at", nil,
				crashtest.Kills, crashtest.AskedAgain, crashtest.RanAgain, crashtest.OnceAgain, crashtest.Lost, crashtest.Unknown)
		})
	}
}

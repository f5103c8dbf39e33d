package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

// turnSteps are how many answers the counted turns have.
func turnSteps() []int { return []int{1, 3, 10} }

// newScript is a model and a definition for turns of so many steps: all but the
// last use a tool.
func newScript(steps int) (session.Definition, []scripted.Reply) {
	var replies []scripted.Reply
	for i := range steps - 1 {
		replies = append(replies, scripted.Reply{ToolCalls: []session.ToolCall{{ID: fmt.Sprint("call-", i), Name: "look", Arguments: []byte("{}")}}})
	}
	return session.Definition{Name: fmt.Sprint("steps-", steps)}, append(replies, scripted.Reply{Text: "Take a coat."})
}

// newRuntime is a runtime whose agents take as many steps as their name says.
// It is given the store itself, so that it finds all of its abilities.
func newRuntime(st store.Store) (*holdfast.Runtime, error) {
	script := scripted.Config{Agents: map[string][]scripted.Reply{}, Replies: []scripted.Reply{{Text: "Take a coat."}}}
	for _, steps := range turnSteps() {
		def, replies := newScript(steps)
		script.Agents[def.Name] = replies
	}
	tools, err := tool.NewSet(tool.Fake("look", "Looks out of the window.", "rain"))
	if err != nil {
		return nil, err
	}
	return holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"scripted": scripted.NewConfig(script)}, DefaultModel: "scripted", Tools: tools})
}

// commitCounts counts, by the store's hook and not by the clock, what actions
// and turns write.
func commitCounts(ctx context.Context, b *bench) (results []Result, err error) {
	var commits atomic.Int64
	count := func(point string) {
		if b.commits(point) {
			commits.Add(1)
		}
	}
	err = b.in(ctx, setting{onWrite: count}, func(p *openedStore) error {
		rt, err := newRuntime(p.durable)
		if err != nil {
			return err
		}
		counted := func(n int, id string, action holdfast.Action) (float64, error) {
			before := commits.Load()
			for range n {
				if _, err := rt.Execute(ctx, id, action); err != nil {
					return 0, err
				}
			}
			return float64(commits.Load()-before) / float64(n), nil
		}
		results, err = countAll(ctx, rt, counted)
		return errors.Join(err, rt.Close())
	})
	return results, err
}

func countAll(ctx context.Context, rt *holdfast.Runtime, counted func(int, string, holdfast.Action) (float64, error)) ([]Result, error) {
	const actions = 20
	s, err := rt.Create(ctx, session.Definition{Name: "plain"})
	if err != nil {
		return nil, err
	}
	pure, err := counted(actions, s.ID(), holdfast.WriteMetadata{Key: "city", Value: "Oslo"})
	if err != nil {
		return nil, err
	}
	results := []Result{{Key: "commits.action", Name: "commits of a pure action", Measured: pure, Count: true, Target: exactly(1), N: actions}}
	for _, steps := range turnSteps() {
		def, _ := newScript(steps)
		s, err := rt.Create(ctx, def)
		if err != nil {
			return nil, err
		}
		turn, err := counted(1, s.ID(), holdfast.SendMessage{Text: "Do I need a coat in Oslo?"})
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("commits of a turn of %d answers and %d tools", steps, steps-1)
		if steps == 1 {
			name = "commits of a turn of one answer"
		}
		done := steps + steps - 1 // every answer but the last is followed by a tool
		results = append(results, Result{Key: fmt.Sprintf("commits.turn.%d", steps), Name: name, Measured: turn, Count: true, Target: atMost(float64(done + 2)), N: 1})
	}
	return results, nil
}

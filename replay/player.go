package replay

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
)

// Player replays recordings. It is the Config.Loop of the runtime that it
// replays with, and runs all other sessions of that runtime as usual. It is safe
// for concurrent use.
type Player struct {
	Loop holdfast.Loop // that runs the agents; nil: agent.Loop

	tapes sync.Map // *tape by the session that it is for
}

// Options say how a recording is replayed.
type Options struct {
	Model string   // that answers; empty: the one of the recording
	Name  string   // of the new session
	Run   []string // tools that run although there is a recorded result
}

// Play sends the messages of a recording to a new session and compares what comes
// of it. The new session is kept. Nothing waits in it afterwards.
//
// If a turn fails, the report has the turns up to it and comes with the error. If
// the first one is refused, there is neither a report nor a new session.
func (p *Player) Play(ctx context.Context, rt *holdfast.Runtime, r *Recording, o Options) (*Report, error) {
	s, err := begin(ctx, rt, r, o)
	if err != nil {
		return nil, err
	}
	id, begun, t := s.ID(), s.Len(), newTape(r, o.Run)
	p.tapes.Store(id, t)
	defer p.tapes.Delete(id)
	steps := map[string]session.Step{}
	var failed error
	sent := 0
	for _, turn := range r.Turns {
		said := session.Message{Role: session.RoleUser, Name: turn.message.Name, Content: turn.message.Content, Metadata: turn.message.Metadata}
		sent++
		if s, failed = rt.Execute(ctx, id, holdfast.SendMessage{Message: &said, Tools: turn.tools}); failed != nil {
			break
		}
		addSteps(steps, s)
	}
	finish := context.WithoutCancel(ctx) // what was done is worth a report
	whole, err := rt.Get(finish, id, holdfast.Whole())
	if err != nil {
		return nil, cmp.Or(failed, err)
	}
	if failed != nil && whole.Len() == begun { // refused before anything was said
		return nil, errors.Join(failed, rt.Purge(finish, id))
	}
	addSteps(steps, whole)
	report := newReport(r, whole, turnsOf(whole.Messages()[begun:], steps), t, sent)
	if whole.Waiting() {
		if _, err := rt.Execute(finish, id, holdfast.AbandonExecution{}); err != nil {
			return report, cmp.Or(failed, err)
		}
	}
	return report, failed
}

// begin makes the session that the messages are sent to.
func begin(ctx context.Context, rt *holdfast.Runtime, r *Recording, o Options) (session.Session, error) {
	var (
		s    session.Session
		err  error
		opts []holdfast.Option
	)
	if o.Name != "" {
		opts = append(opts, holdfast.WithName(o.Name))
	}
	if r.from > 0 {
		s, err = rt.Fork(ctx, r.Session.ID, append(opts, holdfast.At(r.from))...)
	} else {
		s, err = rt.Create(ctx, r.Definition, append(opts, holdfast.WithSeed(r.seed))...)
	}
	if err == nil && o.Model != "" && o.Model != s.Model() {
		id := s.ID()
		if s, err = rt.Execute(ctx, id, holdfast.ChangeModel{Model: o.Model}); err != nil {
			err = errors.Join(err, rt.Purge(context.WithoutCancel(ctx), id))
		}
	}
	if err != nil || !s.Partial() {
		return s, err
	}
	return rt.Get(ctx, s.ID(), holdfast.Whole())
}

// Run continues an execution, of a replay with the tools of its recording.
func (p *Player) Run(ctx context.Context, c agent.Config, s session.Session) (session.Session, error) {
	return p.loop().Run(ctx, p.adjust(c, s), s)
}

// Settle brings open calls to results.
func (p *Player) Settle(ctx context.Context, c agent.Config, s session.Session) (session.Session, error) {
	return p.loop().Settle(ctx, p.adjust(c, s), s)
}

func (p *Player) loop() holdfast.Loop {
	if p.Loop == nil {
		return agent.Loop{}
	}
	return p.Loop
}

// adjust puts the recording in front of the tools of a session that is a replay.
func (p *Player) adjust(c agent.Config, s session.Session) agent.Config {
	found, ok := p.tapes.Load(s.ID())
	if !ok {
		return c
	}
	t := found.(*tape) //nolint:errcheck,forcetypeassert // nothing else is stored
	c.Gate, c.Tools = gate{c.Gate}, t.cover(c.Tools)
	return c
}

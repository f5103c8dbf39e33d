//go:build peers

package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/agent/llmagent"
	"trpc.group/trpc-go/trpc-agent-go/event"
	"trpc.group/trpc-go/trpc-agent-go/model"
	"trpc.group/trpc-go/trpc-agent-go/runner"
	"trpc.group/trpc-go/trpc-agent-go/session"
	"trpc.group/trpc-go/trpc-agent-go/session/postgres"
)

var trpcContender = Contender{Name: "trpc-agent-go", open: openTRPC}

// trpc is trpc-agent-go's session service for PostgreSQL with its runner. Events
// are persisted before the call returns, which is its default.
type trpc struct {
	sessions session.Service
	runner   runner.Runner
	model    *trpcModel
}

// unlimited lets a session keep all of its events; the default is 1,000.
const unlimited = 1 << 20

func openTRPC(_ context.Context, p place) (system, error) {
	if p.store != storePostgres {
		return nil, errors.ErrUnsupported
	}
	sessions, err := postgres.NewService(postgres.WithPostgresClientDSN(p.url), postgres.WithSchema(p.schema), postgres.WithSessionEventLimit(unlimited))
	if err != nil {
		return nil, err
	}
	s := &trpc{sessions: sessions, model: &trpcModel{answer: p.answer}}
	s.runner = runner.NewRunner(app, llmagent.New("bench", llmagent.WithModel(s.model)), runner.WithSessionService(sessions))
	return s, nil
}

func (s *trpc) create(ctx context.Context, id string) (conversation, error) {
	made, err := s.sessions.CreateSession(ctx, key(id), session.StateMap{})
	return &trpcConversation{in: s.sessions, of: made}, err
}

func key(id string) session.Key { return session.Key{AppName: app, UserID: user, SessionID: id} }

type trpcConversation struct {
	in session.Service
	of *session.Session
	n  int
}

func (c *trpcConversation) append(ctx context.Context, text string) error {
	message, author := model.NewUserMessage(text), "user"
	if c.n%2 == 1 {
		message, author = model.NewAssistantMessage(text), "bench"
	}
	c.n++
	said := &model.Response{Choices: []model.Choice{{Message: message}}, Done: true, Timestamp: time.Now()}
	return c.in.AppendEvent(ctx, c.of, event.NewResponseEvent("invocation", author, said))
}

func (s *trpc) load(ctx context.Context, id string) (int, error) {
	got, err := s.sessions.GetSession(ctx, key(id))
	if err != nil || got == nil {
		return 0, err
	}
	return got.GetEventCount(), nil
}

func (s *trpc) list(ctx context.Context, _ int) (int, error) {
	got, err := s.sessions.ListSessions(ctx, session.UserKey{AppName: app, UserID: user})
	return len(got), err
}

func (s *trpc) turn(ctx context.Context, id, text string) (int, error) {
	events, err := s.runner.Run(ctx, user, id, model.NewUserMessage(text))
	if err != nil {
		return 0, err
	}
	for e := range events {
		if e.Error != nil && err == nil {
			err = errors.New(e.Error.Message)
		}
	}
	return int(s.model.shown.Load()), err
}

func (s *trpc) fork(context.Context, string, string) error { return errors.ErrUnsupported }

func (s *trpc) close() error { return errors.Join(s.runner.Close(), s.sessions.Close()) }

type trpcModel struct {
	answer string
	shown  atomic.Int64
}

func (*trpcModel) Info() model.Info { return model.Info{Name: "instant"} }

func (m *trpcModel) GenerateContent(_ context.Context, r *model.Request) (<-chan *model.Response, error) {
	m.shown.Store(int64(len(r.Messages)))
	out := make(chan *model.Response, 1)
	out <- &model.Response{
		Object: model.ObjectTypeChatCompletion, Model: "instant", Done: true, Timestamp: time.Now(),
		Choices: []model.Choice{{Message: model.NewAssistantMessage(m.answer)}},
	}
	close(out)
	return out, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

var holdfastContender = Contender{Name: "Holdfast", Version: "this checkout", open: openHoldfast}

// ourStore lists the abilities that are measured.
type ourStore interface {
	store.Store
	store.Logs
}

// ours is Holdfast with its defaults, except that whole sessions are read through
// a second store that keeps nothing in memory.
type ours struct {
	warm, cold ourStore
	rt         *holdfast.Runtime
	model      *instantModel
}

func openHoldfast(ctx context.Context, p place) (_ system, err error) {
	s := &ours{model: &instantModel{answer: p.answer}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	open := func(warmBytes int64) (ourStore, error) {
		if p.store == storeSQLite {
			return sqlite.Open(ctx, p.file, sqlite.Config{WarmBytes: warmBytes})
		}
		return postgres.Open(ctx, p.url, postgres.Config{WarmBytes: warmBytes, MaxConns: atOnce})
	}
	if s.warm, err = open(0); err != nil {
		return nil, err
	}
	if s.cold, err = open(-1); err != nil {
		return nil, err
	}
	s.rt, err = holdfast.New(holdfast.Config{Store: s.warm, Models: llm.Map{"instant": s.model}, DefaultModel: "instant"})
	return s, err
}

func (s *ours) create(ctx context.Context, id string) (conversation, error) {
	of := session.Identity{ID: id, AgentID: uuid.NewString(), UserID: user}
	v, err := session.New(of, session.Definition{Name: "bench", Model: "instant"}, session.Seed{}, time.Now())
	if err == nil {
		v, err = s.warm.Create(ctx, v, commit("create"))
	}
	return &ourConversation{st: s.warm, s: v}, err
}

func commit(action string) store.Commit {
	return store.Commit{ID: uuid.NewString(), Action: action, At: time.Now()}
}

type ourConversation struct {
	st store.Store
	s  session.Session
}

func (c *ourConversation) append(ctx context.Context, text string) error {
	role := session.RoleUser
	if c.s.Len()%2 == 1 {
		role = session.RoleAssistant
	}
	next, err := c.s.WithMessage(session.Message{ID: uuid.NewString(), Role: role, Content: session.Text(text)}, time.Now())
	if err == nil {
		next, err = c.st.Save(ctx, next, commit("say"))
	}
	if err == nil {
		c.s = next
	}
	return err
}

func (s *ours) load(ctx context.Context, id string) (int, error) {
	v, err := s.cold.LoadWhole(ctx, store.Ref{Tenant: session.DefaultTenant, ID: id}, 0)
	if err != nil {
		return 0, err
	}
	return v.Len(), nil
}

func (s *ours) list(ctx context.Context, limit int) (int, error) {
	if limit == 0 {
		limit = 1000
	}
	page, err := s.rt.List(ctx, store.Query{UserID: user, Limit: limit})
	return len(page.Items), err
}

func (s *ours) turn(ctx context.Context, id, text string) (int, error) {
	_, err := s.rt.Execute(ctx, id, holdfast.SendMessage{Text: text})
	return int(s.model.shown.Load()), err
}

func (s *ours) fork(ctx context.Context, id, as string) error {
	_, err := s.rt.Fork(ctx, id, holdfast.WithID(as))
	return err
}

func (s *ours) close() error {
	var errs []error
	if s.rt != nil {
		errs = append(errs, s.rt.Close())
	}
	for _, st := range []ourStore{s.warm, s.cold} {
		if st != nil {
			errs = append(errs, st.Close())
		}
	}
	return errors.Join(errs...)
}

// instantModel always says the same.
type instantModel struct {
	answer string
	shown  atomic.Int64 // messages of the last request
}

func (m *instantModel) Infer(_ context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	if r.Model != "instant" {
		return llm.Response{}, fmt.Errorf("asked as %q", r.Model)
	}
	m.shown.Store(int64(len(r.Messages)))
	return llm.Response{Content: session.Text(m.answer), FinishReason: "stop"}, nil
}

package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// window is how many messages a model is shown.
const window = 50

func newSession(id string, seed session.Seed) (session.Session, error) {
	def := session.Definition{Name: "assistant", Model: "test/model"}
	if seed.SystemPrompt == "" { // that of a definition would go before it
		def.SystemPrompt = "Answer in one short sentence."
	}
	return session.New(session.Identity{ID: id, AgentID: uuid.NewString()}, def, seed, time.Now())
}

func commit(action string) store.Commit {
	return store.Commit{ID: uuid.NewString(), Action: action, At: time.Now()}
}

// message is the n-th message of a conversation.
func (b *bench) message(n int) session.Message {
	role := session.RoleUser
	if n%2 == 1 {
		role = session.RoleAssistant
	}
	return session.Message{ID: uuid.NewString(), Role: role, Content: session.Text(b.text.Text(benchmark.MessageBytes))}
}

// createGrown creates a session that already has so many messages, the last of them
// in its window.
func (b *bench) createGrown(ctx context.Context, st store.Store, id string, messages int) (session.Session, error) {
	seed := session.Seed{Messages: make([]session.Message, messages)}
	for i := range seed.Messages {
		seed.Messages[i] = b.message(i)
	}
	s, err := newSession(id, seed)
	if err == nil && messages > window {
		s, err = s.With(time.Now(), moveWindow(s))
	}
	if err != nil {
		return s, err
	}
	return st.Create(ctx, s, commit("create"))
}

// moveWindow moves a session's window to its end.
func moveWindow(s session.Session) session.Change {
	return session.WindowMoved{Strategy: session.PruneSliding, To: s.Message(s.Len() - window).Seq, Keep: []int64{}}
}

// saver saves to one session, a message at a time.
type saver struct {
	st   store.Store
	s    session.Session
	next func(n int) session.Message
}

// newSaver creates a session for a saver. Its messages are made here and not
// when time is taken; after so many they begin again, under new ids.
func (b *bench) newSaver(ctx context.Context, st store.Store, id string, history int) (*saver, error) {
	s, err := b.createGrown(ctx, st, id, history)
	if err != nil {
		return nil, err
	}
	return &saver{st: st, s: s, next: b.messages()}, nil
}

// messages hands out messages that are ready.
func (b *bench) messages() func(n int) session.Message {
	ready := make([]session.Message, 16)
	for i := range ready {
		ready[i] = b.message(i)
	}
	return func(n int) session.Message {
		m := ready[n%len(ready)]
		m.ID = uuid.NewString()
		return m
	}
}

func (w *saver) save(ctx context.Context) error {
	s, err := w.s.WithMessage(w.next(w.s.Len()), time.Now())
	if err == nil {
		s, err = w.st.Save(ctx, s, commit("say"))
	}
	if err == nil {
		w.s = s
	}
	return err
}

// move lets the next save move the window too.
func (w *saver) move() error {
	s, err := w.s.With(time.Now(), moveWindow(w.s))
	if err == nil {
		w.s = s
	}
	return err
}

package setup

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/llm/sentences"
	"github.com/holdfast-dev/holdfast/session"
)

// lazyEmbedder is the embedder of agents. It sleeps until an agent with a memory is
// met: a conversation that recalls nothing does not pay for it. What waits to
// be embedded meanwhile keeps waiting, also for later runs of the program.
type lazyEmbedder struct {
	sentences.Embedder
	once   sync.Once
	wanted chan struct{} // closed when somebody wants it
}

func newLazyEmbedder() *lazyEmbedder { return &lazyEmbedder{wanted: make(chan struct{})} }

// Embed waits until it is wanted.
func (m *lazyEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	select {
	case <-m.wanted:
		return m.Embedder.Embed(ctx, texts)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Start ends the sleep.
func (m *lazyEmbedder) Start() { m.once.Do(func() { close(m.wanted) }) }

// OnStage is a hook: it sees every agent before that can recall anything, also
// those that others give work to.
func (m *lazyEmbedder) OnStage(_ context.Context, _ session.Stage, s session.Session) (session.Session, error) {
	if s.Definition().Memory != nil {
		m.Start()
	}
	return s, nil
}

// EmbedForRecall makes what other runs of the program wrote findable for an agent
// that recalls by itself.
func (e *Env) EmbedForRecall(ctx context.Context, s session.Session) {
	if m := s.Definition().Memory; m != nil && (m.Recall != nil || m.Tools || m.Strategy == session.PruneVector) {
		e.EmbedAll(ctx)
	}
}

// embedFor is how long a search waits for what was written to be findable by
// meaning.
const embedFor = 30 * time.Second

// EmbedAll makes what was written findable by meaning, where the store can keep
// it. What is left when the time is up costs hits and fails nothing.
func (e *Env) EmbedAll(ctx context.Context) {
	if e.Server != nil { // it embeds by itself
		return
	}
	e.Embedder.Start()
	ctx, cancel := context.WithTimeout(ctx, embedFor)
	defer cancel()
	if _, err := e.Runtime.Embed(ctx); err != nil && !errors.Is(err, session.ErrUnsupported) {
		e.warn("not everything can be found by meaning yet: %v", err)
	}
}

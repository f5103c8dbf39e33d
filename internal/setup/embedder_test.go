package setup

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

func TestMeaning_sleepsUntilAnAgentHasAMemory(t *testing.T) {
	t.Parallel()
	m := newLazyEmbedder()
	rt, err := holdfast.New(holdfast.Config{Store: inmem.New(inmem.Config{}), Embedder: m, Hooks: m})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rt.Close() }()
	awake := func() bool {
		select {
		case <-m.wanted:
			return true
		default:
			return false
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := m.Embed(ended, []string{"tea"}); !errors.Is(err, context.Canceled) {
		t.Errorf("asleep it says %v", err)
	}
	if _, err := rt.Create(t.Context(), session.Definition{Name: "plain"}); err != nil || awake() {
		t.Errorf("awake for an agent without a memory: %v", err)
	}
	if _, err := rt.Create(t.Context(), session.Definition{Name: "host", Memory: &session.MemoryPolicy{Strategy: session.PruneVector, Limit: new(2)}}); err != nil || !awake() {
		t.Errorf("asleep for an agent with one: %v", err)
	}
	if vectors, err := m.Embed(t.Context(), []string{"tea"}); err != nil || len(vectors) != 1 {
		t.Errorf("awake it says %v", err)
	}
}

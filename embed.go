package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// embeds reports whether anything can be found by meaning here.
func (rt *Runtime) canEmbed() bool {
	return rt.config.Embedder != nil && rt.vectors != nil && rt.memories != nil
}

// embedBatch is how many passages are embedded at once.
const embedBatch = 32

// Embed makes everything findable by meaning that is not yet, and counts it.
// The runtime does so by itself in the background; a program that ends soon
// after it wrote may want to wait for it.
func (rt *Runtime) Embed(ctx context.Context) (int, error) {
	if !rt.canEmbed() {
		return 0, rt.unsupported("finding by meaning without an embedder")
	}
	name := rt.config.Embedder.Name()
	for done := 0; ; {
		waiting, err := rt.vectors.Unembedded(ctx, name, embedBatch)
		if err != nil || len(waiting) == 0 {
			return done, err
		}
		vectors, err := rt.embedPassages(ctx, waiting)
		if err != nil {
			return done, err
		}
		if err := rt.vectors.Embedded(ctx, name, vectors); err != nil {
			return done, err
		}
		done += len(vectors)
	}
}

func (rt *Runtime) embedPassages(ctx context.Context, waiting []store.Unembedded) ([]store.Embedding, error) {
	texts := make([]string, len(waiting))
	for i, w := range waiting {
		texts[i] = w.Text
	}
	vectors, err := rt.callEmbedder(ctx, texts)
	if err != nil {
		return nil, err
	}
	made := make([]store.Embedding, len(waiting))
	for i, w := range waiting {
		made[i] = store.Embedding{Token: w.Token, Vector: vectors[i]}
		if made[i].Check() != nil { // not a number, say: it would wait for ever
			made[i].Vector = nil
		}
	}
	return made, nil
}

// vectorsOf asks the embedder and checks what it gives.
func (rt *Runtime) callEmbedder(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	name := rt.config.Embedder.Name()
	defer func() {
		if v := recover(); v != nil {
			err = &session.PanicError{Where: "embedder " + name, Value: v}
		}
	}()
	vectors, err = rt.config.Embedder.Embed(ctx, texts)
	if err == nil && len(vectors) != len(texts) {
		err = fmt.Errorf("embedder %s gave %d vectors for %d texts", name, len(vectors), len(texts))
	}
	return vectors, err
}

// somethingToEmbed tells the background that something was written.
func (rt *Runtime) wakeEmbedder() {
	if rt.embedWake == nil {
		return
	}
	select {
	case rt.embedWake <- struct{}{}:
	default:
	}
}

// How long the background waits after a failure: a failing embedder delays
// what can be found, and fails nothing.
const (
	firstEmbedPause   = time.Second
	longestEmbedPause = time.Minute
)

// embedInBackground works until the runtime is closed.
func (rt *Runtime) embedInBackground() {
	ctx := rt.closing
	for rest := firstEmbedPause; ; {
		_, err := rt.Embed(ctx)
		again := (<-chan time.Time)(nil)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			rest = firstEmbedPause
		default:
			rt.config.Logger.Warn("not embedded yet", "embedder", rt.config.Embedder.Name(), "error", rt.redactText(err.Error()))
			wait := rest
			var transient *llm.TransientError
			if errors.As(err, &transient) && transient.After > 0 {
				wait = transient.After
			}
			again, rest = time.After(wait), min(2*rest, longestEmbedPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-rt.embedWake:
		}
	}
}

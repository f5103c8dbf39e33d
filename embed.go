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

// canEmbed reports whether anything can be found by meaning here.
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

// callEmbedder asks the embedder and checks what it gives.
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

// wakeEmbedder tells the background that something was written.
func (rt *Runtime) wakeEmbedder() {
	if rt.embedWake == nil {
		return
	}
	select {
	case rt.embedWake <- struct{}{}:
	default:
	}
}

// How long the background waits after a failure where the embedder names no
// time: a failing embedder delays what can be found, and fails nothing.
const (
	firstEmbedPause   = time.Second
	longestEmbedPause = time.Minute
)

// embedInBackground embeds what was written until the runtime is closed. After
// a failure nothing but time wakes it: new writes must not call an embedder
// that asked to be left alone.
func (rt *Runtime) embedInBackground() {
	ctx := rt.closing
	for pause := firstEmbedPause; ; {
		_, err := rt.Embed(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			pause = firstEmbedPause
			select {
			case <-ctx.Done():
				return
			case <-rt.embedWake:
			}
			continue
		}
		rt.config.Logger.Warn("not embedded yet", "embedder", rt.config.Embedder.Name(), "error", rt.redactText(err.Error()))
		wait := pause
		var transient *llm.TransientError
		if errors.As(err, &transient) && transient.After > 0 {
			wait = transient.After
		}
		pause = min(2*pause, longestEmbedPause)
		if rt.await(ctx, nil, wait) != nil {
			return
		}
	}
}

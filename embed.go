package holdfast

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/memory"
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
	return rt.embedWaiting(ctx, func() ([]store.Unembedded, error) { return rt.vectors.Unembedded(ctx, name, embedBatch) })
}

// embedSession makes the messages of a session findable by meaning. It waits for
// no more than one batch of others.
func (rt *Runtime) embedSession(ctx context.Context, ref store.Ref) error {
	name := rt.config.Embedder.Name()
	_, err := rt.embedWaiting(ctx, func() ([]store.Unembedded, error) { return rt.vectors.UnembeddedOf(ctx, ref, name, embedBatch) })
	return err
}

// embedWaiting embeds batches of what waits until there is none, and counts it.
func (rt *Runtime) embedWaiting(ctx context.Context, list func() ([]store.Unembedded, error)) (int, error) {
	for done := 0; ; {
		n, err := rt.embedNext(ctx, list)
		if err != nil || n == 0 {
			return done, err
		}
		done += n
	}
}

// embedNext embeds one batch. Batches are embedded one after the other, so that
// nothing is embedded twice; whoever waits longest is next.
func (rt *Runtime) embedNext(ctx context.Context, list func() ([]store.Unembedded, error)) (int, error) {
	select {
	case rt.embedding.making <- struct{}{}:
		defer func() { <-rt.embedding.making }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	waiting, err := list()
	if err != nil || len(waiting) == 0 {
		return 0, err
	}
	vectors, err := rt.embedPassages(ctx, waiting)
	if err != nil {
		return 0, err
	}
	return len(vectors), rt.vectors.Embedded(ctx, rt.config.Embedder.Name(), vectors)
}

// embedPassages embeds the parts of what waits.
func (rt *Runtime) embedPassages(ctx context.Context, waiting []store.Unembedded) ([]store.Embedding, error) {
	var texts []string
	var owners []int
	for i, w := range waiting {
		for _, passage := range memory.Passages(w.Text) {
			texts, owners = append(texts, passage), append(owners, i)
		}
	}
	parts := make([][][]float32, len(waiting))
	for from := 0; from < len(texts); from += embedBatch {
		to := min(from+embedBatch, len(texts))
		vectors, err := rt.callEmbedder(ctx, texts[from:to])
		if err != nil {
			return nil, err
		}
		for i, v := range vectors {
			parts[owners[from+i]] = append(parts[owners[from+i]], v)
		}
	}
	made := make([]store.Embedding, len(waiting))
	for i, w := range waiting {
		made[i] = store.Embedding{Token: w.Token}
		if vectors := keepPlaces(parts[i]); len(vectors) > 0 {
			made[i].Vector, made[i].More = vectors[0], vectors[1:]
		}
		if made[i].Check() != nil { // too many dimensions, say: it would wait for ever
			made[i] = store.Embedding{Token: w.Token}
		}
	}
	return made, nil
}

// keepPlaces puts zeros, which are near to nothing, in the place of parts that
// cannot be embedded, so that the others keep their numbers. It is nil if none
// can be.
func keepPlaces(parts [][]float32) [][]float32 {
	i := slices.IndexFunc(parts, func(v []float32) bool { return v != nil })
	if i < 0 {
		return nil
	}
	for k, v := range parts {
		if v == nil {
			parts[k] = make([]float32, len(parts[i]))
		}
	}
	return parts
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

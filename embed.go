package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// embeds reports whether anything can be found by meaning here.
func (rt *Runtime) embeds() bool {
	return rt.config.Embedder != nil && rt.vectors != nil && rt.memories != nil
}

// embedBatch is how many passages are embedded at once.
const embedBatch = 32

// Embed makes everything findable by meaning that is not yet, and counts it.
// The runtime does so by itself in the background; a program that ends soon
// after it wrote may want to wait for it.
func (rt *Runtime) Embed(ctx context.Context) (int, error) {
	if !rt.embeds() {
		return 0, rt.unsupported("finding by meaning without an embedder")
	}
	name := rt.config.Embedder.Name()
	for done := 0; ; {
		waiting, err := rt.vectors.Unembedded(ctx, name, embedBatch)
		if err != nil || len(waiting) == 0 {
			return done, err
		}
		vectors, err := rt.embedded(ctx, waiting)
		if err != nil {
			return done, err
		}
		if err := rt.vectors.Embedded(ctx, name, vectors); err != nil {
			return done, err
		}
		done += len(vectors)
	}
}

func (rt *Runtime) embedded(ctx context.Context, waiting []store.Unembedded) ([]store.Embedding, error) {
	texts := make([]string, len(waiting))
	for i, w := range waiting {
		texts[i] = w.Text
	}
	vectors, err := rt.vectorsOf(ctx, texts)
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
func (rt *Runtime) vectorsOf(ctx context.Context, texts []string) (vectors [][]float32, err error) {
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
func (rt *Runtime) somethingToEmbed() {
	if rt.unembedded == nil {
		return
	}
	select {
	case rt.unembedded <- struct{}{}:
	default:
	}
}

// How long the background waits after a failure: a failing embedder delays
// what can be found, and fails nothing.
const (
	firstRest = time.Second
	longRest  = time.Minute
)

// embedInBackground works until the runtime is closed.
func (rt *Runtime) embedInBackground() {
	ctx := rt.closing
	for rest := firstRest; ; {
		_, err := rt.Embed(ctx)
		again := (<-chan time.Time)(nil)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			rest = firstRest
		default:
			rt.config.Logger.Warn("not embedded yet", "embedder", rt.config.Embedder.Name(), "error", rt.masked(err.Error()))
			wait := rest
			var transient *llm.TransientError
			if errors.As(err, &transient) && transient.After > 0 {
				wait = transient.After
			}
			again, rest = time.After(wait), min(2*rest, longRest)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-rt.unembedded:
		}
	}
}

// byMeaning finds passages near a query. What the session itself remembers is
// embedded on the spot, because it is not kept apart.
func (h *handle) byMeaning(ctx context.Context, query string, q store.Search, o memory.RecallOptions) ([]memory.Hit, error) {
	texts := []string{query}
	var own []memory.Hit
	var inSight map[int64]bool
	if q.Session != "" {
		s, err := h.session(ctx)
		if err != nil {
			return nil, err
		}
		own = h.candidates(s)
		for _, hit := range own {
			texts = append(texts, hit.Text)
		}
		inSight = h.inSight(s)
	}
	vectors, err := h.rt.vectorsOf(ctx, texts)
	if err != nil {
		return nil, err
	}
	q.Limit = min(q.Limit+len(inSight), maxSearch)
	passages, err := h.rt.vectors.Nearest(ctx, h.ref.Tenant, store.Near{
		Search: q, Embedder: h.rt.config.Embedder.Name(), Vector: vectors[0], Least: *o.Threshold,
	})
	if err != nil {
		return nil, err
	}
	var hits []memory.Hit
	for i, hit := range own {
		if hit.Score = store.Cosine(vectors[0], vectors[i+1]); hit.Score >= *o.Threshold {
			hits = append(hits, hit)
		}
	}
	for _, p := range passages {
		if p.SessionID != h.ref.ID || !inSight[p.Seq] {
			hit := h.hit(p)
			hit.Score = p.Score
			hits = append(hits, hit)
		}
	}
	return hits, nil
}

// recall is what memory adds to a request, where the definition asks for it.
// Memory that cannot be searched adds nothing.
func (e *Environment) recall(ctx context.Context, s session.Session, asked session.Message) (string, []string) {
	policy := s.Definition().Memory
	if policy == nil || policy.Recall == nil && policy.Strategy != session.PruneVector {
		return "", nil
	}
	var o memory.RecallOptions
	if policy.Recall != nil {
		o.Limit, o.Threshold = policy.Recall.Limit, policy.Recall.Threshold
		for _, scope := range policy.Recall.Scopes {
			o.Scopes = append(o.Scopes, memory.Scope(scope))
		}
	}
	query := asked.Content.Text()
	if strings.TrimSpace(query) == "" {
		return "", nil
	}
	hits, err := e.memoryOf(s).Recall(ctx, query, o)
	if err != nil {
		e.x.rt.config.Logger.Warn("nothing recalled", "session", s.ID(), "error", e.x.rt.masked(err.Error()))
		return "", nil
	}
	if len(hits) == 0 {
		return "", nil
	}
	var q quotation
	ids := make([]string, len(hits))
	for i, hit := range hits {
		ids[i] = hit.ID
		q.add(fmt.Sprintf("%s, %s", hit.Source, hit.CreatedAt.Format("2006-01-02 15:04")), hit.Text)
	}
	return q.text(len(hits), "passage"), ids
}

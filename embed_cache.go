package holdfast

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"sync"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// embedding holds what the runtime knows about its embedder.
type embedding struct {
	making chan struct{} // full while passages are embedded, so that none is embedded twice

	mu         sync.Mutex
	calibrated *llm.Calibration                // guarded by mu; nil: not known yet
	vectors    map[[sha256.Size]byte][]float32 // guarded by mu
}

// maxCachedVectors bounds the vectors in memory: about 4 MB.
const maxCachedVectors = 2048

// embedCached embeds texts, each only once as long as it is in the cache. Queries
// and the entries of a session, which no store keeps vectors of, come again and
// again.
func (rt *Runtime) embedCached(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	var missing []string
	var places []int
	rt.embedding.mu.Lock()
	for i, text := range texts {
		v, known := rt.embedding.vectors[sha256.Sum256([]byte(text))]
		if vectors[i] = v; !known {
			missing, places = append(missing, text), append(places, i)
		}
	}
	rt.embedding.mu.Unlock()
	if len(missing) == 0 {
		return vectors, nil
	}
	made, err := rt.callEmbedder(ctx, missing)
	if err != nil {
		return nil, err
	}
	rt.embedding.mu.Lock()
	defer rt.embedding.mu.Unlock()
	if rt.embedding.vectors == nil || len(rt.embedding.vectors)+len(made) > maxCachedVectors {
		rt.embedding.vectors = map[[sha256.Size]byte][]float32{}
	}
	for i, v := range made {
		vectors[places[i]] = v
		rt.embedding.vectors[sha256.Sum256([]byte(missing[i]))] = v
	}
	return vectors, nil
}

// embedQuery embeds a question, as the embedder embeds questions.
func (rt *Runtime) embedQuery(ctx context.Context, question string) ([]float32, error) {
	e, ok := rt.config.Embedder.(llm.QueryEmbedder)
	if !ok {
		vectors, err := rt.embedCached(ctx, []string{question})
		if err != nil {
			return nil, err
		}
		return vectors[0], nil
	}
	vectors, err := rt.checkVectors(1, func() ([][]float32, error) {
		v, err := e.EmbedQuery(ctx, question)
		return [][]float32{v}, err
	})
	if err != nil {
		return nil, err
	}
	return vectors[0], nil
}

// callEmbedder asks the embedder and checks what it gives. The vectors have
// length 1. One of length 0, or that is not made of numbers, is nil: the text
// cannot be embedded.
func (rt *Runtime) callEmbedder(ctx context.Context, texts []string) ([][]float32, error) {
	return rt.checkVectors(len(texts), func() ([][]float32, error) { return rt.config.Embedder.Embed(ctx, texts) })
}

func (rt *Runtime) checkVectors(n int, embed func() ([][]float32, error)) (vectors [][]float32, err error) {
	name := rt.config.Embedder.Name()
	defer func() {
		if v := recover(); v != nil {
			err = &session.PanicError{Where: "embedder " + name, Value: v}
		}
	}()
	vectors, err = embed()
	if err == nil && len(vectors) != n {
		err = fmt.Errorf("embedder %s gave %d vectors for %d texts", name, len(vectors), n)
	}
	if err != nil {
		return nil, err
	}
	for i, v := range vectors {
		vectors[i] = unit(v)
	}
	return vectors, nil
}

// unit returns a vector with length 1, or nil where it has no direction.
func unit(vector []float32) []float32 {
	square := 0.0
	for _, x := range vector {
		square += float64(x) * float64(x)
	}
	if square == 0 || math.IsNaN(square) || math.IsInf(square, 0) {
		return nil
	}
	if math.Abs(square-1) < 1e-4 {
		return vector
	}
	length := math.Sqrt(square)
	scaled := make([]float32, len(vector))
	for i, x := range vector {
		scaled[i] = float32(float64(x) / length)
	}
	return scaled
}

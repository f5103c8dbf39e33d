package store

import (
	"context"
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/session"
)

// Vectors keeps the vectors that embedders make of passages, so that passages
// can be found by meaning. A vector is made some time after its passage was
// written. The log tells which passages still wait for one, so no queue can get
// lost. Vectors of different embedders are never compared.
type Vectors interface {
	// Unembedded lists passages of all tenants that have no vector of this
	// embedder, about in the order they were written, at most limit (see
	// PageLimit): messages with any text that were not discarded, cleared ones
	// too, and the newest versions of entries. A message that sessions share is
	// listed once. The list is empty only where nothing waits. InvalidError as
	// CheckEmbedder.
	Unembedded(ctx context.Context, embedder string, limit int) ([]Unembedded, error)

	// UnembeddedOf lists what Unembedded would list of a session's messages, those
	// before its fork too. A session that does not exist has none.
	UnembeddedOf(ctx context.Context, r Ref, embedder string, limit int) ([]Unembedded, error)

	// Embedded stores vectors, all of them or, with an error, none. It drops
	// vectors for passages that are gone and for earlier versions of entries. A
	// second vector replaces the first. A nil vector says that the passage cannot
	// be embedded: it is not listed again and never found. InvalidError as
	// CheckEmbedder and Embedding.Check, and for a token that no store gave.
	Embedded(ctx context.Context, embedder string, vectors []Embedding) error

	// Nearest finds the passages whose vectors are nearest, as Passage.Compare
	// orders them. Of a passage with several vectors the nearest counts. It searches the same places as a Search; words do not matter.
	// Scores are those of Packed vectors; a vector with another number of
	// dimensions than the query's is not found. InvalidError as Near.Check.
	Nearest(ctx context.Context, tenant string, q Near) ([]Passage, error)
}

// Unembedded is a passage that has no vector yet. Token names it to the store.
type Unembedded struct {
	Token string
	Text  string
}

// Embedding is what an embedder made of a passage: a vector, and more of them for
// the further parts of a long one. All have length 1.
type Embedding struct {
	Token  string
	Vector []float32
	More   [][]float32
}

// Check refuses a vector that no query could be compared with.
func (e Embedding) Check() error {
	for _, v := range append([][]float32{e.Vector}, e.More...) {
		if err := checkVector(v); err != nil {
			return err
		}
	}
	return nil
}

// Pack packs the vectors of the passage.
func (e Embedding) Pack() Packed { return Pack(e.Vector, e.More...) }

// maxEmbedder bounds an embedder's name, in bytes.
const maxEmbedder = 256

// CheckEmbedder refuses a name that is not 1 to 256 bytes of UTF-8 without
// control characters.
func CheckEmbedder(name string) error {
	if name == "" || len(name) > maxEmbedder || !plain(name) {
		return &session.InvalidError{Field: "embedder", Reason: fmt.Sprintf("%q is not 1 to %d bytes of UTF-8 without control characters", name, maxEmbedder)}
	}
	return nil
}

// Near asks for passages by meaning. It uses the places, the limit and the
// inclusions of the search, and not its words.
type Near struct {
	Search
	Embedder string
	Vector   []float32 // of length 1
	Least    float64   // of a passage's score, 0 to 1
}

// maxDimensions bounds a vector.
const maxDimensions = 8192

// checkVector refuses too many dimensions, infinities and NaN.
func checkVector(vector []float32) error {
	if len(vector) > maxDimensions {
		return &session.InvalidError{Field: "vector", Reason: fmt.Sprintf("has %d dimensions, more than %d", len(vector), maxDimensions)}
	}
	for i, x := range vector {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return &session.InvalidError{Field: "vector", Reason: fmt.Sprintf("has %v in dimension %d", x, i+1)}
		}
	}
	return nil
}

// Check returns the query with its defaults filled in, or an InvalidError.
func (q Near) Check() (Near, error) {
	if err := CheckEmbedder(q.Embedder); err != nil {
		return q, err
	}
	if len(q.Vector) == 0 {
		return q, &session.InvalidError{Field: "vector", Reason: "has no dimensions"}
	}
	if err := checkVector(q.Vector); err != nil {
		return q, err
	}
	if math.IsNaN(q.Least) || q.Least < 0 || q.Least > 1 {
		return q, &session.InvalidError{Field: "least", Reason: fmt.Sprintf("%v is not between 0 and 1", q.Least)}
	}
	if q.Everywhere {
		return q, &session.InvalidError{Field: "search", Reason: "cannot be everywhere by meaning: give a session, a user or an agent"}
	}
	q.Words = []string{"-"} // a search needs one
	var err error
	q.Search, err = q.Search.Check()
	q.Words = nil
	return q, err
}

// Cosine returns the score of two vectors of length 1: from 0 for nothing in
// common to 1 for the same. For vectors of different dimensions it is 0.
func Cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return min(max(sum, 0), 1)
}

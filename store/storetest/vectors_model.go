package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/store"
)

// vectorsAgreeWithModel leads random sessions through random histories while
// two embedders come by now and then, with vectors for what they saw, then or
// earlier. What waits and what is near is compared with what a reader of whole
// transcripts says.
func vectorsAgreeWithModel(t testing.TB, d Data) {
	st := d.Open(t)
	runs := 0
	property.CheckCases(t, d.cases(), func(run *property.T) {
		runs++
		w := &embeddings{
			modelTenant: newModelTenant(run, st, fmt.Sprint("run-", runs)),
			given:       map[string]map[string][]float32{"first": {}, "second": {}}, late: map[string][]made{},
		}
		w.unique = true
		for embedder := range w.given { // what an earlier run has left
			embedAll(w, st, embedder, func(string) []float32 { return nil })
		}
		for range run.Repeat(1, 20) {
			if w.draw("what", "history", "history", "embedder") == "history" {
				w.step()
			} else {
				w.embed(w.draw("embedder", "first", "second"))
			}
		}
		w.read()
		for embedder := range w.given {
			wantWaiting(w, st, embedder, w.waiting(embedder)...)
		}
		for range 4 {
			w.compareNear(w.drawNear())
		}
	})
}

// embeddings is a world whose passages have vectors. Every text is there once,
// so that a text stands for its passage.
type embeddings struct {
	*modelTenant
	given map[string]map[string][]float32 // by embedder and text
	late  map[string][]made               // vectors that are not given yet
}

// made is a vector and its text.
type made struct {
	store.Embedding
	text string
}

// embed has an embedder take some of what waits, and give the vectors or keep
// them for its next visit.
func (w *embeddings) embed(embedder string) {
	for _, u := range listUnembedded(w, w.st, embedder, property.SampledFrom([]int{0, 1, 3}).Draw(w.T, "limit")) {
		v := meaning(u.Text)
		switch w.draw("vector", "good", "good", "good", "good", "opposite", "short", "nil", "none yet") {
		case "opposite":
			for i := range v {
				v[i] = -v[i]
			}
		case "short":
			v = vectorTo(v[:2]...)
		case "nil":
			v = nil
		case "none yet":
			continue
		}
		w.late[embedder] = append(w.late[embedder], made{store.Embedding{Token: u.Token, Vector: v}, u.Text})
	}
	if w.flip("late") {
		return
	}
	var all []store.Embedding
	for _, m := range w.late[embedder] {
		all = append(all, m.Embedding)
		w.given[embedder][m.text] = m.Vector
	}
	mustEmbed(w, w.st, embedder, all...)
	w.late[embedder] = nil
}

// waiting is the model of what has no vector.
func (w *embeddings) waiting(embedder string) []string {
	texts := map[string]bool{}
	for _, t := range w.transcripts {
		for _, m := range t.all {
			texts[m.Content.Text()] = true
		}
	}
	for _, entries := range w.entries {
		for key, text := range entries {
			texts[key+"\n"+text] = true
		}
	}
	var list []string
	for text := range texts {
		if _, done := w.given[embedder][text]; !done {
			list = append(list, text)
		}
	}
	return list
}

func (w *embeddings) drawNear() store.Near {
	dimensions := property.SampledFrom([]int{4, 4, 4, 2}).Draw(w.T, "dimensions")
	to := property.SliceOfN(property.Map(property.Float64Range(-1, 1), func(f float64) float32 { return float32(f) }), dimensions, dimensions).Draw(w.T, "direction")
	to[0] += 1.5 // is some direction
	return store.Near{
		Search: w.drawSearch(), Embedder: w.draw("embedder", "first", "second"), Vector: vectorTo(to...),
		Least: property.SampledFrom([]float64{0, 0, 0.3, 0.9}).Draw(w.T, "least"),
	}
}

// compareNear fails the run unless the store finds what the model finds.
func (w *embeddings) compareNear(q store.Near) {
	have, err := ability[store.Vectors](w, w.st).Nearest(w.Context(), w.tenant, q)
	if err != nil {
		w.Fatalf("nearest %+v: %v", q, err)
	}
	if want := w.findNear(q); !slices.EqualFunc(have, want, samePassage) {
		w.Errorf("nearest %+v:\n got %+v\nwant %+v", q, have, want)
	}
}

// findNear is the model of a search by meaning.
func (w *embeddings) findNear(q store.Near) []store.Passage {
	q, err := q.Check()
	if err != nil {
		w.Fatalf("check: %v", err)
	}
	var found []store.Passage
	for _, p := range w.passages(q.Search) {
		text := p.Text
		if p.Key != "" {
			text = p.Key + "\n" + p.Text
		}
		score, _, ok := store.Pack(w.given[q.Embedder][text]).Score(q.Vector)
		if ok && score >= q.Least {
			p.Score = score
			found = append(found, p)
		}
	}
	return q.Rank(found)
}

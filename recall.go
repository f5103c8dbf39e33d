package holdfast

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Recall finds passages.
func (h *memoryHandle) Recall(ctx context.Context, query string, o memory.RecallOptions) ([]memory.Hit, error) {
	o, err := o.Check(query)
	if err != nil {
		return nil, err
	}
	search := store.Search{Words: store.Words(query), Limit: o.Limit, Cleared: o.IncludeCleared, Trace: o.IncludeTrace}
	for _, scope := range o.Scopes {
		owner, err := h.owner(scope)
		if err != nil {
			return nil, err
		}
		switch scope {
		case memory.ScopeSession:
			search.Session = h.ref.ID
		case memory.ScopeUser:
			search.User = owner.Name
		case memory.ScopeAgent:
			search.Agent = owner.Name
		}
	}
	if h.rt.memories == nil {
		return nil, h.rt.unsupported("recall")
	}
	var hits []memory.Hit
	switch {
	case h.rt.canEmbed() && o.Mode != memory.Keyword:
		if hits, err = h.byMeaning(ctx, query, search, o); err != nil && o.Mode == memory.Semantic {
			return nil, err
		}
		if err != nil { // a failing embedder costs hits and fails nothing
			h.rt.config.Logger.Warn("not searched by meaning", "session", h.ref.ID, "error", h.rt.redactText(err.Error()))
		}
	case o.Mode == memory.Semantic:
		return nil, &session.UnsupportedError{Store: "a runtime without an embedder", Ability: "semantic recall"}
	}
	if o.Mode == memory.Semantic || len(search.Words) == 0 {
		return memory.Rank(hits, o.Limit), nil
	}
	search.Least = o.Least(len(search.Words))
	words, err := h.byWords(ctx, search)
	if err != nil {
		return nil, err
	}
	return memory.Rank(append(hits, words...), o.Limit), nil
}

// byWords finds passages that hold the words of a query. What the agent sees
// in its window already is no news to it and is left out.
func (h *memoryHandle) byWords(ctx context.Context, q store.Search) ([]memory.Hit, error) {
	var hits []memory.Hit
	var inSight map[int64]bool
	if q.Session != "" {
		s, err := h.current(ctx)
		if err != nil {
			return nil, err
		}
		inSight = h.shownSeqs(s)
		for _, hit := range h.sessionHits(s) {
			if n := q.Found(hit.Key + "\n" + hit.Text); n >= q.Least {
				hit.Score = float64(n) / float64(len(q.Words))
				hits = append(hits, hit)
			}
		}
	}
	q.Limit = min(q.Limit+len(inSight), maxSearch)
	passages, err := h.rt.memories.Search(ctx, h.ref.Tenant, q)
	if err != nil {
		return nil, err
	}
	for _, p := range passages {
		if p.SessionID != h.ref.ID || !inSight[p.Seq] {
			hit := h.hit(p)
			hit.Score = float64(p.Found) / float64(len(q.Words))
			hits = append(hits, hit)
		}
	}
	return hits, nil
}

// maxSearch is how many passages a store returns at most.
const maxSearch = 1000

// shownSeqs are the numbers of the messages that the agent sees in its window
// already; outside of an action there are none.
func (h *memoryHandle) shownSeqs(s session.Session) map[int64]bool {
	if h.env == nil {
		return nil
	}
	seqs := map[int64]bool{}
	for _, m := range s.WindowMessages() {
		seqs[m.Seq] = true
	}
	return seqs
}

// hit is a passage of a store as a handle shows it.
func (h *memoryHandle) hit(p store.Passage) memory.Hit {
	hit := memory.Hit{Text: p.Text, CreatedAt: p.At}
	if p.Key != "" {
		hit.Source, hit.Scope, hit.Key = memory.FromEntry, memory.Scope(p.Owner.Scope), p.Key
		hit.ID = strings.Join([]string{string(p.Owner.Scope), p.Owner.Name, p.Key}, "/")
		return hit
	}
	hit.Source, hit.Scope, hit.ID, hit.SessionID, hit.Seq = memory.FromMessage, memory.ScopeUser, p.MessageID, p.SessionID, p.Seq
	if p.SessionID == h.ref.ID {
		hit.Scope = memory.ScopeSession
	}
	return hit
}

// sessionHits are what the session itself remembers, and outside of an action
// its summary, which the agent sees anyway.
func (h *memoryHandle) sessionHits(s session.Session) []memory.Hit {
	var all []memory.Hit
	for _, e := range variables(s) {
		all = append(all, memory.Hit{
			ID: "session/" + e.Key, Source: memory.FromEntry, Scope: memory.ScopeSession, SessionID: h.ref.ID, Key: e.Key,
			Text: store.EntryText(e.Value), CreatedAt: e.UpdatedAt,
		})
	}
	if summary := s.Window().Summary; summary != nil && h.env == nil {
		all = append(all, memory.Hit{
			ID: fmt.Sprintf("summary-%d-%d", summary.FromSeq, summary.ToSeq), Source: memory.FromSummary, Scope: memory.ScopeSession,
			SessionID: h.ref.ID, Seq: summary.ToSeq, Text: summary.Text, CreatedAt: summary.CreatedAt,
		})
	}
	return all
}

// byMeaning finds passages near a query. What the session itself remembers is
// embedded on the spot, because it is not kept apart.
func (h *memoryHandle) byMeaning(ctx context.Context, query string, q store.Search, o memory.RecallOptions) ([]memory.Hit, error) {
	texts := []string{query}
	var own []memory.Hit
	var inSight map[int64]bool
	if q.Session != "" {
		s, err := h.current(ctx)
		if err != nil {
			return nil, err
		}
		own = h.sessionHits(s)
		for _, hit := range own {
			texts = append(texts, hit.Text)
		}
		inSight = h.shownSeqs(s)
	}
	vectors, err := h.rt.callEmbedder(ctx, texts)
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

// recallFor returns what memory adds to a request, where the definition asks for it.
// Memory that cannot be searched adds nothing.
func (e *Environment) recallFor(ctx context.Context, s session.Session, asked session.Message) (string, []string) {
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
		e.x.rt.config.Logger.Warn("nothing recalled", "session", s.ID(), "error", e.x.rt.redactText(err.Error()))
		return "", nil
	}
	if len(hits) == 0 {
		return "", nil
	}
	var q quote
	ids := make([]string, len(hits))
	for i, hit := range hits {
		ids[i] = hit.ID
		q.add(fmt.Sprintf("%s, %s", hit.Source, hit.CreatedAt.Format("2006-01-02 15:04")), hit.Text)
	}
	return q.text(len(hits), "passage"), ids
}

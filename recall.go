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
func (h *handle) Recall(ctx context.Context, query string, o memory.RecallOptions) ([]memory.Hit, error) {
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
	if o.Mode == memory.Semantic {
		return nil, &session.UnsupportedError{Store: "a runtime without an embedder", Ability: "semantic recall"}
	}
	if len(search.Words) == 0 {
		return []memory.Hit{}, nil
	}
	search.Least = o.Least(len(search.Words))
	return h.byWords(ctx, search, o)
}

// byWords finds passages that hold the words of a query. What the agent sees
// in its window already is no news to it and is left out.
func (h *handle) byWords(ctx context.Context, q store.Search, o memory.RecallOptions) ([]memory.Hit, error) {
	var hits []memory.Hit
	var inSight map[int64]bool
	if q.Session != "" {
		s, err := h.session(ctx)
		if err != nil {
			return nil, err
		}
		hits = h.own(s, q)
		if h.env != nil {
			inSight = shown(s)
		}
	}
	q.Limit = min(q.Limit+len(inSight), maxSearch)
	passages, err := h.rt.memories.Search(ctx, h.ref.Tenant, q)
	if err != nil {
		return nil, err
	}
	for _, p := range passages {
		if p.SessionID != h.ref.ID || !inSight[p.Seq] {
			hits = append(hits, h.hit(p, len(q.Words)))
		}
	}
	return memory.Rank(hits, o.Limit), nil
}

// maxSearch is how many passages a store returns at most.
const maxSearch = 1000

// shown are the numbers of the messages in the window.
func shown(s session.Session) map[int64]bool {
	seqs := map[int64]bool{}
	for _, m := range s.WindowMessages() {
		seqs[m.Seq] = true
	}
	return seqs
}

// hit is a passage of a store as a handle shows it.
func (h *handle) hit(p store.Passage, words int) memory.Hit {
	hit := memory.Hit{Text: p.Text, Score: float64(p.Found) / float64(words), CreatedAt: p.At}
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

// own finds what the session itself remembers, and its summary.
func (h *handle) own(s session.Session, q store.Search) []memory.Hit {
	var hits []memory.Hit
	add := func(hit memory.Hit, text string) {
		if n := q.Found(text); n >= q.Least {
			hit.Scope, hit.SessionID, hit.Score = memory.ScopeSession, h.ref.ID, float64(n)/float64(len(q.Words))
			hits = append(hits, hit)
		}
	}
	for _, e := range variables(s) {
		add(memory.Hit{ID: "session/" + e.Key, Source: memory.FromEntry, Key: e.Key, Text: store.EntryText(e.Value), CreatedAt: e.UpdatedAt}, store.EntryWords(e.Key, e.Value))
	}
	if summary := s.Window().Summary; summary != nil && h.env == nil {
		add(memory.Hit{
			ID: fmt.Sprintf("summary-%d-%d", summary.FromSeq, summary.ToSeq), Source: memory.FromSummary, Seq: summary.ToSeq, Text: summary.Text, CreatedAt: summary.CreatedAt,
		}, summary.Text)
	}
	return hits
}

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
	var hits []memory.Hit
	switch {
	case h.rt.embeds() && o.Mode != memory.Keyword:
		if hits, err = h.byMeaning(ctx, query, search, o); err != nil && o.Mode == memory.Semantic {
			return nil, err
		}
		if err != nil { // a failing embedder costs hits and fails nothing
			h.rt.config.Logger.Warn("not searched by meaning", "session", h.ref.ID, "error", h.rt.masked(err.Error()))
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
func (h *handle) byWords(ctx context.Context, q store.Search) ([]memory.Hit, error) {
	var hits []memory.Hit
	var inSight map[int64]bool
	if q.Session != "" {
		s, err := h.session(ctx)
		if err != nil {
			return nil, err
		}
		inSight = h.inSight(s)
		for _, hit := range h.candidates(s) {
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

// inSight are the numbers of the messages that the agent sees in its window
// already; from outside there are none.
func (h *handle) inSight(s session.Session) map[int64]bool {
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
func (h *handle) hit(p store.Passage) memory.Hit {
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

// candidates are what the session itself remembers, and its summary, which
// the agent sees anyway.
func (h *handle) candidates(s session.Session) []memory.Hit {
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

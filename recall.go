package holdfast

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/agent"
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
	r := recallRun{memoryHandle: h, query: query, terms: termsOf(query), options: o, found: map[findingKey]*finding{}}
	if err := r.chooseWhere(); err != nil {
		return nil, err
	}
	if o.Mode == memory.Semantic && !h.rt.canEmbed() {
		return nil, &session.UnsupportedError{Store: "a runtime without an embedder", Ability: "semantic recall"}
	}
	if err := r.findOwn(ctx); err != nil {
		return nil, err
	}
	if h.rt.canEmbed() && o.Mode != memory.Keyword {
		if err := r.findByMeaning(ctx); err != nil && o.Mode == memory.Semantic {
			return nil, err
		} else if err != nil { // a failing embedder costs hits and fails nothing
			h.rt.config.Logger.Warn("not searched by meaning", "session", h.ref.ID, "error", h.rt.redactText(err.Error()))
		}
	}
	if o.Mode != memory.Semantic && len(r.terms.words) > 0 {
		if err := r.findByWords(ctx); err != nil {
			return nil, err
		}
	}
	hits, err := r.filter(ctx, r.hits())
	if err != nil {
		return nil, err
	}
	hits = memory.Rank(hits, o.Limit)
	return hits, r.addNeighbours(ctx, hits)
}

// recallRun is one recall.
type recallRun struct {
	*memoryHandle
	query   string
	terms   terms
	options memory.RecallOptions
	search  store.Search
	session session.Session // where its scope is searched
	inSight map[int64]bool  // messages that the agent sees in its window already
	own     []*finding      // what the session itself remembers
	found   map[findingKey]*finding
}

// findingKey identifies what was found. Two sessions may use one id.
type findingKey struct {
	source      memory.Source
	session, id string
	seq         int64
}

// chooseWhere turns the scopes into places to search.
func (r *recallRun) chooseWhere() error {
	r.search = store.Search{Words: r.terms.words, Cleared: r.options.IncludeCleared, Trace: r.options.IncludeTrace}
	for _, scope := range r.options.Scopes {
		owner, err := r.owner(scope)
		if err != nil {
			return err
		}
		switch scope {
		case memory.ScopeSession:
			r.search.Session = r.ref.ID
		case memory.ScopeUser:
			r.search.User = owner.Name
		case memory.ScopeAgent:
			r.search.Agent = owner.Name
		default:
			r.search.Spaces = append(r.search.Spaces, owner.Name)
		}
	}
	if r.rt.memories == nil {
		return r.rt.unsupported("recall")
	}
	return nil
}

// findOwn finds what the session itself remembers.
func (r *recallRun) findOwn(ctx context.Context) (err error) {
	if r.search.Session == "" {
		return nil
	}
	if r.session, err = r.current(ctx); err != nil {
		return err
	}
	r.inSight = r.shownSeqs(r.session)
	for _, hit := range r.sessionHits(r.session) {
		r.own = append(r.own, r.add(hit))
	}
	return nil
}

// add returns the finding of a hit, one for each.
func (r *recallRun) add(hit memory.Hit) *finding {
	key := findingKey{hit.Source, hit.SessionID, hit.ID, hit.Seq}
	if r.found[key] == nil {
		r.found[key] = &finding{Hit: hit}
	}
	return r.found[key]
}

// candidates is how many passages are looked at, by meaning and by words, to
// find the best by both.
func (r *recallRun) candidates() int {
	if r.filters() {
		return maxSearch
	}
	return min(max(4*r.options.Limit, 50)+len(r.inSight), maxSearch)
}

// addPassages adds what a store found. What the agent sees in its window already
// is no news to it and is left out.
func (r *recallRun) addPassages(passages []store.Passage, each func(*finding, store.Passage)) {
	for _, p := range passages {
		if p.SessionID == r.ref.ID && r.inSight[p.Seq] || p.Key != "" && r.showsBlock(scopeOf(p.Owner), p.Key) {
			continue
		}
		each(r.add(r.hit(p)), p)
	}
}

// findByWords finds passages that have words of the query.
func (r *recallRun) findByWords(ctx context.Context) error {
	r.search.Limit = r.candidates()
	passages, err := r.rt.memories.Search(ctx, r.ref.Tenant, r.search)
	if err != nil {
		return err
	}
	r.addPassages(passages, func(*finding, store.Passage) {})
	return nil
}

// findByMeaning finds passages near the query. What the session itself remembers
// is embedded here, because no store keeps vectors of it. A query that the
// embedder cannot embed is near to nothing.
func (r *recallRun) findByMeaning(ctx context.Context) error {
	query, err := r.rt.embedQuery(ctx, r.query)
	if err != nil || query == nil {
		return err
	}
	var texts []string
	for _, f := range r.own {
		texts = append(texts, memory.Passages(f.Key+"\n"+f.Text)...)
	}
	vectors, err := r.rt.embedCached(ctx, texts)
	if err != nil {
		return err
	}
	calibration, err := r.rt.calibration(ctx, r.query, query)
	if err != nil {
		return err
	}
	near := func(f *finding, cosine float64, part int) {
		if score := calibration.Score(cosine); score > f.meaning {
			f.meaning, f.part = score, part
		}
	}
	at := 0
	for _, f := range r.own {
		for part := range memory.Passages(f.Key + "\n" + f.Text) {
			near(f, store.Cosine(query, vectors[at]), part)
			at++
		}
	}
	least := 0.0 // with words, what is not near enough alone may be found, too
	if r.options.Mode == memory.Semantic {
		least = max(calibration.Cosine(*r.options.Threshold)-1e-9, 0)
	}
	r.search.Limit = r.candidates()
	passages, err := r.rt.vectors.Nearest(ctx, r.ref.Tenant, store.Near{
		Search: r.search, Embedder: r.rt.config.Embedder.Name(), Vector: query, Least: least,
	})
	if err != nil {
		return err
	}
	r.addPassages(passages, func(f *finding, p store.Passage) { near(f, p.Score, p.Part) })
	return nil
}

// hits are the findings whose score is high enough. What has neither a word nor
// anything of the meaning is none, whatever the threshold.
func (r *recallRun) hits() []memory.Hit {
	var hits []memory.Hit
	for _, f := range r.found {
		f.match(r.terms)
		if f.Score = f.score(r.options.Mode); f.Score > 0 && f.Score >= *r.options.Threshold {
			hits = append(hits, f.Hit)
		}
	}
	return hits
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
		hit.Source, hit.Scope, hit.Key = memory.FromEntry, scopeOf(p.Owner), p.Key
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
	for _, e := range h.variables(s) {
		if h.showsBlock(memory.ScopeSession, e.Key) {
			continue
		}
		all = append(all, memory.Hit{
			ID: "session/" + e.Key, Source: memory.FromEntry, Scope: memory.ScopeSession, SessionID: h.ref.ID, Key: e.Key,
			Text: store.EntryText(e.Value), CreatedAt: e.UpdatedAt, Labels: e.Labels,
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

// recallFor returns what memory adds to a request, where the definition asks for it.
// Memory that cannot be searched adds nothing.
func (e *Environment) recallFor(ctx context.Context, s session.Session, asked session.Message) agent.Recollection {
	policy := s.Definition().Memory
	if policy == nil || policy.Recall == nil && policy.Strategy != session.PruneVector {
		return agent.Recollection{}
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
		return agent.Recollection{}
	}
	hits, err := e.memoryOf(s).Recall(ctx, query, o)
	if err != nil {
		e.x.rt.config.Logger.Warn("nothing recalled", "session", s.ID(), "error", e.x.rt.redactText(err.Error()))
		return agent.Recollection{}
	}
	if len(hits) == 0 {
		return agent.Recollection{}
	}
	var q quote
	var r agent.Recollection
	for _, hit := range hits {
		r.IDs = append(r.IDs, hit.ID)
		r.Reasons = append(r.Reasons, session.RecallReason{Score: hit.Score, Words: hit.Match.Words, Meaning: hit.Match.Meaning})
		q.add(aboutHit(hit), cmp.Or(hit.Match.Passage, hit.Text))
	}
	r.Text = q.text(len(hits), "passage")
	return r
}

// aboutHit says where a hit comes from, and of a fact who said it when.
func aboutHit(hit memory.Hit) string {
	f := hit.Fact
	if f == nil {
		return fmt.Sprintf("%s, %s", hit.Source, hit.CreatedAt.Format("2006-01-02 15:04"))
	}
	about := fmt.Sprintf("fact from %s", f.ValidFrom.Format("2006-01-02"))
	if f.ValidTo != nil {
		about += " to " + f.ValidTo.Format("2006-01-02")
	}
	return fmt.Sprintf("%s, said in message %s of session %s", about, f.Source.MessageID, f.Source.SessionID)
}

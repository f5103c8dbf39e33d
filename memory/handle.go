package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Handle gives one identity access to the memory of one session: its messages,
// and the entries of the session, its user and its agent. Session and identity
// are fixed: no method takes a tenant, user or session.
type Handle interface {
	SessionID() string
	Identity() Identity

	// Recall finds passages that answer a query, the best first. No match is
	// an empty list. InvalidError for a blank query or options out of bounds.
	Recall(ctx context.Context, query string, o RecallOptions) ([]Hit, error)

	// Store writes a value under a key. It accepts IfVersion, Tags, Metadata and
	// TTL; labels belong to the version that they are written with.
	Store(ctx context.Context, scope Scope, key string, value any, opts ...Option) (Entry, error)
	// Get reads a value; a stored null counts as found. It accepts At.
	Get(ctx context.Context, scope Scope, key string, opts ...Option) (Entry, bool, error)
	// Delete removes a key and reports whether it existed. It accepts IfVersion.
	Delete(ctx context.Context, scope Scope, key string, opts ...Option) (bool, error)
	// Keys lists the entries below a prefix of whole segments, sorted by key. One
	// that has expired is not there, here and for every other call.
	Keys(ctx context.Context, scope Scope, prefix string, p KeyPage) ([]Entry, error)

	// Blocks lists the blocks that the definition declares, in its order. Those
	// of a user are missing where the session has none.
	Blocks(ctx context.Context) ([]Block, error)
	// EditBlock changes the text of a block. BlockError for an edit that does not
	// fit, NotFoundError for a block that is not declared. It accepts IfVersion and
	// Once.
	EditBlock(ctx context.Context, name string, edit BlockEdit, opts ...Option) (Block, error)

	// History reads messages of the whole transcript, not only of the window.
	History(ctx context.Context, o HistoryOptions) (Page, error)
}

// Identity is who uses a handle.
type Identity struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"` // of the user; "" if the session has none
	Name   string `json:"name"`
	Role   string `json:"role"` // user from outside, agent inside an execution
}

// Scope says who shares an entry: one of the scopes below, or a space, as
// "space:wiki".
type Scope string

// The scopes.
const (
	ScopeSession Scope = "session"
	ScopeUser    Scope = "user"
	ScopeAgent   Scope = "agent"
)

// ScopeSpace is the scope of a space of the tenant, which is shared by whoever
// names it.
func ScopeSpace(name string) Scope { return Scope("space:" + name) }

// Scopes lists all scopes but those of spaces.
func Scopes() []Scope { return []Scope{ScopeSession, ScopeUser, ScopeAgent} }

// Check refuses an unknown scope.
func (s Scope) Check() error {
	if _, space := session.Space(string(s)); !space && !slices.Contains(Scopes(), s) {
		return &session.InvalidError{Field: "scope", Reason: fmt.Sprintf("%q is not session, user, agent or space:NAME", s)}
	}
	return nil
}

// Entry is one version of a stored value.
type Entry struct {
	Scope     Scope           `json:"scope"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Labels    *session.Labels `json:"labels,omitempty"`
	Version   int64           `json:"version"`
	CreatedAt time.Time       `json:"createdAt"`
	UpdatedAt time.Time       `json:"updatedAt"`
	SessionID string          `json:"sessionId"` // of the writer; "" for none
}

// Option narrows a call of a Handle.
type Option struct {
	name  string
	apply func(*Options)
}

// Options holds the options of one call.
type Options struct {
	IfVersion *int64
	At        int64  // 0: the newest
	Once      string // "": every call counts
	Labels    session.Labels
	TTL       *time.Duration // nil: it does not expire
}

// IfVersion demands that the key has this version; 0: that it does not exist.
func IfVersion(n int64) Option {
	return Option{"IfVersion", func(o *Options) { o.IfVersion = &n }}
}

// At reads an earlier version.
func At(n int64) Option { return Option{"At", func(o *Options) { o.At = n }} }

// Once makes repetitions of a call with the same key one.
func Once(key string) Option { return Option{"Once", func(o *Options) { o.Once = key }} }

// Collect combines options. An option other than those accepted is an
// InvalidError.
func Collect(call string, opts []Option, accepted ...string) (Options, error) {
	var o Options
	for _, opt := range opts {
		if opt.apply == nil || !slices.Contains(accepted, opt.name) {
			return o, &session.InvalidError{Field: "option", Reason: fmt.Sprintf("%s does not accept %s", call, opt.name)}
		}
		opt.apply(&o)
	}
	if o.At < 0 || o.IfVersion != nil && *o.IfVersion < 0 {
		return o, &session.InvalidError{Field: "version", Reason: "is negative"}
	}
	return o, nil
}

// KeyPage asks for the keys after After, at most Limit of them (0: 100; at most
// 1000), of entries that Filter selects.
type KeyPage struct {
	After  string
	Limit  int
	Filter Filter
}

// Check fills in defaults, or returns an InvalidError.
func (p KeyPage) Check() (KeyPage, error) {
	if err := p.Filter.Check(); err != nil {
		return p, err
	}
	var err error
	p.Limit, err = limitOr("limit", p.Limit, 100, 1000)
	return p, err
}

func limitOr(field string, n, fallback, most int) (int, error) {
	if n < 0 || n > most {
		return n, &session.InvalidError{Field: field, Reason: fmt.Sprintf("%d is not between 0 and %d", n, most)}
	}
	return cmp.Or(n, fallback), nil
}

// Mode says how Recall compares a query with passages.
type Mode string

// The modes.
const (
	Hybrid   Mode = "hybrid"   // by both; by words alone what no embedder can embed
	Keyword  Mode = "keyword"  // by the share of the query's words that a passage has
	Semantic Mode = "semantic" // by meaning
)

// DefaultThreshold is the score of a passage that probably has to do with the
// query: it has more than half of its words, or is nearer than unrelated texts
// are.
const DefaultThreshold = 0.55

// RecallOptions say where and how to search. The zero value finds up to 5
// passages of the session that probably have to do with the query.
type RecallOptions struct {
	Limit          int      // 0: 5; at most 100
	Threshold      *float64 // 0 to 1; nil: DefaultThreshold
	Scopes         []Scope  // empty: session
	Mode           Mode     // empty: hybrid
	IncludeCleared bool     // also messages that a clear or a rewind removed
	IncludeTrace   bool     // also messages of intermediate steps
	Neighbours     int      // how many messages before and after a found one come along; at most 10

	Prefix string   // only entries whose keys are below it; "": everything
	Facts  FactTime // which facts; empty: those that are true now

	Filter // messages have no labels: with tags or metadata only entries are found
}

// FactTime says which facts Recall finds.
type FactTime string

// Which facts Recall finds.
const (
	FactsNow FactTime = "now" // those that are true now
	FactsAll FactTime = "all" // superseded and expired ones, too
)

// Check fills in defaults, or returns an InvalidError.
func (o RecallOptions) Check(query string) (RecallOptions, error) {
	if strings.TrimSpace(query) == "" {
		return o, &session.InvalidError{Field: "query", Reason: "is blank"}
	}
	var err error
	if o.Limit, err = limitOr("limit", o.Limit, 5, 100); err != nil {
		return o, err
	}
	if o.Neighbours, err = limitOr("neighbours", o.Neighbours, 0, 10); err != nil {
		return o, err
	}
	threshold := DefaultThreshold
	if o.Threshold != nil {
		threshold = *o.Threshold
	}
	if math.IsNaN(threshold) || threshold < 0 || threshold > 1 {
		return o, &session.InvalidError{Field: "threshold", Reason: fmt.Sprintf("%v is not between 0 and 1", threshold)}
	}
	o.Threshold = &threshold
	if len(o.Scopes) == 0 {
		o.Scopes = []Scope{ScopeSession}
	}
	for _, scope := range o.Scopes {
		if err := scope.Check(); err != nil {
			return o, err
		}
	}
	o.Facts = cmp.Or(o.Facts, FactsNow)
	if o.Facts != FactsNow && o.Facts != FactsAll {
		return o, &session.InvalidError{Field: "facts", Reason: fmt.Sprintf("%q is not now or all", o.Facts)}
	}
	if err := o.Filter.Check(); err != nil {
		return o, err
	}
	o.Mode = cmp.Or(o.Mode, Hybrid)
	if !slices.Contains([]Mode{Hybrid, Keyword, Semantic}, o.Mode) {
		return o, &session.InvalidError{Field: "mode", Reason: fmt.Sprintf("%q is not hybrid, keyword or semantic", o.Mode)}
	}
	return o, nil
}

// Source says where a passage comes from.
type Source string

// The sources.
const (
	FromMessage Source = "message"
	FromEntry   Source = "entry"
	FromSummary Source = "summary"
)

// Hit is a message, an entry or a summary that Recall found.
type Hit struct {
	ID        string    `json:"id"`
	Source    Source    `json:"source"`
	Scope     Scope     `json:"scope"`
	SessionID string    `json:"sessionId"`
	Seq       int64     `json:"seq"` // of a message
	Key       string    `json:"key"` // of an entry
	Text      string    `json:"text"`
	Score     float64   `json:"score"`
	Match     Match     `json:"match"`
	CreatedAt time.Time `json:"createdAt"`

	// Labels are those of an entry.
	Labels *session.Labels `json:"labels,omitempty"`

	// Fact is set for an entry that is one, with the message it was said in.
	Fact *Fact `json:"fact,omitempty"`

	// The messages around a found one, in the order they were written.
	Before []session.Message `json:"before,omitempty"`
	After  []session.Message `json:"after,omitempty"`
}

// Match says why a hit was found.
type Match struct {
	Words   []string `json:"words,omitempty"`   // of the query that the passage has, as they are compared
	Meaning float64  `json:"meaning,omitempty"` // score of its meaning, 0 to 1
	Passage string   `json:"passage,omitempty"` // the part of a long text that fits best; "" for all of it
}

// Rank sorts hits by score, then the newer first, then by id, and keeps the
// first limit of them. Of several with the same text the first stays.
func Rank(hits []Hit, limit int) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID), cmp.Compare(a.SessionID, b.SessionID))
	})
	type text struct {
		key, text string // entries under different keys say different things
	}
	seen := map[text]bool{}
	kept := []Hit{}
	for _, h := range hits {
		t := text{h.Key, strings.Join(strings.Fields(h.Text), " ")}
		if !seen[t] && len(kept) < limit {
			seen[t] = true
			kept = append(kept, h)
		}
	}
	return kept
}

// Order is the order of messages in a Page.
type Order string

// The orders.
const (
	Newest Order = "newest"
	Oldest Order = "oldest"
)

// HistoryOptions select messages. Offset cannot be combined with AfterSeq or
// BeforeSeq: new messages shift an offset, but not a number.
type HistoryOptions struct {
	Limit          int   // 0: 10; at most 1000
	Offset         int   // how many to skip
	Order          Order // empty: newest
	AfterSeq       int64 // only messages after it
	BeforeSeq      int64 // only messages before it; 0: no bound
	IncludeCleared bool
	IncludeTrace   bool

	// Request and Metadata select the messages of requests, and what was answered
	// to them: of this request and those that name it as their root or parent; of
	// requests with these texts in their metadata.
	Request  string
	Metadata map[string]string
}

// Check fills in defaults, or returns an InvalidError.
func (o HistoryOptions) Check() (HistoryOptions, error) {
	var err error
	if o.Limit, err = limitOr("limit", o.Limit, 10, 1000); err != nil {
		return o, err
	}
	if o.Offset < 0 || o.AfterSeq < 0 || o.BeforeSeq < 0 {
		return o, &session.InvalidError{Field: "offset", Reason: "offset, afterSeq and beforeSeq must not be negative"}
	}
	if o.Offset > 0 && (o.AfterSeq > 0 || o.BeforeSeq > 0) {
		return o, &session.InvalidError{Field: "offset", Reason: "cannot be combined with afterSeq or beforeSeq"}
	}
	o.Order = cmp.Or(o.Order, Newest)
	if o.Order != Newest && o.Order != Oldest {
		return o, &session.InvalidError{Field: "order", Reason: fmt.Sprintf("%q is not newest or oldest", o.Order)}
	}
	return o, nil
}

// Page is a page of messages. Next is the BeforeSeq (newest first) or AfterSeq
// (oldest first) of the next page, 0 at the end.
type Page struct {
	Messages []session.Message `json:"messages"`
	Total    int               `json:"total"` // on all pages: of all that is selected, regardless of AfterSeq and BeforeSeq
	Next     int64             `json:"next"`
}

// Selects reports whether the messages of some requests are wanted only.
func (o HistoryOptions) Selects() bool { return o.Request != "" || len(o.Metadata) > 0 }

// Cut selects a page from messages sorted by number.
func (o HistoryOptions) Cut(messages []session.Message) Page {
	page := Page{Messages: []session.Message{}}
	var within []session.Message
	requested := map[string]bool{} // executions that the selected requests began
	for _, m := range messages {
		if !o.requested(m, requested) || m.Trace && !o.IncludeTrace {
			continue
		}
		page.Total++
		if m.Seq > o.AfterSeq && (o.BeforeSeq == 0 || m.Seq < o.BeforeSeq) {
			within = append(within, m)
		}
	}
	if o.Order == Newest {
		slices.Reverse(within)
	}
	within = within[min(o.Offset, len(within)):]
	page.Messages = append(page.Messages, within[:min(o.Limit, len(within))]...)
	if len(within) > o.Limit {
		page.Next = within[o.Limit-1].Seq
	}
	return page
}

// requested reports whether a message is one of the selected requests, or belongs
// to one of their executions, which it notes.
func (o HistoryOptions) requested(m session.Message, executions map[string]bool) bool {
	if !o.Selects() {
		return true
	}
	if m.Role != session.RoleUser {
		return executions[m.ExecutionID]
	}
	ids := []string{m.RequestID, m.RootRequestID, m.ParentRequestID}
	if o.Request != "" && !slices.Contains(ids, o.Request) || !m.Metadata.Match(o.Metadata) {
		return false
	}
	if m.ExecutionID != "" {
		executions[m.ExecutionID] = true
	}
	return true
}

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

// Handle is the memory of one session, as one identity may use it: what was
// said, and what is remembered for the session, its user and its agent. Both
// are fixed for the handle's life: no method takes a tenant, user or session.
type Handle interface {
	SessionID() string
	Identity() Identity

	// Recall finds passages that answer a query, the best first. No match is
	// an empty list. InvalidError for a blank query or options out of bounds.
	Recall(ctx context.Context, query string, o RecallOptions) ([]Hit, error)

	// Store writes a value under a key. It takes IfVersion.
	Store(ctx context.Context, scope Scope, key string, value any, opts ...Option) (Entry, error)
	// Get reads a value; a stored null is found. It takes At.
	Get(ctx context.Context, scope Scope, key string, opts ...Option) (Entry, bool, error)
	// Delete removes a key and says whether it was there. It takes IfVersion.
	Delete(ctx context.Context, scope Scope, key string, opts ...Option) (bool, error)
	// Keys lists entries in the order of their keys, those under a prefix of
	// whole segments.
	Keys(ctx context.Context, scope Scope, prefix string, p KeyPage) ([]Entry, error)

	// History reads messages of the whole transcript, not only of the window.
	History(ctx context.Context, o HistoryOptions) (Page, error)
}

// Identity is who uses a handle.
type Identity struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"` // the user's, "" where the session has none
	Name   string `json:"name"`
	Role   string `json:"role"` // user from outside, agent inside an execution
}

// Scope is whose memory it is.
type Scope string

// The scopes of memory.
const (
	ScopeSession Scope = "session"
	ScopeUser    Scope = "user"
	ScopeAgent   Scope = "agent"
)

// Scopes lists every scope.
func Scopes() []Scope { return []Scope{ScopeSession, ScopeUser, ScopeAgent} }

// Check refuses a scope that is none.
func (s Scope) Check() error {
	if !slices.Contains(Scopes(), s) {
		return &session.InvalidError{Field: "scope", Reason: fmt.Sprintf("%q is not session, user or agent", s)}
	}
	return nil
}

// Entry is one version of something remembered.
type Entry struct {
	Scope     Scope           `json:"scope"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Version   int64           `json:"version"`
	CreatedAt time.Time       `json:"createdAt"`
	UpdatedAt time.Time       `json:"updatedAt"`
	SessionID string          `json:"sessionId"` // that wrote it, "" for none
}

// Option narrows a call of a Handle.
type Option struct {
	name  string
	apply func(*Options)
}

// Options are the options of a call, put together.
type Options struct {
	IfVersion *int64
	At        int64 // 0: the newest
}

// IfVersion asks for a version to be there still; 0: the key must not exist.
func IfVersion(n int64) Option {
	return Option{"IfVersion", func(o *Options) { o.IfVersion = &n }}
}

// At reads an earlier version.
func At(n int64) Option { return Option{"At", func(o *Options) { o.At = n }} }

// Collect puts options together. One that the call does not take is an
// InvalidError.
func Collect(call string, opts []Option, taken string) (Options, error) {
	var o Options
	for _, opt := range opts {
		if opt.apply == nil || opt.name != taken {
			return o, &session.InvalidError{Field: "option", Reason: fmt.Sprintf("%s does not take %s", call, opt.name)}
		}
		opt.apply(&o)
	}
	if o.At < 0 || o.IfVersion != nil && *o.IfVersion < 0 {
		return o, &session.InvalidError{Field: "version", Reason: "is negative"}
	}
	return o, nil
}

// KeyPage is a page of keys: those after one, at most Limit (0: 100, at most
// 1000).
type KeyPage struct {
	After string
	Limit int
}

// Check is the page with its defaults filled in.
func (p KeyPage) Check() (KeyPage, error) {
	var err error
	p.Limit, err = bounded("limit", p.Limit, 100, 1000)
	return p, err
}

func bounded(field string, n, usual, most int) (int, error) {
	switch {
	case n < 0 || n > most:
		return n, &session.InvalidError{Field: field, Reason: fmt.Sprintf("%d is not between 0 and %d", n, most)}
	case n == 0:
		return usual, nil
	}
	return n, nil
}

// Mode is how a query is compared.
type Mode string

// The modes of recall.
const (
	Hybrid   Mode = "hybrid"   // the better of the two; by words alone where nothing is embedded
	Keyword  Mode = "keyword"  // by the share of the query's words a passage holds
	Semantic Mode = "semantic" // by meaning
)

// RecallOptions say where and how to search. The zero value asks for 5
// passages of the session with a score of at least 0.7.
type RecallOptions struct {
	Limit          int      // 0: 5; at most 100
	Threshold      *float64 // 0 to 1; nil: 0.7
	Scopes         []Scope  // empty: session
	Mode           Mode     // empty: hybrid
	IncludeCleared bool     // also what a clear or a rewind took out of the transcript
	IncludeTrace   bool     // also messages of steps that were no final response
}

// Check is the options with their defaults filled in, or an InvalidError.
func (o RecallOptions) Check(query string) (RecallOptions, error) {
	if strings.TrimSpace(query) == "" {
		return o, &session.InvalidError{Field: "query", Reason: "is blank"}
	}
	var err error
	if o.Limit, err = bounded("limit", o.Limit, 5, 100); err != nil {
		return o, err
	}
	threshold := 0.7
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
	o.Mode = cmp.Or(o.Mode, Hybrid)
	if !slices.Contains([]Mode{Hybrid, Keyword, Semantic}, o.Mode) {
		return o, &session.InvalidError{Field: "mode", Reason: fmt.Sprintf("%q is not hybrid, keyword or semantic", o.Mode)}
	}
	return o, nil
}

// Least is how many of so many words a passage must hold to reach the
// threshold; one at least, because what shares nothing with a query is no
// answer to it.
func (o RecallOptions) Least(words int) int {
	least := int(math.Ceil(*o.Threshold*float64(words) - 1e-9))
	return max(least, 1)
}

// Source is what a passage is.
type Source string

// The sources of passages.
const (
	FromMessage Source = "message"
	FromEntry   Source = "entry"
	FromSummary Source = "summary"
)

// Hit is a passage that was found.
type Hit struct {
	ID        string    `json:"id"`
	Source    Source    `json:"source"`
	Scope     Scope     `json:"scope"`
	SessionID string    `json:"sessionId"`
	Seq       int64     `json:"seq"` // of a message: its place in the log
	Key       string    `json:"key"` // of an entry
	Text      string    `json:"text"`
	Score     float64   `json:"score"`
	CreatedAt time.Time `json:"createdAt"`
}

// Rank orders hits, the best first, then the newer, then by id, and cuts them
// to a limit. Of two with one id and source the better stays.
func Rank(hits []Hit, limit int) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		case !a.CreatedAt.Equal(b.CreatedAt):
			return b.CreatedAt.Compare(a.CreatedAt)
		}
		return strings.Compare(a.ID, b.ID)
	})
	type passage struct {
		source Source
		id     string
	}
	seen := map[passage]bool{}
	kept := []Hit{}
	for _, h := range hits {
		p := passage{h.Source, h.ID}
		if !seen[p] && len(kept) < limit {
			seen[p] = true
			kept = append(kept, h)
		}
	}
	return kept
}

// Order is the order of a history.
type Order string

// The orders of a history.
const (
	Newest Order = "newest"
	Oldest Order = "oldest"
)

// HistoryOptions select messages. Offset and the bounds by number exclude each
// other: a number stays what it is when something is added, an offset does not.
type HistoryOptions struct {
	Limit          int   // 0: 10; at most 1000
	Offset         int   // how many to skip, from the order's beginning
	Order          Order // empty: newest
	AfterSeq       int64 // only messages after it
	BeforeSeq      int64 // only messages before it; 0: no bound
	IncludeCleared bool
	IncludeTrace   bool
}

// Check is the options with their defaults filled in, or an InvalidError.
func (o HistoryOptions) Check() (HistoryOptions, error) {
	var err error
	if o.Limit, err = bounded("limit", o.Limit, 10, 1000); err != nil {
		return o, err
	}
	if o.Offset < 0 || o.AfterSeq < 0 || o.BeforeSeq < 0 {
		return o, &session.InvalidError{Field: "offset", Reason: "offset and bounds are not negative"}
	}
	if o.Offset > 0 && (o.AfterSeq > 0 || o.BeforeSeq > 0) {
		return o, &session.InvalidError{Field: "offset", Reason: "goes with no bound by number"}
	}
	o.Order = cmp.Or(o.Order, Newest)
	if o.Order != Newest && o.Order != Oldest {
		return o, &session.InvalidError{Field: "order", Reason: fmt.Sprintf("%q is not newest or oldest", o.Order)}
	}
	return o, nil
}

// Page is a page of messages. Next is the number to go on from, 0 at the end:
// BeforeSeq for the newest first, AfterSeq for the oldest.
type Page struct {
	Messages []session.Message `json:"messages"`
	Total    int               `json:"total"` // that the options select, bounds and page apart
	Next     int64             `json:"next"`
}

// Cut is the page that the options make of messages in the order of their
// numbers.
func (o HistoryOptions) Cut(messages []session.Message) Page {
	page := Page{Messages: []session.Message{}}
	var within []session.Message
	for _, m := range messages {
		if m.Trace && !o.IncludeTrace {
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

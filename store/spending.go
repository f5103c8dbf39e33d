package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Spends adds up what models were paid for.
type Spends interface {
	// Spending adds up what the answers in a tenant's sessions used, from the log:
	// each answer once, at the time it was written, whatever became of it later.
	// What a fork shares with its parent counts for the parent only. A session that
	// was purged no longer counts.
	Spending(ctx context.Context, tenant string, q SpendingQuery) (Spending, error)
}

// SpendingQuery says which answers are added up, and how they are grouped.
type SpendingQuery struct {
	From, To time.Time     // To is not included; zero: no limit
	By       SpendingGroup // "": by day
}

// SpendingGroup is what the answers of a group have in common.
type SpendingGroup string

// The groups of spending.
const (
	ByDay     SpendingGroup = "day" // UTC, as 2006-01-02
	ByAgent   SpendingGroup = "agent"
	ByModel   SpendingGroup = "model"
	ByUser    SpendingGroup = "user"
	BySession SpendingGroup = "session" // its id
)

// Check refuses a query that cannot be answered.
func (q SpendingQuery) Check() error {
	switch q.By {
	case "", ByDay, ByAgent, ByModel, ByUser, BySession:
	default:
		return &session.InvalidError{Field: "by", Reason: "is not day, agent, model, user or session"}
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		return &session.InvalidError{Field: "to", Reason: "is not after from"}
	}
	return nil
}

// Spending is what was spent.
type Spending struct {
	Groups     []GroupSpending // days in order, other groups with the most expensive first
	Unreadable int             // answers that are left out because they cannot be read
}

// GroupSpending is what the answers of one group used.
type GroupSpending struct {
	Group    string        `json:"group"`
	Sessions int           `json:"sessions"`
	Answers  int           `json:"answers"`
	Usage    session.Usage `json:"usage"`
	Cost     session.Cost  `json:"cost"`
}

// Spender is the session that an answer belongs to.
type Spender struct {
	ID, Agent, User string
	Kind            session.Kind
}

// SpendingSum adds up answers for a store.
type SpendingSum struct {
	q          SpendingQuery
	groups     map[string]*GroupSpending
	counted    map[[2]string]bool // session and group
	unreadable int
}

// NewSpendingSum begins with nothing.
func NewSpendingSum(q SpendingQuery) *SpendingSum {
	return &SpendingSum{q: q, groups: map[string]*GroupSpending{}, counted: map[[2]string]bool{}}
}

// Add adds a record of a session, if it is an answer that is asked for. The
// error is that of reading the record.
func (t *SpendingSum) Add(by Spender, r session.Record, err error) {
	if err != nil {
		t.unreadable++
		return
	}
	e, ok := session.ExpenseOf(by.Kind, r.Change)
	if !ok || r.At.Before(t.q.From) || !t.q.To.IsZero() && !r.At.Before(t.q.To) {
		return
	}
	name := t.name(by, e, r.At)
	g := t.groups[name]
	if g == nil {
		g = &GroupSpending{Group: name}
		t.groups[name] = g
	}
	if once := [2]string{by.ID, name}; !t.counted[once] {
		t.counted[once] = true
		g.Sessions++
	}
	g.Answers++
	g.Usage = g.Usage.Plus(e.Usage)
	g.Cost += e.Cost
}

func (t *SpendingSum) name(by Spender, e session.Expense, at time.Time) string {
	switch t.q.By {
	case ByAgent:
		return cmp.Or(e.Agent, by.Agent)
	case ByModel:
		return e.Model
	case ByUser:
		return by.User
	case BySession:
		return by.ID
	}
	return at.UTC().Format(time.DateOnly)
}

// Spending returns the sum.
func (t *SpendingSum) Spending() Spending {
	s := Spending{Groups: make([]GroupSpending, 0, len(t.groups)), Unreadable: t.unreadable}
	for _, g := range t.groups {
		s.Groups = append(s.Groups, *g)
	}
	slices.SortFunc(s.Groups, func(a, b GroupSpending) int {
		if t.q.By == "" || t.q.By == ByDay {
			return cmp.Compare(a.Group, b.Group)
		}
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Usage.Total(), a.Usage.Total()), cmp.Compare(a.Group, b.Group))
	})
	return s
}

package transfer

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Plan lists the sessions to copy.
type Plan struct {
	// Generations are the sessions: first those that are no forks, then the
	// forks of these, and so on. Within one, sessions may be copied at once.
	Generations [][]store.Ref
	Corrupt     []*session.CorruptError // what cannot be read
}

// Refs are the sessions of all generations in order.
func (p Plan) Refs() []store.Ref { return slices.Concat(p.Generations...) }

// PlanAll plans every session of a tenant, with deleted ones and policies.
func PlanAll(ctx context.Context, from store.Store, tenant string) (Plan, error) {
	q := store.Query{Kinds: session.Kinds(), IncludeDeleted: true, Order: store.IDAsc, Limit: 1000}
	o := newOrder(tenant)
	var ids []string
	for {
		page, err := from.List(ctx, tenant, q)
		if err != nil {
			return Plan{}, err
		}
		for _, i := range page.Items {
			ids = append(ids, i.ID)
			o.parents[i.ID] = parentOf(i)
		}
		if q.Cursor == "" {
			o.plan.Corrupt = page.Corrupt
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	for _, id := range ids {
		o.place(id)
	}
	return o.plan, nil
}

// PlanSome plans some sessions of a tenant and those they were forked from,
// because they share their history.
func PlanSome(ctx context.Context, from store.Store, tenant string, ids []string) (Plan, error) {
	o := newOrder(tenant)
	for _, id := range ids {
		for at := id; at != ""; {
			if _, known := o.parents[at]; known {
				break
			}
			info, err := from.Info(ctx, store.Ref{Tenant: tenant, ID: at})
			if errors.Is(err, session.ErrNotFound) && at != id {
				break // a parent that was purged
			}
			if err != nil {
				return Plan{}, err
			}
			o.parents[at] = parentOf(info)
			at = o.parents[at]
		}
	}
	for _, id := range ids {
		o.place(id)
	}
	return o.plan, nil
}

// parentOf is the session that a fork continues, "" for others: a subagent
// has a parent too, and a history of its own.
func parentOf(i session.Info) string {
	if i.Fork == nil {
		return ""
	}
	return i.ParentID
}

// order sorts sessions after those they were forked from.
type order struct {
	tenant  string
	parents map[string]string // of every session that is there
	placed  map[string]int    // in which generation
	plan    Plan
}

func newOrder(tenant string) order {
	return order{tenant: tenant, parents: map[string]string{}, placed: map[string]int{}}
}

func (o *order) place(id string) {
	var line []string // from the session up to its first parent that is placed or not there
	generation := 0
	for at := id; ; at = o.parents[at] {
		if _, there := o.parents[at]; !there {
			break
		}
		if g, placed := o.placed[at]; placed {
			generation = g + 1
			break
		}
		o.placed[at] = 0 // imported parents may go in a circle
		line = append(line, at)
	}
	for i := len(line) - 1; i >= 0; i-- {
		o.placed[line[i]] = generation
		if generation == len(o.plan.Generations) {
			o.plan.Generations = append(o.plan.Generations, nil)
		}
		o.plan.Generations[generation] = append(o.plan.Generations[generation], store.Ref{Tenant: o.tenant, ID: line[i]})
		generation++
	}
}

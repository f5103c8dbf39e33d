package transfer

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Plan is what there is to copy.
type Plan struct {
	Refs    []store.Ref             // those that others were forked from come first
	Corrupt []*session.CorruptError // what cannot be read
}

// PlanAll is every session of a tenant, deleted ones and policies included.
func PlanAll(ctx context.Context, from store.Store, tenant string) (Plan, error) {
	q := store.Query{Kinds: session.Kinds(), IncludeDeleted: true, Order: store.IDAsc, Limit: 1000}
	o := order{tenant: tenant, parents: map[string]string{}, placed: map[string]bool{}}
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

// PlanSome is some sessions of a tenant and those they were forked from,
// whose history is theirs.
func PlanSome(ctx context.Context, from store.Store, tenant string, ids []string) (Plan, error) {
	o := order{tenant: tenant, parents: map[string]string{}, placed: map[string]bool{}}
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

// order puts sessions behind those they were forked from.
type order struct {
	tenant  string
	parents map[string]string // of every session that is there
	placed  map[string]bool
	plan    Plan
}

func (o *order) place(id string) {
	var line []string // from the session up to its first parent that is not placed
	for at := id; ; at = o.parents[at] {
		if _, there := o.parents[at]; !there || o.placed[at] {
			break
		}
		o.placed[at] = true // imported parents may go in a circle
		line = append(line, at)
	}
	for i := len(line) - 1; i >= 0; i-- {
		o.plan.Refs = append(o.plan.Refs, store.Ref{Tenant: o.tenant, ID: line[i]})
	}
}

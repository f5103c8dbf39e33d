package memory

import (
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Tags labels what is stored, so that it can be filtered by them.
func Tags(tags ...string) Option {
	return Option{"Tags", func(o *Options) { o.Labels.Tags = append(o.Labels.Tags, tags...) }}
}

// Metadata labels what is stored with pairs of names and values.
func Metadata(pairs map[string]string) Option {
	return Option{"Metadata", func(o *Options) {
		if o.Labels.Metadata == nil {
			o.Labels.Metadata = map[string]string{}
		}
		maps.Copy(o.Labels.Metadata, pairs)
	}}
}

// TTL makes what is stored expire after a while: from then on it is as if it had
// been deleted.
func TTL(d time.Duration) Option { return Option{"TTL", func(o *Options) { o.TTL = &d }} }

// LabelsAt returns the labels of what is stored at an instant, nil for none.
func (o Options) LabelsAt(now time.Time) (*session.Labels, error) {
	l := o.Labels
	if o.TTL != nil {
		if *o.TTL <= 0 {
			return nil, &session.InvalidError{Field: "ttl", Reason: o.TTL.String() + " is not positive"}
		}
		until := now.Add(*o.TTL)
		l.ExpiresAt = &until
	}
	return l.Normal()
}

// Filter selects entries. The zero value selects all.
type Filter struct {
	Tags          []string          // those that have all of them
	Metadata      map[string]string // those that have all of these pairs
	After, Before time.Time         // those that were written after and before it; zero: no bound
}

// Check refuses bounds that nothing lies between.
func (f Filter) Check() error {
	if !f.After.IsZero() && !f.Before.IsZero() && !f.After.Before(f.Before) {
		return &session.InvalidError{Field: "after", Reason: "is not before the field before"}
	}
	return nil
}

// Labelled reports whether the filter asks for labels, which only entries have.
func (f Filter) Labelled() bool { return len(f.Tags) > 0 || len(f.Metadata) > 0 }

// Within reports whether something was written in the time of the filter.
func (f Filter) Within(at time.Time) bool {
	return (f.After.IsZero() || at.After(f.After)) && (f.Before.IsZero() || at.Before(f.Before))
}

// Selects reports whether an entry passes the filter.
func (f Filter) Selects(e Entry) bool {
	return f.Within(e.UpdatedAt) && e.Labels.Has(f.Tags, f.Metadata)
}

// Live keeps the entries that have not expired at an instant.
func Live(entries []Entry, now time.Time) []Entry {
	return slices.DeleteFunc(entries, func(e Entry) bool { return e.Labels.Expired(now) })
}

package admission

import (
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// CheckEntryVersion refuses a writer who expects another version of an entry
// than the one that is there, 0 for none. Nil expects nothing.
func CheckEntryVersion(key string, want *int64, have int64) error {
	if want != nil && *want != have {
		return &session.ConflictError{ID: key, Reason: session.ReasonStaleEntry, Want: *want, Have: have}
	}
	return nil
}

// RepeatedEntry returns what a tool call gets that wrote a version before: that
// version or, where it was forgotten, the newest (0), or an entry of version 0
// where there is none.
func RepeatedEntry(key string, wrote int64, read func(version int64) (store.Entry, bool, error)) (store.Entry, error) {
	for _, version := range []int64{wrote, 0} {
		if e, found, err := read(version); err != nil || found {
			return e, err
		}
	}
	return store.Entry{Key: key}, nil
}

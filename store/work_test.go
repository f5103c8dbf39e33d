package store_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// A session with two reasons to wait is listed once, with the longer wait.
func TestLongestWaiting_onceEach(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(minutes) * time.Minute) }
	of := func(id string, minutes int) store.Waiting {
		return store.Waiting{Ref: store.Ref{Tenant: "t", ID: id}, Since: at(minutes)}
	}
	got := store.LongestWaiting(3, []store.Waiting{of("a", 3), of("b", 5)}, []store.Waiting{of("a", 1), of("c", 2)})
	if len(got) != 3 || got[0] != of("a", 1) || got[1] != of("c", 2) || got[2] != of("b", 5) {
		t.Errorf("%+v", got)
	}
}

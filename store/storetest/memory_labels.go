package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// fullLabels are labels of every kind.
func fullLabels() *session.Labels {
	until := minute(60)
	return &session.Labels{Tags: []string{"a%b", "hot", "ünï ☃"}, Metadata: map[string]string{"from": "o'hara", "n": ""}, ExpiresAt: &until}
}

func sameLabels(t testing.TB, a, b *session.Labels) bool {
	t.Helper()
	return bytes.Equal(encode(t, a), encode(t, b))
}

// labelsComeBack writes labels, leaves them out and writes others: each version
// has its own.
func labelsComeBack(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	likes := newMemo("likes", `"tea"`)
	likes.Labels = fullLabels()
	likes.Labels.Tags = []string{"ünï ☃", "hot", "a%b", "hot"} // kept in order, each once
	written := mustRemember(t, open[0], user("ann"), likes)
	mustRemember(t, open[0], user("ann"), newMemo("likes", `"coffee"`))
	for version, want := range map[int64]*session.Labels{0: nil, 1: fullLabels(), 2: nil} {
		have := wantEntry(t, open[1], user("ann"), "likes", version, map[bool]string{true: `"tea"`, false: `"coffee"`}[version == 1]).Labels
		if !sameLabels(t, have, want) {
			t.Errorf("labels of version %d: %s, want %s", version, encode(t, have), encode(t, want))
		}
	}
	if !sameLabels(t, written.Labels, fullLabels()) {
		t.Errorf("written with labels %s", encode(t, written.Labels))
	}
	written.Labels.Tags[0], written.Labels.Metadata["from"] = "changed", "changed"
	entry := mustRemember(t, open[0], user("ann"), likes)
	entry.Labels.Tags[0] = "changed"
	entries, err := ability[store.Memories](t, open[0]).Entries(t.Context(), user("ann"), "", "", 0)
	if err != nil || len(entries) != 1 || !sameLabels(t, entries[0].Labels, fullLabels()) {
		t.Errorf("listed with labels: %s, %v", encode(t, entries), err)
	}
	for _, bad := range []*session.Labels{
		{Tags: []string{""}}, {Tags: []string{"a\nb"}}, {Tags: []string{strings.Repeat("t", 257)}}, {Metadata: map[string]string{"": "v"}},
		{Metadata: map[string]string{"k": "\xff"}}, {Tags: manyTags(33)},
	} {
		_, err := ability[store.Memories](t, open[0]).Remember(t.Context(), user("ann"), store.Memo{Key: "bad", Labels: bad, At: start()})
		wantErr(t, fmt.Sprintf("remember with labels %s", encode(t, bad)), err, session.ErrInvalid)
	}
}

func manyTags(n int) []string {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = fmt.Sprint(i)
	}
	return tags
}

// expiredAreListed lists what has expired: newest versions alone, of one tenant,
// the earliest first.
func expiredAreListed(t testing.TB, d Data) {
	st := d.Open(t)
	remember := func(o store.Owner, key string, until time.Time) {
		m := newMemo(key, `1`)
		if !until.IsZero() {
			m.Labels = &session.Labels{ExpiresAt: &until}
		}
		mustRemember(t, st, o, m)
	}
	other := user("ann")
	other.Tenant = "other"
	remember(user("ann"), "late", minute(20))
	remember(user("ann"), "early", minute(10))
	remember(agent("bob"), "middle", minute(15))
	remember(user("ann"), "later", minute(40))
	remember(user("ann"), "never", time.Time{})
	remember(user("ann"), "renewed", minute(5))
	remember(user("ann"), "renewed", time.Time{})
	remember(user("ann"), "forgotten", minute(5))
	forget(t, st, user("ann"), "forgotten")
	remember(other, "foreign", minute(5))
	for limit, want := range map[int][]string{
		0: {"user ann early", "agent bob middle", "user ann late"}, 2: {"user ann early", "agent bob middle"},
	} {
		found, err := ability[store.Memories](t, st).Expired(t.Context(), session.DefaultTenant, minute(20), limit)
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, e := range found {
			if e.Owner.Tenant != session.DefaultTenant || e.Version != 1 {
				t.Errorf("expired: %s", encode(t, e))
			}
			have = append(have, fmt.Sprintf("%s %s %s", e.Owner.Scope, e.Owner.Name, e.Key))
		}
		if !slices.Equal(have, want) {
			t.Errorf("expired, at most %d: %q, want %q", limit, have, want)
		}
	}
}

// spacesAreOwners remembers in a space, which is found where it is named and
// nowhere else.
func spacesAreOwners(t testing.TB, d Data) {
	st := d.Open(t)
	space := func(name string) store.Owner {
		return store.Owner{Tenant: session.DefaultTenant, Scope: store.ScopeSpace, Name: name}
	}
	for _, o := range []store.Owner{space("wiki"), space("notes"), user("wiki"), agent("wiki")} {
		mustRemember(t, st, o, newMemo("about", fmt.Sprintf("%q", "tea of "+string(o.Scope)+" "+o.Name)))
	}
	found := search(t, st, store.Search{Words: []string{"tea"}, Spaces: []string{"wiki", "empty"}})
	if len(found) != 1 || found[0].Owner != space("wiki") || found[0].Text != "tea of space wiki" {
		t.Errorf("found in a space: %s", encode(t, found))
	}
	if found := search(t, st, store.Search{Words: []string{"tea"}, Spaces: []string{"wiki", "notes"}, User: "wiki"}); len(found) != 3 {
		t.Errorf("found in two spaces and of a user: %s", encode(t, found))
	}
}

package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func infos(ids ...string) []session.Info {
	list := make([]session.Info, len(ids))
	for i, id := range ids {
		list[i] = session.Info{ID: id, Kind: session.KindChat, Status: session.Active, UpdatedAt: time.Unix(100, 0).UTC()}
	}
	return list
}

func TestQuery_cursorFitsItsOwnQueryOnly(t *testing.T) {
	q, _, err := store.Query{Limit: 2, Agent: "a"}.Check()
	if err != nil {
		t.Fatal(err)
	}
	page := q.Paginate(infos("c", "a", "b"), nil)
	if len(page.Items) != 2 || page.Items[1].ID != "b" || page.Next == "" {
		t.Fatalf("first page: %+v", page)
	}
	same := store.Query{Limit: 99, Agent: "a", Cursor: page.Next}
	_, after, err := same.Check()
	if err != nil || after == nil || after.ID != "b" {
		t.Fatalf("its own query: %+v, %v", after, err)
	}
	if rest := q.Paginate(infos("c", "a", "b"), after); len(rest.Items) != 1 || rest.Items[0].ID != "c" || rest.Next != "" {
		t.Errorf("second page: %+v", rest)
	}
	for name, other := range map[string]store.Query{
		"another filter": {Agent: "b", Cursor: page.Next},
		"another order":  {Agent: "a", Order: store.IDAsc, Cursor: page.Next},
		"cut":            {Agent: "a", Cursor: page.Next[1:]},
		"longer":         {Agent: "a", Cursor: page.Next + "A"},
	} {
		if _, _, err := other.Check(); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQuery_readsMetadataOnlyWhenAsked(t *testing.T) {
	read := 0
	metadata := func() (session.Values, error) {
		read++
		return session.Values{"s": []byte(`"x"`), "empty": []byte(`""`), "null": []byte(`null`), "n": []byte(`1`)}, nil
	}
	header := infos("a")[0]
	if ok, err := (store.Query{}).Match(header, metadata); !ok || err != nil || read != 0 {
		t.Errorf("without a filter: %t, %v, read %d times", ok, err, read)
	}
	for key, want := range map[string]bool{"s": false, "empty": true, "null": false, "n": false, "none": false} {
		if ok, err := (store.Query{Metadata: map[string]string{key: ""}}).Match(header, metadata); ok != want || err != nil {
			t.Errorf("%s equals the empty string: %t, %v", key, ok, err)
		}
	}
	broken := errors.New("broken")
	_, err := store.Query{Metadata: map[string]string{"a": "b"}}.Match(header, func() (session.Values, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("metadata that cannot be read: %v", err)
	}
}

func TestPageLimit(t *testing.T) {
	for asked, want := range map[int]int{0: 500, 1: 1, 99999: 99999} {
		if got, err := store.PageLimit(asked); got != want || err != nil {
			t.Errorf("asked for %d: %d, %v", asked, got, err)
		}
	}
	if _, err := store.PageLimit(-1); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a negative limit: %v", err)
	}
}

func TestRetention_wantsPoliciesForEver(t *testing.T) {
	now := time.Unix(1000, 0)
	header := infos("a")[0]
	if !(store.Retention{}).Fits(header, now) {
		t.Error("an idle chat does not fit")
	}
	header.Kind = session.KindPolicy
	if (store.Retention{}).Fits(header, now) {
		t.Error("a policy fits")
	}
}

func TestRetention_fitsAtTheVeryMoment(t *testing.T) {
	header := infos("a")[0]
	moment := header.UpdatedAt.Add(time.Hour)
	r := store.Retention{IdleFor: time.Hour}
	if !r.Fits(header, moment) || r.Fits(header, moment.Add(-time.Microsecond)) {
		t.Error("idle for an hour does not begin after an hour")
	}
	header.ExpiresAt = &moment
	r = store.Retention{Expired: true}
	if !r.Fits(header, moment) || r.Fits(header, moment.Add(-time.Microsecond)) {
		t.Error("expired does not begin at the expiry")
	}
}

func TestRetention_keepsTheOldest(t *testing.T) {
	list := infos("c", "b", "a", "old")
	list[3].UpdatedAt = time.Unix(1, 0)
	var ids []string
	for _, i := range (store.Retention{Limit: 3}).Oldest(list) {
		ids = append(ids, i.ID)
	}
	if !slices.Equal(ids, []string{"old", "a", "b"}) {
		t.Errorf("oldest three: %v", ids)
	}
}

func TestItem_checkCopies(t *testing.T) {
	item := store.Item{ID: "a", Kind: store.ItemCancel, Payload: session.Values{"k": []byte(` { "a" : 1 } `)}, At: time.Unix(0, 1)}
	kept, err := item.Check()
	if err != nil || string(kept.Payload["k"]) != `{"a":1}` || kept.At.Nanosecond() != 0 {
		t.Fatalf("kept as %+v, %v", kept, err)
	}
	item.Payload["k"][3] = 'X'
	if string(kept.Payload["k"]) != `{"a":1}` {
		t.Error("the check shares memory with its argument")
	}
}

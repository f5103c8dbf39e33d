package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func damageBehaviours() []behaviour {
	return []behaviour{
		{name: "damage/isNeverReadAsOtherData", needs: []string{damageHook}, check: damageIsNoticed},
	}
}

// Answers are what a store says of sessions, by question. Each is data or an
// error.
type Answers map[string]Answer

// Answer is what a store says: JSON, or an error.
type Answer struct {
	Text string
	Err  error
}

func (a Answers) add(name string, value any, err error) {
	raw, encodeErr := json.Marshal(value)
	a[name] = Answer{string(raw), errors.Join(err, encodeErr)}
}

// Ask reads everything of some sessions in every way there is. It goes on after
// errors.
func Ask(ctx context.Context, st store.Store, refs ...store.Ref) Answers {
	got := Answers{}
	for _, r := range refs {
		add := func(what string, value any, err error) { got.add(r.ID+" "+what, value, err) }
		info, err := st.Info(ctx, r)
		add("info", info, err)
		s, err := st.Load(ctx, r, false)
		add("load", s, err)
		s, err = st.Load(ctx, r, true)
		add("load with tail", s, err)
		if inboxes, ok := st.(store.Inboxes); ok {
			items, err := inboxes.Inbox(ctx, r)
			add("inbox", items, err)
		}
		logs, ok := st.(store.Logs)
		if !ok {
			continue
		}
		s, err = logs.LoadWhole(ctx, r, 0)
		add("whole", s, err)
		entries, err := logs.Log(ctx, r, 0, 0)
		add("log", entries, err)
		entries, err = logs.Log(ctx, r, 3, 2)
		add("part of the log", entries, err)
		commits, err := logs.Commits(ctx, r, 0, 0)
		add("commits", commits, err)
		for version := int64(1); version <= 3; version++ {
			s, err := logs.LoadAt(ctx, r, version)
			add(fmt.Sprintf("version %d", version), s, err)
		}
	}
	return got
}

// Differ names the first answer that is other data than was wanted, without an
// error; "" if there is none.
func (a Answers) Differ(want Answers) string {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if w, asked := want[name]; a[name].Err == nil && (!asked || a[name].Text != w.Text) {
			return fmt.Sprintf("%s says %s, and was %s", name, a[name].Text, w.Text)
		}
	}
	return ""
}

// Corrupt counts the answers that say that data is corrupt.
func (a Answers) Corrupt() int {
	n := 0
	for _, answer := range a {
		if errors.Is(answer.Err, session.ErrCorrupt) {
			n++
		}
	}
	return n
}

// damageIsNoticed damages one session after another. Each must be reported, and
// none may be read as what it was not.
func damageIsNoticed(t testing.TB, d Data) {
	for i, name := range slices.Sorted(maps.Keys(d.Damages)) {
		st := d.Open(t)
		id, neighbour := fmt.Sprintf("bad-%d", i), fmt.Sprintf("good-%d", i)
		fillForDamage(t, st, id)
		fillForDamage(t, st, neighbour)
		want, other := Ask(t.Context(), st, ref(id)), Ask(t.Context(), st, ref(neighbour))
		for question, a := range want {
			if a.Err != nil {
				t.Fatalf("%s before any damage: %v", question, a.Err)
			}
		}
		d.Damages[name](t, ref(id))
		st = d.Open(t)
		got := Ask(t.Context(), st, ref(id))
		if problem := got.Differ(want); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
		if got.Corrupt() == 0 {
			t.Errorf("%s: no answer says that the session is corrupt", name)
		}
		for question, a := range got {
			var corrupt *session.CorruptError
			if a.Err != nil && !errors.As(a.Err, &corrupt) {
				t.Errorf("%s: %s is %v, want a CorruptError", name, question, a.Err)
			}
		}
		if now := Ask(t.Context(), st, ref(neighbour)); now.Differ(other) != "" || now.Corrupt() > 0 {
			t.Errorf("%s: the neighbour has changed: %s", name, now.Differ(other))
		}
	}
}

// fillForDamage makes a session of five versions, the last of which adds
// nothing, with an item in its inbox and a tail, as far as the store can.
func fillForDamage(t testing.TB, st store.Store, id string) {
	s := create(t, st, newSession(t, id))
	for i := range 3 {
		s = save(t, st, withMessage(t, s, fmt.Sprintf("message %d", i)))
	}
	s = save(t, st, s)
	if inboxes, ok := st.(store.Inboxes); ok {
		item := store.Item{ID: "item", Kind: store.ItemFollowUp, Payload: session.Values{"text": json.RawMessage(`"hello"`)}, At: Noon()}
		if err := inboxes.Post(t.Context(), ref(id), item); err != nil {
			t.Fatal(err)
		}
	}
	if tails, ok := st.(store.Tails); ok {
		s = withMessage(t, withMessage(t, s, "in the tail"), "at its end")
		if _, err := tails.Append(t.Context(), s, store.Append{}); err != nil {
			t.Fatal(err)
		}
	}
}

//go:build unix

package storetest

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/linear"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// The models themselves, each shown histories that a store must not have.
func TestModels_refuseBrokenHistories(t *testing.T) {
	type calls = []linear.Call[call, answer]
	at := func(began, ended int64, in call, out answer) linear.Call[call, answer] {
		return linear.Call[call, answer]{Began: began, Ended: ended, In: in, Out: out}
	}
	save := func(began, ended, from int64) linear.Call[call, answer] {
		return at(began, ended, call{op: "save", agent: "a", version: from}, answer{outcome: "ok", agent: "a", version: from + 1})
	}
	load := func(began, ended, version int64) linear.Call[call, answer] {
		return at(began, ended, call{op: "load"}, answer{outcome: "ok", agent: "a", version: version})
	}
	created := at(1, 2, call{op: "create", agent: "a"}, answer{outcome: "ok", agent: "a", version: 1})
	acquired := func(began, ended, token int64) linear.Call[call, answer] {
		return at(began, ended, call{op: "acquire"}, answer{outcome: "ok", token: token})
	}
	leases := leaseModel(newSessionFrom(t, session.Identity{ID: "s", AgentID: "a"}))
	for name, c := range map[string]struct {
		model linear.Model[register, call, answer]
		good  calls
		bad   linear.Call[call, answer] // what comes after the good ones
	}{
		"a lost update":          {versionModel(), calls{created, save(3, 4, 1)}, load(5, 6, 1)},
		"a stale read":           {versionModel(), calls{created, save(3, 4, 1), save(5, 6, 2)}, load(7, 8, 2)},
		"two winners":            {versionModel(), calls{created, save(3, 9, 1)}, save(4, 8, 1)},
		"a conflict with nobody": {versionModel(), calls{created}, at(3, 4, call{op: "save", agent: "a", version: 1}, answer{outcome: "stale"})},
		"a deleted session":      {versionModel(), calls{created, at(3, 4, call{op: "delete"}, answer{outcome: "ok"})}, load(5, 6, 1)},
		"two holders":            {leases, calls{acquired(1, 2, 1)}, acquired(3, 4, 2)},
		"a token that went back": {leases, calls{acquired(1, 2, 2), at(3, 4, call{op: "release", fence: 2}, answer{outcome: "ok"})}, acquired(5, 6, 1)},
		"a write past the lease": {leases, calls{acquired(1, 2, 1)}, save(3, 4, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			if err := linear.Check(c.model, c.good); err != nil {
				t.Errorf("without it: %v", err)
			}
			if linear.Check(c.model, append(c.good, c.bad)) == nil {
				t.Error("not refused")
			}
		})
	}
}

// What racing processes did is held against the session they leave behind.
func TestHistory_brokenOnesAreRefused(t *testing.T) {
	st := inmem.New(inmem.Config{})
	before := create(t, st, newSession(t, "raced"))
	s := save(t, st, withChanges(t, before, session.MessageAdded{Message: session.Message{ID: "m", Role: session.RoleUser, Content: session.Text("one"), CreatedAt: start()}}))
	did := func(began int64, op operation) observed { return observed{In: op, Began: began, Ended: began + 1} }
	written := operation{Kind: opSave, From: 1, Base: 1, Tag: "one", Version: 2, Seq: 2}
	found := operation{Kind: opLoad, Version: 2, Seq: 2, Last: "one"}
	stale := operation{Kind: opSave, From: 1, Base: 1, Tag: "two", Lost: session.ReasonStale, Have: 2}
	for name, c := range map[string]struct {
		done []observed
		open map[int]operation
		good bool
	}{
		"all in order":               {[]observed{did(1, written), did(3, found), did(5, stale)}, nil, true},
		"cut off, and it was there":  {[]observed{did(3, found)}, map[int]operation{1: {Kind: opSave, Call: 1, From: 1, Base: 1, Tag: "one"}}, true},
		"cut off, and it was not":    {[]observed{did(1, written)}, map[int]operation{1: {Kind: opSave, Call: 1, From: 1, Base: 1, Tag: "two"}}, true},
		"acknowledged and not there": {[]observed{did(1, written), did(3, operation{Kind: opAppend, From: 2, Base: 2, Tag: "two", Version: 2, Seq: 3})}, nil, false},
		"there and not acknowledged": {[]observed{did(1, operation{Kind: opSave, From: 1, Base: 1, Tag: "one", Lost: session.ReasonStale, Have: 2})}, nil, false},
		"one version for two":        {[]observed{did(1, written), did(3, written)}, nil, false},
		"a stale read":               {[]observed{did(1, written), did(3, operation{Kind: opLoad, Version: 1, Seq: 1})}, nil, false},
		"a conflict too early":       {[]observed{did(1, stale), did(3, written)}, nil, false},
		"cut off, begun too late":    {[]observed{did(3, found)}, map[int]operation{1: {Kind: opSave, Call: 5, From: 1, Base: 1, Tag: "one"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			(&history{done: c.done, open: c.open}).check(r, s)
			if r.Failed() == c.good {
				t.Errorf("good: %t, but: %q", c.good, r.failures)
			}
		})
	}
}

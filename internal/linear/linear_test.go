package linear_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/linear"
)

// request is a call on a register with a version. A write names the version it
// comes from.
type request struct {
	op   string
	from int
}

// reply is the version a call found or made; a lost write returns none.
type reply struct {
	version int
	lost    bool
}

type history = []linear.Call[request, reply]

func versions() linear.Model[int, request, reply] {
	return linear.Model[int, request, reply]{Start: 1, Step: func(at int, in request, out reply) []int {
		switch {
		case in.op == "read" && out.version == at, out.lost && in.from != at:
			return []int{at}
		case in.op == "write" && !out.lost && in.from == at && (out.version == at+1 || out.version == 0):
			return []int{at + 1}
		}
		return nil
	}}
}

func read(began, ended int64, version int) linear.Call[request, reply] {
	return linear.Call[request, reply]{Began: began, Ended: ended, In: request{op: "read"}, Out: reply{version: version}}
}

func write(began, ended int64, from int) linear.Call[request, reply] {
	return linear.Call[request, reply]{Began: began, Ended: ended, In: request{op: "write", from: from}, Out: reply{version: from + 1}}
}

func lost(began, ended int64, from int) linear.Call[request, reply] {
	return linear.Call[request, reply]{Began: began, Ended: ended, In: request{op: "write", from: from}, Out: reply{lost: true}}
}

func unsure(began int64, from int) linear.Call[request, reply] {
	return linear.Call[request, reply]{Began: began, In: request{op: "write", from: from}, Unsure: true}
}

func TestCheck_explainsWhatCanHaveBeen(t *testing.T) {
	for name, calls := range map[string]history{
		"nothing":                                     {},
		"one after the other":                         {write(1, 2, 1), read(3, 4, 2), write(5, 6, 2), read(7, 8, 3)},
		"noted in another order":                      {read(7, 8, 3), write(5, 6, 2), write(1, 2, 1)},
		"a read during a write, before it":            {write(1, 9, 1), read(2, 3, 1)},
		"a read during a write, after it":             {write(1, 9, 1), read(2, 3, 2)},
		"the old and then the new":                    {write(1, 9, 1), read(2, 3, 1), read(4, 5, 2)},
		"one wins, one loses":                         {write(1, 9, 1), lost(2, 8, 1)},
		"lost to a write that began later":            {lost(1, 9, 1), write(2, 3, 1)},
		"an unsure write that happened":               {unsure(1, 1), read(2, 3, 2)},
		"an unsure write that did not":                {unsure(1, 1), read(2, 3, 1)},
		"an unsure write that happens late":           {unsure(1, 1), read(2, 3, 1), read(4, 5, 1), read(6, 7, 2)},
		"lost to an unsure write":                     {unsure(1, 1), lost(2, 3, 1)},
		"an unsure write that has lost already":       {write(1, 2, 1), unsure(3, 1), read(4, 5, 2)},
		"many unsure writes from one version":         {unsure(1, 1), unsure(1, 1), unsure(1, 1), read(2, 3, 2), lost(4, 5, 1)},
		"a write cut off that took effect late":       {write(1, linear.Forever, 1), read(2, 3, 1), read(4, 5, 2)},
		"a long chain of writes out of an unsure one": {unsure(1, 1), write(2, 3, 2), write(4, 5, 3), read(6, 7, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			if err := linear.Check(versions(), calls); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCheck_reportsWhatCannotHaveBeen(t *testing.T) {
	for name, calls := range map[string]history{
		"lost update":                            {write(1, 2, 1), read(3, 4, 1)},
		"a stale read after an acknowledgement":  {write(1, 2, 1), write(3, 4, 2), read(5, 6, 2)},
		"two winners":                            {write(1, 9, 1), write(2, 8, 1)},
		"two winners, one after the other":       {write(1, 2, 1), write(3, 4, 1)},
		"a version nobody wrote":                 {read(1, 2, 2)},
		"a read from the future":                 {read(1, 2, 2), write(3, 4, 1)},
		"the new and then the old":               {write(1, 9, 1), read(2, 3, 2), read(4, 5, 1)},
		"the new and then the old, two readers":  {write(1, 20, 1), read(2, 6, 2), read(7, 9, 1)},
		"a conflict with nobody":                 {lost(1, 2, 1)},
		"a conflict with one who came later":     {lost(1, 2, 1), write(3, 4, 1)},
		"a skipped version":                      {write(1, 2, 1), write(3, 4, 3)},
		"an unsure write that happened twice":    {unsure(1, 1), read(2, 3, 3)},
		"an unsure write that was taken back":    {unsure(1, 1), read(2, 3, 2), read(4, 5, 1)},
		"an unsure write before it began":        {read(1, 2, 2), unsure(3, 1)},
		"an unsure write and another winner":     {unsure(1, 1), read(2, 3, 2), write(4, 5, 1)},
		"a write cut off that was never there":   {write(1, linear.Forever, 1), write(2, 3, 1), read(4, 5, 2)},
		"many unsure writes explain one version": {unsure(1, 1), unsure(1, 1), unsure(1, 1), read(2, 3, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			err := linear.Check(versions(), calls)
			var unexplained *linear.UnexplainedError
			if !errors.As(err, &unexplained) || unexplained.Calls != len(calls) {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), "<- not explained") {
				t.Errorf("no call is marked: %v", err)
			}
		})
	}
}

// A history that has a mistake at its end must be refused as fast as it would
// be accepted without it, however many calls overlap.
func TestCheck_longHistoriesWithAMistakeAreDecided(t *testing.T) {
	var calls history
	for i := range 500 {
		at, version := int64(10*i), i+1
		calls = append(calls, write(at, at+15, version), lost(at+6, at+16, version), read(at+7, at+12, version+1))
		if i%50 == 0 {
			calls = append(calls, unsure(at, version))
		}
	}
	if err := linear.Check(versions(), calls); err != nil {
		t.Fatal(err)
	}
	if linear.Check(versions(), append(calls, read(50_000, 50_001, 500))) == nil {
		t.Error("a stale read at the end was not found")
	}
}

// What has no effect where it could come first may need its place later on.
func TestCheck_triesLaterPlacesForCallsWithoutEffect(t *testing.T) {
	lock := linear.Model[bool, string, string]{Step: func(held bool, in, _ string) []bool {
		switch {
		case in == "unlock":
			return []bool{false}
		case held:
			return nil
		}
		return []bool{true}
	}}
	calls := []linear.Call[string, string]{
		{Client: 1, Began: 1, Ended: 2, In: "unlock"}, {Client: 2, Began: 1, Ended: 2, In: "lock"}, {Client: 2, Began: 3, Ended: 4, In: "lock"},
	}
	if err := linear.Check(lock, calls); err != nil {
		t.Error(err)
	}
}

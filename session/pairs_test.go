package session_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

func TestPairs_keepTheOrderInWhichKeysCame(t *testing.T) {
	t.Parallel()
	var p session.Pairs[int]
	p = p.With("b", 1).With("a", 2).With("c", 3).With("b", 4)
	if got := asJSON(t, p); got != `[["b",4],["a",2],["c",3]]` {
		t.Errorf("encoded as %s", got)
	}
	if v, ok := p.Get("b"); v != 4 || !ok || p.Len() != 3 {
		t.Errorf("b is %d, %v of %d", v, ok, p.Len())
	}
	if _, ok := p.Get("x"); ok {
		t.Error("x is there")
	}
	if got := asJSON(t, p.Without("a").Without("x")); got != `[["b",4],["c",3]]` {
		t.Errorf("without a: %s", got)
	}
	var keys []string
	for key := range p.All() {
		if keys = append(keys, key); len(keys) == 2 {
			break
		}
	}
	if !reflect.DeepEqual(keys, []string{"b", "a"}) {
		t.Errorf("went over %v", keys)
	}
}

func TestPairs_areValues(t *testing.T) {
	t.Parallel()
	var none session.Pairs[int]
	one := none.With("a", 1)
	two := one.With("b", 2)
	_, _, _ = two.With("a", 9), two.With("c", 3), two.With("d", 4)
	_, _ = two.Without("a"), two.Clone().With("b", 7)
	for _, tt := range []struct {
		p    session.Pairs[int]
		want string
	}{{none, `[]`}, {one, `[["a",1]]`}, {two, `[["a",1],["b",2]]`}} {
		if got := asJSON(t, tt.p); got != tt.want {
			t.Errorf("changed into %s, was %s", got, tt.want)
		}
	}
	if !reflect.DeepEqual(one.Without("a"), none) {
		t.Error("emptied pairs differ from those that never held anything")
	}
}

func TestPairs_lastOfEqualKeysCounts(t *testing.T) {
	t.Parallel()
	var p session.Pairs[int]
	if err := json.Unmarshal([]byte(`[["a",1],["b",2],["a",3]]`), &p); err != nil {
		t.Fatal(err)
	}
	if got := asJSON(t, p); got != `[["a",3],["b",2]]` {
		t.Errorf("decoded as %s", got)
	}
}

func TestPairs_refuseWhatIsNoListOfPairs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"a":1}`, `[["a"]]`, `[["a",1,2]]`, `[[1,1]]`, `[[null,1]]`, `[["a","x"]]`, `["a"]`, `[null]`} {
		var p session.Pairs[int]
		if err := json.Unmarshal([]byte(text), &p); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s gave %v", text, err)
		}
	}
}

func TestPairs_comeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	property.Check(t, func(t *property.T) {
		var p session.Pairs[int]
		for range t.Repeat(0, 20) {
			key := property.SampledFrom([]string{"", "a", "b", "<é>", "d\n"}).Draw(t, "key")
			if property.Bool().Draw(t, "remove") {
				p = p.Without(key)
			} else {
				p = p.With(key, property.IntRange(math.MinInt, math.MaxInt).Draw(t, "value"))
			}
		}
		var back session.Pairs[int]
		if err := json.Unmarshal([]byte(asJSON(t, p)), &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, p) {
			t.Fatalf("%v came back as %v", p, back)
		}
	})
}

func TestSet_keepsTheFirstOfEqualTexts(t *testing.T) {
	t.Parallel()
	var none session.Set
	s := none.With("b").With("a").With("b")
	_, _ = s.With("c"), s.With("d")
	if got := asJSON(t, s); got != `["b","a"]` || !s.Has("a") || s.Has("c") {
		t.Errorf("set is %s", got)
	}
	if got := asJSON(t, s.Without("b").Without("x")); got != `["a"]` || len(s) != 2 {
		t.Errorf("without b: %s, and the set has %d", got, len(s))
	}
	if got := asJSON(t, s.Without("b").Without("a")); got != `[]` || asJSON(t, none) != `[]` {
		t.Errorf("empty: %s", got)
	}
	var back session.Set
	if err := json.Unmarshal([]byte(`["x","y","x"]`), &back); err != nil || !reflect.DeepEqual(back, session.NewSet("x", "y")) {
		t.Errorf("decoded %v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`["x",1]`), &back); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a number gave %v", err)
	}
}

func asJSON(t interface{ Fatal(args ...any) }, v any) string {
	raw, err := session.JSON(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

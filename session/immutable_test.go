package session_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

// scramble changes everything that can be reached from v: elements of slices,
// entries of maps, what pointers point to, fields of structs.
func scramble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			scramble(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			scramble(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			scramble(v.MapIndex(key))
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
		if v.Len() > 0 {
			v.SetMapIndex(v.MapKeys()[0], reflect.Value{})
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			set(v, reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scramble(v.Field(i))
			}
		}
	case reflect.String:
		set(v, reflect.ValueOf("scrambled"))
	case reflect.Bool:
		set(v, reflect.ValueOf(!v.Bool()))
	case reflect.Int, reflect.Int64:
		set(v, reflect.ValueOf(v.Int()+77))
	case reflect.Uint8:
		set(v, reflect.ValueOf(uint8(v.Uint())^0x55))
	case reflect.Float64:
		set(v, reflect.ValueOf(v.Float()+77))
	}
}

func set(v, to reflect.Value) {
	if v.CanSet() {
		v.Set(to.Convert(v.Type()))
	}
}

func scrambleAll(values ...any) {
	for _, v := range values {
		scramble(reflect.ValueOf(v))
	}
}

// TestScramble_reachesEverything keeps the tests below honest.
func TestScramble_reachesEverything(t *testing.T) {
	t.Parallel()
	for _, c := range samples() {
		have, err := session.Record{Seq: 1, At: at(0), Change: c}.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		boxed := reflect.New(reflect.TypeOf(c))
		boxed.Elem().Set(reflect.ValueOf(c))
		scramble(boxed)
		changed, ok := boxed.Elem().Interface().(session.Change)
		if !ok {
			t.Fatalf("%s is no change any more", c.Kind())
		}
		after, err := session.Record{Seq: 1, At: at(0), Change: changed}.MarshalJSON()
		if reflect.TypeOf(c).NumField() > 0 && err == nil && bytes.Equal(after, have) {
			t.Errorf("%s is untouched by scrambling", c.Kind())
		}
	}
}

func TestSession_whatIsHandedOutIsACopy(t *testing.T) {
	t.Parallel()
	handOut(t, sampleSession(t)) // has every part
	property.CheckCases(t, 25, func(t *property.T) { handOut(t, newHistory(t).now) })
}

// handOut calls every method that takes no argument, changes all it returns,
// and finds the session as it was.
func handOut(t failer, s session.Session) {
	t.Helper()
	before, log := document(t, s), throughJSON(t, session.Unsaved(s))
	v := reflect.ValueOf(s)
	for i := range v.NumMethod() {
		if m := v.Method(i); m.Type().NumIn() == 0 {
			for _, out := range m.Call(nil) {
				scramble(out)
			}
		}
	}
	for i, m := range s.All() {
		own := s.Message(i)
		scrambleAll(&m, &own)
	}
	sameBytes(t, "the session", document(t, s), before)
	if !reflect.DeepEqual(throughJSON(t, session.Unsaved(s)), log) {
		t.Fatalf("the pending changes differ")
	}
}

func TestSession_whatIsHandedInIsCopied(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		old := h.now
		before := document(t, old)
		c := change(old).Draw(t, "change")
		next, err := old.With(noon, c)
		if err != nil {
			t.Skip(err)
		}
		after := document(t, next)
		scrambleAll(c)
		sameBytes(t, "the session before the change", document(t, old), before)
		sameBytes(t, "the session after the change", document(t, next), after)

		// Amending hands changes to a stranger who may write into them.
		_, err = session.Amend(next, func(c session.Change) (session.Change, error) {
			scrambleAll(c)
			return c, nil
		})
		if err == nil {
			sameBytes(t, "the session that was amended", document(t, next), after)
		}
		sameBytes(t, "the session before the change", document(t, old), before)
	})
}

func TestNew_copiesDefinitionAndSeed(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		def := definition().Draw(t, "definition")
		expires := noon
		identity := session.Identity{ID: "s-1", AgentID: "agent-1", ExpiresAt: &expires}
		seed := session.Seed{
			ModelParams: optional(params()).Draw(t, "params"), ResponseFormat: optional(format()).Draw(t, "format"),
			Metadata: values().Draw(t, "metadata"), Variables: values().Draw(t, "variables"),
			Messages: []session.Message{{ID: "m-1", Role: session.RoleUser, Content: session.Text("hi"), Metadata: values().Draw(t, "m")}},
		}
		s, err := session.New(identity, def, seed, noon)
		if err != nil {
			t.Skip(err)
		}
		before := document(t, s)
		scrambleAll(&def, &identity, &seed)
		sameBytes(t, "the session", document(t, s), before)
	})
}

func TestFold_copiesRecordsHeadsAndMessages(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		h := newHistory(t)
		h.seal(t)
		want := document(t, h.now)

		records := throughJSON(t, h.log)
		folded, err := session.Fold(records)
		if err != nil {
			t.Fatal(err)
		}
		before := document(t, folded)
		scrambleAll(records)
		sameBytes(t, "the folded session", document(t, folded), before)

		head, err := session.EncodeHead(h.now)
		if err != nil {
			t.Fatal(err)
		}
		messages := h.now.Messages()
		loaded, err := session.DecodeHead(head, messages)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := session.Decode(want)
		if err != nil {
			t.Fatal(err)
		}
		data := document(t, h.now)
		scrambleAll(head, messages, want)
		sameBytes(t, "the session of a head", document(t, loaded), data)
		sameBytes(t, "the decoded session", document(t, decoded), data)
		sameBytes(t, "the session itself", document(t, h.now), data)
	})
}

func TestSession_futuresOfOneValueNeverMeet(t *testing.T) {
	t.Parallel()
	const shared = 10_000
	s := newSession(t)
	for i := range shared {
		s = say(t, s, fmt.Sprintf("m-%d", i))
	}
	left, right := s, s
	for i := range 100 {
		left = say(t, left, fmt.Sprintf("left-%d", i))
		right = say(t, right, fmt.Sprintf("right-%d", i))
		right = say(t, right, fmt.Sprintf("right-%d-again", i))
	}
	if s.Len() != shared || left.Len() != shared+100 || right.Len() != shared+200 {
		t.Fatalf("lengths %d, %d, %d", s.Len(), left.Len(), right.Len())
	}
	for i := range shared {
		if want := fmt.Sprintf("m-%d", i); s.Message(i).ID != want || left.Message(i).ID != want || right.Message(i).ID != want {
			t.Fatalf("message %d is %s, %s, %s", i, s.Message(i).ID, left.Message(i).ID, right.Message(i).ID)
		}
	}
	for i := range 100 {
		if have, want := left.Message(shared+i).ID, fmt.Sprintf("left-%d", i); have != want {
			t.Fatalf("left message %d is %s, want %s", i, have, want)
		}
		if have, want := right.Message(shared+2*i).ID, fmt.Sprintf("right-%d", i); have != want {
			t.Fatalf("right message %d is %s, want %s", i, have, want)
		}
	}
}

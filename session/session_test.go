package session_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

func newSession(t failer) session.Session {
	t.Helper()
	s, err := session.New(session.Identity{ID: "s-1", AgentID: "agent-1"}, session.Definition{Name: "agent"}, session.Seed{}, noon)
	if err != nil {
		t.Fatalf("new session: %v", err)
	}
	return s
}

func say(t failer, s session.Session, id string) session.Session {
	t.Helper()
	return apply(t, s, session.MessageAdded{Message: session.Message{ID: id, Role: session.RoleUser, Content: session.Text(id)}})
}

func apply(t failer, s session.Session, changes ...session.Change) session.Session {
	t.Helper()
	next, err := s.With(noon, changes...)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return next
}

// refused checks for an InvalidError of that field.
func refused(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *session.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != field {
		t.Errorf("have %v, want an InvalidError of %s", err, field)
	}
}

func TestNew_startsActiveAtVersionZero(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	i := s.Info()
	if i.Version != 0 || i.Status != session.Active || i.Tenant != "default" || i.Origin != session.OriginRoot || i.Kind != session.KindChat ||
		i.AgentName != "agent" || i.AgentLabel != "agent" || i.MessageCount != 0 || !i.CreatedAt.Equal(noon) {
		t.Errorf("header %+v", i)
	}
	if s.Execution() != nil || s.Len() != 0 || s.Partial() || s.Reply() != "" || len(session.Unsaved(s)) != 1 {
		t.Errorf("a new session has done something: %+v", s.State())
	}
}

func TestNew_definitionWinsOverSeed(t *testing.T) {
	t.Parallel()
	def := session.Definition{Name: "agent", SystemPrompt: "mine", Metadata: session.Values{"a": json.RawMessage("1")}}
	seed := session.Seed{
		SystemPrompt: "seeded", Metadata: session.Values{"a": json.RawMessage("2"), "b": json.RawMessage("3")},
		Variables: map[string]json.RawMessage{"v": json.RawMessage(`"x"`), "u": nil},
		Messages: []session.Message{
			{ID: "m-1", Role: session.RoleUser, Content: session.Text("hi")},
			{ID: "m-2", Role: session.RoleAssistant, Content: session.Text("ho")},
		},
	}
	s, err := session.New(session.Identity{ID: "s-1", AgentID: "agent-1"}, def, seed, noon)
	if err != nil {
		t.Fatal(err)
	}
	if s.SystemPrompt() != "mine" || string(s.Metadata()["a"]) != "1" || string(s.Metadata()["b"]) != "3" {
		t.Errorf("prompt %q, metadata %s", s.SystemPrompt(), s.Metadata())
	}
	if string(s.Variables()["v"].Value) != `"x"` || string(s.Variables()["u"].Value) != "null" {
		t.Errorf("variables %v", s.Variables())
	}
	if s.Len() != 2 || s.Message(0).ID != "m-1" || s.Message(1).ID != "m-2" {
		t.Errorf("messages %+v", s.Messages())
	}
	def.SystemPrompt = "  "
	if s, err = session.New(session.Identity{ID: "s-1", AgentID: "agent-1"}, def, seed, noon); err != nil || s.SystemPrompt() != "seeded" {
		t.Errorf("a blank definition prompt gave %q (%v), want the seed's", s.SystemPrompt(), err)
	}
}

func TestNew_refusesWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	good := session.Identity{ID: "s-1", AgentID: "agent-1"}
	with := func(change func(*session.Identity)) session.Identity {
		b := good
		change(&b)
		return b
	}
	big := json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)
	for name, tt := range map[string]struct {
		identity session.Identity
		seed     session.Seed
		field    string
	}{
		"id":             {identity: with(func(b *session.Identity) { b.ID = "../x" }), field: "id"},
		"agent id":       {identity: with(func(b *session.Identity) { b.AgentID = "" }), field: "agentId"},
		"agent id bytes": {identity: with(func(b *session.Identity) { b.AgentID = "a\xff" }), field: "agentId"},
		"tenant":         {identity: with(func(b *session.Identity) { b.Tenant = "a b" }), field: "tenant"},
		"user":           {identity: with(func(b *session.Identity) { b.UserID = "a\x00" }), field: "userId"},
		"parent":         {identity: with(func(b *session.Identity) { b.ParentID = "-" }), field: "parentId"},
		"kind":           {identity: with(func(b *session.Identity) { b.Kind = "poem" }), field: "kind"},
		"origin":         {identity: with(func(b *session.Identity) { b.Origin = "moon" }), field: "origin"},
		"status":         {identity: with(func(b *session.Identity) { b.Status = "Active" }), field: "status"},
		"depth":          {identity: with(func(b *session.Identity) { b.Depth = -1 }), field: "header"},
		"name":           {identity: with(func(b *session.Identity) { b.Name = strings.Repeat("é", 201) }), field: "name"},
		"metadata size":  {identity: good, seed: session.Seed{Metadata: session.Values{"k": big}}, field: "metadata.k"},
		"metadata":       {identity: good, seed: session.Seed{Metadata: session.Values{"k": json.RawMessage("{")}}, field: "metadata.k"},
		"variable":       {identity: good, seed: session.Seed{Variables: map[string]json.RawMessage{"a//b": nil}}, field: "key"},
		"orphan result": {identity: good, seed: session.Seed{Messages: []session.Message{
			{ID: "m", Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: "c"}},
		}}, field: "messages"},
		"nested deeply": {identity: good, seed: session.Seed{Metadata: session.Values{
			"k": json.RawMessage(strings.Repeat("[", 1001) + strings.Repeat("]", 1001)),
		}}, field: "metadata.k"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := session.New(tt.identity, session.Definition{Name: "agent"}, tt.seed, noon)
			refused(t, err, tt.field)
			if !s.IsZero() {
				t.Error("a session was returned all the same")
			}
		})
	}
	var wrong *session.DefinitionError
	if _, err := session.New(good, session.Definition{Name: "No"}, session.Seed{}, noon); !errors.As(err, &wrong) {
		t.Errorf("a bad definition gave %v", err)
	}
}

func TestNew_isDeterministic(t *testing.T) {
	t.Parallel()
	seed := session.Seed{Variables: map[string]json.RawMessage{}}
	for _, key := range strings.Split("q w e r t y u i o p a s d f", " ") {
		seed.Variables[key] = json.RawMessage("1")
	}
	var first []byte
	for range 5 {
		s, err := session.New(session.Identity{ID: "s-1", AgentID: "agent-1"}, session.Definition{Name: "agent"}, seed, noon)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = document(t, s)
		}
		sameBytes(t, "the same identity", document(t, s), first)
	}
}

func TestWith_isAllOrNothing(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	next, err := s.With(noon, session.NameChanged{Name: "fine"}, session.NameChanged{Name: "not\nfine"})
	refused(t, err, "name")
	if next.Info().Name != "" || next.Seq() != s.Seq() {
		t.Errorf("half of the changes were kept: %+v", next.Info())
	}
}

func TestWith_refusesChangesThatHaveMethodsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for _, c := range samples() {
		switch c.(type) {
		case session.SessionCreated, session.SessionForked, session.SessionRewound, session.TailDiscarded:
			_, err := s.With(noon, c)
			refused(t, err, "change")
		}
	}
	_, err := session.Session{}.With(noon, session.NameChanged{Name: "x"})
	refused(t, err, "log")
}

func TestTimes_areMicrosecondsAndNeverGoBack(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	zone := time.FixedZone("west", -7*3600)
	s, err := s.WithMessage(session.Message{ID: "m", Role: session.RoleUser}, noon.Add(time.Second+1999*time.Nanosecond).In(zone))
	if err != nil {
		t.Fatal(err)
	}
	if want := noon.Add(time.Second + time.Microsecond); s.Message(0).CreatedAt != want {
		t.Errorf("createdAt %v, want %v", s.Message(0).CreatedAt, want)
	}
	last := s.State().UpdatedAt
	for range 3 { // the clock goes back an hour
		if s, err = s.WithName("n", noon.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if now := s.State().UpdatedAt; now.Sub(last) != time.Microsecond {
			t.Errorf("after %v came %v", last, now)
		}
		last = s.State().UpdatedAt
	}
	saved := session.Seal(s, noon)
	for range 3 {
		again := session.Seal(saved, noon.Add(-time.Hour))
		if again.Info().UpdatedAt.Sub(saved.Info().UpdatedAt) != time.Microsecond {
			t.Errorf("saved at %v after %v", again.Info().UpdatedAt, saved.Info().UpdatedAt)
		}
		if again.Version() != saved.Version()+1 || again.Info().CreatedAt != noon {
			t.Errorf("header %+v", again.Info())
		}
		saved = again
	}
}

func TestTimes_beyondRFC3339StayWritable(t *testing.T) {
	t.Parallel()
	for _, year := range []int{-50, 0, 1, 9999, 10000, 250000} {
		moment := time.Date(year, 12, 31, 23, 59, 59, 999999999, time.FixedZone("east", -14*3600))
		s, err := newSession(t).WithExpiry(moment, moment)
		if err != nil {
			t.Fatal(err)
		}
		s = say(t, s, "m")
		decoded, err := session.Decode(document(t, session.Seal(s, moment)))
		if err != nil {
			t.Fatalf("year %d: %v", year, err)
		}
		if have := decoded.Info().ExpiresAt; !have.Equal(*s.Info().ExpiresAt) {
			t.Errorf("year %d: expiry %v became %v", year, s.Info().ExpiresAt, have)
		}
	}
}

func TestSealed_onlySavingMakesAVersion(t *testing.T) {
	t.Parallel()
	s := session.Seal(newSession(t), noon)
	changed := say(t, s, "m-1")
	if changed.Version() != 1 || changed.Info().Seq != 1 || session.Base(changed) != 1 || changed.Seq() != 2 || len(session.Unsaved(changed)) != 1 {
		t.Errorf("version %d base %d seq %d", changed.Version(), session.Base(changed), changed.Seq())
	}
	flushed := session.Flush(changed)
	if flushed.Version() != 1 || flushed.Info().Seq != 1 || session.Base(flushed) != 2 || !flushed.HasTail() || len(session.Unsaved(flushed)) != 0 {
		t.Errorf("flushed: version %d base %d tail %t", flushed.Version(), session.Base(flushed), flushed.HasTail())
	}
	sealed := session.Seal(flushed, noon)
	if sealed.Version() != 2 || sealed.Info().Seq != 2 || sealed.HasTail() {
		t.Errorf("sealed: version %d seq %d tail %t", sealed.Version(), sealed.Info().Seq, sealed.HasTail())
	}
	if empty := session.Seal(sealed, noon); empty.Version() != 3 || empty.Info().Seq != 2 {
		t.Errorf("a save that changed nothing: version %d seq %d", empty.Version(), empty.Info().Seq)
	}
}

func TestCleared_keepsWhatIsNotTheConversation(t *testing.T) {
	t.Parallel()
	s := sampleSession(t)
	cleared, err := s.Cleared(noon)
	if err != nil {
		t.Fatal(err)
	}
	want := s.State()
	want.Messages, want.Execution, want.Window = []session.Message{}, nil, session.Window{Keep: []int64{}}
	have := cleared.State()
	want.UpdatedAt = have.UpdatedAt
	if !reflect.DeepEqual(have, want) {
		t.Errorf("have %+v\nwant %+v", have, want)
	}
	if cleared.Info().MessageCount != 0 || cleared.Partial() || len(cleared.WindowMessages()) != 0 {
		t.Errorf("still %d messages", cleared.Info().MessageCount)
	}
	if after := say(t, cleared, "fresh"); after.Len() != 1 || len(after.WindowMessages()) != 1 {
		t.Error("a message after a clear is not shown")
	}
}

func TestKept_namesWhatNobodyMayChange(t *testing.T) {
	t.Parallel()
	s := session.Seal(newSession(t), noon)
	other := func(change func(*session.Identity)) session.Session {
		b := session.Identity{ID: "s-1", AgentID: "agent-1"}
		change(&b)
		next, err := session.New(b, session.Definition{Name: "agent"}, session.Seed{}, noon)
		if err != nil {
			t.Fatal(err)
		}
		return session.Seal(next, noon)
	}
	fork, err := s.Fork("s-1x", "agent-1x", noon)
	if err != nil {
		t.Fatal(err)
	}
	for want, next := range map[string]session.Session{
		"":          say(t, s, "m"),
		"id":        fork,
		"kind":      other(func(b *session.Identity) { b.Kind = session.KindTask }),
		"version":   session.Seal(s, noon),
		"agentId":   other(func(b *session.Identity) { b.AgentID = "other" }),
		"tenant":    other(func(b *session.Identity) { b.Tenant = "other" }),
		"parentId":  other(func(b *session.Identity) { b.ParentID = "other" }),
		"origin":    other(func(b *session.Identity) { b.Origin = session.OriginImport }),
		"createdAt": other(func(b *session.Identity) { b.CreatedAt = noon.Add(-1e9) }),
	} {
		if have := session.ChangedIdentity(s, next); have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}

func TestZeroSession_isNull(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(session.Session{})
	if err != nil || string(raw) != "null" {
		t.Fatalf("%s, %v", raw, err)
	}
	var s session.Session
	if err := json.Unmarshal(raw, &s); err != nil || !s.IsZero() {
		t.Errorf("null was read as %+v, %v", s, err)
	}
}

func TestWith_refusesReservedMetadata(t *testing.T) {
	s, err := session.New(session.Identity{ID: "s", AgentID: "a"}, session.Definition{Name: "x"}, session.Seed{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"tasks", "holdfast.statusBeforeDeletion"} {
		for _, change := range []session.Change{session.MetadataWritten{Key: key, Value: []byte("1")}, session.MetadataRemoved{Key: key}} {
			if _, err := s.With(time.Now(), change); !errors.Is(err, session.ErrInvalid) {
				t.Errorf("%s of %s: %v", change.Kind(), key, err)
			}
		}
		seed := session.Seed{Metadata: session.Values{key: []byte("1")}}
		if _, err := session.New(session.Identity{ID: "s", AgentID: "a"}, session.Definition{Name: "x"}, seed, time.Now()); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("a seed with %s: %v", key, err)
		}
	}
}

package session_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

func TestFork_isANewSessionWithTheSameHistory(t *testing.T) {
	t.Parallel()
	s := sampleSession(t)
	s = session.Seal(apply(t, s, session.ExecutionStarted{ExecutionID: "x-2"}), noon)
	fork, err := s.Fork("s-2", "agent-2", at(100))
	if err != nil {
		t.Fatal(err)
	}
	i := fork.Info()
	if i.ID != "s-2" || i.ParentID != s.ID() || i.Origin != session.OriginFork || i.Version != 0 || i.Status != session.Active ||
		i.Name != "" || i.ExpiresAt != nil || i.Tenant != s.Tenant() || i.UserID != "ana" || !i.CreatedAt.Equal(at(100)) ||
		*i.Fork != (session.ForkPoint{Version: 2, Seq: s.Seq()}) || i.MessageCount != 3 {
		t.Errorf("header %+v", i)
	}
	have, want := fork.State(), s.State()
	if have.AgentID != "agent-2" || have.ParentAgentID != "" || have.Execution != nil {
		t.Errorf("agent %s parent %q execution %v", have.AgentID, have.ParentAgentID, have.Execution)
	}
	want.AgentID, want.ParentAgentID, want.Execution = have.AgentID, "", nil
	want.CreatedAt, want.UpdatedAt = have.CreatedAt, have.UpdatedAt
	if !reflect.DeepEqual(have, want) {
		t.Errorf("state\nhave %+v\nwant %+v", have, want)
	}
	if !reflect.DeepEqual(fork.Definition(), s.Definition()) {
		t.Error("another definition")
	}
	saved := session.Seal(fork, at(101))
	if saved.Version() != 1 || say(t, saved, "own").Len() != 4 || s.Len() != 3 {
		t.Errorf("version %d, parent has %d messages", saved.Version(), s.Len())
	}
	again, err := saved.Fork("s-3", "agent-3", at(102))
	if err != nil || again.Info().ParentID != "s-2" || again.Info().Fork.Version != 1 {
		t.Errorf("a fork of a fork: %+v (%v)", again.Info(), err)
	}
}

func TestForkedFrom_isTheAgentOfTheParent(t *testing.T) {
	t.Parallel()
	s := session.Seal(newSession(t), noon)
	fork, err := s.Fork("s-2", "agent-2", noon)
	if err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]session.Session{"agent-1": say(t, fork, "m"), "": session.Seal(fork, noon)} {
		if have := session.ForkedFrom(s); have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
	if have := session.ForkedFrom(newSession(t)); have != "" {
		t.Errorf("a session that is no fork was made of %q", have)
	}
}

func TestFork_refusesWhatIsNotSaved(t *testing.T) {
	t.Parallel()
	s := session.Seal(newSession(t), noon)
	for name, source := range map[string]session.Session{"new": newSession(t), "pending": say(t, s, "m"), "tail": session.Flush(say(t, s, "m"))} {
		if _, err := source.Fork("s-2", "agent-2", noon); err == nil {
			t.Errorf("%s: forked", name)
		} else {
			refused(t, err, "fork")
		}
	}
	_, err := s.Fork(s.ID(), "agent-2", noon)
	refused(t, err, "fork")
	_, err = s.Fork("s-2", s.AgentID(), noon)
	refused(t, err, "fork")
	_, err = s.Fork("../s", "agent-2", noon)
	refused(t, err, "id")
}

func TestRooted_refusesAPartOfATranscript(t *testing.T) {
	t.Parallel()
	s := sampleSession(t)
	head, err := session.EncodeHead(s)
	if err != nil {
		t.Fatal(err)
	}
	part, err := session.DecodeHead(head, s.Messages()[1:])
	if err != nil || !part.Partial() {
		t.Fatalf("partial %t (%v)", part.Partial(), err)
	}
	_, err = session.Detach(part)
	refused(t, err, "session")
}

func TestImported_keepsTheOldVersionInItsLog(t *testing.T) {
	t.Parallel()
	s := session.Seal(sampleSession(t), at(50))
	in, err := s.Imported("", "", "north", session.SessionImported{Format: "holdfast.session", Dropped: []string{"state.secret"}}, at(200))
	if err != nil {
		t.Fatal(err)
	}
	log := session.Unsaved(in)
	last, ok := log[len(log)-1].Change.(session.SessionImported)
	if !ok || last.Version != 2 || !last.UpdatedAt.Equal(at(50)) || !slices.Equal(last.Dropped, []string{"state.secret"}) {
		t.Errorf("the last change is %+v", log[len(log)-1])
	}
	if i := in.Info(); i.ID != "s-1" || i.Tenant != "north" || i.Origin != session.OriginImport || i.Version != 0 || !i.CreatedAt.Equal(at(0)) {
		t.Errorf("header %+v", i)
	}
	sameShown(t, in, s)
	if named, err := s.Imported("s-9", "agent-9", "", session.SessionImported{Format: "x"}, noon); err != nil || named.ID() != "s-9" || named.AgentID() != "agent-9" {
		t.Errorf("%+v (%v)", named.Info(), err)
	}
}

// A rewind is a change like any other: it can be rewound, forward too.
func TestRewound_anyVersionFromAnyOther(t *testing.T) {
	t.Parallel()
	one := session.Seal(say(t, newSession(t), "m-1"), noon)
	two, err := say(t, one, "m-2").WithMetadata("k", []byte("1"), noon)
	if err != nil {
		t.Fatal(err)
	}
	two = session.Seal(two, noon)
	three := session.Seal(apply(t, two, session.TranscriptCleared{}), noon)
	four := session.Seal(say(t, three, "m-4"), noon)

	rewind := func(from, to session.Session) session.Session {
		t.Helper()
		back, err := from.Rewound(to, noon)
		if err != nil {
			t.Fatal(err)
		}
		back = session.Seal(back, noon)
		sameMessages(t, back.Messages(), to.Messages())
		if !reflect.DeepEqual(back.Metadata(), to.Metadata()) || back.Version() != from.Version()+1 {
			t.Errorf("metadata %v version %d", back.Metadata(), back.Version())
		}
		return back
	}
	five := rewind(four, two)
	six := session.Seal(say(t, five, "m-6"), noon)
	seven := rewind(six, one)
	eight := rewind(seven, four) // forward, over a rewind
	nine := rewind(eight, six)   // to a version that was made of a rewind
	if ids := idsOf(nine); !slices.Equal(ids, []string{"m-1", "m-2", "m-6"}) {
		t.Errorf("messages %q", ids)
	}
	if ids := idsOf(say(t, nine, "m-9")); !slices.Equal(ids, []string{"m-1", "m-2", "m-6", "m-9"}) {
		t.Errorf("messages %q", ids)
	}
}

func idsOf(s session.Session) []string {
	var ids []string
	for _, m := range s.All() {
		ids = append(ids, m.ID)
	}
	return ids
}

func TestRewound_leavesStatusNameOwnerAndCounters(t *testing.T) {
	t.Parallel()
	old := session.Seal(newSession(t), noon)
	open := session.Seal(apply(t, old, session.ExecutionStarted{ExecutionID: "x"}, session.InferenceAnswered{StepID: "s", Usage: session.Usage{Input: 3}, Cost: 4}), noon)
	gone := session.Seal(apply(t, open, session.StatusChanged{Status: session.Deleted}), noon)
	now := session.Seal(apply(t, gone, session.StatusChanged{Status: session.Suspended}, session.NameChanged{Name: "kept"}), noon)
	for name, target := range map[string]session.Session{"old": old, "running": open, "deleted": gone} {
		back, err := now.Rewound(target, noon)
		if err != nil {
			t.Fatal(err)
		}
		total, spent := back.Usage()
		if back.Status() != session.Suspended || back.Info().Name != "kept" || back.InferenceCount() != 1 || total.Input != 3 || spent != 4 ||
			back.State().ExecutionCount != 1 || back.Execution() != nil || back.AgentID() != now.AgentID() {
			t.Errorf("%s: %+v %+v", name, back.Info(), back.State())
		}
		if len(back.Metadata()) != 0 {
			t.Errorf("%s: metadata %v", name, back.Metadata())
		}
	}
}

func TestRewound_refusesOtherSessions(t *testing.T) {
	t.Parallel()
	s := session.Seal(say(t, newSession(t), "m"), noon)
	fork, err := s.Fork("s-2", "agent-2", noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []session.Session{session.Seal(fork, noon), say(t, s, "pending")} {
		_, err := s.Rewound(target, noon)
		refused(t, err, "rewind")
	}
	_, err = s.Rewound(session.Seal(s, noon), noon)
	refused(t, err, "version")
}

func TestDiscarded_refusesWhatIsPartOfTheSession(t *testing.T) {
	t.Parallel()
	s := session.Seal(say(t, newSession(t), "m"), noon)
	for _, r := range [][2]int64{{1, 2}, {2, 5}, {0, 0}, {4, 3}} {
		same, err := session.DiscardTail(s, r[0], r[1], noon)
		refused(t, err, "tail_discarded")
		if same.Seq() != s.Seq() {
			t.Errorf("%v moved the session to %d", r, same.Seq())
		}
	}
}

func TestAmend_valueAndLogAgree(t *testing.T) {
	t.Parallel()
	s := session.Seal(say(t, say(t, newSession(t), "secret-1"), "open"), noon)
	s = apply(t, say(t, s, "secret-2"), session.NameChanged{Name: "n"})
	masked, err := session.Amend(s, func(c session.Change) (session.Change, error) {
		if m, ok := c.(session.MessageAdded); ok {
			m.Message.Content[0].Text = "[masked]"
			return m, nil
		}
		return c, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if masked.Message(2).Content.Text() != "[masked]" || s.Message(2).Content.Text() != "secret-2" || masked.Message(0).Content.Text() != "secret-1" {
		t.Errorf("%v", masked.Messages())
	}
	p := session.Unsaved(masked)
	if m, ok := p[0].Change.(session.MessageAdded); len(p) != 2 || !ok || m.Message.Content.Text() != "[masked]" || p[1].Seq != s.Seq() {
		t.Errorf("pending %+v", p)
	}
	if masked.Info().Name != "n" || masked.State().UpdatedAt != s.State().UpdatedAt {
		t.Errorf("%+v", masked.Info())
	}
}

package session_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

func TestDropHidden(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	var kept int64
	for i := range 10 {
		role := session.RoleUser
		if i == 1 {
			role = session.RoleSystem
		}
		var err error
		if s, err = s.WithMessage(session.Message{ID: fmt.Sprint("m", i), Role: role, Content: session.Text("hello")}, noon); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			kept = s.Seq()
		}
	}
	whole := session.Weight(s)
	shown := func(from int64) session.Session {
		t.Helper()
		w, err := s.With(noon, session.WindowMoved{To: from, Keep: []int64{kept}, Strategy: session.PruneSliding})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	few, many := shown(s.Seq()-1), shown(kept+2)
	if got := session.DropHidden(few); got.Len() != 3 || len(got.WindowMessages()) != 3 || !got.Partial() {
		t.Errorf("%d messages are left, of which %d are shown; want the 3 that the window shows", got.Len(), len(got.WindowMessages()))
	} else if w := session.Weight(got); w >= whole {
		t.Errorf("a session of 3 messages takes %d bytes, one of 10 %d", w, whole)
	}
	if got := session.DropHidden(many); got.Len() != 10 {
		t.Errorf("%d messages are left although most are shown", got.Len())
	}
	if few.Len() != 10 {
		t.Error("the session itself has changed")
	}
}

package sqlite_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// The row of a message leaves out what its columns say. A message may look as if
// that were in it, or may have a time of its own.
func TestLog_messagesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	const next = 2 // the number of the message
	stamp := fmt.Sprintf(`"seq":%d,"createdAt":%q,`, next, noon().Add(time.Microsecond).Format(time.RFC3339Nano))
	for what, c := range map[string]struct {
		message session.Message
		short   bool
	}{
		"plain":                 {session.Message{Content: session.Text("hello")}, true},
		"empty":                 {session.Message{}, true},
		"quotes in its id":      {session.Message{ID: `{"id":"` + stamp}, true},
		"an id that is a field": {session.Message{ID: `seq`}, true},
		"an id with a comma":    {session.Message{ID: `a,`}, true},
		"a number in its words": {session.Message{Content: session.Text(stamp + stamp)}, true},
		"a number in its values": {session.Message{
			Metadata: session.Values{"v": json.RawMessage(`{` + stamp + `"x":1}`)},
		}, true},
		"a time of its own": {session.Message{CreatedAt: noon().Add(-time.Hour)}, false},
		"both": {session.Message{
			CreatedAt: noon().Add(-time.Hour), Metadata: session.Values{"v": json.RawMessage(`{` + stamp + `"x":1}`)},
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
			m := c.message
			m.Role = session.RoleUser
			if m.ID == "" {
				m.ID = "m"
			}
			s := with(t, create(t, st, "s"), session.MessageAdded{Message: m})
			want := session.Unsaved(s)
			if len(want) != 1 || want[0].Seq != next || !strings.Contains(stamp, want[0].At.Format(time.RFC3339Nano)) {
				t.Fatalf("%+v is not what the test is about", want)
			}
			save(t, st, s)
			log, err := st.Log(t.Context(), ref("s"), next-1, 10)
			if err != nil || len(log) != 1 {
				t.Fatalf("read %v, %v", log, err)
			}
			if have, want := encodedRecord(t, log[0].Record), encodedRecord(t, want[0]); have != want {
				t.Errorf("read %s\nsaved %s", have, want)
			}
			n, err := st.Count(t.Context(), `SELECT count(*) FROM changes WHERE seq = 2 AND CAST(data AS TEXT) LIKE '{"id":%'`)
			if err != nil || (n == 1) != c.short {
				t.Errorf("kept short: %d, %v; want %t", n, err, c.short)
			}
			healthy(t, st)
		})
	}
}

func encodedRecord(t *testing.T, r session.Record) string {
	t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A UUID is kept in fewer bytes, but only where its spelling is not lost.
func TestCommits_idsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	const plain = "6286a267-517c-4ffa-9eb9-f1d1544cf06f"
	ids := []string{
		plain, uuid.Nil.String(), strings.ToUpper(plain), "urn:uuid:" + plain, "{" + plain + "}", strings.ReplaceAll(plain, "-", ""),
		plain + "0", "sixteen letters!", "x", "",
	}
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	s := create(t, st, "s")
	for i, id := range ids {
		var err error
		if s, err = st.Save(t.Context(), said(t, s, fmt.Sprint(i)), store.Commit{ID: id, At: noon()}); err != nil {
			t.Fatal(err)
		}
	}
	commits, err := st.Commits(t.Context(), ref("s"), 1, 100)
	if err != nil || len(commits) != len(ids) {
		t.Fatalf("read %v, %v", commits, err)
	}
	for i, c := range commits {
		if c.ID != ids[i] {
			t.Errorf("commit %q is read as %q", ids[i], c.ID)
		}
	}
	if n, err := st.Count(t.Context(), "SELECT count(*) FROM changes WHERE length(commit_uuid) = 16 AND commit_id IS NULL"); err != nil || n != 2 {
		t.Errorf("%d ids are kept short (%v), want 2", n, err)
	}
}

// What is kept of a turn is hardly more than its text.
func TestSave_takesLittleMoreRoomThanItsText(t *testing.T) {
	t.Parallel()
	const saves, length, most = 200, 1000, 1.22
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	s := create(t, st, "s")
	dice := rand.New(rand.NewPCG(1, 2))
	for range saves {
		letters := make([]byte, length)
		for i := range letters {
			letters[i] = byte('a' + dice.IntN(26))
		}
		said, err := s.WithMessage(session.Message{ID: uuid.NewString(), Role: session.RoleUser, Content: session.Text(string(letters))}, noon())
		if err != nil {
			t.Fatal(err)
		}
		if s, err = st.Save(t.Context(), said, store.Commit{ID: uuid.NewString(), Action: "say", At: noon()}); err != nil {
			t.Fatal(err)
		}
	}
	room, err := st.Count(t.Context(), "SELECT sum(pgsize) FROM dbstat WHERE name IN ('changes', 'changes_by_seq')")
	if err != nil {
		t.Fatal(err)
	}
	if ratio := float64(room) / (saves * length); ratio > most {
		t.Errorf("%.2f bytes in the file for each byte of text, want at most %.2f", ratio, most)
	} else {
		t.Logf("%.3f bytes in the file for each byte of text", ratio)
	}
}

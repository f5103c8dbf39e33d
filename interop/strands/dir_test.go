package strands_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
)

func TestLoad_thenSaveChangesNoByte(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	s, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s, chainState(t)) {
		t.Errorf("state is %+v", s)
	}
	if err := d.Save(s, nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"session.json": chainSession, "pattern_state.json": chainPattern, "spec_snapshot.yaml": "name: tea\r\n"} {
		if got := get(t, filepath.Join(string(d), name)); got != want {
			t.Errorf("%s is now\n%s", name, got)
		}
	}
}

func TestSave_isForTheOwnerAloneAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	d := sessionDir(t) // made for all to read
	put(t, filepath.Join(string(d), ".session.json.tmp"), "left by a crash")
	if err := d.Save(chainState(t), []byte("name: new")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(string(d))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", entry.Name(), info.Mode(), err)
		}
	}
	if want := []string{"pattern_state.json", "session.json", "spec_snapshot.yaml"}; !reflect.DeepEqual(names, want) {
		t.Errorf("the directory holds %v, want %v", names, want)
	}
	if info, err := os.Stat(string(d)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v (%v)", info.Mode(), err)
	}
	if spec, err := d.Snapshot(); err != nil || string(spec) != "name: new" {
		t.Errorf("snapshot is %q (%v)", spec, err)
	}
}

// At every point of a save a crash leaves the old pair, the new one, or one that
// is known to be torn; never a mixture that is taken for a state.
func TestLoad_tornPair(t *testing.T) {
	t.Parallel()
	state := func(step string) strands.State {
		s := chainState(t)
		s.Holdfast = &strands.Extension{Version: 1}
		s.Pattern.Set("current_step", json.RawMessage(step))
		return s
	}
	oldSession, oldPattern, err := state("1").Encode()
	if err != nil {
		t.Fatal(err)
	}
	newSession, newPattern, err := state("2").Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		session, pattern []byte
		step             string // "" is torn
	}{
		"before":                       {oldSession, oldPattern, "1"},
		"between":                      {oldSession, newPattern, ""},
		"after":                        {newSession, newPattern, "2"},
		"a disk that reorders renames": {newSession, oldPattern, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := sessionDir(t)
			put(t, filepath.Join(string(d), "session.json"), string(c.session))
			put(t, filepath.Join(string(d), "pattern_state.json"), string(c.pattern))
			s, err := d.Load()
			if c.step == "" {
				var corrupt *session.CorruptError
				if !errors.Is(err, strands.ErrTorn) || !errors.As(err, &corrupt) || corrupt.ID != id || corrupt.Path != filepath.Join(string(d), "pattern_state.json") {
					t.Errorf("error is %v, want a torn pair", err)
				}
				return
			}
			if step, _ := s.Pattern.Get("current_step"); err != nil || string(step) != c.step {
				t.Errorf("step is %s (%v), want %s", step, err, c.step)
			}
		})
	}
}

func TestLoad_besideAWriterIsNeverTorn(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	s := chainState(t)
	s.Holdfast = &strands.Extension{}
	if err := d.Save(s, nil); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	done := make(chan struct{})
	defer close(done)
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			s.Pattern.Set("current_step", json.RawMessage(strings.Repeat("1", 1+n%9)))
			if err := d.Save(s, nil); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 200 {
		if _, err := d.Load(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoad_saysWhatIsMissing(t *testing.T) {
	t.Parallel()
	gone := strands.Dir(filepath.Join(t.TempDir(), "session_gone"))
	var missing *session.NotFoundError
	if _, err := gone.Load(); !errors.As(err, &missing) || missing.ID != "gone" {
		t.Errorf("error is %v, want gone not found", err)
	}
	if _, err := gone.Header(); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("error is %v, want not found", err)
	}
	d := sessionDir(t)
	for name, read := range map[string]func() error{
		"pattern_state.json": func() error { _, err := d.Load(); return err },
		"spec_snapshot.yaml": func() error { _, err := d.Snapshot(); return err },
	} {
		path := filepath.Join(string(d), name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		var corrupt *session.CorruptError
		if err := read(); !errors.As(err, &corrupt) || corrupt.ID != id || corrupt.Path != path {
			t.Errorf("error is %v, want one that names %s", err, path)
		}
	}
}

func TestSave_whereAFileIsInTheWay(t *testing.T) {
	t.Parallel()
	place := filepath.Join(t.TempDir(), "session_"+id)
	put(t, place, "mine")
	d := strands.Dir(place)
	for name, err := range map[string]error{
		"save": d.Save(chainState(t), nil), "lock": second(d.Lock()), "agent": d.SaveConversation(id, conversation(t), nil),
		"files": second(d.SaveSpecFiles(nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: %v, want an error that names the session", name, err)
		}
	}
	if get(t, place) != "mine" {
		t.Error("the file was changed")
	}
}

func TestSave_aStateThatCannotBeWrittenChangesNothing(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	for name, spoil := range map[string]func(*strands.State){
		"a temperature": func(s *strands.State) { s.RuntimeConfig.Temperature = ptr(math.NaN()) },
		"a pattern":     func(s *strands.State) { s.Pattern.Set("x", json.RawMessage("{")) },
		"budgets":       func(s *strands.State) { s.RuntimeConfig.Budgets = json.RawMessage("nonsense") },
	} {
		s := chainState(t)
		spoil(&s)
		if err := d.Save(s, []byte("new")); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s that is no JSON: %v, want invalid", name, err)
		}
	}
	if s, err := d.Load(); err != nil || !reflect.DeepEqual(s, chainState(t)) {
		t.Errorf("state is %+v (%v)", s, err)
	}
	if spec, err := d.Snapshot(); err != nil || string(spec) != "name: tea\r\n" {
		t.Errorf("snapshot is %q (%v)", spec, err)
	}
}

func TestLock_hasOneHolder(t *testing.T) {
	t.Parallel()
	d := strands.Dir(filepath.Join(t.TempDir(), "session_"+id))
	unlock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	var busy *session.BusyError
	if _, err := d.Lock(); !errors.As(err, &busy) || busy.ID != id {
		t.Errorf("error is %v, want busy", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(string(d), ".lock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf(".lock has mode %v (%v)", info, err)
	}
}

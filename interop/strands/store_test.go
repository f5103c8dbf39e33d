package strands_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow"
)

// A run in a directory ends as it does elsewhere, and the files say at every
// pause what the log says.
func TestStore_runsShowInTheirFiles(t *testing.T) {
	t.Parallel()
	for name, text := range patterns {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, dir := &actor{}, t.TempDir()
			b, _, err := start(t, text, a, openStore(t, dir, strands.StoreConfig{}))
			if err != nil {
				t.Fatal(err)
			}
			sameAsFiles(t, b, dir)
			b.toTheEnd(t, a)
			sameAsFiles(t, b, dir)

			other := &actor{}
			c, _, err := start(t, text, other, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.toTheEnd(t, other)
			strip := func(st *workflow.State) string {
				st.Artifacts, st.Metadata.SpecHash = nil, ""
				return shown(t, st)
			}
			if got, want := strip(b.state(t, 0)), strip(c.state(t, 0)); got != want {
				t.Errorf("the run ended as\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func dirOf(dir string) strands.Dir { return strands.Dir(filepath.Join(dir, "session_"+id)) }

// sameAsFiles compares a session's state with its directory.
func sameAsFiles(t testing.TB, b begun, dir string) {
	t.Helper()
	files, err := dirOf(dir).Load()
	if err != nil {
		t.Fatal(err)
	}
	st := b.state(t, 0)
	head, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	pattern, err := st.Pattern.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	want, err := strands.DecodeState(head, pattern)
	if err != nil {
		t.Fatal(err)
	}
	if files.Holdfast == nil || files.Holdfast.Version != b.session(t, 0).Version() {
		t.Errorf("the files are of %+v", files.Holdfast)
	}
	want.Holdfast, files.Holdfast = nil, nil
	got, gotPattern := encode(t, files)
	if wantHead, wantPattern := encode(t, want); got != wantHead || gotPattern != wantPattern {
		t.Errorf("the files say\n%s\n%s\nwant\n%s\n%s", got, gotPattern, wantHead, wantPattern)
	}
}

func encode(t testing.TB, s strands.State) (head, pattern string) {
	t.Helper()
	rawHead, rawPattern, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(rawHead), string(rawPattern)
}

const steps = `
pattern: {type: chain, config: {steps: [
  {agent: a, input: "one"}, {type: hitl, prompt: "go on?"}, {agent: a, input: "two {{ hitl_response }}"}, {agent: b, input: "three"}]}}`

// asking is a run in a directory that waits for an answer.
func asking(t testing.TB) (begun, string, *strands.Store) {
	t.Helper()
	dir := t.TempDir()
	st := openStore(t, dir, strands.StoreConfig{})
	b, res, err := start(t, steps, &actor{}, st)
	if err != nil || res.Question == nil {
		t.Fatalf("%+v (%v)", res, err)
	}
	return b, dir, st
}

// asStrands rewrites the state as the other program does, which knows no
// extension.
func asStrands(t testing.TB, d strands.Dir, change func(s *strands.State)) {
	t.Helper()
	s, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	s.Holdfast = nil
	change(&s)
	head, pattern := encode(t, s)
	write(t, filepath.Join(string(d), "pattern_state.json"), pattern)
	write(t, filepath.Join(string(d), "session.json"), head)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const answeredAndOn = `{"current_step": 3, "step_history": [
  {"index": 0, "agent": "a", "response": "<write: one>", "tokens_estimated": 3},
  {"index": 1, "type": "hitl", "prompt": "go on?", "response": "sure", "tokens_estimated": 0},
  {"index": 2, "agent": "a", "response": "by the other", "tokens_estimated": 7}], "later": 1}`

func TestStore_takesInWhatTheOtherProgramDid(t *testing.T) {
	t.Parallel()
	b, dir, _ := asking(t)
	before := b.session(t, 0).Version()
	asStrands(t, dirOf(dir), func(s *strands.State) {
		s.Pattern, s.Metadata.Status = object(t, answeredAndOn), workflow.StatusRunning
		s.TokenUsage.TotalInput += 4
	})
	info, err := b.rt.Info(t.Context(), b.id)
	if err != nil || info.Version != before+1 || info.Workflow.Status != "running" {
		t.Errorf("the header is %+v (%v), want version %d", info, err, before+1)
	}
	a := &actor{}
	b.toTheEnd(t, a)
	if got := strings.Join(a.calls(), "; "); got != "Check|1|three" {
		t.Errorf("the models were asked %s", got)
	}
	history, _ := b.state(t, 0).Pattern.Get("step_history")
	if !strings.Contains(fmt.Sprint(history), "by the other") {
		t.Errorf("the history is %v", history)
	}
	sameAsFiles(t, b, dir)
}

func TestStore_refusesFilesThatContradictItsLog(t *testing.T) {
	t.Parallel()
	b, dir, _ := asking(t)
	asStrands(t, dirOf(dir), func(s *strands.State) {
		s.Pattern = object(t, `{"current_step": 1, "step_history": [{"index": 0, "agent": "a", "response": "no", "tokens_estimated": 3}]}`)
	})
	before := read(t, dirOf(dir), "session.json")
	_, err := workflow.Resume(t.Context(), b.rt, b.id, workflow.ResumeOptions{Host: host(&actor{}), Out: b.out, Answer: ptr("yes")})
	if !errors.Is(err, session.ErrConflict) {
		t.Errorf("resume: %v", err)
	}
	if read(t, dirOf(dir), "session.json") != before {
		t.Error("the files were overwritten")
	}
}

func read(t testing.TB, d strands.Dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(string(d), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestStore_saveMeetsFilesThatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	b, dir, st := asking(t)
	v, err := st.Load(t.Context(), store.Ref{Tenant: session.DefaultTenant, ID: b.id}, true)
	if err != nil {
		t.Fatal(err)
	}
	asStrands(t, dirOf(dir), func(s *strands.State) { s.Pattern = object(t, answeredAndOn) })
	if _, err := st.Save(t.Context(), v, store.Commit{ID: "c", At: at(1)}); !errors.Is(err, session.ErrConflict) {
		t.Errorf("save: %v", err)
	}
}

// A crash between the renames of a save, or before them, leaves files that are
// torn or old. The log has the rest.
func TestStore_writesFilesAgainThatACrashLeftBehind(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]func(t testing.TB, d strands.Dir, old map[string]string){
		"before the first rename": func(t testing.TB, d strands.Dir, old map[string]string) {
			write(t, filepath.Join(string(d), "pattern_state.json"), old["pattern_state.json"])
			write(t, filepath.Join(string(d), "session.json"), old["session.json"])
		},
		"between the renames": func(t testing.TB, d strands.Dir, old map[string]string) {
			write(t, filepath.Join(string(d), "session.json"), old["session.json"])
		},
		"a pattern state of old": func(t testing.TB, d strands.Dir, old map[string]string) {
			write(t, filepath.Join(string(d), "pattern_state.json"), old["pattern_state.json"])
		},
		"before there were files": func(t testing.TB, d strands.Dir, _ map[string]string) {
			for _, name := range []string{"session.json", "pattern_state.json"} {
				if err := os.Remove(filepath.Join(string(d), name)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, dir, _ := asking(t)
			d := dirOf(dir)
			old := map[string]string{"session.json": read(t, d, "session.json"), "pattern_state.json": read(t, d, "pattern_state.json")}
			a := &actor{}
			b.toTheEnd(t, a)
			want := shown(t, b.state(t, 0))
			crash(t, d, old)
			if got := shown(t, b.state(t, 0)); got != want {
				t.Errorf("the run reads as\n%s\nwant\n%s", got, want)
			}
			sameAsFiles(t, b, dir)
		})
	}
}

func TestStore_listsAndResumesWhatTheOtherProgramMade(t *testing.T) {
	t.Parallel()
	from, _, _ := asking(t)
	dir := t.TempDir()
	d, err := strands.Export(t.Context(), from.rt, from.id, dir, strands.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	asStrands(t, d, func(*strands.State) {})
	b := begun{rt: newRuntime(t, openStore(t, dir, strands.StoreConfig{})), id: id, out: t.TempDir()}
	page, err := b.rt.List(t.Context(), store.Query{})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != id || page.Items[0].Workflow.Status != "paused" || len(page.Corrupt) > 0 {
		t.Fatalf("the list is %+v (%v)", page, err)
	}
	if _, err := os.Stat(d.LogDir()); err == nil {
		t.Error("to list a session made a log of it")
	}
	a := &actor{}
	b.toTheEnd(t, a)
	if got := strings.Join(a.calls(), "; "); got != "Check|1|three; Write|3|two well: go on?" {
		t.Errorf("the models were asked %s", got)
	}
	sameAsFiles(t, b, dir)
	if err := b.rt.Purge(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(string(d)); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// The other program writes what it asks at once, and its state only later.
func TestStore_findsAQuestionThatIsInNoState(t *testing.T) {
	t.Parallel()
	b, dir, _ := asking(t)
	if _, err := workflow.Resume(t.Context(), b.rt, b.id, workflow.ResumeOptions{Host: host(&actor{fail: "two"}), Out: b.out, Answer: ptr("x")}); err == nil {
		t.Fatal("the model answered")
	}
	messages := filepath.Join(dirOf(dir).AgentsDir(), "session_"+id+"_b", "agents", "agent_default", "messages")
	agent := read(t, dirOf(dir), filepath.Join("agents", "session_"+id+"_a", "agents", "agent_default", "agent.json"))
	if err := os.MkdirAll(messages, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(messages, "..", "agent.json"), agent)
	write(t, filepath.Join(messages, "message_0.json"), `{"message": {"role": "user", "content": [{"text": "three, asked there"}]}, "message_id": 0}`)
	a := &actor{}
	b.toTheEnd(t, a)
	if got := strings.Join(a.calls(), "; "); !strings.Contains(got, "Write|3|two x") || strings.Count(got, "three") != 1 {
		t.Errorf("the models were asked %s", got)
	}
}

func TestStore_aRunHoldsTheLock(t *testing.T) {
	t.Parallel()
	b, dir, st := asking(t)
	r := store.Ref{Tenant: session.DefaultTenant, ID: b.id}
	l, err := st.Acquire(t.Context(), r, "me", 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dirOf(dir).Lock(); !errors.Is(err, session.ErrBusy) {
		t.Errorf("the lock of a run: %v", err)
	}
	if err := st.Release(t.Context(), r, l); err != nil {
		t.Fatal(err)
	}
	unlock, err := dirOf(dir).Lock()
	if err != nil {
		t.Fatalf("the lock of no run: %v", err)
	}
	if _, err := st.Acquire(t.Context(), r, "me", 1<<40); !errors.Is(err, session.ErrBusy) {
		t.Errorf("a session that another program has locked: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

// The files of a run that is held follow its commits, and are those of the last
// one when it is released.
func TestStore_filesOfAHeldRunFollowItsCommits(t *testing.T) {
	t.Parallel()
	b, dir, st := asking(t)
	r := store.Ref{Tenant: session.DefaultTenant, ID: b.id}
	l, err := st.Acquire(t.Context(), r, "me", 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	v, err := st.Load(t.Context(), r, false)
	if err != nil {
		t.Fatal(err)
	}
	rename := func(name string) {
		if v, err = v.With(at(1), session.NameChanged{Name: name}); err == nil {
			v, err = st.Save(t.Context(), v, store.Commit{ID: name, At: at(1), Fence: l.Token})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	written := func() int64 {
		files, err := dirOf(dir).Load()
		if err != nil || files.Holdfast == nil {
			t.Fatalf("the files: %+v, %v", files.Holdfast, err)
		}
		return files.Holdfast.Version
	}
	for i := range 5 {
		rename(fmt.Sprint("held ", i))
	}
	for deadline := time.Now().Add(time.Minute); written() != v.Version(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the files are of version %d, want %d", written(), v.Version())
		}
	}
	rename("last")
	if err := st.Release(t.Context(), r, l); err != nil {
		t.Fatal(err)
	}
	if got := written(); got != v.Version() {
		t.Errorf("the files of a released run are of version %d, want %d", got, v.Version())
	}
}

func TestStore_keepsKeysItDoesNotKnow(t *testing.T) {
	t.Parallel()
	b, dir, _ := asking(t)
	path := filepath.Join(string(dirOf(dir)), "session.json")
	raw := bytes.Replace([]byte(read(t, dirOf(dir), "session.json")), []byte(`{`), []byte(`{"newer": {"k": 1},`), 1)
	write(t, path, string(raw))
	b.toTheEnd(t, &actor{})
	if !strings.Contains(read(t, dirOf(dir), "session.json"), `"newer"`) {
		t.Error("an unknown key is gone")
	}
}

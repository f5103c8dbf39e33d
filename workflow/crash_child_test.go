package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

const (
	wholeFlag     = "crash.whole"
	crashVariable = "HOLDFAST_CRASH_WORKFLOW" // holds the job of a process that is to crash, as JSON

	lifeHeader = "X-Life" // which process of a run makes a request
	runHeader  = "X-Run"
)

// TestMain is also where processes begin that the crash tests start to kill
// them: this very binary, with a job.
func TestMain(m *testing.M) {
	if job, ok := os.LookupEnv(crashVariable); ok {
		os.Exit(crashWork(job))
	}
	flag.Bool(wholeFlag, false, "kill runs at every moment on every store, not at a sample of them")
	goleak.VerifyTestMain(m)
}

// crashJob is what a process is started for: to bring one run to its end,
// with the answers of the persons it asks.
type crashJob struct {
	Store, URL string
	Model      string // where its server is
	Session    string
	Spec       string            // for the process that starts the run
	Dir        string            // for notes, artifacts and the traces of tools
	Answers    map[string]string // by unit
	Life       int               // how many processes worked on it before
	Lease      time.Duration
	NoWait     bool // give up when another works on the run

	DieAt    string // the moment at which it kills itself
	DieWrite int    // the same for a write point of the store, counted from 1
	DieFiles files  // the same for what it leaves in Dir: as soon as there is as much
	Record   bool   // report every moment
}

// files counts what a run has left in its directory.
type files struct{ Notes, Artifacts, Temporary int }

func (f files) reached(want files) bool {
	return want != files{} && f.Notes >= want.Notes && f.Artifacts >= want.Artifacts && f.Temporary >= want.Temporary
}

// crashReport is one line that such a process tells its parent.
type crashReport struct {
	Moment  string `json:"moment,omitempty"`
	Dying   string `json:"dying,omitempty"` // its last words
	Done    bool   `json:"done,omitempty"`
	Busy    bool   `json:"busy,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// crasher is the process that does a job.
type crasher struct {
	crashJob
	rt    *holdfast.Runtime
	model llm.Model
	warn  func(string)

	mu     sync.Mutex // guards writes, and makes moments come one by one
	writes int
}

// crashWork does a job and is the exit code of the process.
func crashWork(raw string) int {
	w := &crasher{warn: func(text string) { tellParent(crashReport{Problem: text}) }}
	err := json.Unmarshal([]byte(raw), &w.crashJob)
	if err == nil {
		err = w.work(context.Background())
	}
	switch {
	case errors.Is(err, session.ErrBusy):
		tellParent(crashReport{Busy: true})
	case err != nil:
		tellParent(crashReport{Problem: err.Error()})
		return 1
	default:
		tellParent(crashReport{Done: true})
	}
	return 0
}

// work opens everything, finishes the run and closes everything.
func (w *crasher) work(ctx context.Context) (err error) {
	if w.DieFiles != (files{}) {
		go w.watch()
	}
	st, err := crashOpen(ctx, w.Store, w.URL, w.onWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if w.model, err = w.provider(); err != nil {
		return err
	}
	if w.rt, err = holdfast.New(holdfast.Config{Store: st, Lease: w.Lease}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.rt.Close()) }()
	return w.finish(ctx)
}

// provider is the model behind the recorder.
func (j crashJob) provider() (llm.Model, error) {
	return openai.New(openai.Config{
		Model: "recorded", URL: j.Model, Header: http.Header{lifeHeader: {strconv.Itoa(j.Life)}, runHeader: {j.Session}},
	})
}

// finish brings the run to its end, whatever it has come to.
func (w *crasher) finish(ctx context.Context) error {
	host := workflow.Host{
		Models: func(spec.Model) (string, llm.Model, error) { return "recorded", mortal{w.model, w.moment}, nil },
		Env:    spec.Env{Providers: []string{"recorded"}},
		Tools: func(context.Context, *spec.Spec, *spec.Snapshot) (workflow.Toolbox, error) {
			return effects{file: filepath.Join(w.Dir, effectsFile), life: w.Life, moment: w.moment}, nil
		},
		WorkDir:  w.Dir,
		OnUpdate: func(holdfast.Update) {},
		OnEvent: func(e workflow.Event) {
			if unit, ok := e.Data["unit"].(string); ok && strings.HasSuffix(string(e.Type), "_complete") {
				w.moment("unit done: " + unit)
			}
		},
		Warn: func(format string, args ...any) { w.warn(fmt.Sprintf(format, args...)) },
	}
	out := filepath.Join(w.Dir, outDir)
	res, err := w.begin(ctx, host, out)
	for err == nil && res.Status == workflow.StatusPaused {
		w.moment("paused: " + res.Question.Unit)
		q, o := *res.Question, workflow.ResumeOptions{Host: host, Out: out, NoWait: w.NoWait}
		if n := len(res.Pending); n > 1 { // not always the first in line
			q = res.Pending[n-1]
			o.Target = *q.BranchID
		}
		answer, ok := w.Answers[q.Unit]
		if !ok {
			return fmt.Errorf("nobody has an answer to %s: %q", q.Unit, q.Prompt)
		}
		o.Answer = &answer
		res, err = workflow.Resume(ctx, w.rt, w.Session, o)
	}
	switch {
	case err == nil && res.Status != workflow.StatusCompleted:
		return fmt.Errorf("the run is %s", res.Status)
	case errors.Is(err, session.ErrStatus) && res.Status == "": // a process before this one came to the end
		return nil
	}
	return err
}

// begin starts the run, or goes on with it where there is one.
func (w *crasher) begin(ctx context.Context, host workflow.Host, out string) (workflow.Result, error) {
	_, err := w.rt.Info(ctx, w.Session)
	if err == nil {
		return workflow.Resume(ctx, w.rt, w.Session, workflow.ResumeOptions{Host: host, Out: out, NoWait: w.NoWait})
	}
	if !errors.Is(err, session.ErrNotFound) {
		return workflow.Result{}, err
	}
	s, err := workflow.Load(w.Spec, nil)
	if err != nil {
		return workflow.Result{}, err
	}
	return workflow.Start(ctx, w.rt, s, workflow.RunOptions{Host: host, ID: w.Session, Out: out})
}

// onWrite is a write point of the store.
func (w *crasher) onWrite(point string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	if w.Record {
		tellParent(crashReport{Moment: writePrefix + point})
	}
	if w.writes == w.DieWrite {
		die(writePrefix + point)
	}
}

// moment is any other point to die at.
func (w *crasher) moment(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Record {
		tellParent(crashReport{Moment: name})
	}
	if name == w.DieAt {
		die(name)
	}
}

// watch kills the process as soon as it has left enough files. It looks often:
// between two files there is not much time.
func (w *crasher) watch() {
	for range time.Tick(20 * time.Microsecond) {
		if found := filesIn(w.Dir); found.reached(w.DieFiles) {
			w.mu.Lock() // the last words of a process are one line
			die(fmt.Sprintf("files: %+v", found))
		}
	}
}

var noteHead = regexp.MustCompile(`(?m)^(## |\{"timestamp")`)

// filesIn counts the files of a run.
func filesIn(dir string) (f files) {
	if raw, err := os.ReadFile(filepath.Join(dir, notesFile)); err == nil {
		f.Notes = len(noteHead.FindAll(raw, -1))
	}
	_ = filepath.WalkDir(filepath.Join(dir, outDir), func(_ string, d os.DirEntry, err error) error { // what is not there is not counted
		switch {
		case err != nil || d.IsDir():
		case strings.HasPrefix(d.Name(), ".holdfast-"):
			f.Temporary++
		default:
			f.Artifacts++
		}
		return nil
	})
	return f
}

// mortal is a model with moments to die at.
type mortal struct {
	llm.Model
	moment func(string)
}

func (m mortal) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	begun, tell := false, emit
	if emit != nil { // somebody listens
		tell = func(d llm.Delta) {
			if key := keyIn(d.Text); key != "" && !begun {
				begun = true
				m.moment("answer began: " + key)
			}
			emit(d)
		}
	}
	response, err := m.Model.Infer(ctx, r, tell)
	if err == nil {
		m.moment("answer arrived: " + keyIn(response.Content.Text()))
	}
	return response, err
}

// die ends the process at once: nothing is closed, flushed or given back.
func die(at string) {
	tellParent(crashReport{Dying: at})
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// tellParent writes one line with one system call.
func tellParent(r crashReport) {
	raw, err := json.Marshal(r)
	if err == nil {
		_, err = os.Stdout.Write(append(raw, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot report:", err)
		os.Exit(1)
	}
}

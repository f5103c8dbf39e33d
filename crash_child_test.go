package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/anthropic"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

const (
	killsFlag = "crash.kills"
	seedFlag  = "crash.seed"

	crashVariable = "HOLDFAST_CRASH_JOB" // holds the job of a process that is to crash, as JSON
)

// TestMain is also where processes begin that the crash tests start to kill
// them: this very binary, with a job.
func TestMain(m *testing.M) {
	if job, ok := os.LookupEnv(crashVariable); ok {
		os.Exit(crashWork(job))
	}
	flag.Int(killsFlag, 0, "kills at random moments per store (0: a few)")
	flag.Uint64(seedFlag, 0, "seed of the random moments (0: a new one)")
	goleak.VerifyTestMain(m)
}

// crashJob is what a process is started for: to bring one session's turn to
// its end.
type crashJob struct {
	Store, URL      string
	Provider, Model string // which protocol, and where its server is
	Session         string // its id, and its tenant: nobody recovers another's
	Life            int    // how many processes worked on it before
	Effects         string // the file in which tools leave traces
	TakeUp          takeUp
	Lease           time.Duration

	DieAt    string // the moment at which it kills itself
	DieWrite int    // the same for a write point, counted from 1
	Record   bool   // report every moment
}

// takeUp is how a process takes up a turn that may have been begun.
type takeUp string

const (
	byKey      takeUp = "key"      // it sends the message again, with its key
	byContinue takeUp = "continue" // it continues the session, or sends the message if there is nothing to
	byRecover  takeUp = "recover"  // it recovers all sessions first

	onlyContinue takeUp = "only continue" // it continues at once or not at all
	onlyRecover  takeUp = "only recover"  // it recovers what is nobody's
)

// crashReport is one line that such a process tells its parent.
type crashReport struct {
	Ready   bool   `json:"ready,omitempty"`
	Moment  string `json:"moment,omitempty"`
	Dying   string `json:"dying,omitempty"` // its last words
	Done    bool   `json:"done,omitempty"`
	Busy    bool   `json:"busy,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// crasher is the process that does a job.
type crasher struct {
	crashJob
	rt *holdfast.Runtime

	mu     sync.Mutex // guards writes, and makes moments come one by one
	writes int
}

// crashWork does a job and is the exit code of the process.
func crashWork(raw string) int {
	w := &crasher{}
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

// work opens everything, finishes the turn and closes everything.
func (w *crasher) work(ctx context.Context) (err error) {
	st, err := crashOpen(ctx, w.Store, w.URL, w.onWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	model, err := w.model()
	if err != nil {
		return err
	}
	var tools []tool.Tool
	for _, spec := range crashTools {
		tools = append(tools, effect{spec: spec, file: w.Effects, life: w.Life, moment: w.moment})
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		return err
	}
	retries := 0
	rt, err := holdfast.New(holdfast.Config{
		Store: st, Models: llm.Map{crashAgent.Model: model}, Tools: set, Lease: w.Lease, ModelRetries: &retries, Poll: 20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	w.rt = rt.For(holdfast.Identity{Tenant: w.Session})
	tellParent(crashReport{Ready: true})
	return w.takeUp(ctx)
}

// takeUp brings the turn to its end in the way it was told.
func (w *crasher) takeUp(ctx context.Context) error {
	stream := holdfast.Stream(func(llm.Delta) {})
	send := holdfast.SendMessage{Text: crashPrompt(w.Session)}
	switch w.TakeUp {
	case byKey:
		_, err := w.rt.Execute(ctx, w.Session, send, holdfast.IdempotencyKey("turn "+w.Session), stream)
		return err
	case onlyContinue:
		_, err := w.rt.Execute(ctx, w.Session, holdfast.ContinueExecution{}, holdfast.OnBusy(holdfast.Reject), stream)
		return err
	case byRecover, onlyRecover:
		done, err := w.rt.Recover(ctx)
		for _, r := range done {
			err = errors.Join(err, r.Err)
		}
		if err == nil && len(done) == 0 && w.TakeUp == onlyRecover {
			err = session.ErrBusy // it was in other hands: nothing to recover
		}
		if err != nil || w.TakeUp == onlyRecover {
			return err
		}
	}
	s, err := w.rt.Get(ctx, w.Session, holdfast.WithTail())
	switch {
	case err != nil:
	case s.Running() || s.HasTail():
		_, err = w.rt.Execute(ctx, w.Session, holdfast.ContinueExecution{}, stream)
	case s.State().ExecutionCount == 0:
		_, err = w.rt.Execute(ctx, w.Session, send, stream)
	}
	return err
}

func (w *crasher) model() (llm.Model, error) {
	var m llm.Model
	var err error
	header := http.Header{lifeHeader: {strconv.Itoa(w.Life)}}
	if w.Provider == "anthropic" {
		m, err = anthropic.New(anthropic.Config{Model: "recorded", URL: w.Model, Header: header})
	} else {
		m, err = openai.New(openai.Config{Model: "recorded", URL: w.Model, Header: header})
	}
	return mortal{Model: m, moment: w.moment}, err
}

// mortal is a model with moments to die at.
type mortal struct {
	llm.Model
	moment func(string)
}

func (m mortal) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	step := r.Inference + 1
	begun := false
	response, err := m.Model.Infer(ctx, r, func(d llm.Delta) {
		if !begun {
			begun = true
			m.moment(fmt.Sprint("answer began: ", step))
		}
		if emit != nil {
			emit(d)
		}
	})
	if err == nil {
		m.moment(fmt.Sprint("answer arrived: ", step))
	}
	return response, err
}

// onWrite is a write point of the store.
func (w *crasher) onWrite(point string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	if w.Record {
		tellParent(crashReport{Moment: "write " + point})
	}
	if w.writes == w.DieWrite {
		die("write " + point)
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

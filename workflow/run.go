package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// run is one pass of a pattern's program over a spec. Without a stage it only
// looks at what the book has; on a stage it does what is missing.
type run struct {
	id    string
	spec  *spec.Spec
	snap  *spec.Snapshot
	vars  spec.Map[string]
	base  template.Scope
	warn  func(format string, args ...any)
	stage *stage // nil: looking only

	reply    *reply    // an answer to be tried, when looking
	recorder *Recorder // adds to the book what was done elsewhere, when looking
	trail    []trace   // what was done, in the order of the program, when looking

	reached []trace // what was begun and came to no end, when looking

	mu    sync.Mutex // guards what follows
	book  *book
	asks  []question // those the program came to, in its order
	first error      // the first failure: nothing new begins after it
}

// reply is an answer before anybody has taken it.
type reply struct {
	unit, text string
	expired    bool // it is nobody's: only what it decides counts, not its form
	refused    error
}

// program is what a pattern does. It asks for units and answers in an order
// that depends on the spec and on results alone.
type program interface {
	// run goes on as far as it can. The error may be one of those below.
	run(ctx context.Context, r *run) (final, error)
	// state is the pattern_state as far as run has come.
	state() spec.Map[any]
	// scope is what artifacts can see of it.
	scope() template.Scope
}

// final is what a run has come to.
type final struct {
	text, agent string
}

var (
	errPending = errors.New("there is more to do") // looking, and the book has no more
	errWaiting = errors.New("a person is asked")
	errStopped = errors.New("another unit has failed")
)

// unfinished reports the end of a program that has not come to its end.
func unfinished(err error) bool {
	return errors.Is(err, errPending) || errors.Is(err, errWaiting) || errors.Is(err, errStopped)
}

// newRun reads the spec of a run out of its book.
func newRun(id string, b *book) (*run, error) {
	snap := &spec.Snapshot{}
	if err := json.Unmarshal(b.spec, snap); err != nil {
		return nil, &session.CorruptError{ID: id, Path: "log", Reason: fmt.Sprintf("the spec cannot be read: %v", err)}
	}
	var vars spec.Map[string]
	for _, v := range b.begun.Variables {
		vars = vars.With(v.Name, v.Value)
	}
	s, err := spec.Loader{Lenient: true}.Parse(snap.Source(), vars)
	if err != nil {
		return nil, err
	}
	return newRunOf(id, b, s, snap, vars)
}

func newRunOf(id string, b *book, s *spec.Spec, snap *spec.Snapshot, vars spec.Map[string]) (*run, error) {
	r := &run{id: id, spec: s, snap: snap, vars: vars, book: b, base: template.Scope{}, warn: func(string, ...any) {}}
	for _, in := range s.Inputs.Values {
		v, err := template.From(in.Value)
		if err != nil {
			return nil, &session.InvalidError{Field: "inputs." + in.Name, Reason: err.Error()}
		}
		r.base[in.Name] = v
	}
	return r, nil
}

func (r *run) program() program {
	switch p := r.spec.Pattern; {
	case p.Chain != nil:
		return newChain(p.Chain)
	case p.Workflow != nil:
		return newDAG(p.Workflow)
	case p.Routing != nil:
		return newRouting(p.Routing)
	case p.Parallel != nil:
		return newParallel(p.Parallel)
	case p.Evaluator != nil:
		return newEvaluator(p.Evaluator)
	case p.Orchestrator != nil:
		return newOrchestrator(p.Orchestrator)
	case p.Graph != nil:
		return newGraph(p.Graph)
	}
	return misfit{}
}

// misfit is a pattern that Check would have refused.
type misfit struct{}

func (misfit) run(context.Context, *run) (final, error) {
	return final{}, errors.New("the pattern has no config of its shape")
}
func (misfit) state() spec.Map[any]  { return spec.Map[any]{} }
func (misfit) scope() template.Scope { return nil }

// single reports a chain or workflow of one agent's step: its state is empty
// once it is done.
func (r *run) single() bool {
	switch p := r.spec.Pattern; {
	case p.Chain != nil:
		return len(p.Chain.Steps) == 1 && p.Chain.Steps[0].Ask == nil
	case p.Workflow != nil:
		return len(p.Workflow.Tasks) == 1 && p.Workflow.Tasks[0].Ask == nil
	}
	return false
}

// replay has the program look at what the book has. Its error says how far it
// came.
func (r *run) replay(ctx context.Context) (program, final, error) {
	p := r.program()
	end, err := p.run(context.WithoutCancel(ctx), r)
	return p, end, err
}

// scopeWith is the base and more, where a later name wins.
func (r *run) scopeWith(more ...template.Scope) template.Scope {
	all := template.Scope{}
	for name, v := range r.base {
		all[name] = v
	}
	for _, m := range more {
		for name, v := range m {
			all[name] = v
		}
	}
	return all
}

// render fills a text of the spec in.
func (r *run) render(pointer, text string, scope template.Scope) (string, error) {
	t, err := template.Compile(pointer, text)
	if err != nil {
		return "", err
	}
	return t.Render(scope)
}

// value is something made here as templates see it.
func value(v any) template.Value {
	raw, err := json.Marshal(v)
	if err == nil {
		var made template.Value
		if made, err = template.ParseJSON(raw); err == nil {
			return made
		}
	}
	panic(fmt.Sprintf("workflow: %T is no value for templates: %v", v, err)) // maps of strings, numbers and lists always are
}

// values are the variables of a step.
func values(vars spec.Map[any]) template.Scope {
	scope := template.Scope{}
	for _, v := range vars {
		made, err := template.From(v.Value)
		if err != nil { // the loader takes strings, numbers and booleans only
			panic(fmt.Sprintf("workflow: %T is no value for templates: %v", v.Value, err))
		}
		scope[v.Name] = made
	}
	return scope
}

// done is a unit that is finished.
func (r *run) done(key string) (*entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.book.units[key]
	return e, e != nil && e.done
}

// unit is a piece of work for an agent.
type unit struct {
	key, agent, lane string
	event            EventType // that it starts; empty: a step
	complete         EventType
	data             map[string]any // of its events
	input            func() (string, error)
	tools            []string // instead of the agent's own
	earlier          []string // units whose exchanges the agent remembers, in order
	number           int      // in notes; 0: the ordinal of the call
	source           any      // what its spec says about it
	read             func(text string) (json.RawMessage, error)
}

// maxKey is how long the name of a unit may be, which stands in every change
// of it.
const maxKey = 512

// UnitKey returns the name of a unit that has an id of the spec in it. A very
// long id is cut, and its hash tells it from others.
func UnitKey(before, id, after string) string {
	if len(before)+len(id)+len(after) > maxKey {
		id = strings.ToValidUTF8(id[:maxKey/2], "") + "~" + spec.Hash([]byte(id))
	}
	return before + id + after
}

// The lanes of an agent: it remembers nothing of another lane. Each worker of an
// orchestrator has one, named like its unit.
const (
	LaneMain   = "main"
	LaneRouter = "router"
)

// work brings a unit to its end: out of the book, or on the stage. When read
// cannot read the answer the entry has no value.
func (r *run) work(ctx context.Context, u unit) (*entry, error) {
	if r.recorder != nil {
		r.recorder.unit(u)
	}
	e, ok := r.done(u.key)
	switch {
	case ok && r.stage == nil:
		r.trail = append(r.trail, r.traceOf(u))
		return e, nil
	case ok:
		return e, nil
	case r.stage == nil:
		if e != nil && len(e.messages) > 0 {
			r.reached = append(r.reached, r.traceOf(u))
		}
		return nil, errPending
	}
	e, err := r.stage.work(ctx, r, u)
	if err != nil && !errors.Is(err, errStopped) {
		r.mu.Lock()
		if r.first == nil {
			r.first = err
		}
		r.mu.Unlock()
	}
	return e, err
}

// failed is the first failure.
func (r *run) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first
}

// each does n things, up to limit of them at the same time (0: all), in the
// order of their numbers. Looking, one after the other.
func (r *run) each(n, limit int, do func(i int) error) []error {
	errs := make([]error, n)
	if r.stage == nil || n == 1 {
		for i := range n {
			errs[i] = do(i)
		}
		return errs
	}
	if limit <= 0 || limit > n {
		limit = n
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range limit {
		wg.Go(func() {
			for i := range next {
				errs[i] = do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return errs
}

// worst is the error that decides what becomes of a pass: a failure before a
// question before an unfinished unit.
func worst(errs []error) error {
	var found error
	for _, err := range errs {
		switch {
		case err == nil:
		case !unfinished(err):
			return err
		case found == nil, errors.Is(err, errWaiting):
			found = err
		}
	}
	return found
}

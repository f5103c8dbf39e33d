package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// run is one execution of a pattern's program over a spec. Without a runner it
// only replays what the index has; with one it does what is missing.
type run struct {
	id   string
	spec *spec.Spec
	snap *spec.Snapshot
	vars spec.Map[string]
	base template.Scope
	warn func(format string, args ...any)

	runner *runner // nil: the run only replays

	// Of a run that only replays.
	trial    *trial          // an answer to check
	recorder *Recorder       // adds to the index what was done elsewhere
	finished []source        // what is finished, in the order of the program
	started  []source        // what was started and is not finished
	reached  []reached       // units and questions that the log has, in the order of the program
	came     map[string]bool // to their keys
	at       []member        // what the program is in at present

	mu      sync.Mutex // guards what follows
	index   *index
	units   int      // that the pattern has, once it was counted
	prompts []prompt // those the program reached, in its order
	failure error    // the first one: nothing new begins after it
}

// program is what a pattern does. It asks for units and answers in an order
// that depends only on the spec and on results.
type program interface {
	// run continues as far as it can. The error may be one of those below.
	run(ctx context.Context, r *run) (final, error)
	// state returns the pattern_state as far as run has come.
	state() spec.Map[any]
	// scope returns what artifacts can see of it.
	scope() template.Scope
}

// final is the last response of a run.
type final struct {
	text, agent string
}

var (
	errUnfinished = errors.New("there is more to do")      // replaying, and the index has no more
	errWaiting    = errors.New("a response is waited for") // to a question, or to a call within a unit
	errStopped    = errors.New("another unit has failed")
)

// unfinished reports an error that says only that there is more to do.
func unfinished(err error) bool {
	return errors.Is(err, errUnfinished) || errors.Is(err, errWaiting) || errors.Is(err, errStopped)
}

// readRun indexes a run that was read whole, with the spec in force.
func readRun(s session.Session) (*run, error) {
	x, err := readIndex(s)
	if err != nil {
		return nil, err
	}
	snap := &spec.Snapshot{}
	if err := json.Unmarshal(x.spec, snap); err != nil {
		return nil, &session.CorruptError{ID: s.ID(), Path: "log", Reason: fmt.Sprintf("the spec cannot be read: %v", err)}
	}
	var vars spec.Map[string]
	for _, v := range x.begun.Variables {
		vars = vars.With(v.Name, v.Value)
	}
	made, err := spec.Loader{Lenient: true}.Parse(snap.Source(), vars)
	if err != nil {
		return nil, err
	}
	return newRun(s.ID(), x, made, snap, vars)
}

func newRun(id string, x *index, s *spec.Spec, snap *spec.Snapshot, vars spec.Map[string]) (*run, error) {
	r := &run{id: id, spec: s, snap: snap, vars: vars, index: x, base: template.Scope{}, came: map[string]bool{}, warn: func(string, ...any) {}}
	for _, in := range s.Inputs.Values {
		v, err := template.From(in.Value)
		if err != nil {
			return nil, &session.InvalidError{Field: "inputs." + in.Name, Reason: err.Error()}
		}
		r.base[in.Name] = v
	}
	return r, nil
}

// replayer returns a run that only replays what this one has done.
func (r *run) replayer() *run {
	return &run{id: r.id, spec: r.spec, snap: r.snap, vars: r.vars, base: r.base, index: r.index, came: map[string]bool{}, warn: func(string, ...any) {}}
}

// replay runs the program over what the index has. The error says how far it
// came.
func (r *run) replay(ctx context.Context) (program, final, error) {
	p := r.program()
	end, err := p.run(context.WithoutCancel(ctx), r)
	return p, end, err
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
	return noProgram{}
}

// noProgram is used for a pattern that Check would have refused.
type noProgram struct{}

func (noProgram) run(context.Context, *run) (final, error) {
	return final{}, errors.New("the pattern has no config of its shape")
}

func (noProgram) state() spec.Map[any] { return spec.Map[any]{} }

func (noProgram) scope() template.Scope { return nil }

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

// scopeWith returns the base and more, where a later name wins.
func (r *run) scopeWith(more ...template.Scope) template.Scope {
	return merge(append([]template.Scope{r.base}, more...)...)
}

// merge returns all names of several scopes, where a later one wins.
func merge(scopes ...template.Scope) template.Scope {
	all := template.Scope{}
	for _, s := range scopes {
		maps.Copy(all, s)
	}
	return all
}

// render fills in a text of the spec.
func (r *run) render(pointer, text string, scope template.Scope) (string, error) {
	t, err := template.Compile(pointer, text)
	if err != nil {
		return "", err
	}
	return t.Render(scope)
}

// value returns something made here as templates see it.
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

// values returns the variables of a step.
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

// unit is a piece of work for an agent.
type unit struct {
	key, agent, lane string
	event            EventType // that it starts; empty: a step
	complete         EventType
	data             UnitData // of its events
	input            func() (string, error)
	tools            []string // instead of the agent's own
	earlier          []string // units whose exchanges the agent remembers, in order
	number           int      // in notes; 0: the ordinal of the call
	source           any      // what its spec says about it
	read             func(text string) (json.RawMessage, error)
}

// maxKey is how long the name of a unit may be, which is in every change of it.
const maxKey = 512

// UnitKey returns the name of a unit that contains an id of the spec. A very
// long id is cut, and its hash makes it unique.
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

// work brings a unit to its end: from the index, or with the runner. When
// u.read cannot read the answer the entry has no value.
func (r *run) work(ctx context.Context, u unit) (*entry, error) {
	if r.recorder != nil {
		r.recorder.unit(u)
	}
	e, ok := r.done(u.key)
	if e != nil {
		r.reach(u.key, u.read)
	}
	switch {
	case ok && r.runner == nil:
		r.finished = append(r.finished, r.sourceOf(u))
		return e, nil
	case ok:
		return e, nil
	case r.runner == nil:
		if e != nil && len(e.messages) > 0 {
			r.started = append(r.started, r.sourceOf(u))
		}
		return nil, errUnfinished
	}
	e, err := r.runner.work(ctx, r, u)
	if err != nil && !errors.Is(err, errStopped) && !errors.Is(err, errWaiting) {
		r.mu.Lock()
		if r.failure == nil {
			r.failure = err
		}
		r.mu.Unlock()
	}
	return e, err
}

// done finds a unit and reports whether it is finished.
func (r *run) done(key string) (*entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.index.units[key]
	return e, e != nil && e.done
}

// begun finds a unit and reports whether it has its input.
func (r *run) begun(key string) (e *entry, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e = r.index.unit(key)
	_, begun = e.input()
	return e, begun
}

// system returns the prompt that the agent of a unit has in its lane.
func (r *run) system(u unit) (prompt string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	prompt, known = r.index.systems[conversation(u.agent, u.lane)]
	return prompt, known
}

// failed returns the first failure.
func (r *run) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// each does n things, up to most of them at the same time (nil: all), in the
// order of their numbers; one after the other where the run only replays.
func (r *run) each(n int, most *int, do func(i int) error) []error {
	errs := make([]error, n)
	if r.runner == nil {
		group := len(r.reached)
		for i := range n {
			r.at = append(r.at, member{group, i})
			errs[i] = do(i)
			r.at = r.at[:len(r.at)-1]
		}
		return errs
	}
	limit := n
	if most != nil && *most > 0 {
		limit = min(n, *most)
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

// worst returns the error that decides how an attempt ends: a failure before a
// wait before an unfinished unit.
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

package replay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// tape has the recorded results of a replay.
type tape struct {
	run     []string // tools that run all the same
	pending map[string]session.PendingCall
	names   []string // of recorded tools that gave a result that is no error

	mu      sync.Mutex
	results map[string][]Call // by tool and arguments, those not yet used; the last one stays; guarded by mu
	sources map[string]Source // by call id; guarded by mu
}

func newTape(r *Recording, run []string) *tape {
	t := &tape{run: run, pending: r.pending, results: map[string][]Call{}, sources: map[string]Source{}}
	for _, turn := range r.Turns {
		for _, c := range turn.Calls {
			key := keyOf(c.Tool, c.Arguments)
			t.results[key] = append(t.results[key], c)
			if !c.IsError && session.ToolName.MatchString(c.Tool) && !slices.Contains(t.names, c.Tool) {
				t.names = append(t.names, c.Tool)
			}
		}
	}
	return t
}

// keyOf returns what makes two calls the same: the tool, and what its arguments
// mean.
func keyOf(name string, arguments json.RawMessage) string {
	return name + " " + string(canonical(arguments))
}

// canonical returns JSON in the one form that equal values have.
func canonical(raw json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return raw
	}
	same, err := json.Marshal(value)
	if err != nil {
		return raw
	}
	return same
}

// has reports whether a call gets a recorded result.
func (t *tape) has(name string, arguments json.RawMessage) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.Contains(t.run, name) && len(t.results[keyOf(name, arguments)]) > 0
}

// take returns the next recorded result of a call.
func (t *tape) take(name string, arguments json.RawMessage) (Call, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := keyOf(name, arguments)
	left := t.results[key]
	if len(left) == 0 || slices.Contains(t.run, name) {
		return Call{}, false
	}
	if len(left) > 1 {
		t.results[key] = left[1:]
	}
	return left[0], true
}

func (t *tape) note(callID string, s Source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources[callID] = s
}

func (t *tape) sourceOf(callID string) Source {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sources[callID]
}

// cover puts recorded results in front of tools. Recorded tools that are not here
// are offered too, without a description.
func (t *tape) cover(tools func(context.Context, session.Session) (tool.Set, error)) func(context.Context, session.Session) (tool.Set, error) {
	return func(ctx context.Context, s session.Session) (tool.Set, error) {
		set, err := tools(ctx, s)
		if err != nil {
			return set, err
		}
		var all []tool.Tool
		for _, inner := range set.All() {
			all = append(all, recordedTool{tape: t, inner: inner, spec: inner.Spec()})
		}
		for _, name := range t.names {
			if _, here := set.Get(name); !here {
				all = append(all, recordedTool{tape: t, spec: tool.Spec{Name: name, Parallel: true}})
			}
		}
		return tool.NewSet(all...)
	}
}

// recordedTool is a tool whose calls get recorded results.
type recordedTool struct {
	tape  *tape
	inner tool.Tool // nil: it is not here
	spec  tool.Spec
}

// Spec is that of the tool. Nobody else carries out its calls.
func (r recordedTool) Spec() tool.Spec {
	spec := r.spec
	spec.Runner = tool.ByProgram
	return spec
}

// runs reports whether the tool itself may be called where nothing is recorded.
func (r recordedTool) runs() bool {
	return r.inner != nil && r.spec.Runner == tool.ByProgram &&
		(r.spec.Nature == tool.ReadOnly || slices.Contains(r.tape.run, r.spec.Name))
}

// Call returns the recorded result.
func (r recordedTool) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	recorded, found := r.tape.take(r.spec.Name, c.Arguments)
	switch {
	case found && recorded.Waiting:
		r.tape.note(c.ID, Recorded)
		return tool.Result{Pending: r.waits(recorded)}, nil
	case found:
		r.tape.note(c.ID, Recorded)
		return tool.Result{Content: recorded.Result, IsError: recorded.IsError}, nil
	case r.runs():
		r.tape.note(c.ID, Ran)
		return r.inner.Call(ctx, c)
	}
	r.tape.note(c.ID, Refused)
	return tool.Result{Content: "not run: this is a replay, and the recording has no result of such a call", IsError: true}, nil
}

// waits returns what a call waits for that waited in the recording.
func (r recordedTool) waits(recorded Call) *session.PendingCall {
	p := r.tape.pending[recorded.id]
	kinds := map[tool.Runner]session.PendingKind{tool.ByClient: session.PendingResult, tool.ByPerson: session.PendingQuestion}
	return &session.PendingCall{
		Kind: cmp.Or(p.Kind, kinds[r.spec.Runner], session.PendingApproval), Prompt: p.Prompt, Context: p.Context, Diff: p.Diff, Choices: p.Choices,
	}
}

// gate asks for permission only where a tool would run.
type gate struct{ inner agent.Gate } // nil: every call runs

// Admit lets calls have their recorded results. Nobody can be asked about others.
func (g gate) Admit(ctx context.Context, s session.Session, call agent.Call) (agent.Admission, error) {
	t, ok := call.Tool.(recordedTool)
	if !ok || g.inner == nil || !t.runs() || t.tape.has(call.Name, call.Arguments) {
		return agent.Admission{}, nil
	}
	call.Tool = t.inner
	a, err := g.inner.Admit(ctx, s, call)
	if err != nil || a.Pending == nil {
		if a.Refusal != nil {
			t.tape.note(call.ID, Refused)
		}
		return a, err
	}
	t.tape.note(call.ID, Refused)
	return agent.Admission{Refusal: &tool.Result{Content: "not run: this is a replay, and the call would need an approval", IsError: true}}, nil
}

// Responded keeps nothing.
func (g gate) Responded(context.Context, session.Session, session.PendingCall, session.Response) ([]session.Change, error) {
	return nil, nil
}

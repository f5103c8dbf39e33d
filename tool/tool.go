// Package tool is the contract between the agent loop and what an agent can do.
package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Nature says what happens when a call runs twice. It decides what a resumed
// execution does with a call that was running when the process died.
type Nature string

// The natures of tools.
const (
	Once       Nature = ""           // running it twice may do harm: never run again unasked
	Idempotent Nature = "idempotent" // running it twice with one call id is as running it once
	ReadOnly   Nature = "read_only"  // changes nothing
)

// Spec describes a tool. Schema is the JSON Schema of its arguments, an
// object; nil takes any object.
type Spec struct {
	Name        string
	Description string
	Schema      json.RawMessage
	Nature      Nature
	Timeout     time.Duration // 0: none of its own

	// Parallel says that a call may run at the same time as other calls of one
	// answer. A read-only tool always may.
	Parallel bool

	Runner  Runner
	Effects Effects // what a call does to the world, for permissions; none: unknown
	Deep    bool    // a call reads everything below the folder it names, or below the workspace
	Server  string  // of an MCP tool

	// Provider names the service behind a tool that has several; failures may
	// be the provider's alone.
	Provider string
	// Deferred says that a task offers the tool only once a search found it.
	Deferred bool

	// Diff shows what a call would change, as a unified diff, to the person who
	// is asked about it. It changes nothing. Nil: the arguments say it all.
	Diff func(ctx context.Context, c Call) (string, error)
}

// Runner says who carries out a call.
type Runner string

// The runners. Calls that a client or a person carries out wait, outside any
// process, until the response is there.
const (
	ByProgram Runner = ""       // Call
	ByClient  Runner = "client" // the program of whoever sent the request
	ByPerson  Runner = "person" // somebody who answers the question
)

// Concurrent reports whether a call may run at the same time as others.
func (s Spec) Concurrent() bool { return s.Parallel || s.Nature == ReadOnly }

// Call is one call of a tool. ID stays the same when it runs again after a crash.
type Call struct {
	ID        string
	SessionID string
	Arguments json.RawMessage
}

// Result is what a tool answers. The model sees an error result and may try
// something else.
type Result struct {
	Content string
	IsError bool

	// Of a tool that ran an agent: its session and what it used, which counts
	// in the budget of the one that called it.
	ChildSessionID string
	Spent          *session.Spent

	// Pending says that there is no result yet: the call waits for a response.
	Pending *session.PendingCall
}

// Tool does something for an agent. It is safe for concurrent use.
type Tool interface {
	Spec() Spec
	// Call runs the tool. An error becomes an error result for the model.
	Call(ctx context.Context, c Call) (Result, error)
}

// Checker is a Tool that can say beforehand that it does not take arguments, so
// that nobody is asked to approve a call that cannot run.
type Checker interface {
	CheckArguments(arguments json.RawMessage) error
}

// Set is an immutable list of tools with distinct names.
type Set struct{ tools []Tool }

// NewSet collects tools in order. Two of one name, or a name no provider
// takes, is an InvalidError.
func NewSet(tools ...Tool) (Set, error) {
	var s Set
	for _, t := range tools {
		name := t.Spec().Name
		if !session.ToolName.MatchString(name) {
			return Set{}, &session.InvalidError{Field: "tool", Reason: fmt.Sprintf("name %q is not 1 to 64 letters, digits, hyphens or underscores", name)}
		}
		if _, ok := s.Get(name); ok {
			return Set{}, &session.InvalidError{Field: "tool", Reason: fmt.Sprintf("%q is there twice", name)}
		}
		s.tools = append(s.tools, t)
	}
	return s, nil
}

// Get finds a tool by name.
func (s Set) Get(name string) (Tool, bool) {
	for _, t := range s.tools {
		if t.Spec().Name == name {
			return t, true
		}
	}
	return nil, false
}

// All lists the tools.
func (s Set) All() []Tool { return slices.Clone(s.tools) }

// Names lists the names in order.
func (s Set) Names() []string {
	names := make([]string, len(s.tools))
	for i, t := range s.tools {
		names[i] = t.Spec().Name
	}
	return names
}

// Select keeps what names lists, in the set's order (nil: all), without what
// deny lists.
func (s Set) Select(names, deny []string) Set {
	var kept Set
	for _, t := range s.tools {
		name := t.Spec().Name
		if (names == nil || slices.Contains(names, name)) && !slices.Contains(deny, name) {
			kept.tools = append(kept.tools, t)
		}
	}
	return kept
}

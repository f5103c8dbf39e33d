// Package protocol is what the protocols of other programs share: what a server
// does for their requests, and how a turn of a session is begun and followed.
// Each protocol has a package of its own below this one, which only translates.
package protocol

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
)

// Host is the server of a protocol.
type Host interface {
	// Call returns what a request may do. The request is authenticated and within
	// the limits of its key.
	Call(r *http.Request) *Call
	// Agents are the names of agents, and their definitions.
	Agents() []string
	Agent(name string) (session.Definition, error)
	Models() []string
	// Problem returns an error as the server reports it.
	Problem(ctx context.Context, err error) *problem.Problem
}

// Protocol answers requests in the way of another program.
type Protocol interface {
	// Prefix is the path of all its routes, such as /openai/.
	Prefix() string
	// Routes are all its routes.
	Routes() []Route
	// WriteProblem writes an error as its clients read it, also of a request that
	// reaches no route.
	WriteProblem(w http.ResponseWriter, p *problem.Problem)
}

// Call is one request: who makes it, and what the server does for it.
type Call struct {
	apikey.Key
	Runtime *holdfast.Runtime
	Now     func() time.Time

	// Follow follows a session as Runtime.Follow does, with the pieces of answers
	// from the node that works on it, until the context ends.
	Follow func(ctx context.Context, id string, after int64) <-chan Update
	// Begin carries out fn, also when the caller goes away, until the server ends.
	// It returns when the first change is saved: then the channel is closed when
	// fn has ended. Without a channel, fn has ended with the error. Queued says that
	// nobody waits for the answer: then it may wait for a slot.
	Begin func(ctx context.Context, id string, queued bool, fn func(context.Context) error) (<-chan error, error)
	// OpenStream counts an event stream. The caller ends it with done.
	OpenStream func() (done func(), err error)
	// Drain is closed when the server ends.
	Drain <-chan struct{}

	Heartbeat time.Duration // of a silent event stream
	WriteWait time.Duration // how long a reader may take for one event
}

// Update is what Follow yields.
type Update struct {
	holdfast.Update
	Err error
}

// Invalid refuses a field of a request.
func Invalid(field, reason string) error { return &session.InvalidError{Field: field, Reason: reason} }

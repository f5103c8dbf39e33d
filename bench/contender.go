package main

import (
	"context"
	"fmt"
)

// Contender is a library that keeps sessions.
type Contender struct {
	Name    string `json:"name"`
	Version string `json:"version"`

	// open makes an empty system. errors.ErrUnsupported: the library has none for
	// this store.
	open func(context.Context, place) (system, error)
}

// place is where a contender keeps its sessions.
type place struct {
	store  string
	file   string // the database, on SQLite
	url    string // of a schema of its own, on PostgreSQL
	schema string // its name
	answer string // what the model says
}

// The stores, as the command line and the report name them.
const (
	storeSQLite   = "SQLite"
	storePostgres = "PostgreSQL"
)

// user owns all sessions.
const user = "user"

// system is one contender on one store. Whatever it writes is durable when the call
// returns.
type system interface {
	// create makes an empty session.
	create(ctx context.Context, id string) (conversation, error)
	// load reads a session whole from the store and counts its messages.
	load(ctx context.Context, id string) (messages int, err error)
	// list counts the sessions that it reads, the first of all: limit of them, or all
	// if limit is 0 or the contender has no pages.
	list(ctx context.Context, limit int) (sessions int, err error)
	// turn says something to an agent whose model answers at once. It counts the
	// messages that the model was shown.
	turn(ctx context.Context, id, text string) (shown int, err error)
	// fork makes a second session with the same history, or fails with
	// errors.ErrUnsupported.
	fork(ctx context.Context, id, as string) error
	close() error
}

// conversation appends messages to one session, by turns the user's and the
// assistant's. It is used by one goroutine at a time.
type conversation interface {
	append(ctx context.Context, text string) error
}

// contenders lists all contenders, ours first.
func contenders() []Contender { return append([]Contender{holdfastContender}, peers()...) }

// wrongCount is what a contender did other than asked: it would be measured at
// something else.
func wrongCount(what string, got, want int) error {
	return fmt.Errorf("%d %s, not %d", got, what, want)
}

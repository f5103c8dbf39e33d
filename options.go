package holdfast

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// Option adjusts one call. Each call takes the options its comment names and
// refuses others.
type Option struct {
	name  string
	apply func(*options)
}

type options struct {
	given []string

	id, name, user string
	kind           session.Kind
	seed           session.Seed
	changes        []session.Change
	expires        time.Time

	at    int64
	atSet bool
	tail  bool
	whole bool

	ifVersion *int64
	busy      Busy
	key       string
	keyFor    any
	stream    func(llm.Delta)
	cascade   bool
}

func option(name string, apply func(*options)) Option { return Option{name: name, apply: apply} }

// collectOptions applies options and refuses those a call does not take.
func collectOptions(call string, opts []Option, takes ...string) (options, error) {
	var o options
	for _, opt := range opts {
		if opt.apply == nil {
			return o, &session.InvalidError{Field: "option", Reason: "an empty option was given to " + call}
		}
		if !slices.Contains(takes, opt.name) {
			return o, &session.InvalidError{Field: "option", Reason: fmt.Sprintf("%s does not take %s, only %s", call, opt.name, strings.Join(takes, ", "))}
		}
		opt.apply(&o)
		o.given = append(o.given, opt.name)
	}
	return o, nil
}

// Given is what the options of a call say. A field is zero if its option was
// not given.
type Given struct {
	ID, Name, UserID string
	Seed             session.Seed
	Expires          time.Time
	At               *int64
	Tail, Whole      bool
	IfVersion        *int64
	Busy             Busy
	Key              string
	Cascade          bool
}

// ReadOptions returns what options say, for callers that carry a call to a
// runtime elsewhere, as package client does. Options that the call does not
// take there are refused by their names.
func ReadOptions(call string, opts []Option, takes ...string) (Given, error) {
	o, err := collectOptions(call, opts, takes...)
	g := Given{
		ID: o.id, Name: o.name, UserID: o.user, Seed: o.seed, Expires: o.expires, Tail: o.tail, Whole: o.whole,
		IfVersion: o.ifVersion, Busy: o.busy, Key: o.key, Cascade: o.cascade,
	}
	if o.atSet {
		g.At = &o.at
	}
	return g, err
}

// WithID chooses the id of a new session.
func WithID(id string) Option { return option("WithID", func(o *options) { o.id = id }) }

// WithName names a new session.
func WithName(name string) Option { return option("WithName", func(o *options) { o.name = name }) }

// WithUser makes a user the owner of a new session.
func WithUser(id string) Option { return option("WithUser", func(o *options) { o.user = id }) }

// WithKind sets the kind of a new session, chat by default.
func WithKind(k session.Kind) Option { return option("WithKind", func(o *options) { o.kind = k }) }

// WithSeed gives a new session a state to begin with.
func WithSeed(s session.Seed) Option { return option("WithSeed", func(o *options) { o.seed = s }) }

// WithChanges makes further changes part of the first version of a new session or a fork.
func WithChanges(changes ...session.Change) Option {
	return option("WithChanges", func(o *options) { o.changes = changes })
}

// WithExpiry says from when a new session may be swept.
func WithExpiry(at time.Time) Option {
	return option("WithExpiry", func(o *options) { o.expires = at })
}

// At reads or forks a session as it was at a version.
func At(version int64) Option {
	return option("At", func(o *options) { o.at, o.atSet = version, true })
}

// WithTail includes what a running or interrupted execution has written.
func WithTail() Option { return option("WithTail", func(o *options) { o.tail = true }) }

// Whole reads the whole transcript, not only the window.
func Whole() Option { return option("Whole", func(o *options) { o.whole = true }) }

// IfVersion executes only on that version; any other is a ConflictError.
func IfVersion(version int64) Option {
	return option("IfVersion", func(o *options) { o.ifVersion = &version })
}

// Busy is what to do when somebody else is executing on the session.
type Busy int

// The ways to meet a busy session.
const (
	Wait      Busy = iota // until it is free, the context ends or Config.BusyWait is over
	Reject                // BusyError at once
	Enqueue               // SendMessage only: leave the message in the inbox, QueuedError
	Interrupt             // ask the other to stop, then act
)

// String names the way, as HTTP and command lines do.
func (b Busy) String() string {
	switch b {
	case Wait:
		return "wait"
	case Reject:
		return "reject"
	case Enqueue:
		return "enqueue"
	case Interrupt:
		return "interrupt"
	}
	return fmt.Sprintf("Busy(%d)", int(b))
}

// ParseBusy reads the name of a way; "" is Wait.
func ParseBusy(name string) (Busy, error) {
	for _, b := range []Busy{Wait, Reject, Enqueue, Interrupt} {
		if name == b.String() || name == "" {
			return b, nil
		}
	}
	return 0, &session.InvalidError{Field: "on-busy", Reason: fmt.Sprintf("%q is not wait, reject, enqueue or interrupt", name)}
}

// OnBusy chooses what happens on a busy session; Wait is the default.
func OnBusy(b Busy) Option { return option("OnBusy", func(o *options) { o.busy = b }) }

// IdempotencyKey makes a repeated call run once: the same key with the same
// action returns the version it made the first time. 1 to 255 printable
// characters.
func IdempotencyKey(key string) Option {
	return option("IdempotencyKey", func(o *options) { o.key = key })
}

// KeyedRequest says by what a repetition of this request under its idempotency
// key is recognised, instead of by what it creates. It is for callers whose new
// sessions have random ids and times in them. It must be JSON.
func KeyedRequest(request any) Option {
	return option("KeyedRequest", func(o *options) { o.keyFor = request })
}

// Stream hands pieces of the model's answers to fn as they arrive. What it got
// of an answer is void after the event AttemptFailed.
func Stream(fn func(llm.Delta)) Option {
	return option("Stream", func(o *options) { o.stream = fn })
}

// Cascade purges the children of a session too.
func Cascade() Option { return option("Cascade", func(o *options) { o.cascade = true }) }

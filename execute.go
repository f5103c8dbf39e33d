package holdfast

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Action is something to do to a session: it takes a session and returns the
// next one. It passes the whole pipeline and makes exactly one version. It may
// be run again when it was interrupted.
//
// Optional methods: Permits(session.Status) bool says in which statuses it may
// run, active alone by default; Leased() bool says that it works for long and
// needs the session's lease.
type Action interface {
	Name() string
	Execute(ctx context.Context, s session.Session) (session.Session, error)
}

var actionName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// Execute loads a session, runs an action on it and saves the result as one
// new version, which it returns. It takes IfVersion, OnBusy, IdempotencyKey
// and Stream.
//
// After most errors nothing was saved and the session that comes with the
// error is the one that was loaded (or zero, if it could not be). The
// exceptions say so in their text: AfterSaveError and ExecutionError come with
// the session that was saved. InterruptedError means that work was broken off
// and can be continued.
func (rt *Runtime) Execute(ctx context.Context, id string, action Action, opts ...Option) (session.Session, error) {
	ctx, done, err := rt.begin(ctx)
	if err != nil {
		return session.Session{}, err
	}
	defer done()
	s, err := rt.execute(ctx, id, action, opts)
	return s, rt.told(err)
}

func (rt *Runtime) execute(ctx context.Context, id string, action Action, opts []Option) (session.Session, error) {
	x, err := rt.prepare(id, action, opts)
	if err != nil {
		rt.bus.emit(SessionLoadFailed{rt.failure(id, err)})
		return session.Session{}, err
	}
	if s, found, err := x.replay(ctx, nil); found || err != nil {
		return s, err
	}
	s, err := x.once(ctx)
	if err != nil || !conversation(action) {
		return s, err
	}
	if s, err = x.deliver(ctx, s); err != nil {
		return s, err
	}
	if err := rt.respondToParent(ctx, s); err != nil { // the answer is saved; Recover tries again
		rt.config.Logger.Warn("parent not told", "session", id, "error", rt.masked(err.Error()))
	}
	return s, nil
}

// deliver takes messages and responses that arrived between the loop's last look at the
// inbox and the save. What was saved before stays the result when that comes
// to nothing.
func (x *execution) deliver(ctx context.Context, s session.Session) (session.Session, error) {
	for seen := ""; ; {
		first, err := x.nextItem(ctx, s)
		if err != nil || first == "" || first == seen {
			return s, nil
		}
		seen = first
		y := &execution{rt: x.rt, ref: x.ref, action: ContinueExecution{}, opts: options{stream: x.opts.stream, busy: Reject}}
		next, err := y.once(ctx)
		switch {
		case err == nil:
			s = next
		case errors.Is(err, session.ErrExecutionFailed), errors.Is(err, session.ErrAfterSave):
			return next, err
		default: // the message stays in the inbox for whoever comes next
			x.rt.config.Logger.Warn("follow-up not delivered", "session", x.ref.ID, "error", x.rt.masked(err.Error()))
			return s, nil
		}
	}
}

// prepare checks everything that can be checked before a session is touched.
func (rt *Runtime) prepare(id string, action Action, opts []Option) (*execution, error) {
	o, err := collect("Execute", opts, "IfVersion", "OnBusy", "IdempotencyKey", "Stream")
	if err != nil {
		return nil, err
	}
	ref, err := rt.ref(id)
	if err != nil {
		return nil, err
	}
	if err := checkAction(action); err != nil {
		return nil, err
	}
	_, sends := action.(SendMessage)
	if o.busy == Enqueue && !sends {
		return nil, &session.InvalidError{Field: "OnBusy", Reason: "only SendMessage can be enqueued, not " + action.Name()}
	}
	if (o.busy == Enqueue || o.busy == Interrupt) && rt.inboxes == nil {
		return nil, rt.unsupported("an inbox")
	}
	x := &execution{rt: rt, ref: ref, action: action, opts: o}
	x.keys, err = x.identify()
	return x, err
}

func checkAction(action Action) error {
	if action == nil {
		return &session.InvalidError{Field: "action", Reason: "is nil"}
	}
	name := action.Name()
	if !actionName.MatchString(name) {
		return &session.InvalidError{Field: "action", Reason: fmt.Sprintf("name %q is not a letter and up to 63 letters, digits, dots, hyphens or underscores", name)}
	}
	if _, own := action.(builtIn); !own && slices.Contains(builtInNames, name) {
		return &session.InvalidError{Field: "action", Reason: fmt.Sprintf("the name %q is taken by a built-in action", name)}
	}
	return nil
}

// identify finds the keys under which a repetition of this call is known: the
// idempotency key, and the id of the message it sends.
func (x *execution) identify() ([]store.Key, error) {
	var names []string
	if slices.Contains(x.opts.given, "IdempotencyKey") {
		if x.rt.keys == nil {
			return nil, x.rt.unsupported("idempotency keys")
		}
		if err := checkKey(x.opts.key); err != nil {
			return nil, err
		}
		sum := sha256.Sum256([]byte(x.opts.key)) // a store takes fewer bytes than a key may have
		names = append(names, "key:"+hex.EncodeToString(sum[:]))
	}
	if send, ok := x.action.(SendMessage); ok && x.rt.keys != nil && send.Message != nil && send.Message.ID != "" {
		sum := sha256.Sum256([]byte(send.Message.ID))
		names = append(names, "message:"+hex.EncodeToString(sum[:]))
	}
	if len(names) == 0 {
		return nil, nil
	}
	mark, err := fingerprint(x.action)
	if err != nil {
		return nil, err
	}
	keys := make([]store.Key, len(names))
	for i, name := range names {
		keys[i] = store.Key{Name: name, Fingerprint: mark}
	}
	return keys, nil
}

func checkKey(key string) error {
	if key == "" || utf8.RuneCountInString(key) > 255 || !utf8.ValidString(key) {
		return &session.InvalidError{Field: "idempotencyKey", Reason: "is not 1 to 255 printable characters"}
	}
	for _, r := range key {
		if !unicode.IsPrint(r) {
			return &session.InvalidError{Field: "idempotencyKey", Reason: "is not 1 to 255 printable characters"}
		}
	}
	return nil
}

// fingerprint tells one action from another by name and content.
func fingerprint(a Action) (string, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return "", &session.InvalidError{Field: "action", Reason: fmt.Sprintf("%s cannot be told from another by an idempotency key: %v", a.Name(), err)}
	}
	h := sha256.Sum256(append([]byte(a.Name()+"\n"), raw...))
	return hex.EncodeToString(h[:16]), nil
}

// replay answers a repeated call with the version the first one made. A first
// one that was broken off is continued instead: env learns that its message
// is written already.
func (x *execution) replay(ctx context.Context, env *Environment) (session.Session, bool, error) {
	rt := x.rt
	for _, key := range x.keys {
		use, found, err := rt.keys.Key(ctx, x.ref, key.Name)
		if errors.Is(err, session.ErrNotFound) {
			continue // the load says so
		}
		if err != nil {
			return session.Session{}, false, err
		}
		switch {
		case !found:
		case use.Fingerprint != key.Fingerprint:
			return session.Session{}, false, &session.ConflictError{ID: x.ref.ID, Reason: session.ReasonKeyReused}
		case use.Version == 0:
			if env != nil {
				env.written = true
			}
		default:
			s, open, err := x.made(ctx, use.Version)
			if err != nil || !open {
				return s, err == nil, err
			}
			if env != nil {
				env.written = true
			}
		}
	}
	return session.Session{}, false, nil
}

// made is the version a key led to, and whether the execution it holds is
// still open: another action may have sealed one that was broken off. If that
// execution has ended since, the session is returned as it is now.
func (x *execution) made(ctx context.Context, version int64) (s session.Session, open bool, err error) {
	rt := x.rt
	s, err = rt.loadAt(ctx, x.ref, options{at: version, atSet: rt.logs != nil})
	if err != nil || !s.Running() {
		return s, false, err
	}
	now, err := rt.store.Load(ctx, x.ref, rt.tails != nil)
	if err != nil {
		return s, false, err
	}
	return now, now.Running() && now.Execution().ID == s.Execution().ID, nil
}

// once passes the pipeline once, with the lease where the action needs one.
// An action that came too late with its first write begins again, and takes
// the lease before anything else.
func (x *execution) once(ctx context.Context) (session.Session, error) {
	s, err := x.pass(ctx, x.rt.needs(x.action))
	if x.overtaken {
		s, err = x.pass(ctx, leaseNow)
	}
	return s, err
}

func (x *execution) pass(ctx context.Context, want need) (session.Session, error) {
	ctx, a, err := x.rt.enter(ctx, x.ref, want, x.opts.busy)
	if x.opts.busy == Enqueue && errors.Is(err, session.ErrBusy) {
		return x.enqueue(ctx)
	}
	if err != nil {
		return session.Session{}, x.loadFailed(ctx, err)
	}
	x.access = a
	defer a.release(ctx)
	s, err := x.run(ctx)
	if len(x.keys) > 0 && !x.overtaken && errors.Is(err, session.ErrConflict) { // a twin may have won the race
		if again, found, keyErr := x.replay(ctx, nil); found && keyErr == nil {
			return again, nil
		}
	}
	return s, err
}

// enqueue leaves a message in the inbox of a running session. If the session
// has come to rest meanwhile, the message is taken from there at once.
func (x *execution) enqueue(ctx context.Context) (session.Session, error) {
	rt := x.rt
	send, ok := x.action.(SendMessage)
	if !ok {
		return session.Session{}, &session.InvalidError{Field: "OnBusy", Reason: "only SendMessage can be enqueued"}
	}
	m, err := send.message(rt.config.NewID)
	if err != nil {
		return session.Session{}, err
	}
	if len(x.keys) > 0 && send.Message == nil {
		m.ID = x.keys[0].Name // the same key twice is one item
	}
	payload := session.Values{}
	for name, value := range map[string]any{"message": m, "keys": x.keys} {
		if payload[name], err = session.JSON(value); err != nil {
			return session.Session{}, err
		}
	}
	item, err := rt.Post(ctx, x.ref.ID, store.Item{ID: m.ID, Kind: store.ItemFollowUp, Payload: payload})
	if err != nil {
		return session.Session{}, err
	}
	if _, live, err := rt.leases.Holding(ctx, x.ref); err != nil || live {
		return session.Session{}, errors.Join(&session.QueuedError{ID: x.ref.ID, InboxID: item.ID}, err)
	}
	y := &execution{rt: rt, ref: x.ref, action: ContinueExecution{}, opts: options{stream: x.opts.stream}}
	s, err := y.once(ctx)
	if errors.Is(err, session.ErrInvalid) { // another has taken it
		return session.Session{}, &session.QueuedError{ID: x.ref.ID, InboxID: item.ID}
	}
	return s, err
}

// nextItem is the id of the first inbox item that the session can continue
// with, or "".
func (x *execution) nextItem(ctx context.Context, s session.Session) (string, error) {
	if x.rt.inboxes == nil {
		return "", nil
	}
	items, err := x.rt.inboxes.Inbox(ctx, x.ref)
	if err != nil {
		return "", err
	}
	for _, item := range items {
		if item.Kind == store.ItemFollowUp && !s.Waiting() {
			return item.ID, nil
		}
		if r, bad := responseOf(item); item.Kind == store.ItemResponse && !bad && s.Waiting() {
			if p, known := s.PendingCall(r.PendingID); known && p.Waiting() {
				return item.ID, nil
			}
		}
	}
	return "", nil
}

// conversation reports the two actions that run the agent loop.
func conversation(a Action) bool {
	switch a.(type) {
	case SendMessage, ContinueExecution:
		return true
	}
	return false
}

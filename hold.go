package holdfast

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Hold is the right to execute on one session over many actions. Its methods
// may be called from several goroutines and run one after another.
type Hold struct {
	rt   *Runtime
	ref  store.Ref
	slot chan struct{} // holds a token while a method runs
	a    *access

	mu      sync.Mutex // guards the rest
	s       session.Session
	answers []*AnswerStream // open
}

// Hold takes the session's lease, calls fn and gives the lease back. Nothing
// is sealed at the end: what was appended and not executed stays in the open
// tail. The context of fn ends when the lease is lost.
//
// It needs a store with leases and an open tail. BusyError when the lease
// cannot be had within Config.BusyWait; with OnBusy(Reject), the only option
// it takes, at once.
func (rt *Runtime) Hold(ctx context.Context, id string, fn func(ctx context.Context, h *Hold) error, opts ...Option) error {
	ctx, done, err := rt.beginCall(ctx)
	if err != nil {
		return err
	}
	defer done()
	o, err := collectOptions("Hold", opts, "OnBusy")
	if err != nil {
		return err
	}
	if o.busy != Wait && o.busy != Reject {
		return &session.InvalidError{Field: "OnBusy", Reason: "Hold waits or rejects"}
	}
	ref, err := rt.ref(id)
	if err != nil {
		return err
	}
	if rt.leases == nil || rt.tails == nil {
		return rt.unsupported("holding a session")
	}
	ctx, a, err := rt.enterSession(ctx, ref, leaseNow, o.busy)
	if err != nil {
		return err
	}
	defer a.release(ctx)
	h := &Hold{rt: rt, ref: ref, a: a, slot: make(chan struct{}, 1)}
	if err := rt.checkRequest(ctx, ref); err != nil {
		return err
	}
	if h.s, err = rt.store.Load(ctx, ref, true); err != nil {
		return err
	}
	return fn(ctx, h)
}

// Session is the newest state, what was appended included.
func (h *Hold) Session() session.Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.s
}

func (h *Hold) set(s session.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.s = s
}

// Append makes changes durable in the open tail. A task's or workflow's row
// among them is seen by listings at once.
func (h *Hold) Append(ctx context.Context, changes ...session.Change) (session.Session, error) {
	if err := h.lock(ctx); err != nil {
		return session.Session{}, err
	}
	defer func() { <-h.slot }()
	before := h.Session()
	next, err := before.With(h.rt.config.Now(), changes...)
	if err != nil {
		return before, err
	}
	if next, err = h.rt.redactSession(next); err != nil {
		return before, err
	}
	for _, answers := range h.open() {
		for _, c := range changes {
			answers.beforeAppend(c)
		}
	}
	keys := append(h.rt.onceKeys(h.ref), takenKeys(changes...)...)
	if next, err = h.rt.tails.Append(ctx, next, store.Append{Fence: h.a.fence, Keys: keys}); err != nil {
		return before, err
	}
	h.rt.keysWritten(keys)
	h.set(next)
	return next, nil
}

// Answers opens the stream of a unit's answers: "" for a session or a task,
// which answer one at a time; units of a workflow may answer at the same time.
// Append the record of an answer (InferenceAnswered, of a unit UnitAdvanced)
// before the next begins. The caller closes the stream before the hold ends.
func (h *Hold) Answers(unit string) *AnswerStream {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.rt.openAnswers(h.ref, unit, func() int64 { return session.Base(h.Session()) }, nil)
	s.onClose = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.answers = slices.DeleteFunc(slices.Clone(h.answers), func(o *AnswerStream) bool { return o == s })
	}
	h.answers = append(slices.Clip(h.answers), s)
	return s
}

func (h *Hold) open() []*AnswerStream {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answers
}

// Masked is changes as they would be written: without secrets, and messages
// as Config.Redact wants them.
func (h *Hold) Masked(changes ...session.Change) ([]session.Change, error) {
	rt := h.rt
	if rt.config.Redact == nil && len(rt.secrets) == 0 {
		return changes, nil
	}
	masked := make([]session.Change, len(changes))
	for i, c := range changes {
		if added, ok := c.(session.MessageAdded); ok && rt.config.Redact != nil {
			c = session.MessageAdded{Message: rt.config.Redact(added.Message.Clone())}
		}
		var err error
		if masked[i], err = rt.redactChange(c); err != nil {
			return nil, err
		}
	}
	return masked, nil
}

// Execute passes the pipeline under the hold's lease. It makes one version
// and seals the whole tail so far. When the action is refused, the tail stays
// open as it was. It takes IfVersion and Stream.
func (h *Hold) Execute(ctx context.Context, action Action, opts ...Option) (session.Session, error) {
	if err := h.lock(ctx); err != nil {
		return session.Session{}, err
	}
	defer func() { <-h.slot }()
	o, err := collectOptions("Hold.Execute", opts, "IfVersion", "Stream")
	if err != nil {
		return h.Session(), err
	}
	if err := checkAction(action, h.rt.config.Limits); err != nil {
		return h.Session(), err
	}
	now := h.Session()
	x := &execution{rt: h.rt, ref: h.ref, action: action, opts: o, access: h.a, held: &now, keys: h.rt.onceKeys(h.ref)}
	s, err := x.run(ctx)
	if !x.saved.IsZero() {
		h.set(x.saved)
	} else {
		finishing, done := store.Finish(ctx)
		defer done()
		if again, loadErr := h.rt.store.Load(finishing, h.ref, true); loadErr == nil {
			h.set(again) // it may have written to the tail
		}
	}
	return s, h.rt.redactError(err)
}

// Whole is the newest state, what was appended included, with everything that
// was said and done, read anew.
func (h *Hold) Whole(ctx context.Context) (session.Session, error) {
	if err := h.lock(ctx); err != nil {
		return session.Session{}, err
	}
	defer func() { <-h.slot }()
	return h.rt.loadAt(ctx, h.ref, options{whole: true, tail: true})
}

// Run runs an execution on the runtime's loop: the open one of a session that
// is not stored itself, such as that of a workflow's unit. What must be kept,
// c.Journal appends to the hold.
func (h *Hold) Run(ctx context.Context, c agent.Config, s session.Session) (session.Session, error) {
	c.PendingTimeout = cmp.Or(c.PendingTimeout, h.rt.config.PendingTimeout)
	return h.rt.config.Loop.Run(ctx, c, s)
}

// Responses lists the responses to pending calls that have arrived and are not
// taken, oldest first; none on a store without inboxes.
func (h *Hold) Responses(ctx context.Context) ([]agent.Incoming, error) {
	if h.rt.inboxes == nil {
		return nil, nil
	}
	items, err := h.rt.inboxes.Inbox(ctx, h.ref)
	if err != nil {
		return nil, err
	}
	var arrived []agent.Incoming
	for _, item := range items {
		if item.Kind == store.ItemResponse {
			next := agent.Incoming{ID: item.ID, Kind: string(item.Kind)}
			next.Response, next.Unusable = decodeResponse(item)
			arrived = append(arrived, next)
		}
	}
	return arrived, nil
}

// Arrived waits until the inbox holds an item that pick accepts and returns it,
// or until the context ends. Taking it is an InboxTaken change. On a store
// without inboxes nothing ever arrives.
func (h *Hold) Arrived(ctx context.Context, pick func(store.Item) bool) (store.Item, error) {
	if h.rt.inboxes == nil {
		<-ctx.Done()
		return store.Item{}, context.Cause(ctx)
	}
	changed, stop := h.rt.subscribeChanges(h.ref)
	defer stop()
	for {
		items, err := h.rt.inboxes.Inbox(ctx, h.ref)
		if err != nil {
			return store.Item{}, err
		}
		for _, item := range items {
			if pick(item) {
				return item, nil
			}
		}
		if err := h.rt.await(ctx, changed, h.rt.config.Poll); err != nil {
			return store.Item{}, err
		}
	}
}

func (h *Hold) lock(ctx context.Context) error {
	select {
	case h.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

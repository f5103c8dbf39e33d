package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/linear"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func linearizableBehaviours() []behaviour {
	return []behaviour{
		{name: "linearizable/versions", check: versionsAreLinearizable},
		{name: "linearizable/leasesAndFences", needs: []string{Leases}, check: leasesAreLinearizable},
	}
}

// call is one call of a recorded history.
type call struct {
	op      string
	id      string
	agent   string
	version int64
	fence   int64
}

// answer is how a call ended: "ok" or the name of the error.
type answer struct {
	outcome string
	agent   string
	version int64
	token   int64
}

// recording records a history. Its clock only counts: an order needs no more.
type recording struct {
	ticks  atomic.Int64
	rounds [callsPerClient]sync.WaitGroup
	mu     sync.Mutex
	calls  map[string][]linear.Call[call, answer] // by session, guarded by mu
}

func newRecording() *recording {
	r := &recording{calls: map[string][]linear.Call[call, answer]{}}
	for i := range r.rounds {
		r.rounds[i].Add(clients)
	}
	return r
}

// play runs a client in rounds together with all others, so that they overlap on
// fast stores too.
func (r *recording) play(act func()) {
	for i := range r.rounds {
		r.rounds[i].Done()
		r.rounds[i].Wait()
		act()
	}
}

// do makes a call and records its start and end.
func (r *recording) do(client int, c call, run func() answer) {
	began := r.ticks.Add(1)
	a := run()
	ended := r.ticks.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[c.id] = append(r.calls[c.id], linear.Call[call, answer]{Client: client, Began: began, Ended: ended, In: c, Out: a})
}

// outcome names an error of the contract.
func outcome(err error) string {
	var c *session.ConflictError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &c):
		return string(c.Reason)
	}
	for name, sentinel := range map[string]error{
		"not found": session.ErrNotFound, "busy": session.ErrBusy, "fenced": session.ErrFenced,
	} {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	return err.Error()
}

const (
	clients        = 4
	callsPerClient = 40
)

// linearizable fails the test unless for each session one order of the calls
// explains what every one of them returned.
func (r *recording) linearizable(t testing.TB, m linear.Model[register, call, answer]) {
	t.Helper()
	for id, calls := range r.calls {
		if err := linear.Check(m, calls); err != nil {
			t.Errorf("session %s: %v", id, err)
		}
	}
}

// versionsAreLinearizable has clients create, save, load and delete a few
// sessions at once.
func versionsAreLinearizable(t testing.TB, d Data) {
	history := newRecording()
	errs := runTogether(t, d, clients, func(i int, st store.Store) error {
		c := client{t: t, n: i, st: st, random: rand.New(rand.NewPCG(uint64(i), 7)), history: history, known: map[string]session.Session{}}
		history.play(c.versionCall)
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	history.linearizable(t, versionModel())
}

// client is one of the concurrent callers.
type client struct {
	t       testing.TB
	n       int
	st      store.Store
	random  *rand.Rand
	history *recording
	known   map[string]session.Session // what it last read of each session
	made    int
	token   int64
}

func (c *client) versionCall() {
	ctx := c.t.Context()
	id := fmt.Sprintf("s%d", c.random.IntN(2))
	switch known, ok := c.known[id]; c.random.IntN(12) {
	case 0:
		c.create(ctx, id)
	case 1:
		c.history.do(c.n, call{op: "delete", id: id}, func() answer {
			return answer{outcome: outcome(c.st.Delete(ctx, ref(id), 0))}
		})
	case 2, 3, 4, 5:
		c.history.do(c.n, call{op: "load", id: id}, func() answer {
			s, err := c.st.Load(ctx, ref(id), false)
			return c.learned(s, err)
		})
	default:
		if ok {
			c.save(ctx, known, 0)
			return
		}
		c.create(ctx, id)
	}
}

func (c *client) create(ctx context.Context, id string) {
	c.made++
	s := newSessionFrom(c.t, session.Identity{ID: id, AgentID: fmt.Sprintf("agent-%d-%d", c.n, c.made)})
	c.history.do(c.n, call{op: "create", id: id, agent: s.AgentID()}, func() answer {
		s, err := c.st.Create(ctx, s, commit(s, "create"))
		return c.learned(s, err)
	})
}

func (c *client) save(ctx context.Context, known session.Session, fence int64) {
	next := withNote(c.t, known, fmt.Sprint(c.n))
	in := call{op: "save", id: known.ID(), agent: known.AgentID(), version: known.Version(), fence: fence}
	c.history.do(c.n, in, func() answer {
		w := commit(next, fmt.Sprint(c.n))
		w.Fence = fence
		s, err := c.st.Save(ctx, next, w)
		return c.learned(s, err)
	})
}

// learned keeps the session that a call returned.
func (c *client) learned(s session.Session, err error) answer {
	if err != nil {
		return answer{outcome: outcome(err)}
	}
	c.known[s.ID()] = s
	return answer{outcome: "ok", agent: s.AgentID(), version: s.Version()}
}

// register is the model of one session.
type register struct {
	agent   string // "": there is none
	version int64
	token   int64 // newest lease
	held    bool
}

func versionModel() linear.Model[register, call, answer] {
	return sessionModel(register{}, func(r register, in call, out answer) (bool, register) {
		want, next := answer{outcome: "ok"}, r
		switch in.op {
		case "create":
			if want.outcome = "exists"; r.agent == "" {
				next = register{agent: in.agent, version: 1}
				want = answer{outcome: "ok", agent: in.agent, version: 1}
			}
		case "delete":
			next = register{}
		case "load":
			if want.outcome = "not found"; r.agent != "" {
				want = answer{outcome: "ok", agent: r.agent, version: r.version}
			}
		case "save":
			switch {
			case r.agent == "":
				want.outcome = "not found"
			case r.agent != in.agent:
				want.outcome = "replaced"
			case r.version != in.version:
				want.outcome = "stale"
			default:
				next.version++
				want.agent, want.version = r.agent, next.version
			}
		}
		return out == want, next
	})
}

// sessionModel is a model of one session whose step says whether a call can
// have returned what it did, and what follows.
func sessionModel(start register, step func(register, call, answer) (bool, register)) linear.Model[register, call, answer] {
	return linear.Model[register, call, answer]{Start: start, Step: func(r register, c call, a answer) []register {
		ok, next := step(r, c, a)
		if !ok {
			return nil
		}
		return []register{next}
	}}
}

// leasesAreLinearizable has clients fight for the lease of one session and
// save with the token they have, an old one or none.
func leasesAreLinearizable(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "fought-for"))
	history := newRecording()
	errs := runTogether(t, d, clients, func(i int, st store.Store) error {
		c := client{t: t, n: i, st: st, random: rand.New(rand.NewPCG(uint64(i), 11)), history: history, known: map[string]session.Session{s.ID(): s}}
		history.play(func() { c.leaseCall(s.ID()) })
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	history.linearizable(t, leaseModel(s))
}

func (c *client) leaseCall(id string) {
	ctx, leases := c.t.Context(), ability[store.Leases](c.t, c.st)
	switch c.random.IntN(8) {
	case 0, 1:
		c.history.do(c.n, call{op: "acquire", id: id}, func() answer {
			l, err := leases.Acquire(ctx, ref(id), fmt.Sprint(c.n), time.Hour)
			if err != nil {
				return answer{outcome: outcome(err)}
			}
			c.token = l.Token
			return answer{outcome: "ok", token: l.Token}
		})
	case 2:
		c.history.do(c.n, call{op: "release", id: id, fence: c.token}, func() answer {
			return answer{outcome: outcome(leases.Release(ctx, ref(id), store.Lease{Token: c.token}))}
		})
	default: // what was read a moment ago is rarely stale: the fence must decide
		c.history.do(c.n, call{op: "load", id: id}, func() answer {
			s, err := c.st.Load(ctx, ref(id), false)
			return c.learned(s, err)
		})
		fence := c.token
		if c.random.IntN(4) == 0 {
			fence = 0
		}
		c.save(ctx, c.known[id], fence)
	}
}

func leaseModel(first session.Session) linear.Model[register, call, answer] {
	return sessionModel(register{agent: first.AgentID(), version: first.Version()}, func(r register, in call, out answer) (bool, register) {
		want, next := answer{outcome: "ok"}, r
		switch in.op {
		case "acquire":
			if r.held {
				want.outcome = "busy"
				break
			}
			// Any token will do that is newer than all before it.
			next.token, next.held = out.token, true
			return out.outcome == "ok" && out.token > r.token, next
		case "release":
			next.held = r.held && r.token != in.fence
		case "load":
			want.agent, want.version = r.agent, r.version
		case "save":
			switch {
			case in.fence == 0 && r.held:
				want.outcome = "busy"
			case in.fence != 0 && (in.fence != r.token || !r.held):
				want.outcome = "fenced"
			case in.version != r.version:
				want.outcome = "stale"
			default:
				next.version++
				want.agent, want.version = r.agent, next.version
			}
		}
		return out == want, next
	})
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

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

// recording gathers a history. Its clock only counts, which is all an order
// needs.
type recording struct {
	ticks  atomic.Int64
	rounds [callsPerClient]sync.WaitGroup
	mu     sync.Mutex
	ops    []porcupine.Operation // guarded by mu
}

func newRecording() *recording {
	r := &recording{}
	for i := range r.rounds {
		r.rounds[i].Add(clients)
	}
	return r
}

// play has a client act, round by round with all the others, so that they
// meet on fast stores too.
func (r *recording) play(act func()) {
	for i := range r.rounds {
		r.rounds[i].Done()
		r.rounds[i].Wait()
		act()
	}
}

// do makes a call and writes down when it began and ended.
func (r *recording) do(client int, c call, run func() answer) {
	began := r.ticks.Add(1)
	a := run()
	ended := r.ticks.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: c, Call: began, Output: a, Return: ended})
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

// linearizable fails the test unless one order of the calls explains what
// every one of them returned.
func (r *recording) linearizable(t testing.TB, m porcupine.Model) {
	t.Helper()
	switch porcupine.CheckOperationsTimeout(m, r.ops, time.Minute) {
	case porcupine.Ok:
	case porcupine.Unknown:
		t.Errorf("the checker did not finish with %d calls", len(r.ops))
	default:
		var lines []string
		for _, op := range r.ops {
			lines = append(lines, fmt.Sprintf("client %d [%d, %d] %s", op.ClientId, op.Call, op.Return, m.DescribeOperation(op.Input, op.Output)))
		}
		t.Errorf("no order of these calls explains their results:\n%s", strings.Join(lines, "\n"))
	}
}

// versionsAreLinearizable has clients create, save, load and delete a few
// sessions at once.
func versionsAreLinearizable(t testing.TB, d Data) {
	history := newRecording()
	errs := together(t, d, clients, func(i int, st store.Store) error {
		c := client{t: t, n: i, st: st, random: rand.New(rand.NewPCG(uint64(i), 7)), history: history, known: map[string]session.Session{}}
		history.play(c.versionCall)
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	history.linearizable(t, versionModel())
}

// client is one of those who act at once.
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
	s := born(c.t, session.Birth{ID: id, AgentID: fmt.Sprintf("agent-%d-%d", c.n, c.made)})
	c.history.do(c.n, call{op: "create", id: id, agent: s.AgentID()}, func() answer {
		s, err := c.st.Create(ctx, s, commit(s, "create"))
		return c.learned(s, err)
	})
}

func (c *client) save(ctx context.Context, known session.Session, fence int64) {
	next := noted(c.t, known, fmt.Sprint(c.n))
	in := call{op: "save", id: known.ID(), agent: known.AgentID(), version: known.Version(), fence: fence}
	c.history.do(c.n, in, func() answer {
		w := commit(next, fmt.Sprint(c.n))
		w.Fence = fence
		s, err := c.st.Save(ctx, next, w)
		return c.learned(s, err)
	})
}

// learned remembers what a call returned.
func (c *client) learned(s session.Session, err error) answer {
	if err != nil {
		return answer{outcome: outcome(err)}
	}
	c.known[s.ID()] = s
	return answer{outcome: "ok", agent: s.AgentID(), version: s.Version()}
}

// register is what the model knows of one session.
type register struct {
	agent   string // "": there is none
	version int64
	token   int64 // newest lease
	held    bool
}

func versionModel() porcupine.Model {
	return sessionModel(func(r register, in call, out answer) (bool, register) {
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

// sessionModel is a model of sessions that do not affect each other.
func sessionModel(step func(register, call, answer) (bool, register)) porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byID := map[string][]porcupine.Operation{}
			for _, op := range history {
				if in, ok := op.Input.(call); ok {
					byID[in.id] = append(byID[in.id], op)
				}
			}
			var parts [][]porcupine.Operation
			for _, part := range byID {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() any { return register{} },
		Step: func(state, in, out any) (bool, any) {
			r, isRegister := state.(register)
			c, isCall := in.(call)
			a, isAnswer := out.(answer)
			if !isRegister || !isCall || !isAnswer {
				return false, state
			}
			ok, next := step(r, c, a)
			return ok, next
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	}
}

// leasesAreLinearizable has clients fight for the lease of one session and
// save with the token they have, an old one or none.
func leasesAreLinearizable(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "fought-for"))
	history := newRecording()
	errs := together(t, d, clients, func(i int, st store.Store) error {
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
	ctx, leases := c.t.Context(), as[store.Leases](c.t, c.st)
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

func leaseModel(first session.Session) porcupine.Model {
	m := sessionModel(func(r register, in call, out answer) (bool, register) {
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
	m.Init = func() any { return register{agent: first.AgentID(), version: first.Version()} }
	return m
}

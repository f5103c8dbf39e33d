package postgres_test

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
	"github.com/holdfast-dev/holdfast/store/postgres"
)

// attempt is one call of a recorded history, on a session that nobody deletes.
type attempt struct {
	op      string
	version int64 // what the caller knows
	base    int64
	fence   int64
}

// result is how it ended: "ok", the name of an error, or "unknown" where it
// may have been carried out, may not, or still may.
type result struct {
	outcome string
	version int64
	base    int64
	token   int64
}

const unsure = "unknown"

// nobodys is the token of a lease that may have been taken for a caller who
// was not told. It is held for as long as the history lasts.
const nobodys = -1

// register is what the model knows of the session.
type register struct {
	version, base int64
	token         int64
	held          bool
}

// carriedOut is the register after a call, and what the call must return.
func (r register) carriedOut(in attempt, out result) (register, result) {
	fenced := in.fence != 0 && (in.fence != r.token || !r.held)
	switch {
	case in.op == "load":
		return r, result{outcome: "ok", version: r.version, base: r.base}
	case in.op == "release":
		r.held = r.held && r.token != in.fence
		return r, result{outcome: "ok"}
	case in.fence == 0 && r.held:
		return r, result{outcome: "busy"}
	case fenced:
		return r, result{outcome: "fenced"}
	case in.op == "acquire" && out.outcome == "ok" && out.token <= r.token: // tokens only grow
		return r, result{outcome: "a newer token"}
	case in.op == "acquire":
		if r.token, r.held = out.token, true; out.outcome == unsure {
			r.token = nobodys
		}
		return r, result{outcome: "ok", token: out.token}
	case in.version != r.version:
		return r, result{outcome: string(session.ReasonStale)}
	case in.base != r.base:
		return r, result{outcome: string(session.ReasonOpenTail)}
	}
	r.base++
	if in.op == "save" {
		r.version++
	}
	return r, result{outcome: "ok", version: r.version, base: r.base}
}

// faultModel lets a call whose outcome is unknown take effect or not.
func faultModel() linear.Model[register, attempt, result] {
	return linear.Model[register, attempt, result]{
		Start: register{version: 1, base: 1},
		Step: func(r register, in attempt, out result) []register {
			next, want := r.carriedOut(in, out)
			if out == want || out.outcome == unsure && want.outcome == "ok" {
				return []register{next}
			}
			return nil
		},
	}
}

// chronicle gathers a history. Its clock only counts.
type chronicle struct {
	ticks atomic.Int64
	mu    sync.Mutex
	calls []linear.Call[attempt, result] // guarded by mu
}

func (c *chronicle) do(player int, in attempt, call func() result) {
	began := c.ticks.Add(1)
	out := call()
	ended := c.ticks.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, linear.Call[attempt, result]{
		Client: player, Began: began, Ended: ended, In: in, Out: out,
		Unsure: out.outcome == unsure, // it may be carried out at any time from now on
	})
}

// outcomeOf names an error. An error of no name is that of a database which
// was away: the call was not carried out, but nothing is lost by not relying
// on it.
func outcomeOf(err error) string {
	var c *session.ConflictError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &c):
		return string(c.Reason)
	case errors.Is(err, session.ErrBusy):
		return "busy"
	case errors.Is(err, session.ErrFenced):
		return "fenced"
	}
	return unsure
}

// player makes calls on one session. After an unsure one it goes on as another
// client, because that call may not be over.
type player struct {
	st      *postgres.Store
	history *chronicle
	random  *rand.Rand
	name    func() int
	known   session.Session
	token   int64
}

func (p *player) play(ctx context.Context, rounds int) error {
	name := p.name()
	for n := 0; n < rounds; n++ {
		fence := p.token
		if p.random.IntN(3) == 0 {
			fence = 0
		}
		var out result
		switch p.random.IntN(10) {
		case 0:
			out = p.lease(ctx, name)
		case 1:
			out = p.release(ctx, name)
		case 2, 3, 4:
			out = p.read(ctx, name)
		default:
			next, err := p.known.WithMetadata("k", []byte(fmt.Sprint(n)), noon())
			if err != nil {
				return err
			}
			out = p.write(ctx, name, next, fence)
		}
		if out.outcome == unsure {
			name = p.name()
		}
	}
	return nil
}

// note writes a call down.
func (p *player) note(name int, in attempt, call func() result) (out result) {
	p.history.do(name, in, func() result {
		out = call()
		return out
	})
	return out
}

func (p *player) read(ctx context.Context, name int) result {
	return p.note(name, attempt{op: "load"}, func() result {
		s, err := p.st.Load(ctx, ref("a"), true)
		if err != nil {
			return result{outcome: outcomeOf(err)}
		}
		p.known = s
		return result{outcome: "ok", version: s.Version(), base: session.Base(s)}
	})
}

func (p *player) write(ctx context.Context, name int, next session.Session, fence int64) result {
	in := attempt{op: "save", version: next.Version(), base: session.Base(next), fence: fence}
	if p.random.IntN(3) == 0 {
		in.op = "append"
	}
	return p.note(name, in, func() result {
		var err error
		if in.op == "save" {
			next, err = p.st.Save(ctx, next, store.Commit{ID: fmt.Sprintf("%d-%d", name, next.Seq()), At: noon(), Fence: fence})
		} else {
			next, err = p.st.Append(ctx, next, store.Append{Fence: fence})
		}
		if err != nil {
			return result{outcome: outcomeOf(err)}
		}
		p.known = next
		return result{outcome: "ok", version: next.Version(), base: session.Base(next)}
	})
}

func (p *player) lease(ctx context.Context, name int) result {
	return p.note(name, attempt{op: "acquire"}, func() result {
		l, err := p.st.Acquire(ctx, ref("a"), fmt.Sprint(name), time.Hour)
		if err != nil {
			return result{outcome: outcomeOf(err)}
		}
		p.token = l.Token
		return result{outcome: "ok", token: l.Token}
	})
}

func (p *player) release(ctx context.Context, name int) result {
	return p.note(name, attempt{op: "release", fence: p.token}, func() result {
		return result{outcome: outcomeOf(p.st.Release(ctx, ref("a"), store.Lease{Token: p.token}))}
	})
}

// played has players act on one session while something disturbs them, and
// looks for an order of the calls that explains what each returned.
func played(t *testing.T, seed uint64, urls []string, rounds int, disturb func(stop <-chan struct{})) {
	t.Helper()
	var names atomic.Int64
	history := &chronicle{}
	ctx := context.WithoutCancel(t.Context())
	first := create(t, open(t, urls[0], postgres.Config{}), "a")
	players := make([]*player, len(urls))
	for i, url := range urls { // before anything is disturbed: to open a store needs a server that is there
		players[i] = &player{
			st: open(t, url, postgres.Config{MaxConns: 2}), history: history, known: first,
			random: rand.New(rand.NewPCG(seed, uint64(i))), name: func() int { return int(names.Add(1)) },
		}
	}
	stop := make(chan struct{})
	var disturbing, playing sync.WaitGroup
	disturbing.Go(func() { disturb(stop) })
	for _, p := range players {
		playing.Go(func() {
			if err := p.play(ctx, rounds); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
	playing.Wait()
	close(stop)
	disturbing.Wait()
	explained(t, seed, history.calls)
}

func explained(t *testing.T, seed uint64, calls []linear.Call[attempt, result]) {
	t.Helper()
	outcomes := map[string]int{}
	for _, c := range calls {
		outcomes[c.Out.outcome]++
	}
	t.Logf("seed %d: %v", seed, outcomes)
	if outcomes["ok"] == 0 {
		t.Errorf("seed %d: nothing worked: %v", seed, outcomes)
	}
	if err := linear.Check(faultModel(), calls); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
}

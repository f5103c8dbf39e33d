// Package crosscheck holds no code, only the test that package linear and
// porcupine, a checker with another method, judge the same histories the same.
package crosscheck

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-dev/holdfast/internal/linear"
	"github.com/holdfast-dev/holdfast/internal/property"
)

// request is a call on a versioned register with a lease.
type request struct {
	op    string // load, save, acquire, release
	from  int    // the version a save comes from
	token int    // what a save or a release shows; 0: none
}

// reply is how it ended.
type reply struct {
	outcome string // ok, stale, busy, fenced or, where nobody learned it, unknown
	version int
	token   int
}

const unknown = "unknown"

// register is what the calls are made on. It is compared as a whole.
type register struct {
	version, token int
	held           bool
}

// answer is what a register returns for a call, and what becomes of it.
func (r register) answer(in request) (register, reply) {
	switch {
	case in.op == "load":
		return r, reply{outcome: "ok", version: r.version}
	case in.op == "release":
		r.held = r.held && r.token != in.token
		return r, reply{outcome: "ok"}
	case in.token == 0 && r.held:
		return r, reply{outcome: "busy"}
	case in.op == "acquire":
		r.token, r.held = r.token+1, true
		return r, reply{outcome: "ok", token: r.token}
	case in.token != 0 && (in.token != r.token || !r.held):
		return r, reply{outcome: "fenced"}
	case in.from != r.version:
		return r, reply{outcome: "stale"}
	}
	r.version++
	return r, reply{outcome: "ok", version: r.version}
}

func start() register { return register{version: 1} }

// ours has a call of no known outcome either happen or not by leaving it out.
func ours() linear.Model[register, request, reply] {
	return linear.Model[register, request, reply]{Start: start(), Step: func(r register, in request, out reply) []register {
		next, want := r.answer(in)
		if out.outcome != unknown && out != want {
			return nil
		}
		return []register{next}
	}}
}

// theirs has it happen or not by two states that may follow.
func theirs() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{start()} },
		Step: func(state, input, output any) []any {
			r, in, out := state.(register), input.(request), output.(reply)
			next, want := r.answer(in)
			switch {
			case out.outcome == unknown:
				return []any{r, next}
			case out != want:
				return nil
			}
			return []any{next}
		},
	}
	return m.ToModel()
}

// drawHistory has clients call a register at random moments of overlapping
// intervals, and then makes some of what they were told wrong.
func drawHistory(t *property.T) []linear.Call[request, reply] {
	clients := property.IntRange(1, 4).Draw(t, "clients")
	free := make([]int64, clients) // when each client can make its next call
	state, now := start(), int64(0)
	var history []linear.Call[request, reply]
	for range t.Repeat(1, 14) {
		client := property.IntRange(0, clients-1).Draw(t, "client")
		now += property.Int64Range(0, 3).Draw(t, "pause") // the moment at which the call takes effect
		now = max(now, free[client])
		in := request{
			op:    property.SampledFrom([]string{"load", "save", "save", "acquire", "release"}).Draw(t, "op"),
			from:  max(1, state.version-property.IntRange(0, 1).Draw(t, "behind")),
			token: property.SampledFrom([]int{0, state.token, 1}).Draw(t, "token"),
		}
		if in.op == "load" || in.op == "acquire" {
			in.token = 0
		}
		next, out := state.answer(in)
		c := linear.Call[request, reply]{Client: client, In: in, Out: out}
		c.Began = max(free[client], now-property.Int64Range(0, 8).Draw(t, "before"))
		c.Ended = now + property.Int64Range(0, 8).Draw(t, "after")
		switch property.IntRange(0, 9).Draw(t, "fate") {
		default:
			state = next
		case 7: // it happened, but nobody knows
			state, c.Out, c.Unsure = next, reply{outcome: unknown}, true
		case 8: // it did not, and nobody knows
			c.Out, c.Unsure = reply{outcome: unknown}, true
		case 9: // it did not, but somebody thinks so
		}
		free[client] = c.Ended + 1
		history = append(history, c)
	}
	for range t.Repeat(0, 2) {
		c := &history[property.IntRange(0, len(history)-1).Draw(t, "wrong")]
		switch property.IntRange(0, 3).Draw(t, "how") {
		case 0:
			c.Ended = max(c.Began, c.Ended-property.Int64Range(1, 6).Draw(t, "earlier"))
		case 1:
			c.Began += property.Int64Range(0, c.Ended-c.Began).Draw(t, "later")
		case 2:
			c.Out.version += property.IntRange(-1, 1).Draw(t, "version")
		case 3:
			if !c.Unsure {
				c.Out = reply{outcome: property.SampledFrom([]string{"stale", "busy", "fenced"}).Draw(t, "outcome")}
			}
		}
	}
	return history
}

func TestCheck_agreesWithPorcupine(t *testing.T) {
	t.Parallel()
	explained, refused := 0, 0
	for range 20 {
		property.Check(t, func(t *property.T) {
			history := drawHistory(t)
			var operations []porcupine.Operation
			for i, c := range history {
				id, ended := c.Client, c.Ended
				if c.Unsure { // its client goes on as another one
					id, ended = 100+i, linear.Forever
				}
				operations = append(operations, porcupine.Operation{ClientId: id, Input: c.In, Call: c.Began, Output: c.Out, Return: ended})
			}
			want := porcupine.CheckOperationsTimeout(theirs(), operations, time.Minute)
			err := linear.Check(ours(), history)
			if (err == nil) != (want == porcupine.Ok) {
				t.Fatalf("porcupine says %s, and we: %v\n%+v", want, err, history)
			}
			if err == nil {
				explained++
			} else {
				refused++
			}
		})
	}
	t.Logf("%d histories were explained, %d refused", explained, refused)
	if explained < 200 || refused < 200 {
		t.Errorf("%d histories were explained and %d refused: too few of a kind to compare", explained, refused)
	}
}

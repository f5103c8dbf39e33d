package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// Redo does a unit again, also one that is done, and everything that came after
// it; questions are asked again. What ran at the same time and does not see its
// answer stays. The run may be completed or cancelled. A unit that the run has
// not come to is an InvalidError that lists those it has.
func Redo(ctx context.Context, rt *holdfast.Runtime, id, unit string, o ResumeOptions) (Result, error) {
	a := o.attempt()
	a.redo = unit
	return drive(ctx, rt, id, a)
}

// unusableAnswer says that no try brought an answer that the pattern can use.
// When the run is resumed, the units are done again.
type unusableAnswer struct {
	tries []string
	err   error
}

func (e *unusableAnswer) Error() string { return e.err.Error() }

// reached is a unit or a question, and what the program was in when it came
// there.
type reached struct {
	key  string
	at   []member
	read func(text string) (json.RawMessage, error) // of a unit, as in unit
}

// member is one of several that may run at the same time.
type member struct{ group, number int }

// reach notes that a run that only replays has come to a unit.
func (r *run) reach(key string, read func(text string) (json.RawMessage, error)) {
	if r.runner == nil && !r.came[key] {
		r.came[key] = true
		r.reached = append(r.reached, reached{key, slices.Clone(r.at), read})
	}
}

// sees reports that something that comes later may depend on this.
func (o reached) sees(later reached) bool {
	for i := range min(len(o.at), len(later.at)) {
		if o.at[i] != later.at[i] {
			return o.at[i].group != later.at[i].group
		}
	}
	return true
}

// reaches returns what the program has come to, in its order.
func (r *run) reaches(ctx context.Context) []reached {
	replayed := r.replayer()
	_, _, _ = replayed.replay(ctx) // how far it comes does not matter
	return replayed.reached
}

// from returns a unit and all that came after it.
func from(unit string, list []reached) ([]string, error) {
	first := slices.IndexFunc(list, func(o reached) bool { return o.key == unit })
	if first < 0 {
		keys := make([]string, len(list))
		for i, o := range list {
			keys[i] = o.key
		}
		return nil, &session.InvalidError{Field: "unit", Reason: fmt.Sprintf(
			"the run has not come to %q; it has come to: %s", unit, cmp.Or(strings.Join(keys, ", "), "none"))}
	}
	var units []string
	for _, o := range list[first:] {
		if list[first].sees(o) {
			units = append(units, o.key)
		}
	}
	return units, nil
}

// resetOf returns the change that takes back units, with the summaries that
// cover some of them and the end of the run.
func (x *index) resetOf(units []string) session.UnitsReset {
	change := session.UnitsReset{Units: units}
	given := make(map[string]bool, len(units))
	for _, unit := range units {
		given[unit] = true
	}
	for key, e := range x.units {
		covers := e.result
		if given[key] {
			continue
		}
		if key == artifactsUnit || isSummary(key) && (given[covers.For] || given[covers.From] || given[covers.UpTo]) {
			change.Units = append(change.Units, key)
		}
	}
	slices.Sort(change.Units[len(units):])
	for _, key := range change.Units {
		e, q := x.units[key], x.questions[key]
		if e != nil && e.done || q != nil && q.answer != nil {
			change.Finished++
		}
	}
	return change
}

// misfits lists the units that failed because their answers do not fit.
func (x *index) misfits() []string {
	var units []string
	for key, e := range x.units {
		if !e.done && e.failure != nil && e.failure.Kind == string(KindOutput) {
			units = append(units, key)
		}
	}
	slices.Sort(units)
	return units
}

// takeBack commits what is to be done again: from the unit that the caller
// names, or the tries of which none brought a usable answer.
func (a *attempt) takeBack(ctx context.Context) error {
	var change session.UnitsReset
	if a.redo != "" {
		units, err := from(a.redo, a.run.reaches(ctx))
		if err != nil {
			return err
		}
		change = a.run.index.resetOf(units)
	} else {
		tries := a.run.index.misfits()
		_, _, err := a.run.replayer().replay(ctx)
		var unusable *unusableAnswer
		if errors.As(err, &unusable) {
			tries = append(tries, unusable.tries...)
		}
		if len(tries) == 0 {
			return nil
		}
		change = a.run.index.resetOf(tries)
	}
	if err := a.runner.commit(ctx, a.run, "the redo", "workflow.redo", StatusRunning, "", change); err != nil {
		return err
	}
	a.runner.markReported(a.run.index)
	return nil
}

package crashtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Counts sums up runs. The first four must be 0.
type Counts struct {
	AskedAgain  int // requests for an answer that was in the log, or by one process twice
	RanAgain    int // runs of a tool call whose result was in the log, or by one process twice
	OnceAgain   int // second runs of a tool call that must run once
	Differences int // all other faults

	Kills    int
	At       []int // kills by how many answers the log held then
	Lost     int   // requests for an answer that was asked for before and is not in the log
	Harmless int   // second runs of other tool calls that a kill cut off
	Unknown  int   // calls of unknown outcome
}

func (c *Counts) add(o Counts) {
	c.AskedAgain += o.AskedAgain
	c.RanAgain += o.RanAgain
	c.OnceAgain += o.OnceAgain
	c.Differences += o.Differences
	c.Kills += o.Kills
	for i, n := range o.At {
		for len(c.At) <= i {
			c.At = append(c.At, 0)
		}
		c.At[i] += n
	}
	c.Lost += o.Lost
	c.Harmless += o.Harmless
	c.Unknown += o.Unknown
}

// undisturbed reports whether the run had none of the costs of a kill.
func (c Counts) undisturbed() bool { return c.Kills+c.Lost+c.Harmless+c.Unknown == 0 }

// account collects the faults of a run.
type account struct {
	Counts
	faults []error
}

func (a *account) fault(count *int, format string, args ...any) {
	*count++
	a.faults = append(a.faults, fmt.Errorf(format, args...))
}

func (r *Run) counts() Counts { return Counts{Kills: r.kills, At: r.at} }

// Account compares the effects of each process of a run with the log that it
// found, and the run with an undisturbed one. The error lists every fault.
func (r *Run) Account() (Counts, error) {
	a := account{Counts: r.counts()}
	effects, err := r.Effects()
	if err != nil {
		return a.Counts, err
	}
	a.Unknown = len(r.unknown())
	a.repeats(r, effects)
	a.complete(r, effects)
	var own []error
	if r.plan.Check != nil {
		own = r.plan.Check(r)
	}
	undisturbed := r.plan.Undisturbed
	if undisturbed == nil {
		undisturbed = r
	}
	own = append(own, r.plan.CheckEnd(r, undisturbed)...)
	own = slices.DeleteFunc(own, func(err error) bool { return err == nil })
	a.Differences += len(own)
	return a.Counts, errors.Join(append(a.faults, own...)...)
}

// repeats finds effects of one process that it should not have caused.
func (a *account) repeats(r *Run, effects []Effect) {
	type once struct {
		what What
		key  string
		life int
	}
	first, seen, details, lost := map[once]int{}, map[once]bool{}, map[string]string{}, map[int]int{}
	for _, e := range effects {
		at := once{e.What, e.Key, 0}
		if life, before := first[at]; !before || e.Life < life {
			first[at] = e.Life
		}
	}
	for _, e := range effects {
		found := r.Lives[e.Life]
		again, twice := first[once{e.What, e.Key, 0}] < e.Life, seen[once{e.What, e.Key, e.Life}]
		seen[once{e.What, e.Key, e.Life}] = true
		switch {
		case e.What == Ended:
		case e.What == Asked && found.Answers[e.Key]:
			a.fault(&a.AskedAgain, "process %d asked for %s, which the log answers", e.Life, e.Key)
		case e.What == Asked && twice:
			a.fault(&a.AskedAgain, "process %d asked for %s twice", e.Life, e.Key)
		case e.What == Asked && again:
			a.Lost++
			lost[e.Life]++
		case e.What == Asked:
		case found.Results[e.Key]:
			a.fault(&a.RanAgain, "process %d ran %s, whose result is in the log", e.Life, e.Key)
		case twice:
			a.fault(&a.RanAgain, "process %d ran %s twice", e.Life, e.Key)
		case r.plan.once(e.Key) && (again || found.Started[e.Key]):
			a.fault(&a.OnceAgain, "process %d ran %s again, which must run once", e.Life, e.Key)
		case again:
			a.Harmless++
		}
		if e.What != Asked {
			continue
		}
		if before, known := details[e.Key]; known && before != e.Detail {
			a.fault(&a.Differences, "%s was asked for with %q and with %q", e.Key, before, e.Detail)
		}
		details[e.Key] = e.Detail
	}
	for life, n := range lost {
		if r.plan.MostLost > 0 && n > r.plan.MostLost {
			a.fault(&a.Differences, "process %d asked for %d answers that one crash lost, at most %d may be", life, n, r.plan.MostLost)
		}
	}
}

// unknown returns the calls whose outcome is still unknown in the end.
func (r *Run) unknown() map[string]bool {
	unknown := maps.Clone(r.Last.Unknown)
	if unknown == nil {
		unknown = map[string]bool{}
	}
	if n := len(r.Lives); n > 0 {
		maps.Copy(unknown, r.Lives[n-1].Unknown)
	}
	return unknown
}

// complete finds answers and results that are missing in the log, and effects
// that differ from an undisturbed run.
func (a *account) complete(r *Run, effects []Effect) {
	asked, began, ended := keys(effects, Asked), keys(effects, Began), keys(effects, Ended)
	for _, key := range sorted(asked) {
		if !r.Last.Answers[key] {
			a.fault(&a.Differences, "%s was asked for, and the log has no answer in the end", key)
		}
	}
	unknown := r.unknown()
	for _, call := range sorted(r.Last.Results) {
		if !ended[call] && !unknown[call] {
			a.fault(&a.Differences, "%s has a result and never ran to its end", call)
		}
	}
	p := r.plan
	if p.Undisturbed == nil {
		return
	}
	for what, sets := range map[string][2]map[string]bool{"asked for": {asked, p.asked}, "run": {began, p.began}} {
		for _, key := range sorted(sets[0]) {
			if !sets[1][key] {
				a.fault(&a.Differences, "%s is %s by no undisturbed run", key, what)
			}
		}
		for _, key := range sorted(sets[1]) {
			if !sets[0][key] && !unknown[key] {
				a.fault(&a.Differences, "%s was never %s", key, what)
			}
		}
	}
}

func keys(effects []Effect, what What) map[string]bool {
	set := map[string]bool{}
	for _, e := range effects {
		if e.What == what {
			set[e.Key] = true
		}
	}
	return set
}

func sorted[V any](set map[string]V) []string { return slices.Sorted(maps.Keys(set)) }

// Parts holds what a run leaves behind, by name, without values that differ
// between runs.
type Parts map[string]string

// Differ lists the parts that differ from another run, with the lines.
func (p Parts) Differ(want Parts) (faults []error) {
	all := maps.Clone(p)
	maps.Copy(all, want)
	for _, name := range sorted(all) {
		got, has := p[name]
		wanted, wants := want[name]
		if got != wanted || has != wants {
			faults = append(faults, fmt.Errorf("%s differs, besides the same lines:\n%s\nwant\n%s", name, without(got, wanted), without(wanted, got)))
		}
	}
	return faults
}

// without returns the lines of a text that another has less often.
func without(text, other string) string {
	often := map[string]int{}
	for line := range strings.Lines(other) {
		often[line]++
	}
	var rest strings.Builder
	for line := range strings.Lines(text) {
		if often[line]--; often[line] < 0 {
			rest.WriteString(line)
		}
	}
	return rest.String()
}

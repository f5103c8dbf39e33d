package crashtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Tally sums runs by row and kind of kill.
type Tally struct {
	mu sync.Mutex // guards by
	by map[[2]string]Counts
}

func (l *Tally) add(row, kind string, c Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[[2]string]Counts{}
	}
	sum := l.by[[2]string{row, kind}]
	sum.add(c)
	l.by[[2]string{row, kind}] = sum
}

// Sum adds up all runs.
func (l *Tally) Sum() (c Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.by {
		c.add(d)
	}
	return c
}

// Column is a column of a table.
type Column struct {
	Name  string
	Kinds []string // of moments; nil: all
	Value func(Counts) any
}

// Of makes a column of the kills of some kinds.
func Of(name string, kinds ...string) Column {
	return Column{name, kinds, func(c Counts) any { return c.Kills }}
}

// The columns. The first four after Kills must be 0.
var (
	Kills       = Of("kills")
	AskedAgain  = Column{"asked again, written", nil, func(c Counts) any { return c.AskedAgain }}
	RanAgain    = Column{"run again, finished", nil, func(c Counts) any { return c.RanAgain }}
	OnceAgain   = Column{"run twice, once", nil, func(c Counts) any { return c.OnceAgain }}
	Differences = Column{"differences", nil, func(c Counts) any { return c.RanAgain + c.OnceAgain + c.Differences }}
	Lost        = Column{"asked again, lost", nil, func(c Counts) any { return c.Lost }}
	Harmless    = Column{"run again, harmless", nil, func(c Counts) any { return c.Harmless }}
	Unknown     = Column{"told unknown", nil, func(c Counts) any { return c.Unknown }}
	HeldAnswers = Column{"kills with 0, 1, 2 … answers in the log", nil, func(c Counts) any { return c.At }}
)

// Log writes a table with one line for each row of the tally in this order, or,
// without rows, for each kind of kill.
func (l *Tally) Log(t *testing.T, first string, rows []string, columns ...Column) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	byRow := rows != nil
	if !byRow {
		for at := range l.by {
			rows = append(rows, at[1])
		}
		slices.Sort(rows)
		rows = slices.Compact(rows)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |", first)
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.Name)
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "\n| %s |", row)
		for _, column := range columns {
			var c Counts
			for at, counts := range l.by {
				if byRow && at[0] != row || !byRow && at[1] != row || column.Kinds != nil && !slices.Contains(column.Kinds, at[1]) {
					continue
				}
				c.add(counts)
			}
			fmt.Fprintf(&b, " %v |", column.Value(c))
		}
	}
	t.Logf("\n%s", b.String())
}
